//! The layout of a chart, in whole units.

use fitgpt_model::report::PhaseTimeline;

use super::chart::{Chart, Panel};

pub(super) const WIDTH: u64 = 960;
pub(super) const LEFT: u64 = 72; //      the axis' labels
const RIGHT: u64 = 20;
const BETWEEN: u64 = 36; //              two panels
pub(super) const TOP: u64 = 132; //      below titles and names
pub(super) const HEIGHT: u64 = 320; //   of the plot
pub(super) const BOTTOM: u64 = TOP + HEIGHT;
const BETWEEN_PHASES: u64 = 6;
const NARROWEST_PHASE: u64 = 76; // so that its name fits below it

/// Horizontal extent of a phase.
pub(super) struct Span {
    pub(super) x: u64,
    pub(super) width: u64,
}

/// Horizontal extent of a panel's plot, and its phases.
pub(super) struct PanelArea {
    pub(super) x: u64,
    pub(super) width: u64,
    pub(super) spans: Vec<Span>,
}

/// The plots, side by side.
pub(super) fn panel_areas(chart: &Chart) -> Vec<PanelArea> {
    let count = (chart.panels.len() as u64).max(1);
    let width = (WIDTH - LEFT - RIGHT - (count - 1) * BETWEEN) / count;
    let area = |(index, panel): (u64, &Panel)| {
        let x = LEFT + index * (width + BETWEEN);
        PanelArea { x, width, spans: spans(&panel.timelines, x, width) }
    };
    (0..).zip(&chart.panels).map(area).collect()
}

/// Every op has the same width, unless its phase would be too narrow for its name.
fn spans(timelines: &[PhaseTimeline], x: u64, width: u64) -> Vec<Span> {
    let count = timelines.len() as u64;
    let free = width - count.saturating_sub(1) * BETWEEN_PHASES;
    let ops = |timeline: &PhaseTimeline| timeline.ops.len() as u64;
    let narrowest = NARROWEST_PHASE.min(free / count.max(1));
    let share =
        |timeline: &PhaseTimeline, free: u64, all: u64| (free * ops(timeline)).div_ceil(all.max(1));
    let all: u64 = timelines.iter().map(ops).sum();
    let is_narrow = |timeline: &&PhaseTimeline| share(timeline, free, all) < narrowest;
    let narrow = timelines.iter().filter(is_narrow);
    let rest = free - narrow.clone().count() as u64 * narrowest;
    let all_of_rest = all - narrow.map(ops).sum::<u64>();
    let mut spans: Vec<Span> = Vec::new();
    let mut at = x;
    for timeline in timelines {
        let is_last = spans.len() + 1 == timelines.len();
        let width = match is_narrow(&timeline) {
            _ if is_last => x + width - at,
            true => narrowest,
            false => rest * ops(timeline) / all_of_rest.max(1),
        };
        spans.push(Span { x: at, width });
        at += width + BETWEEN_PHASES;
    }
    spans
}
