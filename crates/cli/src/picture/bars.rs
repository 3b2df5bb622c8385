//! The plan as text: one stacked bar per phase, by class, on the scale of the budget.

use std::fmt::Write as _;

use fitgpt_model::report::{PhaseReport, PlanReport};
use fitgpt_program::{TensorClass, units::Bytes};

use crate::words;

/// Columns of a bar.
const WIDTH: usize = 56;

/// One character per class, denser for longer lifetimes.
const fn fill(class: TensorClass) -> char {
    match class {
        TensorClass::Parameter => '█',
        TensorClass::Gradient => '▓',
        TensorClass::Optimizer => '▒',
        TensorClass::Activation => '░',
        TensorClass::Logits => '▚',
        TensorClass::Scratch => '▪',
        TensorClass::Input => '▫',
    }
}

/// Bars for every phase, with the figures by class below each.
pub(crate) fn plan(report: &PlanReport) -> String {
    let scale = BarScale::of(&[report]);
    let mut text = String::new();
    for phase in &report.phases {
        let name = words::left(&words::names::phase(phase.name), 14);
        let _ = writeln!(text, "  {name} {}", scale.row(phase));
    }
    let _ = writeln!(text, "  {:<14} {}", "", scale.legend());
    text
}

/// Two bars per phase on one scale: PyTorch's above FitGPT's.
pub(crate) fn both(torch: &PlanReport, fitgpt: &PlanReport) -> String {
    let scale = BarScale::of(&[torch, fitgpt]);
    let mut text = String::new();
    for theirs in &torch.phases {
        let name = words::left(&words::names::phase(theirs.name), 14);
        let _ = writeln!(text, "  {name} PyTorch {}", scale.row(theirs));
        if let Some(ours) = fitgpt.phases.iter().find(|phase| phase.name == theirs.name) {
            let _ = writeln!(text, "  {:<14} FitGPT  {}", "", scale.row(ours));
        }
    }
    let _ = writeln!(text, "  {:<22} {}", "", scale.legend());
    text
}

/// The bytes of a full bar.
struct BarScale {
    whole: u64,
    is_zoomed: bool,
}

impl BarScale {
    /// The budget, or the longest bar if that is longer.
    fn of(reports: &[&PlanReport]) -> Self {
        let phases = reports.iter().flat_map(|report| &report.phases);
        let longest = phases.map(|phase| phase.peak_bytes).max().unwrap_or(Bytes::ZERO);
        let budgets = reports.iter().map(|report| report.device.usable_bytes);
        let whole = budgets.fold(longest, Bytes::max).get().max(1);
        // A small plan on a large machine would be one column: then a full bar is the longest phase.
        let is_zoomed = longest.get() * 8 < whole;
        Self { whole: if is_zoomed { longest.get().max(1) } else { whole }, is_zoomed }
    }

    /// A bar with its figure and its op.
    fn row(&self, phase: &PhaseReport) -> String {
        let mut bar = String::new();
        let mut drawn = 0;
        let mut sum = 0;
        for (class, bytes) in TensorClass::ALL.into_iter().zip(phase.classes) {
            sum += bytes.get();
            let until = column(sum, self.whole);
            bar.extend(std::iter::repeat_n(fill(class), until - drawn));
            drawn = until;
        }
        bar.extend(std::iter::repeat_n('·', WIDTH - drawn));
        let (peak, at) = (phase.peak_bytes, words::plan::at_op(phase.at.index, &phase.at.op));
        words::localized(format!("{bar} {peak:>12}  {at}"))
    }

    fn legend(&self) -> String {
        let mut legend: Vec<_> =
            TensorClass::ALL.map(|c| format!("{} {}", fill(c), words::names::class(c))).into();
        if !self.is_zoomed {
            legend.push(format!("· {}", words::names::free()));
        }
        legend.join("  ")
    }
}

fn column(bytes: u64, whole: u64) -> usize {
    let column = u128::from(bytes) * WIDTH as u128 / u128::from(whole);
    (column as usize).min(WIDTH)
}

/// The classes of one phase as figures, largest first, without zeros.
pub(crate) fn terms(classes: &[Bytes; 7]) -> String {
    let mut list: Vec<_> = TensorClass::ALL.into_iter().zip(*classes).collect();
    list.retain(|(_, bytes)| *bytes > Bytes::ZERO);
    list.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let line = |(class, bytes): &(TensorClass, Bytes)| {
        let class = words::left(&words::names::class(*class), 14);
        words::localized(format!("    {class}{bytes:>14}\n"))
    };
    list.iter().map(line).collect()
}
