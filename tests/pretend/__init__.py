"""Tests of `fitgpt.torch`. Tensors are small, so more than one thread would not help."""

import torch

torch.set_num_threads(1)
