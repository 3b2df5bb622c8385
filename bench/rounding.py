"""FitGPT's roundings of a bfloat16 run, emulated in PyTorch for `bfloat16.py sources`.

A value that an op stores is rounded in the forward, a gradient that an op stores in the backward, and
the factors of every product are rounded. Sums have the model's type: float64, so that nothing else
rounds.
"""

import math

import torch
import torch.nn.functional as F

# The roundings that can be left out.
STREAM, STREAM_GRADIENT = "the residual stream", "its gradient"
WEIGHTS, NORM_GRADIENT, PRE = "weights", "gradients of normalised values", "input of GELU"
LEFT_OUT = [(STREAM,), (STREAM_GRADIENT,), (STREAM, STREAM_GRADIENT), (WEIGHTS,), (NORM_GRADIENT,),
            (STREAM_GRADIENT, NORM_GRADIENT), (PRE,)]


def rounded(x):
    return x.to(torch.bfloat16).to(x.dtype)


class Stored(torch.autograd.Function):
    """Rounds the value, its gradient, or both."""

    @staticmethod
    def forward(context, x, value, gradient):
        context.gradient = gradient
        return rounded(x) if value else x.clone()

    @staticmethod
    def backward(context, d_out):
        return rounded(d_out) if context.gradient else d_out, None, None


class Linear(torch.autograd.Function):
    """`x · weightᵀ` of rounded factors, and its gradients, which are such products too."""

    @staticmethod
    def forward(context, x, weight, rounds_weight):
        x, weight = rounded(x), rounded(weight) if rounds_weight else weight
        context.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(context, d_out):
        x, weight = context.saved_tensors
        d_out = rounded(d_out)
        return d_out @ weight, d_out.flatten(0, -2).t() @ x.flatten(0, -2), None


class Product(torch.autograd.Function):
    """A product of attention."""

    @staticmethod
    def forward(context, a, b):
        a, b = rounded(a), rounded(b)
        context.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(context, d_out):
        a, b = context.saved_tensors
        d_out = rounded(d_out)
        return d_out @ b.transpose(-1, -2), a.transpose(-1, -2) @ d_out


def loss(model, tokens, targets, left_out):
    """The loss of a `peer.GPT`, with our roundings except those left out."""
    has = {name: name not in left_out for name in (STREAM, STREAM_GRADIENT, WEIGHTS, NORM_GRADIENT, PRE)}

    def stream(x):
        return Stored.apply(x, has[STREAM], has[STREAM_GRADIENT])

    def linear(x, layer):
        return Linear.apply(x, layer.weight, has[WEIGHTS])

    def norm(x, layer):
        return Stored.apply(F.layer_norm(x, x.shape[-1:], layer.weight), True, has[NORM_GRADIENT])

    def attention(qkv, heads):
        batch, seq, _ = qkv.shape
        parts = qkv.chunk(3, dim=2)
        q, k, v = (part.view(batch, seq, heads, -1).transpose(1, 2) for part in parts)
        scores = Product.apply(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
        shares = scores.masked_fill(future, float("-inf")).softmax(-1)
        return Product.apply(shares, v).transpose(1, 2).reshape(batch, seq, -1)

    x = stream(model.wte(tokens) + model.wpe(torch.arange(tokens.shape[1])))
    for block in model.blocks:
        qkv = Stored.apply(linear(norm(x, block.ln_1), block.qkv), True, True)
        attended = Stored.apply(attention(qkv, block.heads), True, True)
        x = stream(x + linear(attended, block.out))
        pre = Stored.apply(linear(norm(x, block.ln_2), block.up), has[PRE], True)
        x = stream(x + linear(Stored.apply(F.gelu(pre), True, False), block.down))
    logits = linear(norm(x, model.ln_f), model.head)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
