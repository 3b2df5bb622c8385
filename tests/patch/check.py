#!/usr/bin/env python3
"""Trains a nanoGPT folder with and without `fitgpt patch`, and compares.

    check.py --binary target/debug/fitgpt      patches a copy of the folder `nano` next to this file
    check.py --pair PLAIN PATCHED              two folders with train.py, model.py, configurator.py

Compared are the losses of every micro-step, what is saved if an evaluation fails, a resumed
run, and the live bytes of every phase against what the patches promise. Needs PyTorch, no GPU.
Tensors are real, not fake, because train.py reads its losses; the counter is the one of
tools/count_torch_memory.py. The verdict is the exit code.
"""

import argparse
import json
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))

VOCAB, CHANNELS, BATCH, BLOCK, LAYERS, HEADS = 4096, 64, 4, 64, 2, 2
ROWS = BATCH * BLOCK
LOGITS = ROWS * VOCAB * 4  # float32: on a CPU nanoGPT has no autocast
WEIGHTS = VOCAB * CHANNELS * 4  # of the head
KEYS = dict(
    device="cpu", dtype="float32", compile=False, dataset="check", out_dir="out",
    max_iters=10, eval_interval=5, eval_iters=2, gradient_accumulation_steps=2,
    batch_size=BATCH, block_size=BLOCK, n_layer=LAYERS, n_head=HEADS, n_embd=CHANNELS,
    dropout=0.0, warmup_iters=2, lr_decay_iters=20, learning_rate=1e-3, min_lr=1e-4,
)  # fmt: skip


def run_here(result):
    """Runs train.py in this process and folder; `sys.argv` holds its keys."""
    import torch
    from count_torch_memory import Live

    class Largest(Live):
        largest = 0

        def see(self, tensor):
            self.largest = max(self.largest, tensor.untyped_storage().nbytes())
            super().see(tensor)

    torch.set_num_threads(1)
    fails = "--check_fails" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--check_fails"]
    live = Largest()
    seen = dict(losses=[], peaks={}, map_location=None, warnings=[])
    warnings.showwarning = lambda message, *_, **__: seen["warnings"].append(str(message))
    phase, evaluations = None, 0

    def enter(name):
        nonlocal phase
        if phase:
            seen["peaks"][phase] = live.peak
        phase = name
        live.start()

    def around(owner, name, before):
        """Calls `before` with the arguments of every call of `owner.name`."""
        inner = getattr(owner, name)

        def outer(*args, **kwargs):
            before(*args, **kwargs)
            return inner(*args, **kwargs)

        setattr(owner, name, outer)

    def mode(model, training=True):
        # `eval()` and `train()` of the model itself bracket estimate_loss.
        nonlocal evaluations
        if not hasattr(model, "lm_head"):
            return
        if training:
            enter("train")
            return
        evaluations += 1
        enter("evaluate_first" if evaluations == 1 else "evaluate")
        if fails and evaluations == 2:
            sys.exit(0)  # as an evaluation that runs out of memory would

    around(torch.nn.Module, "train", mode)
    around(torch.nn.utils, "clip_grad_norm_", lambda *_, **__: enter("update"))
    flush = lambda *_, **__: phase == "update" and enter("train")
    around(torch.optim.Optimizer, "zero_grad", flush)
    around(torch.Tensor, "backward", lambda loss, *_, **__: seen["losses"].append(loss.item()))
    around(torch, "load", lambda *_, **kwargs: seen.update(map_location=kwargs.get("map_location")))

    sys.path.insert(0, ".")
    scope = dict(__name__="__main__", __file__="train.py")
    try:
        with live:
            exec(compile(pathlib.Path("train.py").read_text(), "train.py", "exec"), scope)
    finally:
        seen.update(largest=live.largest, state_dict=scope.get("state_dict") is not None)
        pathlib.Path(result).write_text(json.dumps(seen))


