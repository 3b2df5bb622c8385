#!/usr/bin/env python3
"""Replays memory snapshots of real cards through the simulated allocator, and compares every address.

    PYTHONPATH=python tools/replay_snapshots.py SNAPSHOT…

A snapshot is a file of `torch.cuda.memory._dump_snapshot` without expandable segments. Its blocks and
segments at the start of the trace follow from those at its end. Then each request is made again:
the simulation must hand out the address that the card's allocator handed out, and take a segment exactly
when that took one. Only the addresses of new segments are read from the trace, because the driver
chooses them. Prints a table; `docs/compiled.md` has its sum.
"""

import argparse
import pathlib
import pickle
import sys

from fitgpt.torch.allocator import MIB, ROUND_BLOCK, SMALL, SMALL_SEGMENT, Allocator, _Block


class Plain(pickle.Unpickler):
    """Reads lists, dictionaries, texts and numbers, and nothing that could run code."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"the file refers to {module}.{name}")


class Difference(Exception):
    pass


class Replay(Allocator):
    """Begins with the segments and blocks of a card; takes new segments where the card took them."""

    def __init__(self, segments, held, larger):
        super().__init__()
        self.new, self.blocks, self.made = None, {}, set()
        for start, size in segments.items():
            pool = self.small if size == SMALL_SEGMENT else self.large
            self.reserved += size
            before, here, end = None, start, start + size
            starts = sorted(address for address in held if start <= address < end)
            for address, following in zip([*starts, end], [*starts[1:], end, end]):
                if address > here:
                    before = self._place(here, address - here, pool, before)
                    pool.add(before)
                if address < end:
                    taken = larger.get(address) or -(-max(held[address], 1) // ROUND_BLOCK) * ROUND_BLOCK
                    # The large pool has no free block this small: it is a rest that was not split off.
                    if not pool.is_small and following - address - taken <= SMALL:
                        taken = following - address
                    before = self.blocks[address] = self._place(address, taken, pool, before)
                    self.allocated += taken
                    here = address + taken
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def _place(self, address, size, pool, before):
        block = _Block(address, size, pool)
        block.before = before
        if before is not None:
            before.after = block
        return block

    def _segment(self, pool, size):
        if self.new is None:
            raise Difference("the card took no segment")
        self._end, expected = self.new
        self.new = None
        block = super()._segment(pool, size)
        if block.size != expected:
            raise Difference(f"a segment of {block.size} bytes, on the card {expected}")
        return block

    def rest_before(self, address):
        """The block that ends in a rest of up to 1 MiB before `address`, where we have a free block."""
        for block in self.large.blocks.values():
            offset = address - block.address
            if 0 < offset <= SMALL and block.before is not None:
                return block.before.address, block.before.size + offset
        return None

    def step(self, event):
        action, address, size = event["action"], event["addr"], event["size"]
        if action == "segment_alloc":
            self.new = address, size
        elif action == "segment_free":
            pool = self.small if size == SMALL_SEGMENT else self.large
            block = pool.blocks.get((size, address))
            if block is None or not block.is_whole_segment():
                raise Difference("the segment that the card returned is in use")
            pool.remove(block)
            self.reserved -= size
        elif action == "alloc":
            block = self.allocate(size)
            if self.new is not None:
                raise Difference("the card took a segment")
            if block.address != address:
                raise Difference(f"a block {block.address - address:+,} bytes away from the card's")
            self.blocks[address] = block
            self.made.add(address)
        elif action == "free_completed":
            self.free(self.blocks.pop(address))
        elif action not in ("free_requested", "snapshot"):
            raise Difference(f"`{action}` is not simulated")


def replay(path):
    with open(path, "rb") as file:
        snapshot = Plain(file).load()
    trace = max(snapshot["device_traces"], key=len)
    segments = {s["address"]: s["total_size"] for s in snapshot["segments"]}
    held = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                held[address] = block["size"]
            address += block["size"]
    at_the_end = dict(segments), dict(held)
    for event in reversed(trace):
        address, size = event["addr"], event["size"]
        if event["action"] == "alloc":
            del held[address]
        elif event["action"] == "free_completed":
            held[address] = size
        elif event["action"] == "segment_alloc":
            del segments[address]
        elif event["action"] == "segment_free":
            segments[address] = size
    larger = {}  # what a block of the start holds besides its request, when only the trace tells
    while True:
        card, requests, difference = Replay(segments, held, larger), 0, ""
        for number, event in enumerate(trace):
            found = event["action"] == "alloc" and card.rest_before(event["addr"])
            if found and found[0] in held and found[0] not in larger and found[0] not in card.made:
                break
            try:
                card.step(event)
            except Difference as error:
                found, difference = None, f"event {number}: {error}"
                break
            found = None
            requests += event["action"] == "alloc"
        if not found:
            break
        larger[found[0]] = found[1]
    if not difference:
        segments, held = at_the_end
        if card.reserved != sum(segments.values()):
            difference = "reserved bytes at the end"
        elif {address: block.size for address, block in card.blocks.items()} != held:
            difference = "blocks at the end"
    new = sum(event["action"] == "segment_alloc" for event in trace)
    return requests, new, card, difference, len(larger)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("snapshots", nargs="+", type=pathlib.Path)
    print("| snapshot | requests | new segments | peak allocated | peak reserved | rests from the trace | first difference |")
    print("|---|--:|--:|--:|--:|--:|---|")
    differ = False
    for path in parser.parse_args().snapshots:
        requests, new, card, difference, larger = replay(path)
        differ |= bool(difference)
        print(
            f"| {path.name} | {requests:,} | {new:,} | {card.peak_allocated / MIB:,.1f} "
            f"| {card.peak_reserved / MIB:,.1f} | {larger} | {difference or 'none'} |"
        )
    return differ


if __name__ == "__main__":
    sys.exit(main())
