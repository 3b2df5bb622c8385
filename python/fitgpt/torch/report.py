"""The report as text: phases, peaks, what is alive at the highest one, and the verdict."""

from . import cards
from .words import columns, decimal, named, say


def size(count):
    for power, unit, digits in ((30, "GiB", 2), (20, "MiB", 1), (10, "KiB", 1)):
        if count >= 1 << power:
            return decimal(f"{count / (1 << power):.{digits}f} {unit}")
    return f"{count} B"


def in_one_unit(largest):
    """A `size` that writes every number in the unit of `largest`."""
    for power, unit, digits in ((30, "GiB", 2), (20, "MiB", 1)):
        if largest >= 1 << power:
            return lambda count: _in_unit(count / (1 << power), unit, digits)
    return size


def _in_unit(value, unit, digits):
    return decimal(f"{value:.{digits if value >= 0.1 or not value else digits + 1}f} {unit}")


def highest_phase(measured):
    """The phase with the peak, or the whole run if the peak is outside all phases."""
    highest = max(measured.phases.values(), key=lambda p: p.peak_bytes, default=measured.peak)
    return measured.peak if measured.peak_bytes > highest.peak_bytes else highest


def text(measured, card=None, groups=12):
    """The report as text; with `card`, the last line is the verdict."""
    if not measured.peak_bytes:
        return say("nothing-allocated", device=measured.device)
    lines = [*what_is_alive(measured, groups), *(say("note", text=note) for note in measured.notes)]
    if measured.device == "cuda":
        lines += fragmentation(measured)
    if card is not None:
        lines += ["", verdict(measured, card)]
    return "\n".join(lines)


def what_is_alive(measured, groups=12):
    """Lines with the peak of each phase, and what is alive at the highest one."""
    size = in_one_unit(measured.peak_bytes)
    phases = list(measured.phases.values())
    highest = highest_phase(measured)
    names = {p.name: named("phase", p.name) for p in phases}
    width = max(map(columns, names.values()), default=0)
    at = lambda p: say("at-op", op=p.peak_op) if p.peak_op else say("at-its-start")  # noqa: E731
    for p in phases:
        name = names[p.name] + " " * (width - columns(names[p.name]))
        yield f"  {name}  {size(p.peak_bytes):>11}  {at(p)}"
    if highest is measured.peak:
        yield "  " + say("outside-phases", size=size(highest.peak_bytes), op=highest.peak_op)
    yield from ("", say("alive-at-peak", size=size(highest.peak_bytes)))
    kinds = measured.by_kind(highest)
    yield "  " + " · ".join(f"{named('kind', kind)} {size(held)}" for kind, held in kinds.items())
    alive = measured.alive(highest)
    yield from (f"  {size(g.bytes):>11}  {_line(g)}" for g in alive[:groups])
    if len(alive) > groups:
        rest = sum(g.bytes for g in alive[groups:])
        yield f"  {size(rest):>11}  " + say("more-groups", count=len(alive) - groups)


def fragmentation(measured):
    """One line if another setting of the allocator would reserve at least 1 % less."""
    size = in_one_unit(measured.peak_bytes)
    reserved = measured.peak_reserved_bytes
    expandable = measured.allocator(expandable_segments=True).peak_reserved
    if expandable > 0.99 * reserved:
        return []
    return [say("fragmentation", reserved=size(reserved), expandable=size(expandable))]


def _line(group):
    times = f"{group.count} × " if group.count > 1 else ""
    made = ""
    if group.kind in ("activations", "logits"):
        made = " " + say("made-by", op=group.op, stage=named("stage", group.stage))
    return f"{named('kind', group.kind)}: {group.module or say('outside-of-modules')}{made}, {times}{group.form}"


def verdict(measured, card):
    """One sentence: fits, tight or does not fit."""
    found = cards.find(card)
    reserved = measured.peak_reserved_bytes
    size = in_one_unit(reserved)
    return say(
        "verdict", verdict=say(measured.verdict(card)), tensors=size(measured.peak_bytes), reserved=size(reserved),
        low=size(found.context_low_bytes), high=size(found.context_high_bytes), card=found.name,
        usable=size(found.usable_bytes),
    )  # fmt: skip
