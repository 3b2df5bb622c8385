"""Writes the golden files: ten steps of small GPTs as PyTorch trains them.

    python make.py [--into FOLDER]

The values are computed in float64 from float32 weights and only then rounded to float32,
so they contain no float32 arithmetic. The same steps are also run in float32: each file's
metadata has the difference, and the tolerance for another float32 engine is a multiple of it.

The same PyTorch writes the same bytes: one thread, and every random number comes from
integers, because a vectorised normal generator rounds differently on different processors.
"""

import argparse
import dataclasses
import hashlib
import json
import math
import pathlib
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
SEED = 1337
STEPS = 10
BETAS = (0.9, 0.95)
ADAM_EPS = 1e-8
WEIGHT_DECAY = 0.1
NORM_EPS = 1e-5
# GPT-2's 0.02 leaves attention nearly flat and GELU nearly linear in models this narrow,
# which would forgive mistakes in both.
STD = 0.15


@dataclasses.dataclass(frozen=True)
class Case:
    """One model and the batches it sees."""

    name: str
    layers: int
    heads: int
    channels: int
    vocab: int
    block: int
    bias: bool
    gelu: str  # "exact" or "tanh"
    batch: int
    micro_batches: int
    learning_rate: float
    grad_clip: float  # 0 switches it off, as in nanoGPT
    why: str


CASES = [
    Case("bias_exact", 2, 3, 24, 64, 16, True, "exact", 4, 1, 3e-3, 1.0,
         "every parameter that GPT-2 has, with nanoGPT's GELU"),
    Case("plain_tanh", 3, 2, 20, 80, 24, False, "tanh", 2, 1, 3e-3, 1.0,
         "no biases, OpenAI's GELU, three layers"),
    Case("ragged", 3, 3, 21, 65, 37, False, "exact", 2, 1, 3e-3, 1.0,
         "no size is a multiple of a tile or a vector"),
    Case("wide_head", 1, 2, 40, 65, 37, False, "exact", 2, 1, 3e-3, 0.0,
         "a head of 20 channels (one vector of 16 and a tail), clipping off"),
    Case("accumulated", 2, 2, 24, 101, 19, True, "exact", 3, 2, 3e-3, 1.0,
         "two micro-batches a step; the norm begins above the clip and ends below it"),
]


def parameter_shapes(case):
    """Names and shapes in the order of GPT-2's modules; matrices are (out, in)."""
    c = case.channels
    modules = [("wte", (case.vocab, c)), ("wpe", (case.block, c))]
    for i in range(case.layers):
        modules += [
            (f"h.{i}.ln_1", (c,)),
            (f"h.{i}.attn.c_attn", (3 * c, c)),
            (f"h.{i}.attn.c_proj", (c, c)),
            (f"h.{i}.ln_2", (c,)),
            (f"h.{i}.mlp.c_fc", (4 * c, c)),
            (f"h.{i}.mlp.c_proj", (c, 4 * c)),
        ]
    modules.append(("ln_f", (c,)))

    shapes = {}
    for name, shape in modules:
        shapes[f"{name}.weight"] = shape
        if case.bias and name not in ("wte", "wpe"):
            shapes[f"{name}.bias"] = shape[:1]
    return shapes


def norm(p, x, name):
    """LayerNorm over the channels, with its bias if the model has one."""
    weight = p[f"{name}.weight"]
    return F.layer_norm(x, weight.shape, weight, p.get(f"{name}.bias"), NORM_EPS)


def linear(p, x, name):
    """A linear layer, with its bias if the model has one."""
    return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))


