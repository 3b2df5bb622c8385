#!/usr/bin/env python3
"""How far bfloat16 factors move gradients and losses.

    bench/bfloat16.py gradients [--binary FITGPT] [--threads N]
    bench/bfloat16.py sources [--threads N] [--seeds N …]
    bench/bfloat16.py curves TEXT [--binary FITGPT] [--threads N] [--steps N] [--seeds N …]

`gradients` compares the gradient of a model of 6 layers with PyTorch's in float64, from the same
weights and tokens: FitGPT in float32, in bfloat16 with float32 factors and with bfloat16 factors,
and PyTorch with bfloat16 autocast. It needs the packages of `tests/requirements.txt`.

`sources` emulates our roundings in PyTorch in float64, leaves out one at a time, and prints the error
of the gradient that is left: which rounding costs what. It needs no FitGPT.

`curves` trains the model of `config/train_shakespeare_char_cpu.py` on a text in the three
arithmetics, and prints the validation loss of every seed. Runs that exist are not repeated.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SIZES = dict(n_layer=6, n_head=6, n_embd=384, block_size=256, vocab_size=512)
ARITHMETICS = {
    "float32": ["--dtype=float32"],
    "bfloat16, float32 factors": ["--dtype=bfloat16", "--matmul_dtype=float32"],
    "bfloat16, bfloat16 factors": ["--dtype=bfloat16", "--matmul_dtype=bfloat16"],
}


def main():
    options = parse()
    if options.what == "gradients":
        gradients(options)
    elif options.what == "sources":
        sources(options)
    else:
        curves(options)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["gradients", "sources", "curves"])
    parser.add_argument("text", nargs="?", help="a text file, for `curves`")
    parser.add_argument("--binary", default=ROOT / "target/release/fitgpt", help="which fitgpt to use")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--folder", help="where `curves` keeps its runs; default: a temporary folder")
    options = parser.parse_args()
    if options.what == "curves" and not options.text:
        parser.error("curves needs a text")
    return options


def fitgpt(options, *args, cwd):
    binary = pathlib.Path(options.binary).resolve()
    subprocess.run([binary, *args, f"--threads={options.threads}"], cwd=cwd, check=True,
                   stdout=subprocess.DEVNULL)


def gradients(options):
    import torch
    from safetensors.torch import load_file

    sys.path.insert(0, str(HERE))
    import peer

    draws = random.Random(1337)
    window = [draws.randrange(SIZES["vocab_size"]) for _ in range(SIZES["block_size"] + 1)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "data").mkdir()
        for split in ("train", "val"):
            (folder / "data" / f"{split}.bin").write_bytes(struct.pack(f"<{len(window)}H", *window))
        found = {}
        for arithmetic, keys in ARITHMETICS.items():
            # The mean of a decay of zero is the gradient itself.
            fitgpt(options, "train", *keys, *(f"--{key}={value}" for key, value in SIZES.items()),
                   "--dataset=data", "--device=cpu", "--batch_size=1", "--bias=False",
                   "--gradient_accumulation_steps=1", "--learning_rate=0.0", "--min_lr=0.0",
                   "--decay_lr=False", "--grad_clip=0.0", "--beta1=0.0", "--max_iters=0",
                   "--eval_iters=1", "--out_dir=out", "--overwrite", cwd=folder)
            state = load_file(folder / "out" / "state.safetensors")
            found[arithmetic] = {name: value.double() for name, value in state.items()
                                 if "exp_avg" in name and "exp_avg_sq" not in name}
        sizes = [SIZES[key] for key in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")]
        model = peer.GPT(*sizes, 0.0)
        model.read(folder / "out")
    tokens = torch.tensor([window[:-1]])
    targets = torch.tensor([window[1:]])

    def torch_gradients(model, cast):
        model.zero_grad()
        with cast:
            loss = model(tokens, targets)
        loss.backward()
        return [p.grad.double() for p in model.parameters()]

    rounded = torch_gradients(model, torch.autocast("cpu", dtype=torch.bfloat16))
    exact = torch_gradients(model.double(), torch.autocast("cpu", enabled=False))
    print("relative error of the whole gradient, and the largest of a tensor")
    show("PyTorch, bfloat16 autocast", list(zip(rounded, exact)))
    for arithmetic, ours in found.items():
        show("FitGPT, " + arithmetic, list(matched(ours, exact)))


def sources(options):
    import torch

    sys.path.insert(0, str(HERE))
    import peer
    import rounding

    torch.set_num_threads(options.threads or 1)
    sizes = [SIZES[key] for key in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")]
    errors = {}
    for seed in options.seeds:
        torch.manual_seed(seed)
        model = peer.GPT(*sizes, 0.0).double()
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                is_scaled = name.endswith(("out.weight", "down.weight"))
                std = 0.02 / (2 * sizes[0]) ** 0.5 if is_scaled else 0.02
                torch.nn.init.normal_(parameter, 0.0, std)
        window = torch.randint(SIZES["vocab_size"], (1, SIZES["block_size"] + 1))
        tokens, targets = window[:, :-1], window[:, 1:]

        def of(loss):
            model.zero_grad()
            loss().backward()
            return [p.grad.double().clone() for p in model.parameters()]

        exact = of(lambda: model(tokens, targets))
        runs = {"all of ours": lambda: rounding.loss(model, tokens, targets, ())}
        for left_out in rounding.LEFT_OUT:
            runs["without: " + " and ".join(left_out)] = (
                lambda left_out=left_out: rounding.loss(model, tokens, targets, left_out))
        found = {name: of(loss) for name, loss in runs.items()}
        model.float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(tokens, targets)
        found["PyTorch, bfloat16 autocast"] = of(lambda: loss)
        for name, gradients in found.items():
            error = sum((x - y).norm().item() ** 2 for x, y in zip(gradients, exact)) ** 0.5
            size = sum(y.norm().item() ** 2 for y in exact) ** 0.5
            errors.setdefault(name, []).append(error / size)
    print("relative error of the whole gradient, mean over the seeds")
    for name, each in errors.items():
        print(f"  {name:60} {sum(each) / len(each):.2e}")


def matched(ours, exact):
    """Pairs each of our tensors with PyTorch's of the same shape, transposed or not, that is nearest."""
    left = list(ours.values())
    for there in exact:
        near = []
        for index, here in enumerate(left):
            for view in (here, here.T if here.dim() == 2 else here):
                if view.shape == there.shape:
                    near.append(((view - there).norm().item(), index, view))
        _, index, view = min(near, key=lambda entry: entry[0])
        del left[index]
        yield view, there
    if left:
        sys.exit(f"{len(left)} tensors have no counterpart")


