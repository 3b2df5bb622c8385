"""The options that `transformers.advise` counts, and how to write each in `TrainingArguments`."""

import importlib.util

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from . import cards
from .advice import Advice, Option
from .loop import Progress
from .originals import random_state_kept
from .pretend import active, pretend
from .transformers import Settings, count, first_batches
from .words import say

_ROWS = 1024
_BLOCK = 256  # elements with one scale of 8-bit states
_LEAST = 4096  # smaller tensors keep float32 states


class _Optimizer(torch.optim.Optimizer):
    """The memory of an optimizer that is not installed: its states, without its arithmetic."""

    def __init__(self, params):
        super().__init__(params, {})

    def states(self, parameter):
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self.state[parameter] = {f"state_{i}": s for i, s in enumerate(self.states(parameter))}


class Lion(_Optimizer):
    """One momentum, in the type of the parameter."""

    def states(self, parameter):
        return [torch.empty_like(parameter)]


class Adam8bit(_Optimizer):
    """Two moments of a byte an element, with a scale for each block, as bitsandbytes keeps them."""

    def states(self, parameter):
        count = parameter.numel()
        if count < _LEAST:
            return [torch.empty_like(parameter, dtype=torch.float32) for _ in range(2)]
        scales = parameter.new_empty(-(-count // _BLOCK), dtype=torch.float32)
        bytes_ = torch.empty_like(parameter, dtype=torch.uint8)
        return [bytes_, torch.empty_like(bytes_), scales, torch.empty_like(scales)]


def with_lora(model):
    """`model` with adapters of rank 16 on all linear layers."""
    import peft

    adapters = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    return peft.get_peft_model(model, adapters)


def takes_chunked_loss(trainer, batch):
    """Whether the model has a body and a linear head that the loss is computed from."""
    model = trainer.model
    head = getattr(model, "get_output_embeddings", lambda: None)()
    body = getattr(model, "base_model", None)
    return isinstance(head, torch.nn.Linear) and body is not None and body is not model and "labels" in batch


def chunked_loss(model, batch):
    """The loss of a causal model, with the logits of some rows at a time and recomputed backward."""
    labels = batch["labels"][:, 1:].flatten()
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    hidden = model.base_model(**inputs)[0][:, :-1].flatten(0, 1)
    head = model.get_output_embeddings()

    def part(rows, targets):
        return F.cross_entropy(head(rows).float(), targets, reduction="sum")

    pairs = zip(hidden.split(_ROWS), labels.split(_ROWS))
    return sum(checkpoint(part, *pair, use_reentrant=False) for pair in pairs) / labels.numel()


def advise(trainer, card, compiles=False, progress=None):
    """An `Advice` with every option, those that fit and keep the training first."""
    progress = progress or Progress()
    found = cards.find(card)
    with random_state_kept():
        batches = first_batches(trainer)
    start = Settings.of(trainer)
    whole = start.batch * start.accumulation
    options = {}

    def counted(settings):
        written = _written(start, settings)
        key = tuple(written.items())
        if key not in options:
            progress.say("progress-option", option=arguments_text(written))
            m = _count(trainer, settings, batches, card)
            text = arguments_text(written)
            options[key] = Option(written, m.peak_bytes, m.verdict(card), _keeps(settings), text)
        return options[key]

    def largest(settings):
        """Counts the largest micro-batch that fits, of those that keep the effective batch."""
        sizes = [b for b in range(1, start.batch) if whole % b == 0]
        low, high = 0, len(sizes)
        while low < high:
            middle = (low + high) // 2
            if counted(settings.but(batch=sizes[middle], accumulation=whole // sizes[middle])).fits:
                low = middle + 1
            else:
                high = middle

    first = counted(start)
    if not first.fits:
        evaluation = start.but(keeps=1, evaluation_batch=min(start.batch, start.evaluation_batch))
        base = start
        if trainer.eval_dataset is not None and counted(evaluation).peak_bytes < first.peak_bytes:
            base = evaluation
        tried = [base.but(checkpointing=True)]
        if takes_chunked_loss(trainer, batches[0]):
            tried = [base.but(is_chunked=True), *tried, base.but(is_chunked=True, checkpointing=True)]
        for settings in (base, *tried):
            if not counted(settings).fits:
                largest(settings)
        if compiles and not start.compiled:
            counted(base.but(compiled=True))
        for optimizer in (Adam8bit, Lion, "adafactor"):
            counted(base.but(optimizer=_optimizer(optimizer)))
        if importlib.util.find_spec("peft") is not None and not hasattr(trainer.model, "peft_config"):
            counted(base.but(lora=True))
            counted(base.but(lora=True, checkpointing=True))
    rank = {"fits": 0, "tight": 1, "no": 2}
    order = lambda o: (  # noqa: E731
        rank[o.verdict], not o.keeps_training, bool(o.settings.get("gradient_checkpointing")), len(o.settings),
        -o.settings.get("per_device_train_batch_size", start.batch), o.peak_bytes,
    )  # fmt: skip
    return Advice(found.name, tuple(sorted(options.values(), key=order)))


def _count(trainer, settings, batches, card):
    if active() is not None:
        raise RuntimeError("`advise` counts in `pretend`s of its own: call it outside of one")
    with pretend("cuda", card=card) as m:
        count(trainer, m, settings, batches=batches)
    return m


def _optimizer(name):
    if name == "adafactor":
        def make(params):
            from transformers.optimization import Adafactor

            return Adafactor(params, scale_parameter=False, relative_step=False, lr=1e-4)

        make.argument = "adafactor"
        return make
    name.argument = {Adam8bit: "adamw_8bit", Lion: "lion_32bit"}[name]
    return name


def facts(trainer):
    """The arguments of a trainer that options change, for `options.py`."""
    args = trainer.args
    names = (
        "per_device_train_batch_size", "gradient_accumulation_steps", "per_device_eval_batch_size",
        "eval_accumulation_steps", "gradient_checkpointing", "torch_compile",
    )  # fmt: skip
    found = {name: getattr(args, name) for name in names}
    found["takes_chunked_loss"] = takes_chunked_loss(trainer, {"labels": None})
    found["takes_lora"] = importlib.util.find_spec("peft") is not None and not hasattr(trainer.model, "peft_config")
    return found


def apply(trainer, overrides):
    """Changes a trainer as `overrides` say, in what is more than an attribute of its arguments."""
    if overrides.get("use_liger_kernel") and takes_chunked_loss(trainer, {"labels": None}):
        compute = trainer.compute_loss

        def compute_loss(model, inputs, *args, **kwargs):
            is_training = torch.is_grad_enabled() and "labels" in inputs
            return chunked_loss(model, inputs) if is_training else compute(model, inputs, *args, **kwargs)

        trainer.compute_loss = compute_loss
    kind = {"adamw_8bit": Adam8bit, "lion_32bit": Lion}.get(overrides.get("optim"))
    if kind is not None:
        trainer.get_optimizer_cls_and_kwargs = lambda *_: (kind, {})
    if overrides.get("peft"):
        trainer.model = trainer.model_wrapped = with_lora(trainer.model)


def _keeps(settings):
    """Whether the training stays the same, up to rounding."""
    return settings.optimizer is None and not settings.lora


def _written(start, settings):
    """The arguments that differ from the trainer's, as `TrainingArguments` names them."""
    names = {
        "batch": "per_device_train_batch_size", "accumulation": "gradient_accumulation_steps",
        "evaluation_batch": "per_device_eval_batch_size", "keeps": "eval_accumulation_steps",
        "checkpointing": "gradient_checkpointing", "compiled": "torch_compile",
    }  # fmt: skip
    written = {
        names[key]: getattr(settings, key) for key in names if getattr(settings, key) != getattr(start, key)
    }
    if settings.is_chunked:
        written["use_liger_kernel"] = True
    if settings.optimizer is not None:
        written["optim"] = settings.optimizer.argument
    if settings.lora:
        written["peft"] = "LoRA r=16, all-linear"
    return written


def arguments_text(written):
    """What to paste."""
    arguments = {name: value for name, value in written.items() if name != "peft"}
    if not written:
        return say("as-it-is")
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    parts = [f"TrainingArguments({text})"] if arguments or "peft" not in written else []
    if "peft" in written:
        parts.append('get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))')
    return " + ".join(parts)
