"""Lets Inductor compile for a card that is not there, and its generated code run without kernels.

Inductor asks the driver for properties of the card, benchmarks some choices, and compiles kernels.
Here it gets the pretended card's properties, takes the default choices, and generated kernels do
nothing. The generated Python that allocates and frees buffers runs as it is.
"""

import contextlib
import functools
import importlib
import os
import re
import sys
import tempfile
import types

import torch


@contextlib.contextmanager
def folder():
    """A temporary folder for generated code, in place of the user's caches."""
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS")
    saved = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory(prefix="fitgpt-") as path:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = path
        os.environ["TRITON_CACHE_DIR"] = os.path.join(path, "triton")
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        try:
            yield path
        finally:
            for name in [n for n, m in sys.modules.items() if _is_in(m, path)]:
                del sys.modules[name]
            for name, value in saved.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _is_in(module, folder):
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.startswith(folder)


def configuration():
    """Settings of Inductor that differ from the user's: none of them moves a buffer."""
    config = torch._inductor.config
    settings = {
        "force_disable_caches": True, "compile_threads": 1, "fx_graph_cache": False,
        "fx_graph_remote_cache": False, "worker_start_method": "fork",
        "triton.autotune_at_compile_time": False, "triton.store_cubin": False,
        "autotune_local_cache": False, "autotune_remote_cache": False, "benchmark_harness": False,
        "cpp_wrapper": False, "triton.descriptive_names": False,
    }  # fmt: skip
    known = config.get_config_copy()
    return config.patch({name: value for name, value in settings.items() if name in known})


def forget_cached_answers():
    """Clears what PyTorch remembers of the card: it must be neither ours later nor real now."""
    for name in (
        "torch.utils._triton", "torch._inductor.utils", "torch._inductor.runtime.hints",
        "torch._inductor.fx_passes.pad_mm", "torch._inductor.codegen.triton",
        "torch._inductor.runtime.runtime_utils", "torch._inductor.choices",
    ):  # fmt: skip
        module = sys.modules.get(name)
        for value in list(vars(module).values()) if module is not None else ():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()
    hints = sys.modules.get("torch._inductor.runtime.hints")
    create = getattr(getattr(hints, "DeviceProperties", None), "create", None)
    if hasattr(create, "cache_clear"):
        create.cache_clear()
    interface = sys.modules.get("torch._dynamo.device_interface")
    for name in ("caching_worker_device_properties", "caching_worker_current_devices"):
        getattr(interface, name, {}).pop("cuda", None)


def patches(compiled):
    """`(target, name, value)` of everything that compiling and running need."""
    yield from _generated_code(compiled)
    yield from _names(compiled)
    yield from _choices(compiled.notes, compiled.graphs)
    if compiled.is_for_cuda:
        yield from _card()
    else:
        yield from _host()


def _host():
    """Inductor finds the vector instructions by compiling a program; memory does not depend on them."""
    from torch._inductor import cpu_vec_isa

    yield cpu_vec_isa.VecISA, "check_build", lambda *_: True


