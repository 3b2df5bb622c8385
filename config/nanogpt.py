# nanoGPT's defaults, so this file sets no key: GPT-2 (124M) on OpenWebText, 12 sequences per
# micro-batch, 480 per step.
#
#   fitgpt prepare openwebtext          (downloads 24 GB; nanoGPT's data/openwebtext/prepare.py
#                                       writes the same kind of files)
#   fitgpt plan config/nanogpt.py --gpu "RTX 4070"
#   fitgpt train config/nanogpt.py
#
# Hardware: RTX 4070 (12 GB).
# Time:     2.5e20 floating-point operations. nanoGPT's figure is about 4 days on eight A100s.
# Loss:     nanoGPT's published loss is about 2.85.
