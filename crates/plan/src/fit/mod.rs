//! Ways to make a config fit a device, ranked: each one a plan that was made.
//!
//! A *way* is a set of moves, and moves have an order: what changes nothing, what keeps the
//! mathematics, smaller micro-batches, recomputation; and apart from those, what changes the
//! run. Listed are the least ways: of two that fit, one of which does all of the other and
//! more, only the other. What a way needs follows from its config alone, so planning the
//! changed config gives the numbers that stand here.
//!
//! Candidates are ranked by live bytes; what is listed was placed and verified.

mod candidate;
mod count;
mod moves;
mod note;
mod option;
mod patch;
mod search;
mod smaller;
#[cfg(test)]
mod tests;
mod text;

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
    text::{command_line, fitgpt_command, nanogpt_commands, write},
};
use crate::{
    config::{Config, Precision},
    memory::Target,
    report::{DeviceMemory, Overhead, PlanReport, Verdict},
    torch::{Rules, TorchOptions},
};

/// Who runs the config.
#[derive(Clone, Copy)]
pub enum Engine<'a> {
    /// This program.
    Fitgpt {
        /// The backend, as the planner sees it.
        target: &'a dyn Target,
        /// How activations are stored: the config's `dtype`, or what suits the device.
        precision: Precision,
    },
    /// nanoGPT under PyTorch.
    Torch {
        /// How products are computed: the config's `dtype`, or what suits the device.
        precision: Precision,
        /// Kernels, workers and the form of the loss. What a config says is taken from it.
        kernels: TorchOptions,
    },
}

impl Engine<'_> {
    /// nanoGPT on CUDA with one worker and fused kernels.
    pub fn torch(precision: Precision) -> Self {
        Self::torch_on(Rules::Cuda, precision)
    }

    /// The same under the rules of a device.
    pub fn torch_on(rules: Rules, precision: Precision) -> Self {
        Self::Torch { precision, kernels: TorchOptions::on(rules) }
    }

    fn precision(&self) -> Precision {
        match self {
            Self::Fitgpt { precision, .. } | Self::Torch { precision, .. } => *precision,
        }
    }
}

/// A config that should fit a device.
#[derive(Clone, Copy)]
pub struct FitRequest<'a> {
    /// The config.
    pub config: &'a Config,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Who runs it.
    pub engine: Engine<'a>,
    /// Where.
    pub device: &'a DeviceMemory,
    /// Memory beside the tensors.
    pub overhead: Overhead,
    /// Whether the device computes in bfloat16 by itself.
    pub has_bf16: bool,
}

/// The ways to make a config fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The config as it is.
    pub original: PlanReport,
    /// Best first: what fits and keeps the training, what does so only at the low end of the
    /// overhead, what fits and changes the run, and some that do not fit but help.
    pub options: Vec<FitOption>,
    /// The first that fits and keeps the training.
    pub recommended: Option<usize>,
    /// The one with most room of those.
    pub safest: Option<usize>,
    /// The first of those that asks for no patch which the config does not ask for already.
    pub without_patches: Option<usize>,
    /// What else should be known.
    pub notes: Vec<FitNote>,
}

/// Options of each kind that are listed at most, in the order of [`Fit::options`].
const LISTED: [usize; 4] = [7, 2, 6, 3];
/// And of all.
const LISTED_IN_ALL: usize = 14;

/// Looks for every way that makes `case` fit.
pub fn fit(case: &FitRequest<'_>) -> Fit {
    let counter = Counter::new(case);
    let (original, refusal) = counter.original();
    let menu = AvailableMoves::new(case);
    let search = FitSearch {
        case,
        counter: &counter,
        menu: &menu,
        original: &original,
        planned: Known::default(),
    };

    let mut notes = note::of_case(case, refusal);
    let mut options;
    if let Some(note) = note::static_state(case) {
        // No batch is small enough: only another model is.
        notes.push(note);
        options = smaller::options(&search, &menu.strongest_without_split());
    } else {
        options = search.least_ways(Verdict::Fits);
        let keeping_fits = !options.is_empty();
        if keeping_fits {
            search.add_safer(&mut options);
        }
        search.add_tight(&mut options);
        let base = if keeping_fits { MoveSet::default() } else { menu.strongest() };
        // What fits as it is needs no other model.
        if original.verdict != Verdict::Fits {
            options.extend(smaller::options(&search, &base));
            search.add_helpful(&mut options);
        }
        notes.extend(search.other_split(&options));
    }
    rank(&mut options);

    let keeping = |o: &&FitOption| o.fits && o.keeps_training;
    let place = |wanted: Option<&FitOption>| {
        wanted.and_then(|wanted| options.iter().position(|option| option == wanted))
    };
    let recommended = place(options.iter().find(keeping));
    // The first of several with as much room.
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
            2 => std::cmp::Ordering::Equal, // in the order of what is given up
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
