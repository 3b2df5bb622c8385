#!/usr/bin/env python3
"""Counts runs of nanochat whose reports are public, and compares the peaks.

    PYTHONPATH=python tools/count_nanochat_reports.py CLONE [ROW…]

CLONE is a git clone of github.com/karpathy/nanochat. Every run is counted with the model and the
optimizers of the commit that its report names, in the order of `scripts/base_train.py`; of runs on
eight cards, one rank (`fitgpt/torch/ranks.py`). `docs/compiled.md` has the table that it prints.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from unittest import mock

MIB = 1 << 20

# Report: commit, depth, sequences, vocabulary, cards, capability, PyTorch, reported MiB.
REPORTS = [
    dict(commit="c75fe54", depth=10, batch=8, vocab=65536, world=1, capability=(12, 0), card="RTX 5090",
         torch="2.8.0", accumulation=4, reported=7496.89),
    dict(commit="dd6ff9a", depth=20, batch=32, vocab=65536, world=8, capability=(9, 0), card="8 × H100",
         torch="2.8.0", accumulation=1, reported=75424.17),
    dict(commit="d575940", depth=20, batch=32, vocab=65536, world=8, capability=(9, 0), card="8 × H100",
         torch="2.8.0", accumulation=1, reported=75422.52),
    dict(commit="83dccc2", depth=16, batch=16, vocab=32768, world=8, capability=(9, 0), card="8 × H100",
         torch="2.9.1", accumulation=2, reported=27687.83),
    dict(commit="83dccc2", depth=24, batch=16, vocab=32768, world=8, capability=(9, 0), card="8 × H100",
         torch="2.9.1", accumulation=4, reported=62386.67),
]  # fmt: skip


def count(row):
    import torch

    import fitgpt.torch as ft
    from fitgpt.torch import ranks

    # The optimizers' own `torch.compile` is left out: an update is not the peak of these runs.
    with mock.patch.object(torch, "compile", lambda f=None, **_: f if f else lambda f: f):
        from nanochat.gpt import GPT, GPTConfig
    channels = row["depth"] * 64
    heads = (channels + 127) // 128
    config = dict(
        sequence_len=2048, vocab_size=row["vocab"], n_layer=row["depth"], n_head=heads, n_kv_head=heads,
        n_embd=channels,
    )  # fmt: skip
    if "window_pattern" in GPTConfig.__dataclass_fields__:
        config["window_pattern"] = "L"  # a window changes no size with FlashAttention
    # As every `base_train.py` does.
    os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    with contextlib.ExitStack() as stack:
        m = stack.enter_context(ft.pretend("cuda", capability=tuple(row["capability"])))
        stack.enter_context(ranks.alone(m.notes, row["world"]))
        if row["world"] > 1:
            torch.distributed.init_process_group("nccl")
        with torch.device("meta"):
            model = GPT(GPTConfig(**config))
        model.to_empty(device="cuda")
        model.init_weights()
        call = torch.compile(model, dynamic=False)
        new = hasattr(model, "setup_optimizer")
        optimizers = [model.setup_optimizer()] if new else model.setup_optimizers()

        def get_batch():
            shape = row["batch"], 2048
            x = torch.zeros(shape, dtype=torch.int32 if not new else torch.long, device="cuda")
            return x, torch.zeros(shape, dtype=torch.long, device="cuda")

        is_cast = "bfloat16" not in (pathlib.Path(sys.path[0]) / "nanochat/common.py").read_text()
        ctx = torch.autocast("cuda", dtype=torch.bfloat16) if is_cast or not new else contextlib.nullcontext()
        x, y = get_batch()
        for _ in range(2):
            for _ in range(min(row["accumulation"], 2)):
                with m.phase("train"):
                    with ctx:
                        loss = call(x, y)
                    kept = loss.detach()
                    loss = loss / row["accumulation"]
                    loss.backward()
                    x, y = get_batch()
            with m.phase("update"):
                if not new:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for optimizer in optimizers:
                    optimizer.step()
                model.zero_grad(set_to_none=True)
        del kept
    return dict(
        tensors=max(phase.peak_bytes for phase in m.phases.values()),
        phases={name: phase.peak_bytes for name, phase in m.phases.items()},
        allocated=m.peak_allocated_bytes, reserved=m.peak_reserved_bytes, torch=torch.__version__,
        parameters=sum(p.numel() for p in model.parameters()), notes=[str(note) for note in m.notes],
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=pathlib.Path)
    parser.add_argument("rows", nargs="*", type=int, help="numbers of reports, from 0")
    args = parser.parse_args()
    print("| commit | model | cards | PyTorch | reported | counted | difference |")
    print("|---|---|---|---|--:|--:|--:|")
    for index in args.rows or range(len(REPORTS)):
        row = REPORTS[index]
        with tempfile.TemporaryDirectory() as folder:
            archive = ["git", "-C", str(args.clone), "archive", row["commit"], "nanochat"]
            files = subprocess.run(archive, check=True, capture_output=True).stdout
            subprocess.run(["tar", "x", "-C", folder], input=files, check=True)
            paths = [folder, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
            started = time.monotonic()
            command = [sys.executable, "-W", "ignore", __file__, "--run", folder, json.dumps(row)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            print(f"{row['commit']} d{row['depth']} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        allocated = found["allocated"] / MIB
        print(
            f"| {row['commit']} | d{row['depth']}, {row['batch']} × 2048, vocabulary {row['vocab']:,} "
            f"| {row['card']} | {row['torch']} | {row['reported']:,.1f} | {allocated:,.1f} "
            f"| {100 * (allocated / row['reported'] - 1):+.2f} % |", flush=True,
        )  # fmt: skip
        print(f"{time.monotonic() - started:.0f} s {found}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        sys.path.insert(0, sys.argv[2])
        print(json.dumps(count(json.loads(sys.argv[3]))))
    else:
        main()
