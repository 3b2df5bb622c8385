#!/usr/bin/env python3
"""Trains compiled nanoGPT for 20 steps with and without `fitgpt patch --only loss-alone`.

    loss_alone.py --binary target/debug/fitgpt

The weights, the optimizer's state and the losses must be the same bits, and the most bytes that
PyTorch's CPU allocator handed out must fall by two tensors of the logits' size. Needs PyTorch 2.12 or
later and a C++ compiler, no GPU. (nanoGPT has no autocast on a CPU, so all of this is float32; with
16-bit types PyTorch 2.12 and 2.13 save one of the two.)
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "pretend")]

from check import KEYS, LOGITS, Checks, Folder  # noqa: E402

STEPS = 20
COMPILED = {**KEYS, "compile": True, "max_iters": STEPS - 1, "eval_interval": 1000, "eval_iters": 1}


def run_here(result):
    """Runs train.py in this process and folder; `sys.argv` holds its keys."""
    import allocator
    import torch

    torch.set_num_threads(1)
    losses = []
    backward = torch.Tensor.backward

    def outer(loss, *args, **kwargs):
        losses.append(loss.item())
        return backward(loss, *args, **kwargs)

    torch.Tensor.backward = outer
    sys.path.insert(0, ".")
    scope = dict(__name__="__main__", __file__="train.py")
    code = compile(pathlib.Path("train.py").read_text(), "train.py", "exec")
    peak = allocator.peak(lambda: exec(code, scope))
    frames = torch._dynamo.utils.counters["frames"]
    torch.save(
        dict(
            weights=scope["model"].state_dict(), optimizer=scope["optimizer"].state_dict(),
            losses=losses, peak=peak, is_compiled=frames["ok"] > 0 and frames["ok"] == frames["total"],
        ),
        result,
    )  # fmt: skip


def train(folder):
    """What a run of train.py in `folder` leaves behind."""
    import torch

    result = folder / "result.pt"
    keys = [f"--{key}={value}" for key, value in COMPILED.items()]
    command = [sys.executable, "-W", "ignore", str(HERE / "loss_alone.py"), "--run", str(result), *keys]
    # The kernels of both runs are compiled anew: nothing of one can be used by the other.
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "kernels")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"train.py failed in `{folder.name}`:\n{done.stdout}{done.stderr}")
    return torch.load(result)


def tensors(value):
    """All tensors inside of nested dictionaries and lists."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [tensor for inner in values for tensor in tensors(inner)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    binary = parser.parse_args().binary.resolve()
    import torch

    with tempfile.TemporaryDirectory() as folder:
        plain, patched = (pathlib.Path(folder) / name for name in ("plain", "patched"))
        for path in (plain, patched):
            shutil.copytree(HERE / "nano", path)
            Folder(path, None)  # writes the dataset
        command = [str(binary), "patch", str(patched), "--apply", "--only", "loss-alone"]
        subprocess.run(command, check=True, capture_output=True)
        old, new = train(plain), train(patched)

    checks = Checks()
    checks.that(old["is_compiled"] and new["is_compiled"], "every frame of both runs is compiled")
    micro_steps = STEPS * KEYS["gradient_accumulation_steps"]
    checks.that(len(new["losses"]) == micro_steps, f"{STEPS} steps of two micro-steps each")
    checks.that(old["losses"] == new["losses"], "the losses are the same bits")
    for name in ("weights", "optimizer"):
        pairs = list(zip(tensors(old[name]), tensors(new[name]), strict=True))
        same = pairs and all(torch.equal(a, b) for a, b in pairs)
        checks.that(same, f"{name}: {len(pairs)} tensors are the same bits")
    print(f"the peak falls from {old['peak']:,} to {new['peak']:,} bytes")
    # Smaller tensors that were not alive at the old peak may be at the new one.
    checks.near(old["peak"] - new["peak"], 2 * LOGITS, LOGITS // 10, "it falls by")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        result = sys.argv[2]
        sys.argv = ["train.py", *sys.argv[3:]]
        run_here(result)
    else:
        main()