def _card():
    from torch._dynamo import device_interface
    from torch.utils import _triton

    cuda = device_interface.CudaInterface
    properties = lambda *_: torch.cuda.get_device_properties()  # noqa: E731
    nothing = lambda *_, **__: None  # noqa: E731
    zero = lambda *_, **__: 0  # noqa: E731
    for name, answer in {
        "device": torch.cuda.device, "Event": torch.cuda.Event, "Stream": torch.cuda.Stream,
        "current_device": zero, "set_device": nothing, "device_count": lambda: 1,
        "stream": torch.cuda.stream, "current_stream": torch.cuda.current_stream,
        "set_stream": nothing, "_set_stream_by_id": nothing, "synchronize": nothing,
        "get_device_properties": properties, "get_raw_stream": zero, "exchange_device": zero,
        "maybe_exchange_device": zero, "memory_allocated": zero,
        "is_bf16_supported": torch.cuda.is_bf16_supported, "is_available": lambda: True,
        "raise_if_triton_unavailable": nothing,
    }.items():  # fmt: skip
        if name in ("device", "Event", "Stream"):
            yield cuda, name, answer
        else:
            yield cuda, name, staticmethod(answer)
    for name, answer in (
        ("set_device", nothing), ("current_device", zero), ("get_device_properties", properties),
    ):  # fmt: skip
        yield cuda.Worker, name, staticmethod(answer)
    for name in ("_exchange_device", "_maybe_exchange_device"):
        yield torch.cuda, name, zero
    generator = _Generator()
    yield torch.cuda, "default_generators", (generator,)
    yield torch._C, "_accelerator_getDefaultGenerator", lambda *_: generator
    yield torch._C, "_cuda_getCurrentRawStream", zero
    yield torch._C, "_cuda_getDevice", zero
    yield torch._C, "_cuda_setDevice", nothing
    available = lambda *_, **__: True  # noqa: E731
    for name in (
        "torch.utils._triton", "torch._inductor.scheduler", "torch._inductor.compile_fx",
        "torch._inductor.fx_passes.pad_mm", "torch._inductor.runtime.autotune_cache",
        "torch._inductor.kernel.mm_grouped", "torch._inductor.utils",
    ):  # fmt: skip
        module = importlib.import_module(name) if _exists(name) else None
        # Dynamo asks `torch.utils._triton` whether it can import the package.
        if hasattr(module, "has_triton") and (module is not _triton or _has_triton_package()):
            yield module, "has_triton", available
    yield _triton, "triton_hash_with_backend", lambda: "0" * 64


class _Generator(torch.Generator):
    """The card's random generator, for checkpointed dropout: backward draws what forward drew."""

    device = torch.device("cuda", 0)

    def clone_state(self):
        return self

    def graphsafe_get_state(self):
        return self

    def graphsafe_set_state(self, _):
        return self

    def manual_seed(self, _):
        return self


