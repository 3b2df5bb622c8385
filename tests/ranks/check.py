#!/usr/bin/env python3
"""Trains with several processes, and compares every bit with fewer and more of them.

    tests/ranks/check.py PROGRAM [--kills N] [--mpirun COMMAND] [--seed N]

PROGRAM is `fitgpt` built with feature `mpi`. For equal `lanes` every number of ranks must give the
same losses, norms, evaluations and files. N times (5 unless given) a random rank is killed at a
random instant, and the run resumed with another number of ranks: it must end with the bits of an
undisturbed run. Needs `mpirun` on this machine; ranks may outnumber its cores.
"""

import argparse
import array
import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN = [
    "--dataset=tiny", "--vocab_size=61", "--n_layer=2", "--n_head=2", "--n_embd=24",
    "--block_size=20", "--batch_size=2", "--gradient_accumulation_steps=12", "--eval_iters=3",
    "--eval_interval=3", "--max_iters=6", "--warmup_iters=2", "--learning_rate=0.003",
    "--device=cpu", "--threads=1", "--compile=False", "--num_samples=1", "--max_new_tokens=4",
]  # fmt: skip

# A name, the numbers of ranks, and the keys. Shards of the wide model end inside of parameters.
WIDE = ["--n_embd=160", "--n_head=4"]
CASES = [
    ("float32", [1, 2, 3, 4, 6], ["--lanes=12", "--dropout=0.1"]),
    ("float32, wide, samples", [1, 2, 4], ["--lanes=4", "--sample_interval=2", *WIDE]),
    ("bfloat16, recomputation", [1, 3], ["--lanes=6", "--dtype=bfloat16", "--grad_checkpoint=True", *WIDE]),
    ("float16, loss scaling", [1, 6], ["--lanes=6", "--dtype=float16", "--dropout=0.2"]),
    ("adamw8bit", [1, 4], ["--lanes=4", "--optimizer=adamw8bit", *WIDE]),
    ("muon", [1, 3], ["--lanes=12", "--optimizer=muon", "--dtype=bfloat16"]),
    ("llama", [1, 4], ["--lanes=4", "--family=llama", "--n_kv_head=1"]),
]  # fmt: skip


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Runs:
    def __init__(self, program, mpirun, folder, seconds=120):
        """A run that takes longer than `seconds` hangs."""
        self.program, self.mpirun, self.folder, self.seconds = program, mpirun, folder, seconds
        data = folder / "data/tiny"
        data.mkdir(parents=True)
        numbers = random.Random(7)
        for name, count in [("train.bin", 20000), ("val.bin", 4000)]:
            tokens = [numbers.randrange(61) for _ in range(count)]
            array.array("H", tokens).tofile(open(data / name, "wb"))

    def start(self, ranks, args, environment=None):
        command = [*self.mpirun, "-np", str(ranks), str(self.program), "train", *args]
        return subprocess.Popen(
            command, cwd=self.folder, text=True, env={**os.environ, "LC_ALL": "C", **(environment or {})},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def run(self, ranks, args, expected=0, environment=None):
        """Its output; `expected` is its exit code, `None` any failure."""
        process = self.start(ranks, args, environment)
        text = wait(process, self.seconds)
        if process.returncode != expected if expected is not None else process.returncode == 0:
            sys.exit(f"{ranks} ranks, {args}: exit code {process.returncode}\n{text}")
        return text

    def result(self, out):
        """Everything that must not depend on the number of ranks."""
        folder = self.folder / out
        events = [json.loads(line) for line in open(folder / "events.jsonl")]
        steps = [(e["step"], e["loss"], e["grad_norm"], e.get("loss_scale")) for e in events if e["event"] == "step"]
        losses = [(e["step"], e["train_loss"], e["val_loss"]) for e in events if e["event"] == "evaluation"]
        samples = [(e["step"], e["text"]) for e in events if e["event"] == "sample"]
        return steps, losses, values(folder / "model.safetensors"), values(folder / "state.safetensors"), samples

    def remove(self, out):
        shutil.rmtree(self.folder / out, ignore_errors=True)


def values(path):
    """The tensors of a file without its header: a resumed run has saved more often."""
    data = path.read_bytes()
    return hashlib.sha256(data[8 + int.from_bytes(data[:8], "little") :]).hexdigest()


def wait(process, seconds=120):
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        sys.exit(f"a run hangs: {process.args}\n{process.communicate()[0]}")


def check(condition, message):
    if not condition:
        sys.exit(message)


def equal_bits(runs):
    for name, counts, keys in CASES:
        results = {}
        for ranks in counts:
            out = f"out-{ranks}"
            runs.remove(out)
            runs.run(ranks, [*TRAIN, *keys, f"--out_dir={out}"])
            results[ranks] = runs.result(out), sha(runs.folder / out / "model.safetensors")
        if "wide" in name:
            # When messages travel does not matter.
            runs.remove("late")
            runs.run(2, [*TRAIN, *keys, "--out_dir=late"], environment={"FITGPT_OVERLAP": "0"})
            results["late"] = runs.result("late"), sha(runs.folder / "late/model.safetensors")
        for ranks, result in results.items():
            check(result == results[counts[0]], f"{name}: {ranks} ranks differ from {counts[0]}")
        check(len(results[counts[0]][0][0]) == 7, f"{name}: not all steps are logged")
        drawn = [step for step, _ in results[counts[0]][0][-1]]
        check(drawn == ([2, 4, 6] if "samples" in name else []), f"{name}: samples at {drawn}")
        print(f"{name}: {counts} ranks train the same bits")
    # The order of sums is part of the training: this would fail if lanes did nothing.
    for lanes in [1, 12]:
        runs.remove(f"lanes-{lanes}")
        runs.run(1, [*TRAIN, *WIDE, f"--lanes={lanes}", f"--out_dir=lanes-{lanes}"])
    check(runs.result("lanes-1") != runs.result("lanes-12"), "1 and 12 lanes give equal bits")


LONG = [*TRAIN, "--lanes=12", "--max_iters=60", "--eval_interval=6", "--dropout=0.1"]


def pids_of(runs):
    """The ranks that run now, in the order of their start."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(folder / "exe") == str(runs.program):
                pids.append(int(folder.name))
    return sorted(pids)


def wait_for_ranks(runs, process):
    """The output of a run, after its last rank has ended: `mpirun` may end before its ranks."""
    text = wait(process)
    for _ in range(600):
        if not pids_of(runs):
            return text
        time.sleep(0.05)
    sys.exit(f"ranks do not end: {process.args}\n{text}")


def resumed(runs, out, ranks):
    """Continues a run, from its checkpoint if it has one."""
    if (runs.folder / out / "model.safetensors").exists():
        return runs.run(ranks, ["--init_from=resume", f"--out_dir={out}"])
    return runs.run(ranks, [*LONG, f"--out_dir={out}"])


def reaches(process, log, step):
    """Waits until a run has logged this many steps, or has ended."""
    while process.poll() is None:
        with contextlib.suppress(OSError):
            if log.read_text().count('"event":"step"') >= step:
                return
        time.sleep(0.002)


def kills(runs, count, numbers):
    runs.remove("whole")
    runs.run(2, [*LONG, "--out_dir=whole"])
    expected = runs.result("whole")
    killed = 0
    for _ in range(4 * count):
        if killed == count:
            break
        ranks, later = numbers.sample([1, 2, 3, 4, 6], 2)
        ranks = max(ranks, 2)
        runs.remove("killed")
        process = runs.start(ranks, [*LONG, "--out_dir=killed"])
        # After a number of steps, not of seconds, which differ between runs; 0 is while it starts.
        if steps := numbers.randrange(50):
            reaches(process, runs.folder / "killed/events.jsonl", steps)
        time.sleep(numbers.uniform(0, 0.05))
        while process.poll() is None and not (pids := pids_of(runs)):
            time.sleep(0.002)
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the run may end right now
                os.kill(numbers.choice(pids), signal.SIGKILL)
        text = wait_for_ranks(runs, process)
        was_killed = process.returncode != 0
        killed += was_killed
        resumed(runs, "killed", later)
        check(runs.result("killed") == expected, f"killed with {ranks} ranks, resumed with {later}: other bits\n{text}")
        print(f"{ranks} ranks, {'killed' if was_killed else 'finished'}; {later} ranks end with the same bits")
    check(killed == count, f"only {killed} runs could be killed before they ended")
    return expected


def stops(runs, expected):
    """A signal to one rank or to `mpirun`: saved once, all stop, and nothing is lost."""
    whole, *_ = expected
    signals = [
        ("SIGTERM to the last rank", lambda process: os.kill(pids_of(runs)[-1], signal.SIGTERM)),
        ("SIGUSR1 to mpirun", lambda process: os.kill(process.pid, signal.SIGUSR1)),
        ("Ctrl-C to mpirun", lambda process: os.kill(process.pid, signal.SIGINT)),
    ]
    for name, send in signals:
        runs.remove("stopped")
        # On Ctrl-C Open MPI sends SIGCONT, after this time SIGTERM, after as long SIGKILL, and ends
        # only then. The ranks save on SIGCONT.
        grace = {"OMPI_MCA_odls_base_sigkill_timeout": "5"}
        process = runs.start(3, [*LONG, "--max_iters=100000", "--out_dir=stopped"], grace)
        while not (runs.folder / "stopped/model.safetensors").exists():
            check(process.poll() is None, f"{name}: the run has ended")
            time.sleep(0.05)
        send(process)
        text = wait_for_ranks(runs, process)
        # On Ctrl-C Open MPI's `mpirun` has an exit code of its own; MPICH's on any signal it gets.
        code = 1 if "Ctrl-C" in name else 130
        is_other = "mpich" in runs.mpirun[0] and "to mpirun" in name
        check(is_other or process.returncode == code, f"{name}: exit code {process.returncode}\n{text}")
        log = [json.loads(line) for line in open(runs.folder / "stopped/events.jsonl")]
        saved = [event["step"] for event in log if event["event"] == "checkpoint"]
        is_saved = log[-1].get("reason") == "interrupted" and saved[-1] == log[-1]["step"]
        check(is_saved and len(set(saved)) == len(saved), f"{name}: saved at {saved}, {log[-1]}")
        steps, *_ = runs.result("stopped")
        together = min(len(steps), len(whole))
        check(steps[:together] == whole[:together], f"{name}: other losses")
        resumed = runs.run(2, ["--init_from=resume", "--out_dir=stopped", f"--max_iters={len(steps)}"])
        check(len(runs.result("stopped")[0]) == len(steps) + 1, f"{name}: not resumed\n{resumed}")
        print(f"{name}: saved after {len(steps)} steps, and resumed")


def failures(runs):
    # A rank that hangs is named.
    runs.remove("hung")
    process = runs.start(3, [*LONG, "--max_iters=100000", "--out_dir=hung"], {"FITGPT_RANK_TIMEOUT": "2"})
    while not (runs.folder / "hung/model.safetensors").exists():
        check(process.poll() is None, "a rank that hangs: the run has ended")
        time.sleep(0.05)
    stopped = pids_of(runs)[1]
    os.kill(stopped, signal.SIGSTOP)
    text = wait(process, 60)
    check(process.returncode != 0 and "has not answered" in text, f"a rank that hangs: {text}")
    print("a rank that hangs ends the run:", next(l for l in text.splitlines() if "answered" in l))

    # Different programs, configs and data are found before the first step.
    program = [str(runs.program), "train", *TRAIN, "--lanes=2", "--out_dir=mixed"]
    one = [*runs.mpirun, "-np", "1"]
    two = [*one, *program, ":", "-np", "1"]
    other = runs.folder / "other"
    shutil.copytree(runs.folder / "data", other / "data")
    with open(other / "data/tiny/train.bin", "r+b") as file:
        file.seek(777)
        file.write(b"\x01")
    changed = shutil.copy(runs.program, other / "fitgpt-mpi")
    with open(changed, "ab") as file:
        file.write(b"\0")
    for name, command in [
        ("programs", [*two, str(changed), *program[1:]]),
        ("configs", [*two, *program, "--seed=5"]),
        ("data files", [*two, "-wdir", str(other), *program]),
    ]:
        ran = subprocess.run(command, cwd=runs.folder, capture_output=True, text=True, timeout=120)
        check(ran.returncode != 0 and f"the {name} of [rank 1" in ran.stderr, f"{name}: {ran}")
        check(not (runs.folder / "mixed").exists(), f"{name}: a folder was made")
    print("ranks with other programs, configs or data are refused")

    # The rank with the least memory decides, and is named.
    limited = ["sh", "-c", 'ulimit -v 3000000; exec "$0" "$@"']
    large = ["--n_layer=24", "--n_embd=1024", "--n_head=16"]
    command = [*one, *program, *large, ":", "-np", "1", *limited, *program, *large]
    ran = subprocess.run(command, cwd=runs.folder, capture_output=True, text=True, timeout=120)
    check(ran.returncode == 1 and "[rank 1, host" in ran.stderr, f"less memory: {ran}")
    check("[rank 0, host" not in ran.stderr, f"less memory: {ran.stderr}")
    print("a rank with less memory decides for all:", next(l for l in ran.stderr.splitlines() if "[rank 1" in l))

    # A disk that is full (here: no file may grow any more) on the rank that saves.
    runs.remove("full")
    process = runs.start(3, [*LONG, "--max_iters=100000", "--out_dir=full"])
    while not (runs.folder / "full/model.safetensors").exists():
        check(process.poll() is None, "full disk: the run has ended")
        time.sleep(0.05)
    for pid in pids_of(runs):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if b"OMPI_COMM_WORLD_RANK=0" in variables or b"PMI_RANK=0" in variables:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, 1))
    text = wait_for_ranks(runs, process)
    check(process.returncode == 2 and "[rank 0, host" in text, f"full disk: {process.returncode}\n{text}")
    print("a full disk ends the run:", next(l for l in text.splitlines() if "error:" in l))
    runs.run(2, ["--init_from=resume", "--out_dir=full", f"--max_iters={len(runs.result('full')[0])}"])

    # A loss that is NaN.
    text = runs.run(3, [*LONG, "--learning_rate=1e30", "--grad_clip=0", "--warmup_iters=0", "--out_dir=diverged"], expected=None)
    check("[rank 0, host" in text and "error:" in text, f"no number: {text}")
    print("a loss that is no number ends the run:", next(l for l in text.splitlines() if "error:" in l))

    # A refusal prints something that works.
    text = runs.run(8, [*TRAIN, "--out_dir=refused"], expected=2)
    check(text.count("error:") == 1, text)
    line = text.split("`--batch_size=")[1].split("`")[0]
    runs.run(8, [*TRAIN, *f"--batch_size={line}".split(), "--max_iters=1", "--out_dir=refused"])
    print("a refusal prints a line that works: --batch_size=" + line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe" + (" --allow-run-as-root" if os.getuid() == 0 else ""))
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        program = folder / "fitgpt-mpi"  # a copy, by which its processes are found
        shutil.copy(given.program.resolve(), program)
        runs = Runs(program, given.mpirun.split(), folder)
        equal_bits(runs)
        expected = kills(runs, given.kills, random.Random(seed))
        stops(runs, expected)
        failures(runs)


if __name__ == "__main__":
    main()
