"""Memory of kernels that shape functions do not describe.

Some kernels return a result in a larger storage. Some have no shape function and are run on zeros.
oneDNN's LSTM has a workspace whose size only oneDNN knows.
"""

import contextlib
import functools
import math
import sys
from unittest import mock

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map_only, tree_unflatten

from . import values

aten = torch.ops.aten

# Losses that reduce in place into the tensor of elementwise losses, and `col2im`, which shrinks a
# tensor as large as its input.
_SHRUNK = {
    aten.mse_loss.default, aten.smooth_l1_loss.default, aten.binary_cross_entropy.default,
    aten.soft_margin_loss.default, aten.col2im.default,
}  # fmt: skip
_LSTM = getattr(getattr(aten, "mkldnn_rnn_layer", None), "default", None)
_LSTM_BACKWARD = getattr(getattr(aten, "mkldnn_rnn_layer_backward", None), "default", None)

# The largest input of an op that is really run because it has no shape function.
MOST_BYTES = 1 << 30


def settle(op, args, result):
    """Gives a fake result the storage size of the real one."""
    if op in _SHRUNK:
        shapes = [a.shape for a in args[:2] if isinstance(a, torch.Tensor)]
        count = math.prod(torch.broadcast_shapes(*shapes))
        storage = result.untyped_storage()
        if count * result.element_size() > storage.nbytes():
            storage.resize_(count * result.element_size())
    elif op is aten.native_layer_norm_backward.default and result[0] is not None:
        # The kernels return a contiguous gradient for an input of any strides.
        return (torch.empty_like(result[0], memory_format=torch.contiguous_format), *result[1:])
    elif op is aten.native_batch_norm.default and _is_for_cudnn(*args):
        return (result[0], *(t.new_empty(0) for t in result[1:]))
    elif op is _LSTM and args[-1] and torch.is_grad_enabled():
        size = _lstm_workspace(tuple(args[0].shape), args[10], args[0].dtype, *args[11:15])
        result[3].untyped_storage().resize_(size)
    elif op is _LSTM_BACKWARD:
        # The shape function returns one gradient for both biases; oneDNN returns two.
        return (*result[:4], torch.empty_like(result[4]), *result[5:])
    return result


def _is_for_cudnn(input, weight, bias, mean, variance, training, momentum, eps):
    """Whether CUDA evaluates this batch norm with cuDNN, which then returns no statistics."""
    return (
        input.device.type == "cuda"
        and not training
        and weight is not None
        and bias is not None
        and mean is not None
        and input.dtype in (torch.float32, torch.float16)
        and weight.dtype == torch.float32
        and input.dim() >= 3
        and eps >= 1e-5
        and torch.backends.cudnn.enabled
    )


@functools.lru_cache
def _lstm_workspace(shape, hidden, dtype, layers, has_biases, bidirectional, batch_first):
    """Bytes that oneDNN keeps for one layer of an LSTM, found by running it on zeros.

    They are linear in steps × batch, up to rounding to pages, so for more than a million elements
    a smaller layer is run and its size scaled.
    """
    steps, batch, features = shape
    scale = max(1.0, steps * batch * max(hidden, features) / (1 << 20))
    asked = max(1, round(steps / scale))
    with no_dispatch(), torch.enable_grad():  # without gradients there is no workspace
        weights = [(4 * hidden, features), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)]
        result = aten.mkldnn_rnn_layer(
            torch.zeros(asked, batch, features, dtype=dtype),
            *(torch.zeros(shape, dtype=dtype) for shape in weights),
            torch.zeros(batch, hidden, dtype=dtype), torch.zeros(batch, hidden, dtype=dtype),
            False, [], 2, hidden, layers, has_biases, bidirectional, batch_first, True,
        )  # fmt: skip
        return round(result[3].untyped_storage().nbytes() * steps / asked)


@contextlib.contextmanager
def fallbacks():
    """Runs ops without a shape function on zeros in host memory, for any device."""

    def run(fake_mode, op, flat_args, spec, error):
        fakes = [a for a in flat_args if isinstance(a, FakeTensor)]
        if sum(t.numel() * t.element_size() for t in fakes) > MOST_BYTES:
            raise RuntimeError(
                f"`{op}` has no shape function and its inputs are too large to run it on zeros"
            ) from error
        device = next((t.fake_device for t in fakes), torch.device("cpu"))
        owners = {}

        def real(leaf):
            if isinstance(leaf, FakeTensor):
                value = values.known(leaf)
                if value is None:
                    value = torch.zeros(leaf.shape, dtype=leaf.dtype)
                else:
                    value = value.clone()  # `values.follow` writes to the known value
                owners[value.untyped_storage()._cdata] = leaf
                return value
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        with no_dispatch():
            args, kwargs = tree_unflatten([real(leaf) for leaf in flat_args], spec)
            out = op(*args, **kwargs)

        def fake(tensor):
            owner = owners.get(tensor.untyped_storage()._cdata)
            if owner is not None and owner.shape == tensor.shape:
                return owner
            with fake_mode:
                return torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device
                )

        return tree_map_only(torch.Tensor, fake, out)

    with mock.patch.object(fake_tensor, "run_fallback_kernel", run):
        yield


def idle_triton(name, notes):
    """Patches of Triton's module `name`: a program's own kernels do nothing.

    They write to tensors that the program has allocated, so their memory is counted.
    """

    def run(kernel, *_, **__):
        notes.add("Triton", "triton-kernels")

    module = sys.modules[name]
    for kind in ("JITFunction", "Autotuner", "Heuristics"):
        if hasattr(vars(module).get(kind), "run"):
            yield getattr(module, kind), "run", run


TRITON = ("triton.runtime.jit", "triton.runtime.autotuner")


def tensors(result):
    """The tensors of a result."""
    for leaf in (result,) if isinstance(result, torch.Tensor) else tree_leaves(result):
        if isinstance(leaf, torch.Tensor):
            yield leaf
