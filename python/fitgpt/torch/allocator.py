"""PyTorch's caching allocator, simulated over the allocations and frees of a run.

A card must hold what the allocator has reserved, not only what tensors use. The allocator rounds sizes
up to 512 bytes, takes memory from the driver in segments, hands out the smallest free block that is
large enough, and splits off the rest unless it is too small. The rules and constants are those of
`c10/cuda/CUDACachingAllocator.cpp`. `PYTORCH_CUDA_ALLOC_CONF` sets `expandable_segments`,
`max_split_size_mb` and `garbage_collection_threshold`.

Simplified: one stream. After memory has run short, an expandable segment gives back whole pages of its
free blocks and maps them again when it uses them; where these lie is not followed.
"""

import bisect
import os
from dataclasses import dataclass

import torch

MIB = 1 << 20
SMALL = MIB  # requests up to this size come from the pool of small blocks
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB  # for requests below `OWN_SEGMENT`
OWN_SEGMENT = 10 * MIB
ROUND_SEGMENT = 2 * MIB
ROUND_BLOCK = 512
# How much larger than a request a block may be if it is not to be split (`max_non_split_rounding_mb`).
MOST_UNSPLIT = 20 * MIB


def cublas_workspace_bytes(capability):
    """What cuBLAS gets for each thread that multiplies (`aten/src/ATen/cuda/CublasHandlePool.cpp`).

    Hopper gets 32 MiB, and Blackwell too from PyTorch 2.13 on; not up to 2.10, as the code of their builds
    shows. 2.11 and 2.12 were not looked at: the larger counts.
    """
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    is_large = tuple(capability) == (9, 0) if version <= (2, 10) else tuple(capability) >= (9, 0)
    return 32 * MIB if is_large else 2 * 4 * MIB + 8 * 16 * 1024


@dataclass(frozen=True)
class Settings:
    """The allocator's settings that the simulation knows."""

    expandable_segments: bool = False
    max_split_size_mb: float = float("inf")
    garbage_collection_threshold: float = 0.0

    @classmethod
    def of_environment(cls, notes=None):
        text = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
        found = {}
        for part in filter(None, text.replace(" ", "").split(",")):
            name, _, value = part.partition(":")
            if name == "expandable_segments":
                found[name] = value == "True"
            elif name in ("max_split_size_mb", "garbage_collection_threshold"):
                found[name] = float(value)
            elif notes is not None:
                notes.add(f"allocator setting `{name}`", "allocator-setting")
        return cls(**found)


class OutOfMemory(Exception):
    """A request that the card cannot hold; `requested` is the segment it would need."""

    def __init__(self, requested, allocated, reserved):
        super().__init__(f"{requested} bytes requested with {allocated} allocated, {reserved} reserved")
        self.requested, self.allocated, self.reserved = requested, allocated, reserved


class _Block:
    __slots__ = ("address", "size", "pool", "before", "after", "is_free", "unmapped", "age")

    def __init__(self, address, size, pool):
        self.address, self.size, self.pool = address, size, pool
        self.before = self.after = None
        self.is_free = False
        self.unmapped = 0
        self.age = 0

    def is_whole_segment(self):
        return self.before is None and self.after is None


class _Pool:
    """Free blocks by size, then by address."""

    def __init__(self, is_small):
        self.is_small = is_small
        self.keys, self.blocks = [], {}
        self.tail = None  # the last block of an expandable segment
        self.searches = 0

    def add(self, block):
        key = (block.size, block.address)
        bisect.insort(self.keys, key)
        self.blocks[key] = block
        block.is_free, block.age = True, self.searches

    def remove(self, block):
        key = (block.size, block.address)
        del self.keys[bisect.bisect_left(self.keys, key)], self.blocks[key]
        block.is_free = False

    def best(self, size):
        index = bisect.bisect_left(self.keys, (size, -1))
        return self.blocks[self.keys[index]] if index < len(self.keys) else None


