#!/usr/bin/env python3
"""Loads what `scripts/fineweb-to-models` exported: in `transformers`, and as nanoGPT loads it.

    load.py FOLDER DATASET

FOLDER has a run `out`, its exports `hf` and `ckpt.pt`, and `sample.json`, a greedy sample of it. The
three must give the same logits on the dataset's tokens, and `transformers` the sample's text.
"""

import json
import os
import pathlib
import sys

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "patch" / "nano"))
os.environ["HF_HUB_OFFLINE"] = "1"
from model import GPT, GPTConfig  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline  # noqa: E402

# Logits of a few units in float32, summed in other orders: a dozen roundings of 5e-7.
TOLERANCE = 1e-5


def loaded_as_nanogpt(path):
    """The model and its optimizer, as `train.py --init_from=resume` and `sample.py` make them."""
    checkpoint = torch.load(path, map_location="cpu")
    arguments, keys = checkpoint["model_args"], checkpoint["config"]
    model = GPT(GPTConfig(**arguments))
    state = checkpoint["model"]
    for name in list(state):
        if name.startswith("_orig_mod."):
            state[name.removeprefix("_orig_mod.")] = state.pop(name)
    model.load_state_dict(state)
    betas = (keys["beta1"], keys["beta2"])
    optimizer = model.configure_optimizers(keys["weight_decay"], keys["learning_rate"], betas, "cpu")
    optimizer.load_state_dict(checkpoint["optimizer"])
    return model, optimizer, checkpoint


def main(folder, dataset):
    tokens = numpy.fromfile(folder / dataset / "val.bin", dtype=numpy.uint16)
    ids = torch.from_numpy(tokens[:256].astype(numpy.int64)).view(4, 64)
    nano, optimizer, checkpoint = loaded_as_nanogpt(folder / "ckpt.pt")
    ours = AutoModelForCausalLM.from_pretrained(folder / "out")
    exported = AutoModelForCausalLM.from_pretrained(folder / "hf")
    nano.eval()
    with torch.no_grad():
        logits = ours(ids).logits
        if not torch.equal(logits, exported(ids).logits):
            sys.exit("the exported folder has other logits than the run")
        difference = (nano(ids, ids)[0] - logits).abs().max().item()
    if not difference <= TOLERANCE * logits.abs().max().item():
        sys.exit(f"nanoGPT's logits differ by {difference}")
    # The run goes on: what it has learned is there, and so are its moments.
    nano.train()
    before = nano(ids, ids)[1]
    before.backward()
    steps = {float(state["step"]) for state in optimizer.state.values()}
    if steps != {float(checkpoint["iter_num"])}:
        sys.exit(f"optimizer steps {steps} at iteration {checkpoint['iter_num']}")
    optimizer.step()
    after = nano(ids, ids)[1]
    if not after < before < 10.7:
        sys.exit(f"the loss went from {before} to {after}")

    sample = json.loads((folder / "sample.json").read_text())
    prompt = len(AutoTokenizer.from_pretrained(folder / "out")("The tokens")["input_ids"])
    for name in ["out", "hf"]:
        generate = pipeline("text-generation", str(folder / name))
        text = generate("The tokens", max_new_tokens=len(sample["tokens"]) - prompt, do_sample=False)
        if text[0]["generated_text"] != sample["text"]:
            sys.exit(f"{name}: {text} and {sample['text']!r}")
    print(f"transformers and nanoGPT: logits differ by {difference:.1e}; the pipeline gives the sample; "
          f"nanoGPT's next step takes the loss from {before:.4f} to {after:.4f}")  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
