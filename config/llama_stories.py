# A small character-level Llama on the built-in corpus of stories: rotary positions, RMS norm, a
# gated MLP, two query heads for each key/value head. No download.
#
#   fitgpt train config/llama_stories.py
#   fitgpt sample --out_dir=out-llama-stories --start="Once upon a time"
#
# Hardware: any CPU, 1 GB.
# Time:     a minute and a half on two busy cores.
# Loss:     the validation loss ends at 0.99.

out_dir = 'out-llama-stories'
dataset = 'stories'

family = 'llama'
n_layer = 2
n_head = 4
n_kv_head = 2
n_embd = 192
ffn_dim = 512
tie_embeddings = True
dropout = 0.0

eval_interval = 250
eval_iters = 8
eval_batch_size = 8
log_interval = 50

batch_size = 8
gradient_accumulation_steps = 1
block_size = 128

learning_rate = 3e-3
max_iters = 1000
lr_decay_iters = 1000
warmup_iters = 20
min_lr = 3e-4
beta2 = 0.99

start = '\n'
num_samples = 1
max_new_tokens = 400
