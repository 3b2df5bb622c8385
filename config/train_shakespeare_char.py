# A character-level GPT on the works of Shakespeare: nanoGPT's first example.
#
#   curl -O https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
#   fitgpt prepare input.txt --chars --out data/shakespeare_char
#   fitgpt train config/train_shakespeare_char.py
#   fitgpt sample --out_dir=out-shakespeare-char
#
# Hardware: RTX 4070 (12 GB), or a smaller card: the plan is 1.4 GB.
# Time:     nanoGPT's figure is about 3 minutes on an A100. Here it is 9e15 floating-point
#           operations, evaluations included: 8 minutes at an assumed 20 TFLOP/s. For a CPU there
#           is train_shakespeare_char_cpu.py.
# Loss:     nanoGPT's published best validation loss is 1.4697.

out_dir = 'out-shakespeare-char'
dataset = 'shakespeare_char'

eval_interval = 250 # short, because it overfits
eval_iters = 200
log_interval = 10
always_save_checkpoint = False # keep the best weights too: the last ones have overfitted

gradient_accumulation_steps = 1
batch_size = 64
block_size = 256

n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2

learning_rate = 1e-3 # a small network tolerates a high rate
max_iters = 5000
lr_decay_iters = 5000
min_lr = 1e-4
beta2 = 0.99 # few tokens per step
warmup_iters = 100
