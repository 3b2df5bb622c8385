"""Checks the gradients that the autograd engine adds in place, against PyTorch's allocator."""

import functools
import gc
import random
import unittest

import torch

import fitgpt.torch as ft
from pretend import allocator
from pretend.real import RealCount

SIDE = 32


def random_graph(seed):
    """Forward and backward of random ops on a few matrices, with hooks that keep gradients."""

    def run():
        dice = random.Random(seed)
        leaves = [torch.randn(SIDE, SIDE, requires_grad=True) for _ in range(dice.randint(1, 3))]
        values, kept = [leaf.clone() if dice.random() < 0.5 else leaf for leaf in leaves], []
        for _ in range(dice.randint(3, 14)):
            a, b = dice.choice(values), dice.choice(values)
            made = dice.choice(OPS)(a, b)
            if dice.random() < 0.1:
                made.register_hook(kept.append)
            if dice.random() < 0.1:
                made.register_hook(torch.neg)
            if dice.random() < 0.1:
                made.retain_grad()
            values.append(made)
            if len(values) > 6:
                del values[dice.randrange(len(values))]
            del a, b, made
        weights = torch.randn(SIDE, SIDE)
        sums = [(value * weights).sum() for value in values[-dice.randint(1, 3) :]]
        loss = functools.reduce(torch.add, sums)
        if dice.random() < 0.6:
            values.clear()
        loss.backward()

    return run


OPS = [
    lambda a, b: a * b,
    lambda a, b: a * a,
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a.sin() + a,
    lambda a, b: a.tanh() * b,
    lambda a, b: a @ b,
    lambda a, b: (a.t() @ b).t(),
    lambda a, b: torch.atan2(a, b),  # its backward adds too, and not in place
    lambda a, b: torch.cat([a[: SIDE // 2], b[SIDE // 2 :]]),
    lambda a, b: a.clone(),
]


class Sums(unittest.TestCase):
    def test_random_graphs_hold_what_the_allocator_hands_out(self):
        for seed in range(15):
            with self.subTest(seed=seed):
                run = random_graph(seed)
                torch.manual_seed(0)
                expected = allocator.peak(lambda: (run(), gc.collect()))
                torch.manual_seed(0)
                with ft.pretend("cpu") as m:
                    run()
                self.assertEqual(m.peak_bytes, expected)

    def test_a_sum_takes_the_memory_of_its_first_gradient(self):
        def run():
            x, a, b = torch.ones(1000, requires_grad=True), torch.ones(1000), torch.ones(1000)
            y = x * a + x * b
            y.backward(torch.ones(1000))

        with RealCount() as under_a_mode:
            run()
        with ft.pretend("cpu") as m:
            run()
        self.assertEqual(m.peak_bytes, allocator.peak(run))
        self.assertLess(m.peak_bytes, under_a_mode.most)


if __name__ == "__main__":
    unittest.main()
