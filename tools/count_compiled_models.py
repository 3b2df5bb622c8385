#!/usr/bin/env python3
"""Counts compiled training steps of known models on a card that is not there.

    PYTHONPATH=python:tests tools/count_compiled_models.py [--nanochat CHECKOUT] [NAME…]

Needs `transformers` for the published models; their weights are not needed. `--nanochat` is a checkout
of github.com/karpathy/nanochat; without it its row is left out. Prints the table of
`docs/compiled.md`: live tensors, and what the simulated allocator hands out and reserves.
"""

import argparse
import contextlib
import sys
import time

import torch

import fitgpt.torch as ft
from fitgpt.torch.allocator import OutOfMemory
from pretend import nanogpt

MIB = 1 << 20


def causal(kind, seq, batch, **config):
    """A language model of `transformers` in bfloat16 with fused AdamW, as in most recipes."""

    def run(m, compiles):
        import transformers

        names = (f"{kind}TextConfig", f"{kind}Config")
        make = next(getattr(transformers, name) for name in names if hasattr(transformers, name))
        settings = make(**config)
        settings.use_cache = False
        settings._attn_implementation = "sdpa"
        with torch.device("cuda"):
            model = getattr(transformers, f"{kind}ForCausalLM")(settings).to(torch.bfloat16)
        tokens = torch.zeros(batch, seq, dtype=torch.long, device="cuda")
        train(m, model, compiles(model), lambda call: call(input_ids=tokens, labels=tokens).loss)

    return run


def vit(batch):
    def run(m, compiles):
        import transformers

        with torch.device("cuda"):
            model = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))
        images = torch.zeros(batch, 3, 224, 224, device="cuda")
        labels = torch.zeros(batch, dtype=torch.long, device="cuda")

        def loss(call):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return call(pixel_values=images, labels=labels).loss

        train(m, model, compiles(model), loss)

    return run


def train(m, model, call, loss_of, steps=2):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(steps):
        with m.phase("train"):
            loss = loss_of(call)
            loss.backward()
        with m.phase("update"):
            optimizer.step()
            optimizer.zero_grad()


def nanochat(batch, depth=12, seq=2048):
    """`scripts/base_train.py`: two micro-batches a step, its own optimizer, window pattern L."""

    def run(m, compiles):
        from nanochat.gpt import GPT, GPTConfig

        heads = depth * 64 // 128
        with torch.device("meta"):
            model = GPT(GPTConfig(
                sequence_len=seq, vocab_size=32768, n_layer=depth, n_head=heads, n_kv_head=heads,
                n_embd=depth * 64, window_pattern="L",
            ))  # fmt: skip
        model.to_empty(device="cuda")
        model.init_weights()
        call = compiles(model, dynamic=False)
        optimizer = model.setup_optimizer()
        for _ in range(2):
            for _ in range(2):
                x, y = (torch.zeros(batch, seq, dtype=torch.long, device="cuda") for _ in "xy")
                with m.phase("train"):
                    loss = call(x, y)
                    kept = loss.detach()  # for the log
                    loss = loss / 2
                    loss.backward()
            with m.phase("update"):
                optimizer.step()
                model.zero_grad(set_to_none=True)
            del kept

    return run


def nanogpt_steps(batch, **config):
    def run(m, compiles):
        with contextlib.nullcontext() if compiles is compile_whole else as_eager():
            nanogpt.train({**config, "batch_size": batch, "compile": True}, "cuda", m)

    return run


@contextlib.contextmanager
def as_eager():
    compiled, torch.compile = torch.compile, lambda model, **_: model
    try:
        yield
    finally:
        torch.compile = compiled


MODELS = {
    "nanochat d12, 8 × 2048": nanochat(8),
    "nanoGPT 124M, 12 × 1024": nanogpt_steps(12),
    "SmolLM2-135M, 4 × 1024": causal(
        "Llama", 1024, 4, vocab_size=49152, hidden_size=576, intermediate_size=1536,
        num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        max_position_embeddings=8192, tie_word_embeddings=True, rope_theta=100000.0,
    ),
    "Qwen3-0.6B, 2 × 1024": causal(
        "Qwen3", 1024, 2, vocab_size=151936, hidden_size=1024, intermediate_size=3072,
        num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
        tie_word_embeddings=True, rope_theta=1000000.0,
    ),
    "Gemma-3-270M, 2 × 1024": causal(
        "Gemma3", 1024, 2, vocab_size=262144, hidden_size=640, intermediate_size=2048,
        num_hidden_layers=18, num_attention_heads=4, num_key_value_heads=1, head_dim=256,
        query_pre_attn_scalar=256, sliding_window=512, tie_word_embeddings=True,
    ),
    "ViT-B/16, 64 × 224²": vit(64),
}  # fmt: skip


def compile_whole(model, **options):
    return torch.compile(model, **options)


def count(run, compiles):
    start = time.time()
    with ft.pretend("cuda") as m:
        run(m, compiles)
    for note in m.notes:
        print(f"  {note}", file=sys.stderr)
    return m, time.time() - start


def failing_evaluation():
    """nanoGPT 124M, 64 × 1024 on an RTX 4070: which request fails, and what is held then."""
    with ft.pretend("cuda") as m:
        nanogpt.train(dict(batch_size=64, compile=True, eval_only=True), "cuda", m)
    try:
        m.allocator(limit=11971 * MIB - 500 * MIB)
    except OutOfMemory as error:
        return error
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="rows whose names contain one of these")
    parser.add_argument("--nanochat", metavar="CHECKOUT")
    args = parser.parse_args()
    if args.nanochat:
        sys.path.insert(0, args.nanochat)
    torch.set_num_threads(1)
    print("| model | eager | compiled, tensors | allocated | reserved | expandable | counted in |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, run in MODELS.items():
        if args.names and not any(part in name for part in args.names):
            continue
        if name.startswith("nanochat") and not args.nanochat:
            continue
        eager, _ = count(run, lambda model, **_: model)
        m, seconds = count(run, compile_whole)
        figures = (
            eager.peak_bytes, m.peak_bytes, m.peak_allocated_bytes, m.peak_reserved_bytes,
            m.allocator(expandable_segments=True).peak_reserved,
        )  # fmt: skip
        cells = " | ".join(f"{figure / MIB:,.1f}" for figure in figures)
        print(f"| {name} | {cells} | {seconds:.0f} s |", flush=True)
    if not args.names or "evaluation" in args.names:
        error = failing_evaluation()
        print(
            f"\nnanoGPT 124M, 64 × 1024, compiled evaluation: {error.requested / (1 << 30):.2f} GiB "
            f"requested with {error.allocated / (1 << 30):.2f} GiB held"
        )


if __name__ == "__main__":
    main()
