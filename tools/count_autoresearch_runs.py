#!/usr/bin/env python3
"""Counts runs of karpathy/autoresearch whose peaks are public, and compares them.

    PYTHONPATH=python tools/count_autoresearch_runs.py CLONE [ROW…]

CLONE is a git clone of github.com/karpathy/autoresearch with its pull requests
(`git fetch origin 'refs/pull/*/head:refs/pull/*/head'`). The `train.py` of each commit runs as it is, for
two steps and one batch of its evaluation, and prints its own `peak_vram_mb`. Only what it imports is
replaced: FlashAttention by PyTorch's flash attention, which keeps the same tensors, and its data by zeros.
Run it with the PyTorch that the commit names. Prints a table; `docs/compiled.md` has it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import types

SEQUENCE, VOCABULARY = 2048, 8192


def h100(commit, reported, depth=None, aspect=None):
    """Karpathy's runs on an H100; `results.tsv` of branch `exp/H100/mar8` has GiB with one decimal."""
    changes = {}
    if depth:
        changes = {"DEPTH = 9 ": f"DEPTH = {depth} ", "ASPECT_RATIO = 57 ": f"ASPECT_RATIO = {aspect} "}
    return dict(commit=commit, reported=reported, changes=changes, capability=(9, 0), card="H100", torch="2.9.1",
                expandable=True)  # fmt: skip


def rtx_2060(depth, batch, steps, reported):
    """Pull request 242: PyTorch's own attention on an RTX 2060; `results.jsonl` of `phase1/experiments`."""
    changes = {
        "DEPTH = 4 ": f"DEPTH = {depth} ", "DEVICE_BATCH_SIZE = 4 ": f"DEVICE_BATCH_SIZE = {batch} ",
        "TOTAL_BATCH_SIZE = 2**16 ": f"TOTAL_BATCH_SIZE = {steps * batch * SEQUENCE} ",
    }  # fmt: skip
    return dict(commit="3d72e15", reported=reported, changes=changes, capability=(7, 5), card="RTX 2060",
                torch="2.9.1", expandable=True)  # fmt: skip


def windows(batch, reported):
    """Pull request 289: FlashAttention 2 under Windows; `benchmarks/archive`."""
    return dict(commit="a7a0798", reported=reported, changes={}, capability=(8, 6), card="RTX 3060 Laptop",
                torch="2.10.0", expandable=False, environment=dict(DEVICE_BATCH_SIZE=str(batch)),
                arguments=["--benchmark-steps", "2"])  # fmt: skip


RUNS = [
    h100("8a5c486", 45060.2),
    h100("7f2a65c", 60.2 * 1024),
    h100("7f2a65c", 72.6 * 1024, 11, 57),
    h100("7f2a65c", 66.2 * 1024, 10, 64),
    h100("7f2a65c", 53.9 * 1024, 8, 80),
    h100("7f2a65c", 53.7 * 1024, 10, 51),
    rtx_2060(2, 2, 4, 704.6), rtx_2060(2, 4, 8, 1344.9), rtx_2060(2, 8, 1, 2615.0), rtx_2060(2, 8, 2, 2624.5),
    rtx_2060(3, 2, 4, 1034.6), rtx_2060(3, 4, 2, 1928.0), rtx_2060(4, 2, 8, 1168.8), rtx_2060(4, 4, 2, 2186.4),
    rtx_2060(4, 8, 1, 4191.4), rtx_2060(4, 8, 2, 4223.4),
    windows(4, 1833.4), windows(8, 3222.3), windows(12, 4610.3), windows(16, 5998.2), windows(20, 7386.1),
]  # fmt: skip


def flash_attention(q, k, v, causal=True, window_size=None):
    from torch.nn import functional as F

    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


