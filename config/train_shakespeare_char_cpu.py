# A character-level GPT on the works of Shakespeare, small enough for a laptop without a GPU.
#
#   curl -O https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
#   fitgpt prepare input.txt --chars --out data/shakespeare_char
#   fitgpt train config/train_shakespeare_char_cpu.py
#   fitgpt sample --out_dir=out-shakespeare-char
#
# Hardware: any CPU, 1 GB.
# Time:     nanoGPT's figure is about 3 minutes on a laptop. Here it is 8.4e12 floating-point
#           operations: 84 seconds at an assumed 100 GFLOP/s.
# Loss:     nanoGPT's published validation loss is 1.88.

out_dir = 'out-shakespeare-char'
dataset = 'shakespeare_char'
device = 'cpu'
compile = False

eval_interval = 250
eval_iters = 20
log_interval = 1
always_save_checkpoint = False

gradient_accumulation_steps = 1
batch_size = 12
block_size = 64

n_layer = 4
n_head = 4
n_embd = 128
dropout = 0.0

learning_rate = 1e-3
max_iters = 2000
lr_decay_iters = 2000
min_lr = 1e-4
beta2 = 0.99
warmup_iters = 100
