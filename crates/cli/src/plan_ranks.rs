//! `plan --ranks` and `fit --ranks`: the memory and the network traffic of one of several ranks.

use clap::{Arg, ArgMatches, Command, value_parser};
use fitgpt_commands::{Failure, target::EngineChoice, together};
use fitgpt_config::Config;
use fitgpt_model::{Model, Parameter, job::Job, optimizer::Optimizer, shard::Share};
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    lanes,
    network::{NetworkRate, StepTraffic},
    time::RunTime,
};
use serde::Serialize;

use super::target;
use crate::words::ranks as words;

/// More ranks than any cluster has.
const MOST_RANKS: i64 = 1 << 16;

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
    if target::engines(matches).contains(&EngineChoice::Torch) {
        return Err(Failure::new("usage", words::ranks_of_fitgpt()));
    }
    of_count(ranks, config, vocab).map(Some)
}

/// The config with its lanes, and the one of `ranks` ranks that needs the most memory.
pub(super) fn of_count(
    ranks: u32,
    config: &Config,
    vocab: u32,
) -> Result<(Config, Share), Failure> {
    let config = together::with_lanes(ranks, config)?;
    let parameters = Model::new(&config, vocab).parameters();
    let (_, largest) = extremes(&parameters, &Optimizer::of(&config), ranks);
    Ok((config, largest))
}

/// The command that runs `command` on several ranks.
pub(super) fn command_of(ranks: u32, command: &str) -> String {
    format!("mpirun -np {ranks} {command}")
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
pub(super) struct PlannedRanks {
    /// How many train together.
    count: u32,
    /// The one that was planned: the one that needs the most memory.
    rank: u32,
    lanes: u64,
    /// Optimizer states of a rank, `[low, high]`.
    optimizer_bytes: [u64; 2],
    /// Buffers of messages, part of the overhead.
    buffer_bytes: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<StepTraffic>,
}

impl PlannedRanks {
    /// `None` without `--ranks`.
    pub(super) fn of(matches: &ArgMatches, job: &Job, time: Option<&RunTime>) -> Option<Self> {
        let ranks = matches.get_one::<u32>("ranks").copied()?;
        let rate = matches.try_get_one::<NetworkRate>("network").ok().flatten().copied();
        Some(Self::new(ranks, job, rate, time))
    }

    /// From a plan for the largest of `ranks` ranks.
    pub(super) fn new(
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

    /// As text.
    pub(super) fn text(&self) -> String {
        let [low, high] = self.optimizer_bytes.map(Bytes::new);
        let mut text =
            words::share(self.count, self.lanes, self.rank, low, high, self.buffer_bytes);
        if let Some(network) = &self.network {
            let bytes = Bytes::new(network.sent_bytes);
            let seconds = |s: f64| format!("{s:.2}");
            text.push('\n');
            text += &words::traffic(bytes, seconds(network.transfer_s));
            if let (Some(exposed), Some(shares)) = (network.exposed_s, network.efficiency) {
                let [least, most] = exposed.map(seconds);
                let [low, high] = shares.map(|share| format!("{:.0}", share * 100.0));
                text += &words::efficiency(least, most, low, high);
            }
        }
        text
    }
}
