"""`pretend`: runs PyTorch code on fake tensors and counts the memory it would use.

Promise: nanoGPT under `pretend` has the peaks of the other counter, up to named bytes. Test:
`tests/pretend/test_peaks.py`.
"""

import concurrent.futures
import contextlib
import functools
import sys
import warnings
import weakref
from unittest import mock

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import device as fake_cuda
from . import cards, files, kernels, unknown, values
from .allocator import cublas_workspace_bytes
from .attribution import Attribution
from .autocast import Autocast
from .compiled import Compiled
from .live import Live, is_divided
from .measured import Measured
from .originals import Originals
from .rules import Rules

aten = torch.ops.aten
_LIFTS = {aten.lift_fresh.default, aten.lift_fresh_copy.default, aten.lift.default}
# Ops that call cuBLAS.
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "addbmm", "_addmm_activation"}
_active = None


@contextlib.contextmanager
def pretend(device="cuda", *, capability=None, compile="count", card=None):
    """Makes all tensors inside fake: no memory, no card, any size.

    A real tensor takes part as a fake copy. When this ends, also by an error, every tensor, module,
    optimizer and random state from outside is as it was before.

    `device` is the device whose tensors are counted and whose rules apply, `"cuda"` or `"cpu"`.
    `card` names the pretended card: its memory, its name in `torch.cuda`, and its CUDA compute
    `capability`, which decides which kernels there are. `capability` alone is enough for the counts; it
    is (8, 9) if neither is given. `compile` says how code of `torch.compile` is counted: `"count"` compiles it for
    the card and counts what it allocates, which takes seconds to a minute; `"eager"` counts it as eager
    code, an upper bound. Yields a `Measured`.
    """
    global _active
    kind = torch.device(device).type
    if kind not in ("cuda", "cpu"):
        raise ValueError(f"`pretend` supports the devices cuda and cpu, not {device!r}")
    if _active is not None:
        raise RuntimeError("`pretend` is already active")
    mode = Counter(kind, capability, compile, card)
    _active = mode
    stack = contextlib.ExitStack()
    try:
        stack.enter_context(mode.installed())
        try:
            yield mode.measured
        except BaseException:
            with contextlib.suppress(Exception):  # the program's own error must arrive
                stack.close()
            raise
        stack.close()
    finally:
        _active = None


def active():
    """The counter of the `pretend` that is running, or `None`."""
    return _active


class _FakeMode(FakeTensorMode):
    """A fake mode that never uses a real card."""

    # Without it `torch.tensor(…, device="cuda")` would copy to a real card.
    avoid_device_init = property(lambda self: True, lambda self, _: None)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        # Decompositions run ops above autograd. There too C++ must not see a CUDA device, and a
        # `meta` device from C++ means our card.
        if op is torch.ops.prim.device.default and fake_cuda.is_cuda(args[0]):
            return fake_cuda.META
        kwargs = dict(kwargs or {})
        if self.is_for_cuda and kwargs.get("device") == fake_cuda.META:
            kwargs["device"] = fake_cuda.on_card(fake_cuda.META)
        return super().__torch_dispatch__(op, types, args, kwargs)


