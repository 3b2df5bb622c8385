//! The memory of every phase of a run, and its time on a card whose rates are known; nothing is
//! allocated.

use std::path::Path;

use fitgpt_config::{Config, Precision, Written};
use fitgpt_data::Dataset;
use fitgpt_fit::{device, fit::Fit, torch};
use fitgpt_model::{
    Model,
    job::Job,
    report::{PhaseTimeline, PlanReport, Verdict},
};
use fitgpt_program::{Program, memory::Target as _, units::Bytes};
use fitgpt_run::{
    budget::THIS_MACHINE,
    device::threads,
    host_rate,
    network::NetworkRate,
    setup::RunSetup,
    time::{Kernels, RunTime},
};
use fitgpt_say::Sentence;
use serde::Serialize;

pub use super::plan_ranks::PlannedRanks;
use super::{
    Failure, fit_options, plan_ranks, remarks,
    target::{DeviceFlags, EngineChoice, PlanTarget},
};
use crate::words::remarks as words;

/// What is planned.
#[derive(Clone, Debug)]
pub struct PlanRequest<'a> {
    /// The run.
    pub config: &'a Config,
    /// The size of its vocabulary.
    pub vocab: u32,
    /// The engines; the answer is that of the last one.
    pub engines: &'a [EngineChoice],
    /// On what.
    pub device: DeviceFlags<'a>,
    /// How many ranks train together, if there are several.
    pub ranks: Option<u32>,
    /// The network between them, if the time of their messages is wanted.
    pub network: Option<NetworkRate>,
    /// Whether pictures will be drawn.
    pub wants_timelines: bool,
}

/// The plans of all engines.
pub struct PlanAnswer {
    /// The config, with its lanes if there are ranks.
    pub config: Config,
    /// One for each engine.
    pub plans: Vec<EnginePlan>,
    /// The ranks, if there are several.
    pub ranks: Option<PlannedRanks>,
}

/// The plan of one engine.
pub struct EnginePlan {
    /// What it was made for.
    pub target: PlanTarget,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Where the bytes go.
    pub report: PlanReport,
    /// The live bytes of a step and an evaluation, if they were wanted.
    pub timelines: Vec<PhaseTimeline>,
    /// The run's time, if the card's rates are known.
    pub time: Option<RunTime>,
    job: Job,
}

/// The size of the vocabulary: the config's, else the data's, else GPT-2's. A plan needs no data, so
/// a missing dataset is not an error.
pub fn vocab(config: &Config) -> Result<u32, Failure> {
    if config.vocab_size() > 0 {
        return Ok(config.vocab_size());
    }
    Ok(Dataset::vocab_size_of(config.dataset(), Path::new("."))?)
}

impl PlanRequest<'_> {
    /// Makes the plans.
    pub fn plan(&self) -> Result<PlanAnswer, Failure> {
        let Self { config, vocab, engines, device, ranks, network, wants_timelines } = self.clone();
        let on = |engine, config: &Config| PlanTarget::on(engine, device, config);
        let (targets, config) = plan_ranks::targets(engines, config, vocab, ranks, on)?;
        let plan = |target| EnginePlan::of(&config, vocab, target, wants_timelines);
        let plans = targets.into_iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let planned = plans.last().filter(|plan| plan.target.engine == EngineChoice::Fitgpt);
        let planned = planned.zip(ranks);
        let ranks = planned.map(|(EnginePlan { job, time, .. }, ranks)| {
            PlannedRanks::new(ranks, job, network, time.as_ref())
        });
        Ok(PlanAnswer { config, plans, ranks })
    }

    /// The program of the phase called `name`, and the alignment of its tensors. Of the last engine.
    pub fn program_of(&self, name: &str) -> Result<Option<(Program, u64)>, Failure> {
        let on = |engine, config: &Config| PlanTarget::on(engine, self.device, config);
        let (mut targets, config) =
            plan_ranks::targets(self.engines, self.config, self.vocab, self.ranks, on)?;
        let target = targets.pop().expect("there is at least one engine");
        Ok(match target.engine {
            EngineChoice::Torch => {
                let model = Model::new(&config, self.vocab);
                let phases = torch::phases(&model, &target.torch_options(&config));
                let found = phases.into_iter().find(|(phase, _)| phase.name() == name);
                found.map(|(_, program)| (program, torch::CachingAllocator.limits().alignment))
            }
            EngineChoice::Fitgpt => {
                let PlanTarget { device, overhead, precision, runner, share, .. } = target;
                let (vocab, config) = (self.vocab, &config);
                let setup =
                    RunSetup::of_share(config, vocab, precision, &runner, device, overhead, share)?;
                let mut programs = setup.plan.plan().programs.iter();
                let found = programs.find(|planned| planned.program.name() == name);
                let alignment = runner.target().limits().alignment;
                found.map(|planned| (planned.program.clone(), alignment))
            }
        })
    }
}

