"""Checks that `pretend("cpu")` counts the same bytes as real tensors."""

import gc
import os
import tempfile
import unittest

import torch
from torch import nn
from torch.nn import functional as F

import fitgpt.torch as ft
from pretend import models, pretend_with_new_sums
from pretend.real import RealCount


def peaks(run):
    """The peak of a run on real tensors, and on fake ones with the same random numbers."""
    gc.collect()
    gc.disable()  # cycles must be freed at the same moment in both
    try:
        torch.manual_seed(0)
        with RealCount() as real:
            run("cpu")
            gc.collect()
        torch.manual_seed(0)
        with pretend_with_new_sums("cpu") as m:
            run("cpu")
            gc.collect()
    finally:
        gc.enable()
    assert m.bytes == real.now, f"{m.bytes} bytes are left, with real tensors {real.now}"
    return m.peak_bytes, real.most


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


OPS = {
    "l1": lambda: F.l1_loss(leaf(40, 50), leaf(40, 50)),
    "mse": lambda: F.mse_loss(leaf(40, 50), torch.randn(40, 50)),
    "smooth l1": lambda: F.smooth_l1_loss(leaf(40, 50), torch.randn(40, 50)),
    "huber": lambda: F.huber_loss(leaf(40, 50), torch.randn(40, 50)),
    "binary cross entropy": lambda: F.binary_cross_entropy(
        leaf(40, 50).sigmoid(), torch.rand(40, 50)
    ),
    "soft margin": lambda: F.soft_margin_loss(leaf(40, 50), torch.ones(40, 50)),
    "label smoothing": lambda: F.cross_entropy(
        leaf(40, 50), torch.zeros(40, dtype=torch.long), label_smoothing=0.1
    ),
    "multi margin": lambda: F.multi_margin_loss(leaf(40, 50), torch.zeros(40, dtype=torch.long)),
    "ctc": lambda: F.ctc_loss(
        leaf(50, 4, 20).log_softmax(-1), torch.ones(4, 10, dtype=torch.long),
        torch.full((4,), 50), torch.full((4,), 10),
    ),
    "lstm": lambda: nn.LSTM(16, 32, 2, batch_first=True)(leaf(4, 10, 16))[0].sum(),
    "gru": lambda: nn.GRU(16, 32, 2)(leaf(4, 10, 16))[0].sum(),
    "rnn": lambda: nn.RNN(16, 32, bidirectional=True)(leaf(4, 10, 16))[0].sum(),
    "instance norm": lambda: nn.InstanceNorm2d(8, affine=True)(leaf(4, 8, 5, 5)).sum(),
    "batch norm, evaluating": lambda: nn.BatchNorm2d(8).eval()(leaf(4, 8, 5, 5)).sum(),
    "transposed convolution": lambda: nn.ConvTranspose2d(4, 8, 3, 2)(leaf(2, 4, 9, 9)).sum(),
    "grouped convolution": lambda: nn.Conv1d(4, 8, 3, groups=2)(leaf(2, 4, 30)).sum(),
    "unfold": lambda: F.unfold(leaf(2, 4, 9, 9), 3).sum(),
    "interpolate": lambda: F.interpolate(leaf(2, 4, 9, 9), scale_factor=2, mode="bilinear").sum(),
    "attention with weights": lambda: nn.MultiheadAttention(32, 4)(*[leaf(20, 2, 32)] * 3)[0].sum(),
    "grouped queries": lambda: F.scaled_dot_product_attention(
        leaf(2, 8, 20, 16), leaf(2, 2, 20, 16), leaf(2, 2, 20, 16), enable_gqa=True
    ).sum(),
    "attention with dropout": lambda: F.scaled_dot_product_attention(
        leaf(2, 3, 20, 8), leaf(2, 3, 20, 8), leaf(2, 3, 20, 8), dropout_p=0.1, is_causal=True
    ).sum(),
    "a mask of known values": lambda: leaf(40, 50)[torch.arange(40) % 3 == 0].sum(),
    "dropout": lambda: F.dropout(leaf(40, 50), 0.5).sum(),
    "silu": lambda: F.silu(leaf(40, 50)).sum(),
    "einsum": lambda: torch.einsum("bij,bjk->bik", leaf(3, 10, 20), leaf(3, 20, 30)).sum(),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(20, 30))(leaf(4, 20)).sum(),
    "encoder and decoder": lambda: nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True)(
        leaf(2, 9, 16), leaf(2, 7, 16)
    ).sum(),
}  # fmt: skip


class Counts(unittest.TestCase):
    def test_training_runs_hold_what_real_tensors_hold(self):
        for run in models.ALL:
            # oneDNN's 16-bit kernels fail with an illegal instruction on some virtual machines.
            with self.subTest(run.__name__), torch.backends.mkldnn.flags(enabled=run not in models.HALF):
                self.assertEqual(*peaks(run))

    def test_an_op_and_its_backward_hold_what_real_tensors_hold(self):
        for name, run in OPS.items():
            with self.subTest(name):
                self.assertEqual(*peaks(lambda _, run=run: run().backward()))

    def test_a_loaded_checkpoint_counts_and_has_its_step_counts(self):
        def trained(state=None):
            model = nn.Linear(40, 30)
            optimizer = torch.optim.AdamW(model.parameters())
            if state is not None:
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            model(torch.randn(4, 40)).sum().backward()
            optimizer.step()
            return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint.pt")
            torch.save(trained(), path)
            self.assertEqual(*peaks(lambda device: trained(torch.load(path, map_location=device))))
            with ft.pretend("cuda") as m:
                loaded = torch.load(path, map_location="cuda")
                self.assertEqual(loaded["optimizer"]["state"][0]["step"].item(), 1)
                self.assertEqual(m.bytes, 3 * (5120 + 512) + 2 * 512)
                del loaded
                self.assertEqual(m.bytes, 0)

    def test_the_independent_count_sees_a_tensor_more(self):
        def run(_, keeps):
            kept = [torch.ones(1000) for _ in range(3)]
            if not keeps:
                del kept[0]
            torch.ones(1000)

        self.assertEqual(*peaks(lambda device: run(device, True)))
        more, less = peaks(lambda d: run(d, True)), peaks(lambda d: run(d, False))
        self.assertEqual(more[1] - less[1], 4096)
        self.assertEqual(more[0] - less[0], 4096)


if __name__ == "__main__":
    unittest.main()
