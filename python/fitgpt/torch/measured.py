"""The result of `pretend`: phases, peaks, and what was alive at each peak."""

import contextlib
from types import SimpleNamespace

from . import cards
from .attribution import grouped
from .live import Phase


class Notes:
    """Notes on what was not counted exactly, each listed once."""

    def __init__(self):
        self._notes = {}

    def add(self, key, text):
        self._notes.setdefault(key, text)

    def __iter__(self):
        return iter(f"{key}: {text}" for key, text in self._notes.items())

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
        self.card = SimpleNamespace(
            total=lambda: 12 << 30,
            allocated=lambda: self._live.bytes,
            peak=lambda: self._live.whole.peak_bytes,
            reset_peak=lambda: None,
        )

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
                form=_form(record), count=0, bytes=0,
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
        """`"fits"`, `"tight"` or `"no"`, by the rules of `fitgpt plan`."""
        return cards.find(card).verdict(self.peak_bytes)

    def fits(self, card):
        """Whether the peak fits on `card` with the high estimate for context and libraries."""
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