impl PlanAnswer {
    /// The plan that answers: FitGPT's if there are two.
    pub fn plan(&self) -> &EnginePlan {
        self.plans.last().expect("there is at least one engine")
    }

    /// The options that make it fit.
    pub fn options(&self) -> Fit {
        self.options_of(self.plan())
    }

    /// The options that make one of the plans fit.
    pub fn options_of(&self, plan: &EnginePlan) -> Fit {
        let EnginePlan { report, vocab, target, .. } = plan;
        fit_options::all_after(report, &self.config, *vocab, target)
    }

    /// What is to be said about the plans: what they assume, and what keys of `written` change.
    pub fn notes(&self, written: &Written) -> Vec<Sentence> {
        let of = |plan: &EnginePlan| notes(plan, &self.config, written);
        let long = self.quickest_run_s().and_then(|run_s| long_run(&self.config, run_s));
        self.plans.iter().flat_map(of).chain(long).collect()
    }

    /// The low end of the run's time, of the plan with the lowest.
    fn quickest_run_s(&self) -> Option<f64> {
        let fitting = self.plans.iter().filter(|plan| plan.report.verdict != Verdict::No);
        let time = |plan: &EnginePlan| plan.time.or_else(|| plan.time_on_this_cpu(&self.config));
        fitting.filter_map(time).map(|time| time.run_s[0]).min_by(f64::total_cmp)
    }

    /// The document for programs. With two engines, the verdict is that of FitGPT's plan.
    pub fn document(&self) -> PlanDocument<'_> {
        match &self.plans[..] {
            [torch, fitgpt] => {
                let PlanReport { fits, verdict, .. } = fitgpt.report;
                let (fitgpt, torch) = (self.timed(fitgpt), self.timed(torch));
                PlanDocument::Both { engine: "both", fits, verdict, fitgpt, torch }
            }
            _ => PlanDocument::One(self.timed(self.plan())),
        }
    }

    fn timed<'a>(&'a self, plan: &'a EnginePlan) -> TimedReport<'a> {
        TimedReport { report: &plan.report, time: plan.time.as_ref(), ranks: self.ranks.as_ref() }
    }
}

/// What `plan --json` prints.
#[derive(Serialize)]
#[serde(untagged)]
pub enum PlanDocument<'a> {
    /// One engine.
    One(TimedReport<'a>),
    /// Both engines side by side.
    Both {
        /// `both`.
        engine: &'static str,
        /// Whether it fits.
        fits: bool,
        /// The same in three steps.
        verdict: Verdict,
        /// FitGPT's plan.
        fitgpt: TimedReport<'a>,
        /// PyTorch's plan.
        torch: TimedReport<'a>,
    },
}

/// A report, with the estimated time if the card's rates are known.
#[derive(Serialize)]
pub struct TimedReport<'a> {
    #[serde(flatten)]
    report: &'a PlanReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<&'a RunTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<&'a PlannedRanks>,
}

