"""Keeps real tensors out of reach: whatever exists before `pretend` is unchanged after it.

A real tensor takes part as a fake copy, its *stand-in*. Modules, optimizers and gradient scalers
hold stand-ins while `pretend` runs. A real tensor that the program holds in a variable keeps its
object, and every op that gets it runs on its stand-in (`Counter.__torch_dispatch__`). Views share a
stand-in's storage as they share the real one's.

When `pretend` ends, also by an error, `restore` puts back what can change without an op: attributes
of modules and optimizers, gradients, `.data`, `requires_grad`, hooks, and random states.
"""

import contextlib
import gc
import random
import sys
from unittest import mock

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from . import unknown, values
from .live import is_divided

_HOLDERS = (
    torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler,
    torch.optim.swa_utils.AveragedModel, torch.amp.GradScaler,
)  # fmt: skip
_COPIED = (dict, list, set)
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


class Originals:
    """The real tensors of a process, their stand-ins, and how to put everything back."""

    def __init__(self, fake_mode, notes):
        self.fake_mode = fake_mode
        self.notes = notes
        self._stand_ins = WeakIdKeyDictionary()
        self._values = {}  # by storage: a private copy and whether it is still known
        self._generators = {}
        self._tensors, self._holders = [], []
        self._storages = set()
        self._uses_graph = False  # whether an op used a result that autograd recorded before

    @contextlib.contextmanager
    def installed(self):
        """Replaces real tensors for the duration of the context."""
        with random_state_kept(), contextlib.ExitStack() as stack:
            self._save()
            stack.callback(self._restore)
            self._replace()
            for target, name, value in self._patches():
                stack.enter_context(mock.patch.object(target, name, value, create=True))
            yield

    def stand_in(self, tensor):
        """The fake tensor that ops use instead of `tensor`."""
        made = self._stand_ins.get(tensor)
        if made is not None:
            return made
        if not _is_real(tensor):
            return tensor
        with _disable_current_modes(), torch.inference_mode(False):
            made = self.fake_mode.from_tensor(tensor, static_shapes=True)
        if made is tensor:
            return tensor
        self._copy_attributes(tensor, made)
        self._copy_value(tensor, made)
        self._stand_ins[tensor] = made
        self._uses_graph = self._uses_graph or tensor.grad_fn is not None
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is not None:
            made.grad = self.stand_in(gradient)
        return made

    def modules(self):
        """The modules that existed before."""
        return [h.item for h in self._holders if isinstance(h.item, torch.nn.Module)]

    def keep_state(self, generator):
        """Remembers the state of a random generator before an op draws from it."""
        if id(generator) not in self._generators:
            with no_dispatch():
                self._generators[id(generator)] = generator, generator.get_state()

    def _copy_attributes(self, tensor, made):
        made.__dict__.update({k: v for k, v in vars(tensor).items() if k not in vars(made)})
        if made.is_leaf:
            for name in _HOOKS:
                hooks = getattr(tensor, name, None)
                if hooks:
                    setattr(made, name, hooks)

    def _copy_value(self, tensor, made):
        if tensor.device.type != "cpu" or tensor.layout != torch.strided or not values.is_small(tensor):
            return
        with no_dispatch(), torch.no_grad():
            storage = tensor.untyped_storage()
            if storage._cdata not in self._storages or storage.nbytes() > 8 * values.MOST_INTEGERS:
                values.remember(made, tensor.detach().clone())
                return
            if storage._cdata not in self._values:
                self._values[storage._cdata] = storage, storage.clone(), [True]
            _, copied, is_known = self._values[storage._cdata]
            value = torch.empty(0, dtype=tensor.dtype).set_(
                copied, tensor.storage_offset(), tensor.shape, tensor.stride()
            )
            if tensor.is_conj() or tensor.is_neg():
                value = tensor.detach().clone()
            values.remember(made, value, is_known)

    def _save(self):
        others = set()  # most objects are of a few kinds that do not matter
        for item in gc.get_objects():
            kind = type(item)
            if kind in others:
                continue
            try:
                if issubclass(kind, torch.Tensor):
                    if not issubclass(kind, FakeTensor):
                        self._tensors.append(_SavedTensor(item))
                        self._storages.add(_storage_key(item))
                elif issubclass(kind, _HOLDERS) and not issubclass(kind, torch.jit.ScriptModule):
                    self._holders.append(_SavedObject(item))
                else:
                    others.add(kind)
            except (RuntimeError, NotImplementedError, AttributeError, ReferenceError):
                continue  # an object without a body: half made, or a kind of tensor without storage
        self._storages.discard(None)

    def _replace(self):
        for holder in self._holders:
            item = holder.item
            if isinstance(item, torch.nn.Module):
                for tensors in (item._parameters, item._buffers):
                    for name, tensor in tensors.items():
                        tensors[name] = self._replaced(tensor)
            elif isinstance(item, torch.optim.Optimizer):
                for group in item.param_groups:
                    group["params"] = [self._replaced(p) for p in group["params"]]
                state = {
                    self._replaced(key): {k: self._replaced(v) for k, v in value.items()}
                    if isinstance(value, dict)
                    else value
                    for key, value in item.state.items()
                }
                item.state.clear()
                item.state.update(state)
            elif isinstance(item, torch.amp.GradScaler):
                for name, value in list(vars(item).items()):
                    if isinstance(value, torch.Tensor):
                        vars(item)[name] = self._replaced(value)

    def _replaced(self, value):
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor) or is_divided(type(value)):
            return value
        if torch.nn.parameter.is_lazy(value):
            kind = type(value)
            with self.fake_mode:
                return kind(value.requires_grad, value.device, value.dtype)
        return self.stand_in(value)

    def _restore(self):
        failures = []
        with _disable_current_modes(), torch.no_grad():
            tensors = sorted(self._tensors, key=lambda saved: saved.tensor._is_view())  # bases first
            for saved in (*self._holders, *tensors):
                try:
                    saved.restore()
                except Exception as failure:  # everything else must still be put back
                    failures.append(failure)
            for generator, state in self._generators.values():
                generator.set_state(state)
        for kept in (self._stand_ins, self._values, self._generators, self._tensors, self._holders):
            kept.clear()
        if failures:
            raise RuntimeError(f"{len(failures)} real objects could not be put back") from failures[0]

    def _patches(self):
        """What reads or writes a real tensor without an op."""
        base = torch.Tensor.grad
        numpy, to_list = torch.Tensor.numpy, torch.Tensor.tolist

        def gradient(tensor):
            # A parameter that the program holds in a variable: its module's stand-in has the gradient.
            made = None if isinstance(tensor, FakeTensor) else self._stand_ins.get(tensor)
            found = base.__get__(tensor)
            return base.__get__(made) if made is not None and found is None else found

        def set_gradient(tensor, value):
            made = None if isinstance(tensor, FakeTensor) else self._stand_ins.get(tensor)
            base.__set__(tensor if made is None else made, value)
            if made is not None and value is None:
                base.__set__(tensor, None)

        add = torch.optim.Optimizer.add_param_group

        def add_param_group(optimizer, group):
            params = group["params"]
            params = [params] if isinstance(params, torch.Tensor) else params
            if not isinstance(params, set):  # which is refused
                group["params"] = tree_map_only(torch.Tensor, self._replaced, list(params))
            add(optimizer, group)

        run_backward = torch.autograd._engine_run_backward

        def engine_run_backward(outputs, gradients, retain_graph, *args, **kwargs):
            if self._uses_graph or any(map(_is_real, outputs)):
                self.notes.add("backward", "old-graph")
                retain_graph = True
            return run_backward(outputs, gradients, retain_graph, *args, **kwargs)

        def reads(function):
            def read(tensor, *args, **kwargs):
                if isinstance(tensor, FakeTensor) or not torch._C._len_torch_dispatch_stack():
                    return function(tensor, *args, **kwargs)
                if tensor in self._stand_ins or _storage_key(tensor) in self._values:
                    return function(self.stand_in(tensor), *args, **kwargs)
                with no_dispatch():
                    return function(tensor.detach().clone(), *args, **kwargs)

            return read

        def refuses(function):
            def write(storage, *args, **kwargs):
                if torch._C._len_torch_dispatch_stack() and storage._cdata in self._storages:
                    raise RuntimeError("`pretend` does not write to the storage of a real tensor")
                return function(storage, *args, **kwargs)

            return write

        yield torch.autograd, "_engine_run_backward", engine_run_backward
        yield torch.optim.Optimizer, "add_param_group", add_param_group
        yield torch.Tensor, "grad", property(gradient, set_gradient, lambda t: set_gradient(t, None))
        yield torch.Tensor, "numpy", reads(
            lambda t, **k: unknown.array(t, self.notes) if isinstance(t, FakeTensor) else numpy(t, **k)
        )
        yield torch.Tensor, "tolist", reads(
            lambda t: unknown.array(t, self.notes).tolist() if isinstance(t, FakeTensor) else to_list(t)
        )
        for name in ("resize_", "copy_", "fill_", "__setitem__"):
            yield torch.UntypedStorage, name, refuses(getattr(torch.UntypedStorage, name))


