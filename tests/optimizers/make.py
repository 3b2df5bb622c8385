"""Writes what other programs make of a few optimizer steps, for `main.rs` to compare with.

    python make.py            writes adamw8bit, lion and muon.safetensors here
    python make.py --check    computes them again and compares

`adamw8bit`: three steps of AdamW with 8-bit moments, in NumPy alone, after bitsandbytes'
`create_dynamic_map` and its CUDA kernel: float32 arithmetic, every product and sum rounded;
the nearest number of the map, the even code between two; a sign is never lost. Weight decay
comes before the update, as in PyTorch's AdamW. The map's bits equal bitsandbytes 0.50.2's.

`lion`: three steps of algorithm 2 of "Symbolic Discovery of Optimization Algorithms" in float64.

`muon`: three steps of `torch.optim.Muon`, which iterates in bfloat16, and the same algorithm
with every operation in float64 (`exact`). `bfloat16_error` says how far the first ends from
the second, as a share of the largest update.

Versions: Python 3.11, torch 2.15.0, numpy 2.4.6, safetensors 0.8.0. Seed 1337.
"""

import json
import math
import os
import pathlib
import sys

import numpy as np

# Some virtual machines announce AMX and do not run it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
F = np.float32
SEED, STEPS = 1337, 3


# AdamW with 8-bit moments

COUNT, BLOCK = 5000, 256  # 19 blocks and a partial one
ADAM = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}


