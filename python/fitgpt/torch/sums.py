"""Sums of gradients: which of them the autograd engine adds in place.

A tensor with two users gets two gradients, and the engine adds them. It adds in place if nothing
else holds the first one. Under a dispatch mode it always allocates a third tensor, so `pretend` has
to find out what the engine would do without one.

Promise: `pretend` adds gradients in place if the autograd engine does. Test:
`tests/pretend/test_sums.py`, against PyTorch's allocator.
"""

import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class GradientSums:
    """Recognises the engine's additions by the node that is running and by reference counts."""

    def __init__(self, live):
        self.live = live
        self.sole = _owners_of_a_sole_gradient()
        self.node = None
        self.node_start = 0

    def enter(self, node):
        """Records when a backward node began; called for every op of a backward pass."""
        if node is not self.node:
            self.node, self.node_start = node, self.live.time

    def leave(self):
        self.node = None

    def is_in_place(self, op, args, kwargs):
        """Whether the running op would be `args[0].add_(args[1])` without dispatch modes."""
        if op is not aten.add.Tensor or kwargs or self.node is None or torch.is_grad_enabled():
            return False
        if not all(isinstance(a, torch.Tensor) for a in args) or args[0].shape != args[1].shape:
            return False
        if not _is_dense(args[0]) or _owners(args) != self.sole:
            return False
        record = self.live.record_of(args[0])
        if record is None:
            return False
        # The formula of a node can add too, but adds values that it has just computed. The engine
        # adds to a gradient of an earlier node, unless one node has two gradients for one tensor.
        return record.born <= self.node_start or _has_repeated_input(self.node)


def _owners(args):
    """Reference counts of the first argument: of its Python object, its tensor and its storage."""
    tensor = args[0]
    storage = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
    return sys.getrefcount(tensor), tensor._use_count(), storage


def _is_dense(tensor):
    """Whether the elements fill one range of memory, in any order of the axes."""
    if tensor.layout != torch.strided:
        return False
    count = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1:
            if stride != count:
                return False
            count *= size
    return True


def _has_repeated_input(node):
    inputs = [(id(function), index) for function, index in node.next_functions if function is not None]
    return len(set(inputs)) < len(inputs)


class _FirstSum(TorchDispatchMode):
    """Records the reference counts at the first addition in which all arguments are tensors."""

    owners = None

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        self.look(op, args)
        return result

    def look(self, op, args):
        if op is aten.add.Tensor and self.owners is None:
            self.owners = _owners(args)


def _owners_of_a_sole_gradient():
    """The reference counts of a gradient that only the engine holds; they depend on the version."""
    with torch.enable_grad():
        leaf = torch.zeros(1, requires_grad=True)
        shared = leaf * 1
        product = shared * shared
    with _FirstSum() as seen:
        product.backward()
    return seen.owners