def modules():
    """Stand-ins for what `train.py` imports."""
    import torch

    class Tokenizer:
        @classmethod
        def from_directory(cls):
            return cls()

        def get_vocab_size(self):
            return VOCABULARY

    def make_dataloader(_, batch, seq, split):
        host = torch.zeros(2 * batch * seq, dtype=torch.long, pin_memory=True)
        card = torch.empty(2 * batch * seq, dtype=torch.long, device="cuda")
        x, y = card[: batch * seq].view(batch, seq), card[batch * seq :].view(batch, seq)
        while True:
            card.copy_(host, non_blocking=True)
            yield x, y, 1

    @torch.no_grad()
    def evaluate_bpb(model, tokenizer, batch_size):
        token_bytes = torch.zeros(VOCABULARY, dtype=torch.int32, device="cuda")
        loader = make_dataloader(tokenizer, batch_size, SEQUENCE, "val")
        nats = 0.0
        for _ in range(2):
            x, y, _ = next(loader)
            losses = model(x, y, reduction="none").view(-1)
            lengths = token_bytes[y.view(-1)]
            nats += (losses * (lengths > 0)).sum().item()
        return nats

    prepare = types.ModuleType("prepare")
    vars(prepare).update(
        MAX_SEQ_LEN=SEQUENCE, TIME_BUDGET=1e-9, Tokenizer=Tokenizer, make_dataloader=make_dataloader,
        evaluate_bpb=evaluate_bpb,
    )  # fmt: skip
    kernels = types.ModuleType("kernels")
    interface = types.SimpleNamespace(flash_attn_func=flash_attention)
    kernels.get_kernel = lambda _: types.SimpleNamespace(flash_attn_interface=interface)
    return dict(prepare=prepare, kernels=kernels)


def count(code, row):
    import torch

    import fitgpt.torch as ft

    torch.set_num_threads(1)
    for old, new in {**row["changes"], "step > 10": "step > 1"}.items():
        if old not in code:
            raise SystemExit(f"`train.py` of {row['commit']} has no `{old}`")
        code = code.replace(old, new)
    sys.argv = ["train.py", *row.get("arguments", [])]
    os.environ.update(row.get("environment", {}))
    if "expandable_segments:True" in code and row["expandable"]:
        os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    sys.modules.update(modules())
    with ft.pretend("cuda", capability=tuple(row["capability"])) as m:
        torch.cuda.get_device_properties(0).clock_rate = 1000  # for a throughput that is printed
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(code, "train.py", "exec"), {"__name__": "__main__"})
    return dict(
        tensors=m.peak_bytes, allocated=m.peak_allocated_bytes, reserved=m.peak_reserved_bytes,
        torch=torch.__version__, notes=[str(note) for note in m.notes],
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=pathlib.Path)
    parser.add_argument("rows", nargs="*", type=int, help="numbers of runs, from 0")
    args = parser.parse_args()
    print("| commit | changed | card | PyTorch | reported | tensors | allocated | difference | counted with |")
    print("|---|---|---|---|--:|--:|--:|--:|---|")
    for index in args.rows or range(len(RUNS)):
        row = RUNS[index]
        started = time.monotonic()
        show = ["git", "-C", str(args.clone), "show", f"{row['commit']}:train.py"]
        code = subprocess.run(show, check=True, capture_output=True, text=True).stdout
        command = [sys.executable, "-W", "ignore", __file__, "--run", json.dumps(row)]
        done = subprocess.run(command, input=code, capture_output=True, text=True)
        if done.returncode:
            print(f"{index}: {row} failed:\n{done.stderr[-3000:]}", file=sys.stderr)
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        tensors, allocated = found["tensors"] / (1 << 20), found["allocated"] / (1 << 20)
        changed = ", ".join(
            [new.strip() for new in row["changes"].values()] + row.get("arguments", [])[2:]
            + [f"{name} = {value}" for name, value in row.get("environment", {}).items()]
        )  # fmt: skip
        print(
            f"| {row['commit']} | {changed} | {row['card']} | {row['torch']} | {row['reported']:,.1f} "
            f"| {tensors:,.1f} | {allocated:,.1f} | {100 * (allocated / row['reported'] - 1):+.2f} % "
            f"| {found['torch']} |", flush=True,
        )  # fmt: skip
        print(f"{index}: {time.monotonic() - started:.0f} s {found}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        found = count(sys.stdin.read(), json.loads(sys.argv[2]))
        print(json.dumps(found))
    else:
        main()
