"""The results of `pretend`: phases, names, pages, and values that are read back."""

import json
import os
import pathlib
import pickle
import re
import tempfile
import unittest
from unittest import mock

import torch
from torch import nn
from torch.cuda import _memory_viz
from torch.nn import functional as F

import fitgpt.torch as ft
from fitgpt.torch import words


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def forward(self, x):
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5000, 64)
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(64, 5000)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(m, steps=2):
    model = Model().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 5000, (8, 32), device="cuda")
    with m.phase("train"):
        for _ in range(steps):
            F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
    with m.phase("evaluate"), torch.no_grad():
        model(tokens)
    return sum(p.numel() for p in model.parameters())


class Phases(unittest.TestCase):
    def test_a_phase_entered_again_keeps_its_highest_peak(self):
        with ft.pretend() as m:
            for size in (1000, 3000, 2000):
                with m.phase("step"):
                    torch.empty(size, device="cuda")
        self.assertEqual(m.phases["step"].peak_bytes, 12288)  # 3000 floats in blocks of 512
        self.assertEqual(m.peak_bytes, 12288)

    def test_a_phase_starts_with_what_is_alive(self):
        with ft.pretend() as m:
            kept = torch.empty(1024, device="cuda")
            with m.phase("nothing"):
                pass
            del kept
        self.assertEqual(m.phases["nothing"].peak_bytes, 4096)

    def test_host_tensors_are_not_on_the_card(self):
        with ft.pretend() as m:
            host = torch.empty(1 << 20)
            self.assertEqual(m.bytes, 0)
            card = host.to("cuda")
            self.assertEqual(m.bytes, 4 << 20)
            self.assertIs(card.to("cuda"), card)
            self.assertEqual(card.cpu().device.type, "cpu")
            self.assertEqual(torch.cuda.memory_allocated(), 4 << 20)

    def test_a_model_from_outside_is_moved_and_stays_tied(self):
        model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
        model[1].weight = model[0].weight
        with ft.pretend() as m:
            model.to("cuda")
            self.assertIs(model[0].weight, model[1].weight)
            self.assertEqual(m.bytes, 64 * 64 * 4)

    def test_the_device_meta_is_not_the_card(self):
        with ft.pretend() as m:
            with torch.device("meta"):
                model = nn.Linear(1000, 1000)
            self.assertEqual((model.weight.device.type, m.bytes), ("meta", 0))
            self.assertEqual(torch.ones(10, device="cuda").to("meta").device.type, "meta")
            model.to_empty(device="cuda")
        self.assertEqual(m.peak_bytes, 4_000_256 + 4096)

    def test_kinds_at_the_peak_add_up_and_are_told_apart(self):
        with ft.pretend() as m:
            count = train(m)
        kinds = m.by_kind("train")
        self.assertEqual(sum(kinds.values()), m.phases["train"].peak_bytes)
        slack = 512 * 20
        self.assertAlmostEqual(kinds["parameters"], 4 * count, delta=slack)
        self.assertAlmostEqual(kinds["optimizer state"], 8 * count, delta=slack)
        self.assertGreaterEqual(kinds["logits"], 8 * 32 * 5000 * 4 * 2)
        self.assertIn("layers.*.mlp.*", {g.module for g in m.alive("train")})

    def test_backward_is_attributed_to_the_module_of_its_forward(self):
        with ft.pretend() as m:
            model = Model().to("cuda")
            model(torch.zeros(8, 32, dtype=torch.long, device="cuda")).sum().backward()
        made = {(r.module, r.stage) for r in m._live.records}
        self.assertIn(("layers.1.mlp.2", "backward"), made)

    def test_nothing_stays_patched(self):
        before = (torch.cuda.is_available, torch.save, torch.Tensor.pin_memory, torch.compile)
        with ft.pretend():
            self.assertTrue(torch.cuda.is_available())
        self.assertEqual(
            before, (torch.cuda.is_available, torch.save, torch.Tensor.pin_memory, torch.compile)
        )
        self.assertEqual(torch.ones(3).add(1).tolist(), [2.0, 2.0, 2.0])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(F.dropout(torch.ones(3), 0.0).dtype, torch.float32)

    def test_an_error_inside_leaves_nothing_behind(self):
        with self.assertRaises(ZeroDivisionError), ft.pretend():
            1 / 0
        with ft.pretend() as m:
            torch.ones(1, device="cuda")
        self.assertEqual(m.peak_bytes, 512)