class _SavedTensor:
    """What can change in a real tensor although every op runs on its stand-in."""

    __slots__ = ("tensor", "data", "gradient", "requires_grad", "function", "version", "hooks", "kind")

    def __init__(self, tensor):
        self.tensor = tensor
        self.kind = type(tensor)
        self.requires_grad = tensor.requires_grad
        self.function = tensor.grad_fn
        self.gradient = tensor.grad if tensor.is_leaf else None
        self.version = None if tensor.is_inference() else tensor._version
        self.hooks = [_copied(getattr(tensor, name, None)) for name in _HOOKS]
        with torch.no_grad():
            self.data = None if torch.nn.parameter.is_lazy(tensor) else tensor.detach()

    def restore(self):
        tensor = self.tensor
        if type(tensor) is not self.kind:
            tensor.__class__ = self.kind
        if self.data is not None and not _is_same_memory(tensor, self.data):
            tensor.data = self.data
        if self.function is None and tensor.grad_fn is not None:
            (tensor._base if tensor._is_view() else tensor).detach_()  # a view follows its base
        if self.function is None and tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)
        if tensor.is_leaf and tensor.grad is not self.gradient:
            tensor.grad = self.gradient
        for name, hooks in zip(_HOOKS, self.hooks):
            if hooks is None and getattr(tensor, name, None):
                setattr(tensor, name, None)
            elif hooks is not None:
                _put_back(getattr(tensor, name), hooks)
        if self.version is not None and tensor._version != self.version:
            _set_version(tensor, self.version)


