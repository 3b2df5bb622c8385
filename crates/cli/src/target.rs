//! The engines and the device of a plan, as the command line names them.

use clap::ArgMatches;
use fitgpt_commands::{
    Failure,
    target::{DeviceFlags, EngineChoice, PlanTarget},
};
use fitgpt_config::Config;

/// The engines of `--engine`, PyTorch first if it is `both`.
pub(super) fn engines(matches: &ArgMatches) -> &'static [EngineChoice] {
    match matches.get_one::<String>("engine").map(String::as_str) {
        Some("both") => &[EngineChoice::Torch, EngineChoice::Fitgpt],
        Some("torch") => &[EngineChoice::Torch],
        _ => &[EngineChoice::Fitgpt],
    }
}

/// The target of the first engine of a command line.
pub(super) fn of(matches: &ArgMatches, config: &Config) -> Result<PlanTarget, Failure> {
    let [engine, ..] = engines(matches) else { unreachable!("there is always an engine") };
    of_engine(*engine, matches, config)
}

/// The target of `engine` on a command line.
pub(super) fn of_engine(
    engine: EngineChoice,
    matches: &ArgMatches,
    config: &Config,
) -> Result<PlanTarget, Failure> {
    let flag = |name| matches.try_get_one::<String>(name).ok().flatten().map(String::as_str);
    let is_compared = engines(matches).len() > 1;
    let flags = DeviceFlags { gpu: flag("gpu"), reserve: flag("reserve"), is_compared };
    PlanTarget::on(engine, flags, config)
}