class Allocator:
    """Simulates one card; `limit` is the most that it can reserve."""

    def __init__(self, settings=Settings(), limit=None):
        self.settings, self.limit = settings, limit
        self.most_split = settings.max_split_size_mb * MIB
        self.small, self.large = _Pool(True), _Pool(False)
        self.allocated = self.reserved = 0
        self.peak_allocated = self.peak_reserved = 0
        self.reserved_at_peak = 0  # when the most was allocated
        self._end = 0
        self._next_event = 0
        self._held = {}

    @property
    def fragmented_bytes(self):
        """Reserved but not allocated, when the most was allocated."""
        return self.reserved_at_peak - self.peak_allocated

    def follow(self, events):
        """Applies the events since the last call: `(kind, record or bytes, …)` as `Live` writes them."""
        for event in events[self._next_event :]:
            self._next_event += 1
            kind = event[0]
            if kind == "allocate":
                self._held[id(event[1])] = self.allocate(event[1].bytes)
            elif kind == "free":
                self.free(self._held.pop(id(event[1])))
            elif kind == "take over":
                self._held[id(event[2])] = self._held.pop(id(event[1]))
            elif kind == "workspace":
                self.allocate(event[1])
            elif kind == "empty cache":
                self.release_cached()
            elif kind == "reset peak":
                self.peak_allocated, self.peak_reserved = self.allocated, self.reserved
        return self

    def allocate(self, size):
        size = max(ROUND_BLOCK, -(-size // ROUND_BLOCK) * ROUND_BLOCK)
        pool = self.small if size <= SMALL else self.large
        pool.searches += 1
        block = self._found(pool, size) or self._segment(pool, size)
        rest = block.size - size
        if self._is_split(pool, size, rest):
            self._split(block, size)
        block.is_free = False
        self.allocated += block.size
        if self.allocated > self.peak_allocated:
            self.peak_allocated, self.reserved_at_peak = self.allocated, self.reserved
        return block

    def free(self, block):
        self.allocated -= block.size
        pool = block.pool
        for other in (block.before, block.after):
            if other is not None and other.is_free:
                pool.remove(other)
                self._merge(block, other)
        pool.add(block)

    def release_cached(self):
        """Returns segments without a used block to the driver, or free pages of expandable ones."""
        for pool in (self.small, self.large):
            for block in list(pool.blocks.values()):
                if self.settings.expandable_segments:
                    page = SMALL_SEGMENT if pool.is_small else LARGE_SEGMENT
                    first = -(-block.address // page)
                    pages = max(0, (block.address + block.size) // page - first)
                    self.reserved -= max(0, pages * page - block.unmapped)
                    block.unmapped = max(block.unmapped, pages * page)
                elif block.is_whole_segment():
                    pool.remove(block)
                    self.reserved -= block.size

    def _found(self, pool, size):
        block = pool.best(size)
        if block is not None and self.settings.expandable_segments and block is pool.tail:
            # The block that can grow counts as the largest.
            index = bisect.bisect_left(pool.keys, (size, -1)) + 1
            if index < len(pool.keys):
                block = pool.blocks[pool.keys[index]]
        if block is None:
            return None
        if size < self.most_split <= block.size:
            return None
        if size >= self.most_split and block.size >= size + MOST_UNSPLIT:
            return None
        pool.remove(block)
        used = min(block.unmapped, size)
        if used:
            self._reserve(used)
            block.unmapped -= used
        return block

    def _segment(self, pool, size):
        if self.settings.expandable_segments:
            return self._grown(pool, size)
        if pool.is_small:
            segment = SMALL_SEGMENT
        elif size < OWN_SEGMENT:
            segment = LARGE_SEGMENT
        else:
            segment = -(-size // ROUND_SEGMENT) * ROUND_SEGMENT
        self._collect_garbage()
        self._reserve(segment)
        block = _Block(self._end, segment, pool)
        self._end += segment
        return block

    def _grown(self, pool, size):
        """Maps more pages at the end of an expandable segment; each pool has one."""
        page = SMALL_SEGMENT if pool.is_small else LARGE_SEGMENT
        tail = pool.tail
        if tail is None:
            start = self._end = -(-self._end // page) * page
            self._end += 1 << 48  # addresses that nothing else uses
            tail = _Block(start, 0, pool)
        elif tail.is_free:
            pool.remove(tail)
            if tail.unmapped:
                self._reserve(tail.unmapped)
                tail.unmapped = 0
        else:
            new = _Block(tail.address + tail.size, 0, pool)
            tail.after, new.before = new, tail
            tail = new
        more = -(-(size - tail.size) // page) * page
        self._reserve(more)
        tail.size += more
        pool.tail = tail
        return tail

    def _reserve(self, size):
        if self.limit is not None and self.reserved + size > self.limit:
            self.release_cached()
            if self.reserved + size > self.limit:
                raise OutOfMemory(size, self.allocated, self.reserved)
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def _collect_garbage(self):
        """Frees whole segments that have not been used for long, if a limit and a threshold are set."""
        threshold = self.settings.garbage_collection_threshold * (self.limit or 0)
        if not threshold or self.reserved <= threshold:
            return
        target, freed = self.reserved - threshold, 0
        while freed < target:
            old = [b for b in self.large.blocks.values() if b.is_whole_segment()]
            ages = [self.large.searches - block.age for block in old]
            least = sum(ages) / len(ages) if ages else 0
            old = [block for block, age in zip(old, ages) if age and age >= least]
            if not old:
                return
            for block in old[: None if freed < target else 0]:
                self.large.remove(block)
                self.reserved -= block.size
                freed += block.size

    def _is_split(self, pool, size, rest):
        if pool.is_small or self.settings.expandable_segments:
            return rest >= ROUND_BLOCK
        return size < self.most_split and rest > SMALL

    def _split(self, block, size):
        rest = _Block(block.address + size, block.size - size, block.pool)
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        rest.unmapped, block.unmapped = block.unmapped, 0
        if block.pool.tail is block:
            block.pool.tail = rest
        block.pool.add(rest)

    def _merge(self, block, other):
        if other is block.before:
            block.address, block.before = other.address, other.before
            if other.before is not None:
                other.before.after = block
        else:
            block.after = other.after
            if other.after is not None:
                other.after.before = block
        block.size += other.size
        block.unmapped += other.unmapped
        if block.pool.tail is other:
            block.pool.tail = block