class Counter(TorchDispatchMode):
    """Intercepts every op below autograd and autocast, and counts the tensors it makes."""

    def __init__(self, kind, capability=None, compile="count", card=None):
        super().__init__()
        self.kind = kind
        found = cards.find(card) if card is not None else None
        self.card_name = f"NVIDIA {found.name}" if found is not None else "fitgpt's pretended card"
        self.total_bytes = found.total_bytes if found is not None else 12 << 30
        self.capability = tuple(capability or (found.capability if found is not None else cards.USUAL))
        self.live = Live()
        self.fake_mode = _FakeMode(allow_non_fake_inputs=True)
        self.fake_mode.is_for_cuda = kind == "cuda"
        self.attribution = Attribution(self.live)
        self.measured = Measured(self)
        self.notes = self.measured.notes
        self.rules = Rules(self.capability)
        self.autocast = Autocast()
        self.originals = Originals(self.fake_mode, self.notes)
        self.compiled = Compiled(self, compile)
        self.is_running = False
        self._multiplying = set()
        self.product_dtypes = set()

    @contextlib.contextmanager
    def installed(self):
        """Installs the modes and patches."""
        with contextlib.ExitStack() as stack:
            if self.kind == "cuda":
                stack.enter_context(fake_cuda.installed(self.capability, self.measured.card, self.card_name))
                stack.enter_context(self._kernels())
            stack.enter_context(fake_cuda.in_lists())
            stack.enter_context(fake_cuda.parameters_movable())
            stack.enter_context(fake_cuda.lazy_parameters())
            stack.enter_context(kernels.fallbacks())
            stack.enter_context(self._reading_back())
            for name in kernels.TRITON if self.kind == "cuda" else ():
                for patch in kernels.idle_triton(name, self.notes) if name in sys.modules else ():
                    stack.enter_context(mock.patch.object(*patch))
            stack.enter_context(_one_thread())
            stack.enter_context(_no_workers())
            stack.enter_context(files.fake(self, lambda: active() is not None))
            stack.enter_context(self.originals.installed())
            stack.enter_context(self.attribution.installed())
            stack.callback(torch.nn.modules.module.register_module_forward_pre_hook(self._look).remove)
            stack.enter_context(self.fake_mode)
            stack.enter_context(self)
            stack.enter_context(self.compiled.installed())
            self.is_running = True
            try:
                yield
            finally:
                self.is_running = False
                self.autocast.forget()
                self.attribution.sort_out()
                self.measured.settle()

    def _look(self, module, _):
        """Notes a module that runs a kernel whose memory is not known."""
        if self.kind == "cuda" and isinstance(module, torch.nn.RNNBase):
            self.notes.add(type(module).__name__, "cudnn-rnn")

    @contextlib.contextmanager
    def _kernels(self):
        """Registers CUDA's autocast and CUDA's rules for the duration of the context."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library = torch.library.Library("aten", "IMPL")
            self.autocast.register(library)
            self.rules.register(library)
        clear = torch.clear_autocast_cache

        def clear_autocast_cache():
            self.autocast.forget()
            clear()

        try:
            with mock.patch.object(torch, "clear_autocast_cache", clear_autocast_cache):
                yield
        finally:
            library._destroy()

    @contextlib.contextmanager
    def _reading_back(self):
        """Patches for what leaves the tensors: values, storages, files, compiled graphs."""
        resize = torch.UntypedStorage.resize_

        def resize_(storage, size):
            resize(storage, size)
            self.live.refresh(storage)
            return storage

        data = torch.UntypedStorage.data_ptr

        def data_ptr(storage):
            return _address_of(storage) if storage.device.type == "meta" else data(storage)

        def save(*_, **__):
            self.notes.add("torch.save", "nothing-written")

        minimize = torch.optim.LBFGS.step

        def step(optimizer, closure):
            self.notes.add("LBFGS", "lbfgs", count=optimizer.param_groups[0]["history_size"])
            return minimize(optimizer, closure)

        patches = [
            (FakeTensor, "__format__", _formatted),
            (FakeTensor, "__array__", lambda tensor, *_, **__: unknown.array(tensor, self.notes)),
            (FakeTensor, "data_ptr", _address),
            (torch.UntypedStorage, "data_ptr", data_ptr),
            (torch.UntypedStorage, "resize_", resize_),
            (torch, "save", save),
            (torch.optim.LBFGS, "step", step),
            (torch._VF, "_pad_packed_sequence", unknown.padded),
            # It puts the weights of cuDNN's RNNs into one tensor of their size.
            (torch.nn.RNNBase, "flatten_parameters", lambda *_: None),
            # Libraries use this to detect tracing, and then skip decisions by value that a real
            # run makes.
            (torch._subclasses, "FakeTensor", type("FakeTensor", (), {})),
        ]
        with contextlib.ExitStack() as stack:
            for target, name, value in patches:
                stack.enter_context(mock.patch.object(target, name, value, create=True))
            yield

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if any(map(is_divided, types)):  # it calls ops of the tensors that it holds
            return NotImplemented
        args, kwargs = self._without_originals(op, args, kwargs)
        if op is torch.ops.prim.device.default:
            return fake_cuda.META if fake_cuda.is_cuda(args[0]) else args[0].fake_device
        if self.kind == "cuda":
            if kwargs.get("device") is not None:
                kwargs["device"] = fake_cuda.on_card(kwargs["device"])
            rule = self.rules.ops.get(op)
            if rule is not None:  # inference mode has no autograd keys to catch it
                with self:
                    return rule(*args, **kwargs)
        if _is_composite(op):
            with self:
                return op.decompose(*args, **kwargs)
        answer = unknown.answer(op, args, kwargs, self.notes)
        if answer is not unknown.NO_ANSWER:
            return answer
        result = kernels.settle(op, args, self._run(op, args, kwargs))
        self._count(op, args, kwargs, result)
        values.follow(op, args, kwargs, result)
        unknown.assume(op, args, result, self.notes)
        return result

    def _without_originals(self, op, args, kwargs):
        """The arguments of an op with stand-ins for real tensors."""
        kwargs = dict(kwargs or {})
        if op in _LIFTS:  # its argument is the new tensor itself
            return args, kwargs
        is_changed = False
        leaves, shape = tree_flatten((args, kwargs))
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                if not isinstance(leaf, FakeTensor):
                    leaves[index] = self.originals.stand_in(leaf)
                    is_changed = True
            elif isinstance(leaf, torch.Generator):
                self.originals.keep_state(leaf)
        # Unless it must, this holds no reference to an argument: `sums.py` counts them.
        return tree_unflatten(leaves, shape) if is_changed else (args, kwargs)

    def _run(self, op, args, kwargs):
        if op is aten._pack_padded_sequence.default:
            return unknown.packed(*args, self.notes)
        try:
            return op(*args, **kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            return unknown.shaped(op, args, kwargs, self.notes)

    def count_loaded(self, tree):
        """Counts tensors that `torch.load` made without an op."""
        for tensor in kernels.tensors(tree):
            if tensor.layout == torch.strided and tensor.device.type == self.kind:
                self.live.see(tensor, "load", *self.attribution.here())
        self.live.reach("load")

    def _count(self, op, args, kwargs, result):
        called = name = op._schema.name.rpartition("::")[2]
        module, stage = self.attribution.here()
        if self.attribution.origin is not None:
            module, name = self.attribution.origin
        is_sum = stage == "backward" and self.attribution.sums.is_in_place(op, args, kwargs)
        for tensor in kernels.tensors((result, args) if op._schema.is_mutable else result):
            if tensor.layout != torch.strided:
                self.notes.add("sparse tensors", "sparse")
            elif tensor.device.type == self.kind:
                if op is aten._pack_padded_sequence.default:  # its batch sizes are real
                    tensor = self.originals.stand_in(tensor)
                self.live.see(tensor, name, module, stage)
        if is_sum:
            self.live.reuse(args[0])
        if called in _PRODUCTS and self.kind == "cuda":
            self._multiply()
            self.product_dtypes.add(args[0].dtype)
        self.attribution.watch(op, args)
        self.live.reach(name)

    def _multiply(self):
        """Allocates cuBLAS's workspace: one for the program's thread, one for the autograd engine's."""
        thread = "backward" if self.attribution.backward_depth else "forward"
        if thread not in self._multiplying:
            self._multiplying.add(thread)
            self.live.events.append(("workspace", cublas_workspace_bytes(self.capability)))


