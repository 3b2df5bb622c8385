"""Tests of `fitgpt.torch`. Tensors are small, so more than one thread would not help."""

import contextlib
from unittest import mock

import torch

import fitgpt.torch as ft
from fitgpt.torch.sums import GradientSums

torch.set_num_threads(1)


@contextlib.contextmanager
def pretend_with_new_sums(device):
    """`pretend` without sums of gradients in place, to compare with a count by a dispatch mode.

    Under such a mode the autograd engine allocates a new tensor for every sum. `test_sums.py` tests
    the real behaviour.
    """
    with mock.patch.object(GradientSums, "is_in_place", lambda *_: False):
        with ft.pretend(device) as measured:
            yield measured