def logits(p, tokens, heads, gelu):
    """The model: (B, T) token ids to (B, T, V)."""
    batch, seq = tokens.shape
    layers = 1 + max(int(name.split(".")[1]) for name in p if name.startswith("h."))
    x = p["wte.weight"][tokens] + p["wpe.weight"][:seq]
    for i in range(layers):
        h = norm(p, x, f"h.{i}.ln_1")
        h = linear(p, h, f"h.{i}.attn.c_attn")
        q, k, v = h.view(batch, seq, 3, heads, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h.transpose(1, 2).reshape(batch, seq, -1)
        x = x + linear(p, h, f"h.{i}.attn.c_proj")

        h = norm(p, x, f"h.{i}.ln_2")
        h = linear(p, h, f"h.{i}.mlp.c_fc")
        h = F.gelu(h, approximate="tanh" if gelu == "tanh" else "none")
        x = x + linear(p, h, f"h.{i}.mlp.c_proj")
    return F.linear(norm(p, x, "ln_f"), p["wte.weight"])


def losses(p, tokens, targets, heads, gelu):
    """Cross-entropy at every position: (B, T)."""
    rows = logits(p, tokens, heads, gelu).flatten(0, 1)
    return F.cross_entropy(rows, targets.flatten(), reduction="none").view(targets.shape)


def bell(generator, shape):
    """Nearly normal numbers, made of integers: the sum of four uniform ones."""
    total = torch.randint(0, 65536, (4, *shape), generator=generator).sum(0)
    std = 65536 * math.sqrt(4 / 12)
    return (total.double() - 2 * 65535) / std


def initial_parameters(shapes, generator):
    """Float32 weights; norms and biases are not at their ones and zeros, so they count."""
    values = {}
    for name, shape in shapes.items():
        value = bell(generator, shape)
        if len(shape) == 2:
            value = STD * value
        elif name.endswith(".bias"):
            value = 0.1 * value
        else:
            value = 1 + 0.1 * value
        values[name] = value.float()
    return values


def text(generator, vocab, shape):
    """Token ids and the ones that follow; small ids are frequent, as words are."""
    *leading, seq = shape
    draws = torch.randint(0, vocab, (2, *leading, seq + 1), generator=generator)
    ids = draws.min(0).values
    return ids[..., :-1].contiguous(), ids[..., 1:].contiguous()


def learning_rates(peak):
    """Three steps of warm-up, then a cosine to a tenth; rounded to float32 for every engine."""
    rates = []
    for step in range(STEPS):
        if step < 3:
            rate = peak * (step + 1) / 4
        else:
            share = 0.5 * (1 + math.cos(math.pi * (step - 3) / (STEPS - 3)))
            rate = peak * (0.1 + 0.9 * share)
        rates.append(float(np.float32(rate)))
    return rates


def train(case, initial, tokens, targets, rates, dtype):
    """Ten AdamW steps in `dtype`; everything that a golden file holds of them."""
    p = {name: value.to(dtype, copy=True).requires_grad_() for name, value in initial.items()}
    matrices = [value for value in p.values() if value.dim() >= 2]
    vectors = [value for value in p.values() if value.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rates[0], betas=BETAS, eps=ADAM_EPS)

    with torch.no_grad():
        evaluation = losses(p, tokens[0, 0], targets[0, 0], case.heads, case.gelu).mean(1)
    out = {"evaluation_losses": evaluation}
    step_losses, norms = [], []
    for step, rate in enumerate(rates):
        total = 0.0
        for micro in range(case.micro_batches):
            rows = losses(p, tokens[step, micro], targets[step, micro], case.heads, case.gelu)
            loss = rows.mean() / case.micro_batches
            loss.backward()
            total = total + loss.detach()
        step_losses.append(total)
        if step == 0:
            out |= {f"gradient.{name}": value.grad.clone() for name, value in p.items()}
        limit = case.grad_clip or math.inf
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), limit))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    out["losses"] = torch.stack(step_losses)
    out["gradient_norms"] = torch.stack(norms)
    out |= {f"final.{name}": value.detach() for name, value in p.items()}
    return out


def distance_share(value, truth):
    """The largest difference, as a share of the largest magnitude in `truth`."""
    return ((value.double() - truth).abs().max() / truth.abs().max()).item()


