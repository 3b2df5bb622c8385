"""Lets Dynamo and AOTAutograd trace fake CUDA tensors of `pretend`.

Their graphs are recorded on functional tensors, which wrap fake ones. Like ours (`device.py`) these
must report `cuda` to Python and `meta` to C++, or the autograd engine asks the driver for a context.
Every name here is private to PyTorch: `compiled.py` counts as eager if one is missing.
"""

import contextlib
import functools
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental import proxy_tensor
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only

from . import device as fake_cuda

aten = torch.ops.aten


def patches(compiled):
    """`(target, name, value)` of everything that tracing needs."""
    from torch._dynamo import convert_frame
    from torch._functorch._aot_autograd import runtime_wrappers

    # Dynamo skips frames under a dispatch mode; ours only observes.
    for module in (convert_frame, _python_dispatch):
        for name in ("is_in_torch_dispatch_mode", "is_in_any_mode_without_ignore_compile_internals"):
            if hasattr(module, name):
                yield module, name, lambda *_, **__: False
    if hasattr(convert_frame, "any_torch_dispatch_mode_on_stack"):
        yield convert_frame, "any_torch_dispatch_mode_on_stack", lambda *_, **__: False
    compiler = getattr(runtime_wrappers, "_AutogradBackwardCompiler", None)
    if compiler is not None:
        yield compiler, "get_or_compile", _backward(compiled, compiler.get_or_compile)
    yield from _optimizers(compiled)
    if version() < (2, 12):
        yield from _inputs_of_another_mode()
        yield from _methods_of_inputs()
    if compiled.is_for_cuda:
        yield from _functional_tensors()
        yield from _constants()
        yield from _kernel_invocations()


def version():
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def random_ops_runnable(mode):
    """Lets generated code call ops that draw the random numbers of another call: they are the same."""
    from torch._prims.rng_prims import graphsafe_run_with_rng_state as op_with_state

    def run(counter, op, *args, rng_state=None, **kwargs):
        with counter:
            return op(*args, **kwargs)

    op_with_state.py_impl(mode)(run)


def _inputs_of_another_mode():
    """Before 2.12, AOTAutograd refuses inputs that are fake already: our tensors are."""
    from torch._functorch import aot_autograd

    detect, process = torch._guards.detect_fake_mode, aot_autograd.process_inputs

    def detect_fake_mode(inputs=None):
        context = torch._guards.TracingContext.try_get()
        return detect(inputs) if context is None or context.fake_mode is None else context.fake_mode

    @functools.wraps(process)
    def process_inputs(flat_args, aot_config, fake_mode, shape_env, ignore_shape_env=False):
        context = torch._guards.TracingContext.try_get()

        def own(tensor):
            if not isinstance(tensor, FakeTensor) or tensor.fake_mode is fake_mode:
                return tensor
            symbols = context and context.tensor_to_context.get(tensor)
            with fake_mode:
                return fake_mode.from_tensor(
                    tensor, static_shapes=ignore_shape_env, symbolic_context=symbols,
                    source=symbols and symbols.tensor_source, trace=not symbols,
                )  # fmt: skip

        flat_args = [own(arg) for arg in flat_args]
        return process(flat_args, aot_config, fake_mode, shape_env, ignore_shape_env)

    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for ours, theirs in ((detect_fake_mode, detect), (process_inputs, process)):
            if names.get(theirs.__name__) is theirs:
                yield module, theirs.__name__, ours


def _methods_of_inputs():
    """Before 2.12, Dynamo traces what `device.py` puts in place of these methods of an input."""
    from torch._dynamo.variables.tensor import TensorVariable

    get = TensorVariable.dynamic_getattr

    def dynamic_getattr(self, tx, name):
        if name in ("to", "cuda", "cpu"):
            raise NotImplementedError  # then it is the method of every tensor
        return get(self, tx, name)

    yield TensorVariable, "dynamic_getattr", dynamic_getattr


def _backward(compiled, compile_backward):
    """Compiles a backward pass outside our modes; if that fails, its graph runs op by op."""
    from torch._functorch.aot_autograd import make_boxed_func

    @functools.wraps(compile_backward)
    def run(compiler, **kwargs):
        with _disable_current_modes():
            try:
                return compile_backward(compiler, **kwargs)
            except Exception as error:
                compiled.note_failure("backward", error)
                compiler.compiled_bw = make_boxed_func(compiler.lazy_backward_info.bw_module)
                return compiler.compiled_bw

    return run


