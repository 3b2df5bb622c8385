//! Live bytes over the ops as an SVG: stacked areas by class, the budget, the peak.
//!
//! The colours are Okabe and Ito's, which can be distinguished with any kind of colour vision, on
//! an opaque background. If ops share a column, the highest is drawn, so that no peak is lost.

use std::fmt::Write as _;

use fitgpt_model::report::PhaseTimeline;
use fitgpt_program::{TensorClass, units::Bytes};
use unicode_width::UnicodeWidthStr as _;

use super::{
    chart::{Chart, Panel, PanelPeak, columns},
    layout::{BOTTOM, HEIGHT, LEFT, PanelArea, Span, TOP, WIDTH, panel_areas},
    scale::{Scale, figure},
};
use crate::words;

const LEGEND: u64 = 80; // below the plot
const LEGEND_ROW: u64 = 22;
const LEGEND_COLUMN: u64 = 200;

/// The colour of a class.
pub(crate) const fn colour(class: TensorClass) -> &'static str {
    match class {
        TensorClass::Parameter => "#0072B2",
        TensorClass::Gradient => "#56B4E9",
        TensorClass::Optimizer => "#009E73",
        TensorClass::Activation => "#E69F00",
        TensorClass::Logits => "#D55E00",
        TensorClass::Scratch => "#CC79A7",
        TensorClass::Input => "#F0E442",
    }
}

const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Noto Sans CJK SC',\
'Noto Sans CJK JP','PingFang SC','Hiragino Sans','Microsoft YaHei',sans-serif;font-size:13px;\
fill:#1f2328}.title{font-size:18px;font-weight:600}.name{font-size:15px;font-weight:600}\
.soft{fill:#57606a}.strong{font-weight:600}.right{text-anchor:end}.middle{text-anchor:middle}";

/// The picture.
pub(crate) fn draw(chart: &Chart) -> String {
    let scale = Scale::new(chart.highest(), HEIGHT);
    let panels = panel_areas(chart);
    let classes = chart.classes();
    let height = BOTTOM + LEGEND + legend_rows(&classes, &panels) * LEGEND_ROW + 44;

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" xml:lang=\"{}\">\n",
        words::lang().code()
    );
    let (title, subtitle) = (chart.title(), chart.subtitle());
    let _ = writeln!(out, "<title>{}</title>", escaped(&title));
    let _ = writeln!(out, "<style>{STYLE}</style>");
    out.push_str(
        "<defs><pattern id=\"overhead\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"1.5\" height=\"6\" fill=\"#57606a\"/>\
         </pattern></defs>\n",
    );
    let _ = writeln!(
        out,
        "<rect x=\"0.5\" y=\"0.5\" width=\"{}.0\" height=\"{}.0\" rx=\"8\" fill=\"#ffffff\" \
         stroke=\"#d0d7de\"/>",
        WIDTH - 1,
        height - 1
    );
    text(&mut out, (24, 38), "title", &title);
    text(&mut out, (24, 62), "soft", &subtitle);
    axis(&mut out, &scale, &panels);
    for (panel, area) in chart.panels.iter().zip(&panels) {
        draw_panel(&mut out, panel, area, &scale);
        legend(&mut out, panel, area, &classes, BOTTOM + LEGEND);
    }
    text(&mut out, (24, height - 18), "soft", &words::plan::how_drawn());
    out.push_str("</svg>\n");
    out
}

fn axis(out: &mut String, scale: &Scale, panels: &[PanelArea]) {
    for area in panels {
        for Span { x, width } in &area.spans {
            rect(out, (*x, TOP), (*width, HEIGHT), "#f6f8fa");
        }
    }
    for (bytes, label) in scale.ticks() {
        let y = BOTTOM * 10 - scale.tenths(bytes);
        let label_y = tenths(y + 45);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{label_y}\" class=\"soft right\">{label}</text>",
            LEFT - 8
        );
        for area in panels {
            line(out, (area.x, y), (area.x + area.width, y), "stroke=\"#d8dee4\"");
        }
    }
}

