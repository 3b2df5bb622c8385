//! The chart as an HTML page: the same SVG, the bytes of the op under the pointer, and a table of
//! the phases. One file without external resources.

use std::fmt::Write as _;

use fitgpt_model::report::PhaseTimeline;
use fitgpt_program::{TensorClass, units::Bytes};
use serde_json::{Value, json};

use super::{
    chart::{Chart, Panel},
    layout::{BOTTOM, Span, TOP, panel_areas},
    scale::figure,
    svg::{self, colour, escaped},
};
use crate::words;

/// The page.
pub(crate) fn draw(chart: &Chart) -> String {
    let title = escaped(&chart.title());
    let mut tables = String::new();
    for panel in &chart.panels {
        let _ = write!(tables, "<h2>{}</h2>\n{}", escaped(&panel.name()), table(chart, panel));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"{lang}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n<p>{hint}</p>\n{svg}{tables}</main>\n\
         <div id=\"tip\" hidden></div>\n\
         <script type=\"application/json\" id=\"chart\">{data}</script>\n\
         <script>\n{script}</script>\n</body>\n</html>\n",
        lang = words::lang().code(),
        style = include_str!("../../../../python/fitgpt/torch/page.css"),
        hint = escaped(&words::plan::how_to_point()),
        svg = svg::draw(chart),
        data = data(chart).to_string().replace('<', "\\u003c"),
        script = include_str!("../../../../python/fitgpt/torch/page.js"),
    )
}

/// The phases of one engine: peak, op, classes.
fn table(chart: &Chart, panel: &Panel) -> String {
    let classes = chart.classes();
    let head = |text: String| format!("<th scope=\"col\">{}</th>", escaped(&text));
    let mut text = format!(
        "<div class=\"wide\"><table>\n<tr>{}{}",
        head(words::plan::phase()),
        head(words::plan::peak_bytes())
    );
    text.extend(classes.iter().map(|class| head(words::names::class(*class))));
    let op = escaped(&words::plan::peak_op());
    let _ = writeln!(text, "<th scope=\"col\" class=\"op\">{op}</th></tr>");
    for phase in &panel.report.phases {
        let name = escaped(&words::names::phase(phase.name));
        let high = if phase.name == panel.report.peak_phase { " class=\"high\"" } else { "" };
        let peak = figure(phase.peak_bytes);
        let _ = write!(text, "<tr><td>{name}</td><td{high}>{peak}</td>");
        for class in &classes {
            let _ = write!(text, "<td>{}</td>", figure(phase.classes[*class as usize]));
        }
        let op = escaped(&format!("{} {}", phase.at.index, phase.at.op));
        let _ = writeln!(text, "<td class=\"op\">{op}</td></tr>");
    }
    text.push_str("</table></div>\n");
    text
}

/// The data for the page's script.
fn data(chart: &Chart) -> Value {
    let classes = chart.classes();
    let named = |class: &TensorClass| json!({ "name": words::names::class(*class), "colour": colour(*class) });
    let panels = chart.panels.iter().zip(panel_areas(chart)).map(|(panel, area)| {
        let phases = panel.timelines.iter().zip(&area.spans);
        let phases = phases.map(|(timeline, span)| phase(timeline, span, &classes));
        json!({ "name": panel.name(), "phases": phases.collect::<Vec<_>>() })
    });
    json!({
        "edges": [TOP, BOTTOM],
        "classes": classes.iter().map(named).collect::<Vec<_>>(),
        "sum": words::plan::sum(),
        "panels": panels.collect::<Vec<_>>(),
    })
}

/// One phase: its ops as indices into a list of names, and their bytes by class.
fn phase(timeline: &PhaseTimeline, span: &Span, classes: &[TensorClass]) -> Value {
    let mut names: Vec<&str> = timeline.ops.clone();
    names.sort_unstable();
    names.dedup();
    let index = |op: &&str| names.binary_search(op).expect("every op is in the list");
    let ops: Vec<_> = timeline.ops.iter().map(index).collect();
    let bytes = |op: &[Bytes; 7]| classes.iter().map(|class| op[*class as usize]).collect();
    let bytes: Vec<Vec<Bytes>> = timeline.profile.by_op.iter().map(bytes).collect();
    json!({
        "name": words::names::phase(timeline.name),
        "x": span.x,
        "width": span.width,
        "names": names,
        "ops": ops,
        "bytes": bytes,
    })
}
