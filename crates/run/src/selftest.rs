//! The self-test of a device: compares every op with the reference, then times it.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use fitgpt_config::{Config, ConfigError, Precision};
use fitgpt_conformance::JudgedCase;
use fitgpt_fit::device::{self, Rates};
use fitgpt_model::programs::TrainingHandles;
use serde::Serialize;

use super::{
    bench::{self, Effort, Measured},
    device::Runner,
    estimate::estimate,
    setup::RunSetup,
};

/// All cases of one op.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestedOp {
    /// The op's name.
    pub op: &'static str,
    /// Storage types of its activations.
    pub types: BTreeSet<&'static str>,
    /// Tensors compared.
    pub tensors: usize,
    /// The largest error, as a fraction of the error that is allowed; `None` if it is not finite.
    pub worst: Option<f64>,
    /// Descriptions of the wrong tensors.
    pub failures: Vec<String>,
    /// Time and bound, if it was timed.
    pub time: Option<OpTime>,
}

/// The time of an op in one micro-batch and one update of the timed job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OpTime {
    /// As measured, each op at its fastest.
    pub ms: f64,
    /// The least time by the card's data sheet, if it is known.
    pub bound_ms: Option<f64>,
}

/// The result of a self-test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelfTest {
    /// In the order of the suite.
    pub ops: Vec<TestedOp>,
    /// The error that ended the test early.
    pub error: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl SelfTest {
    /// Whether everything ran and nothing was wrong.
    pub fn is_passed(&self) -> bool {
        let is_right = |op: &TestedOp| op.tensors > 0 && op.failures.is_empty();
        self.error.is_none() && !self.ops.is_empty() && self.ops.iter().all(is_right)
    }

    /// Tensors compared.
    pub fn tensors(&self) -> usize {
        self.ops.iter().map(|op| op.tensors).sum()
    }

    fn add(&mut self, judged: &JudgedCase) {
        let op = judged.op;
        let at = self.ops.iter().position(|tested| tested.op == op).unwrap_or_else(|| {
            let (types, failures, worst) = (BTreeSet::new(), Vec::new(), Some(0.0));
            self.ops.push(TestedOp { op, types, tensors: 0, worst, failures, time: None });
            self.ops.len() - 1
        });
        let tested = &mut self.ops[at];
        tested.types.insert(judged.dtype.name());
        tested.tensors += judged.compared;
        let worst = tested.worst.map(|worst| worst.max(judged.worst));
        tested.worst = worst.filter(|worst| worst.is_finite());
        tested.failures.extend(judged.failures.iter().map(ToString::to_string));
    }

    fn add_times(
        &mut self,
        measured: &Measured,
        planned: &RunSetup,
        precision: Precision,
        rates: Option<&Rates>,
    ) {
        let TrainingHandles { train, update, .. } = planned.handles;
        for (id, measured) in [train.program, update.program].into_iter().zip(&measured.programs) {
            let program = planned.plan.program(id);
            let bounds = rates.map(|rates| estimate(program, 0, precision, rates));
            for times in &measured.ops {
                let Some(tested) = self.ops.iter_mut().find(|tested| tested.op == times.op) else {
                    continue;
                };
                let bound = bounds.as_ref().and_then(|bounds| {
                    bounds.ops.iter().find(|bound| bound.op == times.op).map(|bound| bound.ms)
                });
                let before = tested.time.unwrap_or(OpTime { ms: 0.0, bound_ms: Some(0.0) });
                tested.time = Some(OpTime {
                    ms: before.ms + times.ms,
                    bound_ms: before.bound_ms.zip(bound).map(|(before, bound)| before + bound),
                });
            }
        }
    }
}

/// Runs the suite on `runner`, then times the ops of `config` if it fits. An error of the device
/// ends the test and is part of its result.
pub fn selftest(
    runner: &Runner,
    config: &Config,
    vocab: u32,
    progress: &mut dyn FnMut(&str),
) -> SelfTest {
    let start = Instant::now();
    let mut test = SelfTest { ops: Vec::new(), error: None, seconds: 0.0 };
    let judged = runner.judge(&mut |case| {
        progress(case.op);
        test.add(&case);
        ControlFlow::Continue(())
    });
    let timed = judged.map_err(|error| error.to_string()).and_then(|()| {
        progress("train");
        time(runner, config, vocab, &mut test)
    });
    test.error = timed.err();
    test.seconds = start.elapsed().as_secs_f64();
    test
}

fn time(runner: &Runner, config: &Config, vocab: u32, test: &mut SelfTest) -> Result<(), String> {
    let precision: Precision = runner.precision(config);
    let config: Config = config
        .with("selftest", [("dtype", precision.name().into())])
        .map_err(|error: ConfigError| error.to_string())?;
    let device = runner.device(&config).map_err(|error| error.to_string())?;
    let planned = RunSetup::new(&config, vocab, precision, runner, device, runner.overhead())
        .map_err(|error| error.to_string())?;
    if !planned.report.fits {
        return Ok(());
    }
    let effort = Effort { runs: 3, at_least: Duration::ZERO };
    let measured = bench::training(&planned, &config, effort).map_err(|error| error.to_string())?;
    let card = runner.gpu().and_then(|(name, _)| device::find(name).ok());
    let rates = card.and_then(|card| card.rates().ok());
    test.add_times(&measured, &planned, precision, rates.as_ref());
    Ok(())
}
