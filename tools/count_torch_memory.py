#!/usr/bin/env python3
"""Counts the tensors that PyTorch holds while a GPT trains as in nanoGPT.

Nothing is computed: the model runs on fake tensors, a dispatch mode intercepts every op, and every
live storage counts with its size rounded up to 512 bytes, as PyTorch's caching allocator rounds
it. CUDA context, library workspaces and fragmentation are not counted.

    count_torch_memory.py '{"n_layer": 12, "n_embd": 768, "batch_size": 4}'   one configuration
    count_torch_memory.py --random 100 --seed 1                              random ones
    count_torch_memory.py --again FILE.jsonl [--rules cpu]                   count its configs again
    count_torch_memory.py --check FILE.jsonl                                 compare with its figures

Prints one JSON line for each configuration: `{"config": {...}, "torch_eager_bytes": {...}}`. Needs
PyTorch 2.x (written with 2.15) and no GPU. It wrote, in `crates/fit/tests/torch_peaks`:

    eager.jsonl       --again eager.jsonl               38 configs on CUDA
    eager_cpu.jsonl   --again eager.jsonl --rules cpu   the same on a CPU
    counted.jsonl     --random 220 --seed 1
    cpu_dropout.jsonl --random 40 --seed 77 --cpu-dropout

Autograd on fake CUDA tensors needs a driver, so every tensor is a fake CPU tensor. `"rules": "cpu"`
counts what PyTorch does with them. `"rules": "cuda"`, the default, replaces the ops that CUDA
implements differently; `trace_cuda_rules.py` checks each rule on fake CUDA tensors without autograd:

- `cross_entropy` of 16-bit logits: a 16-bit softmax, then a float32 copy of its result
- dropout is one kernel with a mask of one byte per element, also inside attention
- fused attention in 16-bit types pads heads to a multiple of 8
- fused attention in float32 pads its log-sum-exp to multiples of 32 rows, and has none without autograd
- autocast runs a softmax in float32
- AdamW that is not fused keeps its step counts in host memory
"""

import argparse
import json
import random
import sys
import weakref
from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

DEFAULTS = dict(
    n_layer=12, n_head=12, n_embd=768, block_size=1024, batch_size=12, vocab_size=50304,
    bias=False, dropout=0.0, dtype="bfloat16", grad_checkpoint=False,
    gradient_accumulation_steps=2, eval_batch_size=0, eval_block_size=0,
    fused_attention=True, fused_adam=True, grad_clip=1.0, rules="cuda",
)  # fmt: skip


