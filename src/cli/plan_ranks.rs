//! `plan --ranks` and `fit --ranks`: the memory and the messages of one of several ranks.

use clap::{Arg, ArgMatches, Command, value_parser};
use fitgpt_plan::{
    config::Config, job::Job, model::Model, optimizer::Optimizer, shard::Share, units::Bytes,
};
use serde::Serialize;

use super::{Failure, plan_target::EngineChoice, together};
use crate::{
    run::{
        lanes,
        network::{NetworkRate, StepTraffic},
        time::RunTime,
    },
    words::ranks as words,
};

/// More ranks than any cluster has.
const MOST_RANKS: i64 = 1 << 20;

/// Adds `--ranks`.
pub(super) fn with_ranks(command: Command) -> Command {
    command.arg(
        Arg::new("ranks")
            .long("ranks")
            .value_name("N")
            .value_parser(value_parser!(u32).range(1..=MOST_RANKS))
            .help("Plan one rank of N that train together (`mpirun -np N fitgpt train …`)"),
    )
}

/// Adds `--network`.
pub(super) fn with_network(command: Command) -> Command {
    command.arg(
        Arg::new("network")
            .long("network")
            .value_name("RATE")
            .requires("ranks")
            .value_parser(|text: &str| text.parse::<NetworkRate>())
            .help("Time of the messages between ranks over a network such as 10Gb (per second)"),
    )
}

/// The config with its lanes and the rank with the most memory, if `--ranks` was given.
pub(super) fn of(
    matches: &ArgMatches,
    config: &Config,
    vocab: u32,
) -> Result<Option<(Config, Share)>, Failure> {
    let Some(ranks) = matches.get_one::<u32>("ranks").copied() else { return Ok(None) };
    if EngineChoice::of(matches).contains(&EngineChoice::Torch) {
        return Err(Failure::new("usage", words::ranks_of_fitgpt()));
    }
    of_count(ranks, config, vocab).map(Some)
}

/// The config with its lanes, and of so many ranks the one with the most memory.
pub(super) fn of_count(
    ranks: u32,
    config: &Config,
    vocab: u32,
) -> Result<(Config, Share), Failure> {
    let config = together::with_lanes(ranks, config)?;
    let [_, largest] = extremes(&config, vocab, ranks);
    Ok((config, largest))
}

/// `command` as several ranks run it.
pub(super) fn command_of(ranks: u32, command: &str) -> String {
    format!("mpirun -np {ranks} {command}")
}

/// The ranks with the smallest and the largest share of the optimizer's states; of equals, the
/// first.
fn extremes(config: &Config, vocab: u32, ranks: u32) -> [Share; 2] {
    let parameters = Model::new(config, vocab).parameters();
    let optimizer = Optimizer::of(config);
    let bytes = |share: &Share| share.optimizer_bytes(&parameters, &optimizer);
    let smallest = Share::all(ranks).min_by_key(bytes).unwrap_or_default();
    let largest = Share::all(ranks).rev().max_by_key(bytes).unwrap_or_default();
    [smallest, largest]
}

/// What a plan says of its ranks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PlannedRanks {
    /// How many train together.
    count: u32,
    /// Which of them was planned: the one with the most memory.
    rank: u32,
    lanes: u64,
    /// Of the optimizer's states on a rank, `[low, high]`.
    optimizer_bytes: [u64; 2],
    /// Buffers of messages, part of the overhead.
    buffer_bytes: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<StepTraffic>,
}

impl PlannedRanks {
    /// `None` without `--ranks`.
    pub(super) fn of(
        matches: &ArgMatches,
        config: &Config,
        job: &Job,
        time: Option<&RunTime>,
    ) -> Option<Self> {
        let ranks = matches.get_one::<u32>("ranks").copied()?;
        let rate = matches.try_get_one::<NetworkRate>("network").ok().flatten().copied();
        Some(Self::new(ranks, config, job, rate, time))
    }

    /// Of a plan for the largest of `ranks`.
    pub(super) fn new(
        ranks: u32,
        config: &Config,
        job: &Job,
        rate: Option<NetworkRate>,
        time: Option<&RunTime>,
    ) -> Self {
        let parameters = job.model.parameters();
        let optimizer = &job.training.optimizer;
        let bytes = |share: Share| share.optimizer_bytes(&parameters, optimizer);
        Self {
            count: ranks,
            rank: job.training.share.rank,
            lanes: job.training.lanes,
            optimizer_bytes: extremes(config, job.model.vocab, ranks).map(bytes),
            buffer_bytes: lanes::buffer_bytes(&job.training, &parameters),
            network: rate.map(|rate| StepTraffic::of(job, rate, time.map(|time| time.step_s))),
        }
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let [low, high] = self.optimizer_bytes.map(Bytes::new);
        let mut text =
            words::share(self.count, self.lanes, self.rank, low, high, self.buffer_bytes);
        if let Some(network) = &self.network {
            let bytes = Bytes::new(network.sent_bytes);
            let seconds = format!("{:.2}", network.exposed_s);
            text.push('\n');
            text += &words::traffic(bytes, seconds);
            if let Some([low, high]) = network.efficiency {
                let percent = |share: f64| format!("{:.0}", share * 100.0);
                text += &words::efficiency(percent(low), percent(high));
            }
        }
        text
    }
}
