"""`transformers`, `peft`, Lightning, `advise` and `guard`, as a user calls them."""

import contextlib
import io
import tempfile
import unittest
from unittest import mock

import peft
import torch
import transformers
from torch import nn

import fitgpt.torch as ft
from pretend import pretend_with_new_sums
from pretend.real import RealCount

SMALL = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
    vocab_size=1000, max_position_embeddings=128,
)  # fmt: skip


def families():
    t = transformers
    yield t.GPT2LMHeadModel, t.GPT2Config(
        n_embd=64, n_layer=2, n_head=4, vocab_size=1000, n_positions=128,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    yield t.LlamaForCausalLM, t.LlamaConfig(**SMALL, num_key_value_heads=2)
    yield t.Qwen2ForCausalLM, t.Qwen2Config(**SMALL, num_key_value_heads=2)
    yield t.GPTNeoXForCausalLM, t.GPTNeoXConfig(**SMALL)
    yield t.OPTForCausalLM, t.OPTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, vocab_size=1000,
        max_position_embeddings=128, word_embed_proj_dim=64, dropout=0.0,
    )  # fmt: skip
    yield t.BertForMaskedLM, t.BertConfig(
        **SMALL, hidden_dropout_prob=0, attention_probs_dropout_prob=0
    )
    yield t.T5ForConditionalGeneration, t.T5Config(
        d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=1000,
        decoder_start_token_id=0, dropout_rate=0,
    )  # fmt: skip
    yield t.ViTForImageClassification, t.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        image_size=32, patch_size=8, num_labels=10,
    )  # fmt: skip


def inputs(kind, device):
    if kind is transformers.ViTForImageClassification:
        labels = torch.zeros(4, dtype=torch.long, device=device)
        return dict(pixel_values=torch.randn(4, 3, 32, 32, device=device), labels=labels)
    ids = torch.randint(0, 1000, (4, 32)).to(device)
    return dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids)


def train(kind, config, device, checkpoints=False):
    model = kind(config).to(device).train()
    if checkpoints:
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters())
    batch = inputs(kind, device)
    for _ in range(2):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


