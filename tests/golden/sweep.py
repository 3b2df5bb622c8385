"""Trains random Llamas, Mistrals and Qwens with `transformers` and with the program; compares losses.

    python sweep.py PROGRAM [--models N] [--seed N]

Each model has a random shape: odd numbers of heads, grouped heads, explicit head sizes, tied and
untied heads, biases, rotary scalings, one file or several. Both programs take ten AdamW steps from
the same folder, and every loss must be within 1e-4 of PyTorch's in float64. The folder that the
program writes must load in `transformers` and give the loss that PyTorch's model has after the
last step.

Adam divides a gradient by its own size, so one element whose gradient is nearly zero turns
rounding into a step of any size up to the learning rate. If that moves PyTorch's own float32 away
from its float64, the program may be as far away as `MULTIPLE` times that, as in the golden tests.

The dataset is one sequence long, so both programs see the same batches without knowing each
other's order of sequences.
"""

import argparse
import copy
import json
import pathlib
import random
import subprocess
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import families

STEPS = 10
TOLERANCE = 1e-4
MULTIPLE = 8
LR, WEIGHT_DECAY, BETAS, CLIP = 2e-3, 0.1, (0.9, 0.95), 1.0


def random_config(numbers):
    """A model type, its `transformers` config, and the length of a sequence."""
    model_type = numbers.choice(["llama", "mistral", "qwen2", "qwen3"])
    kv_heads = numbers.randint(1, 4)
    heads = kv_heads * numbers.randint(1, 4)
    head_dim = 2 * numbers.randint(1, 20)
    keys = {
        "tie_word_embeddings": numbers.random() < 0.5,
        "rms_norm_eps": numbers.choice([1e-5, 1e-6, 1e-3]),
    }
    channels = heads * head_dim
    # Qwen 2 derives the size of a head from the width, and Llama wants a width that its heads divide.
    if model_type == "llama" and numbers.random() < 0.5:
        channels = heads * numbers.randint(1, 30)
        keys["head_dim"] = head_dim
    elif model_type in ("mistral", "qwen3"):
        channels = numbers.randint(4, 150)
        keys["head_dim"] = head_dim
    if model_type == "llama":
        keys |= {"attention_bias": numbers.random() < 0.3, "mlp_bias": numbers.random() < 0.3}
    if model_type == "qwen3":
        keys["attention_bias"] = numbers.random() < 0.3
    if model_type == "mistral":
        keys["sliding_window"] = None
    theta = numbers.choice([10000.0, 500000.0, 37.5])
    seq = numbers.randint(2, 80)
    keys["rope_parameters"] = numbers.choice([
        {"rope_type": "default", "rope_theta": theta},
        {"rope_type": "linear", "rope_theta": theta, "factor": numbers.uniform(1, 8)},
        {
            "rope_type": "llama3", "rope_theta": theta, "factor": numbers.uniform(1, 32),
            "low_freq_factor": 1.0, "high_freq_factor": numbers.uniform(1.5, 4),
            "original_max_position_embeddings": numbers.randint(4, 64),
        },
    ])  # fmt: skip
    sizes = (
        numbers.randint(1, 3), heads, kv_heads, channels, numbers.randint(1, 120),
        numbers.randint(5, 400), seq + numbers.randint(0, 20),
    )  # fmt: skip
    return families.configuration(model_type, sizes, keys), seq


def loss_of(model, tokens):
    return families.loss_of(model, tokens[None, :-1], tokens[None, 1:])


def torch_losses(model, tokens):
    """The losses before each step and after the last one."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=1e-8)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(model, tokens)
        loss.backward()
        losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        return [*losses, loss_of(model, tokens).item()]


def program_losses(program, folder, seq, tokens):
    data = folder / "data"
    data.mkdir()
    for name in ["train.bin", "val.bin"]:
        tokens.numpy().astype(np.uint16).tofile(data / name)
    command = [
        program, "train", "--json", f"--init_from={folder / 'model'}", f"--dataset={data}",
        f"--out_dir={folder / 'out'}", "--batch_size=2", "--gradient_accumulation_steps=2",
        f"--block_size={seq}", f"--max_iters={STEPS - 1}", f"--learning_rate={LR}",
        "--decay_lr=False", "--warmup_iters=0", f"--weight_decay={WEIGHT_DECAY}",
        f"--grad_clip={CLIP}", f"--beta1={BETAS[0]}", f"--beta2={BETAS[1]}", "--eval_iters=1",
        "--eval_interval=1000", "--dropout=0.0", "--dtype=float32", "--device=cpu",
    ]  # fmt: skip
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    events = [json.loads(line) for line in open(folder / "out/events.jsonl")]
    return [event["loss"] for event in events if event["event"] == "step"]


def distance(losses, exact):
    return max(abs(a - b) for a, b in zip(losses, exact, strict=True))


def compare(program, seed, folder):
    """The largest error of a loss, the largest that is allowed, and the model's description."""
    numbers = random.Random(seed)
    config, seq = random_config(numbers)
    torch.manual_seed(seed)
    model = families.build(config, {}, torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():  # the classes start biases at 0 and norms at 1
            parameter.add_(0.05 * torch.randn_like(parameter))
    size = numbers.choice(["1GB", "20kB"])
    model.save_pretrained(folder / "model", max_shard_size=size)
    tokens = torch.tensor([numbers.randrange(config.vocab_size) for _ in range(seq + 1)])
    exact = torch_losses(copy.deepcopy(model).double(), tokens)
    rounded = torch_losses(model, tokens)
    found = program_losses(program, folder, seq, tokens)
    assert len(found) == STEPS, found
    trained = AutoModelForCausalLM.from_pretrained(folder / "out", dtype=torch.float32).eval()
    with torch.no_grad():
        found.append(loss_of(trained, tokens).item())
    allowed = max(TOLERANCE, MULTIPLE * distance(rounded, exact))
    heads = f"{config.num_attention_heads}/{config.num_key_value_heads} heads"
    about = f"{config.model_type}, {heads}, width {config.hidden_size}"
    return distance(found, exact), allowed, f"{about}, loss {exact[0]:.3f} to {exact[-1]:.3f}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("program", type=pathlib.Path)
    arguments.add_argument("--models", type=int, default=8)
    arguments.add_argument("--seed", type=int, default=None, help="of the first model")
    given = arguments.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**9)
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    worst = 0.0
    for seed in range(seed, seed + given.models):
        with tempfile.TemporaryDirectory() as folder:
            far, allowed, about = compare(given.program.resolve(), seed, pathlib.Path(folder))
        print(f"seed {seed}: {about}; wrong by at most {far:.1e}", flush=True)
        if not far <= allowed:
            raise SystemExit(f"seed {seed}: losses are wrong by {far}, allowed is {allowed}")
        worst = max(worst, far)
    print(f"{given.models} random models: losses of {STEPS} steps are wrong by at most {worst:.1e}")


if __name__ == "__main__":
    main()
