"""One rank of a script for several cards, alone.

`torch.distributed` gets PyTorch's fake process group, and its collectives communicate with nobody. What
they keep on the card is kept as `ProcessGroupNCCL.cpp` keeps it: a collective with `async_op=True`
holds its tensors until `wait()` of its `Work`, or, if only its future is waited for, until another
collective is called after it has ended. So what an optimizer passes to such collectives is still there
during the next forward and backward pass. Lists of tensors are sent and received through one flat copy.

DDP's buckets are allocated as `torch/nn/parallel/distributed.py` allocates them: one copy of all
gradients that are trained, kept from the start, unless gradients are views of the buckets. NCCL's own
buffers are not counted.
"""

import contextlib
import inspect
import os
from unittest import mock

import torch
import torch.distributed
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

_FIRST_BUCKET = 1 << 20
# Which of their arguments are lists that NCCL cannot take.
_COLLECTIVES = {
    "all_reduce": None, "broadcast": None, "reduce": None, "all_gather": "tensor_list",
    "all_gather_into_tensor": None, "reduce_scatter": "input_list", "reduce_scatter_tensor": None,
    "all_to_all_single": None, "all_to_all": None,
}  # fmt: skip


@contextlib.contextmanager
def alone(notes, ranks):
    """Rank 0 of `ranks`; 1 leaves `torch.distributed` as it is, until the script asks for a group."""
    environment = {
        "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        if ranks > 1:
            stack.enter_context(mock.patch.dict(os.environ, environment))
        for target, name, value in _patches(notes, ranks, stack):
            stack.enter_context(mock.patch.object(target, name, value))
        try:
            yield
        finally:
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()


def _patches(notes, ranks, stack):
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    start = torch.distributed.init_process_group

    def init_process_group(backend=None, *_, world_size=-1, rank=-1, **__):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        if torch.distributed.is_initialized():
            return None
        notes.add("torch.distributed", "one-rank", ranks=ranks)
        if ranks > 1:
            for target, name, value in _divided_tensors():
                stack.enter_context(mock.patch.object(target, name, value))
        return start("fake", store=FakeStore(), rank=0, world_size=ranks)

    stash = _Stash()
    patched = {
        "init_process_group": init_process_group,
        "barrier": lambda *_, **__: None,
        "all_gather_object": _all_gather_object,
        "gather_object": lambda thing, things=None, *_, **__: _all_gather_object(things or [], thing),
        "broadcast_object_list": lambda *_, **__: None,
        **{name: stash.collective(getattr(distributed_c10d, name), many) for name, many in _COLLECTIVES.items()},
    }
    for name, value in patched.items():
        yield torch.distributed, name, value
        yield distributed_c10d, name, value
    yield torch.autograd, "_engine_run_backward", stash.backward(torch.autograd._engine_run_backward)
    yield torch.nn.parallel, "DistributedDataParallel", DistributedDataParallel
    yield torch.nn.parallel.distributed, "DistributedDataParallel", DistributedDataParallel
    yield torch.multiprocessing, "spawn", lambda function, args=(), *_, **__: function(0, *args)


def _divided_tensors():
    """FSDP2 asks C++ for its device, and its tensors ask C++ for theirs and try ops on fake ones."""
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    name = "_propagate_tensor_meta_non_cached"
    propagate = getattr(ShardingPropagator, name)

    def propagate_uncounted(*args, **kwargs):
        with _disable_current_modes():
            return propagate(*args, **kwargs)

    yield ShardingPropagator, name, propagate_uncounted
    yield torch._C, "_get_accelerator", lambda *_: torch.device("cuda")
    yield DTensor, "device", property(lambda tensor: tensor._local_tensor.device)


def _all_gather_object(things, thing, *_, **__):
    things[:] = [thing] * len(things)


class _Stash:
    """Tensors of collectives whose `Work` nobody has waited for."""

    def __init__(self):
        self.held = []  # those of the works since the last backward pass began
        self.ended = []  # those of the works before it

    def backward(self, run):
        def engine_run_backward(*args, **kwargs):
            self.ended += self.held
            self.held = []
            return run(*args, **kwargs)

        return engine_run_backward

    def collective(self, function, many):
        parameters = inspect.signature(function)

        def called(*args, **kwargs):
            if torch.compiler.is_compiling():  # a graph has it, or breaks here and calls this
                return function(*args, **kwargs)
            given = parameters.bind(*args, **kwargs).arguments
            tensors = [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
            if many:
                sizes = sum(tensor.numel() for tensor in given[many])
                tensors.append(given[many][0].new_empty(sizes))
            self.ended = []
            if not given.get("async_op"):
                return None
            work = _Work(self)
            work.tensors = tensors
            self.held.append(work)
            return work

        called.__name__ = function.__name__
        return called


class _Work(torch.distributed.Work if torch.distributed.is_available() else object):
    """A collective that has ended."""

    def __init__(self, stash):
        super().__init__()
        self.stash, self.tensors = stash, []

    def wait(self, *_):
        self.tensors = []
        return True

    def is_completed(self):
        return True

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(None)
        return future


class DistributedDataParallel(torch.nn.Module):
    """DDP's memory: the module, and the buckets in which gradients are reduced."""

    def __init__(self, module, *_, bucket_cap_mb=25, gradient_as_bucket_view=False, **__):
        super().__init__()
        self.module = module
        self.require_backward_grad_sync = True
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.reducer = None
        self._buckets = [] if gradient_as_bucket_view else list(_buckets(module, bucket_cap_mb))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        yield

    def register_comm_hook(self, *_):
        pass

    def _set_static_graph(self):
        pass


def _buckets(module, cap_mb):
    """Flat tensors for the gradients of each type, in reverse order, a small one first."""
    held, kind, limit = 0, None, _FIRST_BUCKET
    for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
        if held and (held >= limit or kind != (parameter.dtype, parameter.device)):
            yield torch.empty(held // kind[0].itemsize, dtype=kind[0], device=kind[1])
            held, limit = 0, cap_mb << 20
        kind = parameter.dtype, parameter.device
        held += parameter.numel() * parameter.element_size()
    if held:
        yield torch.empty(held // kind[0].itemsize, dtype=kind[0], device=kind[1])