class Live(TorchDispatchMode):
    """Live bytes, and the peak since `start`."""

    def __init__(self):
        super().__init__()
        self.sizes = {}
        self.bytes = self.peak = 0
        self.op = None
        self.ignores_scalars = False  # they are in host memory

    def start(self):
        self.peak, self.op = self.bytes, None

    def see(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.sizes:
            return
        size = -(-storage.nbytes() // 512) * 512
        if size == 0 or (self.ignores_scalars and tensor.dim() == 0):
            return

        def freed(_, key=key):
            self.bytes -= self.sizes.pop(key)[0]

        self.sizes[key] = (size, weakref.ref(storage, freed))
        self.bytes += size

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf)
        if self.bytes > self.peak:
            self.peak, self.op = self.bytes, op.overloadpacket.__name__
        return result


class Norm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.n_embd))
        self.bias = nn.Parameter(torch.empty(config.n_embd)) if config.bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Drop(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rate, self.is_cuda = config.dropout, config.rules == "cuda"

    def forward(self, x):
        if not self.training or self.rate == 0.0:
            return x
        if self.is_cuda:
            return torch.native_dropout(x, self.rate, True)[0]
        return F.dropout(x, self.rate, True)


class Efficient(torch.autograd.Function):
    """CUDA's memory-efficient attention: (B, H, T, D), with the heads of a token adjacent in memory."""

    @staticmethod
    def forward(ctx, q, k, v, is_recorded):
        batch, heads, seq, head = q.shape
        out = q.new_empty(batch, seq, heads, head).transpose(1, 2)
        if is_recorded:
            lse = q.new_empty(batch, heads, -(-seq // 32) * 32, dtype=torch.float32)
            ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, out, lse = ctx.saved_tensors
        shape = (q.shape[0], q.shape[2], q.shape[1], q.shape[3])
        return *(q.new_empty(shape).transpose(1, 2) for _ in range(3)), None


def cuda_attention(q, k, v):
    """Causal attention with the allocations of CUDA's kernels. Dropout adds none."""
    if q.dtype == torch.float32:
        return Efficient.apply(q, k, v, torch.is_grad_enabled())
    head = q.shape[-1]
    if head % 8 == 0:  # the CPU's kernel allocates the same
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    q, k, v = (F.pad(part, (0, -head % 8)) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)[..., :head]


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_drop = Drop(config)
        self.resid_drop = Drop(config)
        if not config.fused_attention:
            block = config.block_size
            self.register_buffer("mask", torch.empty(1, 1, block, block))

    def forward(self, x):
        batch, seq, channels = x.shape
        heads = self.config.n_head
        split = self.c_attn(x).split(channels, dim=2)
        q, k, v = (p.view(batch, seq, heads, channels // heads).transpose(1, 2) for p in split)
        if self.config.fused_attention:
            if self.config.rules == "cuda":
                y = cuda_attention(q, k, v)
            else:
                rate = self.config.dropout if self.training else 0.0
                y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / (channels // heads) ** 0.5)
            scores = scores.masked_fill(self.mask[:, :, :seq, :seq] == 0, float("-inf"))
            is_wide = torch.is_autocast_enabled("cpu") and self.config.rules == "cuda"
            scores = F.softmax(scores, dim=-1, dtype=torch.float32 if is_wide else None)
            scores = self.attn_drop(scores)
            y = scores @ v
        y = y.transpose(1, 2).contiguous().view(batch, seq, channels)
        return self.resid_drop(self.c_proj(y))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.drop = Drop(config)

    def forward(self, x):
        x = self.c_fc(x)
        x = self.gelu(x)
        x = self.c_proj(x)
        return self.drop(x)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn = Norm(config), Attention(config)
        self.ln_2, self.mlp = Norm(config), Mlp(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = Drop(config)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = Norm(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens, targets):
        position = torch.arange(0, tokens.shape[1], dtype=torch.long)
        token_rows = self.wte(tokens)
        position_rows = self.wpe(position)
        x = self.drop(token_rows + position_rows)
        for block in self.h:
            if self.config.grad_checkpoint and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)
        return logits, self.loss(logits.view(-1, logits.shape[-1]), targets.view(-1))

    def loss(self, logits, targets):
        if self.config.rules == "cpu" or logits.dtype == torch.float32:
            return F.cross_entropy(logits, targets, ignore_index=-1)
        with torch.autocast("cpu", enabled=False):
            log_softmax = F.log_softmax(logits, -1)  # alive until the loss is computed
            return F.nll_loss(log_softmax.float(), targets, ignore_index=-1)


class Run:
    """nanoGPT's loop, with its variable names, because they decide what stays alive."""

    def __init__(self, config, live):
        self.config, self.live = config, live
        self.model = Gpt(config)
        live.start()
        decayed = [p for p in self.model.parameters() if p.dim() >= 2]
        plain = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [dict(params=decayed, weight_decay=0.1), dict(params=plain, weight_decay=0.0)]
        kind = dict(fused=True) if config.fused_adam else dict(foreach=True)
        self.optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), **kind)

    @contextmanager
    def precision(self):
        if self.config.dtype == "float32":
            yield
        else:
            with torch.autocast("cpu", dtype=getattr(torch, self.config.dtype)):
                yield

    def batch(self, batch, seq):
        return (torch.empty(batch, seq, dtype=torch.long) for _ in range(2))

    @torch.no_grad()
    def evaluate(self):
        config = self.config
        self.model.eval()
        for _ in range(3):
            X, Y = self.batch(
                config.eval_batch_size or config.batch_size,
                config.eval_block_size or config.block_size,
            )
            with self.precision():
                logits, loss = self.model(X, Y)
        self.model.train()

    def peak_of(self, phase):
        self.live.start()
        phase()
        return self.live.peak, self.live.op

    def phases(self):
        config, live, model = self.config, self.live, self.model
        peaks = dict(params=sum(p.numel() for p in model.parameters()))
        X, Y = self.batch(config.batch_size, config.block_size)
        peaks["eval_first_peak"], peaks["eval_first_op"] = self.peak_of(self.evaluate)
        for _ in range(3):
            live.start()
            for _ in range(config.gradient_accumulation_steps):
                with self.precision():
                    logits, loss = model(X, Y)
                    loss = loss / config.gradient_accumulation_steps
                X, Y = self.batch(config.batch_size, config.block_size)
                loss.backward()
            peaks["step_peak"], peaks["step_op"] = live.peak, live.op
            live.start()
            if config.grad_clip:
                nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
            live.ignores_scalars = config.rules == "cuda" and not config.fused_adam
            self.optimizer.step()
            live.ignores_scalars = False
            self.optimizer.zero_grad(set_to_none=True)
            peaks["update_peak"], peaks["update_op"] = live.peak, live.op
        peaks["eval_later_peak"], peaks["eval_later_op"] = self.peak_of(self.evaluate)
        return peaks


def count(config):
    config = argparse.Namespace(**{**DEFAULTS, **config})
    with FakeTensorMode(), Live() as live:
        return Run(config, live).phases()


def any_config(rng):
    """A random configuration, common or odd."""
    heads = rng.choice([1, 2, 3, 4, 6, 7, 8, 12, 16, 20])
    rules = rng.choice(["cuda", "cuda", "cuda", "cpu"])
    config = dict(
        n_layer=rng.choice([1, 2, 3, 4, 6]),
        n_head=heads,
        n_embd=heads * rng.choice([16, 20, 32, 40, 50, 64, 80]),
        block_size=rng.choice([32, 64, 128, 200, 256, 512, 1024, 2048]),
        batch_size=rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64]),
        vocab_size=rng.choice([65, 96, 256, 1001, 4096, 32000, 50257, 50304]),
        bias=rng.random() < 0.5,
        dropout=rng.choice([0.0, 0.0, 0.1]) if rules == "cuda" else 0.0,
        dtype=rng.choice(["bfloat16", "bfloat16", "float16", "float32"]),
        grad_checkpoint=rng.random() < 0.25,
        gradient_accumulation_steps=rng.choice([1, 2, 5]),
        fused_attention=rng.random() < 0.8,
        fused_adam=rng.random() < 0.7,
    )
    config["rules"] = rules
    config["eval_batch_size"] = rng.choice([0, 0, 1, config["batch_size"] * 2])
    config["eval_block_size"] = rng.choice([0, 0, max(1, config["block_size"] // 2)])
    return config


def dropout_config(rng):
    """A random configuration with dropout on a CPU, where attention falls back to explicit scores."""
    config = any_config(rng)
    config.update(rules="cpu", dropout=0.1)
    if config["block_size"] > 512:
        config.update(block_size=256, eval_block_size=0)
    return config


def check(path):
    worst = 0.0
    for line in open(path):
        row = json.loads(line)
        expected, got = row["torch_eager_bytes"], count(row["config"])
        for key in (k for k in expected if k.endswith("_peak")):
            error = got[key] / expected[key] - 1
            worst = max(worst, abs(error))
            op = key.replace("_peak", "_op")
            if error or expected.get(op, got[op]) != got[op]:
                print(f"{key} {error:+.4%}: {got[key]} at {got[op]}, expected {expected[key]}")
                print(f"    {row['config']}")
    print(f"largest difference {worst:.4%}")
    return worst == 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", help="JSON objects with nanoGPT's keys")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu-dropout", action="store_true", help="random configs with dropout on a CPU")
    parser.add_argument("--again", metavar="FILE")
    parser.add_argument("--rules", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--check", metavar="FILE")
    args = parser.parse_args()
    if args.check:
        sys.exit(0 if check(args.check) else 1)
    rng = random.Random(args.seed)
    configs = [json.loads(text) for text in args.configs]
    draw = dropout_config if args.cpu_dropout else any_config
    configs += [draw(rng) for _ in range(args.random)]
    if args.again:
        rows = [json.loads(line)["config"] for line in open(args.again).readlines()]
        configs += [{**{k: v for k, v in row.items() if k != "rules"}} for row in rows]
        if args.rules == "cpu":
            configs = [{**config, "rules": "cpu"} for config in configs]
    for config in configs:
        print(json.dumps(dict(config=config, torch_eager_bytes=count(config))), flush=True)


if __name__ == "__main__":
    main()