/// What is to be said about a plan of `config`.
fn notes(plan: &EnginePlan, config: &Config, written: &Written) -> Vec<Sentence> {
    let EnginePlan { target, report, vocab, .. } = plan;
    let mut notes = target.notes(config);
    notes.extend(remarks::of_rate(config));
    if target.engine == EngineChoice::Torch {
        notes.extend(remarks::of_keys(config, written, *vocab, target, report));
    }
    notes
}

/// A run that takes more than a week at best, and how far a week would get.
fn long_run(config: &Config, quickest: f64) -> Option<Sentence> {
    if quickest <= WEEK_S {
        return None;
    }
    let days = format!("{:.0}", quickest / 86400.0);
    let iters = (config.max_iters() as f64 * WEEK_S / quickest) as u64;
    Some(words::more_than_a_week(days, iters))
}

/// Longer runs get a warning.
const WEEK_S: f64 = 7.0 * 86400.0;

impl EnginePlan {
    /// Plans `config` for `target`, and estimates the time if the card's rates are known.
    pub fn of(
        config: &Config,
        vocab: u32,
        target: PlanTarget,
        wants_timelines: bool,
    ) -> Result<Self, Failure> {
        let PlanTarget { engine, device, overhead, precision, runner, share, .. } = target.clone();
        let rates = device::find(&device.name).ok().and_then(|gpu| gpu.rates().ok());
        // PyTorch emulates bfloat16 in float32.
        let multiplied_as = match (engine, target.has_bf16) {
            (EngineChoice::Torch, false) if precision == Precision::Bfloat16 => Precision::Float32,
            _ => precision,
        };
        let time = |job: &Job, kernels| {
            let rates = rates.filter(|_| !config.eval_only());
            rates.map(|rates| RunTime::of(config, job, multiplied_as, kernels, &rates))
        };
        let (report, timelines, time, job) = match engine {
            EngineChoice::Torch => {
                let options = target.torch_options(config);
                let report = torch::torch_report(config, vocab, &options, device, overhead);
                let timelines =
                    wants_timelines.then(|| torch::torch_timelines(config, vocab, &options));
                let kernels = if options.compile { Kernels::Compiled } else { Kernels::Eager };
                // PyTorch computes the same products, with the recomputation of the config.
                let (target, limit) = (runner.target(), Bytes::new(1 << 60));
                let job = Job::of_share(config, vocab, precision, &target, limit, share);
                (report, timelines, time(&job, kernels), job)
            }
            EngineChoice::Fitgpt => {
                let setup =
                    RunSetup::of_share(config, vocab, precision, &runner, device, overhead, share)?;
                let timelines = wants_timelines.then(|| setup.timelines());
                let time = time(&setup.job, Kernels::Fitgpt);
                (setup.report, timelines, time, setup.job)
            }
        };
        let timelines = timelines.unwrap_or_default();
        Ok(Self { target, vocab, report, timelines, time, job })
    }

    /// Whether the device computes bfloat16 only slowly, although the config asks for it.
    pub fn lacks_bfloat16(&self) -> bool {
        self.target.precision == Precision::Bfloat16 && !self.target.has_bf16
    }

    /// Whether it is FitGPT's plan for a card that was named: it has never run on one.
    pub fn is_untried(&self) -> bool {
        self.target.engine == EngineChoice::Fitgpt && self.target.is_card
    }

    /// How long the run takes on this machine's CPU, from a quick measurement; `None` if it is planned
    /// for a card.
    pub fn time_on_this_cpu(&self, config: &Config) -> Option<RunTime> {
        let PlanTarget { engine, device, precision, .. } = &self.target;
        if device.name != THIS_MACHINE || config.eval_only() {
            return None;
        }
        let kernels = match engine {
            EngineChoice::Fitgpt => Kernels::FitgptOnCpu,
            EngineChoice::Torch => Kernels::TorchOnCpu,
        };
        let rates = host_rate::rates(threads(config))?;
        Some(RunTime::of(config, &self.job, *precision, kernels, &rates))
    }
}
