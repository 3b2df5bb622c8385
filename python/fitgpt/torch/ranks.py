"""One rank of a script for several cards, alone.

`torch.distributed` gets PyTorch's fake process group, which communicates with nobody. DDP's buckets are
allocated as `torch/nn/parallel/distributed.py` allocates them: one copy of all gradients that are
trained, kept from the start, unless gradients are views of the buckets. NCCL's own buffers are not
counted.
"""

import contextlib
import os
from unittest import mock

import torch
import torch.distributed

_FIRST_BUCKET = 1 << 20


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
        for target, name, value in _patches(notes, ranks):
            stack.enter_context(mock.patch.object(target, name, value))
        try:
            yield
        finally:
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()


def _patches(notes, ranks):
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    start = torch.distributed.init_process_group

    def init_process_group(backend=None, *_, world_size=-1, rank=-1, **__):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        if torch.distributed.is_initialized():
            return None
        notes.add("torch.distributed", "one-rank", ranks=ranks)
        return start("fake", store=FakeStore(), rank=0, world_size=ranks)

    for module in (torch.distributed, distributed_c10d):
        yield module, "init_process_group", init_process_group
        yield module, "barrier", lambda *_, **__: None
    yield torch.nn.parallel, "DistributedDataParallel", DistributedDataParallel
    yield torch.nn.parallel.distributed, "DistributedDataParallel", DistributedDataParallel
    yield torch.multiprocessing, "spawn", lambda function, args=(), *_, **__: function(0, *args)


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
