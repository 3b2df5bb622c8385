"""`torch.compile` inside `pretend`: the counts, what they agree with, and what is left behind."""

import contextlib
import functools
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import fitgpt.torch as ft
from fitgpt.torch import compiled
from pretend import allocator, nanogpt

HERE = pathlib.Path(__file__).parent
# Rows of `compiled_cuda.jsonl`: a small vocabulary; the loss alone. FITGPT_ALL_ROWS=1: all.
ROWS = (20, 3)
# `scripts/test-torch-versions` compiles real kernels for another model, too.
EVERY_MODEL = bool(os.environ.get("FITGPT_EVERY_MODEL"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


class Model(nn.Module):
    def __init__(self, layers=2, breaks=False, checkpoints=False):
        super().__init__()
        self.h = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(64, 96)
        self.breaks, self.checkpoints = breaks, checkpoints

    def forward(self, x, y):
        for index, block in enumerate(self.h):
            if self.breaks and index == 1:
                torch._dynamo.graph_break()
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return F.cross_entropy(self.head(x), y)


def eager_step(optimizer):
    return optimizer.step


def count(compiles, device="cuda", make=Model, batches=(256,), step=eager_step, **options):
    """Two micro-batches, an update and an evaluation for each batch size."""
    with ft.pretend(device, **options) as m:
        model = make().to(device)
        run = compiles(model)
        optimizer = torch.optim.AdamW(model.parameters())
        update = step(optimizer)
        for batch in batches:
            x = torch.randn(batch, 64, device=device)
            y = torch.zeros(batch, dtype=torch.long, device=device)
            with m.phase("train"):
                for _ in range(2):
                    with torch.autocast(device, dtype=torch.bfloat16):
                        loss = run(x, y)
                    loss.backward()
                update()
                optimizer.zero_grad()
            with m.phase("evaluate"), torch.no_grad():
                model.eval()
                run(x, y)
                model.train()
    return m


def peaks(measured):
    return {name: phase.peak_bytes for name, phase in measured.phases.items()}


def minor(version):
    return version.split(".")[:2]


def compile_whole(model):
    return torch.compile(model)


@functools.cache
def whole():
    """The count that others are compared with; with the count of the same run as eager code."""
    return count(compile_whole), peaks(count(lambda model: model))


def blocks(model):
    for block in model.h:
        block.compile()
    return model


def is_bound(measured):
    return any("upper bound" in note for note in measured.notes)


needs_known_version = unittest.skipUnless(compiled.is_known(), "counted as eager with this PyTorch")


@needs_known_version
class Counts(unittest.TestCase):
    def test_nanogpt_has_the_counted_peaks(self):
        lines = (HERE / "compiled_cuda.jsonl").read_text().splitlines()
        rows = lines if os.environ.get("FITGPT_ALL_ROWS") else [lines[index] for index in ROWS]
        for row in map(json.loads, rows):
            with self.subTest(**row["config"]):
                with ft.pretend("cuda") as m:
                    nanogpt.train({**row["config"], "compile": True}, "cuda", m)
                for name, counted in row["torch_compile_bytes"].items():
                    # Another version of Inductor may keep other buffers: 2.12 does not overwrite the
                    # logits with their gradient. On a CPU its real runs take these bytes too (below).
                    if minor(torch.__version__) == minor(row["torch"]):
                        self.assertEqual(m.phases[name].peak_bytes, counted, name)
                self.assertFalse(is_bound(m), list(m.notes))
                self.assertIn("transformer.h.*.mlp.c_fc", {g.module for g in m.alive("after_forward")})

    def test_every_way_to_compile_is_counted(self):
        reference, eager = whole()
        self.assertFalse(is_bound(reference), list(reference.notes))
        self.assertLess(peaks(reference)["train"], eager["train"])
        for name, expected, m in (
            ("fullgraph", reference, count(lambda model: torch.compile(model, fullgraph=True))),
            ("dynamic", reference, count(lambda model: torch.compile(model, dynamic=True))),
            ("reduce-overhead", reference, count(lambda model: torch.compile(model, mode="reduce-overhead"))),
            ("max-autotune", reference, count(lambda model: torch.compile(model, mode="max-autotune"))),
            ("decorated", reference, count(lambda model: torch.compile(dynamic=False)(model))),
            ("imported before", reference, count(torch.compile)),
            ("blocks", None, count(blocks)),
            ("graph break", None, count(compile_whole, make=lambda: Model(breaks=True))),
        ):
            with self.subTest(name):
                self.assertFalse(is_bound(m), list(m.notes))
                if expected is not None:
                    self.assertEqual(peaks(m), peaks(expected))
                self.assertGreaterEqual(peaks(m)["train"], peaks(reference)["train"])
                self.assertLess(peaks(m)["train"], eager["train"])
                graphs = "CUDA graphs" in " ".join(m.notes)
                self.assertEqual(graphs, name in ("reduce-overhead", "max-autotune"))
                if graphs:  # activations stay in the pool while AdamW has its temporaries
                    missing = m._counter.compiled.graphs.missing_bytes()
                    self.assertTrue(0 < missing < m.peak_bytes, missing)
                    self.assertIn("up to", " ".join(m.notes))
        recomputed = count(compile_whole, make=lambda: Model(checkpoints=True))
        self.assertLess(peaks(recomputed)["train"], peaks(reference)["train"])

    def test_another_batch_size_compiles_again_and_counts(self):
        make = functools.partial(Model, layers=1)
        smaller = count(compile_whole, make=make, batches=(192,))
        both = count(compile_whole, make=make, batches=(192, 256, 224))
        self.assertGreater(peaks(both)["train"], peaks(smaller)["train"])
        self.assertFalse(is_bound(both), list(both.notes))

    def test_a_compiled_optimizer_keeps_its_state_on_the_card(self):
        make = functools.partial(Model, layers=1)
        step = lambda optimizer: torch.compile(optimizer.step)  # noqa: E731
        m = count(compile_whole, make=make, step=step, batches=(256, 256))
        self.assertFalse(is_bound(m), list(m.notes))
        parameters = m.by_kind("train")["parameters"]
        self.assertAlmostEqual(m.by_kind("train")["optimizer state"], 2 * parameters, delta=40 * 512)

    def test_checkpointed_attention_with_dropout_is_counted(self):
        def attend(x):
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1, is_causal=True)

        @torch.compile
        def run(x):
            return checkpoint(attend, x, use_reentrant=False).square().sum()

        with ft.pretend() as m:
            x = torch.randn(2, 4, 64, 16, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            run(x).backward()
        self.assertFalse(is_bound(m), list(m.notes))
        self.assertEqual(x.grad.shape, x.shape)

    def test_a_card_that_emulates_bfloat16_runs_its_graphs_eagerly(self):
        def train(compiles):
            with ft.pretend(capability=(7, 5)) as m:
                self.assertTrue(torch.cuda.is_bf16_supported())
                self.assertFalse(torch.cuda.is_bf16_supported(including_emulation=False))
                model = Block().to("cuda", torch.bfloat16)
                compiles(model)(torch.ones(256, 64, device="cuda", dtype=torch.bfloat16)).sum().backward()
            return m

        compiled_too = train(compile_whole)
        self.assertFalse(is_bound(compiled_too), list(compiled_too.notes))
        self.assertEqual(compiled_too.peak_bytes, train(lambda model: model).peak_bytes)

    def test_on_a_cpu_a_real_compiled_run_takes_the_same_bytes(self):
        """Real kernels are compiled here. The allocator sees every byte, also inside kernels."""

        def gpt():
            phases = mock.Mock(phase=lambda _: contextlib.nullcontext())
            config = dict(n_layer=1, n_head=2, n_embd=64, block_size=64, batch_size=4, vocab_size=500)
            config.update(loss_alone=True)
            nanogpt.train({**config, "dtype": "float32", "compile": True}, "cpu", phases)

        def block():
            model = Block()
            run, optimizer = torch.compile(model), torch.optim.SGD(model.parameters(), momentum=0.9)
            for _ in range(2):
                run(torch.ones(256, 64)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

        for run in (gpt, block) if EVERY_MODEL else (gpt,):
            with self.subTest(run.__name__), tempfile.TemporaryDirectory() as folder:
                with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder):
                    with ft.pretend("cpu") as m:
                        run()
                    torch._dynamo.reset()
                    run()  # compiles the kernels
                    torch._dynamo.reset()
                    real = allocator.peak(lambda run=run: (run(), gc.collect()))
                torch._dynamo.reset()
                self.assertAlmostEqual(m.peak_bytes / real, 1, delta=0.01)


class Bounds(unittest.TestCase):
    def test_what_cannot_be_compiled_is_counted_as_eager_and_noted(self):
        _, eager = whole()
        with mock.patch.object(compiled, "KNOWN", {(2, 7)}):
            unknown = count(compile_whole)
        with mock.patch("torch._inductor.compile_fx.compile_fx", side_effect=KeyError("moved")):
            moved = count(compile_whole)
        for m in (unknown, count(compile_whole, compile="eager")):
            self.assertEqual(peaks(m), eager)
            self.assertTrue(is_bound(m), list(m.notes))
        self.assertTrue(is_bound(moved), list(moved.notes))
        if not compiled.is_known():
            return
        self.assertGreaterEqual(peaks(moved)["train"], eager["train"])  # Dynamo keeps one tensor
        self.assertIn(torch.__version__, " ".join(unknown.notes))
        self.assertIn("moved", " ".join(moved.notes))
        with ft.pretend(capability=(6, 1)) as old:
            torch.compile(nn.Linear(4, 4, device="cuda"))(torch.ones(1, 4, device="cuda"))
        self.assertIn("the card has 6.1", " ".join(old.notes))
        with self.assertRaisesRegex(ValueError, "count"), ft.pretend(compile="fast"):
            pass

    @needs_known_version
    def test_an_error_of_the_program_is_raised(self):
        with self.assertRaises(torch._dynamo.exc.Unsupported):
            count(lambda model: torch.compile(model, fullgraph=True), make=lambda: Model(breaks=True))


@needs_known_version
class Traces(unittest.TestCase):
    def test_nothing_stays_patched_compiled_or_written(self):
        before = (
            torch.compile, torch._dynamo.convert_frame.CatchErrorsWrapper.__call__,
            torch._C._dynamo.guards._empty_strided_cuda, torch._subclasses.FakeTensor,
            torch.utils._triton.has_triton(), dict(os.environ),
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder, TMPDIR=folder):
                tempfile.tempdir = None
                try:
                    count(compile_whole)
                    self.assertEqual(os.listdir(folder), [])
                finally:
                    tempfile.tempdir = None
        after = (
            torch.compile, torch._dynamo.convert_frame.CatchErrorsWrapper.__call__,
            torch._C._dynamo.guards._empty_strided_cuda, torch._subclasses.FakeTensor,
            torch.utils._triton.has_triton(), dict(os.environ),
        )  # fmt: skip
        self.assertEqual(after, before)

    def test_a_model_compiled_before_is_counted_and_still_works(self):
        model = Model()
        run = torch.compile(model, backend="aot_eager")
        x, y = torch.randn(8, 64), torch.zeros(8, dtype=torch.long)
        expected = run(x, y)
        inside = torch.compile(Model())
        with ft.pretend("cuda") as m:
            inside.to("cuda")
            inside(torch.randn(64, 64, device="cuda"), torch.zeros(64, dtype=torch.long, device="cuda"))
        self.assertFalse(is_bound(m), list(m.notes))
        self.assertTrue(any(r.module == "h.1.a" for r in m._live.records))
        self.assertTrue(torch.equal(run(x, y), expected))

    def test_without_triton_the_count_is_the_same(self):
        program = (
            "import sys; sys.modules['triton'] = None\n"
            "from pretend.test_compiled import *\n"
            "print(json.dumps(peaks(count(compile_whole))))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), peaks(whole()[0]))


if __name__ == "__main__":
    unittest.main()
