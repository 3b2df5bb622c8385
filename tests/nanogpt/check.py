#!/usr/bin/env python3
"""Continues nanoGPT's runs in fitgpt and fitgpt's in PyTorch, and compares every loss.

    check.py --binary target/debug/fitgpt        all checks; exit code 1 names the first difference
    check.py --write tests/nanogpt/fixture       writes the files that `cargo test` reads

The model is tests/patch/nano/model.py, the checkpoint is written as nanoGPT's train.py writes its
own. Batches are drawn as fitgpt draws them, so that both programs see the same. Needs PyTorch,
`transformers` and no GPU.
"""

import argparse
import json
import math
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
NANO = HERE.parent / "patch" / "nano"
sys.path.insert(0, str(NANO))
from model import GPT, GPTConfig  # noqa: E402

# float32 with other orders of summation: one rounding of a loss is 6e-8 of it, and after ten
# updates the weights differ in their last bits. Measured: 1.2e-7. A wrong moment or decay group is
# off by 1e-3.
TOLERANCE = 2e-6
SEED = 1337
SYMBOLS = [chr(32 + n) for n in range(95)] + ["\n", "é"]


def config(**changes):
    """The 33 keys of nanoGPT's train.py."""
    keys = dict(
        out_dir="out", eval_interval=1000, log_interval=1, eval_iters=2, eval_only=False,
        always_save_checkpoint=True, init_from="scratch", wandb_log=False, wandb_project="owt",
        wandb_run_name="gpt2", dataset="check", gradient_accumulation_steps=2, batch_size=4,
        block_size=32, n_layer=2, n_head=2, n_embd=32, dropout=0.0, bias=False,
        learning_rate=1e-3, max_iters=30, weight_decay=0.1, beta1=0.9, beta2=0.95, grad_clip=1.0,
        decay_lr=True, warmup_iters=3, lr_decay_iters=30, min_lr=1e-4, backend="nccl",
        device="cpu", dtype="float16", compile=True,
    )  # fmt: skip
    assert set(changes) <= set(keys), changes
    return keys | changes


def draw(words):
    """fitgpt's draws: splitmix64's finaliser over every word."""
    mask, state = (1 << 64) - 1, 0
    for word in words:
        z = ((state ^ word) + 0x9E3779B97F4A7C15) & mask
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        state = z ^ (z >> 31)
    return state


def batch(data, keys, step, micro):
    """The tokens and targets of a micro-batch."""
    size, block = keys["batch_size"], keys["block_size"]
    rows = []
    for sequence in range(micro * size, (micro + 1) * size):
        start = draw([SEED, 0, step, sequence]) * (len(data) - block) >> 64
        rows.append(data[start : start + block + 1].astype(np.int64))
    rows = torch.from_numpy(np.stack(rows))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def learning_rate(keys, step):
    if step < keys["warmup_iters"]:
        return keys["learning_rate"] * (step + 1) / (keys["warmup_iters"] + 1)
    if step > keys["lr_decay_iters"]:
        return keys["min_lr"]
    share = (step - keys["warmup_iters"]) / (keys["lr_decay_iters"] - keys["warmup_iters"])
    cosine = 0.5 * (1.0 + math.cos(math.pi * share))
    return keys["min_lr"] + cosine * (keys["learning_rate"] - keys["min_lr"])


def model_args(keys, vocab):
    names = ["n_layer", "n_head", "n_embd", "block_size", "bias", "dropout"]
    return {name: keys[name] for name in names} | {"vocab_size": vocab}


def optimizer_of(model, keys):
    betas = (keys["beta1"], keys["beta2"])
    return model.configure_optimizers(keys["weight_decay"], keys["learning_rate"], betas, "cpu")


