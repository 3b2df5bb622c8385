#!/usr/bin/env python3
"""Compares FitGPT with PyTorch on this machine: same model, weights, tokens and threads.

    bench/compare.py [--rounds N] [--steps N] [--only JOB …] [--write FILE.md] [--binary FITGPT]

Builds FitGPT in release mode. Uses the Python that FITGPT_PYTHON names, which must have the
packages of `tests/requirements.txt`; if it is unset, installs them into `target/bench-venv`.

Each job first checks that FitGPT and PyTorch compute the same loss from the same weights. Then
FitGPT, PyTorch eager and PyTorch compiled run in turn, each in its own process, and the fastest
step of each is reported. Compare only figures of one run: the speed of a shared machine changes
by a factor of two within minutes.

With other programs on the machine, `--cpu-time --threads 1` compares the CPU time of a step, which
does not contain the time that others had the core. Evaluations are not measured so. Of
FitGPT it is the difference between a process
with one step and one with several.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
GPT2 = dict(n_layer=12, n_head=12, n_embd=768, block_size=1024, vocab_size=50304, batch_size=4)
CHARS = dict(n_layer=6, n_head=6, n_embd=384, block_size=256, vocab_size=65, batch_size=64)
SMOL = dict(family="llama", n_layer=30, n_head=9, n_kv_head=3, n_embd=576, ffn_dim=1536,
            tie_embeddings=True, block_size=512, vocab_size=49152, batch_size=4)
TINY = dict(n_layer=4, n_head=4, n_embd=128, block_size=64, vocab_size=65, batch_size=12)

# name: the work to time, the model's sizes, the steps of a round, and options of FitGPT's side
JOBS = {
    "124M, training step, float32": dict(work="train", sizes=GPT2, steps=3),
    "124M, evaluation, float32": dict(work="evaluate", sizes=GPT2, steps=3),
    "124M, training step, bfloat16": dict(work="train", sizes=GPT2, steps=2, dtype="bfloat16"),
    "124M, evaluation, bfloat16": dict(work="evaluate", sizes=GPT2, steps=3, dtype="bfloat16"),
    "shakespeare_char, training step, bfloat16": dict(
        work="train", sizes=CHARS, steps=4, dtype="bfloat16"),
    # On a CPU without bfloat16 instructions, PyTorch takes minutes for the step above.
    "124M, one sequence of 64, bfloat16": dict(
        work="train", sizes=dict(GPT2, batch_size=1, block_size=64), steps=2, dtype="bfloat16"),
    "124M, recomputing every block; PyTorch keeps all": dict(
        work="train", sizes=GPT2, steps=3, ours=["--grad_checkpoint=True"]),
    "shakespeare_char, training step": dict(work="train", sizes=CHARS, steps=4),
    "shakespeare_char with dropout 0.2": dict(work="train", sizes=CHARS, steps=4, dropout=0.2),
    "the CPU preset, training step": dict(work="train", sizes=TINY, steps=200),
    "SmolLM-135M (transformers), training step, float32": dict(
        work="train", sizes=SMOL, steps=3),
    "124M, 256 tokens after a prompt of 768": dict(
        work="sample", sizes=GPT2, prompt=768, new_tokens=256, samples=1),
    "124M, ten samples of 256 tokens as one batch": dict(
        work="sample", sizes=GPT2, prompt=1, new_tokens=256, samples=10),
    "124M, one sample of 256 tokens": dict(
        work="sample", sizes=GPT2, prompt=1, new_tokens=256, samples=1),
    "124M, one sample of 256 tokens, bfloat16": dict(
        work="sample", sizes=GPT2, prompt=1, new_tokens=256, samples=1, dtype="bfloat16"),
    # So short that PyTorch, without a cache, does little more than read the weights for each token.
    "124M, one sample of 16 tokens, float32": dict(
        work="sample", sizes=GPT2, prompt=1, new_tokens=16, samples=1),
    "124M, one sample of 16 tokens, bfloat16": dict(
        work="sample", sizes=GPT2, prompt=1, new_tokens=16, samples=1, dtype="bfloat16"),
    "shakespeare_char, evaluation, bfloat16": dict(
        work="evaluate", sizes=CHARS, steps=4, dtype="bfloat16"),
}
# How far apart two correct losses may be. In float32 only the order of summation differs, which
# is about 1e-6 of a loss of 11. Bfloat16 keeps 8 bits, and PyTorch's autocast rounds elsewhere.
AGREES = {"float32": 1e-4, "bfloat16": 2e-2}


def main():
    options = parse()
    python = environment()
    binary = options.binary or build()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder), binary, python, options)
        for name, job in JOBS.items():
            if options.only and not any(part in name for part in options.only):
                continue
            if options.cpu_time and job["work"] == "evaluate":
                sys.exit(f"{name}: `--cpu-time` measures training steps and samples only")
            print(f"# {name}", file=sys.stderr, flush=True)
            rows.append(bench.sampling(name, job) if job["work"] == "sample"
                        else bench.training(name, job))
        text = report(rows, bench)
    print(text)
    if options.write:
        pathlib.Path(options.write).write_text(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs a job")
    parser.add_argument("--steps", type=int, help="steps of a round, at least 2; default: the job's")
    parser.add_argument("--only", nargs="+", help="jobs whose name contains one of these")
    parser.add_argument("--write", help="also write the table to this file")
    parser.add_argument("--binary", help="use this fitgpt instead of building one")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cpu-time", action="store_true",
                        help="compare CPU time, for a machine that others use too")
    parser.add_argument("--eager-only", action="store_true", help="skip torch.compile")
    options = parser.parse_args()
    if options.steps is not None and options.steps < 2:
        parser.error("--steps: the first step is not timed, so at least 2 are needed")
    return options


def environment():
    """The path of a Python that has PyTorch."""
    if "FITGPT_PYTHON" in os.environ:
        return os.environ["FITGPT_PYTHON"]
    venv = ROOT / "target" / "bench-venv"
    if not (venv / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        requirements = ROOT / "tests" / "requirements.txt"
        subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet",
                        "--requirement", requirements], check=True)
        (venv / "ready").touch()
    return venv / "bin/python"


def build():
    subprocess.run(["cargo", "build", "--release"], cwd=ROOT, check=True)
    return ROOT / "target/release/fitgpt"


class Bench:
    def __init__(self, folder, binary, python, options):
        self.folder, self.binary = folder, pathlib.Path(binary).resolve()
        self.python, self.options = python, options
        self.torch = ""

    def training(self, name, job):
        if self.options.steps:
            job = dict(job, steps=self.options.steps)
        sizes, dtype = job["sizes"], job.get("dtype", "float32")
        dropout = job.get("dropout", 0.0)
        window = self.data(sizes)
        # Losses can be compared only without dropout, so this step has none.
        weights, loss = self.first_loss(sizes, dtype)
        ours, eager, compiled = [], [], []
        for _ in range(self.options.rounds):
            ours.append(self.ours(job, sizes, dtype, dropout))
            peer = dict(sizes, work=job["work"], steps=job["steps"], dtype=dtype, window=window,
                        dropout=dropout, weights=str(weights), cpu_time=self.options.cpu_time)
            eager.append(self.peer(dict(peer, compile=False)))
            if not self.options.eager_only:
                compiled.append(self.peer(dict(peer, compile=True)))
        if dropout == 0.0:
            for other in eager + compiled:
                apart = abs(other["loss"] - loss)
                if apart > AGREES[dtype]:
                    sys.exit(f"{name}: the losses are {apart:.2e} apart ({loss}, {other['loss']})")
        return summary(name, ours, eager, compiled)

    def sampling(self, name, job):
        sizes, dtype = job["sizes"], job.get("dtype", "float32")
        self.data(sizes)
        weights, _ = self.first_loss(dict(sizes, batch_size=1), "float32")
        ours, theirs = [], []
        for _ in range(self.options.rounds):
            prompt = self.folder / "prompt.txt"
            prompt.write_text(" the" * job["prompt"] if job["prompt"] > 1 else "")
            keys = ["sample", f"--out_dir={weights}", f"--start=FILE:{prompt}", "--json",
                    f"--num_samples={job['samples']}", f"--dtype={dtype}", "--device=cpu",
                    f"--threads={self.options.threads}"]
            answer, used, cpu_ms = self.fitgpt(*keys, f"--max_new_tokens={job['new_tokens']}")
            answer = json.loads(answer)
            if answer["prompt_tokens"] != job["prompt"]:
                sys.exit(f"{name}: the prompt has {answer['prompt_tokens']} tokens")
            made = job["samples"] * job["new_tokens"]
            ms = 1e3 * made / answer["tokens_per_s"]
            if self.options.cpu_time:
                ms = cpu_ms - self.fitgpt(*keys, "--max_new_tokens=1")[2]
            ours.append(dict(ms=ms, resident_bytes=used))
            theirs.append(self.peer(dict(
                sizes, work="sample", prompt=job["prompt"], new_tokens=job["new_tokens"],
                samples=job["samples"], dropout=0.0, weights=str(weights), dtype=dtype,
                window=[0, 0], compile=False, cpu_time=self.options.cpu_time)))
        return summary(name, ours, theirs, [])

    def data(self, sizes):
        """Writes a dataset of exactly one sequence, so that every batch repeats it."""
        draws = random.Random(1337)
        window = [draws.randrange(sizes["vocab_size"]) for _ in range(sizes["block_size"] + 1)]
        folder = self.folder / "data"
        folder.mkdir(exist_ok=True)
        for split in ("train", "val"):
            (folder / f"{split}.bin").write_bytes(struct.pack(f"<{len(window)}H", *window))
        return window

    def keys(self, sizes, dtype, dropout):
        return [f"--{key}={value}" for key, value in sizes.items()] + [
            f"--dataset={self.folder / 'data'}", "--gradient_accumulation_steps=1", "--bias=False",
            f"--dropout={dropout}", f"--dtype={dtype}", f"--threads={self.options.threads}",
            "--device=cpu", "--learning_rate=0.0", "--min_lr=0.0", "--decay_lr=False",
            "--eval_iters=1", "--eval_interval=1000000", "--log_interval=1000000"]

    def first_loss(self, sizes, dtype):
        """Writes the initial weights and returns their folder and their loss."""
        out = self.folder / "weights"
        self.fitgpt("train", *self.keys(sizes, dtype, 0.0), f"--out_dir={out}", "--max_iters=0",
                    "--overwrite", "--json")
        return out, steps(out)[0]["loss"]

    def ours(self, job, sizes, dtype, dropout):
        out = self.folder / "out"
        keys = self.keys(sizes, dtype, dropout) + job.get("ours", [])
        if self.options.cpu_time:
            return self.ours_in_cpu_time(job, keys, out)
        if job["work"] == "evaluate":
            answer, _, _ = self.fitgpt("bench", *keys, f"--runs={job['steps']}", "--json")
            programs = json.loads(answer)["measured"]["programs"]
            (program,) = [p for p in programs if p["name"] == "evaluate"]
            tokens = sizes["batch_size"] * sizes["block_size"]
            # The plan may evaluate fewer sequences at a time than asked for, so scale by tokens.
            # `bench` also trains, so its peak memory is not that of an evaluation.
            return dict(ms=program["ms"] * tokens / program["tokens"], resident_bytes=None)
        _, used, _ = self.fitgpt("train", *keys, f"--out_dir={out}",
                                 f"--max_iters={job['steps'] - 1}", "--overwrite", "--json")
        return dict(ms=min(step["ms"] for step in steps(out)[1:]), resident_bytes=used)

    def ours_in_cpu_time(self, job, keys, out):
        def of(steps):
            return self.fitgpt("train", *keys, f"--out_dir={out}", f"--max_iters={steps}",
                               "--overwrite", "--json")

        _, used, all_ms = of(job["steps"])
        return dict(ms=(all_ms - of(0)[2]) / job["steps"], resident_bytes=used)

    def fitgpt(self, command, *args):
        return run([self.binary, command, *args])

    def peer(self, job):
        path = self.folder / "job.json"
        path.write_text(json.dumps(dict(job, threads=self.options.threads)))
        answer, _, _ = run([self.python, HERE / "peer.py", path])
        figures = json.loads(answer)
        self.torch = figures["torch"]
        return figures


def run(command):
    """Runs a command and returns its stdout, its peak resident bytes and its CPU time in ms."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} {command[1]} ended with status {status}")
    return output, 1024 * usage.ru_maxrss, 1e3 * (usage.ru_utime + usage.ru_stime)


