"""A snapshot for PyTorch's memory viewer (`pytorch.org/memory_viz`).

The viewer reads the result of `torch.cuda.memory._snapshot()`: a trace of allocations and frees,
and the remaining segments. Addresses come from a simple first-fit allocator; they order the
picture and do not show the fragmentation of a card.
"""

import pickle

_BASE = 0x7F0000000000


def write(measured, path):
    with open(path, "wb") as file:
        pickle.dump(snapshot(measured), file)


def snapshot(measured):
    """The dictionary of `torch.cuda.memory._snapshot()` for one device."""
    events = []
    for record in measured._live.records:
        events.append((record.born, 1, record))
        if record.died is not None:
            events.append((record.died, 0, record))
    events.sort(key=lambda event: event[:2])
    space, places, trace = _Space(), {}, []
    for time, is_birth, record in events:
        if is_birth:
            places[id(record)] = address = space.take(record.bytes)
            trace.append(_event("alloc", address, record, time))
        else:
            address = places.pop(id(record))
            space.give(address, record.bytes)
            for action in ("free_requested", "free_completed"):
                trace.append(_event(action, address, record, time))
    left = [r for r in measured._live.records if id(r) in places]
    first = _event("segment_alloc", _BASE, None, 0) | {"size": space.end - _BASE}
    return {
        "segments": [_segment(left, places, space.end)] if space.end > _BASE else [],
        "device_traces": [[first, *trace]],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _event(action, address, record, time):
    return {
        "action": action, "addr": address, "size": record.bytes if record else 0, "stream": 0,
        "time_us": time, "frames": _frames(record) if record and action == "alloc" else [],
    }  # fmt: skip


def _frames(record):
    return [{"name": record.op, "filename": record.name or record.module or record.stage, "line": 0}]


def _segment(records, places, end):
    blocks, at = [], _BASE
    for record in sorted(records, key=lambda r: places[id(r)]):
        address = places[id(record)]
        if address > at:
            blocks.append(_block(at, address - at, "inactive", []))
        blocks.append(_block(address, record.bytes, "active_allocated", _frames(record)))
        at = address + record.bytes
    if end > at:
        blocks.append(_block(at, end - at, "inactive", []))
    held = sum(record.bytes for record in records)
    return {
        "device": 0, "address": _BASE, "total_size": end - _BASE, "allocated_size": held,
        "active_size": held, "requested_size": held, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
    }  # fmt: skip


def _block(address, size, state, frames):
    return {
        "address": address, "size": size, "requested_size": size, "state": state, "frames": frames,
    }  # fmt: skip


class _Space:
    """Assigns addresses: the lowest free range that is large enough."""

    def __init__(self):
        self.holes = []
        self.end = _BASE

    def take(self, size):
        for index, (start, stop) in enumerate(self.holes):
            if stop - start >= size:
                self.holes[index : index + 1] = [(start + size, stop)] if stop - start > size else []
                return start
        self.end += size
        return self.end - size

    def give(self, start, size):
        self.holes.append((start, start + size))
        self.holes.sort()
        merged = []
        for low, high in self.holes:
            if merged and merged[-1][1] == low:
                merged[-1] = (merged[-1][0], high)
            else:
                merged.append((low, high))
        self.holes = merged