def show(name, pairs):
    each = [((x - y).norm() / y.norm()).item() for x, y in pairs]
    error = sum((x - y).norm().item() ** 2 for x, y in pairs) ** 0.5
    size = sum(y.norm().item() ** 2 for _, y in pairs) ** 0.5
    print(f"  {name:44} {error / size:.2e}  {max(each):.2e}")


def curves(options):
    text = pathlib.Path(options.text).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(options.folder or name)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "data").exists():
            fitgpt_prepare(options, text, folder)
        config = ROOT / "config/train_shakespeare_char_cpu.py"
        losses = {}
        for seed in options.seeds:
            for arithmetic, keys in ARITHMETICS.items():
                out = f"seed{seed} {arithmetic}".replace(", ", "-").replace(" ", "-")
                log = folder / out / "events.jsonl"
                if not log.exists() or '"event":"end"' not in log.read_text().replace(" ", ""):
                    fitgpt(options, "train", config, *keys, "--dataset=data", f"--seed={seed}",
                           f"--max_iters={options.steps}", f"--lr_decay_iters={options.steps}",
                           f"--out_dir={out}", "--overwrite", cwd=folder)
                events = [json.loads(line) for line in log.read_text().splitlines()]
                losses[arithmetic, seed] = {
                    e["step"]: e["val_loss"] for e in events if e["event"] == "evaluation"}
                print(seed, arithmetic, losses[arithmetic, seed], file=sys.stderr, flush=True)
    print("validation loss after the last step, by seed, and their mean")
    for arithmetic in ARITHMETICS:
        last = [losses[arithmetic, seed][max(losses[arithmetic, seed])] for seed in options.seeds]
        listed = ", ".join(f"{loss:.4f}" for loss in last)
        print(f"  {arithmetic:28} {listed}; {sum(last) / len(last):.4f}")
    print("largest difference from float32 at any evaluation, same seed")
    for arithmetic in list(ARITHMETICS)[1:]:
        each = [abs(losses[arithmetic, seed][step] - loss) for seed in options.seeds
                for step, loss in losses["float32", seed].items()]
        print(f"  {arithmetic:28} {max(each):.4f}")


def fitgpt_prepare(options, text, folder):
    binary = pathlib.Path(options.binary).resolve()
    subprocess.run([binary, "prepare", text, "--chars", "--out", "data"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