def rounded_up(value):
    """To one digit, upwards: the next processor may round a little differently."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return float(f"{math.ceil(value / power) * power:.0e}")


def float32_errors(case, single, truth):
    """How far float32 ends from float64, by quantity.

    Keys' biases are separate: softmax ignores a shift of all scores, so their gradient is zero,
    and float32 leaves noise there that Adam scales up to a whole step.
    """
    worst = dict.fromkeys(
        ["losses", "evaluation_losses", "gradient_norms", "gradients", "final", "final_key_bias"],
        0.0,
    )
    c = case.channels
    for name, value in truth.items():
        pairs = [(name, single[name], value)]
        if name.startswith("final."):
            pairs = [("final", single[name], value)]
            if name.endswith("c_attn.bias"):
                keys = torch.zeros(3 * c, dtype=torch.bool)
                keys[c : 2 * c] = True
                pairs = [
                    ("final", single[name][~keys], value[~keys]),
                    ("final_key_bias", single[name][keys], value[keys]),
                ]
        elif name.startswith("gradient."):
            pairs = [("gradients", single[name], value)]
        for quantity, got, want in pairs:
            worst[quantity] = max(worst[quantity], distance_share(got, want))
    if not case.bias:
        del worst["final_key_bias"]
    return {quantity: rounded_up(value) for quantity, value in worst.items()}


def metadata(case, errors, clipped_steps):
    """One JSON text under one key: the order of several keys is not fixed by the format."""
    facts = {
        "case": dataclasses.asdict(case),
        "steps": STEPS,
        "betas": BETAS,
        "adam_eps": ADAM_EPS,
        "weight_decay": WEIGHT_DECAY,
        "clipped_steps": clipped_steps,
        "seed": SEED,
        "torch": torch.__version__.split("+")[0],
        "script_sha256": script_hash(),
        "float32_error": errors,
    }
    return {"golden": json.dumps(facts, sort_keys=True)}


def script_hash():
    """Which text of this script wrote a file."""
    return hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()


def make(case, folder):
    """Writes one case."""
    # A case draws from its own stream, so adding one changes no other.
    generator = torch.Generator().manual_seed(SEED + zlib.crc32(case.name.encode()))
    initial = initial_parameters(parameter_shapes(case), generator)
    shape = (STEPS, case.micro_batches, case.batch, case.block)
    tokens, targets = text(generator, case.vocab, shape)
    rates = learning_rates(case.learning_rate)

    truth = train(case, initial, tokens, targets, rates, torch.float64)
    single = train(case, initial, tokens, targets, rates, torch.float32)
    errors = float32_errors(case, single, truth)
    clipped_steps = int((truth["gradient_norms"] > (case.grad_clip or math.inf)).sum())
    if case.name == "accumulated" and clipped_steps not in range(1, STEPS):
        raise SystemExit(f"`{case.name}` clips {clipped_steps} of {STEPS} steps, wanted some")

    tensors = {f"initial.{name}": value.numpy() for name, value in initial.items()}
    tensors |= {name: value.float().numpy() for name, value in truth.items()}
    tensors["learning_rates"] = np.array(rates, dtype=np.float32)
    tensors["tokens"] = tokens.numpy().astype(np.uint32)
    tensors["targets"] = targets.numpy().astype(np.uint32)

    path = folder / f"{case.name}.safetensors"
    save_file(tensors, path, metadata(case, errors, clipped_steps))
    first, last = truth["losses"][0].item(), truth["losses"][-1].item()
    print(f"{path.name}: {path.stat().st_size} bytes, loss {first:.4f} to {last:.4f},")
    print(f"  {clipped_steps} steps clipped, float32 error {errors}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--into", type=pathlib.Path, default=HERE, metavar="FOLDER")
    folder = arguments.parse_args().into
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        make(case, folder)


if __name__ == "__main__":
    main()
