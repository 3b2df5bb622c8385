//! The memory of every phase of a run, and its time on a card whose rates are known; nothing is
//! allocated.

use std::path::Path;

use fitgpt_config::{Config, Precision};
use fitgpt_data::Dataset;
use fitgpt_fit::{device, fit::Fit, torch};
use fitgpt_model::{
    Model,
    job::Job,
    report::{PhaseTimeline, PlanReport, Verdict},
};
use fitgpt_program::{Program, memory::Target as _, units::Bytes};
use fitgpt_run::{
    network::NetworkRate,
    setup::RunSetup,
    time::{Kernels, RunTime},
};
use serde::Serialize;

pub use super::plan_ranks::PlannedRanks;
use super::{
    Failure, fit_options, plan_ranks,
    target::{DeviceFlags, EngineChoice, PlanTarget},
};

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
        let planned = plans.last().zip(ranks);
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
        let EnginePlan { report, vocab, target, .. } = self.plan();
        fit_options::all_after(report, &self.config, *vocab, target)
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
        let time = |job: &Job, kernels| {
            rates.map(|rates| RunTime::of(config, job, precision, kernels, &rates))
        };
        let (report, timelines, time, job) = match engine {
            EngineChoice::Torch => {
                let options = target.torch_options(config);
                let report = torch::torch_report(config, vocab, &options, device, overhead);
                let timelines =
                    wants_timelines.then(|| torch::torch_timelines(config, vocab, &options));
                let kernels = if options.compile { Kernels::Compiled } else { Kernels::Eager };
                // PyTorch computes the same products, with the recomputation of the config.
                let job = Job::new(config, vocab, precision, &runner.target(), Bytes::new(1 << 60));
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
}