class _SavedObject:
    """The attributes of an object, and the items of the containers among them."""

    __slots__ = ("item", "kind", "attributes", "containers")

    def __init__(self, item):
        self.item = item
        self.kind = type(item)
        self.attributes = dict(vars(item))
        self.containers = []
        for value in self.attributes.values():
            self._save(value, 3)

    def _save(self, value, depth):
        if type(value) is not str and isinstance(value, _COPIED):
            self.containers.append((value, _copied(value)))
            # An optimizer's groups and states are containers in containers.
            if depth > 1 and isinstance(self.item, torch.optim.Optimizer):
                for inner in value.values() if isinstance(value, dict) else value:
                    self._save(inner, depth - 1)

    def restore(self):
        now = vars(self.item)
        for name in [name for name in now if name not in self.attributes]:
            del now[name]
        now.update(self.attributes)
        if type(self.item) is not self.kind:  # a lazy module that became another one
            self.item.__class__ = self.kind
        for container, items in self.containers:
            _put_back(container, items)


def _is_real(tensor):
    is_traced = isinstance(tensor, (FakeTensor, FunctionalTensor))
    return not is_traced and not is_functorch_wrapped_tensor(tensor)


def _copied(value):
    return list(value) if isinstance(value, list) else value.copy() if value is not None else None


def _put_back(container, items):
    if isinstance(container, list):
        container[:] = items
    elif container or items:
        container.clear()
        container.update(items)


def _is_same_memory(tensor, data):
    if tensor.layout != torch.strided or data.layout != torch.strided:
        return True
    return (
        tensor.dtype == data.dtype
        and tensor.shape == data.shape
        and tensor.stride() == data.stride()
        and tensor.storage_offset() == data.storage_offset()
        and _storage_key(tensor) == _storage_key(data)
    )


def _storage_key(tensor):
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else None


def _set_version(tensor, version):
    set_version = torch._C._autograd._unsafe_set_version_counter
    try:
        set_version((tensor,), (version,))
    except TypeError:  # an older PyTorch takes one tensor
        set_version(tensor, version)


@contextlib.contextmanager
def random_state_kept():
    """Puts the states of PyTorch's, Python's and NumPy's random generators back."""
    with _disable_current_modes():
        kept = torch.get_rng_state()
    python = random.getstate()
    numpy = sys.modules.get("numpy")
    arrays = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        with _disable_current_modes():
            torch.set_rng_state(kept)
        random.setstate(python)
        if arrays is not None:
            numpy.random.set_state(arrays)
