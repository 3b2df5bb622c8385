"""Tracks which storages are alive, what made them, and the peak.

Sizes are rounded up to 512 bytes, as PyTorch's caching allocator rounds requests. A storage is
counted from the op that made it until its last owner, Python or autograd, drops it.

Promise: `pretend("cpu")` counts the bytes of real tensors. Test: `tests/pretend/test_counts.py` and
`tests/pretend/test_integrations.py`, with `tests/pretend/real.py`, which shares no code with it.
"""

import functools
import weakref

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

ALIGN = 512


@functools.lru_cache(maxsize=None)
def is_divided(kind):
    """Whether tensors of a type hold one rank's part of a tensor, and no bytes of their own."""
    return kind.__module__.startswith("torch.distributed.") and hasattr(kind, "__tensor_flatten__")


class Record:
    """One storage: its bytes, what made it, and when it was alive."""

    __slots__ = ("bytes", "op", "module", "stage", "shape", "dtype", "kind", "name", "born", "died",
                 "is_in_graph")  # fmt: skip

    def __init__(self, size, op, module, stage, tensor, born):
        self.bytes = size
        self.op = op
        self.module = module
        self.stage = stage
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.kind = None
        self.name = None
        self.born = born
        self.died = None
        self.is_in_graph = False  # made by code that a CUDA graph would record

    def is_alive(self, time):
        return self.born <= time and (self.died is None or self.died > time)


class Phase:
    """A named part of a run. Entered again, it keeps the highest peak."""

    def __init__(self, name):
        self.name = name
        self.peak_bytes = 0
        self.peak_op = None
        self.peak_time = 0
        self.spans = []

    def __repr__(self):
        return f"Phase({self.name!r}, peak_bytes={self.peak_bytes})"

    def reach(self, live, op, time):
        if live > self.peak_bytes:
            self.peak_bytes, self.peak_op, self.peak_time = live, op, time


class Live:
    """All storages on one device type."""

    def __init__(self, align=ALIGN):
        self.align = align
        self.bytes = 0
        self.time = 0
        self.records = []
        self.curve = []
        self.events = []  # for the simulated allocator
        self.whole = Phase("all")
        self.active = [self.whole]
        self._alive = {}
        self.in_graph = 0

    def see(self, tensor, op, module, stage):
        """Counts a tensor's storage if it is new, or if it has been resized."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        size = -(-storage.nbytes() // self.align) * self.align
        entry = self._alive.get(key)
        if entry is not None:
            if entry[0].bytes != size:
                self._resize(key, entry, size, tensor)
            return entry[0]
        if size == 0:
            return None
        self.time += 1
        record = Record(size, op, module, stage, tensor, self.time)
        record.is_in_graph = self.in_graph > 0
        self._alive[key] = (record, weakref.ref(storage, lambda _, key=key: self._free(key)))
        self.records.append(record)
        self.events.append(("allocate", record))
        self.bytes += size
        return record

    def record_of(self, tensor):
        """The record of a tensor's storage, or `None`: sparse and `torch.func`'s tensors have none."""
        if is_divided(type(tensor)):
            tensor = getattr(tensor, "_local_tensor", tensor)
        if tensor.layout != torch.strided or is_functorch_wrapped_tensor(tensor):
            return None
        entry = self._alive.get(tensor.untyped_storage()._cdata)
        return None if entry is None else entry[0]

    def refresh(self, storage):
        """Records that a storage was resized outside any op."""
        entry = self._alive.get(storage._cdata)
        if entry is not None:
            size = -(-storage.nbytes() // self.align) * self.align
            if size != entry[0].bytes:
                self._resize(storage._cdata, entry, size, entry[0])

    def reuse(self, tensor):
        """Ends a storage whose memory the running op's result has taken over."""
        record, _ = self._alive.pop(tensor.untyped_storage()._cdata)
        record.died = self.time
        self.bytes -= record.bytes
        last, new = self.events[-1][:2] if self.events else (None, None)
        if last == "allocate" and new.bytes == record.bytes:
            self.events[-1] = ("take over", record, new)
        else:
            self.events.append(("free", record))

    def reach(self, op):
        """Ends an op and records the live bytes."""
        self.time += 1
        self.curve.append((self.time, op))
        for phase in self.active:
            phase.reach(self.bytes, op, self.time)

    def alive_at(self, time):
        return [r for r in self.records if r.is_alive(time)]

    def _resize(self, key, entry, size, like):
        old, reference = entry
        self.time += 1
        old.died = self.time
        record = Record(size, old.op, old.module, old.stage, like, self.time)
        record.kind, record.name, record.is_in_graph = old.kind, old.name, old.is_in_graph
        self.records.append(record)
        if size:
            self.events.append(("allocate", record))
        if old.bytes:
            self.events.append(("free", old))
        self._alive[key] = (record, reference)
        self.bytes += size - old.bytes

    def _free(self, key):
        record, _ = self._alive.pop(key)
        self.time += 1
        record.died = self.time
        if record.bytes:
            self.events.append(("free", record))
        self.bytes -= record.bytes
