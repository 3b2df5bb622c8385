"""Checks that `pretend` changes nothing outside of it, and that each op runs once."""

import copy
import gc
import random
import unittest

import numpy
import torch
from torch import nn

import fitgpt.torch as ft

DEVICES = ("cuda", "cpu")


def facts(tensor):
    """Everything that can be seen of a tensor, down to its bits and its gradient."""
    return (
        type(tensor), id(tensor), tensor.dtype, tensor.shape, tensor.stride(), tensor.data_ptr(),
        tensor.requires_grad, tensor.grad_fn, tensor._version,
        tensor.detach().clone().contiguous().flatten().view(torch.uint8).tolist(),
        None if not tensor.is_leaf or tensor.grad is None else facts(tensor.grad),
    )  # fmt: skip


def random_states():
    arrays = numpy.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), arrays[1].tolist(), arrays[2]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 6, bias=False)
        self.last.weight = self.first.weight  # tied
        self.scale = torch.ones(6)  # a plain attribute

    def forward(self, x):
        self.scale = self.scale.to(x)
        return self.last(self.norm(self.first(x))) * self.scale


class Outside:
    """A model that has trained for one step, and loose tensors and views."""

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.model = Net()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.model(torch.randn(4, 6)).sum().backward()
        self.optimizer.step()
        self.parameters = list(self.model.parameters())
        base = torch.randn(6, 6)
        self.loose = [base, base[1:], base.t(), base[:, 2], torch.arange(6), torch.randn(6, 6) > 0]
        self.weight = torch.randn(6, 6, requires_grad=True)

    def tensors(self):
        yield from (*self.parameters, *self.model.buffers(), self.model.scale, *self.loose, self.weight)
        for state in self.optimizer.state.values():
            yield from state.values()

    def facts(self):
        model = {name: id(value) for name, value in self.model.state_dict(keep_vars=True).items()}
        flags = [module.training for module in self.model.modules()]
        rates = [
            {k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups
        ]
        groups = [[id(p) for p in group["params"]] for group in self.optimizer.param_groups]
        return (
            [facts(t) for t in self.tensors()], model, flags, copy.deepcopy(rates), groups,
            self.scheduler.last_epoch, random_states(),
        )  # fmt: skip


def step(outside, device):
    outside.model.to(device)
    outside.optimizer.zero_grad()
    outside.model(torch.randn(4, 6, device=device)).sum().backward()
    nn.utils.clip_grad_norm_(outside.parameters, 1.0)
    outside.optimizer.step()
    outside.scheduler.step()


PROGRAMS = {
    "training": step,
    "half precision": lambda o, device: o.model.to(device).half(),
    "load_state_dict": lambda o, device: o.model.load_state_dict(
        {name: torch.randn(t.shape) for name, t in o.model.state_dict().items()}
    ),
    "assigned state": lambda o, device: o.model.load_state_dict(
        {name: torch.randn(t.shape) for name, t in o.model.state_dict().items()}, assign=True
    ),
    "batch norm": lambda o, device: o.model(torch.randn(4, 6)),
    "modes and gradients": lambda o, device: (o.model.eval(), o.model.requires_grad_(False)),
    "a new layer": lambda o, device: setattr(o.model, "head", nn.Linear(6, 6, device=device)),
    "no gradients": lambda o, device: [setattr(p, "grad", None) for p in o.parameters],
    "data": lambda o, device: [setattr(p, "data", torch.zeros(3)) for p in o.parameters],
    "in place under autograd": lambda o, device: o.loose[0].mul_(o.weight).sum().backward(),
    "in place on a leaf": lambda o, device: torch.no_grad()(o.weight.mul_)(2),
    "hooks": lambda o, device: o.weight.register_hook(torch.neg),
    "initialization": lambda o, device: [nn.init.normal_(p) for p in o.parameters],
    "arrays": lambda o, device: o.loose[0].numpy().fill(3),
    "random numbers": lambda o, device: (
        torch.manual_seed(7), random.seed(7), numpy.random.seed(7), torch.randn(3)
    ),
}  # fmt: skip


class Originals(unittest.TestCase):
    def test_no_program_changes_what_is_outside(self):
        for name, program in PROGRAMS.items():
            for device in DEVICES:
                with self.subTest(name, device=device):
                    outside = Outside()
                    before = outside.facts()
                    with ft.pretend(device):
                        program(outside, device)
                    self.assertEqual(outside.facts(), before)

    def test_an_error_inside_changes_nothing_either(self):
        for device in DEVICES:
            outside = Outside()
            before = outside.facts()
            with self.assertRaises(ZeroDivisionError), ft.pretend(device):
                step(outside, device)
                1 / 0
            self.assertEqual(outside.facts(), before)

    def test_an_error_inside_arrives_even_if_something_cannot_be_put_back(self):
        from unittest import mock

        failing = mock.patch("fitgpt.torch.originals._SavedObject.restore", side_effect=KeyError("lost"))
        with self.assertRaises(ZeroDivisionError), failing, ft.pretend():
            1 / 0
        outside = Outside()
        with self.assertRaisesRegex(RuntimeError, "could not be put back"), failing, ft.pretend():
            outside.model.train()

    def test_a_data_loader_with_workers_loads_inside(self):
        rows = torch.utils.data.TensorDataset(torch.arange(12.0))
        for persists in (False, True):
            loader = torch.utils.data.DataLoader(rows, batch_size=4, num_workers=2, persistent_workers=persists)
            with ft.pretend() as m:
                for _ in range(2):
                    batches = [batch.to("cuda") for (batch,) in loader]
                    self.assertEqual([batch.tolist() for batch in batches][1], [4, 5, 6, 7])
                self.assertEqual(m.bytes, 3 * 512)
                del batches
            self.assertEqual(loader.num_workers, 2)
            self.assertIsNone(loader._iterator)

    def test_no_random_program_changes_a_real_tensor_or_runs_an_op_twice(self):
        """Each program also runs on copies of the tensors: `pretend` must report the same values."""
        for seed in range(40):
            outside, copied = Outside(seed), Outside(seed)
            with self.subTest(seed=seed):
                before = outside.facts()
                torch.manual_seed(seed)
                expected = run_random_program(copied, seed)
                torch.manual_seed(seed)
                with ft.pretend(DEVICES[seed % 2]) as m:
                    torch.manual_seed(seed)
                    got = run_random_program(outside, seed)
                self.assertEqual(got, expected)
                self.assertEqual(len(m.notes), 0, list(m.notes))
                torch.set_rng_state(torch.tensor(before[-1][0], dtype=torch.uint8))
                self.assertEqual(outside.facts(), before)

    def test_an_op_that_counts_its_calls_runs_once(self):
        calls = []

        @torch.library.custom_op("fitgpt_tests::counted", mutates_args={"x"})
        def counted(x: torch.Tensor) -> None:
            calls.append(1)
            x.add_(1)

        w = torch.ones(3)
        for expected in ([2.0, 2.0, 2.0], [3.0, 3.0, 3.0]):
            with ft.pretend("cpu"):
                for _ in range(int(expected[0]) - 1):
                    calls.clear()
                    counted(w)
                    self.assertLessEqual(len(calls), 1)
                self.assertEqual(w.tolist(), expected)
            self.assertEqual(w.tolist(), [1.0, 1.0, 1.0])

    def test_a_generator_and_the_graph_of_a_real_loss_are_as_before(self):
        generator = torch.Generator().manual_seed(3)
        before = generator.get_state().tolist()
        weight = torch.ones(3, requires_grad=True)
        product = weight * weight
        with ft.pretend():
            torch.randn(3, generator=generator)
            (product * 2).sum().backward()
            product.backward(torch.ones(3))
            self.assertIsNotNone(weight.grad)
            weight.detach().add_(1)
        self.assertIsNone(weight.grad)
        self.assertEqual(generator.get_state().tolist(), before)
        product.sum().backward()
        self.assertEqual(weight.grad.tolist(), [2.0, 2.0, 2.0])

    def test_a_model_from_outside_trains_on_the_card_with_its_optimizer(self):
        outside = Outside()
        with ft.pretend() as m:
            model = outside.model.to("cuda")
            optimizer = torch.optim.AdamW(outside.parameters)
            with m.phase("train"):
                for _ in range(2):
                    model(torch.randn(4, 6, device="cuda")).sum().backward()
                    optimizer.step()
        self.assertEqual(m.by_kind("train")["optimizer state"], 2 * 4 * 512)

    def test_large_tensors_are_not_copied(self):
        huge = torch.empty(0).set_(torch.UntypedStorage(1 << 30), 0, (1 << 28,), (1,))
        with ft.pretend("cuda") as m:
            huge.add_(1)
            moved = torch.empty_like(huge, device="cuda").copy_(huge)
            self.assertEqual(m.bytes, 1 << 30)
            del moved
        del huge
        gc.collect()


def run_random_program(outside, seed):
    """Random ops in place and out of place; returns the values of all tensors at the end."""
    dice = random.Random(seed)
    tensors = [*outside.loose[:4], outside.weight.detach(), outside.model.scale]
    squares = [t for t in tensors if t.shape == (6, 6)]
    for _ in range(12):
        a, b = dice.choice(squares), dice.choice(squares).clone()
        row = dice.choice([t for t in tensors if t.shape == (6,)])
        number = dice.randint(2, 5)
        dice.choice((
            lambda: a.add_(number), lambda: a.mul_(b), lambda: a[number - 2].copy_(row.clone()),
            lambda: a.t().sub_(b), lambda: squares.append(a @ b / 10), lambda: row.mul_(number),
            lambda: a.clamp_(-5, 5), lambda: torch.add(a, b, out=a), lambda: a.uniform_(),
            lambda: a.__setitem__((slice(None), 0), number), lambda: torch._foreach_add_([a, row], 1),
            lambda: a.masked_fill_(b > 0, number), lambda: squares.append(a[:, :] + 1),
            lambda: outside.loose[4].add_(number), lambda: a.data.mul_(number),
            lambda: nn.init.ones_(a), lambda: a.index_add_(0, torch.tensor([0, 1]), b[:2]),
        ))()  # fmt: skip
    return [t.tolist() for t in (*tensors, *squares)]


if __name__ == "__main__":
    unittest.main()
