//! A plan for one of several ranks: its memory and its network traffic.

use fitgpt_config::Config;
use fitgpt_model::{Model, Parameter, job::Job, optimizer::Optimizer, shard::Share};
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    lanes,
    network::{NetworkRate, StepTraffic},
    time::RunTime,
};
use serde::Serialize;

use super::{
    Failure,
    target::{EngineChoice, PlanTarget},
    together,
};

/// The targets of `engines`, and the config that they run: with its lanes if there are `ranks`, for
/// the rank that needs the most memory.
pub(crate) fn targets(
    engines: &[EngineChoice],
    config: &Config,
    vocab: u32,
    ranks: Option<u32>,
    target: impl Fn(EngineChoice, &Config) -> Result<PlanTarget, Failure>,
) -> Result<(Vec<PlanTarget>, Config), Failure> {
    let mut config = config.clone();
    let mut share = Share::WHOLE;
    if let Some(ranks) = ranks {
        config = together::with_lanes(ranks, &config)?;
        let parameters = Model::new(&config, vocab).parameters();
        (_, share) = extremes(&parameters, &Optimizer::of(&config), ranks);
    }
    let of = |engine: &EngineChoice| Ok(PlanTarget { share, ..target(*engine, &config)? });
    let targets = engines.iter().map(of).collect::<Result<_, Failure>>()?;
    Ok((targets, config))
}

/// The smallest and the largest share of the optimizer's states, and the first rank that has the
/// largest.
fn extremes(parameters: &[Parameter], optimizer: &Optimizer, ranks: u32) -> ([u64; 2], Share) {
    let bytes = Share::all_optimizer_bytes(ranks, parameters, optimizer);
    let low = bytes.iter().copied().min().unwrap_or(0);
    let high = bytes.iter().copied().max().unwrap_or(0);
    let rank = bytes.iter().position(|bytes| *bytes == high).unwrap_or(0) as u32;
    ([low, high], Share { rank, ranks })
}

/// The ranks of a plan.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PlannedRanks {
    /// How many train together.
    pub count: u32,
    /// The one that was planned: the one that needs the most memory.
    pub rank: u32,
    /// Sums of gradients that are kept apart.
    pub lanes: u64,
    /// Optimizer states of a rank, `[low, high]`.
    pub optimizer_bytes: [u64; 2],
    /// Buffers of messages, part of the overhead.
    pub buffer_bytes: Bytes,
    /// The messages of a step, if the network's rate is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<StepTraffic>,
}

impl PlannedRanks {
    /// From a plan for the largest of `ranks` ranks.
    pub(crate) fn new(
        ranks: u32,
        job: &Job,
        rate: Option<NetworkRate>,
        time: Option<&RunTime>,
    ) -> Self {
        let parameters = job.model.parameters();
        let (optimizer_bytes, _) = extremes(&parameters, &job.training.optimizer, ranks);
        Self {
            count: ranks,
            rank: job.training.share.rank,
            lanes: job.training.lanes,
            optimizer_bytes,
            buffer_bytes: lanes::buffer_bytes(&job.training, &parameters),
            network: rate.map(|rate| StepTraffic::of(job, rate, time.map(|time| time.step_s))),
        }
    }
}
