#!/usr/bin/env python3
"""Counts the memory of `torch.compile`'s generated code while a GPT trains as in nanoGPT.

Inductor compiles the model for the CPU, and its generated Python runs: every buffer that it
allocates counts while it is alive, with its size rounded up to 512 bytes. Nothing is computed:
generated kernels and matrix products are replaced by functions that do nothing, so no C++ compiler
is needed. Allocations inside ops that inductor does not generate are not counted: the output and
the log-sum-exp of attention.

    count_inductor_memory.py '{"n_layer": 2, "batch_size": 2}' …
    count_inductor_memory.py --again FILE.jsonl     count its configs again

Wrote `compiled.jsonl` and `compiled_cpu_dropout.jsonl` in `crates/plan/tests/torch_peaks` (`--again` of
themselves). Prints one JSON line for each configuration: the first evaluation, one micro-batch once
gradients and Adam's moments exist, and the bytes alive after its forward. Needs PyTorch 2.x (written with 2.15) and no GPU; CUDA's
inductor differs in details.
"""

import argparse
import gc
import json
import weakref

import torch
import torch._inductor.config
import torch._meta_registrations
import torch._inductor.select_algorithm as select_algorithm
from torch._inductor.async_compile import AsyncCompile
from torch._C._dynamo import guards

from count_torch_memory import DEFAULTS, Gpt

LIBRARY = torch.library.Library("aten", "IMPL")


class Buffers:
    """Live and peak bytes of inductor's buffers and of the tensors passed to `see`."""

    def __init__(self):
        self.sizes = {}
        self.bytes = self.peak = 0

    def see(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.sizes:
            return tensor
        size = -(-storage.nbytes() // 512) * 512

        def freed(_, key=key):
            self.bytes -= self.sizes.pop(key)[0]

        self.sizes[key] = (size, weakref.ref(storage, freed))
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        return tensor

    def peak_of(self, run):
        gc.collect()
        self.peak = self.bytes
        result = run()
        return self.peak, result


def run_nothing(buffers):
    """Makes generated code allocate and do nothing else."""
    allocate = guards._empty_strided_cpu
    guards._empty_strided_cpu = lambda *args: buffers.see(allocate(*args))
    AsyncCompile.cpp_pybinding = lambda *_, **__: lambda *_: None
    for name in ("mm", "addmm", "bmm", "baddbmm"):
        setattr(select_algorithm.extern_kernels, name, lambda *_, **__: None)
    attention = "_scaled_dot_product_flash_attention_for_cpu"
    for name in (attention, attention + "_backward"):
        shapes_only = getattr(torch._meta_registrations, "meta_" + name)
        LIBRARY.impl(name, shapes_only, "CPU", allow_override=True)
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.compile_threads = 1


def count(config, buffers):
    config = argparse.Namespace(**{**DEFAULTS, "rules": "cpu", **config})
    torch._dynamo.reset()
    model = Gpt(config)
    for parameter in model.parameters():
        buffers.see(parameter)
    compiled = torch.compile(model)
    autocast = torch.autocast("cpu", dtype=torch.bfloat16)

    def batch():
        shape = (config.batch_size, config.block_size)
        return [buffers.see(torch.zeros(shape, dtype=torch.long)) for _ in range(2)]

    @torch.no_grad()
    def evaluate():
        model.eval()
        for _ in range(3):
            X, Y = batch()
            with autocast:
                logits, loss = compiled(X, Y)
        model.train()

    X, Y = batch()
    figures = {}
    figures["eval_first_peak"], _ = buffers.peak_of(evaluate)
    # Adam's state: two moments and a step for each parameter.
    state = [torch.empty_like(p) for p in model.parameters() for _ in range(2)]
    state += [torch.empty(()) for _ in model.parameters()]
    for tensor in state:
        buffers.see(tensor)
    logits = loss = None
    for _ in range(2):
        buffers.peak = buffers.bytes
        with autocast:
            logits, loss = compiled(X, Y)
            loss = loss / 2
        figures["after_forward"] = buffers.bytes
        X, Y = batch()
        loss.backward()
        figures["step_peak"] = buffers.peak
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", help="JSON objects with nanoGPT's keys")
    parser.add_argument("--again", metavar="FILE")
    args = parser.parse_args()
    configs = [json.loads(text) for text in args.configs]
    if args.again:
        configs += [json.loads(line)["config"] for line in open(args.again).readlines()]
    buffers = Buffers()
    run_nothing(buffers)
    for config in configs:
        figures = count(config, buffers)
        print(json.dumps(dict(config=config, torch_compile_bytes=figures)), flush=True)
        gc.collect()
        buffers.bytes = sum(size for size, _ in buffers.sizes.values())


if __name__ == "__main__":
    main()
