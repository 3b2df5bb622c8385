"""`check`: counts a `transformers.Trainer`'s memory before `trainer.train()`. `advise`: finds what fits.

The trainer's model is copied as fake tensors; its own arguments decide optimizer, precision,
checkpointing, clipping, compilation and accumulation; its own data loaders give the first batch.
"""

import contextlib
import copy
import math

import torch
from torch import nn

from .originals import random_state_kept
from .pretend import active, pretend


def check(trainer, card=None, *, capability=None, steps=2):
    """Counts a training step, an evaluation and a save of `trainer` on a CUDA card.

    Returns what `pretend` yields, with the phases `train`, `evaluate` and `save`; print
    `check(trainer).report("RTX 4070")`. With `card`, the report is printed at once. Training after
    it is the same as without it: it draws no random numbers and changes no weight.

    Inside `pretend`, where `TrainingArguments(bf16=True)` and models on `meta` work without a card,
    it counts the trainer's own model and returns what that `pretend` yielded.
    """
    if active() is not None:
        m = active().measured
        with random_state_kept():
            count(trainer, m, Settings.of(trainer), steps)
    else:
        with random_state_kept():
            batches = first_batches(trainer)
        with pretend("cuda", capability=capability, card=card) as m:
            count(trainer, m, Settings.of(trainer), steps, batches)
    if card is not None:
        print(m.report(card))
    return m


def advise(trainer, card, *, compiles=False, progress=None):
    """Counts ways to train on `card`, and returns an `Advice`; printing it shows all of them.

    The effective batch is kept. Each option is counted: smaller micro-batches with more
    accumulation, checkpointing, a chunked loss, smaller evaluations, and what changes the training:
    other optimizers and LoRA. `compiles` also counts `torch_compile`, which takes minutes.
    """
    from .trainer_options import advise

    return advise(trainer, card, compiles=compiles, progress=progress)


class Settings:
    """What of a trainer's arguments a count follows; `advise` changes them."""

    def __init__(self, **values):
        vars(self).update(values)

    @classmethod
    def of(cls, trainer):
        args = trainer.args
        return cls(
            batch=args.per_device_train_batch_size, accumulation=args.gradient_accumulation_steps,
            evaluation_batch=args.per_device_eval_batch_size, keeps=args.eval_accumulation_steps,
            checkpointing=args.gradient_checkpointing, compiled=args.torch_compile, optimizer=None,
            is_chunked=False, lora=False,
        )  # fmt: skip

    def but(self, **values):
        return Settings(**{**vars(self), **values})


def count(trainer, m, settings, steps=2, batches=None):
    """Counts training, evaluation and saving into `m`, inside `pretend`."""
    is_own = batches is None
    batch, evaluation = batches or first_batches(trainer)
    if is_own:  # the trainer's loaders have moved them to the card
        batch, evaluation = on_host(batch), evaluation and (on_host(evaluation[0]), evaluation[1])
    model = trainer.model.to("cuda") if is_own else fake_copy(trainer.model)
    if settings.lora:
        from .trainer_options import with_lora

        model = with_lora(model)
    _train(trainer, model, resized(batch, settings.batch), m, settings, steps)
    if evaluation is not None:
        inputs, count = evaluation
        rows = _rows(inputs)
        inputs = resized(inputs, settings.evaluation_batch)
        _evaluate(trainer, model, inputs, math.ceil(count * rows / max(1, _rows(inputs))), m, settings)
    with m.phase("save"):  # tensor by tensor to host memory
        for tensor in model.state_dict().values():
            tensor.cpu()
    m.notes.add("batch", "first-batch", shapes=_shapes(batch))


def first_batches(trainer):
    """The first training batch, and the first evaluation batch with the number of batches."""
    batch = next(iter(trainer.get_train_dataloader()))
    if trainer.eval_dataset is None:
        return batch, None
    loader = trainer.get_eval_dataloader()
    return batch, (next(iter(loader)), len(loader))


def fake_copy(module):
    """`module` with fake CUDA tensors for its parameters and buffers; inside `pretend` only."""
    memo = {}
    for tensor in (*module.parameters(), *module.buffers()):
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")
        if isinstance(tensor, nn.Parameter):
            made = nn.Parameter(made, requires_grad=tensor.requires_grad)
        memo[id(tensor)] = made
    return copy.deepcopy(module, memo)


def resized(batch, rows):
    """`batch` with another number of rows; its rows are repeated where there are too few."""
    held = _rows(batch)
    if rows == held or not held:
        return batch

    def resize(value):
        if not isinstance(value, torch.Tensor) or not value.dim() or value.shape[0] != held:
            return value
        return value[:1].expand(rows, *value.shape[1:]).clone()

    return {name: resize(value) for name, value in batch.items()}


def _rows(batch):
    return next((v.shape[0] for v in batch.values() if isinstance(v, torch.Tensor) and v.dim()), 0)


def _train(trainer, model, batch, m, settings, steps):
    args = trainer.args
    model.train()
    if settings.checkpointing:
        model.gradient_checkpointing_enable(args.gradient_checkpointing_kwargs)
    trained = [p for p in model.parameters() if p.requires_grad]
    if settings.optimizer is None:
        kind, options = trainer.get_optimizer_cls_and_kwargs(args, model)
        optimizer = kind(trained, **options)
    else:
        optimizer = settings.optimizer(trained)
    call = model
    if settings.compiled:
        options = {"backend": args.torch_compile_backend, "mode": args.torch_compile_mode}
        call = torch.compile(model, **{name: value for name, value in options.items() if value})
    scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
    with m.phase("train"):
        for _ in range(steps):
            # Two micro-batches, so that the gradients of the first are alive during the second.
            for _ in range(min(2, settings.accumulation)):
                with _precision(args):
                    if settings.is_chunked:
                        from .trainer_options import chunked_loss

                        loss = chunked_loss(model, _on_card(batch))
                    else:
                        loss = trainer.compute_loss(call, _on_card(batch))
                scaler.scale(loss / settings.accumulation).backward()
            scaler.unscale_(optimizer)
            if args.max_grad_norm:
                nn.utils.clip_grad_norm_(trained, args.max_grad_norm)
            scaler.step(optimizer)
            scaler.update()
            model.zero_grad()


def _evaluate(trainer, model, batch, batches, m, settings):
    """Predictions stay on the card until they are moved, and each step copies them to append."""
    args = trainer.args
    model.eval()
    with m.phase("evaluate"), torch.no_grad():
        inputs = _on_card(batch)
        with _precision(args):
            outputs = model(**inputs)
        if args.prediction_loss_only or trainer.compute_metrics is None:
            return
        made = [v for k, v in dict(outputs).items() if k != "loss" and isinstance(v, torch.Tensor)]
        del outputs
        kept = [None] * len(made)
        for _ in range(min(batches, settings.keeps or math.inf)):
            for index, tensor in enumerate(made):
                new = tensor.clone()
                held = kept[index]
                kept[index] = new if held is None else torch.cat((held, new), dim=0)
                del new, held


def _precision(args):
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None
    return torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext()


def on_host(batch):
    return {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in batch.items()}


def _on_card(batch):
    moved = {k: v.to("cuda") if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
    return moved


def _shapes(batch):
    tensors = {k: tuple(v.shape) for k, v in batch.items() if isinstance(v, torch.Tensor)}
    return ", ".join(f"{name} {shape}" for name, shape in tensors.items())
