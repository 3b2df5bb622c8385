# GPT-2 (124M) for one pass over OpenWebText, about ten billion tokens: days instead of months on a
# 12 GB card. 8 sequences per micro-batch, 512 per step.
#
#   fitgpt prepare openwebtext          (downloads 24 GB; nanoGPT's data/openwebtext/prepare.py
#                                       writes the same kind of files)
#   fitgpt plan config/train_openwebtext.py --gpu "RTX 4070"
#   fitgpt train config/train_openwebtext.py
#
# Hardware: RTX 4070 (12 GB). The plan is 4.6 GB; under PyTorch it is 6.7 GB plus overhead.
# Time:     8.6e18 floating-point operations: 5 days at an assumed 20 TFLOP/s.
# Loss:     not measured, and not published for this schedule; nanoGPT's 2.85 is after thirty times
#           as many tokens.

out_dir = 'out-openwebtext'
dataset = 'openwebtext'

# 8 sequences × 64 × 1024 tokens = 524,288 tokens per step
batch_size = 8
gradient_accumulation_steps = 64
block_size = 1024

# 10 B tokens
max_iters = 19073
lr_decay_iters = 19073
warmup_iters = 700

eval_interval = 250
eval_iters = 100
log_interval = 10

weight_decay = 1e-1
