"""The report as a page: live bytes over the ops of each phase, in the colours of `plan --html`."""

import html
import json
import pathlib

from . import cards
from .attribution import KINDS
from .report import in_one_unit, verdict
from .words import language, named, say

_HERE = pathlib.Path(__file__).parent
_COLOURS = dict(zip(KINDS, (
    "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#F0E442", "#999999",
)))  # fmt: skip
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 960, 72, 936, 84, 440, 12
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:18px;font-weight:600}"
    ".soft{fill:#57606a}.right{text-anchor:end}.middle{text-anchor:middle}.strong{font-weight:600}"
)


def write(measured, path, card=None):
    curves = [(name, _columns(measured.curve(name))) for name in measured.phases]
    curves = [(name, points) for name, points in curves if points]
    if not curves:
        raise ValueError(say("page-no-phase"))
    kinds = [k for k in KINDS if any(p[1].get(k) for _, points in curves for p in points)]
    spans = _spans([len(points) for _, points in curves])
    data = {
        "edges": [_TOP, _BOTTOM],
        "classes": [{"name": named("kind", k), "colour": _COLOURS[k]} for k in kinds],
        "sum": say("page-sum"),
        "panels": [{"name": "PyTorch", "phases": [
            _data(name, points, span, kinds) for (name, points), span in zip(curves, spans)
        ]}],
    }  # fmt: skip
    size = in_one_unit(measured.peak_bytes)
    title = say("page-title", size=size(measured.peak_bytes), device=measured.device)
    if card is not None:
        title = verdict(measured, card)
    page = (
        f'<!DOCTYPE html>\n<html lang="{language()}">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_read('page.css')}</style>\n</head>\n"
        f"<body>\n<main>\n<p>{html.escape(say('page-hint'))}</p>\n"
        f"{_svg(title, curves, spans, kinds, card, size)}{_tables(measured, size)}</main>\n"
        '<div id="tip" hidden></div>\n<script type="application/json" id="chart">'
        f"{json.dumps(data).replace('<', chr(92) + 'u003c')}</script>\n"
        f"<script>\n{_read('page.js')}</script>\n</body>\n</html>\n"
    )
    pathlib.Path(path).write_text(page, encoding="utf-8")


def _read(name):
    return (_HERE / name).read_text(encoding="utf-8")


def _columns(points, most=400):
    """At most `most` ops: of those in the same column, the one with the most bytes."""
    step = -(-len(points) // most)
    columns = [points[i : i + step] for i in range(0, len(points), step or 1)]
    return [max(column, key=lambda p: sum(p[1].values())) for column in columns]


def _spans(counts):
    """The position of each phase, `(x, width)`, at least as wide as its name."""
    free = _RIGHT - _LEFT - _GAP * (len(counts) - 1)
    weights = [max(count, sum(counts) / 12) for count in counts]
    spans, x = [], float(_LEFT)
    for weight in weights:
        width = free * weight / sum(weights)
        spans.append((round(x, 1), round(width, 1)))
        x += width + _GAP
    return spans


def _data(name, points, span, kinds):
    names = sorted({op for op, _ in points})
    return {
        "name": named("phase", name), "x": span[0], "width": span[1], "names": names,
        "ops": [names.index(op) for op, _ in points],
        "bytes": [[held.get(kind, 0) for kind in kinds] for _, held in points],
    }  # fmt: skip


def _svg(title, curves, spans, kinds, card, size):
    budget = None if card is None else cards.find(card).usable_bytes
    highest = max(sum(held.values()) for _, points in curves for _, held in points)
    top = max(highest, budget or 0) * 1.08
    y = lambda held: round(_BOTTOM - (_BOTTOM - _TOP) * held / top, 1)  # noqa: E731
    height = _BOTTOM + 60 + 22 * -(-len(kinds) // 4) + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="8" fill="#ffffff" '
        'stroke="#d0d7de"/>',
        f'<text x="24" y="38" class="strong">{html.escape(title)}</text>',
    ]
    for tick in range(5):
        held = top * tick / 5
        out.append(f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y(held)}" y2="{y(held)}" stroke="#d0d7de"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{y(held) + 4}" class="soft right">{size(held)}</text>'
                   if tick else "")  # fmt: skip
    for (name, points), (x, width) in zip(curves, spans):
        out += _areas(points, x, width, kinds, y)
        middle = x + width / 2
        peak = max(sum(held.values()) for _, held in points)
        out.append(f'<text x="{middle}" y="{_BOTTOM + 20}" class="middle">{html.escape(named("phase", name))}</text>')
        out.append(f'<text x="{middle}" y="{_BOTTOM + 38}" class="soft middle">≤ {size(peak)}</text>')
    if budget is not None:
        out.append(f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y(budget)}" y2="{y(budget)}" '
                   'stroke="#cf222e" stroke-dasharray="6 4"/>')  # fmt: skip
        out.append(f'<text x="{_RIGHT}" y="{y(budget) - 6}" class="strong right">{size(budget)}</text>')
    for index, kind in enumerate(kinds):
        x, row = 72 + 216 * (index % 4), _BOTTOM + 66 + 22 * (index // 4)
        out.append(f'<rect x="{x}" y="{row - 11}" width="12" height="12" fill="{_COLOURS[kind]}"/>')
        out.append(f'<text x="{x + 20}" y="{row}">{named("kind", kind)}</text>')
    return "\n".join([*out, "</svg>\n"])


def _areas(points, x, width, kinds, y):
    """One stacked band for each kind, stepped like the bytes."""
    step = width / len(points)
    base = [0] * len(points)
    for kind in kinds:
        raised = [b + held.get(kind, 0) for b, (_, held) in zip(base, points)]
        if raised != base:
            yield f'<path fill="{_COLOURS[kind]}" d="{_band(base, raised, x, step, y)}"/>'
        base = raised


def _band(low, high, x, step, y):
    forth, back = [], []
    for index, (bottom, top) in enumerate(zip(low, high)):
        left, right = round(x + index * step, 1), round(x + (index + 1) * step, 1)
        forth.append(f"{left} {y(top)}L{right} {y(top)}")
        back.append(f"{right} {y(bottom)}L{left} {y(bottom)}")
    return "M" + "L".join([*forth, *reversed(back)]) + "Z"


def _tables(measured, size):
    out = []
    for name, phase in measured.phases.items():
        head = f"{named('phase', name)}: {size(phase.peak_bytes)} " + say("at-op", op=phase.peak_op)
        out.append(f'<h2>{html.escape(head)}</h2>\n<div class="wide"><table>')
        columns = map(html.escape, say("page-columns").split("|"))
        out.append("<tr>{}</tr>".format("".join(f'<th scope="col">{column}</th>' for column in columns)))
        for g in measured.alive(name)[:20]:
            cells = "".join(f'<td class="op">{html.escape(str(c))}</td>' for c in (
                g.module or say("outside-of-modules"), f"{g.op} ({named('stage', g.stage)})", g.form,
            ))  # fmt: skip
            out.append(f"<tr><td>{named('kind', g.kind)}</td><td>{size(g.bytes)}</td><td>{g.count}</td>{cells}</tr>")
        out.append("</table></div>")
    return "\n".join(out) + "\n"
