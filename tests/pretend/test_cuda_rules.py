"""Checks that fake CUDA tensors of `pretend` run the same ops as PyTorch's fake CUDA tensors.

PyTorch's cannot run backward without a driver, but they can run forward. PyTorch's test database has
sample inputs of every op. Each sample runs on both, with autograd and with and without autocast, and
every op must have the same name and results of the same shapes and types.
"""

import contextlib
import itertools
import re
import unittest
from unittest import mock

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import fitgpt.torch as ft
from fitgpt.torch.autocast import FLOAT, FLOAT_BY_DTYPE, HALF, NORMS, WIDEST

# One of the two, depending on what is installed; `pretend` gives the native one cuDNN's results.
BATCH_NORMS = {"cudnn_batch_norm", "native_batch_norm"}
# Attention asks the driver for its kernel and is tested separately below. The native batch norm is
# never called directly.
LEFT_OUT = {
    "nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward",
    "native_batch_norm",
}  # fmt: skip
# Older versions cannot even record a graph of fake CUDA tensors without a driver.
RECORDS = hasattr(torch._C, "_ensureCUDADeviceGuardSet")
SLOW = ("linalg.", "fft", "signal", "special.", "sparse", "masked.", "stft", "istft", "ops.aten")


class Ops(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        name = str(op).removeprefix("aten.")
        if op is not torch.ops.prim.device.default and not name.startswith(("detach", "empty.")):
            if name.split(".")[0] in BATCH_NORMS:
                name = "batch_norm"
            forms = [
                (tuple(t.shape), t.dtype, t.device.type)
                for t in tree_leaves(result)
                if isinstance(t, torch.Tensor) and t.numel()
            ]
            self.seen.append((name, forms))
        return result


@contextlib.contextmanager
def stock():
    """PyTorch's own fake CUDA tensors, with autocast made to believe in a card."""
    lifted = torch._C._only_lift_cpu_tensors()
    with FakeTensorMode():  # replaces the driver's device guard, which the patches below would hide
        pass
    with (
        mock.patch("torch.cuda.is_available", lambda: True),
        mock.patch("torch.cuda.is_bf16_supported", lambda *_, **__: True),
        mock.patch.object(fake_tensor, "init_gpu_context", lambda *_: None, create=True),
        FakeTensorMode(),
    ):
        torch._C._set_only_lift_cpu_tensors(True)
        try:
            yield
        finally:
            torch._C._set_only_lift_cpu_tensors(lifted)


def on_cuda(tree):
    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return torch.device("cuda") if isinstance(leaf, torch.device) else leaf
        made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="cuda")
        return made.requires_grad_() if leaf.requires_grad else made

    return tree_map(move, tree)


def ops_of(op, sample, autocast):
    """The ops that a sample runs; `None` if it cannot be run."""
    precision = torch.autocast("cuda", dtype=torch.bfloat16) if autocast else contextlib.nullcontext()
    first, args, kwargs = on_cuda((sample.input, list(sample.args), dict(sample.kwargs)))
    with Ops() as ops, precision:
        try:
            op(first, *args, **kwargs)
        except Exception:
            return None
    return ops.seen


def samples(dtype):
    for op in op_db:
        if op.name.startswith(SLOW) or op.name in LEFT_OUT or dtype not in op.supported_dtypes("cpu"):
            continue
        with_grad = RECORDS and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        try:
            found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=with_grad), 1))
        except Exception:  # some need other packages
            continue
        yield from ((op, sample) for sample in found)


