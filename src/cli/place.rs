//! Where a plan is to run: a card of the catalogue, a budget, or this machine; and who runs it.

use clap::ArgMatches;
use fitgpt_plan::{
    config::{Config, Precision},
    device,
    report::{Device, Overhead},
    torch,
    units::Bytes,
};

use super::Failure;
use crate::{os, run::device::Runner};

/// Who runs the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Fitgpt,
    Torch,
}

impl Engine {
    /// The engines that `--engine` names, PyTorch's first where it names both.
    pub(super) fn of(matches: &ArgMatches) -> &'static [Self] {
        match matches.get_one::<String>("engine").map(String::as_str) {
            Some("both") => &[Self::Torch, Self::Fitgpt],
            Some("torch") => &[Self::Torch],
            _ => &[Self::Fitgpt],
        }
    }
}

/// The device that a plan is judged by.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) engine: Engine,
    pub(super) device: Device,
    pub(super) overhead: Overhead,
    /// The config's `dtype`, or what suits the device.
    pub(super) precision: Precision,
    pub(super) has_bf16: bool,
    /// Whether it was asked for by a card's name.
    pub(super) is_card: bool,
    /// Whose kernels are planned: those of the device that runs it here, and for a card of the
    /// catalogue, which is not here, the CPU's.
    pub(super) runner: Runner,
}

impl Place {
    /// Where the one engine of a command line runs `config`.
    pub(super) fn of(matches: &ArgMatches, config: &Config) -> Result<Self, Failure> {
        let [engine, ..] = Engine::of(matches) else { unreachable!("there is always an engine") };
        Self::of_engine(*engine, matches, config)
    }

    /// Where `engine` runs `config`.
    pub(super) fn of_engine(
        engine: Engine,
        matches: &ArgMatches,
        config: &Config,
    ) -> Result<Self, Failure> {
        let budget = config.memory_budget().map(Bytes::new);
        let mut has_bf16 = true;
        let mut runner = Runner::cpu(config);
        let (device, is_here) = match matches.get_one::<String>("gpu") {
            Some(name) => {
                let gpu = device::find(name)?;
                has_bf16 = gpu.has_bf16();
                let total_bytes = gpu.total_bytes();
                let usable_bytes = budget.map_or(total_bytes, |budget| budget.min(total_bytes));
                (Device { name: gpu.name.to_owned(), total_bytes, usable_bytes }, false)
            }
            None if engine == Engine::Fitgpt => {
                runner = Runner::for_a_plan(config)?;
                has_bf16 = runner.has_bf16();
                (runner.device(config)?, true)
            }
            None => (os::host_memory().device(budget), false),
        };
        let overhead = match (is_here, engine) {
            (true, _) => runner.overhead(),
            (false, Engine::Torch) => torch::overhead(config),
            // A card's context and libraries are there whoever runs on it; nothing compiles.
            (false, Engine::Fitgpt) => {
                Overhead { compile_bytes: [Bytes::ZERO; 2], ..torch::overhead(config) }
            }
        };
        let precision = match (is_here, has_bf16) {
            (true, _) => runner.precision(config),
            (false, true) => config.precision_or(Precision::Bfloat16),
            (false, false) => config.precision_or(Precision::Float16),
        };
        let is_card = matches.contains_id("gpu");
        Ok(Self { engine, device, overhead, precision, has_bf16, is_card, runner })
    }
}
