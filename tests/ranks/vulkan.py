#!/usr/bin/env python3
"""Trains on Vulkan with one rank and with two, and compares every bit.

    tests/ranks/vulkan.py PROGRAM [--mpirun COMMAND]

PROGRAM is `fitgpt` built with the features `mpi` and `gpu`. Rank r of a machine takes its Vulkan device r; if
there are fewer devices, ranks share them in turns. For equal `lanes` both numbers of ranks must give the same
losses, norms, evaluations and files, also if a run is continued with the other number. Needs `mpirun` and a
Vulkan driver, such as Mesa's, which runs kernels on the CPU.
"""

import argparse
import os
import tempfile
from pathlib import Path

from check import TRAIN, WIDE, Runs, check

# A name and the keys.
CASES = [
    ("float32, dropout", ["--lanes=4", "--dropout=0.1", "--dtype=float32"]),
    ("float16, loss scaling, recomputation, wide", ["--lanes=2", "--dtype=float16", "--grad_checkpoint=True", *WIDE]),
    ("adamw8bit", ["--lanes=2", "--dtype=float32", "--optimizer=adamw8bit", *WIDE]),
    ("llama, muon", ["--lanes=2", "--dtype=float32", "--family=llama", "--n_kv_head=1", "--optimizer=muon"]),
]
STEPS = 6
# Half of a run's sums on a device are in another order than on the CPU: the losses are near 4.1.
APART = 2e-3

KEYS = [key for key in TRAIN if not key.startswith("--device=")]


def trained(runs, ranks, keys, out, device="vulkan"):
    """Everything of a run that must not depend on the number of ranks."""
    runs.remove(out)
    runs.run(ranks, [*KEYS, *keys, f"--device={device}", f"--out_dir={out}"])
    return runs.result(out)


def compare(runs):
    for name, keys in CASES:
        one, two = (trained(runs, ranks, keys, f"vulkan-{ranks}") for ranks in [1, 2])
        check(one == two, f"{name}: two ranks on Vulkan differ from one")
        check(len(one[0]) == STEPS + 1, f"{name}: not all steps are logged")
        # A run that fell back to the CPU would have its bits.
        host = trained(runs, 1, keys, "cpu", "cpu")
        check(host[2] != one[2], f"{name}: the weights are those of the CPU, bit for bit")
        for (step, here, *_), (_, there, *_) in zip(one[0], host[0]):
            check(abs(here - there) < APART, f"{name}, step {step}: {here} on Vulkan, {there} on the CPU")
        print(f"{name}: one and two ranks on Vulkan train the same bits")


def resume(runs):
    """A run that is continued with the other number of ranks."""
    keys = CASES[0][1]
    whole = trained(runs, 1, keys, "whole")
    for first, then in [(1, 2), (2, 1)]:
        trained(runs, first, [*keys, f"--max_iters={STEPS // 2}"], "part")
        runs.run(then, ["--init_from=resume", "--out_dir=part", f"--max_iters={STEPS}"])
        check(runs.result("part")[2:4] == whole[2:4], f"begun with {first} ranks, resumed with {then}: other bits")
        print(f"begun with {first} ranks, resumed with {then}: the same bits")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe" + (" --allow-run-as-root" if os.getuid() == 0 else ""))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # A software driver compiles every kernel at the start of every process.
        runs = Runs(given.program.resolve(), given.mpirun.split(), Path(folder).resolve(), seconds=600)
        compare(runs)
        resume(runs)


if __name__ == "__main__":
    main()
