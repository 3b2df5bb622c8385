"""Follows a training loop that knows nothing of it: names phases, counts steps, ends it, and saves time.

A *root call* is a call of a module with parameters from outside of all modules. With gradients it
belongs to training, without to evaluation. After enough optimizer steps the training data ends, so
that a script goes on as after an epoch: it evaluates and saves. Where no data loader is used, the next
root call with gradients raises `Finished` instead.

Memory repeats: the third micro-batch of a step takes what the second took. So from the third on, in
training and in evaluation, a root call with inputs of the same shapes returns new tensors of the
shapes that it returned before, and its module does not run.
"""

import contextlib
import time
import weakref
from unittest import mock

import torch
from torch.optim import optimizer as optimizers
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.data import dataloader

# Micro-batches of a step, and calls of an evaluation, that run as they are.
RUN = 2
# Batches that a data loader gives in advance.
MOST_PREFETCHED = 64
# Backward passes before the first step of an optimizer that PyTorch knows.
MOST_BACKWARDS = 1 << 12
_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)


class Finished(BaseException):
    """Raised in a script when enough of it has run; not an `Exception`, so that it is not caught."""


class Loop:
    """One run of a script inside `pretend`."""

    def __init__(self, counter, steps, progress):
        self.counter = counter
        self.measured = counter.measured
        self.wanted = steps
        self.progress = progress
        self.steps = 0  # of the optimizer that made the most
        self.micro_batches = 0  # of the last whole step
        self.evaluations = 0
        self.repeated = 0
        self._by_optimizer = weakref.WeakKeyDictionary()
        self._backwards = 0  # since the last step
        self._in_step = False
        self._after_end = 0  # root calls of training
        self._in_evaluation = 0  # root calls since evaluation began
        self._bytes = []  # live bytes after each of these
        self._templates = {}
        self._depth = 0
        self._phase = self._leave = None
        self._drawn = None  # the iterator that gave the last batch
        self._ended = weakref.WeakSet()  # data loaders of training that are used up
        self._has_parameters = weakref.WeakKeyDictionary()
        self.trainer = None  # of `transformers`

    @contextlib.contextmanager
    def installed(self):
        """Installs the hooks, and is in a phase until it ends."""
        hooks = [
            optimizers.register_optimizer_step_pre_hook(self._before_step),
            optimizers.register_optimizer_step_post_hook(self._after_step),
        ]
        with contextlib.ExitStack() as stack:
            for target, name, value in self._patches():
                stack.enter_context(mock.patch.object(target, name, value))
            self.enter("load")
            try:
                yield self
            finally:
                self._close()
                for hook in hooks:
                    hook.remove()

    @property
    def is_done(self):
        return self.steps >= self.wanted

    def enter(self, name):
        """Begins the phase `name`, and returns the name of the one that ends."""
        before = self._phase
        if name != before:
            self._close()
            self._phase = name
            self._leave = contextlib.ExitStack()
            self._leave.enter_context(self.measured.phase(name))
        return before

    @contextlib.contextmanager
    def during(self, name):
        """A phase in between."""
        before = self.enter(name)
        try:
            yield
        finally:
            if before is not None:
                self.enter(before)

    def _close(self):
        if self._leave is not None:
            self._leave.close()
        self._leave = self._phase = None

    def _patches(self):
        call = torch.nn.Module.__call__
        run_backward, save = torch.autograd._engine_run_backward, torch.save
        draw, start = dataloader._BaseDataLoaderIter.__next__, dataloader.DataLoader.__iter__
        backward_depth = 0

        def called(module, *args, **kwargs):
            if self._depth or torch.compiler.is_compiling() or not self._is_root(module):
                return call(module, *args, **kwargs)
            self._depth += 1
            try:
                return self._root(module, call, args, kwargs)
            finally:
                self._depth -= 1

        def engine_run_backward(*args, **kwargs):
            nonlocal backward_depth
            backward_depth += 1
            self._depth += 1  # a module that is recomputed is no root
            try:
                return run_backward(*args, **kwargs)
            finally:
                self._depth -= 1
                backward_depth -= 1
                if not backward_depth:
                    self._backwards += 1
                    if self._in_step:  # a closure that the optimizer calls
                        self.enter("update")

        def saved(*args, **kwargs):
            with self.during("save"):
                return save(*args, **kwargs)

        def next_batch(iterator):
            if self._is_used_up(iterator):
                raise StopIteration
            batch = draw(iterator)
            self._drawn = weakref.ref(iterator)
            return batch

        def begin(loader):
            if self.is_done and loader in self._ended:
                raise Finished
            iterator = start(loader)
            vars(iterator).setdefault("_fitgpt_loader", weakref.ref(loader))
            return iterator

        yield torch.nn.Module, "__call__", called
        yield torch.autograd, "_engine_run_backward", engine_run_backward
        yield torch, "save", saved
        yield dataloader._BaseDataLoaderIter, "__next__", next_batch
        yield dataloader.DataLoader, "__iter__", begin

    def _is_root(self, module):
        known = self._has_parameters.get(module)
        if known is None:
            known = self._has_parameters[module] = next(module.parameters(), None) is not None
        return known

    def _root(self, module, call, args, kwargs):
        is_training = torch.is_grad_enabled()
        if is_training:
            self._check_end()
            self._in_evaluation, self._bytes = 0, []
        elif not self._in_evaluation:
            self.evaluations += 1
        self.enter("train" if is_training else "evaluate")
        key = _key(module, is_training, args, kwargs)
        runs = self._backwards < RUN and not self.is_done if is_training else self._in_evaluation <= RUN
        template = None if runs or key is None else self._templates.get(key)
        if template is None:
            result = call(module, *args, **kwargs)
            self._templates[key] = _Template.of(result)
        else:
            result = template.make()
            self.repeated += 1
        if not is_training:
            self._in_evaluation += 1
            self._bytes.append(self.counter.live.bytes)
        return result

    def _check_end(self):
        """Ends training, unless its data loader has ended and batches that it gave before are left."""
        if self.is_done:
            self._after_end += 1
            if not self._ended or self._after_end > MOST_PREFETCHED:
                raise Finished
        elif not self.steps and self._backwards > MOST_BACKWARDS:
            raise Finished

    def _before_step(self, *_):
        self._in_step = True
        self.enter("update")

    def _after_step(self, optimizer, *_):
        self._in_step = False
        self._by_optimizer[optimizer] = self._by_optimizer.get(optimizer, 0) + 1
        if self._backwards and not self.is_done:
            self.micro_batches = self._backwards
        self._backwards = 0
        self.enter("train")
        if self.steps < self._by_optimizer[optimizer] <= self.wanted:
            self.steps = self._by_optimizer[optimizer]
            self.progress.step(self)
        iterator = self._drawn() if self._drawn is not None else None
        loader = getattr(iterator, "_fitgpt_loader", lambda: None)()
        if self.is_done and loader is not None:
            self._ended.add(loader)

    def _is_used_up(self, iterator):
        """Whether a data loader has no more batches: training is over, or evaluation repeats."""
        loader = getattr(iterator, "_fitgpt_loader", lambda: None)()
        if loader is not None and loader in self._ended:
            return True
        last = self._bytes[-4:]  # predictions that are kept would add up
        return self._phase == "evaluate" and len(last) == 4 and len(set(last)) == 1


