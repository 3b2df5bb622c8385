#!/usr/bin/env python3
"""The losses of the optimizers over one training of 20 million parameters.

    bench/optimizers.py [--steps N] [--write FILE.md] [--binary FITGPT]

Every optimizer begins with the same weights and sees the same sequences of the built-in stories.
Ends with exit code 1 where 8-bit AdamW's loss is further than 1 % from AdamW's: the mean of the
last fifty steps, and the validation loss at the end. Muon has other learning rates and is shown,
not judged.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

from compare import build, processor

OPTIMIZERS = ["adamw", "adamw8bit", "muon"]
ALLOWED = 0.01
LAST = 50
JOB = ["--n_layer=6", "--n_head=8", "--n_embd=520", "--block_size=128", "--batch_size=4",
       "--gradient_accumulation_steps=1", "--dropout=0.0", "--device=cpu", "--dtype=float32",
       "--learning_rate=6e-4", "--min_lr=6e-5", "--warmup_iters=30", "--eval_iters=25",
       "--beta2=0.95"]


def train(binary, folder, optimizer, steps):
    out = folder / optimizer
    command = [binary, "train", *JOB, f"--optimizer={optimizer}", f"--out_dir={out}",
               f"--max_iters={steps - 1}", f"--lr_decay_iters={steps}",
               f"--eval_interval={steps - 1}"]
    subprocess.run(list(map(str, command)), check=True, cwd=folder, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    evaluations = [event["val_loss"] for event in events if event["event"] == "evaluation"]
    assert len(losses) == steps, f"{len(losses)} steps of {steps}"
    plan = [binary, "plan", *JOB, f"--optimizer={optimizer}", "--json", "--budget=100GB",
            "--dataset=stories"]
    report = json.loads(subprocess.run(list(map(str, plan)), capture_output=True, cwd=folder).stdout)
    update = next(phase for phase in report["phases"] if phase["name"] == "update")
    return {
        "first": losses[0],
        "last": sum(losses[-LAST:]) / LAST,
        "val": evaluations[-1],
        "state": update["classes"]["optimizer"] / 2**20,
        "parameters": update["classes"]["parameters"] / 4e6,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="of each training")
    parser.add_argument("--write", help="write the table here too")
    parser.add_argument("--binary", help="a fitgpt that is built already")
    options = parser.parse_args()
    binary = pathlib.Path(options.binary or build()).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        found = {o: train(binary, folder, o, options.steps) for o in OPTIMIZERS}
    adamw = found["adamw"]
    lines = [
        f"# Optimizers, {datetime.date.today()}",
        "",
        f"{adamw['parameters']:.1f} million parameters, {options.steps} steps of 4 × 128 tokens of",
        f"the built-in stories, float32, on {processor()}.",
        "",
        f"| optimizer | first loss | mean of the last {LAST} | against AdamW | validation | against AdamW | state |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, of in found.items():
        apart = [of[key] / adamw[key] - 1 for key in ("last", "val")]
        lines.append(f"| `{name}` | {of['first']:.4f} | {of['last']:.4f} | {apart[0]:+.2%} | "
                     f"{of['val']:.4f} | {apart[1]:+.2%} | {of['state']:.1f} MiB |")
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if options.write:
        pathlib.Path(options.write).write_text(text)
    eight = found["adamw8bit"]
    return int(any(abs(eight[key] / adamw[key] - 1) > ALLOWED for key in ("last", "val")))


if __name__ == "__main__":
    sys.exit(main())