def _functional_tensors():
    make = torch.Tensor._make_wrapper_subclass
    new = FunctionalTensor.__new__
    # Positions of the arguments of `_make_wrapper_subclass` after the class.
    device_index, dispatch_device_index = 6, 10
    wrapped = []

    def __new__(cls, elem, mode):
        wrapped.append(elem)
        try:
            return new(cls, elem, mode)
        finally:
            wrapped.pop()

    def make_wrapper_subclass(cls, *args, **kwargs):
        if cls is FunctionalTensor and fake_cuda.is_cuda(torch._from_functional_tensor(wrapped[-1])):
            args = list(args)
            args[device_index], args[dispatch_device_index] = fake_cuda.CUDA, True
        return make(cls, *args, **kwargs)

    yield FunctionalTensor, "__new__", __new__
    yield torch.Tensor, "_make_wrapper_subclass", staticmethod(make_wrapper_subclass)
    inner = lambda tensor: torch._from_functional_tensor(tensor.elem)  # noqa: E731
    yield FunctionalTensor, "device", property(lambda tensor: inner(tensor).device)
    yield FunctionalTensor, "is_cuda", property(lambda tensor: inner(tensor).device.type == "cuda")
    yield FunctionalTensor, "is_cpu", property(lambda tensor: inner(tensor).device.type == "cpu")
    yield FunctionalTensor, "get_device", lambda tensor: 0 if fake_cuda.is_cuda(tensor) else -1
    for kind in (FakeTensorMode, FunctionalTensorMode, proxy_tensor.ProxyTorchDispatchMode):
        yield kind, "__torch_dispatch__", _answering(kind.__torch_dispatch__)
    yield FunctionalTensor, "__torch_dispatch__", _answering(FunctionalTensor.__torch_dispatch__)
    yield FakeTensorMode, "avoid_device_init", property(lambda self: True, lambda self, _: None)


def _answering(dispatch):
    """A `__torch_dispatch__` that keeps CUDA from C++ and reads `meta` from C++ as CUDA."""

    @functools.wraps(dispatch)
    def torch_dispatch(self, op, types, args=(), kwargs=None):
        if op is torch.ops.prim.device.default and fake_cuda.is_cuda(args[0]):
            return fake_cuda.META
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = fake_cuda.on_card(kwargs["device"])
        return dispatch(self, op, types, args, kwargs)

    return torch_dispatch


def _optimizers(compiled):
    """Dynamo runs the code that makes an optimizer's state, instead of tracing it."""
    kinds = [torch.optim.Optimizer]
    for kind in kinds:
        kinds += [k for k in kind.__subclasses__() if k not in kinds]
        if "_init_group" in vars(kind):
            yield kind, "_init_group", _with_modes(compiled, vars(kind)["_init_group"])


def _with_modes(compiled, function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        if torch._C._len_torch_dispatch_stack():
            return function(*args, **kwargs)
        with compiled.modes_on():
            return function(*args, **kwargs)

    return run


class _OnHost(TorchDispatchMode):
    """Makes real constants on the CPU that are meant for the card."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        on_host = lambda d: torch.device("cpu") if d.type == "cuda" else d  # noqa: E731
        args, kwargs = tree_map_only(torch.device, on_host, (args, dict(kwargs or {})))
        return op(*args, **kwargs)


def _constants():
    from torch._inductor import constant_folding
    from torch._inductor.fx_passes import joint_graph

    def on_host(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            with _OnHost():
                return function(*args, **kwargs)

        return run

    yield constant_folding.ConstantFolder, "run", on_host(constant_folding.ConstantFolder.run)
    folder = joint_graph.UniformValueConstantFolder
    yield folder, "run", on_host(folder.run)
    unset = proxy_tensor.unset_fake_temporarily

    @contextlib.contextmanager
    def unset_fake_temporarily():
        with unset() as mode, _OnHost():
            yield mode

    yield proxy_tensor, "unset_fake_temporarily", unset_fake_temporarily


def _kernel_invocations():
    """Shape functions call `.to` on tensors that stand for `meta` ones at that moment."""
    for name in ("to", "cuda", "cpu"):
        ours, base = getattr(FakeTensor, name), getattr(torch.Tensor, name)

        def method(self, *args, ours=ours, base=base, **kwargs):
            is_inside = self.fake_mode.in_kernel_invocation
            return (base if is_inside else ours)(self, *args, **kwargs)

        yield FakeTensor, name, method