def _exists(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _choices(notes, graphs):
    from torch._inductor import compile_fx, select_algorithm
    from torch._inductor.fx_passes import pad_mm

    def should_pad(_, left, right, *__, **___):
        alignment = pad_mm.get_alignment_size(left)
        sizes = (*left.shape[-2:], right.shape[-1])
        if not any(pad_mm.get_padded_length(size, alignment) for size in sizes):
            return False  # before 2.12, PyTorch decides that in here
        notes.add("padding", "padding")
        return False

    def cudagraphify(model, static_input_idxs=(), *_, **__):
        return graphs.record(model, static_input_idxs)

    select = select_algorithm.AlgorithmSelectorCache.__call__

    def selected(self, name, choices, *args, **kwargs):
        libraries = [c for c in choices if isinstance(c, select_algorithm.ExternKernelCaller)]
        if len(choices) > 1 and libraries:
            graphs.note_benchmark(args[0] if args else kwargs["input_nodes"], libraries[0])
            choices = libraries[:1]
        return select(self, name, choices, *args, **kwargs)

    yield pad_mm, "_should_pad" if hasattr(pad_mm, "_should_pad") else "_should_pad_bench", should_pad
    yield compile_fx, "cudagraphify", cudagraphify
    yield select_algorithm.AlgorithmSelectorCache, "__call__", selected


class _Kernel:
    """A generated kernel that does nothing."""

    def run(self, *_, **__):
        return None

    __call__ = run

    def __getitem__(self, _):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.run


def _names(compiled):
    """Tells each allocation of generated code which op of which module its buffer belongs to."""
    from torch._inductor import compile_fx
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    make, compile_graph = PythonWrapperCodegen.make_allocation, compile_fx.compile_fx

    def make_allocation(self, name, *args, **kwargs):
        line = make(self, name, *args, **kwargs)
        return _ALLOCATION.sub(lambda found: f"{found[1]}, {_origin(name)!r})", line, count=1)

    def with_losses(graph, *args, **kwargs):
        for node in getattr(getattr(graph, "graph", None), "nodes", ()):
            if node.target in _LOSSES and node.args:
                logits = getattr(node.args[0], "meta", {}).get("example_value")
                if isinstance(logits, torch.Tensor) and logits.dim() >= 2:
                    compiled.counter.attribution.vocab_sizes.add(int(logits.shape[-1]))
        compiled.note_progress()
        return compile_graph(graph, *args, **kwargs)

    yield PythonWrapperCodegen, "make_allocation", make_allocation
    yield compile_fx, "compile_fx", with_losses


_ALLOCATION = re.compile(r"(empty_strided_(?:cuda|cpu)\(.*?torch\.\w+)\)")
_LOSSES = {torch.nn.functional.cross_entropy, torch.nn.functional.nll_loss}


def _origin(name):
    """`(module, op)` of a buffer, from the graph that Inductor compiles."""
    from torch._inductor.virtualized import V

    try:
        buffer = V.graph.get_buffer(name)
        node = buffer.get_origin_node() or max(buffer.get_origins(), default=None)
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
        path = next(reversed(stack.values()))[0] if stack else ""
        return _path(path), getattr(node.target, "__name__", str(node.target)).partition(".")[0]
    except Exception:  # a workspace, or a buffer that no op of the graph made
        return None


def _path(source):
    """`L['self'].h[3].mlp` as `h.3.mlp`."""
    path = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", source)
    return ".".join(part for part in path.split(".") if part not in ("L", "self", "_modules", "fn", ""))


def _generated_code(compiled):
    from torch._C._dynamo import guards
    from torch._inductor import codecache
    from torch._inductor.async_compile import AsyncCompile

    def empty_strided(device):
        def allocate(size, stride, dtype, origin=None):
            with compiled.counter.attribution.naming(origin):
                return torch.empty_strided(size, stride, dtype=dtype, device=device)

        return allocate

    def reinterpret(tensor, size, stride, offset=0):
        with torch.no_grad():
            return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)

    nothing = lambda *_, **__: None  # noqa: E731
    yield guards, "_empty_strided_cuda", empty_strided("cuda")
    yield guards, "_empty_strided_cpu", empty_strided("cpu")
    yield guards, "_empty_strided_cpu_pinned", empty_strided("cpu")
    yield guards, "_reinterpret_tensor", reinterpret
    yield guards, "assert_alignment", nothing
    yield guards, "copy_if_misaligned", lambda tensor, *_: tensor
    for name in ("triton", "cpp_pybinding", "cpp", "multi_kernel", "size_hint_multi_kernel"):
        if hasattr(AsyncCompile, name):
            yield AsyncCompile, name, lambda *_, **__: _Kernel()
    yield AsyncCompile, "wait", nothing
    yield AsyncCompile, "wakeup", nothing
    yield AsyncCompile, "warm_pool", classmethod(nothing)
    load = codecache.PyCodeCache.load_by_key_path.__func__

    def load_by_key_path(cls, *args, **kwargs):
        with _triton_importable():
            return load(cls, *args, **kwargs)

    yield codecache.PyCodeCache, "load_by_key_path", classmethod(load_by_key_path)


def _has_triton_package():
    return sys.modules.get("triton", True) is not None and _exists("triton")


@contextlib.contextmanager
def _triton_importable():
    """Generated code imports Triton; without the package it gets an empty one."""
    if _has_triton_package():
        yield
        return
    saved = {name: sys.modules[name] for name in ("triton",) if name in sys.modules}
    triton = types.ModuleType("triton")
    triton.language = types.ModuleType("triton.language")
    sys.modules.update({"triton": triton, "triton.language": triton.language})
    try:
        yield
    finally:
        del sys.modules["triton"], sys.modules["triton.language"]
        sys.modules.update(saved)
        forget_cached_answers()