class Folder:
    """A folder with train.py, and the results of its runs."""

    def __init__(self, path, pool):
        import numpy

        self.path, self.pool = path, pool
        data = path / "data" / "check"
        data.mkdir(parents=True)
        tokens = numpy.random.default_rng(1).integers(0, VOCAB, 20000, dtype=numpy.uint16)
        tokens[:16000].tofile(data / "train.bin")
        tokens[16000:].tofile(data / "val.bin")
        (data / "meta.pkl").write_bytes(pickle.dumps(dict(vocab_size=VOCAB)))

    def start(self, name, *flags, **keys):
        """Starts a run in the folder `name` and returns its result."""
        return self.pool.submit(self.run, name, flags, keys)

    def run(self, name, flags, keys):
        keys = [f"--{key}={value}" for key, value in {**KEYS, "out_dir": name, **keys}.items()]
        result = self.path / f"{name}.json"
        command = [sys.executable, str(HERE / "check.py"), "--run", str(result), *keys, *flags]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"train.py failed in `{name}`:\n{done.stdout}{done.stderr}")
        seen = json.loads(result.read_text())
        seen["steps"] = [line for line in done.stdout.splitlines() if line.startswith("step ")]
        return seen

    def saved(self, name, file):
        """The iteration of a checkpoint, if it is there."""
        import torch

        path = self.path / name / file
        return torch.load(path, map_location="cpu")["iter_num"] if path.exists() else None


class Checks:
    failed = 0

    def that(self, holds, what):
        self.failed += not holds
        print(f"{'ok' if holds else 'FAILED':6}  {what}")

    def near(self, got, expected, slack, what):
        what = f"{what}: {got:,}, expected {expected:,} ± {slack:,}"
        self.that(abs(got - expected) <= slack, what)


def losses(checks, plain, patched):
    # With dropout, because a recomputed block must drop the same elements again.
    old = plain.start("losses", dropout=0.2)
    whole = patched.start("losses", dropout=0.2, loss_chunk_rows=0, grad_checkpoint=True)
    chunked = patched.start("chunked", dropout=0.2, loss_chunk_rows=48)
    old, whole, chunked = (run.result() for run in (old, whole, chunked))
    checks.that(len(old["losses"]) == 22, "eleven steps of two micro-steps each")
    same = old["losses"] == whole["losses"] and old["steps"] == whole["steps"]
    checks.that(same, "the losses are the same bits, blocks recomputed")
    worst = max(abs(a / b - 1) for a, b in zip(chunked["losses"], old["losses"], strict=True))
    # A float32 sum over 256 rows in another order: a few roundings of 6e-8 in every loss, and as
    # many in the gradients, which change the loss little over eleven steps at a rate of 1e-3.
    checks.that(worst <= 1e-6, f"chunked, the losses differ by {worst:.1e}")

    warns = lambda seen: any("GradScaler" in warning for warning in seen["warnings"])
    checks.that(warns(old) and not warns(whole), "PyTorch no longer warns of the GradScaler")

    more = dict(init_from="resume", max_iters=12, dropout=0.2)
    old = plain.start("resumed", **more, out_dir="losses")
    new = patched.start("resumed", **more, out_dir="losses", loss_chunk_rows=0)
    old, new = old.result(), new.result()
    checks.that(len(old["losses"]) == 6, "a resumed run continues where the first ended")
    checks.that(old["losses"] == new["losses"], "with the same losses")
    checks.that(new["map_location"] == "cpu", "the checkpoint is loaded into host memory")
    checks.that(old["state_dict"] and not new["state_dict"], "and no variable keeps its weights")


def saving(checks, plain, patched):
    runs = [
        plain.start("fails", "--check_fails"),
        patched.start("fails", "--check_fails"),
        patched.start("best", "--check_fails", always_save_checkpoint=False),
    ]
    for run in runs:
        run.result()
    checks.that(plain.saved("fails", "ckpt.pt") is None, "without the patch, a failing evaluation loses everything")
    checks.that(patched.saved("fails", "ckpt.pt") == 5, "with the patch, step 5 is saved")
    checks.that(patched.saved("best", "ckpt_last.pt") == 5, "also if only the best is kept")
    checks.that(patched.saved("best", "ckpt.pt") is None, "and the best is not overwritten")


