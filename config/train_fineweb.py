# GPT-2 (124M) on ten billion tokens of FineWeb, for a 12 GB card: 8 sequences per micro-batch,
# 512 per step.
#
#   fitgpt prepare fineweb --sample sample-10BT --eot before --val_fraction 0.01
#                                       (states the size of the download first)
#   fitgpt plan config/train_fineweb.py --gpu "RTX 4070"
#   fitgpt train config/train_fineweb.py
#
# Hardware: RTX 4070 (12 GB). The plan is 4.6 GB; under PyTorch it is 6.7 GB plus overhead.
# Time:     8.5e18 floating-point operations: 5 days at an assumed 20 TFLOP/s.
# Loss:     not measured here; llm.c's published validation loss after ten billion tokens of
#           FineWeb is about 3.28, with this model and the same number of tokens per step.

out_dir = 'out-fineweb'
dataset = 'fineweb'

# 8 sequences × 64 × 1024 tokens = 524,288 tokens per step
batch_size = 8
gradient_accumulation_steps = 64
block_size = 1024
bias = True

# 9.9 B tokens
max_iters = 18865
lr_decay_iters = 18865
warmup_iters = 700
learning_rate = 6e-4
min_lr = 0.0

eval_interval = 250
eval_iters = 20
log_interval = 10

weight_decay = 1e-1
