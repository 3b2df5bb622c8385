"""Fake CUDA tensors that autograd can run without a driver.

PyTorch's own fake CUDA tensors fail at `backward()`: the autograd engine asks the CUDA driver for
a context and a stream. Here a fake CUDA tensor reports two devices. Python sees `cuda:0`, so user
code and PyTorch's shape functions follow CUDA's branches. C++ sees `meta`, which the engine runs
on the calling thread without a driver. The dispatch keys are CUDA's, so CUDA's autocast and our
replacements of device-dependent ops (`rules.py`) apply to these tensors only.

`installed()` installs everything here and removes it when it ends.

PyTorch's own fail at `backward()`: the autograd engine asks CUDA for a stream. Ours have CUDA's
dispatch keys and report `cuda` to Python and `meta` to C++, which the engine runs on the calling
thread. C++ then does not make CUDA's choices, so autocast and a few composite ops are registered
again in Python while `pretend` is active. Under any dispatch mode the engine adds two gradients
into a third tensor; without one it adds in place if nothing else holds the first. `sums.py`
recognises those additions by the running node and by reference counts, and
`tests/pretend/test_sums.py` compares the result with PyTorch's allocator on random graphs.
`tools/count_torch_memory.py` remains an independent counter with its own rules. Cards are looked up
through the program (`fitgpt plan --json`), because its name matching is too long to duplicate.

Promise: `pretend("cuda")` runs the ops of PyTorch's fake CUDA tensors, including all of autocast.
Test: `tests/pretend/test_cuda_rules.py`.
"""

import contextlib
import importlib
from types import SimpleNamespace
from unittest import mock

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

CUDA = torch.device("cuda", 0)
META = torch.device("meta")


def is_cuda(value):
    """Whether a tensor is on the pretended card; `torch.compile` traces functional tensors."""
    if isinstance(value, FunctionalTensor):
        value = torch._from_functional_tensor(value.elem)
    return isinstance(value, FakeTensor) and value.fake_device.type == "cuda"


def on_card(device):
    """The device that an op means; C++ reports `meta` for a fake CUDA tensor."""
    if device is None:
        return None
    device = torch.device(device)
    if device.type == "cuda" or (device.type == "meta" and not _user_meta):
        return CUDA
    return device


# Not empty while user code asks for the device `meta`: in `torch.device("meta")` or `.to("meta")`.
_user_meta = []


@contextlib.contextmanager
def _asked_for_meta():
    _user_meta.append(True)
    try:
        yield
    finally:
        _user_meta.pop()


@contextlib.contextmanager
def installed(capability, memory, name):
    """Makes fake CUDA tensors work on a card called `name`; `memory` provides the figures of `torch.cuda`."""
    with contextlib.ExitStack() as stack:
        for target, attribute, value in [*_tensor_patches(), *_cuda_patches(capability, memory, name)]:
            _installed.append((target, attribute, vars(target).get(attribute, _ABSENT)))
            stack.enter_context(mock.patch.object(target, attribute, value, create=True))
        stack.callback(_installed.clear)
        yield


# What `installed` has replaced, in order.
_installed = []
_ABSENT = object()


@contextlib.contextmanager
def suspended():
    """Undoes `installed` for a moment, for code that keeps what it finds in `torch.cuda`."""
    ours = [(target, name, vars(target).get(name, _ABSENT)) for target, name, _ in _installed]
    _set(reversed(_installed))
    try:
        yield
    finally:
        _set(ours)


def _set(attributes):
    for target, name, value in attributes:
        if value is not _ABSENT:
            setattr(target, name, value)
        elif name in vars(target):
            delattr(target, name)


@contextlib.contextmanager
def in_lists():
    """Lets optimizers and clipping take fake tensors as lists, as they take real ones."""
    with contextlib.ExitStack() as stack:
        for types in _foreach_types():
            types.append(FakeTensor)
            stack.callback(types.remove, FakeTensor)
        yield