class Transformers(unittest.TestCase):
    def test_every_family_holds_what_real_tensors_hold(self):
        for kind, config in families():
            with self.subTest(kind.__name__):
                torch.manual_seed(1)
                with RealCount() as real:
                    train(kind, config, "cpu")
                torch.manual_seed(1)
                with pretend_with_new_sums("cpu") as m:
                    train(kind, config, "cpu")
                self.assertEqual(m.peak_bytes, real.most)

    def test_every_family_trains_on_a_pretended_card(self):
        for kind, config in families():
            with self.subTest(kind.__name__):
                peaks = []
                for checkpoints in (False, True):
                    with ft.pretend("cuda") as m, torch.autocast("cuda", dtype=torch.bfloat16):
                        train(kind, config, "cuda", checkpoints)
                    peaks.append(m.peak_bytes)
                self.assertLessEqual(peaks[1], peaks[0])

    def test_pretrained_weights_take_their_own_size_on_the_card(self):
        kind, config = next(families())
        with tempfile.TemporaryDirectory() as folder:
            model = kind(config)
            model.save_pretrained(folder)
            held = sum((4 * p.numel() + 511) // 512 * 512 for p in model.parameters())
            for place in (dict(), dict(device_map="cuda")):
                with self.subTest(**place), ft.pretend("cuda") as m:
                    loaded = kind.from_pretrained(folder, **place).to("cuda")
                    self.assertIs(loaded.lm_head.weight, loaded.transformer.wte.weight)
                    self.assertEqual((m.bytes, m.peak_bytes), (held, held))

    def test_a_layer_drop_reads_its_random_number(self):
        _, config = next(pair for pair in families() if pair[0] is transformers.OPTForCausalLM)
        config.layerdrop = 0.5
        peaks = set()
        for seed in range(6):
            torch.manual_seed(seed)
            with ft.pretend("cuda") as m:
                model = transformers.OPTForCausalLM(config).to("cuda").train()
                model(**inputs(type(model), "cuda"))
            peaks.add(m.peak_bytes)
        self.assertGreater(len(peaks), 1, "some layers should be dropped for some seeds")

    def test_lora_trains_adapters_alone(self):
        kind, config = next(families())
        lora = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)

        def run(device):
            model = peft.get_peft_model(kind(config), lora).to(device)
            trained = [p for p in model.parameters() if p.requires_grad]
            optimizer = torch.optim.AdamW(trained)
            for _ in range(2):
                model(**inputs(kind, device)).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            return sum(p.numel() for p in trained)

        torch.manual_seed(1)
        with RealCount() as real:
            run("cpu")
        torch.manual_seed(1)
        with pretend_with_new_sums("cpu") as m:
            run("cpu")
        self.assertEqual(m.peak_bytes, real.most)
        with ft.pretend("cuda") as m, m.phase("train"):
            trained = run("cuda")
        self.assertLess(m.by_kind("train").get("optimizer state", 0), 8 * trained + 100 * 512)

    def test_a_trainer_is_checked_before_it_trains(self):
        config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=1000, n_positions=64)
        row = dict(input_ids=[1] * 32, labels=[1] * 32)

        def trainer(**arguments):
            arguments = transformers.TrainingArguments(
                output_dir=tempfile.gettempdir(), per_device_train_batch_size=4,
                per_device_eval_batch_size=4, report_to=[], use_cpu=True, **arguments,
            )  # fmt: skip
            return transformers.Trainer(
                model=transformers.GPT2LMHeadModel(config), args=arguments,
                train_dataset=[row] * 64, eval_dataset=[row] * 64,
                compute_metrics=lambda _: {},
            )  # fmt: skip

        all_at_once = ft.transformers.check(trainer())
        self.assertEqual(set(all_at_once.phases), {"train", "evaluate", "save"})
        in_parts = ft.transformers.check(trainer(eval_accumulation_steps=1))
        # 16 batches of logits of 4 × 32 × 1000 floats each, kept on the card or not.
        kept = all_at_once.phases["evaluate"].peak_bytes - in_parts.phases["evaluate"].peak_bytes
        self.assertGreater(kept, 15 * 4 * 32 * 1000 * 4)
        checkpointed = ft.transformers.check(trainer(gradient_checkpointing=True))
        self.assertLess(
            checkpointed.phases["train"].peak_bytes, all_at_once.phases["train"].peak_bytes
        )


    def test_a_checked_trainer_trains_as_an_unchecked_one(self):
        config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=50, n_positions=16)
        rows = [dict(input_ids=[index] * 8, labels=[index] * 8) for index in range(40)]

        def trained(is_checked):
            transformers.set_seed(5)
            with tempfile.TemporaryDirectory() as folder:
                arguments = transformers.TrainingArguments(
                    output_dir=folder, per_device_train_batch_size=4, max_steps=3, report_to=[],
                    use_cpu=True, save_strategy="no", disable_tqdm=True, learning_rate=0.1,
                )  # fmt: skip
                trainer = transformers.Trainer(
                    model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=rows
                )
                transformers.set_seed(6)
                if is_checked:
                    ft.transformers.check(trainer)
                trainer.train()
            return trainer.model.state_dict()

        plain, checked = trained(False), trained(True)
        for name, tensor in plain.items():
            self.assertTrue(torch.equal(tensor, checked[name]), name)


    def small_trainer(self, model=None, rows=64, **arguments):
        config = transformers.GPT2Config(
            n_embd=64, n_layer=2, n_head=4, vocab_size=1000, n_positions=64, bos_token_id=0, eos_token_id=0
        )
        row = dict(input_ids=[1] * 32, labels=[1] * 32)
        arguments = transformers.TrainingArguments(
            output_dir=tempfile.gettempdir(), per_device_train_batch_size=4, report_to=[], **arguments
        )
        if model == "meta":
            with torch.device("meta"):
                model = transformers.GPT2LMHeadModel(config)
        return transformers.Trainer(
            model=model or transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=[row] * rows
        )

    def test_inside_pretend_bf16_meta_models_and_compilation_are_checked(self):
        plain = ft.transformers.check(self.small_trainer(use_cpu=True))
        with ft.pretend(card="RTX 4070") as m:
            self.assertIs(ft.transformers.check(self.small_trainer()), m)
        self.assertEqual(m.phases["train"].peak_bytes, plain.phases["train"].peak_bytes)
        with ft.pretend(card="RTX 4070") as half:
            trainer = self.small_trainer(bf16=True)
            ft.transformers.check(trainer)
        self.assertNotEqual(half.phases["train"].peak_bytes, plain.phases["train"].peak_bytes)
        with ft.pretend(card="RTX 4070") as meta:
            ft.transformers.check(self.small_trainer(model="meta", bf16=True))
        self.assertEqual(meta.phases["train"].peak_bytes, half.phases["train"].peak_bytes)
        compiled = ft.transformers.check(self.small_trainer(use_cpu=True, torch_compile=True))
        self.assertLess(compiled.phases["train"].peak_bytes, plain.phases["train"].peak_bytes)
        self.assertNotIn("upper bound", " ".join(compiled.notes))

    def test_a_trainer_is_advised_with_counted_options(self):
        from fitgpt.torch import cards

        trainer = self.small_trainer(use_cpu=True, gradient_accumulation_steps=2)
        as_it_is = ft.transformers.check(trainer)
        held = as_it_is.by_kind("save")["parameters"]
        # A card on which the states fit and the activations do not.
        usable = as_it_is.peak_reserved_bytes - (4 << 20) + (200 << 20)
        small = cards.Card("small", usable, 200 << 20, 200 << 20, usable)
        with mock.patch.object(cards, "find", lambda _: small):
            advice = ft.transformers.advise(trainer, "small")
        by_name = {tuple(o.settings): o for o in advice.options}
        self.assertEqual(by_name[()].peak_bytes, as_it_is.peak_bytes)
        self.assertLess(by_name[("use_liger_kernel",)].peak_bytes, as_it_is.peak_bytes)
        self.assertLess(by_name[("gradient_checkpointing",)].peak_bytes, as_it_is.peak_bytes)
        for settings in ({"optim": "adamw_8bit"}, {"optim": "lion_32bit"}):
            option = next(o for o in advice.options if o.settings == settings)
            self.assertFalse(option.keeps_training)
        lora = next(o for o in advice.options if set(o.settings) == {"peft"})
        self.assertLess(lora.peak_bytes, as_it_is.peak_bytes - held)
        for option in advice.options:
            batch = option.settings.get("per_device_train_batch_size", 4)
            self.assertEqual(batch * option.settings.get("gradient_accumulation_steps", 2), 8)
        self.assertTrue(advice.best.fits and advice.best.keeps_training, str(advice))
        self.assertIn("TrainingArguments(", str(advice).splitlines()[-1])


