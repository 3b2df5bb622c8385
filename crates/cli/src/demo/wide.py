# Wide enough that its memory is more than the program's own, and a few steps short.
dataset = 'stories'
batch_size = 4
gradient_accumulation_steps = 1
block_size = 128
n_layer = 6
n_head = 8
n_embd = 512
threads = 2 # a thread's stack counts as address space

learning_rate = 3e-4
min_lr = 3e-5
warmup_iters = 2
max_iters = 8
lr_decay_iters = 8

eval_interval = 8
eval_iters = 2
log_interval = 2

start = '\n'
num_samples = 1
max_new_tokens = 80
