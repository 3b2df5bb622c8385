n_layer = 36
n_head = 20
n_embd = 1280
batch_size = 1
gradient_accumulation_steps = 40
block_size = 512
compile = False
dtype = 'float16'