def train(model, optimizer, data, keys, steps):
    """Trains in PyTorch; the loss of every step, the mean over its micro-batches."""
    losses = {}
    for step in steps:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(keys, step)
        total = 0.0
        for micro in range(keys["gradient_accumulation_steps"]):
            _, loss = model(*batch(data, keys, step, micro))
            loss = loss / keys["gradient_accumulation_steps"]
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), keys["grad_clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses[step] = total
    return losses


def save(path, model, optimizer, keys, vocab, step, prefix=""):
    """A checkpoint as nanoGPT writes it; a compiled model's names have a prefix."""
    state = model.state_dict()
    if prefix:
        state = {prefix + name: value for name, value in state.items()}
    torch.save(
        {
            "model": state,
            "optimizer": optimizer.state_dict(),
            "model_args": model_args(keys, vocab),
            "iter_num": step,
            "best_val_loss": torch.tensor(3.25),
            "config": keys,
        },
        path,
    )


def dataset(folder, symbols, counts):
    """A dataset with something to learn, and its vocabulary as nanoGPT pickles it."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.random.default_rng(7)
    for name, count in zip(["train.bin", "val.bin"], counts):
        tokens = np.minimum(numbers.geometric(0.15, count), len(symbols)) - 1
        tokens.astype(np.uint16).tofile(folder / name)
    meta = dict(vocab_size=len(symbols), itos=dict(enumerate(symbols)),
                stoi={symbol: n for n, symbol in enumerate(symbols)})  # fmt: skip
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))
    return np.fromfile(folder / "train.bin", dtype=np.uint16)


def compare(what, ours, theirs):
    assert ours.keys() == theirs.keys(), f"{what}: steps {list(ours)} and {list(theirs)}"
    worst = max(abs(ours[step] - theirs[step]) / theirs[step] for step in theirs)
    print(f"{what}: {len(theirs)} losses, the largest difference {worst:.1e}")
    if not worst <= TOLERANCE:
        sys.exit(f"{what}: {ours} and PyTorch's {theirs}")


class Check:
    def __init__(self, binary, folder):
        self.binary, self.folder = str(pathlib.Path(binary).resolve()), folder
        self.data = dataset(folder / "data" / "check", SYMBOLS, [20_000, 2_000])

    def run(self, *arguments, code=0):
        """Runs fitgpt; what it printed: with `--json` the document alone."""
        done = subprocess.run([self.binary, *arguments], cwd=self.folder, text=True,
                              capture_output=True)  # fmt: skip
        if done.returncode != code:
            sys.exit(f"fitgpt {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout if "--json" in arguments else done.stdout + done.stderr

    def losses(self, out_dir, steps):
        """The losses of `steps` in a run's log."""
        lines = (self.folder / out_dir / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return {e["step"]: e["loss"] for e in events
                if e["event"] == "step" and e["step"] in steps}  # fmt: skip

    def continued(self, name, prefix="", **changes):
        """PyTorch → fitgpt → PyTorch, at most ten steps each."""
        keys, vocab = config(**changes), len(SYMBOLS)
        torch.manual_seed(3)
        model = GPT(GPTConfig(**model_args(keys, vocab)))
        optimizer = optimizer_of(model, keys)
        train(model, optimizer, self.data, keys, range(7))
        out = self.folder / name
        out.mkdir()
        save(out / "ckpt.pt", model, optimizer, keys, vocab, 7, prefix)
        shutil.copytree(out, self.folder / f"{name}-sample")
        self.samples_alike(f"{name}-sample", model)

        theirs = train(model, optimizer, self.data, keys, range(7, 17))
        resume = ["train", "--init_from=resume", f"--out_dir={name}"]
        printed = self.run(*resume, "--max_iters=16")
        assert "continues nanoGPT's run at step 7, with the moments of 7 updates" in printed, printed
        compare(f"{name}, continued by fitgpt", self.losses(name, range(7, 17)), theirs)
        # The run now has a checkpoint in fitgpt's format; `ckpt.pt` is unchanged.
        assert torch.load(out / "ckpt.pt")["iter_num"] == 7

        self.run("export", name, "--to", "nanogpt", "--out", f"{name}-back.pt")
        ours = self.resumed(self.folder / f"{name}-back.pt", model, optimizer)
        self.run(*resume, "--max_iters=26")
        theirs = train(*ours, self.data, keys, range(17, 27))
        compare(f"{name}, continued by PyTorch", self.losses(name, range(17, 27)), theirs)

    def resumed(self, path, model, optimizer):
        """What nanoGPT's train.py would resume from `path`, compared with a run in memory."""
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        full = torch.load(path, map_location="cpu", weights_only=False)
        assert full["config"] == checkpoint["config"] and full["iter_num"] == 17, full["iter_num"]
        assert checkpoint["model_args"] == model_args(checkpoint["config"],
                                                      len(SYMBOLS))  # fmt: skip
        back = GPT(GPTConfig(**checkpoint["model_args"]))
        back.load_state_dict(checkpoint["model"])
        again = optimizer_of(back, checkpoint["config"])
        again.load_state_dict(checkpoint["optimizer"])
        for here, there in zip(back.parameters(), model.parameters()):
            torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-6)
            for state in ["exp_avg", "exp_avg_sq"]:
                torch.testing.assert_close(again.state[here][state], optimizer.state[there][state],
                                           rtol=1e-3, atol=1e-7)  # fmt: skip
            assert again.state[here]["step"] == 17
        groups, expected = again.param_groups, optimizer.param_groups
        for here, there in zip(groups, expected):
            assert here.keys() == there.keys(), (here.keys(), there.keys())
            for key in ["betas", "eps", "weight_decay"]:
                assert here[key] == there[key], (key, here[key], there[key])
        return back, again

    def samples_alike(self, name, model):
        """The likeliest continuation, from the folder and from the file."""
        start = "To be, or"
        idx = torch.tensor([[SYMBOLS.index(symbol) for symbol in start]])
        with torch.no_grad():
            for _ in range(12):
                logits, _ = model(idx)
                idx = torch.cat((idx, logits[:, -1].argmax(-1, keepdim=True)), dim=1)
        for place in [f"--out_dir={name}", f"--init_from={name}/ckpt.pt", f"--init_from={name}"]:
            arguments = ["sample", place, f"--start={start}", "--top_k=1", "--num_samples=1",
                         "--max_new_tokens=12", "--json", "--device=cpu"]  # fmt: skip
            answer = json.loads(self.run(*arguments))
            tokens = answer["samples"][0]["tokens"]
            assert tokens == idx[0].tolist(), f"{place}: {tokens} and PyTorch's {idx[0].tolist()}"
            assert answer["samples"][0]["text"].startswith(start)
        print(f"{name}: the likeliest samples are PyTorch's")

    def own_loop(self):
        """The exported file is resumed by a train.py, and its file by fitgpt again."""
        code = self.folder / "code"
        shutil.copytree(NANO, code)
        shutil.copytree(self.folder / "data", code / "data")
        (code / "out").mkdir()
        shutil.copy(self.folder / "plain-back.pt", code / "out" / "ckpt.pt")
        keys = {key: value for key, value in config(max_iters=24, eval_interval=6).items()
                if key in ("max_iters", "eval_interval", "gradient_accumulation_steps", "batch_size",
                           "block_size", "n_layer", "n_head", "n_embd", "dataset", "device",
                           "lr_decay_iters")}  # fmt: skip
        arguments = [f"--{key}={value}" for key, value in keys.items()]
        command = [sys.executable, "-W", "ignore", "train.py", *arguments, "--compile=False",
                   "--init_from=resume"]  # fmt: skip
        done = subprocess.run(command, cwd=code, text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"train.py: {done.stdout}{done.stderr}")
        (self.folder / "third").mkdir()
        shutil.copy(code / "out" / "ckpt.pt", self.folder / "third" / "ckpt.pt")
        printed = self.run("train", "--init_from=resume", "--out_dir=third", "--max_iters=26")
        assert "continues nanoGPT's run at step 24" in printed, printed
        print("train.py resumes the exported file, and fitgpt what train.py saved")

    def in_transformers(self):
        """The folders that fitgpt writes, in `transformers`, and what it writes, in fitgpt."""
        from transformers import AutoModelForCausalLM, pipeline

        self.run("export", "biased-sample/ckpt.pt", "--to", "hf", "--out", "hf")
        saved = torch.load(self.folder / "biased-sample" / "ckpt.pt")
        model = GPT(GPTConfig(**saved["model_args"]))
        prefix = "_orig_mod."
        model.load_state_dict({n.removeprefix(prefix): v for n, v in saved["model"].items()})
        theirs = AutoModelForCausalLM.from_pretrained(self.folder / "hf")
        idx = torch.from_numpy(self.data[:32].astype(np.int64))[None]
        with torch.no_grad():
            logits = model(idx, idx)[0]
            difference = (theirs(idx).logits - logits).abs().max().item()
        assert difference < 1e-4, f"logits differ by {difference}"

        for folder in ["hf", "biased"]:
            generate = pipeline("text-generation", str(self.folder / folder))
            text = generate("To be", max_new_tokens=8, do_sample=False)[0]["generated_text"]
            sample = ["--init_from=" + folder, "--start=To be", "--top_k=1", "--num_samples=1",
                      "--max_new_tokens=8", "--json", "--device=cpu"]  # fmt: skip
            ours = json.loads(self.run("sample", *sample))["samples"][0]["text"]
            assert text == ours, f"{folder}: {text!r} and {ours!r}"

        state = {n: v for n, v in theirs.state_dict().items()}
        names = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
        for folder in ["whole", "parts"]:
            (self.folder / folder).mkdir()
            shutil.copy(self.folder / "hf" / "config.json", self.folder / folder)
        torch.save(state, self.folder / "whole" / "pytorch_model.bin")
        where = {name: names[n % 2] for n, name in enumerate(state)}
        for part in names:
            some = {name: state[name].clone() for name in state if where[name] == part}
            torch.save(some, self.folder / "parts" / part)
        (self.folder / "parts" / "pytorch_model.bin.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": where}))  # fmt: skip
        tokens = []
        for folder in ["hf", "whole", "parts"]:
            answer = json.loads(self.run("sample", f"--init_from={folder}", "--dataset=check",
                                         "--top_k=1", "--num_samples=1", "--start=To be",
                                         "--max_new_tokens=8", "--json"))  # fmt: skip
            tokens.append(answer["samples"][0]["tokens"])
        assert tokens[0] == tokens[1] == tokens[2], tokens
        print("transformers reads the exported folder, and fitgpt `pytorch_model.bin`")

    def refused(self):
        """What nanoGPT cannot hold, by name, and files that are not checkpoints."""
        small = ["--dataset=check", "--n_layer=1", "--n_head=1", "--n_embd=64", "--block_size=16",
                 "--batch_size=2", "--gradient_accumulation_steps=1", "--max_iters=1",
                 "--eval_iters=1", "--device=cpu", "--json"]  # fmt: skip
        cases = [("muon", "--optimizer=muon", "muon"), ("8bit", "--optimizer=adamw8bit", "8bit"),
                 ("llama", "--family=llama", "llama")]  # fmt: skip
        for name, flag, expected in cases:
            self.run("train", *small, flag, f"--out_dir={name}")
            printed = self.run("export", name, "--to", "nanogpt", "--out", "x.pt", code=2)
            assert expected in printed, printed
        evil = self.folder / "evil"
        evil.mkdir()

        class Evil:
            def __reduce__(self):
                return (os.mkdir, (str(evil / "made"),))

        torch.save({"model": Evil()}, evil / "ckpt.pt")
        printed = self.run("sample", "--out_dir=evil", code=2)
        assert "`posix.mkdir`" in printed and not (evil / "made").exists(), printed
        print("8-bit, Muon, other families and foreign pickles are refused by name")

    def all(self):
        self.continued("plain")
        self.continued("biased", prefix="_orig_mod.", bias=True, n_layer=3, grad_clip=0.5)
        self.own_loop()
        self.in_transformers()
        self.refused()


def write(folder):
    """A tiny run of PyTorch with its next ten losses."""
    folder.mkdir(parents=True, exist_ok=True)
    symbols = SYMBOLS[:31]
    data = dataset(folder, symbols, [400, 100])
    keys = config(dataset="fixture", n_layer=1, n_head=2, n_embd=8, block_size=16, bias=True)
    torch.manual_seed(3)
    model = GPT(GPTConfig(**model_args(keys, len(symbols))))
    optimizer = optimizer_of(model, keys)
    train(model, optimizer, data, keys, range(5))
    save(folder / "ckpt.pt", model, optimizer, keys, len(symbols), 5, "_orig_mod.")
    losses = train(model, optimizer, data, keys, range(5, 15))
    (folder / "losses.json").write_text(json.dumps(list(losses.values())) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if arguments.write:
        write(arguments.write)
        return
    with tempfile.TemporaryDirectory() as folder:
        Check(arguments.binary, pathlib.Path(folder)).all()


if __name__ == "__main__":
    main()
