//! Options that make a config fit a device, ranked. Each one was planned.
//!
//! An option is a set of moves. Moves are ordered: those that change nothing, those that keep the
//! mathematics, smaller micro-batches, recomputation; and separately those that change the
//! training run. Only minimal options are listed: if one option that fits contains another, only
//! the smaller is. An option's memory depends only on its config, so planning the changed config
//! gives the same numbers.
//!
//! Candidates are compared by live bytes; listed options were placed and verified.
//!
//! Promise: an option of `--fit` does not change the training run, and in a resumed run no bit.
//! Test: `tests/runs/fitting.rs`.

mod note;
mod patch;
mod option;
mod moves;
mod candidate;
mod count;
mod optimizers;
mod search;
mod smaller;
mod text;
#[cfg(test)]
mod tests;

use fitgpt_config::{Config, Precision};
use fitgpt_model::{
    report::{DeviceMemory, Overhead, PlanReport, TokenStaging, Verdict},
    shard::Share,
};
use fitgpt_program::memory::{PlanError, Target};
use serde::Serialize;

use self::{
    count::Counter,
    moves::{AvailableMoves, MoveSet},
    search::{FitSearch, Known},
};
pub use self::{
    note::FitNote,
    option::{Change, Effect, FitOption},
    patch::{Patch, Upgrade},
    text::{command_line, fitgpt_command, nanogpt_commands, nanogpt_reads, write},
};
use crate::torch::{Rules, TorchOptions};

/// The engine that runs the config.
#[derive(Clone, Copy)]
pub enum Engine<'a> {
    /// This program.
    Fitgpt {
        /// The backend, as the planner sees it.
        target: &'a dyn Target,
        /// How activations are stored: the config's `dtype`, or the device's default.
        precision: Precision,
        /// Where it reads the tokens of a batch.
        staging: TokenStaging,
    },
    /// nanoGPT under PyTorch.
    Torch {
        /// How products are computed: the config's `dtype`, or the device's default.
        precision: Precision,
        /// Kernels, workers and the form of the loss. The rest is taken from the config.
        kernels: TorchOptions,
    },
}

impl Engine<'_> {
    /// nanoGPT on CUDA with one worker and fused kernels.
    pub fn torch(precision: Precision) -> Self {
        Self::torch_on(Rules::Cuda, precision)
    }

    /// nanoGPT under the rules of a device.
    pub fn torch_on(rules: Rules, precision: Precision) -> Self {
        Self::Torch { precision, kernels: TorchOptions::on(rules) }
    }

    fn precision(&self) -> Precision {
        match self {
            Self::Fitgpt { precision, .. } | Self::Torch { precision, .. } => *precision,
        }
    }
}

/// A config, and the device it should fit.
#[derive(Clone, Copy)]
pub struct FitRequest<'a> {
    /// The config.
    pub config: &'a Config,
    /// Rows of the embedding.
    pub vocab: u32,
    /// The engine that runs it.
    pub engine: Engine<'a>,
    /// The device.
    pub device: &'a DeviceMemory,
    /// Memory in addition to the tensors.
    pub overhead: Overhead,
    /// Whether the device supports bfloat16 in hardware.
    pub has_bf16: bool,
    /// Whether it multiplies bfloat16 factors about twice as fast as float32 ones, though it stores
    /// float32 by default: a CPU with an instruction for them.
    pub is_faster_in_bf16: bool,
    /// The rank whose memory has to fit, if several train together.
    pub share: Share,
}

/// The options that make a config fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The unchanged config.
    pub original: PlanReport,
    /// Best first: options that fit and keep the training; those that do so only at the low end of
    /// the overhead; those that fit and change the run; some that do not fit but help.
    pub options: Vec<FitOption>,
    /// The first that fits and keeps the training.
    pub recommended: Option<usize>,
    /// Of those, the one with the lowest peak.
    pub safest: Option<usize>,
    /// The first of those that needs no patch beyond what the config needs already.
    pub without_patches: Option<usize>,
    /// Further remarks.
    pub notes: Vec<FitNote>,
}

/// The most options listed of each kind, in the order of [`Fit::options`].
const LISTED: [usize; 4] = [7, 2, 6, 3];
/// The most options listed.
const LISTED_IN_ALL: usize = 14;

/// Finds the options that make `request` fit.
pub fn fit(request: &FitRequest<'_>) -> Fit {
    let counter = Counter::new(request);
    let (original, refusal) = counter.original();
    options_for(request, &counter, original, refusal)
}

/// [`fit`] for a request whose config was planned already: `original` is its report.
pub fn fit_planned(request: &FitRequest<'_>, original: PlanReport) -> Fit {
    options_for(request, &Counter::new(request), original, None)
}

fn options_for(
    request: &FitRequest<'_>,
    counter: &Counter<'_>,
    original: PlanReport,
    refusal: Option<PlanError>,
) -> Fit {
    let available = AvailableMoves::new(request);
    let search = FitSearch {
        request,
        counter,
        available: &available,
        original: &original,
        planned: Known::default(),
    };

    let mut notes = note::of_request(request, refusal);
    let mut options;
    if let Some(note) = note::static_state(request) {
        // No batch is small enough: only a smaller model fits.
        notes.push(note);
        options = smaller::options(&search, &available.strongest_without_split());
    } else {
        options = search.minimal_options(Verdict::Fits);
        let keeping_fits = !options.is_empty();
        if keeping_fits {
            search.add_safer(&mut options);
        }
        search.add_tight(&mut options);
        let base = if keeping_fits { MoveSet::default() } else { available.strongest() };
        // A config that fits needs no smaller model.
        if original.verdict != Verdict::Fits {
            options.extend(smaller::options(&search, &base));
            search.add_helpful(&mut options);
        }
        notes.extend(search.other_split(&options));
    }
    notes.extend(search.faster_in_bf16(&options));
    rank(&mut options);

    let keeping = |o: &&FitOption| o.fits && o.keeps_training;
    let place = |wanted: Option<&FitOption>| {
        wanted.and_then(|wanted| options.iter().position(|option| option == wanted))
    };
    let recommended = place(options.iter().find(keeping));
    // The first of equals.
    let safest = options.iter().filter(keeping).rev().min_by_key(|option| option.arena_bytes);
    let safest = place(safest);
    let plain = |o: &&FitOption| keeping(o) && o.new_patches == 0 && o.upgrades.is_empty();
    let without_patches = place(options.iter().find(plain));
    Fit { original, options, recommended, safest, without_patches, notes }
}

/// Sorts by kind and invasiveness, and cuts the list.
fn rank(options: &mut Vec<FitOption>) {
    let kind = |option: &FitOption| match (option.verdict, option.keeps_training) {
        (Verdict::Fits, true) => 0,
        (Verdict::Tight, true) => 1,
        (Verdict::Fits, false) => 2,
        _ => 3,
    };
    options.sort_by(|a, b| {
        let by_kind = kind(a).cmp(&kind(b));
        by_kind.then_with(|| match kind(a) {
            0 | 1 => a.by_invasiveness(b),
            2 => std::cmp::Ordering::Equal, // already in the order of how much they change
            _ => b.saved_bytes.cmp(&a.saved_bytes),
        })
    });
    let mut listed = [0; 4];
    options.retain(|option| {
        listed[kind(option)] += 1;
        listed[kind(option)] <= LISTED[kind(option)]
    });
    options.truncate(LISTED_IN_ALL);
}
