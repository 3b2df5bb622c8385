//! The positions of things in a picture, in whole units.

use fitgpt_plan::report::PhaseTimeline;

use super::chart::{Chart, Panel};

pub(super) const WIDTH: u64 = 960;
pub(super) const LEFT: u64 = 72; //      the axis' labels
const RIGHT: u64 = 20;
const BETWEEN: u64 = 36; //              two panels
pub(super) const TOP: u64 = 132; //      below titles and names
pub(super) const HEIGHT: u64 = 320; //   of the plot
pub(super) const BOTTOM: u64 = TOP + HEIGHT;
const BETWEEN_PHASES: u64 = 6;
const NARROWEST_PHASE: u64 = 76; //      its name fits below it

/// Horizontal extent of a phase.
pub(super) struct Span {
    pub(super) x: u64,
    pub(super) width: u64,
}

/// Horizontal extent of a panel's plot, and its phases.
pub(super) struct Place {
    pub(super) x: u64,
    pub(super) width: u64,
    pub(super) spans: Vec<Span>,
}

/// The plots, side by side.
pub(super) fn places(chart: &Chart) -> Vec<Place> {
    let count = (chart.panels.len() as u64).max(1);
    let width = (WIDTH - LEFT - RIGHT - (count - 1) * BETWEEN) / count;
    let place = |(index, panel): (u64, &Panel)| {
        let x = LEFT + index * (width + BETWEEN);
        Place { x, width, spans: spans(&panel.courses, x, width) }
    };
    (0..).zip(&chart.panels).map(place).collect()
}

/// Every op has the same width, unless its phase would be too narrow for its name.
fn spans(courses: &[PhaseTimeline], x: u64, width: u64) -> Vec<Span> {
    let count = courses.len() as u64;
    let free = width - count.saturating_sub(1) * BETWEEN_PHASES;
    let ops = |course: &PhaseTimeline| course.ops.len() as u64;
    let narrowest = NARROWEST_PHASE.min(free / count.max(1));
    let share =
        |course: &PhaseTimeline, free: u64, all: u64| (free * ops(course)).div_ceil(all.max(1));
    let all: u64 = courses.iter().map(ops).sum();
    let is_narrow = |course: &&PhaseTimeline| share(course, free, all) < narrowest;
    let narrow = courses.iter().filter(is_narrow);
    let rest = free - narrow.clone().count() as u64 * narrowest;
    let all_of_rest = all - narrow.map(ops).sum::<u64>();
    let mut spans: Vec<Span> = Vec::new();
    let mut at = x;
    for course in courses {
        let is_last = spans.len() + 1 == courses.len();
        let width = match is_narrow(&course) {
            _ if is_last => x + width - at,
            true => narrowest,
            false => rest * ops(course) / all_of_rest.max(1),
        };
        spans.push(Span { x: at, width });
        at += width + BETWEEN_PHASES;
    }
    spans
}