class CudaRules(unittest.TestCase):
    def test_every_op_runs_as_stock_fake_cuda_tensors_run_it(self):
        runs = [
            (op, sample, autocast)
            for autocast, dtype in ((False, torch.bfloat16), (True, torch.float32))
            for op, sample in samples(dtype)
        ]
        with stock():
            expected = [ops_of(*run) for run in runs]
        with ft.pretend("cuda"):
            got = [ops_of(*run) for run in runs]
        compared = 0
        for (op, _, autocast), ours, theirs in zip(runs, got, expected):
            # Stock fake tensors have no values, and C++ copies lists of indices to the card.
            if theirs is not None and op.name != "__getitem__":
                compared += 1
                with self.subTest(op=op.name, autocast=autocast):
                    self.assertEqual(ours, theirs)
        self.assertGreater(compared, 600)

    def test_no_op_of_cudas_autocast_is_missing(self):
        ours = {*HALF, *FLOAT, *FLOAT_BY_DTYPE, *WIDEST, *NORMS}
        for name in torch._C._dispatch_get_all_op_names():
            name = name.removeprefix("aten::")
            is_listed = torch._C._dispatch_has_kernel_for_dispatch_key
            if ":" in name or re.search(r"\.(names|.*[Dd]imname)", name):
                continue  # of named tensors, which fake tensors do not have
            if is_listed(f"aten::{name}", "AutocastCUDA"):
                with self.subTest(name):
                    # `binary_cross_entropy` is refused; `_cudnn_rnn` is not reached.
                    self.assertIn(name, ours | {"binary_cross_entropy", "_cudnn_rnn"})

    def test_the_kernel_of_attention_is_the_one_that_cuda_takes(self):
        def kernel(dtype, *, head=64, mask=None, causal=False, keys=32, gqa=False, capability=(8, 9)):
            with ft.pretend("cuda", capability=capability):
                heads = 2 if gqa else 4
                q = torch.empty(2, 4, 32, head, device="cuda", dtype=dtype, requires_grad=True)
                k, v = (torch.empty(2, heads, keys, head, device="cuda", dtype=dtype) for _ in "kv")
                if mask is not None:
                    mask = torch.ones(32, keys, device="cuda", dtype=mask)
                with Ops() as ops:
                    F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=gqa)
            names = {name.split(".")[0] for name, _ in ops.seen}
            fused = [n for n in names if n.startswith("_scaled_dot_product")]
            return fused[0].split("_")[4] if fused else "math"

        half, single = torch.bfloat16, torch.float32
        self.assertEqual(kernel(half), "flash")
        self.assertEqual(kernel(half, head=20), "flash")  # padded to 24
        self.assertEqual(kernel(half, causal=True), "flash")
        self.assertEqual(kernel(half, gqa=True), "flash")
        self.assertEqual(kernel(half, mask=torch.bool), "efficient")
        self.assertEqual(kernel(half, causal=True, keys=40), "efficient")
        self.assertEqual(kernel(half, head=512), "efficient")
        self.assertEqual(kernel(single), "efficient")
        self.assertEqual(kernel(single, head=10), "math")
        self.assertEqual(kernel(single, gqa=True), "math")
        self.assertEqual(kernel(torch.float16, capability=(7, 5)), "efficient")
        self.assertEqual(kernel(torch.float64), "math")

    def test_fused_kernels_return_what_stock_fake_cuda_tensors_return(self):
        def results(world, dtype, op, *rest):
            with world:
                parts = [torch.empty(2, 4, 40, 64, device="cuda", dtype=dtype) for _ in "qkv"]
                found = tree_leaves(op(*parts, *rest))
                return [(t.shape, t.dtype) for t in found if isinstance(t, torch.Tensor)]

        aten = torch.ops.aten
        for dtype, op, *rest in (
            (torch.bfloat16, aten._scaled_dot_product_flash_attention),
            (torch.float32, aten._scaled_dot_product_efficient_attention, None, True),
            (torch.float32, aten._scaled_dot_product_efficient_attention, None, False),
        ):
            pretended = results(ft.pretend("cuda"), dtype, op, *rest)
            self.assertEqual(pretended, results(FakeTensorMode(), dtype, op, *rest))

    def test_optimizers_and_clipping_choose_foreach_on_cuda_alone(self):
        for device, expected in (("cuda", True), ("cpu", False)):
            with ft.pretend(device):
                model = torch.nn.Linear(4, 4).to(device)
                optimizer = torch.optim.AdamW(model.parameters())
                model(torch.ones(2, 4, device=device)).sum().backward()
                with Ops() as ops:
                    optimizer.step()
                state = optimizer.state[model.weight]
                self.assertEqual(state["step"].device.type, "cpu")
            self.assertEqual(any(name.startswith("_foreach") for name, _ in ops.seen), expected)


if __name__ == "__main__":
    unittest.main()