fn draw_panel(out: &mut String, panel: &Panel, area: &PanelArea, scale: &Scale) {
    let x = area.x;
    let end = x + area.width;
    text(out, (x, 98), "name", &panel.name());
    text(out, (x, 118), "soft", &panel.verdict());
    for (timeline, span) in panel.timelines.iter().zip(&area.spans) {
        areas(out, timeline, span, scale);
        let middle = span.x + span.width / 2;
        text(out, (middle, BOTTOM + 20), "middle", &panel.phase(timeline.name));
        let peak = timeline.peak().map_or(Bytes::ZERO, |peak| peak.bytes);
        text(out, (middle, BOTTOM + 37), "middle", &format!("≤ {}", figure(peak)));
        let ops = words::plan::ops(timeline.ops.len());
        text(out, (middle, BOTTOM + 54), "soft middle", &ops);
    }
    line(out, (x, BOTTOM * 10), (end, BOTTOM * 10), "stroke=\"#1f2328\"");

    let usable = panel.report.device.usable_bytes;
    let [_, overhead] = panel.report.overhead.range();
    let budget = BOTTOM * 10 - scale.tenths(usable);
    let is_drawn = budget > TOP * 10;
    let label = words::plan::budget(figure(usable));
    let peak = panel.peak();
    let peak_x = peak.as_ref().map_or(x, |peak| peak_x(peak, panel, area));
    // The budget's label must not overlap the peak's.
    let (label_x, side) =
        if peak_x < x + area.width / 2 { (end - 4, "strong right") } else { (x + 4, "strong") };
    if is_drawn {
        let low = BOTTOM * 10 - scale.tenths(usable.saturating_sub(overhead));
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"url(#overhead)\" \
             fill-opacity=\"0.45\"/>",
            tenths(budget),
            area.width,
            tenths(low - budget),
        );
        line(out, (x, budget), (end, budget), "stroke=\"#1f2328\" stroke-width=\"2\"");
        text(out, (label_x, (budget - 70) / 10), side, &label);
    } else {
        text(out, (label_x, TOP + 18), side, &format!("↑ {label}"));
    }
    if let Some(peak) = peak {
        let budget = is_drawn.then_some(budget);
        name_peak(out, panel, area, (&peak, peak_x), scale, budget);
    }
}

/// The classes of a phase, each up to its sum with those below it, painted from the topmost down,
/// and only at ops that have any of it.
fn areas(out: &mut String, timeline: &PhaseTimeline, span: &Span, scale: &Scale) {
    let shown = columns(timeline, span.width);
    for class in TensorClass::ALL.into_iter().rev() {
        let index = class as usize;
        let mut path = String::new();
        let mut height = 0; // of the previous column; 0 if no area is open
        for (x, op) in (span.x..).zip(&shown) {
            let bytes = &timeline.profile.by_op[*op];
            let sum = bytes[..=index].iter().copied().sum();
            let here = if bytes[index] > Bytes::ZERO { scale.tenths(sum) } else { 0 };
            if here == height {
                continue;
            }
            let _ = match (height, here) {
                (0, _) => {
                    write!(path, "M{x} {}V{}", tenths(BOTTOM * 10), tenths(BOTTOM * 10 - here))
                }
                (_, 0) => write!(path, "H{x}V{}Z", tenths(BOTTOM * 10)),
                _ => write!(path, "H{x}V{}", tenths(BOTTOM * 10 - here)),
            };
            height = here;
        }
        if height > 0 {
            let _ = write!(path, "H{}V{}Z", span.x + span.width, tenths(BOTTOM * 10));
        }
        if !path.is_empty() {
            let _ = writeln!(out, "<path fill=\"{}\" d=\"{path}\"/>", colour(class));
        }
    }
}

/// The middle of the op with the peak.
fn peak_x(peak: &PanelPeak, panel: &Panel, area: &PanelArea) -> u64 {
    let span = &area.spans[peak.timeline];
    let ops = panel.timelines[peak.timeline].ops.len() as u64;
    span.x + (2 * u64::from(peak.peak.at.0) + 1) * span.width / (2 * ops.max(1))
}

