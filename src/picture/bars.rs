//! The plan as a picture: one stacked bar a phase, by class, against the budget.

use std::fmt::Write as _;

use fitgpt_plan::{program::Class, report::PlanReport, units::Bytes};

use crate::words;

/// Columns of a bar.
const WIDTH: usize = 56;

/// A character a class, dense for what always stays.
const fn fill(class: Class) -> char {
    match class {
        Class::Parameter => '█',
        Class::Gradient => '▓',
        Class::Optimizer => '▒',
        Class::Activation => '░',
        Class::Logits => '▚',
        Class::Scratch => '▪',
        Class::Input => '▫',
    }
}

/// Bars for every phase, with the figures by class below each.
pub fn plan(report: &PlanReport) -> String {
    let mut text = String::new();
    let longest = report.phases.iter().map(|p| p.peak_bytes).max().unwrap_or(Bytes::ZERO);
    let whole = report.device.usable_bytes.max(longest).get().max(1);
    // A small plan on a large machine would be one column: then the bar is the plan itself.
    let is_zoomed = longest.get() * 8 < whole;
    let whole = if is_zoomed { longest.get().max(1) } else { whole };
    for phase in &report.phases {
        let mut bar = String::new();
        let mut drawn = 0;
        let mut sum = 0;
        for (class, bytes) in Class::ALL.into_iter().zip(phase.classes) {
            sum += bytes.get();
            let until = column(sum, whole);
            bar.extend(std::iter::repeat_n(fill(class), until - drawn));
            drawn = until;
        }
        bar.extend(std::iter::repeat_n('·', WIDTH - drawn));
        let name = words::left(&words::names::phase(phase.name), 14);
        let (peak, at) = (phase.peak_bytes, words::plan::at_op(phase.at.index, &phase.at.op));
        let _ = writeln!(text, "  {name} {bar} {peak:>12}  {at}");
    }
    let mut legend: Vec<_> =
        Class::ALL.map(|c| format!("{} {}", fill(c), words::names::class(c))).into();
    if !is_zoomed {
        legend.push(format!("· {}", words::names::free()));
    }
    let _ = writeln!(text, "  {:<14} {}", "", legend.join("  "));
    text
}

fn column(bytes: u64, whole: u64) -> usize {
    let column = u128::from(bytes) * WIDTH as u128 / u128::from(whole);
    (column as usize).min(WIDTH)
}

/// The classes of one phase as figures, largest first, nothing left out but zeros.
pub fn terms(classes: &[Bytes; 7]) -> String {
    let mut list: Vec<_> = Class::ALL.into_iter().zip(*classes).collect();
    list.retain(|(_, bytes)| *bytes > Bytes::ZERO);
    list.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let line = |(class, bytes): &(Class, Bytes)| {
        format!("    {}{bytes:>14}\n", words::left(&words::names::class(*class), 14))
    };
    list.iter().map(line).collect()
}
