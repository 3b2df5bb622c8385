"""Compares a model folder with Hugging Face's `transformers`.

    python check_transformers.py FOLDER [--tokens 3,1,4]
    python check_transformers.py --write FOLDER [--vocab N] [--block N] [--layers N] …

The first form loads a folder (`model.safetensors`, `config.json`) with `transformers` and
compares its logits with those of the model in `make.py` (GPT-2) or of `llama_logits` (the other
families), read from the same file without `transformers`. It exits with 1 if they differ by more
than 1e-4.

The second form has `transformers` write a small model with random weights, and next to it
`expected.safetensors`: tokens, targets, the logits, and the loss of every sequence, computed in
float64.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

import make

# `transformers` computes in float32. The untrained fixture differs by 1e-6; a trained model's
# logits are larger, and at 100 one rounding is 8e-6, so 1e-4 is a dozen roundings. A wrong
# bias, GELU or layout is off by far more than that.
TOLERANCE = 1e-4
GELUS = {"gelu": "exact", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
SEQUENCES = 3


def own_parameters(folder, has_bias):
    """The tensors of `model.safetensors`, named and laid out as in `make.py`."""
    p = {}
    for name, value in load_file(folder / "model.safetensors").items():
        name = name.removeprefix("transformer.")
        if name == "lm_head.weight" or name.endswith((".attn.bias", ".attn.masked_bias")):
            continue  # tied to `wte`, or a mask that old versions stored
        value = torch.from_numpy(value).double()
        if value.dim() == 2 and name.startswith("h."):
            value = value.T  # GPT-2's Conv1D is (in, out)
        if has_bias or not name.endswith(".bias"):
            p[name] = value
    return p


def read_config(folder):
    """Heads, GELU and whether the model has biases, from `config.json` alone."""
    config = json.loads((folder / "config.json").read_text())
    activation = config.get("activation_function", "gelu_new")
    if activation not in GELUS:
        sys.exit(f"`activation_function` is unknown: `{activation}`")
    has_bias = config.get("fitgpt", {}).get("bias", True)
    return config["n_head"], GELUS[activation], has_bias


def head_size(config):
    """Channels of a head; Qwen 2's configs leave it out."""
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def rotary_frequencies(config):
    """Radians per position of each pair of channels."""
    rope, size = config["rope_parameters"], head_size(config)
    frequencies = rope["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    if rope["rope_type"] == "linear":
        return frequencies / rope["factor"]
    if rope["rope_type"] == "llama3":
        original = rope["original_max_position_embeddings"]
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = original * frequencies / (2 * np.pi)
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return kept * frequencies + (1 - kept) * frequencies / rope["factor"]
    return frequencies


def llama_logits(p, tokens, config):
    """Llama, Mistral, Qwen 2 and Qwen 3 in plain PyTorch: (B, T) token ids to (B, T, V)."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, epsilon = head_size(config), config["rms_norm_eps"]
    angles = torch.outer(torch.arange(tokens.shape[1]).double(), rotary_frequencies(config))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

    def norm(x, name):
        return x * (x.pow(2).mean(-1, keepdim=True) + epsilon).rsqrt() * p[f"{name}.weight"]

    def linear(x, name):
        return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))

    def heads_of(x, name, count, part):
        y = linear(x, f"{name}.{part}_proj").unflatten(-1, (count, size)).transpose(1, 2)
        if part == "v":
            return y
        if f"{name}.{part}_norm.weight" in p:
            y = norm(y, f"{name}.{part}_norm")
        first, second = y.chunk(2, -1)
        return y * cos + torch.cat([-second, first], -1) * sin

    x = p["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        h, name = norm(x, f"{layer}.input_layernorm"), f"{layer}.self_attn"
        q = heads_of(h, name, heads, "q")
        k, v = (heads_of(h, name, kv_heads, part) for part in "kv")
        k, v = (y.repeat_interleave(heads // kv_heads, 1) for y in (k, v))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(h.transpose(1, 2).flatten(2), f"{name}.o_proj")
        h, name = norm(x, f"{layer}.post_attention_layernorm"), f"{layer}.mlp"
        h = F.silu(linear(h, f"{name}.gate_proj")) * linear(h, f"{name}.up_proj")
        x = x + linear(h, f"{name}.down_proj")
    head = p.get("lm_head.weight", p["model.embed_tokens.weight"])
    return F.linear(norm(x, "model.norm"), head)


def own_logits(folder, tokens, config):
    """The logits of the file's weights, computed without `transformers`."""
    if config["model_type"] == "gpt2":
        heads, gelu, has_bias = read_config(folder)
        return make.logits(own_parameters(folder, has_bias), tokens, heads, gelu)
    p = {n: torch.from_numpy(v).double() for n, v in load_file(folder / "model.safetensors").items()}
    return llama_logits(p, tokens, config)


def check(folder, given):
    """Compares the two computations; returns the exit code."""
    config = json.loads((folder / "config.json").read_text())
    vocab = config["vocab_size"]
    block = config.get("n_positions") or config["max_position_embeddings"]
    if given:
        tokens = torch.tensor([given])
    else:
        generator = torch.Generator().manual_seed(make.SEED)
        tokens = torch.randint(0, vocab, (2, block), generator=generator)
    if tokens.max() >= vocab or tokens.min() < 0 or tokens.shape[1] > block:
        sys.exit(f"the tokens do not fit a vocabulary of {vocab} and {block} positions")

    theirs, loading = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, local_files_only=True
    )
    faults = {kind: sorted(names) for kind, names in loading.items() if names}
    if faults:
        print(f"`transformers` did not load every tensor: {faults}", file=sys.stderr)
        return 1
    with torch.no_grad():
        got = theirs.eval()(tokens).logits.double()
        want = own_logits(folder, tokens, config)
    far = (got - want).abs().max().item()
    print(f"{folder}: logits to {want.abs().max():.3f}, largest difference {far:.2e}")
    return 0 if far <= TOLERANCE else 1  # 1 for a NaN


