"""What made a tensor: a module's forward or backward, or the optimizer.

In backward the module is found by autograd's sequence numbers: every node has the number that was
next when its forward ran, and this file records that number whenever a module is entered or left.
"""

import bisect
import contextlib
import re
import weakref
from unittest import mock

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from .sums import GradientSums

aten = torch.ops.aten
# The kind of a tensor that is not marked as something else. The names are those of `plan`.
_BY_STAGE = {
    "forward": "activations", "backward": "activations", "update": "scratch", "outside": "inputs",
}  # fmt: skip
KINDS = (
    "parameters", "gradients", "optimizer state", "activations", "logits", "scratch", "inputs",
    "buffers",
)  # fmt: skip
_LOSSES = {aten._log_softmax.default, aten.nll_loss_forward.default}


class Attribution:
    """Follows modules, backward passes and optimizer steps."""

    def __init__(self, live):
        self.live = live
        self.sums = GradientSums(live)
        self.paths = weakref.WeakKeyDictionary()
        self.roots = weakref.WeakSet()
        self.optimizers = weakref.WeakSet()
        self.vocab_sizes = set()
        self.stack = []
        self.updating = 0
        self.backward_depth = 0
        self.last = ""
        self.origin = None
        self._numbers, self._modules = [], []

    @contextlib.contextmanager
    def installed(self):
        run_backward = torch.autograd._engine_run_backward

        def engine_run_backward(*args, **kwargs):
            self.backward_depth += 1
            try:
                return run_backward(*args, **kwargs)
            finally:
                self.backward_depth -= 1
                self.last = ""
                self.sums.leave()

        hooks = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
            optimizers.register_optimizer_step_pre_hook(self._step),
            optimizers.register_optimizer_step_post_hook(self._stepped),
        ]
        try:
            with mock.patch.object(torch.autograd, "_engine_run_backward", engine_run_backward):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def here(self):
        """The module and the stage of the op that runs now."""
        if self.stack:
            return self.stack[-1], "forward"
        if self.backward_depth:
            node = torch._C._current_autograd_node()
            if node is not None:
                self.last = self._module_of(node)
                self.sums.enter(node)
            return self.last, "backward"
        return "", "update" if self.updating else "outside"

    @contextlib.contextmanager
    def naming(self, origin):
        """Attributes an allocation of compiled code to its module and op."""
        self.origin = origin
        try:
            yield
        finally:
            self.origin = None

    def watch(self, op, args):
        if op in _LOSSES and args[0].dim() >= 2:
            self.vocab_sizes.add(args[0].shape[1] if args[0].dim() > 2 else args[0].shape[-1])

    def sort_out(self):
        """Marks parameters, gradients, buffers and optimizer state."""
        for root in list(self.roots):
            for name, parameter in root.named_parameters():
                self._mark_parameter(parameter, name)
            for name, buffer in root.named_buffers():
                self._mark(buffer, "buffers", name)
        for optimizer in list(self.optimizers):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    self._mark_parameter(parameter, None)
                    for name, state in optimizer.state.get(parameter, {}).items():
                        self._mark(state, "optimizer state", name)

    def kind(self, record):
        if record.kind is not None:
            return record.kind
        if record.shape and record.shape[-1] in self.vocab_sizes and record.dtype.is_floating_point:
            return "logits"
        return _BY_STAGE[record.stage]

    def _mark_parameter(self, parameter, name):
        self._mark(parameter, "parameters", name)
        if parameter.grad is not None:
            self._mark(parameter.grad, "gradients", name)

    def _mark(self, tensor, kind, name):
        if not isinstance(tensor, torch.Tensor):
            return
        record = self.live.record_of(tensor)
        if record is not None and record.kind in (None, kind):
            record.kind = kind
            record.name = str(name).removeprefix("_orig_mod.") if name else record.name

    def _enter(self, module, _):
        if not self.stack and not self.backward_depth:
            if module not in self.roots:
                self.roots.add(module)
                for name, child in module.named_modules():
                    self.paths[child] = name  # the outermost module names its children
            self.sort_out()
        path = self.paths.get(module)
        self.stack.append(type(module).__name__ if path is None else path or type(module).__name__)
        self._note(self.stack[-1])

    def _leave(self, *_):
        if self.stack:
            self.stack.pop()
        self._note(self.stack[-1] if self.stack else "")

    def _step(self, optimizer, *_):
        self.optimizers.add(optimizer)
        self.sort_out()
        self.updating += 1

    def _stepped(self, *_):
        self.updating -= 1
        self.sort_out()

    def _note(self, module):
        number = torch._C._autograd._get_sequence_nr()
        self._numbers.append(number)
        self._modules.append(module)

    def _module_of(self, node):
        index = bisect.bisect_right(self._numbers, node._sequence_nr()) - 1
        return self._modules[index] if index >= 0 else ""


def grouped(path):
    """`model.layers.3.mlp` as `model.layers.*.mlp`."""
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", path)
