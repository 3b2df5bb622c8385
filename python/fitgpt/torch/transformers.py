"""`check`: counts a `transformers.Trainer`'s memory before `trainer.train()`.

The trainer's model is copied as fake tensors; its own arguments decide optimizer, precision,
checkpointing, clipping and accumulation; its own data loaders give the first batch.
"""

import contextlib
import copy
import math

import torch
from torch import nn

from .originals import random_state_kept
from .pretend import pretend


def check(trainer, card=None, *, capability=(8, 9), steps=2):
    """Counts a training step, an evaluation and a save of `trainer` on a CUDA card.

    Returns what `pretend` yields, with the phases `train`, `evaluate` and `save`; print
    `check(trainer).report("RTX 4070")`. With `card`, the report is printed at once. Training after
    it is the same as without it: it draws no random numbers and changes no weight.
    """
    with random_state_kept():
        batch, evaluation = _first_batches(trainer)
    with pretend("cuda", capability=capability) as m:
        model = fake_copy(trainer.model)
        _train(trainer, model, batch, m, steps)
        if evaluation is not None:
            _evaluate(trainer, model, *evaluation, m)
        with m.phase("save"):  # tensor by tensor to host memory
            for tensor in model.state_dict().values():
                tensor.cpu()
    m.notes.add("batch", f"counted with the first batch of the data: {_shapes(batch)}")
    if card is not None:
        print(m.report(card))
    return m


def _first_batches(trainer):
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


def _train(trainer, model, batch, m, steps):
    args = trainer.args
    model.train()
    if args.gradient_checkpointing:
        model.gradient_checkpointing_enable(args.gradient_checkpointing_kwargs)
    kind, options = trainer.get_optimizer_cls_and_kwargs(args, model)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = kind(trained, **options)
    scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
    with m.phase("train"):
        for _ in range(steps):
            # Two micro-batches, so that the gradients of the first are alive during the second.
            for _ in range(min(2, args.gradient_accumulation_steps)):
                with _precision(args):
                    loss = trainer.compute_loss(model, _on_card(batch))
                scaler.scale(loss / args.gradient_accumulation_steps).backward()
            scaler.unscale_(optimizer)
            if args.max_grad_norm:
                nn.utils.clip_grad_norm_(trained, args.max_grad_norm)
            scaler.step(optimizer)
            scaler.update()
            model.zero_grad()


def _evaluate(trainer, model, batch, batches, m):
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
        for _ in range(min(batches, args.eval_accumulation_steps or math.inf)):
            for index, tensor in enumerate(made):
                new = tensor.clone()
                held = kept[index]
                kept[index] = new if held is None else torch.cat((held, new), dim=0)
                del new, held


def _precision(args):
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None
    return torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext()


def _on_card(batch):
    moved = {k: v.to("cuda") if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
    return moved


def _shapes(batch):
    tensors = {k: tuple(v.shape) for k, v in batch.items() if isinstance(v, torch.Tensor)}
    return ", ".join(f"{name} {shape}" for name, shape in tensors.items())
