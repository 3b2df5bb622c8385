"""The result of `pretend`: phases, peaks, and what was alive at each peak."""

import contextlib
import dataclasses
import functools
from types import SimpleNamespace

from . import cards
from .allocator import Allocator, OutOfMemory, Settings
from .attribution import grouped
from .live import Phase
from .words import say


class Notes:
    """Notes on what was not counted exactly, each listed once."""

    def __init__(self):
        self._notes = {}

    def add(self, key, message, **gaps):
        """Adds a message of `messages.py`; a gap that is a function is called when it is read."""
        self._notes.setdefault(key, (message, gaps))

    def __iter__(self):
        for key, (message, gaps) in self._notes.items():
            yield f"{key}: {say(message, **{k: v() if callable(v) else v for k, v in gaps.items()})}"

    def __len__(self):
        return len(self._notes)


class Measured:
    """The memory of everything that ran inside one `pretend`."""

    def __init__(self, counter):
        self._counter = counter
        self._live = counter.live
        self.device = counter.kind
        self.phases = {}
        self.notes = Notes()
        self._simulated = {}
        event = lambda kind: lambda: self._live.events.append((kind, None))  # noqa: E731
        # What `torch.cuda` answers inside.
        self.card = SimpleNamespace(
            total=lambda: counter.total_bytes,
            allocated=lambda: self._now().allocated,
            reserved=lambda: self._now().reserved,
            peak=lambda: self._now().peak_allocated,
            peak_reserved=lambda: self._now().peak_reserved,
            reset_peak=event("reset peak"),
            empty_cache=event("empty cache"),
        )

    @functools.cached_property
    def allocator_settings(self):
        """The settings of the environment, which scripts change before they first use the card.

        They are read when the allocator is first asked for, or by `settle`.
        """
        return Settings.of_environment(self.notes)

    def settle(self):
        """Fixes what later changes of the environment must not change."""
        _ = self.allocator_settings

    @functools.cached_property
    def _card_now(self):
        return Allocator(self.allocator_settings)

    @contextlib.contextmanager
    def phase(self, name):
        """A part of the run with its own peak; if entered again, the highest peak counts."""
        phase = self.phases.setdefault(name, Phase(name))
        live = self._live
        start = live.time
        phase.reach(live.bytes, None, live.time)
        live.active.append(phase)
        try:
            yield phase
        finally:
            live.active.remove(phase)
            phase.spans.append((start, live.time))
            self._counter.attribution.sort_out()

    @property
    def bytes(self):
        """Live bytes now."""
        return self._live.bytes

    @property
    def peak_bytes(self):
        """The most bytes alive at once, inside or outside any phase."""
        return self._live.whole.peak_bytes

    @property
    def peak(self):
        return self._live.whole

    @property
    def peak_allocated_bytes(self):
        """The most bytes that the allocator hands out: `torch.cuda.max_memory_allocated()`."""
        return self.allocator().peak_allocated

    @property
    def peak_reserved_bytes(self):
        """The most bytes that the allocator takes from the card: `torch.cuda.max_memory_reserved()`."""
        return self.allocator().peak_reserved

    def allocator(self, limit=None, **settings):
        """The simulated allocator after the run, with the environment's settings or these.

        `m.allocator(expandable_segments=True).peak_reserved`. With `limit`, a card that can reserve
        no more; raises `OutOfMemory` if that is too little.
        """
        chosen = dataclasses.replace(self.allocator_settings, **settings)
        key = (chosen, limit, len(self._live.events))
        if key not in self._simulated:
            if self.device == "cuda":
                peaks = [event for event in self._live.events if event[0] != "reset peak"]
                self._simulated[key] = Allocator(chosen, limit).follow(peaks)
            else:  # the host's allocator keeps nothing
                self._simulated[key] = SimpleNamespace(
                    peak_allocated=self.peak_bytes, peak_reserved=self.peak_bytes, fragmented_bytes=0
                )
        return self._simulated[key]

    def _now(self):
        return self._card_now.follow(self._live.events)

    def alive(self, phase=None):
        """Groups of tensors that were alive at a peak, largest first."""
        groups = {}
        for record in self._live.alive_at(self._phase(phase).peak_time):
            kind = self._counter.attribution.kind(record)
            made = kind if kind in _STATE else f"{record.op} in {record.stage}"
            module = grouped(record.name or "") if kind in _STATE else grouped(record.module)
            key = (kind, module, made, _form(record))
            group = groups.setdefault(key, SimpleNamespace(
                kind=kind, module=module, op=record.op, stage=record.stage,
                form=_form(record), shape=tuple(record.shape), count=0, bytes=0,
            ))  # fmt: skip
            group.count += 1
            group.bytes += record.bytes
        return sorted(groups.values(), key=lambda g: (-g.bytes, g.kind, g.module))

    def by_kind(self, phase=None):
        """Bytes at a peak by kind, largest first."""
        kinds = {}
        for group in self.alive(phase):
            kinds[group.kind] = kinds.get(group.kind, 0) + group.bytes
        return dict(sorted(kinds.items(), key=lambda item: -item[1]))

    def curve(self, phase):
        """A phase's last run, op by op: `(op, {kind: bytes})`."""
        start, end = self._phase(phase).spans[-1]
        kind = self._counter.attribution.kind
        changes = []
        for record in self._live.records:
            if record.born <= end and (record.died is None or record.died > start):
                changes.append((record.born, kind(record), record.bytes))
                if record.died is not None and record.died <= end:
                    changes.append((record.died, kind(record), -record.bytes))
        changes.sort(key=lambda change: change[0])
        held, index, points = {}, 0, []
        for time, op in self._live.curve:
            if not start < time <= end:
                continue
            while index < len(changes) and changes[index][0] <= time:
                _, name, size = changes[index]
                held[name] = held.get(name, 0) + size
                index += 1
            points.append((op, dict(held)))
        return points

    def verdict(self, card):
        """`"fits"`, `"tight"` or `"no"`: what the allocator reserves and CUDA's context, on `card`.

        A card that runs short makes the allocator return its cache; that is simulated.
        """
        found = cards.find(card)
        return found.verdict(lambda limit: self._fits_in(limit))

    def _fits_in(self, limit):
        if self.peak_bytes > limit:
            return False
        try:
            self.allocator(limit)
        except OutOfMemory:
            return False
        return True

    def fits(self, card):
        """Whether everything fits on `card` with the high estimate for CUDA's context."""
        return self.verdict(card) == "fits"

    def report(self, card=None):
        from .report import text

        return text(self, card)

    def html(self, path, card=None):
        """Writes a page with the live bytes over time and what is alive at each peak."""
        from .page import write

        write(self, path, card)

    def memory_viz(self, path):
        """Writes a snapshot that PyTorch's memory viewer opens."""
        from .snapshot import write

        write(self, path)

    def _phase(self, phase):
        if phase is None:
            return self._live.whole
        return self.phases[phase] if isinstance(phase, str) else phase


_STATE = ("parameters", "gradients", "optimizer state", "buffers")


def _form(record):
    return f"{tuple(record.shape)} {str(record.dtype).removeprefix('torch.')}"
