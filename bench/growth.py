#!/usr/bin/env python3
"""How FitGPT grows on this machine: a micro-batch over batch, block, layers and threads.

    bench/growth.py [--rounds N] [--write FILE.md] [--binary FITGPT]

Predicted work and bytes stand beside measured time and memory. One size at a time moves away
from the model in the middle; all points take turns, and the quickest of each counts. The last
column of time is the rate beside that of the middle: 1.00 means that time grows as the work.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

from compare import build, processor

MIDDLE = dict(batch_size=8, block_size=256, n_layer=4, threads=os.cpu_count())
OTHERS = dict(
    batch_size=[1, 2, 4, 8, 16, 32],
    block_size=[64, 128, 256, 512, 1024, 2048],
    n_layer=[1, 2, 4, 8, 16],
    threads=[1 << i for i in range((os.cpu_count() or 1).bit_length())],
)
FIXED = ["--n_head=6", "--n_embd=384", "--vocab_size=65", "--dropout=0.0", "--bias=False",
         "--device=cpu", "--dtype=float32", "--gradient_accumulation_steps=1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="turns of every point")
    parser.add_argument("--write", help="write the tables here too")
    parser.add_argument("--binary", help="a fitgpt that is built already")
    options = parser.parse_args()
    binary = pathlib.Path(options.binary or build()).resolve()
    points = {}
    for key, values in OTHERS.items():
        for value in values:
            point = dict(MIDDLE, **{key: value})
            points[tuple(point.items())] = []
    for turn in range(options.rounds):
        for point, seen in points.items():
            print(f"# {turn + 1} of {options.rounds}: {dict(point)}", file=sys.stderr, flush=True)
            seen.append(measure(binary, dict(point)))
    text = report(points, options.rounds)
    print(text)
    if options.write:
        pathlib.Path(options.write).write_text(text)


def measure(binary, point):
    keys = [f"--{key}={value}" for key, value in point.items()]
    command = [binary, "bench", "--runs=1", "--json", *keys, *FIXED]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    measured = answer["measured"]
    (train,) = [program for program in measured["programs"] if program["name"] == "train"]
    return dict(flops=train["flops"], ms=train["ms"], planned=measured["arena_bytes"],
                resident=measured["resident_bytes"])


def best(seen):
    return dict(seen[0], ms=min(one["ms"] for one in seen),
                resident=max(one["resident"] for one in seen))


def report(points, rounds):
    middle = best(points[tuple(MIDDLE.items())])
    lines = [
        f"# How FitGPT grows, {datetime.date.today()}", "",
        f"{processor()}. One micro-batch, forward and backward, of a model with 384 channels in 6 "
        "heads and 65 words, float32; from batch",
        f"{MIDDLE['batch_size']}, block {MIDDLE['block_size']}, {MIDDLE['n_layer']} layers and "
        f"{MIDDLE['threads']} threads, one size at a time. Best of {rounds} turns.", "",
    ]
    for key, values in OTHERS.items():
        lines += [
            f"| {key} | work, predicted | time | GFLOP/s | of the middle's rate | planned | resident |",
            "|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for value in values:
            one = best(points[tuple(dict(MIDDLE, **{key: value}).items())])
            rate, usual = one["flops"] / one["ms"], middle["flops"] / middle["ms"]
            lines.append(
                f"| {value} | {one['flops'] / 1e9:.1f} GFLOP | {one['ms']:.1f} ms | {rate / 1e6:.0f} "
                f"| {rate / usual:.2f} | {one['planned'] / 1e6:.1f} MB "
                f"| {one['resident'] / 1e6:.1f} MB |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