class Advise(unittest.TestCase):
    def build(self, batch_size, checkpoint):
        model = nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(4))).cuda()
        optimizer = torch.optim.SGD(model.parameters())
        width = 8192 * 8 if not checkpoint else 8192

        def step():
            x = torch.empty(batch_size, width // 8192, 8192, device="cuda")
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def test_the_whole_batch_is_kept_and_every_option_is_counted(self):
        advice = ft.advise(self.build, card="RTX 4070", batch_size=8192, accumulation=2)
        self.assertTrue(advice.best.fits)
        for option in advice.options:
            settings = option.settings
            self.assertEqual(settings["batch_size"] * settings["accumulation"], 16384)
            with ft.pretend("cuda") as m:
                step = self.build(settings["batch_size"], settings["checkpoint"])
                step(), step()
            self.assertEqual(option.peak_bytes, m.peak_bytes)
        plain = [o for o in advice.options if o.fits and not o.settings["checkpoint"]]
        larger = [o for o in advice.options if not o.fits and not o.settings["checkpoint"]]
        most = max(o.settings["batch_size"] for o in plain)
        self.assertEqual(min(o.settings["batch_size"] for o in larger), 2 * most)


class Guard(unittest.TestCase):
    MESSAGE = (
        "CUDA out of memory. Tried to allocate 1.54 GiB. GPU 0 has a total capacity of 11.69 GiB of "
        "which 1.02 GiB is free. Of the allocated memory 9.80 GiB is allocated by PyTorch, and "
        "120.00 MiB is reserved by PyTorch but unallocated."
    )

    def test_the_doctor_explains_the_error_and_it_is_raised_again(self):
        printed = io.StringIO()
        config = dict(batch_size=16, n_layer=12)
        with contextlib.redirect_stderr(printed), self.assertRaises(torch.OutOfMemoryError):
            with ft.guard(config=config):
                raise torch.OutOfMemoryError(self.MESSAGE)
        self.assertIn("1.54 GiB", printed.getvalue())

    def test_the_error_arrives_whatever_the_diagnosis_does(self):
        closed = io.StringIO()
        closed.close()
        for stderr, recording in ((closed, False), (None, False), (io.StringIO(), True)):
            stop = mock.patch("fitgpt.torch.guard.stop_recording", side_effect=RuntimeError("no recording"))
            with contextlib.redirect_stderr(stderr), stop, self.assertRaises(torch.OutOfMemoryError):
                with ft.guard(record=recording):
                    raise torch.OutOfMemoryError(self.MESSAGE)

    def test_other_errors_pass_in_silence(self):
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), self.assertRaises(ZeroDivisionError):
            with ft.guard():
                1 / 0
        self.assertEqual(printed.getvalue(), "")

    def test_lightning_hands_its_exception_to_the_doctor(self):
        from lightning.pytorch import LightningModule, Trainer

        message = self.MESSAGE

        class Model(LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def training_step(self, batch, _):
                raise torch.OutOfMemoryError(message)

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters())

        printed = io.StringIO()
        quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(
                max_steps=1, accelerator="cpu", callbacks=[ft.lightning.Guard()],
                enable_model_summary=False, default_root_dir=folder, **quiet,
            )  # fmt: skip
            with contextlib.redirect_stderr(printed), self.assertRaises(torch.OutOfMemoryError):
                trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2)))
        self.assertIn("1.54 GiB", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
