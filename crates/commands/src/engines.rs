//! Which engines a plan is made for if the user names none.

use fitgpt_config::{Config, Family, InitFrom, Key, KeyGroup, OptimizerChoice, Written};
use fitgpt_fit::fit::{self, Patch};
use fitgpt_say::Sentence;

use super::target::EngineChoice;
use crate::words::engines as words;

/// The engines that the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineRequest {
    /// None.
    Unnamed,
    /// One.
    One(EngineChoice),
    /// `--engine both`.
    Both,
}

/// The engines of a plan, PyTorch first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenEngines {
    /// Which.
    pub engines: &'static [EngineChoice],
    /// Why PyTorch is not among them, if it could be expected.
    pub note: Option<Sentence>,
}

const BOTH: &[EngineChoice] = &[EngineChoice::Torch, EngineChoice::Fitgpt];
const FITGPT: &[EngineChoice] = &[EngineChoice::Fitgpt];

/// What somebody reads who plans for a card: both engines if nanoGPT could run the config. Programs
/// that name no engine get FitGPT's plan.
pub fn choose(
    asked: EngineRequest,
    card: Option<&str>,
    is_for_people: bool,
    config: &Config,
    written: &Written,
) -> ChosenEngines {
    let alone = |note| ChosenEngines { engines: FITGPT, note };
    match asked {
        EngineRequest::Both => ChosenEngines { engines: BOTH, note: None },
        EngineRequest::One(EngineChoice::Torch) => {
            ChosenEngines { engines: &[EngineChoice::Torch], note: None }
        }
        EngineRequest::One(EngineChoice::Fitgpt) => alone(None),
        EngineRequest::Unnamed if card.is_none() || !is_for_people => alone(None),
        EngineRequest::Unnamed => match why_not_nanogpt(config, written) {
            None => ChosenEngines { engines: BOTH, note: None },
            note => alone(note),
        },
    }
}

/// Keys that are about the plan, not the run.
const ABOUT_THE_PLAN: [&str; 2] = ["memory_budget", "vocab_size"];

/// The keys of `written` that nanoGPT's `train.py` refuses.
fn refused_keys(written: &Written) -> impl Iterator<Item = &'static Key> {
    let keys = written.asked_for().map(|(key, ..)| key);
    keys.filter(|key| {
        key.group != KeyGroup::Sampling
            && !ABOUT_THE_PLAN.contains(&key.name)
            && !fit::nanogpt_reads(key, &[])
    })
}

/// The patch that adds a key to nanoGPT.
pub(crate) fn patch_of(key: &str) -> Option<Patch> {
    match key {
        "loss_alone" => Some(Patch::LossAlone),
        "drop_stale_logits" => Some(Patch::DropStaleLogits),
        key => Patch::ALL.into_iter().find(|patch| patch.keys().contains(&key)),
    }
}

/// Why nanoGPT cannot run `config`; `None` if it can.
fn why_not_nanogpt(config: &Config, written: &Written) -> Option<Sentence> {
    if config.family() != Family::Gpt2 {
        return Some(words::other_family(config.family()));
    }
    if config.optimizer() != OptimizerChoice::AdamW {
        return Some(words::other_optimizer(config.optimizer().name()));
    }
    if let InitFrom::Pretrained(name) = config.init_from()
        && !InitFrom::is_nanogpt(name)
    {
        return Some(words::other_weights(name));
    }
    let refused: Vec<_> = refused_keys(written).collect();
    let first = refused.first()?;
    let patches: Option<Vec<_>> = refused.iter().map(|key| patch_of(key.name)).collect();
    Some(match patches {
        Some(mut patches) => {
            patches.sort_unstable();
            patches.dedup();
            let names: Vec<_> = patches.iter().map(|patch| patch.name()).collect();
            words::patched_key(first.name, names.join(" "))
        }
        None => words::unknown_key(first.name),
    })
}
