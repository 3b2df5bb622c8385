"""Ops whose result or shape depends on values, which fake tensors do not have.

Known values (`values.py`) are used. Otherwise a number that is read back is zero, a shape that
depends on values is the largest possible one, and a note is added.
"""

import torch

from . import values

aten = torch.ops.aten
NO_ANSWER = object()


def answer(op, args, kwargs, notes):
    """The Python value of an op that returns one, or `NO_ANSWER`."""
    if op is aten._local_scalar_dense.default:
        real = values.known(args[0])
        if real is not None:
            return values.read(torch.Tensor.item, real)
        notes.add("item", "a value was read from a tensor without values: counted as zero")
        return values.guess(args[0].dtype)
    if op is aten.equal.default:
        reals = [values.known(t) for t in args[:2]]
        if all(real is not None for real in reals):
            return values.read(torch.equal, *reals)
        notes.add("equal", "tensors without values were compared: counted as different")
        return False
    if op in _ASSERTIONS:
        return None
    return NO_ANSWER


_ASSERTIONS = {
    getattr(getattr(aten, name), overload)
    for name, overload in (("_assert_async", "default"), ("_assert_async", "msg"))
    if hasattr(aten, name) and overload in getattr(aten, name).overloads()
}


def shaped(op, args, kwargs, notes):
    """The result of an op whose output's shape depends on values."""
    if op is aten.index.Tensor:
        return op(args[0], _without_masks(args[1], notes))
    real = values.real_result(op, args, kwargs)
    if real is not None:
        return torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda t: _fake(t.shape, t.dtype, args[0].device), real
        )
    tensor = args[0]
    if op is aten.nonzero.default:
        shape, dtype = (tensor.numel(), tensor.dim()), torch.int64
    elif op is aten.masked_select.default:
        shape, dtype = torch.broadcast_shapes(tensor.shape, args[1].shape), tensor.dtype
        shape = (shape.numel(),)
    else:
        raise RuntimeError(
            f"the shape that `{op}` returns depends on values, and fake tensors have none; "
            "make its input from known values, or leave it out of `pretend`"
        )
    notes.add(str(op), "its shape depends on values: counted with the largest possible shape")
    return _fake(shape, dtype, tensor.device)


def _without_masks(indices, notes):
    """Boolean masks as the index tensors that CUDA makes of them."""
    expanded = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            expanded.append(index)
            continue
        real = values.known(index)
        if real is None:
            notes.add("index", "a mask's values are not known: counted as selecting everything")
        count = index.numel() if real is None else values.read(lambda t: int(t.count_nonzero()), real)
        expanded += [_fake((count,), torch.int64, index.device) for _ in range(index.dim())]
    return expanded


def _fake(shape, dtype, device):
    return torch.empty(shape, dtype=dtype, device=device)


def array(tensor, notes):
    import numpy  # PyTorch runs without it

    real = values.known(tensor)
    if real is not None:
        return values.read(lambda t: t.detach().numpy(), real)
    notes.add("numpy", "an array was made from a tensor without values: it contains zeros")
    return numpy.zeros(tuple(tensor.shape), dtype=_NUMPY.get(tensor.dtype, "float32"))


_NUMPY = {
    torch.float64: "float64", torch.float32: "float32", torch.float16: "float16",
    torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8",
    torch.uint8: "uint8", torch.bool: "bool",
}  # fmt: skip