def memory(checks, plain, patched, binary):
    """Compares each patch with the count of unpatched runs less what the patch frees."""
    from count_torch_memory import count

    def counted(**keys):
        shape = dict(
            n_layer=LAYERS, n_head=HEADS, n_embd=CHANNELS, block_size=BLOCK, batch_size=BATCH,
            vocab_size=VOCAB, dtype="float32", fused_adam=False, rules="cpu",
        )  # fmt: skip
        peaks = count({**shape, **keys})
        return dict(
            evaluate_first=peaks["eval_first_peak"],
            train=peaks["step_peak"],
            evaluate=peaks["eval_later_peak"],
        )

    rows = 64
    runs = dict(
        old=plain.start("old"),
        off=patched.start("off", loss_chunk_rows=0),
        small=patched.start("small", loss_chunk_rows=0, eval_batch_size=1),
        again=patched.start("again", loss_chunk_rows=0, grad_checkpoint=True),
        rows=patched.start("rows", loss_chunk_rows=rows),
    )
    runs = {name: run.result() for name, run in runs.items()}
    old, off, small, again, chunked = (run["peaks"] for run in runs.values())
    slack = 16 * 512  # a loop's own scalars, 512 bytes each
    for phase, expected in counted().items():
        checks.near(old[phase], expected, slack, f"unpatched, {phase}")
    for phase, times in dict(evaluate_first=1, train=1, update=1, evaluate=2).items():
        checks.near(old[phase] - off[phase], times * LOGITS, slack, f"stale logits, {phase}")

    expected = counted(eval_batch_size=1)
    one = LOGITS // BATCH
    first, later = expected["evaluate_first"] - one, expected["evaluate"] - one - LOGITS
    checks.near(small["evaluate_first"], first, slack, "eval_batch_size, evaluate_first")
    checks.near(small["evaluate"], later, slack, "eval_batch_size, evaluate")

    expected = counted(grad_checkpoint=True)["train"] - LOGITS
    checks.near(again["train"], expected, slack, "grad_checkpoint, train")

    largest = runs["rows"]["largest"]
    checks.that(largest < LOGITS, f"chunked, the largest tensor has {largest:,} bytes")
    # At the peak of an unpatched step four tensors have the size of the logits: the logits, their
    # log-softmax, and the gradients of both. With chunks there are three of a chunk's size, plus
    # the gradients of the head's weights and of the other chunks' inputs.
    chunk, inputs = rows * VOCAB * 4, (ROWS - rows) * CHANNELS * 4
    expected = counted()["train"] - 4 * LOGITS + 3 * chunk + WEIGHTS + inputs
    checks.near(chunked["train"], expected, slack, "chunked, train")
    if binary:
        # The plan holds the gradients of all chunks' inputs in one tensor from the start.
        slack += rows * CHANNELS * 4
        for phase in json.loads(planned(binary, loss_chunk_rows=rows))["phases"]:
            if phase["name"] in ("evaluate_first", "train", "evaluate"):
                what = f"chunked, {phase['name']} as `plan` has it"
                checks.near(chunked[phase["name"]], phase["peak_bytes"], slack, what)


def planned(binary, **keys):
    keys = {**KEYS, "vocab_size": VOCAB, "memory_budget": "12GB", **keys}
    command = [binary, "plan", "--engine=torch", "--device=cpu", "--json"]
    command += [f"--{key}={value}" for key, value in keys.items()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def patched_by(binary, plain, patched):
    """Patches `patched` with the binary; its diff must do the same to `plain`'s copy."""
    shutil.copytree(HERE / "nano", plain)
    shutil.copytree(HERE / "nano", patched)
    run = lambda *args: subprocess.run([binary, "patch", *args], capture_output=True, text=True)
    diff, applied = run(str(plain)), run(str(patched), "--apply")
    if diff.returncode or applied.returncode:
        sys.exit(f"{binary} patch failed:\n{diff.stderr}{applied.stderr}")
    if shutil.which("patch"):
        copy = plain.parent / "by_diff"
        shutil.copytree(plain, copy)
        command = ["patch", "-p1", "--quiet"]
        subprocess.run(command, cwd=copy, input=diff.stdout, text=True, check=True)
        for name in ("train.py", "model.py"):
            if (copy / name).read_text() != (patched / name).read_text():
                sys.exit(f"the diff and --apply make different files of {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--pair", nargs=2, type=pathlib.Path, metavar=("PLAIN", "PATCHED"))
    args = parser.parse_args()
    if bool(args.binary) == bool(args.pair):
        parser.error("one of --binary and --pair")
    # Two at a time: every run has one thread and spends most of its time importing PyTorch.
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        plain, patched = (pathlib.Path(folder) / name for name in ("plain", "patched"))
        if args.binary:
            patched_by(args.binary.resolve(), plain, patched)
        else:
            for given, path in zip(args.pair, (plain, patched)):
                shutil.copytree(given, path)
        plain, patched = Folder(plain, pool), Folder(patched, pool)
        checks = Checks()
        losses(checks, plain, patched)
        saving(checks, plain, patched)
        memory(checks, plain, patched, args.binary and args.binary.resolve())
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        result = sys.argv[2]
        sys.argv = ["train.py", *sys.argv[3:]]
        run_here(result)
    else:
        main()
