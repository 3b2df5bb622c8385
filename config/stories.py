# A small character-level GPT on the built-in corpus of stories, which the program generates. No
# download.
#
#   fitgpt train
#   fitgpt sample --start="Once upon a time"
#
# Hardware: any CPU, 1 GB.
# Time:     about a minute on two cores.
# Loss:     the validation loss ends at 1.02.

out_dir = 'out-stories'
dataset = 'stories'

eval_interval = 250
eval_iters = 8
eval_batch_size = 8
log_interval = 50

batch_size = 8
gradient_accumulation_steps = 1
block_size = 128

n_layer = 2
n_head = 4
n_embd = 192
dropout = 0.0

learning_rate = 3e-3
max_iters = 1000
lr_decay_iters = 1000
warmup_iters = 20
min_lr = 3e-4
beta2 = 0.99

start = '\n'
num_samples = 1
max_new_tokens = 400
