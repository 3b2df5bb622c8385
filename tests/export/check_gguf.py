"""Compares a GGUF file with the Hugging Face folder that it was exported from.

    python tests/export/check_gguf.py FOLDER FILE.gguf

Needs `gguf`, `numpy` and `safetensors` from PyPI. Ends with exit code 1 and the first difference.
"""

import json
import pathlib
import sys

import gguf
import numpy
import safetensors.numpy

# Half of float16's spacing as a share of a value, and of a block's largest value in q8_0.
ALLOWED = {"F32": 0.0, "F16": 2.0**-11, "Q8_0": 0.5 / 127 + 2.0**-11}


def expected(folder):
    """llama.cpp's tensors, by the rules of its converter."""
    config = json.loads((folder / "config.json").read_text())
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    is_gpt2 = config["model_type"] == "gpt2"
    names = gguf.get_tensor_name_map(
        {"gpt2": gguf.MODEL_ARCH.GPT2, "qwen2": gguf.MODEL_ARCH.QWEN2,
         "qwen3": gguf.MODEL_ARCH.QWEN3}.get(config["model_type"], gguf.MODEL_ARCH.LLAMA), 200)
    for name, value in weights.items():
        if name.endswith((".attn.bias", ".attn.masked_bias", ".inv_freq")):
            continue
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if target is None:
            sys.exit(f"llama.cpp has no name for `{name}`")
        if is_gpt2 and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            value = value.T
        if config["model_type"] in ("llama", "mistral"):
            heads = {"q_proj": config["num_attention_heads"],
                     "k_proj": config["num_key_value_heads"]}
            for part, n in heads.items():
                if f".{part}." in name:
                    shape = value.shape
                    value = value.reshape(n, 2, shape[0] // n // 2, *shape[1:])
                    value = value.swapaxes(1, 2).reshape(shape)
        yield target, value.astype(numpy.float32)


def check_divisors(config, found):
    """The divisors of Llama 3's frequencies, by the rules of llama.cpp's converter."""
    rope = config["rope_parameters"]
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    original = rope["original_max_position_embeddings"]
    low, high = original / rope["low_freq_factor"], original / rope["high_freq_factor"]
    for pair, value in enumerate(found):
        wavelength = 2 * numpy.pi * rope["rope_theta"] ** (2 * pair / size)
        if wavelength < high:
            divisor = 1
        elif wavelength > low:
            divisor = rope["factor"]
        else:
            smooth = (original / wavelength - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            divisor = 1 / ((1 - smooth) / rope["factor"] + smooth)
        if abs(value - divisor) > 1e-5 * divisor:
            sys.exit(f"`rope_freqs.weight` has {value} for pair {pair}, not {divisor}")


def main(folder, file):
    reader = gguf.GGUFReader(file)
    found = {tensor.name: tensor for tensor in reader.tensors}
    for name, value in expected(pathlib.Path(folder)):
        tensor = found.pop(name, None)
        if tensor is None:
            if name == "output.weight":
                continue  # tied
            sys.exit(f"`{name}` is missing")
        stored = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(value.shape)
        kind = tensor.tensor_type.name
        if kind == "Q8_0":
            blocks = numpy.abs(value).reshape(-1, 32).max(axis=1, keepdims=True)
            limit = (blocks * ALLOWED[kind]).repeat(32, axis=1).reshape(value.shape)
        else:
            limit = numpy.abs(value) * ALLOWED[kind] + (6e-8 if kind == "F16" else 0)
        if not (numpy.abs(stored - value) <= limit * 1.0001).all():
            sys.exit(f"`{name}` differs by {numpy.abs(stored - value).max()}")
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    if (config.get("rope_parameters") or {}).get("rope_type") == "llama3":
        check_divisors(config, found.pop("rope_freqs.weight").data)
    for name, tensor in found.items():
        if not name.endswith(".bias") or tensor.data.any():
            sys.exit(f"`{name}` should not be there")
    kinds = sorted({tensor.tensor_type.name for tensor in reader.tensors})
    architecture = reader.get_field("general.architecture").contents()
    n_tokens = reader.get_field(f"{architecture}.vocab_size").contents()
    tokens = reader.get_field("tokenizer.ggml.tokens")
    if tokens is not None and len(tokens.data) != n_tokens:
        sys.exit(f"{len(tokens.data)} tokens for a vocabulary of {n_tokens}")
    print(f"{file}: {architecture}, {len(reader.tensors)} tensors, {', '.join(kinds)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