def dynamic_map(signed):
    numbers = [F(0), F(1)]
    for decade in range(7):
        count = 2**decade if signed else 2 ** (decade + 1)
        step, i = np.float64((F(1) - F(0.1)) / F(count)), np.arange(count + 1)
        # `torch.linspace` counts from both ends, and rounds once.
        up, down = np.float64(F(0.1)) + step * i, 1 - step * (count - i)
        boundaries = np.where(i < (count + 1) // 2, up, down).astype(F)
        means = (boundaries[:-1] + boundaries[1:]) / F(2)
        values = F(10.0 ** (decade - 6)) * means
        numbers.extend(values)
        if signed:
            numbers.extend(-values)
    return np.sort(np.array(numbers, dtype=F))


def decode(numbers, codes, scales):
    return numbers[codes] * np.repeat(scales, BLOCK)[: len(codes)]


def encode(numbers, values, signed):
    scales = np.array([np.abs(values[i : i + BLOCK]).max() for i in range(0, len(values), BLOCK)])
    spread = np.repeat(scales, BLOCK)[: len(values)]
    x = np.divide(values, spread, out=np.zeros_like(values), where=spread > 0)
    middles = (numbers[:-1] + numbers[1:]) * F(0.5)
    below = np.searchsorted(middles, x, side="left")  # middles below x
    tie = (below < 255) & (x == middles[np.minimum(below, 254)])
    codes = below + (tie & (below % 2 == 1))
    if signed:
        codes = np.where(np.signbit(x) & ~np.signbit(numbers[codes]), codes - 1, codes)
    return codes.astype(np.uint8), scales.astype(F)


def adamw8bit():
    rng = np.random.default_rng(SEED)
    books = [dynamic_map(True), dynamic_map(False)]
    parameter = rng.normal(0, 0.02, COUNT).astype(F)
    codes = [np.zeros(COUNT, np.uint8)] * 2
    scales = [np.zeros(-(-COUNT // BLOCK), F)] * 2
    tensors = {"initial": parameter}
    b1, b2 = map(F, ADAM["betas"])
    for step in range(1, STEPS + 1):
        # Six decades of magnitudes, a block that learns nothing, rows that rarely do.
        gradient = (rng.normal(0, 1, COUNT) * 10 ** rng.uniform(-6, 0, COUNT)).astype(F)
        gradient[BLOCK : 2 * BLOCK] = 0
        gradient[rng.random(COUNT) < 0.1] = 0
        m = decode(books[0], codes[0], scales[0])
        v = decode(books[1], codes[1], scales[1])
        m = m * b1 + (F(1) - b1) * gradient
        v = v * b2 + (F(1) - b2) * gradient * gradient
        assert m.dtype == v.dtype == F
        # In float64: only codes and scales are to be met bit for bit.
        wide = parameter.astype(np.float64) * (1 - ADAM["lr"] * ADAM["weight_decay"])
        root = np.sqrt(v.astype(np.float64)) / math.sqrt(1 - float(b2) ** step) + ADAM["eps"]
        wide -= ADAM["lr"] / (1 - float(b1) ** step) * m / root
        parameter = wide.astype(F)
        pairs = [encode(books[0], m, True), encode(books[1], v, False)]
        codes, scales = [c for c, _ in pairs], [s for _, s in pairs]
        tensors[f"gradient.{step}"] = gradient
        tensors[f"parameter.{step}"] = parameter
        for name, code, scale in zip(["exp_avg", "exp_avg_sq"], codes, scales):
            tensors[f"{name}.{step}"] = code
            tensors[f"{name}_scale.{step}"] = scale
    return tensors, {"count": COUNT, "steps": STEPS, **ADAM}


# Lion

LION = {"lr": 1e-3, "betas": [0.9, 0.99], "weight_decay": 0.1}


def lion():
    rng = np.random.default_rng(SEED)
    initial = rng.normal(0, 0.02, COUNT).astype(F)
    tensors = {"initial": initial}
    parameter, m = initial.astype(np.float64), np.zeros(COUNT)
    b1, b2, lr, decay = (float(F(x)) for x in [*LION["betas"], LION["lr"], LION["weight_decay"]])
    for step in range(1, STEPS + 1):
        gradient = rng.normal(0, 1, COUNT).astype(F)
        gradient[rng.random(COUNT) < 0.1] = 0  # the sign of zero is zero
        direction = b1 * m + (1 - b1) * gradient.astype(np.float64)
        nonzero = np.abs(direction[direction != 0])
        assert nonzero.min() > 1e-6, "float32 might see another sign"
        parameter = parameter * (1 - lr * decay) - lr * np.sign(direction)
        m = b2 * m + (1 - b2) * gradient.astype(np.float64)
        tensors[f"gradient.{step}"] = gradient
        tensors[f"parameter.{step}"] = parameter.astype(F)
        tensors[f"moment.{step}"] = m.astype(F)
    return tensors, {"count": COUNT, "steps": STEPS, **LION}


# Muon

CASES = [
    {"name": "wide", "shape": [32, 48], "adjust": "original", "nesterov": True},
    {"name": "tall", "shape": [96, 32], "adjust": "original", "nesterov": True},
    {"name": "square", "shape": [40, 40], "adjust": "match_rms_adamw", "nesterov": False},
    {"name": "unclamped", "shape": [24, 56], "adjust": "spectral_unclamped", "nesterov": True},
]
MUON = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.95, "eps": 1e-7, "ns_steps": 5}
COEFFICIENTS = [3.4445, -4.775, 2.0315]


def exact_step(parameter, buffer, gradient, case):
    """One step of the algorithm, in float64."""
    momentum, lr = MUON["momentum"], MUON["lr"]
    buffer = buffer + (1 - momentum) * (gradient - buffer)
    u = gradient + momentum * (buffer - gradient) if case["nesterov"] else buffer
    rows, columns = u.shape
    x = u.T if rows > columns else u
    x = x / max(np.linalg.norm(x), MUON["eps"])
    a, b, c = COEFFICIENTS
    for _ in range(MUON["ns_steps"]):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x.T if rows > columns else x
    adjustment = {
        "original": math.sqrt(max(1, rows / columns)),
        "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns)),
        "spectral_unclamped": math.sqrt(rows / columns),
    }[case["adjust"]]
    return parameter * (1 - lr * MUON["weight_decay"]) - lr * adjustment * x, buffer


def muon():
    tensors, cases = {}, []
    for index, case in enumerate(CASES):
        rng = np.random.default_rng(SEED + index)
        initial = rng.normal(0, 0.02, case["shape"]).astype(F)
        gradients = [rng.normal(0, 0.01, case["shape"]).astype(F) for _ in range(STEPS)]
        weight = torch.nn.Parameter(torch.from_numpy(initial.copy()))
        optimizer = torch.optim.Muon(
            [weight],
            **MUON,
            nesterov=case["nesterov"],
            ns_coefficients=tuple(COEFFICIENTS),
            adjust_lr_fn=case["adjust"],
        )
        exact, buffer = initial.astype(np.float64), np.zeros(case["shape"])
        for gradient in gradients:
            weight.grad = torch.from_numpy(gradient.copy())
            optimizer.step()
            exact, buffer = exact_step(exact, buffer, gradient.astype(np.float64), case)
        found = weight.detach().numpy()
        update = np.abs(exact - initial).max()
        error = np.abs(found - exact).max() / update
        name = case["name"]
        tensors[f"{name}.initial"] = initial
        tensors[f"{name}.gradients"] = np.stack(gradients)
        tensors[f"{name}.torch"] = found.copy()
        tensors[f"{name}.exact"] = exact.astype(F)
        tensors[f"{name}.momentum"] = optimizer.state[weight]["momentum_buffer"].numpy().copy()
        cases.append({**case, "bfloat16_error": float(error)})
    return tensors, {"steps": STEPS, "coefficients": COEFFICIENTS, **MUON, "cases": cases}


def check(path, tensors, facts):
    with safe_open(path, framework="numpy") as file:
        old = {name: file.get_tensor(name) for name in file.keys()}
        stated = json.loads(file.metadata()["golden"])
    errors = {case["name"]: case.pop("bfloat16_error") for case in stated.get("cases", [])}
    for case in facts.get("cases", []):
        case.pop("bfloat16_error")
    assert stated == facts, f"{path.name}: {stated} and {facts}"
    assert old.keys() == tensors.keys(), path.name
    for name, value in tensors.items():
        assert old[name].dtype == value.dtype and old[name].shape == value.shape, name
        far = np.abs(old[name].astype(np.float64) - value).max()
        # Codes, scales and gradients to the bit; what PyTorch does in bfloat16 differs between
        # processors; the rest is float64, rounded once.
        exact = "exp_avg" in name or "gradient" in name or "initial" in name
        allowed = 0 if exact else 1e-6 * np.abs(value).max()
        if name.endswith(".torch"):
            case = name.removesuffix(".torch")
            allowed = 2 * errors[case] * np.abs(value - tensors[f"{case}.initial"]).max()
        assert far <= allowed, f"{path.name}: `{name}` differs by {far:.2e}, allowed {allowed:.2e}"


def main():
    for name, make in [("adamw8bit", adamw8bit), ("lion", lion), ("muon", muon)]:
        path = HERE / f"{name}.safetensors"
        tensors, facts = make()
        if "--check" in sys.argv[1:]:
            check(path, tensors, facts)
        else:
            save_file(tensors, path, metadata={"golden": json.dumps(facts)})


if __name__ == "__main__":
    main()
