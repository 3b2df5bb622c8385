#!/usr/bin/env python3
"""Compares the optimizers' losses over one training run of 20 million parameters.

    bench/optimizers.py [--muon] [--steps N] [--block N] [--write FILE.md] [--binary FITGPT]

Every optimizer starts from the same weights and sees the same sequences of the built-in stories.
The exit code is 1 if 8-bit AdamW's loss is more than 1 % from AdamW's, either the mean of the last
fifty steps or the final validation loss. With `--muon`, Muon runs too. It has its own learning
rates, so its losses are reported but do not affect the exit code.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

from compare import build, processor

ALLOWED = 0.01
LAST = 50
BATCH = 4
JOB = ["--n_layer=6", "--n_head=8", "--n_embd=520", f"--batch_size={BATCH}",
       "--gradient_accumulation_steps=1", "--dropout=0.0", "--device=cpu", "--dtype=float32",
       "--learning_rate=6e-4", "--min_lr=6e-5", "--warmup_iters=30", "--eval_iters=25",
       "--beta2=0.95"]


def train(binary, folder, optimizer, steps, block):
    out = folder / optimizer
    job = [*JOB, f"--block_size={block}", f"--optimizer={optimizer}"]
    command = [binary, "train", *job, f"--out_dir={out}",
               f"--max_iters={steps - 1}", f"--lr_decay_iters={steps}",
               f"--eval_interval={steps - 1}"]
    subprocess.run(list(map(str, command)), check=True, cwd=folder, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    evaluations = [event["val_loss"] for event in events if event["event"] == "evaluation"]
    assert len(losses) == steps, f"{len(losses)} steps of {steps}"
    plan = [binary, "plan", *job, "--json", "--budget=100GB", "--dataset=stories"]
    answer = subprocess.run(list(map(str, plan)), check=True, stdout=subprocess.PIPE, cwd=folder)
    report = json.loads(answer.stdout)
    update = next(phase for phase in report["phases"] if phase["name"] == "update")
    return {
        "first": losses[0],
        "last": sum(losses[-LAST:]) / len(losses[-LAST:]),
        "val": evaluations[-1],
        "state": update["classes"]["optimizer"] / 2**20,
        "parameters": update["classes"]["parameters"] / 4e6,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muon", action="store_true", help="also train with Muon")
    parser.add_argument("--steps", type=int, default=300, help="steps with each optimizer")
    parser.add_argument("--block", type=int, default=128, help="tokens in a sequence")
    parser.add_argument("--write", help="also write the table to this file")
    parser.add_argument("--binary", help="use this fitgpt instead of building one")
    options = parser.parse_args()
    binary = pathlib.Path(options.binary or build()).resolve()
    optimizers = ["adamw", "adamw8bit"] + ["muon"] * options.muon
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        results = {name: train(binary, folder, name, options.steps, options.block)
                   for name in optimizers}
    adamw = results["adamw"]
    lines = [
        f"# Optimizers, {datetime.date.today()}",
        "",
        f"{adamw['parameters']:.1f} million parameters, {options.steps} steps of {BATCH} × {options.block} "
        f"tokens of the built-in stories, float32, on {processor()}.",
        "",
        f"| optimizer | first loss | mean of the last {LAST} | vs AdamW | validation | vs AdamW | state |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        apart = [result[key] / adamw[key] - 1 for key in ("last", "val")]
        lines.append(f"| `{name}` | {result['first']:.4f} | {result['last']:.4f} | {apart[0]:+.2%} | "
                     f"{result['val']:.4f} | {apart[1]:+.2%} | {result['state']:.1f} MiB |")
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if options.write:
        pathlib.Path(options.write).write_text(text)
    eight = results["adamw8bit"]
    return int(any(abs(eight[key] / adamw[key] - 1) > ALLOWED for key in ("last", "val")))


if __name__ == "__main__":
    sys.exit(main())
