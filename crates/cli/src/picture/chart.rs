//! The content of a plan's chart, before it is drawn: panels, phases, columns, text.

use fitgpt_commands::plan::EnginePlan;
use fitgpt_config::{GradCheckpoint, Precision};
use fitgpt_model::{
    Model,
    report::{PhaseTimeline, PlanReport, Verdict},
};
use fitgpt_program::{TensorClass, memory::Peak, units::Bytes};

use super::scale::figure;
use crate::words::{self, Say as _, grouped};

/// The plan of one engine with its live bytes op by op.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// The report of `plan`.
    pub(crate) report: PlanReport,
    /// The phases that are drawn, in the order in which they happen.
    pub(crate) timelines: Vec<PhaseTimeline>,
    /// How activations are stored.
    pub(crate) precision: Precision,
    /// Rows of the embedding.
    pub(crate) vocab: u32,
}

/// One engine's panel or several, side by side on one scale.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) panels: Vec<Panel>,
}

impl Chart {
    /// The highest value on the axis: every peak, and the budget unless it is far above them.
    pub(super) fn highest(&self) -> Bytes {
        let peak = self.panels.iter().map(Panel::highest).max().unwrap_or(Bytes::ZERO);
        let budgets = self.panels.iter().map(|panel| panel.report.device.usable_bytes);
        let budget = budgets.max().unwrap_or(Bytes::ZERO);
        // A small plan on a large machine would be a line at the bottom.
        if peak.get().saturating_mul(8) < budget.get() { peak } else { peak.max(budget) }
    }

    /// The model.
    pub(crate) fn title(&self) -> String {
        let Some(Panel { report, vocab, .. }) = self.panels.first() else { return String::new() };
        let config = &report.config;
        words::plan::model(
            count_of_parameters(Model::new(config, *vocab).parameter_count()),
            config.n_layer(),
            config.n_embd(),
            config.n_head(),
            grouped(config.block_size().into()),
        )
    }

    /// How a step is split, and on which device.
    pub(crate) fn subtitle(&self) -> String {
        let Some(Panel { report, .. }) = self.panels.first() else { return String::new() };
        let batch = report.effective_batch;
        let split = words::plan::split(
            report.config.batch_size(),
            report.config.gradient_accumulation_steps(),
            grouped(batch.sequences),
            grouped(batch.tokens),
        );
        format!("{split} · {}", report.device.name)
    }

    /// The classes that hold anything at any op, in the order of reports.
    pub(super) fn classes(&self) -> Vec<TensorClass> {
        let timelines = self.panels.iter().flat_map(|panel| &panel.timelines);
        let ops: Vec<_> = timelines.flat_map(|timeline| &timeline.profile.by_op).collect();
        let holds = |class: &TensorClass| ops.iter().any(|op| op[*class as usize] > Bytes::ZERO);
        TensorClass::ALL.into_iter().filter(holds).collect()
    }
}

/// The highest op of a panel.
pub(super) struct PanelPeak {
    /// Index of the panel's phase.
    pub(super) timeline: usize,
    pub(super) peak: Peak,
}

impl From<&EnginePlan> for Panel {
    fn from(plan: &EnginePlan) -> Self {
        Self {
            report: plan.report.clone(),
            timelines: plan.timelines.clone(),
            precision: plan.target.precision,
            vocab: plan.vocab,
        }
    }
}

impl Panel {
    /// The first of equally high ops, as in a report.
    pub(super) fn peak(&self) -> Option<PanelPeak> {
        let peaks = self.timelines.iter().enumerate().filter_map(|(timeline, of)| {
            let peak = of.peak()?;
            Some(PanelPeak { timeline, peak })
        });
        peaks.reduce(|a, b| if b.peak.bytes > a.peak.bytes { b } else { a })
    }

    fn highest(&self) -> Bytes {
        self.peak().map_or(Bytes::ZERO, |peak| peak.peak.bytes)
    }

    /// The engine.
    pub(crate) fn name(&self) -> String {
        match (self.report.engine, self.report.config.compile()) {
            ("torch", true) => words::plan::torch_compiled(),
            ("torch", false) => words::plan::torch_eager(),
            _ => "FitGPT".to_owned(),
        }
    }

    /// The verdict and its figures.
    pub(crate) fn verdict(&self) -> String {
        let mark = match self.report.verdict {
            Verdict::Fits => '✓',
            Verdict::Tight => '!',
            Verdict::No => '✗',
        };
        let verdict = self.report.verdict.say(words::lang());
        let mut text = format!("{mark} {verdict} · {}", self.precision.name());
        match self.report.config.grad_checkpoint() {
            GradCheckpoint::Off => {}
            GradCheckpoint::Every => text.push_str(" · grad_checkpoint=True"),
            // PyTorch recomputes all blocks or none.
            GradCheckpoint::Auto if self.report.engine == "torch" => {}
            GradCheckpoint::Auto => text.push_str(" · grad_checkpoint=auto"),
        }
        text
    }

    /// A phase below the axis, with how often a step runs it.
    pub(crate) fn phase(&self, name: &str) -> String {
        let times = self.report.config.gradient_accumulation_steps();
        match words::names::phase(name) {
            phase if name == "train" && times > 1 => format!("{phase} × {times}"),
            phase => phase,
        }
    }

    /// The overhead in addition to the tensors.
    pub(crate) fn overhead(&self) -> String {
        let [low, high] = self.report.overhead.range().map(figure);
        words::plan::plus_overhead(low, high)
    }
}

/// For each of `columns` the op that it shows: the highest of those that share it.
pub(crate) fn columns(timeline: &PhaseTimeline, columns: u64) -> Vec<usize> {
    let by_op = &timeline.profile.by_op;
    let ops = by_op.len() as u64;
    let total = |op: &usize| by_op[*op].iter().copied().sum::<Bytes>();
    let highest = |column: u64| {
        let first = (column * ops / columns) as usize;
        let end = ((column + 1) * ops).div_ceil(columns) as usize;
        (first..end).rev().max_by_key(total).unwrap_or(first) // the first of equally high ops
    };
    if ops == 0 { Vec::new() } else { (0..columns).map(highest).collect() }
}

/// `124M`, `1.6B`, `30K`.
fn count_of_parameters(count: u64) -> String {
    match count {
        1_000_000_000.. => format!("{:.1}B", count as f64 / 1e9),
        1_000_000.. => format!("{:.0}M", count as f64 / 1e6),
        1_000.. => format!("{:.0}K", count as f64 / 1e3),
        _ => count.to_string(),
    }
}
