#!/usr/bin/env python3
"""Measures how time and memory of a micro-batch grow with batch, block, layers and threads.

    bench/growth.py [--rounds N] [--write FILE.md] [--binary FITGPT]

Prints predicted work and bytes next to measured time and memory. One size at a time is varied from
a middle model. Every round measures all points, and the fastest time of each is reported. The
relative rate is a point's FLOP/s divided by the middle model's: at 1.00 time grows with the work.
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
    parser.add_argument("--rounds", type=int, default=3, help="measurements of every point")
    parser.add_argument("--write", help="also write the tables to this file")
    parser.add_argument("--binary", help="use this fitgpt instead of building one")
    options = parser.parse_args()
    binary = pathlib.Path(options.binary or build()).resolve()
    points = {}
    for key, values in OTHERS.items():
        for value in values:
            point = dict(MIDDLE, **{key: value})
            points[tuple(point.items())] = []
    for index in range(options.rounds):
        for point, results in points.items():
            print(f"# {index + 1} of {options.rounds}: {dict(point)}", file=sys.stderr, flush=True)
            results.append(measure(binary, dict(point)))
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


def best(results):
    return dict(results[0], ms=min(one["ms"] for one in results),
                resident=max(one["resident"] for one in results))


def report(points, rounds):
    middle = best(points[tuple(MIDDLE.items())])
    lines = [
        f"# How FitGPT grows, {datetime.date.today()}", "",
        f"{processor()}. One micro-batch, forward and backward, of a model with 384 channels in 6 "
        "heads and a vocabulary of 65, float32. One size at a time is varied from batch",
        f"{MIDDLE['batch_size']}, block {MIDDLE['block_size']}, {MIDDLE['n_layer']} layers and "
        f"{MIDDLE['threads']} threads. Best of {rounds} rounds.", "",
    ]
    for key, values in OTHERS.items():
        lines += [
            f"| {key} | work, predicted | time | GFLOP/s | relative rate | planned | resident |",
            "|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for value in values:
            one = best(points[tuple(dict(MIDDLE, **{key: value}).items())])
            rate, middle_rate = one["flops"] / one["ms"], middle["flops"] / middle["ms"]
            lines.append(
                f"| {value} | {one['flops'] / 1e9:.1f} GFLOP | {one['ms']:.1f} ms | {rate / 1e6:.0f} "
                f"| {rate / middle_rate:.2f} | {one['planned'] / 1e6:.1f} MB "
                f"| {one['resident'] / 1e6:.1f} MB |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