fn name_peak(
    out: &mut String,
    panel: &Panel,
    area: &PanelArea,
    (peak, x): (&PanelPeak, u64),
    scale: &Scale,
    budget: Option<u64>,
) {
    let timeline = &panel.timelines[peak.timeline];
    let at = peak.peak.at;
    let first = words::plan::peak(figure(peak.peak.bytes));
    let phase = words::names::phase(timeline.name);
    let second = words::plan::op_of(phase, at.0, timeline.ops[at.index()]);
    let width = columns_of(&second, 13).max(columns_of(&first, 13)) + 16;
    let height = 42;
    let y = BOTTOM * 10 - scale.tenths(peak.peak.bytes);

    // Above the peak, clear of the budget's line and label.
    let mut top = (y / 10).saturating_sub(height + 12);
    if let Some(budget) = budget.map(|budget| budget / 10) {
        if (top..top + height + 4).contains(&budget) || (budget..budget + 4).contains(&top) {
            top = budget - height - 5;
        }
        let reaches_over = width > area.width / 2;
        if reaches_over && (top..top + height).contains(&(budget - 12)) {
            top = budget - height - 22;
        }
    }
    let top = top.max(TOP + 2);
    let rightmost = area.x + area.width - width.min(area.width);
    let left = (x.saturating_sub(24)).clamp(area.x, rightmost);
    let _ = writeln!(
        out,
        "<path d=\"M{x} {}V{}\" stroke=\"#1f2328\" fill=\"none\"/>",
        tenths(y),
        top + height
    );
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"4\" \
         fill=\"#ffffff\" fill-opacity=\"0.94\" stroke=\"#1f2328\"/>"
    );
    text(out, (left + 8, top + 17), "strong", &first);
    text(out, (left + 8, top + 34), "", &second);
    let _ = writeln!(
        out,
        "<circle cx=\"{x}\" cy=\"{}\" r=\"4\" fill=\"#ffffff\" stroke=\"#1f2328\" \
         stroke-width=\"2\"/>",
        tenths(y)
    );
}

fn legend_rows(classes: &[TensorClass], panels: &[PanelArea]) -> u64 {
    let columns = panels.first().map_or(1, |area| (area.width / LEGEND_COLUMN).max(1));
    (classes.len() as u64 + 1).div_ceil(columns) + 1
}

/// The bytes of each class at the peak.
fn legend(out: &mut String, panel: &Panel, area: &PanelArea, classes: &[TensorClass], top: u64) {
    let columns = (area.width / LEGEND_COLUMN).max(1);
    let width = area.width / columns;
    let peak = panel.peak();
    let at_peak = peak.map_or([Bytes::ZERO; 7], |peak| peak.peak.classes);
    let mut entries: Vec<_> = classes
        .iter()
        .map(|class| {
            let name = words::names::class(*class);
            (Some(colour(*class)), name, at_peak[*class as usize])
        })
        .collect();
    entries.push((None, words::plan::at_the_peak(), at_peak.iter().copied().sum()));
    let rows = (entries.len() as u64).div_ceil(columns);
    for (index, (fill, name, bytes)) in (0..).zip(entries) {
        let (column, row) = (index / rows, index % rows);
        let (x, y) = (area.x + column * width, top + row * LEGEND_ROW);
        let style = if fill.is_some() { "" } else { "strong " };
        if let Some(fill) = fill {
            rect(out, (x, y), (14, 14), fill);
        }
        text(out, (x + 22, y + 12), style.trim_end(), &name);
        let right = x + width - if column + 1 < columns { 24 } else { 0 };
        text(out, (right, y + 12), &format!("{style}right"), &figure(bytes));
    }
    let y = top + rows * LEGEND_ROW;
    rect(out, (area.x, y), (14, 14), "url(#overhead)");
    text(out, (area.x + 22, y + 12), "", &panel.overhead());
}

/// The approximate width of `text`, rather too large: fonts differ.
fn columns_of(text: &str, size: u64) -> u64 {
    text.width() as u64 * size * 58 / 100
}

fn text(out: &mut String, (x, y): (u64, u64), class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\"{class}>{}</text>", escaped(words));
}

fn rect(out: &mut String, (x, y): (u64, u64), (width, height): (u64, u64), fill: &str) {
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
    );
}

/// From one point to another; x in units, y in tenths.
fn line(out: &mut String, from: (u64, u64), to: (u64, u64), style: &str) {
    let _ = writeln!(
        out,
        "<path d=\"M{} {}L{} {}\" {style} fill=\"none\"/>",
        from.0,
        tenths(from.1),
        to.0,
        tenths(to.1)
    );
}

/// `123`, `123.4`.
fn tenths(value: u64) -> String {
    match value % 10 {
        0 => (value / 10).to_string(),
        rest => format!("{}.{rest}", value / 10),
    }
}

/// `text` escaped for XML, without characters that XML does not allow.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