@contextlib.contextmanager
def parameters_movable():
    """Lets `Module.to` replace the data of a fake parameter, on any device."""
    base_data = torch.Tensor.data

    def set_data(self, value):
        base_data.__set__(self, value)
        if isinstance(self, FakeTensor) and isinstance(value, FakeTensor):
            self.fake_device = value.fake_device

    swap = torch.utils.swap_tensors

    def swap_tensors(one, other):
        """Copies one way: `Module.to` swaps fake parameters, which weak references forbid."""
        if isinstance(one, FakeTensor) and isinstance(other, FakeTensor):
            set_data(one, other)
        else:
            swap(one, other)

    def deepcopy(self, memo):
        """PyTorch's version would also copy the fake mode, and the copy would not match ours."""
        if id(self) not in memo:
            if not self.is_leaf:
                raise RuntimeError("only leaves of the autograd graph can be copied deeply")
            copied = self.detach().clone()
            if isinstance(self, torch.nn.Parameter):
                copied = torch.nn.Parameter(copied, self.requires_grad)
            else:
                copied.requires_grad_(self.requires_grad)
            if self.grad is not None:
                copied.grad = deepcopy(self.grad, memo)
            memo[id(self)] = copied
        return memo[id(self)]

    with (
        mock.patch.object(
            FakeTensor, "data", property(base_data.__get__, set_data), create=True
        ),
        mock.patch.object(FakeTensor, "__deepcopy__", deepcopy, create=True),
        mock.patch.object(torch.utils, "swap_tensors", swap_tensors),
        mock.patch.object(torch.nn.Module, "_apply", _moving(set_data)),
    ):
        yield


def _moving(set_data):
    """`Module._apply` for fake parameters.

    A parameter whose data cannot be replaced is replaced itself: a real one, or one that moves from
    or to the device `meta`. Modules that share it still share it afterwards.
    """
    replaced = {}
    depth = 0

    def moved(parameter, fn):
        if id(parameter) in replaced:
            return replaced[id(parameter)][1]
        source = parameter
        if not isinstance(parameter, FakeTensor):
            source = torch.empty_strided(
                parameter.shape, parameter.stride(), dtype=parameter.dtype, device="cpu"
            )
        with torch.no_grad():
            value = fn(source)
        if source is parameter and torch._has_compatible_shallow_copy_type(parameter, value):
            set_data(parameter, value)
            return parameter
        made = torch.nn.Parameter(value, parameter.requires_grad)
        replaced[id(parameter)] = parameter, made  # holds `parameter`: its id must not be reused
        return made

    def _apply(self, fn, recurse=True):
        nonlocal depth
        depth += 1
        try:
            for child in self.children() if recurse else ():
                child._apply(fn)
            for name, parameter in self._parameters.items():
                if parameter is None:
                    continue
                gradient = parameter.grad
                self._parameters[name] = made = moved(parameter, fn)
                if gradient is not None:
                    with torch.no_grad():
                        made.grad = fn(gradient).requires_grad_(gradient.requires_grad)
            for name, tensor in self._buffers.items():
                if torch.nn.parameter.is_lazy(tensor):
                    set_data(tensor, fn(tensor))
                elif tensor is not None:
                    self._buffers[name] = fn(tensor)
        finally:
            depth -= 1
            if depth == 0:
                replaced.clear()
        return self

    return _apply


