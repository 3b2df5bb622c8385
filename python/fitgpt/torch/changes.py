"""Which change would remove the largest tensors at the peak.

Every change is found in what is alive at the peak, with the bytes that it concerns. These bytes are
the most that it can save: another peak may be close below. `advise` counts changes instead.
"""

from dataclasses import dataclass

import torch

from .messages import MESSAGES
from .report import highest_phase, in_one_unit
from .words import say

# A tensor of scores is (…, queries, keys) with at least this many of each.
_SCORES = 128
_SCORE_OPS = {
    "bmm", "baddbmm", "_softmax", "softmax", "_safe_softmax", "masked_fill", "masked_fill_", "where", "div", "mul", "add",
    "native_dropout", "_to_copy", "_softmax_backward_data", "exp", "sub", "convert_element_type", "_scaled_mm",
}  # fmt: skip
_APPENDED = {"cat", "clone", "empty_strided"}
_ZEROS = {"zeros", "zeros_like", "new_zeros", "full", "full_like", "zero_"}


@dataclass(frozen=True)
class Change:
    """A change of the training script; `bytes` is what it concerns at the peak."""

    name: str
    bytes: int
    how: str

    def line(self, size):
        return say("change-line", what=say(f"change {self.name}"), size=size(self.bytes), how=self.how)


def changes(measured, stack="torch", most=3):
    """At most `most` changes, the one of the largest tensor first, then by bytes.

    `stack` is `"transformers"`, `"nanogpt"`, `"lightning"` or `"torch"`: who owns the training loop.
    """
    phase = highest_phase(measured)
    found = {}
    alive = measured.alive(phase)
    for group in alive:
        name = _change(group)
        if name is not None:
            found[name] = found.get(name, 0) + group.bytes
    if "loss-alone" in found:  # without it, the gradient of the logits is written over them
        moved = min(found["loss-alone"], found.get("chunked-loss", 0))
        found["loss-alone"] += moved
        found["chunked-loss"] -= moved
    held = measured.by_kind(phase)
    states = held.get("optimizer state", 0)
    if states:
        found["smaller-optimizer"] = states * 3 // 4 if states >= held.get("parameters", 0) else 0
    ranked = [Change(name, size, say(_how(name, stack))) for name, size in found.items()]
    ranked = [change for change in ranked if change.bytes >= measured.peak_bytes // 20]
    ranked.sort(key=lambda change: -change.bytes)
    largest = next((name for name in map(_change, alive) if name is not None), None)
    first = ("loss-alone", largest)  # the former costs nothing
    ranked.sort(key=lambda change: first.index(change.name) if change.name in first else 2)
    return ranked[:most]


def lines(measured, stack="torch"):
    """The changes as lines of a report."""
    found = changes(measured, stack)
    if found:
        size = in_one_unit(measured.peak_bytes)
        yield from ("", say("changes-head"), *(f"  {change.line(size)}" for change in found))


def _change(group):
    """The name of the change that removes a group of tensors."""
    if group.kind == "logits":
        is_zero = group.op in _ZEROS and group.stage == "backward"
        if group.stage == "outside" and group.op in _APPENDED:
            return "predictions"
        return "loss-alone" if is_zero else "chunked-loss"
    if group.kind == "activations":
        shape = group.shape
        is_square = len(shape) >= 3 and min(shape[-2:]) >= _SCORES and shape[-1] == shape[-2]
        return "fused-attention" if is_square and group.op in _SCORE_OPS else "checkpointing"
    if group.kind == "scratch":
        return "stacked-update" if group.op in ("stack", "cat") else "foreach-update"
    return None


def _how(name, stack):
    """The name of the message for what is most specific: the stack, and what this PyTorch has."""
    has = " linear_cross_entropy" if hasattr(torch.nn.functional, "linear_cross_entropy") else ""
    keys = f"how {name} {stack}{has}", f"how {name} {stack}", f"how {name}"
    return next(key for key in keys if key in MESSAGES)
