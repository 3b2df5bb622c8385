#!/usr/bin/env python3
"""Measures runs of several processes: speed, overlap, memory.

    bench/ranks.py PROGRAM [speed] [overlap] [memory] [--rounds N] [--mpirun COMMAND]

PROGRAM is `fitgpt` built with feature `mpi`. Without a name, all three are measured.

speed    two ranks with one thread each compared with one process with two threads, in alternation:
         `shakespeare_char` with a step of 2 x 32 sequences. Exits with 1 if two ranks reach less
         than 0.9 of the tokens/s.
overlap  two ranks that send gradients during the backward pass, or after it (FITGPT_OVERLAP=0), on
         a model whose messages take a large part of a step; both must train the same bits.
memory   GPT-2 124M on four ranks: the resident memory of each compared with its plan and with a
         single process. Exits with 1 if a rank is more than 2 % below its plan, or exceeds it by
         more than 2 % plus the stated allowances.

Other programs on the machine disturb the times; compare the best rounds. CPU time is summed over
all processes.
"""

import argparse
import array
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MPIRUN = "mpirun --oversubscribe" + (" --allow-run-as-root" if os.getuid() == 0 else "")
COMMON = ["--dataset=random", "--device=cpu", "--compile=False", "--eval_iters=1", "--eval_interval=100000",
          "--num_samples=1", "--max_new_tokens=1"]  # fmt: skip
CHAR = ["--vocab_size=65", "--n_layer=6", "--n_head=6", "--n_embd=384", "--block_size=256", "--dropout=0.2",
        "--batch_size=32", "--gradient_accumulation_steps=2", "--max_iters=2"]  # fmt: skip
# 19 million parameters and few tokens: 77 MB of gradients for each second of computation.
MESSAGE_HEAVY = ["--vocab_size=5000", "--n_layer=6", "--n_head=8", "--n_embd=512", "--block_size=128", "--dropout=0.0",
                 "--batch_size=2", "--gradient_accumulation_steps=2", "--max_iters=8"]  # fmt: skip
# Without a config file `train` starts from the built-in preset, so every size is given.
GPT2 = ["--vocab_size=50304", "--n_layer=12", "--n_head=12", "--n_embd=768", "--block_size=64", "--batch_size=1", "--gradient_accumulation_steps=4", "--dropout=0.0",
        "--max_iters=100000"]  # fmt: skip
MIB = 1 << 20
# `plan` states these in addition to the arena: the program itself, and MPI (`run/setup.rs`).
PROGRAM_MIB, MPI_MIB = 32, 32


class Runs:
    def __init__(self, program, mpirun, folder):
        self.program, self.mpirun, self.folder = program, mpirun.split(), folder
        data = folder / "data/random"
        data.mkdir(parents=True)
        numbers = random.Random(7)
        for name in ["train.bin", "val.bin"]:
            array.array("H", [numbers.randrange(65) for _ in range(200_000)]).tofile(open(data / name, "wb"))

    def command(self, ranks, out, keys):
        train = [str(self.program), "train", *COMMON, *keys, f"--out_dir={out}", "--overwrite"]
        return train if ranks == 1 else [*self.mpirun, "-np", str(ranks), *train]

    def start(self, ranks, out, keys, environment=None):
        shutil.rmtree(self.folder / out, ignore_errors=True)
        return subprocess.Popen(
            self.command(ranks, out, keys), cwd=self.folder, env={**os.environ, **(environment or {})},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, ranks, out, keys, environment=None):
        """Returns the steps after the first, and the CPU time of the whole run."""
        process = self.start(ranks, out, keys, environment)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{process.args}: {status}\n{errors}")
        return self.steps(out)[1:], usage.ru_utime + usage.ru_stime

    def steps(self, out):
        lines = open(self.folder / out / "events.jsonl").read().splitlines()
        return [e for e in map(json.loads, lines) if e["event"] == "step"]


def speed(runs, rounds):
    """Returns whether two ranks are fast enough."""
    best, cpu = {}, {}
    for at in range(rounds):
        for name, ranks, threads in [("one process, two threads", 1, 2), ("two ranks, one thread", 2, 1)]:
            steps, seconds = runs.run(ranks, f"speed-{ranks}", [*CHAR, f"--threads={threads}"])
            rate = max(step["tokens_per_s"] for step in steps)
            best[ranks] = max(best.get(ranks, 0), rate)
            cpu[ranks] = min(cpu.get(ranks, 1e9), seconds)
            waits = [f"{step['wait_ms']:.0f}" for step in steps if "wait_ms" in step]
            print(f"round {at + 1}, {name}: {rate:.0f} tokens/s, {seconds:.1f} s of CPU" + (f", waited {waits} ms" if waits else ""))
    ratio = best[2] / best[1]
    print(f"speed: two ranks reach {ratio:.2f} of one process ({best[2]:.0f} and {best[1]:.0f} tokens/s); CPU {cpu[2] / cpu[1]:.2f}")
    return ratio >= 0.9


