#!/usr/bin/env python3
"""Runs exported GGUF files in llama.cpp and compares its probabilities with those of `transformers`.

    tests/export/check_llama_cpp.py FITGPT

FITGPT is the program. Needs `tests/requirements.txt`, which has llama.cpp as `xllamacpp`: a compiled
wheel, while `llama-cpp-python` is compiled from source for a quarter of an hour.

Every family is trained for a few steps on the built-in stories and exported in every type. After each
prefix of 24 random tokens, llama.cpp's logarithms of probabilities for the whole vocabulary are compared
with those of `transformers` in float32 on the same folder, which `scripts/test` compares with our own
logits. Ends with exit code 1 if a difference is too large.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import xllamacpp
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()

TOKENS = 24
# Largest difference, as a share of the largest logarithm. llama.cpp keeps the attention's keys and values
# in float16 and quantises activations for q8_0.
ALLOWED = {"f32": 1e-3, "f16": 2e-3, "q8_0": 2e-2}
SMALL = ["--n_layer=2", "--n_head=4", "--n_embd=128", "--block_size=64", "--batch_size=4",
         "--max_iters=30", "--eval_interval=1000", "--eval_iters=1", "--device=cpu", "--json"]  # fmt: skip
LLAMA = [*SMALL, "--n_kv_head=2"]
MODELS = {
    "gpt2": [*SMALL, "--gelu=tanh"],
    "gpt2-bias": [*SMALL, "--gelu=tanh", "--bias=True"],
    "llama": [*LLAMA, "--family=llama"],
    "mistral": [*LLAMA, "--family=mistral"],
    "qwen2": [*LLAMA, "--family=qwen2"],
    "qwen3": [*LLAMA, "--family=qwen3"],
}


def in_llama_cpp(path, tokens, vocab):
    """Logarithms of the probabilities of every next token, after each prefix of `tokens`."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel = 64, 1
    parameters.cpuparams.n_threads = 2
    parameters.warmup = False
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    found = np.full((len(tokens), vocab), np.nan)
    for position in range(len(tokens)):
        asked = {"prompt": tokens[: position + 1], "n_predict": 1, "n_probs": vocab, "cache_prompt": False}
        answer = server.handle_completions(asked)
        for entry in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
            found[position, entry["id"]] = entry["logprob"]
    return found


def main(fitgpt):
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in MODELS.items():
            train = [fitgpt, "train", *keys, f"--out_dir={name}"]
            subprocess.run(train, cwd=folder, check=True, capture_output=True)
            model = AutoModelForCausalLM.from_pretrained(Path(folder, name), dtype=torch.float32)
            vocab = json.loads(Path(folder, name, "config.json").read_text())["vocab_size"]
            tokens = np.random.default_rng(5).integers(0, vocab, TOKENS).tolist()
            with torch.no_grad():
                expected = model(torch.tensor([tokens])).logits[0].log_softmax(-1).numpy()
            for kind, allowed in ALLOWED.items():
                path = Path(folder, f"{name}-{kind}.gguf")
                export = [fitgpt, "export", name, "--to", "gguf", "--type", kind, "--out", path]
                subprocess.run(export, cwd=folder, check=True, capture_output=True)
                found = in_llama_cpp(path, tokens, vocab)
                difference = float(np.abs(found - expected).max() / np.abs(expected).max())
                print(f"{name} {kind}: differs by {difference:.1e}, allowed {allowed:.0e}", flush=True)
                if not difference <= allowed:  # also if a token is missing
                    failures.append(f"{name} {kind}")
    sys.exit(f"too different: {', '.join(failures)}" if failures else 0)


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