class Values(unittest.TestCase):
    def test_small_values_are_known_and_unknown_ones_are_noted(self):
        with ft.pretend() as m:
            step = torch.zeros((), device="cuda")
            for _ in range(3):
                step += 1
            self.assertEqual(step.item(), 3)
            self.assertEqual(torch.arange(10, device="cuda")[4:].sum().item(), 39)
            self.assertTrue(torch.ones(4, 64, dtype=torch.long, device="cuda").all())
            self.assertEqual(len(m.notes), 0)
            self.assertEqual(torch.randn(1000, 1000, device="cuda").sum().item(), 0.0)
            self.assertEqual(len(m.notes), 1)

    def test_a_write_of_unknown_values_forgets_known_ones(self):
        with ft.pretend() as m:
            known = torch.ones(4, device="cuda")
            view = known[1:]
            known.add_(torch.randn(5000, 4, device="cuda").sum(0))
            view.sum().item()
            self.assertEqual(len(m.notes), 1)

    def test_a_loss_scale_scales_and_steps(self):
        with ft.pretend():
            model = nn.Linear(8, 8, device="cuda")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", growth_interval=1)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(torch.ones(2, 8, device="cuda")).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            self.assertEqual(scaler.get_scale(), 2.0**17)

    def test_sparse_gradients_are_noted(self):
        with ft.pretend() as m:
            table = nn.Embedding(500, 16, sparse=True, device="cuda")
            table(torch.zeros(6, 10, dtype=torch.long, device="cuda")).sum().backward()
        self.assertTrue(any(note.startswith("sparse tensors") for note in m.notes), list(m.notes))

    def test_what_is_not_counted_is_noted(self):
        with ft.pretend() as m:
            nn.GRU(4, 4, device="cuda")(torch.ones(1, 2, 4, device="cuda"))
            weight = nn.Parameter(torch.ones(4, device="cuda"))
            optimizer = torch.optim.LBFGS([weight], history_size=7)

            def closure():
                loss = weight.sum()
                loss.backward()
                return loss

            optimizer.step(closure)
        notes = list(m.notes)
        self.assertTrue(any(note.startswith("GRU: cuDNN") for note in notes), notes)
        self.assertTrue(any("LBFGS" in note and "up to 7 pairs" in note for note in notes), notes)


class Reports(unittest.TestCase):
    def test_a_report_and_a_page_are_in_the_language_of_the_locale(self):
        with ft.pretend() as m:
            train(m)
            torch.zeros(3, device="cuda").sum().item()
        for locale, verdict, phase, note in (
            ("de_DE.UTF-8", "passt: ", "Training", "Hinweis: item: aus einem Tensor"),
            ("zh_CN", "放得下：", "训练", "注意：item: 从没有数值"),
            ("ja_JP", "収まります: ", "学習", "注: item: 値を持たない"),
            ("fr_FR", "fits: ", "train", "note: item: a value"),
        ):
            with self.subTest(locale), mock.patch.dict(os.environ, LC_ALL=locale):
                m.notes.add("item", "value-read")
                report = m.report("RTX 4070")
                self.assertTrue(report.splitlines()[-1].startswith(verdict), report)
                self.assertIn(f"  {phase}", report)
                phases = [line for line in report.splitlines() if line.endswith(("B", "時点")) or "  " in line[2:]]
                starts = {words.columns(line[: line.index(" MiB")]) for line in phases[:2]}
                self.assertEqual(len(starts), 1, report)
                self.assertIn(note, report)
                self.assertEqual("," in report.splitlines()[0], locale.startswith("de"))
                with tempfile.TemporaryDirectory() as folder:
                    path = pathlib.Path(folder, "page.html")
                    m.html(path, "RTX 4070")
                    self.assertIn(phase, path.read_text(encoding="utf-8"))

    def test_the_change_that_removes_the_largest_tensors_comes_first(self):
        from torch.nn import functional as F

        from fitgpt.torch.changes import changes

        def scores():
            q = torch.randn(4, 8, 512, 32, device="cuda", requires_grad=True)
            ((q @ q.transpose(-1, -2)).softmax(-1) @ q).sum().backward()

        def logits():
            hidden = torch.randn(512, 64, device="cuda", requires_grad=True)
            head = torch.randn(32000, 64, device="cuda", requires_grad=True)
            F.cross_entropy(hidden @ head.t(), torch.zeros(512, dtype=torch.long, device="cuda")).backward()

        def activations():
            model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8))).cuda()
            model(torch.randn(65536, 64, device="cuda")).sum().backward()

        class Stacked(torch.optim.SGD):
            def step(self):
                stacked = torch.stack([p.grad for p in self.param_groups[0]["params"]])
                stacked.mul_(2)

        def stacked():
            model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(8))).cuda()
            optimizer = Stacked(model.parameters())
            model(torch.randn(4, 512, device="cuda")).sum().backward()
            optimizer.step()

        for run, expected in (
            (scores, "fused-attention"), (logits, "chunked-loss"), (activations, "checkpointing"),
            (stacked, "stacked-update"),
        ):  # fmt: skip
            with self.subTest(run.__name__):
                with ft.pretend() as m:
                    run()
                found = changes(m)
                self.assertEqual(found[0].name, expected, found)
                self.assertLessEqual(sum(change.bytes for change in found), m.peak_bytes)
        self.assertIn("sdpa", changes(m_of(scores), "transformers")[0].how)
        for stack, words in (("transformers", "use_liger_kernel"), ("nanogpt", "fitgpt patch")):
            self.assertIn(words, changes(m_of(logits), stack)[0].how)

    def test_a_named_card_is_the_one_that_torch_reports(self):
        with ft.pretend(card="RTX 5090"):
            properties = torch.cuda.get_device_properties(0)
            self.assertEqual(torch.cuda.get_device_name(), "NVIDIA GeForce RTX 5090")
            self.assertEqual(torch.cuda.get_device_capability(), (12, 0))
            self.assertGreater(properties.total_memory, 31 << 30)

    def test_every_card_of_the_catalogue_has_the_capability_of_its_generation(self):
        from fitgpt.torch.cards import Card

        of_generation = {
            "Pascal": {(6, 0), (6, 1)}, "Volta": {(7, 0)}, "Turing": {(7, 5)}, "TuringGtx": {(7, 5)},
            "Ampere": {(8, 0), (8, 6)}, "Ada": {(8, 9)}, "Hopper": {(9, 0)}, "Blackwell": {(10, 0), (12, 0)},
        }  # fmt: skip
        root = pathlib.Path(__file__).parent.parent.parent
        catalogue = (root / "crates/fit/src/device/catalogue.rs").read_text()
        cards = re.findall(r'gpu\("([^"]+)", (\w+)', catalogue)
        self.assertGreater(len(cards), 100)
        for name, generation in cards:
            if generation in of_generation:
                self.assertIn(Card(name, 0, 0, 0, 0).capability, of_generation[generation], name)

    def test_numbers_are_formatted_and_addresses_tell_tensors_apart(self):
        with ft.pretend():
            self.assertEqual(f"{torch.ones((), device='cuda').mean():.4f}", "1.0000")
            a, b = (torch.empty(4, 4, device="cuda") for _ in "ab")
            self.assertNotEqual(a.data_ptr(), b.data_ptr())
            self.assertEqual(a[1].data_ptr() - a.data_ptr(), 16)
            self.assertEqual(a.view(16).data_ptr(), a.data_ptr())


