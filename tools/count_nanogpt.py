#!/usr/bin/env python3
"""Counts nanoGPT's `train.py`, unchanged, with several configs, next to the plans of the same configs.

    PYTHONPATH=python tools/count_nanogpt.py CHECKOUT [ROW…]

CHECKOUT is github.com/karpathy/nanoGPT; `FITGPT` names a built program. The data is made here, in a copy of
the checkout. Each run evaluates, makes two optimizer steps, saves and stops. Prints the table of
`docs/any-script.md`, with PyTorch's allocator next to the tensors, and the difference between the tensors of
the count and those of `fitgpt plan --engine torch`.
"""

import argparse
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

import fitgpt

CARD = "RTX 4070"
MIB = 1 << 20
CHARACTERS = 65
# nanoGPT's arguments; without `--compile=False` its code is compiled.
ROWS = (
    (),
    ("--batch_size=16",),
    ("--batch_size=8", "--dropout=0.1", "--bias=True"),
    ("--compile=False",),
    ("--n_layer=24", "--n_head=16", "--n_embd=1024", "--batch_size=4"),
    ("config/train_shakespeare_char.py",),
    ("config/train_shakespeare_char.py", "--compile=False", "--batch_size=12", "--n_layer=4", "--n_head=4", "--n_embd=128"),
)


def prepare(checkout, folder):
    """A copy of the checkout with data of its own."""
    copy = folder / "nanoGPT"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "*.bin", "*.pkl"))
    for name, vocabulary in (("openwebtext", 50257), ("shakespeare_char", CHARACTERS)):
        data = copy / "data" / name
        data.mkdir(exist_ok=True)
        for split in ("train", "val"):
            (numpy.arange(100_000) % vocabulary).astype(numpy.uint16).tofile(data / f"{split}.bin")
    letters = [chr(33 + index) for index in range(CHARACTERS)]
    meta = {
        "vocab_size": CHARACTERS, "itos": dict(enumerate(letters)),
        "stoi": {letter: index for index, letter in enumerate(letters)},
    }  # fmt: skip
    (copy / "data/shakespeare_char/meta.pkl").write_bytes(pickle.dumps(meta))
    return copy


def run(command, folder, **environment):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-4000:]}") from None


def row(copy, arguments):
    started = time.monotonic()
    paths = [str(pathlib.Path(__file__).resolve().parent.parent / "python"), os.environ.get("PYTHONPATH", "")]
    count = [sys.executable, "-W", "ignore", "-m", "fitgpt.torch", "train.py", "--card", CARD, "--json", "--quiet"]
    found = run([*count, "--", *arguments], copy, PYTHONPATH=os.pathsep.join(paths), OMP_NUM_THREADS="1")
    seconds = time.monotonic() - started
    if found["error"]:
        raise SystemExit(found["error"])
    phases = {phase["name"]: phase["peak_bytes"] for phase in found["phases"]}
    plan = run([fitgpt.program(), "plan", "--engine", "torch", "--gpu", CARD, "--json", *_for_plan(arguments)], copy)
    planned = plan["peak_bytes"]
    print(f"{' '.join(arguments)}: {phases}, planned {planned}, {seconds:.0f} s", file=sys.stderr, flush=True)
    cells = [phases[name] for name in ("evaluate", "train", "update")]
    cells += [found["allocated_bytes"], found["reserved_bytes"]]
    difference = 100 * (planned / found["peak_bytes"] - 1)
    text = " | ".join(f"{cell / MIB:,.1f}" for cell in cells)
    return f"| `{' '.join(arguments) or 'train.py'}` | {text} | {found['verdict']} | {difference:+.2f} % |"


def _for_plan(arguments):
    """A plan knows a vocabulary by its number: nanoGPT reads it from the dataset."""
    is_by_letter = any("shakespeare_char" in argument for argument in arguments)
    return [*arguments, *([f"--vocab_size={CHARACTERS}"] if is_by_letter else [])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("rows", nargs="*", type=int, help="numbers of rows, from 0")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = prepare(args.checkout.resolve(), pathlib.Path(folder))
        print(f"| arguments | evaluate | train | update | allocated | reserved | {CARD} | the plan |")
        print("|---|--:|--:|--:|--:|--:|---|--:|")
        for index in args.rows or range(len(ROWS)):
            print(row(copy, ROWS[index]), flush=True)


if __name__ == "__main__":
    main()