def steps(folder):
    lines = (folder / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [event for event in events if event["event"] == "step"]


def summary(name, ours, eager, compiled):
    """The fastest step and the largest peak of each side."""
    sides = dict(ours=ours, eager=eager, compiled=compiled)
    figures = dict(name=name)
    for side, results in sides.items():
        figures[f"{side}_ms"] = min((r["ms"] for r in results), default=None)
        peaks = [r["resident_bytes"] for r in results if r["resident_bytes"]]
        figures[f"{side}_bytes"] = max(peaks, default=None)
    print(json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def report(rows, bench):
    clock = "CPU time of a step, because other programs ran. " if bench.options.cpu_time else ""
    rounds = "One round" if bench.options.rounds == 1 else f"Best of {bench.options.rounds} rounds"
    lines = [
        f"# FitGPT compared with PyTorch {bench.torch}, {datetime.date.today()}", "",
        f"{processor()}, {bench.options.threads} threads. {rounds} in alternation, one process each; "
        "the losses were compared first.",
        clock + "Speed is PyTorch's time divided by FitGPT's, so above 1 FitGPT is faster. Memory is the "
        "peak resident size, FitGPT's divided by PyTorch's.", "",
        "| job | FitGPT | eager | compiled | speed vs eager | vs compiled "
        "| memory | vs eager | vs compiled |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ms, size = row["ours_ms"], row["ours_bytes"]
        cells = [row["name"]]
        cells += [time_text(row[f"{side}_ms"]) for side in ("ours", "eager", "compiled")]
        cells += [ratio(row[f"{side}_ms"], ms) for side in ("eager", "compiled")]
        cells.append(f"{size / 1e9:.2f} GB" if size else "—")
        cells += [ratio(size, row[f"{side}_bytes"]) for side in ("eager", "compiled")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def ratio(numerator, denominator):
    return f"{numerator / denominator:.2f} ×" if numerator and denominator else "—"


def time_text(ms):
    if ms is None:
        return "—"
    return f"{ms / 1e3:.2f} s" if ms >= 1000 else f"{ms:.1f} ms"


def processor():
    try:
        names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                 if line.startswith("model name")]
        flags = next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split()
        widest = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "no AVX2"
        widest += " with bfloat16 products" if "avx512_bf16" in flags else ""
        return f"{names[0]} ({widest}), {platform.system()}"
    except (OSError, IndexError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
