"""Training scripts as their projects write them, counted unchanged by the command."""

import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy
import torch

from fitgpt.torch import flags, options, words
from fitgpt.torch.__main__ import _split
from fitgpt.torch.advice import Option
from fitgpt.torch.messages import MESSAGES
from fitgpt.torch.nowhere import Nowhere
from fitgpt.torch.script import Counted, Run

HERE = pathlib.Path(__file__).parent
SCRIPTS = HERE / "scripts"
TRAINER = [
    "--output_dir", "out", "--bf16", "--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "4",
    "--eval_strategy", "steps", "--eval_steps", "100", "--report_to", "wandb", "--push_to_hub",
    "--load_best_model_at_end", "--disable_tqdm", "True",
]  # fmt: skip


class Folder(unittest.TestCase):
    """A folder with a dataset, and another for the user's caches."""

    def setUp(self):
        stack = self.enterContext(tempfile.TemporaryDirectory())
        self.folder, self.home = pathlib.Path(stack, "work"), pathlib.Path(stack, "home")
        (self.folder / "data/words").mkdir(parents=True)
        self.home.mkdir()
        for split in ("train", "val"):
            (numpy.arange(5000) % 500).astype(numpy.uint16).tofile(self.folder / f"data/words/{split}.bin")

    def run_command(self, *arguments, **environment):
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(self.home), "LC_ALL": "C",
            "HF_HUB_OFFLINE": "1", **environment,
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "fitgpt.torch", *map(str, arguments)], cwd=self.folder,
            capture_output=True, text=True, env=environment,
        )  # fmt: skip

    def count(self, name, *arguments):
        done = self.run_command(SCRIPTS / f"{name}.py", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        found = json.loads(done.stdout)
        self.assertIsNone(found["error"])
        self.assertEqual(found["steps"], 2)
        return found

    def assert_nothing_written(self):
        files = sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())
        self.assertEqual(files, ["data/words/train.bin", "data/words/val.bin"])
        self.assertEqual([str(p) for p in self.home.rglob("*") if p.is_file()], [])


def phases(found):
    return {phase["name"]: phase["peak_bytes"] for phase in found["phases"]}


class Scripts(Folder):
    def test_a_fork_of_nanogpt(self):
        compiled = self.count("nanogpt_fork", "--card", "RTX 4070")
        self.assertEqual(set(phases(compiled)), {"load", "evaluate", "train", "update", "save"})
        self.assertEqual((compiled["micro_batches"], compiled["verdict"]), (8, "fits"))
        self.assertEqual(compiled["changes"][0]["name"], "loss-alone")
        self.assertIn("fitgpt patch", compiled["changes"][0]["text"])
        self.assertNotIn("upper bound", " ".join(compiled["notes"]))
        # The calls that are not run would have needed what the others did.
        eager = self.count("nanogpt_fork", "--compile=False")
        short = self.count(
            "nanogpt_fork", "--compile=False", "--gradient_accumulation_steps=2", "--eval_iters=1"
        )
        self.assertEqual(phases(eager), phases(short))
        self.assertLess(compiled["peak_bytes"], eager["peak_bytes"])
        self.assert_nothing_written()

    def test_a_script_like_nanochats(self):
        found = self.count("nanochat_like", "--device-batch-size=8", "--run=mine")
        self.assertEqual(set(phases(found)), {"load", "evaluate", "train", "update"})
        self.assertEqual(found["micro_batches"], 16)
        self.assertEqual(found["options"]["batch"]["value"], 8)
        self.assertTrue(found["allocator"]["expandable_segments"])  # the script asks for it
        self.assertNotIn("upper bound", " ".join(found["notes"]))
        self.assert_nothing_written()

    def test_a_trainer_of_transformers(self):
        found = self.count("hf_trainer", *TRAINER)
        self.assertEqual(set(phases(found)), {"load", "evaluate", "train", "update", "save"})
        # All 64 batches of predictions stay on the card, and the last is appended to a copy.
        held = 512 * 64 * 500 * 4
        self.assertGreater(phases(found)["evaluate"], 1.9 * held)
        self.assertEqual(found["changes"][0]["name"], "predictions")
        self.assertEqual(found["trainer"]["gradient_accumulation_steps"], 4)
        self.assert_nothing_written()

    def test_a_loop_with_accelerate(self):
        found = self.count("accelerate_loop")
        self.assertEqual(set(phases(found)), {"load", "evaluate", "train", "update", "save"})
        self.assertEqual(found["micro_batches"], 4)
        self.assert_nothing_written()

    def test_a_module_of_lightning(self):
        found = self.count("lightning_module")
        self.assertEqual(set(phases(found)), {"load", "evaluate", "train", "update", "save"})
        self.assertEqual(found["micro_batches"], 2)
        train = next(phase for phase in found["phases"] if phase["name"] == "train")
        self.assertGreater(train["kinds"]["activations"], 16 << 20)
        self.assert_nothing_written()

    def test_a_recipe_alone_and_as_one_of_many_ranks(self):
        alone = self.count("recipe", "--card", "RTX 4070")
        self.assertEqual(set(phases(alone)), {"load", "train", "update", "save"})
        rank = self.count("recipe", "--ranks", "4")
        self.assertIn("rank 0 of 4", " ".join(rank["notes"]))
        # DDP holds the gradients a second time.
        gradients = next(p["kinds"]["gradients"] for p in alone["phases"] if p["name"] == "train")
        more = phases(rank)["train"] - phases(alone)["train"]
        self.assertAlmostEqual(more / gradients, 1, delta=0.05)
        self.assert_nothing_written()