def write(folder, sizes):
    """Has `transformers` write a model, and stores its logits and losses."""
    config = GPT2Config(
        vocab_size=sizes.vocab,
        n_positions=sizes.block,
        n_embd=sizes.channels,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        activation_function=sizes.activation,
        bos_token_id=sizes.vocab - 1,
        eos_token_id=sizes.vocab - 1,
    )
    model = GPT2LMHeadModel(config).eval()
    generator = torch.Generator().manual_seed(sizes.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # As `make.py` draws, so that a mistake in any bias or norm shows.
            drawn = make.initial_parameters({name: tuple(parameter.shape)}, generator)
            parameter.copy_(drawn[name])
    model.save_pretrained(folder)

    tokens, targets = make.text(generator, sizes.vocab, (SEQUENCES, sizes.block))
    with torch.no_grad():
        logits = model.double()(tokens).logits
    rows = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    expected = {
        "tokens": tokens.numpy().astype(np.uint32),
        "targets": targets.numpy().astype(np.uint32),
        "logits": logits.float().numpy(),
        "losses": rows.view(targets.shape).mean(1).float().numpy(),
    }
    save_file(expected, folder / "expected.safetensors")


def token_ids(text):
    """`3,1,4` as a list."""
    return [int(part) for part in text.split(",")]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    arguments.add_argument("--tokens", type=token_ids, metavar="3,1,4")
    arguments.add_argument("--write", action="store_true", help="write the folder instead")
    arguments.add_argument("--vocab", type=int, default=61)
    arguments.add_argument("--block", type=int, default=23)
    arguments.add_argument("--layers", type=int, default=2)
    arguments.add_argument("--heads", type=int, default=3)
    arguments.add_argument("--channels", type=int, default=24)
    arguments.add_argument("--activation", choices=sorted(GELUS), default="gelu_new")
    arguments.add_argument("--seed", type=int, default=make.SEED)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    if given.write:
        write(given.folder, given)
        sys.exit(0)
    sys.exit(check(given.folder, given.tokens))


if __name__ == "__main__":
    main()