class _Template:
    """What a root call returned: its structure, and the form of its tensors."""

    def __init__(self, leaves, shape, forms):
        self.leaves, self.shape, self.forms = leaves, shape, forms

    @classmethod
    def of(cls, result):
        leaves, shape = tree_flatten(result)
        forms = {}
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                form = leaf.shape, leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad
                forms[index] = form
                leaves[index] = None
            elif not isinstance(leaf, _PLAIN):
                return None  # an object that may hold tensors
        return cls(leaves, shape, forms)

    def make(self):
        leaves = list(self.leaves)
        for index, (*form, requires_grad) in self.forms.items():
            if requires_grad:
                leaves[index] = _Repeated.apply(torch.zeros((), requires_grad=True), form)
            else:
                leaves[index] = _empty(*form)
        return tree_unflatten(leaves, self.shape)


class _Repeated(torch.autograd.Function):
    """A tensor that gradients end at."""

    @staticmethod
    def forward(ctx, _, form):
        return _empty(*form)

    @staticmethod
    def backward(ctx, *_):
        return None, None


def _empty(shape, stride, dtype, device):
    return torch.empty_strided(shape, stride, dtype=dtype, device=device)


def _key(module, is_training, args, kwargs):
    """What decides the memory of a root call, or `None` if that cannot be told."""
    leaves, shape = tree_flatten((args, kwargs))
    facts = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            facts.append((leaf.shape, leaf.dtype, leaf.device, leaf.requires_grad))
        elif isinstance(leaf, _PLAIN):
            facts.append(leaf)
        else:
            return None
    return id(module), module.training, is_training, str(shape), tuple(facts)


class Progress:
    """Lines on a stream while a script runs."""

    def __init__(self, stream=None):
        self.stream = stream
        self.started = time.monotonic()

    def step(self, loop):
        self.say("progress-step", step=loop.steps, steps=loop.wanted, peak=loop.measured.peak_bytes)

    def say(self, message, /, **gaps):
        from .report import size
        from .words import decimal, say

        if self.stream is None:
            return
        gaps = {name: size(value) if name == "peak" else value for name, value in gaps.items()}
        seconds = decimal(f"{time.monotonic() - self.started:.1f}")
        with contextlib.suppress(OSError, ValueError):  # a closed stream is no reason to stop
            print(f"fitgpt: {say(message, **gaps)} ({seconds} s)", file=self.stream, flush=True)
