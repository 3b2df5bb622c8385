"""Files of weights under `pretend`: shapes and types are read, values only of small tensors.

`safetensors` files become fake tensors without reading their data. `torch.load` makes fake tensors
by itself; the values of small ones, such as an optimizer's step counts, are read in addition.
"""

import contextlib
import os
import sys
from unittest import mock

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from . import values

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64,
    "BOOL": torch.bool, "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip


@contextlib.contextmanager
def fake(counter, is_active):
    """Replaces the readers of files. `is_active` returns whether `pretend` is still running."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch, "load", _loading(torch.load, counter)))
        for target, name, value in _safetensors(is_active):
            stack.enter_context(mock.patch.object(target, name, value))
        yield


def _loading(load, counter):
    def load_and_remember(f, *args, **kwargs):
        start = f.tell() if hasattr(f, "tell") else None
        # The cache of shape functions would keep the storages alive.
        with mock.patch.object(counter.fake_mode, "cache_enabled", False):
            result = load(f, *args, **kwargs)
        if start is not None:
            f.seek(start)
        kwargs = {**kwargs, "map_location": "cpu"}
        if isinstance(f, (str, os.PathLike)):
            kwargs["mmap"] = True
        try:
            with _disable_current_modes():  # a fake mode would make these fake too
                reals = tree_leaves(load(f, *args[1:], **kwargs))
        except RuntimeError:  # an old file, which cannot be mapped
            reals = []
        fakes = tree_leaves(result)
        for tensor, real in zip(fakes, reals) if len(fakes) == len(reals) else ():
            if isinstance(tensor, torch.Tensor) and isinstance(real, torch.Tensor):
                if tensor.shape == real.shape:
                    _copy_facts(tensor, real)
        counter.count_loaded(result)
        return result

    return load_and_remember


def _copy_facts(tensor, real):
    """Gives a fake tensor the storage size of the real one and, if it is small, its values."""
    with no_dispatch():
        storage, n_bytes = tensor.untyped_storage(), real.untyped_storage().nbytes()
        # PyTorch 2.8 multiplies the size of a fake storage by its element size twice.
        if storage.nbytes() != n_bytes and tensor.dtype == real.dtype:
            storage.resize_(n_bytes)
        if values.is_small(tensor):
            values.remember(tensor, real.clone())


def _safetensors(is_active):
    """Patches of every loaded module that has imported `safe_open`."""
    try:
        import safetensors
        import safetensors.torch  # noqa: F401
    except ImportError:
        return
    safe_open = safetensors.safe_open

    def open_fake(filename, framework, device="cpu", **kwargs):
        # A module that is imported under `pretend` keeps this function.
        if not is_active() or framework not in ("pt", "torch", "pytorch"):
            return safe_open(filename, framework, device=device, **kwargs)
        return _File(safe_open(filename, framework, device="cpu", **kwargs), device)

    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("safe_open") is safe_open:
            yield module, "safe_open", open_fake


class _File:
    """An open file whose tensors are fake."""

    def __init__(self, file, device):
        self._file, self._device = file, device

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self._file.__exit__(*error)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def get_slice(self, name):
        return _Slice(self._file.get_slice(name), self._device)

    def get_tensor(self, name):
        return self.get_slice(name)[...]


class _Slice:
    """A tensor of a file, read as a fake one when it is indexed."""

    def __init__(self, real, device):
        self._real, self._device = real, device

    def __getattr__(self, name):
        return getattr(self._real, name)

    def __getitem__(self, index):
        shape, dtype = self._real.get_shape(), DTYPES[self._real.get_dtype()]
        return torch.empty(shape, dtype=dtype, device=self._device)[index]
