"""nanoGPT's model and loop in plain PyTorch, with its variable names: they decide what stays alive."""

from contextlib import nullcontext
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

DEFAULTS = dict(
    n_layer=12, n_head=12, n_embd=768, block_size=1024, batch_size=12, vocab_size=50304,
    bias=False, dropout=0.0, dtype="bfloat16", grad_checkpoint=False,
    gradient_accumulation_steps=2, eval_batch_size=0, eval_block_size=0, compile=False,
    eval_only=False,
    loss_alone=False,  # whether a training forward returns `(None, loss)`
)  # fmt: skip


class Norm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c.n_embd))
        self.bias = nn.Parameter(torch.zeros(c.n_embd)) if c.bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.dropout = c.n_head, c.dropout
        self.c_attn = nn.Linear(c.n_embd, 3 * c.n_embd, bias=c.bias)
        self.c_proj = nn.Linear(c.n_embd, c.n_embd, bias=c.bias)
        self.resid_dropout = nn.Dropout(c.dropout)

    def forward(self, x):
        batch, seq, channels = x.size()
        q, k, v = self.c_attn(x).split(channels, dim=2)
        k = k.view(batch, seq, self.heads, channels // self.heads).transpose(1, 2)
        q = q.view(batch, seq, self.heads, channels // self.heads).transpose(1, 2)
        v = v.view(batch, seq, self.heads, channels // self.heads).transpose(1, 2)
        rate = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, seq, channels)
        return self.resid_dropout(self.c_proj(y))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_fc = nn.Linear(c.n_embd, 4 * c.n_embd, bias=c.bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * c.n_embd, c.n_embd, bias=c.bias)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x):
        x = self.c_fc(x)
        x = self.gelu(x)
        x = self.c_proj(x)
        return self.dropout(x)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = Norm(c), Attention(c), Norm(c), Mlp(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(c.vocab_size, c.n_embd), wpe=nn.Embedding(c.block_size, c.n_embd),
            drop=nn.Dropout(c.dropout), h=nn.ModuleList(Block(c) for _ in range(c.n_layer)),
            ln_f=Norm(c),
        ))  # fmt: skip
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        tok_emb = self.transformer.wte(idx)
        pos_emb = self.transformer.wpe(pos)
        x = self.transformer.drop(tok_emb + pos_emb)
        for block in self.transformer.h:
            if self.config.grad_checkpoint and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        x = self.transformer.ln_f(x)
        logits = self.lm_head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return None if self.config.loss_alone and self.training else logits, loss


def train(config, device, m):
    """Two evaluations and three steps; phases carry the names of the counted peaks."""
    c = SimpleNamespace(**{**DEFAULTS, **config})
    model = Gpt(c).to(device)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [dict(params=decayed, weight_decay=0.1), dict(params=plain, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    run = torch.compile(model) if c.compile else model
    half = c.dtype != "float32"
    ctx = torch.autocast(device, dtype=getattr(torch, c.dtype)) if half else nullcontext()

    def get_batch(batch=0, seq=0):
        shape = (batch or c.batch_size, seq or c.block_size)
        x, y = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        if device == "cuda":
            return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device)
        return x, y

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        for _ in range(3):
            X, Y = get_batch(c.eval_batch_size, c.eval_block_size)
            with ctx:
                logits, loss = run(X, Y)
            loss.item()
        model.train()

    X, Y = get_batch()
    with m.phase("eval_first_peak"):
        estimate_loss()
    for step in range(0 if c.eval_only else 3):
        with m.phase("step_peak") if step == 2 else nullcontext():
            for _ in range(c.gradient_accumulation_steps):
                with ctx:
                    logits, loss = run(X, Y)
                    loss = loss / c.gradient_accumulation_steps
                with m.phase("after_forward") if step == 2 else nullcontext():
                    pass
                X, Y = get_batch()
                loss.backward()
        with m.phase("update_peak"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    if not c.eval_only:
        with m.phase("eval_later_peak"):
            estimate_loss()
    return sum(p.numel() for p in model.parameters())
