"""The report as text: phases, peaks, what is alive at the highest one, and the verdict."""

from . import cards


def size(count):
    for power, unit, digits in ((30, "GiB", 2), (20, "MiB", 1), (10, "KiB", 1)):
        if count >= 1 << power:
            return f"{count / (1 << power):.{digits}f} {unit}"
    return f"{count} B"


def in_one_unit(largest):
    """A `size` that writes every number in the unit of `largest`."""
    for power, unit, digits in ((30, "GiB", 2), (20, "MiB", 1)):
        if largest >= 1 << power:
            return lambda count: _in_unit(count / (1 << power), unit, digits)
    return size


def _in_unit(value, unit, digits):
    return f"{value:.{digits if value >= 0.1 or not value else digits + 1}f} {unit}"


def text(measured, card=None, groups=12):
    """The report as text; with `card`, the last line is the verdict."""
    if not measured.peak_bytes:
        return f"nothing was allocated on {measured.device}"
    size = in_one_unit(measured.peak_bytes)
    phases = list(measured.phases.values())
    highest = max(phases, key=lambda p: p.peak_bytes, default=measured.peak)
    if measured.peak_bytes > highest.peak_bytes:
        highest = measured.peak
    width = max([len(p.name) for p in phases], default=0)
    lines = [
        f"  {p.name:<{width}}  {size(p.peak_bytes):>11}  at {p.peak_op or 'its start'}" for p in phases
    ]
    if highest is measured.peak:
        lines.append(f"  outside any phase {size(highest.peak_bytes)}, at {highest.peak_op}")
    lines += ["", f"alive at the peak of {size(highest.peak_bytes)}:"]
    kinds = measured.by_kind(highest)
    lines.append("  " + " · ".join(f"{kind} {size(held)}" for kind, held in kinds.items()))
    alive = measured.alive(highest)
    lines += [f"  {size(g.bytes):>11}  {_line(g)}" for g in alive[:groups]]
    if len(alive) > groups:
        rest = sum(g.bytes for g in alive[groups:])
        lines.append(f"  {size(rest):>11}  {len(alive) - groups} more groups")
    lines += [f"note: {note}" for note in measured.notes]
    if measured.device == "cuda":
        lines += _fragmentation(measured, size)
    if card is not None:
        lines += ["", verdict(measured, card)]
    return "\n".join(lines)


def _fragmentation(measured, size):
    """One line if another setting of the allocator would reserve at least 1 % less."""
    reserved = measured.peak_reserved_bytes
    expandable = measured.allocator(expandable_segments=True).peak_reserved
    if expandable > 0.99 * reserved:
        return []
    return [
        f"fragmentation: {size(reserved)} reserved; with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        f"{size(expandable)}"
    ]


def _line(group):
    times = f"{group.count} × " if group.count > 1 else ""
    made = f" by {group.op} ({group.stage})" if group.kind in ("activations", "logits") else ""
    return f"{group.kind}: {group.module or 'outside of modules'}{made}, {times}{group.form}"


def verdict(measured, card):
    """One sentence: fits, tight or does not fit."""
    found = cards.find(card)
    words = {"fits": "fits", "tight": "tight", "no": "does not fit"}[measured.verdict(card)]
    reserved = measured.peak_reserved_bytes
    size = in_one_unit(reserved)
    low, high = size(found.context_low_bytes), size(found.context_high_bytes)
    return (
        f"{words}: {size(measured.peak_bytes)} of tensors, {size(reserved)} reserved by PyTorch's "
        f"allocator, plus {low} to {high} for the CUDA context, on {found.name} with "
        f"{size(found.usable_bytes)}"
    )
