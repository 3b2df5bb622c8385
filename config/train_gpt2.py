# GPT-2 (124M) on OpenWebText, with nanoGPT's schedule, for a 12 GB card: 8 sequences per micro-batch,
# 512 per step.
#
#   fitgpt prepare openwebtext          (downloads 24 GB; nanoGPT's data/openwebtext/prepare.py
#                                       writes the same kind of files)
#   fitgpt plan config/train_gpt2.py --gpu "RTX 4070"
#   fitgpt train config/train_gpt2.py
#
# Hardware: RTX 4070 (12 GB). The plan is 4.6 GB; under PyTorch it is 6.7 GB plus overhead.
# Time:     2.7e20 floating-point operations: 156 days at an assumed 20 TFLOP/s. nanoGPT's
#           figure is about 4 days on eight A100s. train_openwebtext.py is the same model for a
#           week. Ctrl-C saves a checkpoint, `--init_from=resume` continues.
# Loss:     nanoGPT's published loss is about 2.85.

out_dir = 'out-gpt2'
dataset = 'openwebtext'

# 8 sequences × 64 × 1024 tokens = 524,288 tokens per step
batch_size = 8
gradient_accumulation_steps = 64
block_size = 1024

# 300 B tokens
max_iters = 600000
lr_decay_iters = 600000

eval_interval = 1000
eval_iters = 200
log_interval = 10

weight_decay = 1e-1
