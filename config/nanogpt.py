# nanoGPT's defaults: every key of its train.py as it is there, so that no key is set here. GPT-2 (124M)
# on OpenWebText, 12 sequences per micro-batch, 480 per step.
#
#   fitgpt prepare openwebtext.jsonl --out data/openwebtext     (one document a line, under "text";
#                                       nanoGPT's data/openwebtext/prepare.py writes the same files)
#   fitgpt plan config/nanogpt.py --gpu "RTX 4070"
#   fitgpt train config/nanogpt.py
#
# Hardware: RTX 4070 (12 GB).
# Time:     2.5e20 floating-point operations. nanoGPT's figure is about 4 days on eight A100s.
# Loss:     nanoGPT's published loss is about 2.85.