def _address(tensor):
    """Programs compare addresses to find weights that are shared; all fake storages have none."""
    return _address_of(tensor.untyped_storage()) + tensor.storage_offset() * tensor.element_size()


def _address_of(storage):
    return storage._cdata << 9  # aligned, as the allocator's


def _formatted(tensor, spec):
    """PyTorch formats a number only if its tensor is not of a subclass."""
    return format(tensor.item(), spec) if tensor.dim() == 0 else object.__format__(tensor, spec)


@contextlib.contextmanager
def _no_workers():
    """Loads data in this process: what a worker made could not be fake here."""
    from torch.utils.data import dataloader

    make = dataloader.DataLoader._get_iterator
    kept = weakref.WeakSet()

    def get_iterator(loader):
        asked = loader.num_workers, loader.timeout
        loader.num_workers, loader.timeout = 0, 0
        if loader.persistent_workers and asked[0]:
            kept.add(loader)
        try:
            return make(loader)
        finally:
            loader.num_workers, loader.timeout = asked

    try:
        with mock.patch.object(dataloader.DataLoader, "_get_iterator", get_iterator):
            yield
    finally:
        for loader in kept:  # it would go on without workers
            loader._iterator = None


def _one_thread():
    """Runs the tasks of thread pools at once: dispatch modes hold for one thread only."""

    def submit(_, function, /, *args, **kwargs):
        future = concurrent.futures.Future()
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future

    return mock.patch.object(concurrent.futures.ThreadPoolExecutor, "submit", submit)


@functools.lru_cache(maxsize=None)
def _is_composite(op):
    """Whether an op is composed of other ops. Inference mode does not decompose such ops."""
    has = op.has_kernel_for_dispatch_key
    keys = torch._C.DispatchKey
    return has(keys.CompositeImplicitAutograd) and not any(map(has, (keys.CPU, keys.CUDA, keys.Meta)))
