"""Writes small folders of the families other than GPT-2, as `transformers` trains them.

    python families.py [--into FOLDER]

Each case is a folder as `save_pretrained` writes it, and next to the weights
`expected.safetensors`: the batches of ten AdamW steps, their losses and gradient norms, every
gradient of the first step, and the logits of the first batch. `make.py` says how values are
drawn and what `float32_error` means. Norms and rotary tables are float32 in `transformers`
whatever the model's type, so that here the truth itself carries some of that rounding.
"""

import argparse
import json
import math
import pathlib
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

import make

FOLDER = "families"
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}

# Name, model type, (layers, heads, key/value heads, channels, MLP width, vocabulary, positions),
# batch, micro-batches, other keys of the config.
CASES = [
    ("llama_tied", "llama", (2, 3, 1, 24, 40, 61, 23), 3, 1,
     {"tie_word_embeddings": True, "rope_parameters": LLAMA3}),
    ("llama_biases", "llama", (2, 6, 2, 36, 44, 61, 19), 2, 1,
     {"attention_bias": True, "mlp_bias": True, "rope_parameters": LINEAR}),
    ("llama_ragged", "llama", (3, 7, 1, 28, 29, 65, 37), 2, 2,
     {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    ("mistral", "mistral", (2, 4, 2, 20, 33, 61, 21), 2, 1,
     {"head_dim": 14, "sliding_window": None}),
    ("qwen2", "qwen2", (2, 5, 5, 30, 41, 61, 20), 2, 1, {}),
    ("qwen3", "qwen3", (2, 4, 2, 24, 40, 61, 22), 2, 1,
     {"head_dim": 16, "tie_word_embeddings": True}),
]


def configuration(model_type, sizes, keys):
    """The `transformers` config of a case."""
    layers, heads, kv_heads, channels, inner, vocab, positions = sizes
    plain = {
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "hidden_size": channels, "intermediate_size": inner,
        "vocab_size": vocab, "max_position_embeddings": positions, "tie_word_embeddings": False,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None, "rms_norm_eps": 1e-5,
    }
    return AutoConfig.for_model(model_type, **{**plain, **keys})


def loss_of(model, tokens, targets):
    """Mean cross-entropy of a batch."""
    logits = model(tokens).logits
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(config, initial, tokens, targets, rates, dtype):
    """Ten AdamW steps in `dtype`; everything that `expected.safetensors` holds of them."""
    model = build(config, initial, dtype)
    p = dict(model.named_parameters())
    groups = [
        {"params": [v for v in p.values() if v.dim() >= 2], "weight_decay": make.WEIGHT_DECAY},
        {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rates[0], betas=make.BETAS, eps=make.ADAM_EPS)
    with torch.no_grad():
        out = {"logits": model(tokens[0, 0]).logits}
    losses, norms = [], []
    micro_batches = tokens.shape[1]
    for step, rate in enumerate(rates):
        total = 0.0
        for micro in range(micro_batches):
            loss = loss_of(model, tokens[step, micro], targets[step, micro]) / micro_batches
            loss.backward()
            total = total + loss.detach()
        losses.append(total)
        if step == 0:
            out |= {f"gradient.{name}": value.grad.clone() for name, value in p.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), 1.0))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    return out | {"losses": torch.stack(losses), "gradient_norms": torch.stack(norms)}


def build(config, initial, dtype):
    """The model with the drawn weights; without them, as the class makes it."""
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if initial:
                parameter.copy_(initial[name])
    return model.to(dtype).eval()


def errors(single, truth):
    """How far float32 ends from the truth, by quantity."""
    worst = {}
    for name, value in truth.items():
        quantity = "gradients" if name.startswith("gradient.") else name
        far = make.distance_share(single[name], value.double())
        worst[quantity] = max(worst.get(quantity, 0.0), far)
    return {quantity: make.rounded_up(value) for quantity, value in worst.items()}


def write(case, into):
    """Writes one case."""
    name, model_type, sizes, batch, micro_batches, keys = case
    config = configuration(model_type, sizes, keys)
    generator = torch.Generator().manual_seed(make.SEED + zlib.crc32(name.encode()))
    shapes = {n: tuple(p.shape) for n, p in build(config, {}, torch.float32).named_parameters()}
    initial = make.initial_parameters(shapes, generator)
    shape = (make.STEPS, micro_batches, batch, config.max_position_embeddings)
    tokens, targets = make.text(generator, config.vocab_size, shape)
    rates = make.learning_rates(3e-3)
    truth = train(config, initial, tokens, targets, rates, torch.float64)
    single = train(config, initial, tokens, targets, rates, torch.float32)

    folder = into / FOLDER / name
    build(config, initial, torch.float32).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tensors = {name: value.float().numpy() for name, value in truth.items()}
    tensors["learning_rates"] = np.array(rates, dtype=np.float32)
    tensors["tokens"] = tokens.numpy().astype(np.uint32)
    tensors["targets"] = targets.numpy().astype(np.uint32)
    facts = {
        "batch": batch, "micro_batches": micro_batches, "steps": make.STEPS,
        "betas": make.BETAS, "adam_eps": make.ADAM_EPS, "weight_decay": make.WEIGHT_DECAY,
        "grad_clip": 1.0, "float32_error": errors(single, truth),
    }
    metadata = {"golden": json.dumps(facts, sort_keys=True)}
    save_file(tensors, folder / "expected.safetensors", metadata)
    first, last = truth["losses"][0].item(), truth["losses"][-1].item()
    assert math.isfinite(last), name
    print(f"{name}: loss {first:.4f} to {last:.4f}, float32 error {facts['float32_error']}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--into", type=pathlib.Path, default=make.HERE, metavar="FOLDER")
    into = arguments.parse_args().into
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    for case in CASES:
        write(case, into)


if __name__ == "__main__":
    main()
