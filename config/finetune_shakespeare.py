# Fine-tunes the published GPT-2 (350M) on Shakespeare for a few steps.
#
#   curl -O https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
#   fitgpt prepare input.txt --out data/shakespeare
#   huggingface-cli download openai-community/gpt2-medium
#   fitgpt train config/finetune_shakespeare.py
#   fitgpt sample --out_dir=out-shakespeare --start="My lord,"
#
# Other weights: `--init_from=gpt2`, or the path of a folder with config.json and
# model.safetensors. nanoGPT uses gpt2-xl, whose training state alone exceeds 12 GB.
#
# Hardware: RTX 4070 (12 GB). The plan is 6.6 GB.
# Time:     2e15 floating-point operations, evaluations included: 2 minutes at an assumed
#           20 TFLOP/s, 6 hours on a CPU at an assumed 100 GFLOP/s.
# Loss:     not measured here, and nanoGPT publishes none.

out_dir = 'out-shakespeare'
dataset = 'shakespeare'
init_from = 'gpt2-medium'

eval_interval = 5
eval_iters = 40
log_interval = 1
always_save_checkpoint = False # keep the best weights too: it soon overfits

# 1 sequence × 32 × 1024 tokens = 32,768 tokens per step, nine steps per epoch
batch_size = 1
gradient_accumulation_steps = 32
max_iters = 20

learning_rate = 3e-5
decay_lr = False
