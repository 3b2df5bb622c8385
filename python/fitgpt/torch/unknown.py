"""Ops whose result or shape depends on values, which fake tensors do not have.

Known values (`values.py`) are used. Otherwise a number that is read back is zero, a shape that
depends on values is the largest possible one, and a note is added.
"""

import torch
from torch.utils._mode_utils import no_dispatch

from . import values

aten = torch.ops.aten
NO_ANSWER = object()


def answer(op, args, kwargs, notes):
    """The Python value of an op that returns one, or `NO_ANSWER`."""
    if op in (aten._local_scalar_dense.default, aten.item.default):  # the latter in inference mode
        real = values.known(args[0])
        if real is not None:
            return values.read(torch.Tensor.item, real)
        notes.add("item", "value-read")
        return values.guess(args[0].dtype)
    if op is aten.equal.default:
        reals = [values.known(t) for t in args[:2]]
        if all(real is not None for real in reals):
            return values.read(torch.equal, *reals)
        notes.add("equal", "values-compared")
        return False
    if op is aten.allclose.default:
        reals = [values.known(t) for t in args[:2]]
        if all(real is not None for real in reals):
            return values.read(lambda *pair: torch.allclose(*pair, *args[2:], **kwargs), *reals)
        notes.add("allclose", "values-compared")
        return False
    if op in _ASSERTIONS:
        return None
    return NO_ANSWER


def assume(op, args, result, notes):
    """Gives a value to the result of a check, which must pass for the program to go on."""
    if op is aten._is_all_true.default and values.known(args[0]) is None:
        notes.add("_is_all_true", "check-passed")
        values.remember(result, values.read(lambda: torch.ones((), dtype=torch.bool)))


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
            torch.Tensor, lambda t: _fake_of(t, args[0].device), real
        )
    tensor = args[0]
    if op in (aten._ctc_loss.default, aten._ctc_loss.Tensor):
        return _ctc_loss(*args[:2], args[3], notes)
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
    notes.add(str(op), "largest-shape")
    return _fake(shape, dtype, tensor.device)


def packed(input, lengths, batch_first, notes):
    """`_pack_padded_sequence`. The batch sizes are a real tensor, because RNNs read them in C++."""
    real = values.known(lengths)
    if real is None:
        notes.add("pack_padded_sequence", "longest-lengths")
        counts = [input.size(1 if batch_first else 0)] * lengths.numel()
    else:
        counts = values.read(torch.Tensor.tolist, real)
    steps = range(max(counts))
    with no_dispatch():
        batch_sizes = torch.tensor([sum(count > step for count in counts) for step in steps])
    data = torch.empty((sum(counts), *input.shape[2:]), dtype=input.dtype, device=input.device)
    return data, batch_sizes


def padded(data, batch_sizes, batch_first, padding_value, total_length):
    """`_pad_packed_sequence`, which PyTorch computes in C++ by writing values into a tensor."""
    sizes = values.read(torch.Tensor.tolist, values.known(batch_sizes))
    steps = max(total_length, len(sizes))
    shape = (steps, sizes[0], *data.shape[1:])
    output = torch.full(shape, padding_value, dtype=data.dtype, device=data.device)
    start = offset = 0
    for step, size in enumerate(sizes, 1):
        if step == len(sizes) or sizes[step] != size:
            part = data[offset : offset + size * (step - start)]
            output[start:step, :size].copy_(part.view(step - start, size, *data.shape[1:]))
            start, offset = step, offset + size * (step - start)
    lengths = torch.tensor([sum(size > row for size in sizes) for row in range(sizes[0])])
    return output.transpose(0, 1) if batch_first else output, lengths


def _without_masks(indices, notes):
    """Boolean masks as the index tensors that CUDA makes of them."""
    expanded = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            expanded.append(index)
            continue
        real = values.known(index)
        if real is None:
            notes.add("index", "mask-selects-all")
        count = index.numel() if real is None else values.read(lambda t: int(t.count_nonzero()), real)
        expanded += [_fake((count,), torch.int64, index.device) for _ in range(index.dim())]
    return expanded


def _ctc_loss(log_probs, targets, target_lengths, notes):
    """The losses of a batch, and a table over the steps and the longest target with its blanks."""
    steps, batch = log_probs.shape[:2]
    if isinstance(target_lengths, torch.Tensor):
        target_lengths = values.known(target_lengths)
    if target_lengths is None:
        notes.add("ctc_loss", "longest-lengths")
        longest = targets.size(-1)
    else:
        longest = values.read(lambda: int(max(target_lengths)))
    shapes = (batch,), (batch, steps, 2 * longest + 1)
    return tuple(_fake(shape, log_probs.dtype, log_probs.device) for shape in shapes)


def _fake_of(real, device):
    made = _fake(real.shape, real.dtype, device)
    if values.is_small(made):
        values.remember(made, real)
    return made


def _fake(shape, dtype, device):
    return torch.empty(shape, dtype=dtype, device=device)


def array(tensor, notes):
    import numpy  # PyTorch runs without it

    real = values.known(tensor)
    if real is not None:
        return values.read(lambda t: t.detach().numpy(), real)
    notes.add("numpy", "array-of-zeros")
    return numpy.zeros(tuple(tensor.shape), dtype=_NUMPY.get(tensor.dtype, "float32"))


_NUMPY = {
    torch.float64: "float64", torch.float32: "float32", torch.float16: "float16",
    torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8",
    torch.uint8: "uint8", torch.bool: "bool",
}  # fmt: skip
