# A model that learns the first letters of little stories in seconds.
dataset = 'stories'
batch_size = 16
gradient_accumulation_steps = 1
block_size = 64
n_layer = 2
n_head = 4
n_embd = 96
dropout = 0.1

learning_rate = 2e-3
min_lr = 2e-4
beta2 = 0.99
warmup_iters = 20
max_iters = 80
lr_decay_iters = 80

eval_interval = 20
eval_iters = 2
eval_batch_size = 16
log_interval = 10

start = '\n'
num_samples = 1
max_new_tokens = 60