@contextlib.contextmanager
def lazy_parameters():
    """Lets lazy modules create parameters and buffers whose shapes they learn later."""

    def new_parameter(cls, requires_grad=True, device=None, dtype=None):
        made = torch.nn.Parameter(torch.empty(0, device=device, dtype=dtype), requires_grad)
        made.__class__ = _LazyParameter
        return made

    def new_buffer(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        made = torch.empty(0, device=device, dtype=dtype).requires_grad_(requires_grad)
        made.__class__ = _LazyBuffer
        made.persistent = persistent
        made._is_buffer = True
        return made

    with (
        mock.patch.object(torch.nn.UninitializedParameter, "__new__", new_parameter),
        mock.patch.object(torch.nn.UninitializedBuffer, "__new__", new_buffer),
    ):
        yield


class _Lazy:
    # PyTorch refuses the shape and most methods; moving a fake tensor needs them.
    __torch_function__ = torch._C._disabled_torch_function_impl
    shape = torch.Tensor.shape
    cls_to_become = FakeTensor


class _LazyParameter(_Lazy, torch.nn.UninitializedParameter, FakeTensor):
    """A fake parameter of unknown shape; it becomes a plain fake one with the first input."""


class _LazyBuffer(_Lazy, torch.nn.UninitializedBuffer, FakeTensor):
    """The same for a buffer."""


def _foreach_types():
    """The lists of tensor types for which optimizers and clipping choose foreach kernels."""
    names = ("torch.utils._foreach_utils", "torch.optim.optimizer")
    modules = [importlib.import_module(name) for name in names]
    lists = [getattr(module, "_foreach_supported_types", None) for module in modules]
    unique = {id(types): types for types in lists if types is not None}
    return list(unique.values())


def _tensor_patches():
    """Patches for the device of a fake tensor, and for moving it between devices."""
    base_dispatch = FakeTensor.__torch_dispatch__.__func__

    def torch_dispatch(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default and is_cuda(args[0]):
            return META
        return base_dispatch(cls, func, types, args, kwargs or {})

    def to(self, *args, **kwargs):
        args, copy = _without_copy(args, kwargs)
        device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
        if any(_names_meta(value) for value in (*args, kwargs.get("device"))):
            with _asked_for_meta():
                return torch.ops.aten._to_copy(self, dtype=dtype or self.dtype, device=META)
        target = on_card(device) or self.device
        if target.type == self.device.type:
            return torch.Tensor.to(
                self, dtype or self.dtype, non_blocking, copy, **_format(layout)
            )
        return torch.ops.aten._to_copy(
            self, dtype=dtype or self.dtype, device=target, non_blocking=non_blocking,
            **_format(layout),
        )  # fmt: skip

    def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        return to(self, CUDA, non_blocking=non_blocking, memory_format=memory_format)

    def cpu(self, memory_format=torch.preserve_format):
        return to(self, "cpu", memory_format=memory_format)

    group = torch._C._group_tensors_by_device_and_dtype

    def group_tensors(lists, with_indices=False):
        groups = group(lists, with_indices)
        return {(_shown(device), dtype): value for (device, dtype), value in groups.items()}

    def of_type(kind):
        return property(lambda self: self.device.type == kind)

    context = torch.utils._device.DeviceContext
    call = context.__torch_function__

    def torch_function(self, *args, **kwargs):
        with _asked_for_meta() if self.device.type == "meta" else contextlib.nullcontext():
            return call(self, *args, **kwargs)

    yield context, "__torch_function__", torch_function
    yield FakeTensor, "__torch_dispatch__", classmethod(torch_dispatch)
    yield FakeTensor, "to", to
    yield FakeTensor, "cuda", cuda
    yield FakeTensor, "cpu", cpu
    yield FakeTensor, "is_cuda", of_type("cuda")
    yield FakeTensor, "is_cpu", of_type("cpu")
    yield FakeTensor, "is_meta", of_type("meta")
    yield FakeTensor, "get_device", lambda self: 0 if is_cuda(self) else -1
    yield torch.Tensor, "is_pinned", lambda self, *_, **__: False
    yield torch.Tensor, "pin_memory", lambda self, *_, **__: self
    yield FakeTensor, "record_stream", lambda self, *_: None
    yield torch._C, "_group_tensors_by_device_and_dtype", group_tensors
    for name in ("init_gpu_context", "init_cuda_context"):
        if hasattr(fake_tensor, name):
            yield fake_tensor, name, lambda *_: None


def _names_meta(value):
    return isinstance(value, (str, torch.device)) and torch.device(value).type == "meta"


def _without_copy(args, kwargs):
    """Splits `copy` from the other arguments of `to`: it is the second bool, or a keyword."""
    flags = [index for index, a in enumerate(args) if isinstance(a, bool)]
    if len(flags) > 1:
        return args[: flags[1]] + args[flags[1] + 1 :], args[flags[1]]
    return args, kwargs.pop("copy", False)


def _format(layout):
    return {} if layout is None else {"memory_format": layout}


def _shown(device):
    return CUDA if device.type == "meta" else device


class _Nothing:
    """Replaces streams, events and graphs of a card that does not exist."""

    def __init__(self, *args, **kwargs):
        self.device = CUDA
        self.cuda_stream = self.stream_id = self.device_index = 0
        self.device_type = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def query(self):
        return True

    def is_capturing(self):
        return False

    def elapsed_time(self, _):
        return 0.0

    def record(self, *_):
        return self

    wait = synchronize = wait_stream = wait_event = record_event = record


def _cuda_patches(capability, memory, name):
    """`torch.cuda` as on a machine with one card."""
    properties = SimpleNamespace(
        name=name, major=capability[0], minor=capability[1],
        total_memory=memory.total(), multi_processor_count=46, is_integrated=False,
        warp_size=32, gcnArchName="", L2_cache_size=32 << 20,
    )  # fmt: skip
    nothing = lambda *_, **__: None  # noqa: E731
    answers = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": nothing,
        "_lazy_init": nothing,
        "_lazy_call": nothing,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": nothing,
        "get_device_name": lambda *_: properties.name,
        "get_device_capability": lambda *_: tuple(capability),
        "get_device_properties": lambda *_: properties,
        "get_arch_list": lambda: [f"sm_{capability[0]}{capability[1]}"],
        "is_bf16_supported": lambda including_emulation=True: including_emulation or capability >= (8, 0),
        "can_device_access_peer": lambda *_: False,
        "synchronize": nothing,
        "empty_cache": lambda *_: memory.empty_cache(),
        "ipc_collect": nothing,
        "manual_seed": nothing,
        "manual_seed_all": nothing,
        "seed": nothing,
        "seed_all": nothing,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": nothing,
        "set_rng_state_all": nothing,
        "memory_allocated": lambda *_: memory.allocated(),
        "memory_reserved": lambda *_: memory.reserved(),
        "max_memory_allocated": lambda *_: memory.peak(),
        "max_memory_reserved": lambda *_: memory.peak_reserved(),
        "reset_peak_memory_stats": lambda *_: memory.reset_peak(),
        "reset_max_memory_cached": lambda *_: memory.reset_peak(),
        "reset_max_memory_allocated": lambda *_: memory.reset_peak(),
        "memory_stats": lambda *_: {
            "allocated_bytes.all.current": memory.allocated(),
            "allocated_bytes.all.peak": memory.peak(),
            "reserved_bytes.all.current": memory.reserved(),
            "reserved_bytes.all.peak": memory.peak_reserved(),
        },
        "mem_get_info": lambda *_: (memory.total() - memory.reserved(), memory.total()),
        "Stream": _Nothing,
        "Event": _Nothing,
        "current_stream": _Nothing,
        "default_stream": _Nothing,
        "stream": _Nothing,
        "device": _Nothing,
        "device_of": _Nothing,
        "is_current_stream_capturing": lambda: False,
    }
    for name, answer in answers.items():
        yield torch.cuda, name, answer
    yield torch.version, "cuda", torch.version.cuda or "13.0"
    for module in ("torch.cuda.memory", "torch.cuda.random"):
        module = importlib.import_module(module)
        for name, answer in answers.items():
            if hasattr(module, name):
                yield module, name, answer
    if hasattr(torch, "accelerator"):
        # `torch.accelerator` asks C++, which finds no card.
        for name, answer in {
            "is_available": lambda: True,
            "current_accelerator": lambda check_available=False: torch.device("cuda"),
            "device_count": lambda: 1,
            "current_device_index": lambda: 0,
            "current_device_idx": lambda: 0,
            "synchronize": nothing,
            "current_stream": _Nothing,
            "memory_allocated": lambda *_: memory.allocated(),
            "max_memory_allocated": lambda *_: memory.peak(),
            "reset_peak_memory_stats": lambda *_: memory.reset_peak(),
            "memory_reserved": lambda *_: memory.reserved(),
            "max_memory_reserved": lambda *_: memory.peak_reserved(),
            "empty_cache": lambda *_: memory.empty_cache(),
        }.items():
            yield torch.accelerator, name, answer
