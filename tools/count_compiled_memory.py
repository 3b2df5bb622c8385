#!/usr/bin/env python3
"""Counts the memory of compiled nanoGPT on a card that is not there, with `fitgpt.torch`.

Dynamo, AOTAutograd and Inductor compile for CUDA, and the generated code runs on fake tensors with
kernels that do nothing (`python/fitgpt/torch/compiled.py`).

    PYTHONPATH=python:tests tools/count_compiled_memory.py '{"n_layer": 2, "batch_size": 2}' …
    PYTHONPATH=python:tests tools/count_compiled_memory.py --all        the configs below
    PYTHONPATH=python:tests tools/count_compiled_memory.py --again FILE.jsonl

Wrote `tests/pretend/compiled_cuda.jsonl` (`--all`, PyTorch 2.15). Prints one JSON line for each
configuration: the first evaluation, the bytes alive after the forward of a micro-batch once gradients
and Adam's moments exist, the peak of its step before clipping and update, and the version. Bytes are
live storages in blocks of 512. Absent keys mean bfloat16, vocabulary 50304, no bias, no dropout;
`loss_alone` means that a training forward returns `(None, loss)`.
"""

import argparse
import json
import sys

import torch

import fitgpt.torch as ft
from pretend import nanogpt

_SMALL = dict(n_layer=6, n_head=6, n_embd=384, block_size=256, vocab_size=65)
_GPT2 = dict(n_layer=12, n_head=12, n_embd=768, block_size=1024)
CONFIGS = [
    dict(_GPT2, n_layer=2, batch_size=2),
    dict(_GPT2, n_layer=4, batch_size=2),
    dict(_GPT2, n_layer=2, batch_size=4),
    dict(_GPT2, n_layer=2, batch_size=4, loss_alone=True),
    dict(_GPT2, n_layer=3, batch_size=4, bias=True),
    dict(_GPT2, n_layer=3, batch_size=4, bias=True, loss_alone=True),
    dict(_GPT2, n_layer=2, batch_size=4, dropout=0.1),
    dict(_GPT2, n_layer=2, batch_size=4, dropout=0.1, bias=True),
    dict(_GPT2, n_layer=2, batch_size=4, dropout=0.1, loss_alone=True),
    dict(_GPT2, n_layer=2, batch_size=4, dtype="float16"),
    dict(_GPT2, n_layer=2, batch_size=4, dtype="float32"),
    dict(_GPT2, n_layer=2, batch_size=4, dtype="float32", loss_alone=True),
    dict(_GPT2, n_layer=2, batch_size=4, dtype="float32", dropout=0.1),
    dict(_GPT2, n_layer=2, batch_size=2, vocab_size=50257),
    dict(_GPT2, n_layer=2, batch_size=4, grad_checkpoint=True),
    dict(_GPT2, n_layer=4, batch_size=4, grad_checkpoint=True, loss_alone=True),
    dict(_SMALL, batch_size=8),
    dict(_SMALL, batch_size=64, dropout=0.2),
    dict(_SMALL, batch_size=64, dropout=0.2, dtype="float16"),
    dict(_SMALL, batch_size=64, dropout=0.2, loss_alone=True),
    dict(_SMALL, n_layer=4, n_head=4, n_embd=128, block_size=64, batch_size=12),
    dict(_SMALL, batch_size=16, block_size=512, vocab_size=50304, dtype="float32"),
    dict(_SMALL, batch_size=16, block_size=512, vocab_size=50304),
    dict(_SMALL, batch_size=16, block_size=512, vocab_size=50304, loss_alone=True),
    dict(_GPT2, n_layer=3, n_head=16, n_embd=1024, batch_size=3),
    dict(_GPT2, n_layer=3, n_head=16, n_embd=1024, batch_size=3, loss_alone=True),
    dict(_GPT2, n_layer=2, n_head=8, n_embd=512, block_size=2048, batch_size=3, vocab_size=32000),
    dict(_GPT2, n_embd=576, batch_size=16),
    dict(_GPT2, n_embd=576, batch_size=16, loss_alone=True),
    dict(_GPT2, batch_size=4),
    dict(_GPT2, batch_size=8),
    dict(_GPT2, batch_size=8, loss_alone=True),
    dict(_GPT2, batch_size=12),
    dict(_GPT2, batch_size=12, loss_alone=True),
    dict(_GPT2, batch_size=16),
    dict(_GPT2, batch_size=16, loss_alone=True),
    dict(_GPT2, batch_size=12, bias=True, dropout=0.1),
    dict(_GPT2, n_layer=24, n_head=16, n_embd=1024, batch_size=4),
]


def count(config):
    with ft.pretend("cuda") as m:
        nanogpt.train({**config, "compile": True}, "cuda", m)
    for note in m.notes:
        print(f"{config}: {note}", file=sys.stderr)
    names = ("eval_first_peak", "after_forward", "step_peak")
    return {name: m.phases[name].peak_bytes for name in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", type=json.loads, help="JSON objects with nanoGPT's keys")
    parser.add_argument("--all", action="store_true", help="count the configs of this file")
    parser.add_argument("--again", metavar="FILE", help="count the configs of a file")
    args = parser.parse_args()
    configs = args.configs + (CONFIGS if args.all else [])
    if args.again:
        configs += [json.loads(line)["config"] for line in open(args.again)]
    for config in configs:
        row = dict(config=config, torch_compile_bytes=count(config), torch=torch.__version__)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
