#!/usr/bin/env python3
"""Times a training loop on the CPU inside and outside of `fitgpt.torch.guard`.

    PYTHONPATH=python bench/guard_overhead.py [ROUNDS]

Each round times both, in alternating order; the medians and the spread are printed.
"""

import statistics
import sys
import time

import torch

import fitgpt.torch as ft


def loop(steps=200):
    for _ in range(steps):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def seconds(is_guarded):
    start = time.perf_counter()
    if is_guarded:
        with ft.guard():
            loop()
    else:
        loop()
    return time.perf_counter() - start


rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
torch.set_num_threads(1)  # with more threads, other load on the machine hides the difference
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(16, 64)
seconds(True), seconds(False)  # warm up
times = {True: [], False: []}
for index in range(rounds):
    for is_guarded in (index % 2 == 0, index % 2 == 1):
        times[is_guarded].append(seconds(is_guarded))
plain, guarded = statistics.median(times[False]), statistics.median(times[True])
spread = (max(times[False]) - min(times[False])) / plain
print(f"200 steps: {plain * 1e3:.1f} ms outside, {guarded * 1e3:.1f} ms inside")
print(f"difference {guarded / plain - 1:+.2%}; the plain loop itself varies by {spread:.0%}")
start = time.perf_counter()
for _ in range(10_000):
    with ft.guard():
        pass
print(f"entering and leaving a guard: {(time.perf_counter() - start) / 10_000 * 1e6:.1f} µs, once a run")
