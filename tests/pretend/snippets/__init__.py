"""Short pieces of training code, which `test_snippets.py` counts with real and with fake tensors.

`layers.py` combines layers, losses and ops; `loops.py` has hooks, checkpointing, autograd functions,
optimizers and training loops. Each piece runs on the device it is given.
"""

import functools

import torch
from torch import nn

ALL = []  # filled when `layers` and `loops` are imported


def snippet(run):
    """Adds `run` to the list."""
    ALL.append(run)
    return run


def train(device, model, *inputs, loss=lambda out: out.square().mean(), steps=2, optimizer=None):
    """Trains for a few steps."""
    model = model.to(device)
    inputs = [x.to(device) for x in inputs]
    optimizer = optimizer or functools.partial(torch.optim.SGD, lr=0.01)
    optimizer = optimizer(model.parameters())
    for _ in range(steps):
        loss(model(*inputs)).backward()
        optimizer.step()
        optimizer.zero_grad()


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)