def overlap(runs, rounds):
    """Returns whether both variants train the same bits."""
    names = {"1": "during the backward pass", "0": "after it"}
    ms, waits, bits = {key: [] for key in names}, {key: [] for key in names}, {}
    for _ in range(rounds):
        for key in names:
            steps, _ = runs.run(2, f"overlap-{key}", [*MESSAGE_HEAVY, "--threads=1"], {"FITGPT_OVERLAP": key})
            ms[key] += [step["ms"] for step in steps]
            waits[key] += [step["wait_ms"] for step in steps]
            bits[key] = [(step["loss"], step["grad_norm"]) for step in steps]
    for key, name in names.items():
        print(f"overlap, sent {name}: step best {min(ms[key]):.0f} ms, median {statistics.median(ms[key]):.0f} ms; "
              f"waited best {min(waits[key]):.0f} ms, median {statistics.median(waits[key]):.0f} ms")  # fmt: skip
    return bits["0"] == bits["1"]


def ranks_of(process):
    """The processes of a run, by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            name = (folder / "comm").read_text().strip()
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        rank = next((e.split(b"=")[1] for e in environment if e.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="))), b"0")
        if name.startswith("fitgpt") and process.pid in (parent, int(folder.name)):
            found[int(rank)] = folder
    return found


def resident(folder):
    lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1024


def memory(runs):
    """Returns whether every rank is within its plan."""
    is_within, all_resident = True, {}
    for ranks in [1, 4]:
        plan = [str(runs.program), "plan", *GPT2, "--device=cpu", "--threads=1", "--json"]
        plan = json.loads(subprocess.run([*plan, f"--ranks={ranks}"], capture_output=True, text=True, check=True).stdout)
        arena = plan["arena_bytes"] / MIB
        messages = plan["ranks"]["buffer_bytes"] / MIB
        process = runs.start(ranks, f"memory-{ranks}", [*GPT2, "--threads=1"])
        log = runs.folder / f"memory-{ranks}/events.jsonl"
        while not (log.exists() and '"step","step":2' in log.read_text().replace(" ", "")):
            if process.poll() is not None:
                sys.exit(process.stderr.read())
            time.sleep(0.2)
        allowed = 1.02 * arena + messages + PROGRAM_MIB + (MPI_MIB if ranks > 1 else 0)
        all_resident[ranks] = {rank: resident(folder) for rank, folder in sorted(ranks_of(process).items())}
        process.terminate()
        process.wait()
        if len(all_resident[ranks]) != ranks:
            sys.exit(f"found {len(all_resident[ranks])} of {ranks} ranks")
        for rank, mib in all_resident[ranks].items():
            # Far below its plan means that another model was trained than was planned.
            is_within &= 0.98 * arena <= mib <= allowed
            print(f"memory, rank {rank} of {ranks}: {mib:.0f} MiB resident; arena {arena:.0f} MiB, messages {messages:.0f} MiB, "
                  f"{100 * (mib - messages) / arena - 100:+.1f} % of the arena in addition to both")  # fmt: skip
        moments = [size / MIB for size in plan["ranks"]["optimizer_bytes"]]
        print(f"memory, {ranks} ranks: optimizer state of a rank {moments[0]:.0f} to {moments[1]:.0f} MiB")
    saved = all_resident[1][0] - max(all_resident[4].values())
    print(f"memory: a rank of four uses {saved:.0f} MiB less than a single process")
    return is_within


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("what", nargs="*", choices=["speed", "overlap", "memory", []])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mpirun", default=MPIRUN)
    given = parser.parse_args()
    what = given.what or ["speed", "overlap", "memory"]
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(given.program.resolve(), given.mpirun, Path(folder))
        passed = True
        if "speed" in what:
            passed &= speed(runs, given.rounds)
        if "overlap" in what:
            passed &= overlap(runs, given.rounds)
        if "memory" in what:
            passed &= memory(runs)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
