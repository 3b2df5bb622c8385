# SmolLM-135M's shape (30 layers of 576 channels, 9 query heads on 3 key/value heads) from
# scratch, on a dataset with GPT-2's tokens, as `fitgpt prepare` writes.
#
#   fitgpt train config/train_smollm_135m.py --dataset=openwebtext
#
# To start from the published weights instead: --init_from=HuggingFaceTB/SmolLM-135M, on data with
# its tokenizer.
#
# Hardware: RTX 4070 (12 GB).
# Time:     not measured.
# Loss:     not measured.

out_dir = 'out-smollm-135m'
dataset = 'openwebtext'

family = 'llama'
n_layer = 30
n_head = 9
n_kv_head = 3
n_embd = 576
ffn_dim = 1536
tie_embeddings = True
vocab_size = 50304
dropout = 0.0

batch_size = 4
gradient_accumulation_steps = 128
block_size = 1024

eval_interval = 1000
eval_iters = 50
log_interval = 10

learning_rate = 1e-3
weight_decay = 0.1
max_iters = 100000
lr_decay_iters = 100000
warmup_iters = 2000
min_lr = 1e-4
