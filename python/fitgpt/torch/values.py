"""Keeps the values of small tensors with their fake ones.

A fake tensor has no values, but programs read some: an optimizer's step count, a loss scale, the
random number of a layer drop, whether an attention mask masks anything. So an op whose inputs are
all known and whose result is small also runs on real CPU tensors. An unknown value that a program
reads anyway (a loss for the log) is zero, with a note.
"""

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_flatten, tree_leaves

aten = torch.ops.aten

# Token ids and masks of a batch may decide which kernels run; weights do not.
MOST_FLOATS = 1 << 12
MOST_INTEGERS = 1 << 20

_READ = "_fitgpt_value"
# Ops that write all values of a tensor without reading any.
_WRITES_ALL = {aten.zero_.default, aten.fill_.Scalar, aten.fill_.Tensor, aten.copy_.default}
# Their results have no values yet.
_EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
# Gradients are assumed to be finite: `found_inf` stays zero.
_KEEPS = {
    getattr(aten, name).default
    for name in ("_amp_foreach_non_finite_check_and_unscale_", "_amp_non_finite_check_and_unscale_")
    if hasattr(aten, name)
}


class Value:
    """A real tensor; `is_known` becomes false when an op writes unknown values to it."""

    __slots__ = ("real", "shared")

    def __init__(self, real, shared=None):
        self.real = real
        self.shared = [True] if shared is None else shared  # shared by all views of a storage

    @property
    def is_known(self):
        return self.shared[0]


def known(tensor):
    """The real tensor behind a fake one, or `None`. A real tensor is its own value."""
    if not isinstance(tensor, FakeTensor):
        return tensor if tensor.device.type == "cpu" else None
    value = getattr(tensor, _READ, None)
    return value.real if value is not None and value.is_known else None


def remember(tensor, real, shared=None):
    setattr(tensor, _READ, Value(real, shared))


def is_small(tensor):
    most = MOST_FLOATS if tensor.is_floating_point() or tensor.is_complex() else MOST_INTEGERS
    return tensor.numel() <= most and tensor.layout == torch.strided


def follow(op, args, kwargs, result):
    """Also runs `op` on known values, or discards the values that it overwrites."""
    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if op._schema.is_mutable:
        _follow_write(op, args, kwargs, inputs)
        return
    if not outputs or not all(is_small(t) for t in outputs):
        return
    if op._schema.name.rpartition("::")[2] in _EMPTY:
        return
    if any(known(t) is None for t in inputs):
        return
    reals = _run(op, args, kwargs)
    if reals is None:
        return
    held = [v for v in map(_value, inputs) if v is not None]
    owners = {v.real.untyped_storage()._cdata: v.shared for v in held}
    for output, real in zip(outputs, (t for t in tree_leaves(reals) if isinstance(t, torch.Tensor))):
        if real.shape == output.shape:
            remember(output, real, owners.get(real.untyped_storage()._cdata))


def _follow_write(op, args, kwargs, inputs):
    written = list(_written(op, args, kwargs))
    if op in _KEEPS:
        return
    others = [t for t in inputs if all(t is not w for w in written)]
    if op in _WRITES_ALL and known(written[0]) is None:
        target = written[0]
        if is_small(target) and not target._is_view() and all(known(t) is not None for t in others):
            with no_dispatch():
                remember(target, torch.zeros(target.shape, dtype=target.dtype))
    if all(known(t) is not None for t in (*written, *others)):
        if _run(op, args, kwargs) is not None:
            return
    for tensor in written:
        value = getattr(tensor, _READ, None)
        if value is not None:
            value.shared[0] = False


def _written(op, args, kwargs):
    for index, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[index] if index < len(args) else kwargs.get(argument.name)
            yield from (t for t in tree_leaves(given) if isinstance(t, torch.Tensor))


def _value(tensor):
    return getattr(tensor, _READ, None)


def _run(op, args, kwargs):
    """`op` on the real tensors; `None` if the CPU cannot run it."""

    def real(leaf):
        if isinstance(leaf, torch.Tensor):
            return known(leaf)
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    leaves, shape = tree_flatten((args, kwargs))
    args, kwargs = shape_back(shape, [real(leaf) for leaf in leaves])
    kwargs.pop("pin_memory", None)
    try:
        with no_dispatch(), torch.no_grad():
            return op(*args, **kwargs) if op._schema.returns else (op(*args, **kwargs), ())[1]
    except (RuntimeError, NotImplementedError):
        return None


def shape_back(shape, leaves):
    return torch.utils._pytree.tree_unflatten(leaves, shape)


def real_result(op, args, kwargs):
    """The real result of an op whose output's shape depends on values, or `None`."""
    inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if any(known(t) is None for t in inputs):
        return None
    return _run(op, args, kwargs)


def read(function, *reals):
    """Calls `function` with real tensors, outside all modes."""
    with no_dispatch():
        return function(*reals)


def guess(dtype):
    """The value that a program reads from a tensor without known values."""
    if dtype == torch.bool:
        return False
    return 0.0 if dtype.is_floating_point else 0
