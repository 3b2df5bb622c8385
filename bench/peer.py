"""PyTorch's side of `compare.py`: runs one job and prints its figures as JSON on stdout.

    python peer.py JOB.json

The model is nanoGPT's GPT-2, or for another family the `transformers` model that the weights'
folder names (`LlamaForCausalLM` for Llama). A step is nanoGPT's: forward, backward, clipping,
fused AdamW (PyTorch's fastest), gradients set to None. The weights come from a folder that FitGPT
wrote, so both sides start from the same loss.
"""

import contextlib
import json
import pathlib
import resource
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


class Block(nn.Module):
    def __init__(self, channels, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1 = nn.LayerNorm(channels, bias=False)
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels, bias=False)
        self.ln_2 = nn.LayerNorm(channels, bias=False)
        self.up = nn.Linear(channels, 4 * channels, bias=False)
        self.down = nn.Linear(4 * channels, channels, bias=False)

    def forward(self, x):
        batch, seq, channels = x.shape
        parts = self.qkv(self.ln_1(x)).split(channels, dim=2)
        q, k, v = (part.view(batch, seq, self.heads, -1).transpose(1, 2) for part in parts)
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        y = self.out(y.transpose(1, 2).contiguous().view(batch, seq, channels))
        x = x + F.dropout(y, self.dropout, self.training)
        y = self.down(F.gelu(self.up(self.ln_2(x))))
        return x + F.dropout(y, self.dropout, self.training)


class GPT(nn.Module):
    def __init__(self, layers, heads, channels, block, vocab, dropout):
        super().__init__()
        self.dropout = dropout
        self.wte = nn.Embedding(vocab, channels)
        self.wpe = nn.Embedding(block, channels)
        self.blocks = nn.ModuleList(Block(channels, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(channels, bias=False)
        self.head = nn.Linear(channels, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens, targets=None):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.head(x[:, [-1]])
        logits = self.head(x)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    def read(self, folder):
        """Loads weights in Hugging Face's GPT-2 layout, which stores matrices transposed."""
        stored = load_file(pathlib.Path(folder) / "model.safetensors")
        stored = {name.removeprefix("transformer."): value for name, value in stored.items()}
        pairs = [(self.wte, "wte"), (self.wpe, "wpe"), (self.ln_f, "ln_f")]
        matrices = []
        for i, block in enumerate(self.blocks):
            pairs += [(block.ln_1, f"h.{i}.ln_1"), (block.ln_2, f"h.{i}.ln_2")]
            matrices += [(block.qkv, f"h.{i}.attn.c_attn"), (block.out, f"h.{i}.attn.c_proj")]
            matrices += [(block.up, f"h.{i}.mlp.c_fc"), (block.down, f"h.{i}.mlp.c_proj")]
        with torch.no_grad():
            for module, name in pairs:
                module.weight.copy_(stored[f"{name}.weight"])
            for module, name in matrices:
                module.weight.copy_(stored[f"{name}.weight"].T)


class Transformers(nn.Module):
    """A `transformers` model with nanoGPT's loss."""

    def __init__(self, folder):
        super().__init__()
        from transformers import AutoModelForCausalLM  # slow to import, and not needed for GPT-2
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def forward(self, tokens, targets):
        logits = self.model(tokens, use_cache=False).logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(job["threads"])
    if job.get("family", "gpt2") == "gpt2":
        sizes = [job[key] for key in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")]
        model = GPT(*sizes, job["dropout"])
        model.read(job["weights"])
    else:
        model = Transformers(job["weights"])
    window = torch.tensor(job["window"])
    tokens = window[:-1].repeat(job["batch_size"], 1)
    targets = window[1:].repeat(job["batch_size"], 1)
    cast = contextlib.nullcontext()
    if job["dtype"] == "bfloat16":
        cast = torch.autocast("cpu", dtype=torch.bfloat16)
    if job["work"] == "sample" and job["dtype"] == "bfloat16":
        model.to(torch.bfloat16)  # faster than autocast, which rounds the weights for every token
        cast = contextlib.nullcontext()
    run = torch.compile(model) if job["compile"] else model

    work = {"train": train, "evaluate": evaluate, "sample": sample}[job["work"]]
    figures = work(job, model, run, tokens, targets, cast)
    figures["resident_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures["torch"] = torch.__version__
    print(json.dumps(figures))


def clock(job):
    """Seconds, of the CPU's time if the job asks for it."""
    return time.process_time() if job["cpu_time"] else time.perf_counter()


def train(job, model, run, tokens, targets, cast):
    model.train()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    # With a learning rate of 0 every step has the first step's loss.
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), fused=True)
    times, losses = [], []
    for _ in range(job["steps"]):
        start = clock(job)
        with cast:
            loss = run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(1e3 * (clock(job) - start))
    return {"loss": losses[0], "ms": min(times[1:])}


@torch.no_grad()
def evaluate(job, model, run, tokens, targets, cast):
    model.eval()
    times = []
    for _ in range(job["steps"]):
        start = clock(job)
        with cast:
            loss = run(tokens, targets).item()
        times.append(1e3 * (clock(job) - start))
    return {"loss": loss, "ms": min(times[1:])}


@torch.no_grad()
def sample(job, model, run, tokens, targets, cast):
    """Samples as nanoGPT does, which reads the whole prefix again for every token.

    Only a few prefix lengths are timed; the others are interpolated linearly.
    """
    model.eval()
    first, last = job["prompt"], job["prompt"] + job["new_tokens"]
    lengths = sorted({first, last - 1, *(first + (last - first) * i // 4 for i in (1, 2, 3))})
    seconds = []
    for length in lengths:
        prefix = torch.zeros((job["samples"], length), dtype=torch.long)
        best = float("inf")
        for _ in range(2):
            start = clock(job)
            run(prefix)
            best = min(best, clock(job) - start)
        seconds.append(best)
    spans = zip(lengths, lengths[1:], seconds, seconds[1:])
    total = sum((b - a) * (s + t) / 2 for a, b, s, t in spans)
    return {"ms": 1e3 * total, "lengths": lengths}


if __name__ == "__main__":
    main()
