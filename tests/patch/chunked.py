#!/usr/bin/env python3
"""Counts nanoGPT with the patch `chunked-loss` on fake tensors, and compares with `fitgpt plan`.

    chunked.py --binary target/debug/fitgpt

The model is the patched `nano/model.py`, the loop the one of `tests/pretend/nanogpt.py`. Peaks must be
equal to the byte, except for what plans leave out on a card: the random state that fused attention
saves, of two elements in every layer. The verdict is the exit code.
"""

import argparse
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]

from check import Checks  # noqa: E402

SMALL = dict(n_layer=2, n_head=2, n_embd=64, block_size=128, batch_size=4, vocab_size=5000)
# 124M parameters, with the rows that `fitgpt patch` proposes and fewer.
LARGE = dict(n_layer=12, n_head=12, n_embd=768, block_size=1024, batch_size=12, vocab_size=50304)
PHASES = dict(eval_first_peak="evaluate_first", step_peak="train", eval_later_peak="evaluate")


def cases():
    kinds = [("cuda", "bfloat16"), ("cuda", "float32"), ("cpu", "float32")]  # nanoGPT has no autocast on a CPU
    for (device, dtype), rows in itertools.product(kinds, (0, 512, 200, 64, 8)):
        yield device, dict(SMALL, dtype=dtype, loss_chunk_rows=rows)
    for rows in (512, 64):
        yield "cuda", dict(LARGE, dtype="bfloat16", loss_chunk_rows=rows)


def counter(folder):
    """A function that counts a configuration with the patched model in `folder`."""
    sys.path.insert(0, str(folder))
    import fitgpt.torch as ft
    import model
    from pretend import nanogpt

    class Patched(model.GPT):
        def __init__(self, c):
            names = ("block_size", "vocab_size", "n_layer", "n_head", "n_embd", "dropout", "bias")
            super().__init__(model.GPTConfig(**{name: getattr(c, name) for name in names}))
            self.config.loss_chunk_rows = c.loss_chunk_rows

    nanogpt.Gpt = Patched

    def count(device, config):
        with ft.pretend(device, compile="eager") as m:
            nanogpt.train(config, device, m)
        return {phase: m.phases[name].peak_bytes for name, phase in PHASES.items()}

    return count


def planned(binary, device, config):
    keys = dict(config, compile=False, gradient_accumulation_steps=2, memory_budget="900GB")
    target = ["--device=cpu"] if device == "cpu" else []
    command = [binary, "plan", "--engine=torch", "--json", *target]
    command += [f"--{key}={value}" for key, value in keys.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {phase["name"]: phase["peak_bytes"] for phase in json.loads(done.stdout)["phases"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    binary = parser.parse_args().binary.resolve()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "nano", folder, dirs_exist_ok=True)
        command = [binary, "patch", folder, "--apply", "--only", "chunked-loss"]
        subprocess.run(command, check=True, capture_output=True)
        count = counter(folder)
        for device, config in cases():
            counted, plans = count(device, config), planned(binary, device, config)
            for phase, bytes in counted.items():
                is_saved = device == "cuda" and phase == "train"
                random_state = 2 * 512 * config["n_layer"] if is_saved else 0
                name = f"{device} {config['dtype']}, {config['n_embd']} channels"
                what = f"{name}, {config['loss_chunk_rows']} rows, {phase}"
                checks.near(plans[phase] + random_state, bytes, 0, what)
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
