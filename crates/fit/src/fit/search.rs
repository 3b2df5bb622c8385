//! The search: the largest micro-batch that fits for each combination of moves, reduced to the
//! minimal ones.

use std::cell::RefCell;

use fitgpt_config::{ConfigValue, Precision, divisors};
use fitgpt_model::{
    job::least,
    report::{PlanReport, Verdict},
};
use fitgpt_program::units::Bytes;

use super::{
    Change, Effect, Engine, FitNote, FitOption, FitRequest, Patch, Upgrade,
    candidate::{FitCandidate, raw},
    count::Counter,
    moves::{AvailableMoves, Move, MoveSet},
    optimizers,
};

/// Larger effective batches are not searched for divisors.
const LARGEST_BATCH_TO_DIVIDE: u64 = 1 << 32;

pub(super) struct FitSearch<'a> {
    pub(super) request: &'a FitRequest<'a>,
    pub(super) counter: &'a Counter<'a>,
    pub(super) available: &'a AvailableMoves,
    pub(super) original: &'a PlanReport,
    pub(super) planned: Known,
}

/// Options that were planned already, by their changes.
pub(super) type Known = RefCell<Vec<((Vec<Change>, Vec<Upgrade>), Option<FitOption>)>>;

impl FitSearch<'_> {
    pub(super) fn candidate(&self, moves: MoveSet, extra: &[Change]) -> Option<FitCandidate> {
        let new =
            |eval_batch| FitCandidate::new(self.request, self.available, moves, eval_batch, extra);
        let whole = new(None)?;
        if moves.level(Move::OwnEval) == 0 {
            return Some(whole);
        }
        // The largest divisor of the evaluation batch that fits.
        let [_, limit] = self.counter.limit(&whole.config);
        let batch = u64::from(whole.config.eval_batch_size());
        let shares: Vec<_> = divisors(batch).into_iter().rev().skip(1).collect();
        let with = |share: u64| new(Some(share as u32));
        let fits = |share: u64| with(share).is_some_and(|c| self.counter.evaluates_in(&c, limit));
        let Some(last) = (shares.len() as u32).checked_sub(1) else { return Some(whole) };
        with(shares[least(last, |index| fits(shares[index as usize])) as usize])
    }

    /// Whether its live bytes are low enough for `wanted`.
    fn may(&self, candidate: &FitCandidate, wanted: Verdict) -> bool {
        let [low, high] = self.counter.limit(&candidate.config);
        let limit = if wanted == Verdict::Fits { high } else { low };
        self.counter.lives_in(candidate, limit)
    }

    /// Plans a candidate. `effect` is the effect of its changes beyond its moves.
    pub(super) fn plan(&self, candidate: FitCandidate, effect: Effect) -> Option<FitOption> {
        let key = (candidate.changes, candidate.upgrades);
        let known = self.planned.borrow().iter().find(|(k, _)| *k == key).map(|(_, o)| o.clone());
        if let Some(known) = known {
            return known;
        }
        let (changes, upgrades) = key.clone();
        let candidate = FitCandidate { changes, upgrades, ..candidate };
        let option = self.plan_anew(candidate, effect);
        self.planned.borrow_mut().push((key, option.clone()));
        option
    }

    fn plan_anew(&self, candidate: FitCandidate, effect: Effect) -> Option<FitOption> {
        let planned = self.counter.plan(&candidate)?;
        let before = self.counter.computed_twice_by_original();
        let effect = candidate.moves.effect().max(effect);
        let patches = match self.request.engine {
            Engine::Fitgpt { .. } => Vec::new(),
            Engine::Torch { .. } => Patch::of_config(&candidate.config),
        };
        let known = Patch::of_config(self.request.config);
        let new_patches: Vec<_> = patches.iter().filter(|patch| !known.contains(patch)).collect();
        Some(FitOption {
            is_loss_alone: candidate.config.compile() && new_patches == [&Patch::LossAlone],
            new_patches: new_patches.len(),
            patches,
            upgrades: candidate.upgrades,
            effect,
            peak_bytes: planned.peak_bytes,
            arena_bytes: planned.arena_bytes,
            saved_bytes: self.original.peak_bytes.saturating_sub(planned.peak_bytes),
            fits: planned.verdict == Verdict::Fits,
            verdict: planned.verdict,
            keeps_training: effect < Effect::ChangesRun,
            extra_compute: ((1.0 + planned.computed_twice) / (1.0 + before) - 1.0).max(0.0),
            effective_batch: candidate.config.effective_batch(),
            peak_phase: planned.peak_phase,
            micro_batch: candidate.config.batch_size(),
            changes: candidate.changes,
        })
    }

    /// The first of `count` candidates whose plan is `wanted` or better. Each candidate needs no
    /// more memory than the one before.
    pub(super) fn first(
        &self,
        count: usize,
        effect: Effect,
        wanted: Verdict,
        candidate: impl Fn(usize) -> Option<FitCandidate>,
    ) -> Option<(usize, FitOption)> {
        let may = |index| candidate(index).is_some_and(|c| self.may(&c, wanted));
        let last = count.checked_sub(1)?;
        // The first is tested separately: with one micro-batch per step PyTorch holds no gradients
        // at the loss, with two it does.
        let mut index = 0;
        if !may(0) {
            if last == 0 || !may(last) {
                return None;
            }
            index = 1 + least(last as u32 - 1, |index| may(index as usize + 1)) as usize;
        }
        // A plan can be slightly larger than its live bytes, so the next one may be needed.
        (index..count).find_map(|index| {
            let option = self.plan(candidate(index)?, effect)?;
            let is_wanted = option.verdict == Verdict::Fits || option.verdict == wanted;
            is_wanted.then_some((index, option))
        })
    }

    /// The minimal options that are `wanted` or better.
    pub(super) fn minimal_options(&self, wanted: Verdict) -> Vec<FitOption> {
        let mut found: Vec<(MoveSet, FitOption)> = Vec::new();
        for mix in self.available.mixes() {
            // Skips micro-batches that a smaller combination of moves already reaches.
            let lesser =
                found.iter().filter(|(moves, _)| moves.with(Move::Split, 0).is_within(&mix));
            let splits = lesser.map(|(moves, _)| moves.level(Move::Split)).min();
            let splits = splits.unwrap_or(self.available.splits.len());
            let moves = |split| mix.with(Move::Split, split);
            let option = self.first(splits, Effect::ChangesNothing, wanted, |split| {
                self.candidate(moves(split), &[])
            });
            let Some((split, option)) = option else { continue };
            let mut least_work = option.extra_compute;
            found.push((moves(split), option));
            // If the budget decides how much is recomputed, a smaller micro-batch may need less
            // of it.
            for split in (split + 1..splits).take(if self.has_mixes(mix) { 2 } else { 0 }) {
                let candidate = self.candidate(moves(split), &[]);
                let option = candidate.and_then(|c| self.plan(c, Effect::ChangesNothing));
                if let Some(option) = option.filter(|o| o.extra_compute < least_work) {
                    least_work = option.extra_compute;
                    found.push((moves(split), option));
                }
            }
        }
        found.into_iter().map(|(_, option)| option).collect()
    }

    /// Whether the budget decides how much `mix` recomputes.
    fn has_mixes(&self, mix: MoveSet) -> bool {
        matches!(self.request.engine, Engine::Fitgpt { .. }) && mix.level(Move::Recompute) == 1
    }

    /// Adds options with a lower peak than the minimal ones: the next smaller micro-batch, and
    /// recomputing every block.
    pub(super) fn add_safer(&self, options: &mut Vec<FitOption>) {
        if self.original.verdict == Verdict::Fits {
            return;
        }
        let mut add = |moves: MoveSet| {
            let option = self.candidate(moves, &[]);
            let option = option.and_then(|c| self.plan(c, Effect::ChangesNothing));
            let option =
                option.filter(|o| o.fits && options.iter().all(|p| p.changes != o.changes));
            options.extend(option);
        };
        let nothing = MoveSet::default();
        let fits = |split: usize| {
            let candidate = self.candidate(nothing.with(Move::Split, split), &[]);
            candidate.is_some_and(|c| self.may(&c, Verdict::Fits))
        };
        // A smaller micro-batch never needs more memory, so bisection finds the first that fits.
        // There may be no next smaller one.
        if let Some(last) = self.available.splits.len().checked_sub(2) {
            let next = 2 + least(last as u32, |split| fits(split as usize + 1)) as usize;
            if next < self.available.splits.len() {
                add(nothing.with(Move::Split, next));
            }
        }
        if self.available.most(Move::Recompute) == 2 {
            add(nothing.with(Move::Recompute, 2));
        }
    }

    /// Adds smaller options that fit only if the overhead is low.
    pub(super) fn add_tight(&self, options: &mut Vec<FitOption>) {
        if self.original.verdict == Verdict::Fits {
            return;
        }
        let tight = self.minimal_options(Verdict::Tight);
        options.extend(tight.into_iter().filter(|o| o.verdict == Verdict::Tight));
    }

    /// Adds single moves that lower the peak but do not fit, and all of them together.
    pub(super) fn add_helpful(&self, options: &mut Vec<FitOption>) {
        let nothing = MoveSet::default();
        let little = Bytes::new(self.original.peak_bytes.get() / 20);
        let singles = Move::ALL.into_iter().map(|of| nothing.with(of, self.available.most(of)));
        for moves in singles.chain([self.available.strongest()]) {
            let is_listed =
                |c: &FitCandidate| options.iter().any(|listed| listed.changes == c.changes);
            let candidate = self.candidate(moves, &[]).filter(|c| !is_listed(c));
            let option = candidate.and_then(|c| self.plan(c, Effect::ChangesNothing));
            options.extend(option.filter(|o| o.verdict == Verdict::No && o.saved_bytes > little));
        }
        for changes in optimizers::with_less_state(self.request) {
            let option = self.candidate(nothing, &changes);
            let option = option.and_then(|c| self.plan(c, Effect::ChangesRun));
            options.extend(option.filter(|o| o.verdict == Verdict::No && o.saved_bytes > little));
        }
    }

    /// Says that bfloat16 is faster on this CPU, unless an option says it already.
    pub(super) fn faster_in_bf16(&self, options: &[FitOption]) -> Option<FitNote> {
        let is_float32 = self.request.engine.precision() == Precision::Float32;
        let is_offered = options.iter().flat_map(|o| &o.changes).any(|(key, _)| *key == "dtype");
        if !self.request.is_faster_in_bf16 || !is_float32 || is_offered {
            return None;
        }
        let change = ("dtype", Precision::Bfloat16.name().into());
        let candidate = self.candidate(MoveSet::default(), &[change])?;
        let option = self.plan(candidate, Effect::ChangesRun).filter(|o| o.fits)?;
        let FitOption { peak_bytes, saved_bytes, .. } = option;
        Some(FitNote::FasterInBf16 { peak_bytes, saved_bytes })
    }

    /// A micro-batch size between the listed ones that gives the same step.
    pub(super) fn other_split(&self, options: &[FitOption]) -> Option<FitNote> {
        let config = self.request.config;
        if self.original.verdict == Verdict::Fits {
            return None;
        }
        let all = config.effective_batch().sequences;
        if all > LARGEST_BATCH_TO_DIVIDE {
            return None;
        }
        let is_plain = |o: &&FitOption| o.fits && o.effect == Effect::MicroBatch;
        let listed = options.iter().filter(is_plain).map(|o| o.micro_batch).max().unwrap_or(0);
        let batch = u64::from(config.batch_size());
        let between = divisors(all).into_iter().rev().filter(|micro| {
            (u64::from(listed) + 1..batch).contains(micro) && !batch.is_multiple_of(*micro)
        });
        let sequences = u64::from(config.eval_iters()) * u64::from(config.eval_batch_size());
        let follows = raw(config, "eval_batch_size") == ConfigValue::Int(0);
        between.into_iter().find_map(|micro| {
            let batch_size = u32::try_from(micro).ok()?;
            let steps = u32::try_from(all / micro).ok()?;
            let mut changes: Vec<Change> = vec![
                ("batch_size", batch_size.into()),
                ("gradient_accumulation_steps", steps.into()),
            ];
            match self.request.engine {
                Engine::Torch { .. } if follows => {
                    let iters = u32::try_from(sequences / micro).ok()?;
                    changes.push(("eval_iters", iters.into()));
                    sequences.is_multiple_of(micro).then_some(())?;
                }
                _ => changes.push(("eval_batch_size", config.eval_batch_size().into())),
            }
            let candidate = self.candidate(MoveSet::default(), &changes)?;
            if !self.may(&candidate, Verdict::Fits) {
                return None;
            }
            let option = self.plan(candidate, Effect::MicroBatch).filter(|o| o.fits)?;
            Some(FitNote::OtherSplit {
                batch_size,
                gradient_accumulation_steps: steps,
                peak_bytes: option.peak_bytes,
            })
        })
    }
}