class Command(Folder):
    def test_a_script_without_its_data_fails_with_a_hint(self):
        done = self.run_command(SCRIPTS / "nanogpt_fork.py", "--card", "RTX 4070", "--dataset=none")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("FileNotFoundError", done.stderr)
        self.assertIn("hint: the script reads this file itself", done.stderr)
        self.assertNotIn("runpy", done.stderr)
        self.assertNotIn("nowhere.py", done.stderr)

    def test_an_unknown_card_fails_with_a_hint(self):
        done = self.run_command("train.py", "--card", "RTX 9999")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("hint: `fitgpt plan --gpu list`", done.stderr)

    def test_a_model_that_cannot_be_downloaded_fails_with_a_hint(self):
        script = self.folder / "download.py"
        script.write_text(
            "from transformers import AutoConfig\nAutoConfig.from_pretrained('no-such-organization/no-such-model')\n"
        )
        done = self.run_command(script, LC_ALL="de_DE.UTF-8")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("Tipp: Gewichte und Daten lädt das Skript selbst", done.stderr)

    def test_a_run_that_does_not_fit_is_advised_to_a_command_that_does(self):
        script = SCRIPTS / "nanogpt_fork.py"
        sizes = ["--compile=False", "--n_embd=1024", "--vocab_size=50304", "--block_size=1024", "--eval_iters=1"]
        arguments = ["--card", "RTX 4070", "--advise", *sizes, "--batch_size=16", "--gradient_accumulation_steps=2"]
        done = self.run_command(script, *arguments, LC_ALL="de_DE.UTF-8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("passt nicht, Höchststand", done.stdout)
        best = done.stdout.splitlines()[-1]
        self.assertTrue(best.startswith("als Nächstes: python "), done.stdout)
        batch, accumulation = (
            int(part.partition("=")[2]) for part in best.split() if part.startswith(("--batch_size", "--gradient_acc"))
        )
        self.assertEqual(batch * accumulation, 32)
        again = self.run_command(script, "--card", "RTX 4070", *best.split()[4:])
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_a_run_that_does_not_fit_ends_with_the_command_that_advises(self):
        def next_of(*arguments, **options):
            run = Run("train.py", list(arguments), card="RTX 4070", **options)
            return Counted(run, None, mock.Mock(trainer=None), {}, {}, None)._advising()

        start = "python -m fitgpt.torch"
        self.assertEqual(next_of(), f"{start} train.py --card 'RTX 4070' --advise")
        self.assertEqual(next_of("--steps=9"), f"{start} train.py --card 'RTX 4070' --advise -- --steps=9")
        self.assertEqual(next_of(is_module=True, ranks=8), f"{start} -m train.py --card 'RTX 4070' --advise --ranks 8")

    def test_advice_names_a_change_of_the_code_that_costs_nothing_and_ends_with_the_command(self):
        change = {"name": "loss-alone", "bytes": 2 << 30, "text": "return the loss alone"}
        smaller = Option({"batch": 4}, 8 << 30, "fits", text="python train.py --batch_size=4")
        for fits, lines in ((False, 4), (True, 3)):
            found = {"fits": fits, "trainer": None, "changes": [change], "peak_bytes": 20 << 30}
            search = mock.Mock(**{"document.return_value": found}, options={(): smaller}, has_options=True)
            out = io.StringIO()
            with mock.patch.object(options, "_Search", lambda *_: search), mock.patch.dict(os.environ, LC_ALL="C"):
                self.assertEqual(options.advise(Run("train.py", card="RTX 4070"), None, out, False), 0)
            printed = [line for line in out.getvalue().splitlines() if line]
            self.assertEqual(len(printed), lines, printed)
            self.assertEqual("return the loss alone" in printed[0], not fits)
            self.assertEqual(printed[-1], "next: python train.py --batch_size=4")

    def test_our_options_are_found_before_the_scripts(self):
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--card")
        parser.add_argument("--steps")
        parser.add_argument("--advise", action="store_true")
        for line, ours, rest in (
            ("a.py --card X --steps 3 --steps=9", ["--card", "X", "--steps", "3", "--steps=9"], ["a.py"]),
            ("a.py --lr 1 --steps 9 --card X", ["--card", "X"], ["a.py", "--lr", "1", "--steps", "9"]),
            ("--steps 3 a.py --advise -- --card Y", ["--steps", "3", "--advise"], ["a.py", "--card", "Y"]),
        ):
            self.assertEqual(_split(line.split(), parser), (ours, rest), line)

    def test_options_are_changed_in_the_form_that_they_have(self):
        options = {
            "batch": {"flag": "--batch-size", "value": 8, "form": "argparse"},
            "accumulation": {"flag": "--grad_accum", "value": 1, "form": "key"},
            "checkpointing": {"flag": "--gradient-checkpointing", "value": False, "form": "switch"},
        }  # fmt: skip
        given = ["--batch-size", "8", "--lr", "1", "--grad_accum=1"]
        changed = flags.changed(given, options, {"batch": 4, "accumulation": 2, "checkpointing": True})
        self.assertEqual(
            changed, ["--lr", "1", "--batch-size", "4", "--grad_accum=2", "--gradient-checkpointing"]
        )


class Files(unittest.TestCase):
    def test_a_script_sees_what_it_wrote_and_changes_no_real_file(self):
        with tempfile.TemporaryDirectory() as real, tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(real, "kept.txt")
            kept.write_text("old")
            out = os.path.join(real, "out/run")
            nothing = mock.patch.object(torch, "save", lambda *_: None)  # as in `pretend`
            with nothing, Nowhere(folder).installed():
                with self.assertRaises(FileNotFoundError):
                    open(os.path.join(out, "log"), "w")
                os.makedirs(out, exist_ok=True)
                with self.assertRaises(FileExistsError):
                    os.makedirs(out)
                with open(os.path.join(out, "log"), "w") as file:
                    file.write("one")
                os.replace(os.path.join(out, "log"), os.path.join(out, "log.txt"))
                self.assertEqual(pathlib.Path(out, "log.txt").read_text(), "one")
                self.assertEqual(os.listdir(out), ["log.txt"])
                with open(kept, "a") as file:
                    file.write(" new")
                self.assertEqual(kept.read_text(), "old new")
                descriptor, made = tempfile.mkstemp()
                os.close(descriptor)
                os.replace(made, os.path.join(out, "moved"))
                self.assertEqual(sorted(os.listdir(out)), ["log.txt", "moved"])
                os.remove(os.path.join(out, "log.txt"))
                self.assertFalse(os.path.exists(os.path.join(out, "log.txt")))
                other = pathlib.Path(real, "other.txt")
                torch.save({"weight": torch.ones(2)}, other)
                self.assertEqual(torch.load(other)["weight"].tolist(), [1, 1])
            self.assertEqual(kept.read_text(), "old")
            self.assertEqual(os.listdir(real), ["kept.txt"])

    def test_a_real_file_is_not_removed(self):
        with tempfile.TemporaryDirectory() as real, tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(real, "kept.txt")
            kept.write_text("old")
            with Nowhere(folder).installed():
                import shutil

                kept.unlink()
                kept.rename(pathlib.Path(real, "moved.txt"))
                shutil.rmtree(real)
            self.assertEqual(os.listdir(real), ["kept.txt"])


class Languages(unittest.TestCase):
    def test_every_message_has_four_texts_with_the_same_gaps(self):
        import string

        for name, texts in MESSAGES.items():
            self.assertEqual(len(texts), 4, name)
            gaps = [{gap for _, gap, _, _ in string.Formatter().parse(text) if gap} for text in texts]
            self.assertTrue(all(texts) and all(gap == gaps[0] for gap in gaps), name)

    def test_the_locale_chooses_the_language(self):
        for environment, expected in (
            ({"LANG": "de_AT.UTF-8"}, "de"), ({"LC_ALL": "ja_JP", "LANG": "de"}, "ja"), ({"LC_MESSAGES": "zh-CN"}, "zh"),
            ({"LC_ALL": "fr_FR", "LANG": "de"}, "en"), ({}, "en"),
        ):  # fmt: skip
            with mock.patch.dict(os.environ, environment):
                for name in {"LC_ALL", "LC_MESSAGES", "LANG"} - set(environment):
                    os.environ.pop(name, None)
                self.assertEqual(words.language(), expected)


if __name__ == "__main__":
    unittest.main()
