# GPT-2 (124M) on a 12 GB card, with the batch of a larger one.
batch_size = 64
gradient_accumulation_steps = 8
block_size = 1024
n_layer = 12
n_head = 12
n_embd = 768
dropout = 0.0
bias = False
eval_iters = 200
dtype = 'bfloat16'
compile = True