def m_of(run):
    with ft.pretend() as m:
        run()
    return m


class Pictures(unittest.TestCase):
    def test_a_report_names_the_phases_the_largest_group_and_the_verdict(self):
        with ft.pretend() as m:
            train(m)
        report = m.report("RTX 4070")
        self.assertRegex(report, r"train +\d+\.\d MiB  at ")
        for other in ("GiB", "KiB"):
            self.assertNotIn(other, report)
        self.assertIn("fits: ", report.splitlines()[-1])
        self.assertTrue(m.fits("RTX 4070"))

    def test_a_peak_larger_than_the_card_does_not_fit(self):
        with ft.pretend() as m:
            torch.empty(13 << 30, dtype=torch.uint8, device="cuda")
        self.assertEqual((m.fits("4070"), m.verdict("RTX 4070")), (False, "no"))
        self.assertEqual(m.verdict("A100 80GB"), "fits")
        with self.assertRaisesRegex(ValueError, "the nearest names are `GeForce RTX 4070`"):
            m.fits("RTX 4079")
        with self.assertRaisesRegex(ValueError, "unknown card"):
            m.fits("RTX 9999")

    def test_a_page_draws_every_phase_to_its_peak(self):
        with ft.pretend() as m:
            train(m)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "page.html")
            m.html(path, "RTX 4070")
            page = path.read_text(encoding="utf-8")
        data = json.loads(re.search(r'id="chart">(.*?)</script>', page, re.S)[1])
        phases = {p["name"]: p for p in data["panels"][0]["phases"]}
        for name, phase in m.phases.items():
            self.assertEqual(max(map(sum, phases[name]["bytes"])), phase.peak_bytes)

    def test_pytorchs_memory_viewer_opens_a_snapshot(self):
        with ft.pretend() as m:
            train(m)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "snapshot.pickle")
            m.memory_viz(path)
            snapshot = pickle.loads(path.read_bytes())
        self.assertIn("cudaMalloc", _memory_viz.trace(snapshot))
        self.assertTrue(_memory_viz.segsum(snapshot))
        live = most = 0
        for event in snapshot["device_traces"][0]:
            sign = {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
            live += sign * event["size"]
            most = max(most, live)
        self.assertEqual(most, m.peak_bytes)


if __name__ == "__main__":
    unittest.main()
