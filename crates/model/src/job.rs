//! A job: the programs of a config, and their plan.
//!
//! Makes the choices that a config leaves open and that do not change the training run: how many
//! rows of logits are computed at a time, how many sequences are evaluated at a time, and which
//! layers recompute.
//!
//! The logits never exist as a whole. One op computes logits, softmax, their gradient, `d_x` and
//! `d_wte` for a chunk of rows at a time. The size of a chunk depends only on the shapes (a power
//! of two, about 128 MiB), so that a budget never changes rounding.

use fitgpt_config::{Config, GradCheckpoint, Precision, divisors};
use fitgpt_program::{
    Names, Program, Tensor,
    memory::{FitCheck, PlanError, Target, VerifiedPlan, place, profile, verify},
    units::{Bytes, DType},
};

use crate::{
    Model, decoder,
    optimizer::Optimizer,
    programs::{SamplingPrograms, TrainingPrograms},
    shard::Share,
    state::SampledTypes,
    training::{Recompute, Training},
};

/// A model, and how it is trained and sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// The model.
    pub model: Model,
    /// How it is trained.
    pub training: Training,
    /// Sequences of each split that one evaluation covers.
    pub eval_sequences: u64,
    /// Sequences that sampling decodes together.
    pub samples: u64,
    /// The type of the matrices that sampling reads.
    pub sampled_matrices: DType,
}

impl Job {
    /// The job of `config` with the vocabulary of its data, on a device that stores activations
    /// as `precision`. `limit` is what the arena may take, for `grad_checkpoint = 'auto'`.
    pub fn new(
        config: &Config,
        vocab: u32,
        precision: Precision,
        target: &impl Target,
        limit: Bytes,
    ) -> Self {
        Self::of_share(config, vocab, precision, target, limit, Share::WHOLE)
    }

    /// The job of one of several ranks. Only its memory depends on the number of ranks.
    pub fn of_share(
        config: &Config,
        vocab: u32,
        precision: Precision,
        target: &impl Target,
        limit: Bytes,
        share: Share,
    ) -> Self {
        let mut job = Self::with_recompute(config, vocab, precision, target, limit, share);
        let Self { model, training, .. } = &mut job;
        training.eval_batch = largest_free_eval_batch(model, training, target);
        job
    }

    /// The job with its recomputation, before the size of an evaluation is chosen.
    pub fn with_recompute(
        config: &Config,
        vocab: u32,
        precision: Precision,
        target: &impl Target,
        limit: Bytes,
        share: Share,
    ) -> Self {
        let mut job = Self::unadapted(config, vocab, precision, share);
        job.sampled_matrices = target.sampled_matrices(job.training.activations);
        let Self { model, training, .. } = &mut job;
        match config.grad_checkpoint() {
            GradCheckpoint::Off => {}
            GradCheckpoint::Every => training.recompute.blocks = model.layers,
            GradCheckpoint::Auto => {
                training.recompute = cheapest_recompute(model, training, target, limit);
            }
        }
        job
    }

    /// The job before these choices: nothing is recomputed, and an evaluation runs its whole batch
    /// at a time.
    pub fn unadapted(config: &Config, vocab: u32, precision: Precision, share: Share) -> Self {
        let model = Model::new(config, vocab);
        let batch = u64::from(config.batch_size());
        let seq = u64::from(config.block_size());
        let eval_batch = u64::from(config.eval_batch_size());
        let chunk_rows = match config.loss_chunk_rows() {
            0 => decoder::default_loss_chunk_rows(vocab.into(), batch * seq),
            rows => u64::from(rows).min(batch * seq),
        };
        let training = Training {
            batch,
            seq,
            accumulation: u64::from(config.gradient_accumulation_steps()),
            eval_batch,
            eval_seq: u64::from(config.eval_block_size()),
            dropout: config.dropout() as f32,
            optimizer: Optimizer::of(config),
            activations: precision.dtype(),
            recompute: Recompute::default(),
            loss_chunk_rows: chunk_rows,
            lanes: match config.lanes() {
                0 => share.ranks.into(),
                lanes => lanes.into(),
            },
            share,
            sampled: u64::from(config.sample_interval() > 0),
        };
        Self {
            model,
            training,
            eval_sequences: u64::from(config.eval_iters()) * eval_batch,
            samples: u64::from(config.num_samples()),
            sampled_matrices: DType::F32,
        }
    }

    /// Train, update and evaluate, and if the run draws samples the programs of sampling.
    pub fn training_programs(&self, names: Names) -> TrainingPrograms {
        let Self { model, training, .. } = self;
        TrainingPrograms {
            train: decoder::train(model, training, names),
            update: decoder::update(model, training, names),
            evaluate: decoder::evaluate(model, training, names),
            sampling: (training.sampled > 0).then(|| SamplingPrograms {
                prefill: decoder::prefill_in_training(model, training, names),
                decode: decoder::decode_in_training(model, training, names),
            }),
        }
    }

    /// Prefill and decode.
    pub fn sampling_programs(&self) -> SamplingPrograms {
        let types = self.sampled_types();
        SamplingPrograms {
            prefill: decoder::prefill(&self.model, self.samples, types),
            decode: decoder::decode(&self.model, self.samples, types),
        }
    }

    /// How sampling stores its tensors.
    pub fn sampled_types(&self) -> SampledTypes {
        let (activations, matrices) = (self.training.activations, self.sampled_matrices);
        SampledTypes { activations, matrices }
    }

    /// The host memory that holds the tokens and the targets of a batch before they are copied to
    /// the arena: twice 4 bytes per token of the largest batch.
    pub fn staging_bytes(&self) -> Bytes {
        let Training { batch, seq, eval_batch, eval_seq, .. } = self.training;
        let tokens = batch.saturating_mul(seq).max(eval_batch.saturating_mul(eval_seq));
        Bytes::new(tokens.saturating_mul(8))
    }

    /// The floating-point work of recomputation, as a share of a step without it.
    pub fn extra_compute(&self) -> f64 {
        let keeping = Training { recompute: Recompute::default(), ..self.training };
        let flops =
            |training| decoder::train(&self.model, training, Names::Left).program.flops() as f64;
        flops(&self.training) / flops(&keeping) - 1.0
    }
}

/// A lower bound of [`Job::staging_bytes`]: a training batch. The batch of an evaluation is chosen
/// later.
pub fn least_staging_bytes(config: &Config) -> Bytes {
    Bytes::new(8 * u64::from(config.batch_size()) * u64::from(config.block_size()))
}

/// Places and verifies. Panics if a plan fails verification, because that is a bug in the placer.
pub fn plan(
    programs: impl Into<Vec<Program>>,
    target: &impl Target,
) -> Result<VerifiedPlan, PlanError> {
    let plan = place(programs.into(), target)?;
    Ok(verify(plan, target).unwrap_or_else(|fault| panic!("the planner made a bad plan: {fault}")))
}

/// The most live bytes of a program.
pub fn peak_bytes(program: &Program, target: &impl Target) -> Bytes {
    profile(program, target).peak().map_or(Bytes::ZERO, |peak| peak.bytes)
}

/// The cheapest recomputation whose plan fits `limit`, or the smallest plan if none fits.
///
/// Recomputing a block repeats matrix products, recomputing its cheap parts does not. So the
/// cheapest choice has the fewest blocks, and then the fewest cheap layers. Increasing either count
/// never makes the plan larger, so a search finds each: first by live bytes, which are fast to count
/// and hardly less than the plan, then by plans from there on.
fn cheapest_recompute(
    model: &Model,
    training: &Training,
    target: &impl Target,
    limit: Bytes,
) -> Recompute {
    let layers = model.layers;
    let with = |blocks, cheap| {
        let recompute = Recompute { blocks, cheap };
        let program = decoder::train(model, &Training { recompute, ..*training }, Names::Left);
        FitCheck::new(&program.program, target)
    };
    let fewest = |most, check: &dyn Fn(u32) -> FitCheck| {
        let live_bytes = |n| check(n).live_bytes().map_or(u64::MAX, Bytes::get);
        let bound = least_within(limit.get(), most, live_bytes);
        least_from(bound, most, |n| check(n).is_placed_in(limit))
    };
    let blocks = fewest(layers, &|blocks| with(blocks, layers - blocks));
    let cheap = fewest(layers - blocks, &|cheap| with(blocks, cheap));
    Recompute { blocks, cheap }
}

/// The smallest of `0..=most` that takes at most `limit`, or `most`. `bytes` must not increase; if it
/// decreases evenly, this takes fewer calls than [`least`].
fn least_within(limit: u64, most: u32, bytes: impl Fn(u32) -> u64) -> u32 {
    let mut above = bytes(0);
    if above <= limit {
        return 0;
    }
    let mut within = bytes(most);
    if within > limit {
        return most;
    }
    let (mut low, mut high) = (0, most); // `low` takes too much, `high` does not
    let mut calls = 0;
    while high - low > 1 {
        calls += 1;
        let share = if calls > 8 { 0.5 } else { (above - limit) as f64 / (above - within) as f64 };
        let guess = low + (share * f64::from(high - low)).ceil() as u32;
        let middle = guess.clamp(low + 1, high - 1);
        match bytes(middle) {
            bytes if bytes > limit => (low, above) = (middle, bytes),
            bytes => (high, within) = (middle, bytes),
        }
    }
    high
}

/// [`least`] of `from..=most`, with the fewest tests if the result is near `from`.
fn least_from(from: u32, most: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high, mut stride) = (from, from, 1);
    while high < most && !holds(high) {
        low = high + 1;
        high = most.min(high.saturating_add(stride));
        stride = stride.saturating_mul(2);
    }
    low + least(high - low, |n| holds(low + n))
}

/// The smallest of `0..=most` for which `holds` is true, or `most`. `holds` must be monotonic.
pub fn least(most: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The most sequences that an evaluation can run at a time without enlarging the plan, with no
/// tensor above the device's largest allocation. A divisor of the configured batch, so that the
/// same sequences are evaluated. Independent of the number of ranks, so that all evaluate alike.
fn largest_free_eval_batch(model: &Model, training: &Training, target: &impl Target) -> u64 {
    let training = &Training { lanes: 1, share: Share::WHOLE, ..*training };
    let update = decoder::update(model, training, Names::Left).program;
    let train = decoder::train(model, training, Names::Left).program;
    let free = peak_bytes(&train, target).max(peak_bytes(&update, target));
    let state: Bytes = update.state().iter().map(Tensor::bytes).sum();
    let without_state = free.saturating_sub(state);
    let asked = training.eval_batch;
    let piece = target.limits().max_chunk.min(target.limits().max_binding);
    let fits = |eval_batch: &u64| {
        let training = Training { eval_batch: *eval_batch, ..*training };
        // A lower bound rules out most batches without counting their program.
        if decoder::evaluation_lower_bound(model, &training) > without_state {
            return false;
        }
        let program = decoder::evaluate(model, &training, Names::Left).program;
        program.tensors().iter().all(|tensor| tensor.bytes() <= piece)
            && peak_bytes(&program, target) <= free
    };
    divisors(asked).into_iter().rev().find(fits).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use fitgpt_program::{Op, memory::Limits};

    use super::*;

    struct NoScratch;

    impl Target for NoScratch {
        fn limits(&self) -> Limits {
            Limits { alignment: 512, ..Limits::HOST }
        }

        fn scratch(&self, _: &Program, _: &Op) -> Bytes {
            Bytes::ZERO
        }
    }

    #[test]
    fn an_evaluation_never_holds_less_than_its_lower_bound() {
        for keys in ["batch_size=1 n_layer=1", "batch_size=12 eval_block_size=256", "bias=True"] {
            let mut written = fitgpt_config::Written::new();
            for (key, value) in keys.split(' ').filter_map(|pair| pair.split_once('=')) {
                written.set(key, value).unwrap();
            }
            let config = written.resolve().unwrap();
            let Job { model, training, .. } =
                Job::unadapted(&config, 300, Precision::Bfloat16, Share::WHOLE);
            let program = decoder::evaluate(&model, &training, Names::Kept).program;
            let state: Bytes = program.state().iter().map(Tensor::bytes).sum();
            let peak = peak_bytes(&program, &NoScratch).saturating_sub(state);
            assert!(decoder::evaluation_lower_bound(&model, &training) <= peak, "{keys}");
        }
    }

    #[test]
    fn bisection_finds_the_first_that_holds_or_returns_the_last() {
        assert_eq!(least(12, |n| n >= 5), 5);
        assert_eq!(least(12, |_| true), 0);
        assert_eq!(least(12, |_| false), 12);
        for first in 0..=30_u32 {
            let even = |n: u32| u64::from(1000 - 10 * n);
            let steep = |n: u32| 1 << (40 - n);
            let flat = |n: u32| if n < first { u64::MAX } else { 7 };
            assert_eq!(least_within(even(first), 25, even), first.min(25));
            assert_eq!(least_within(even(first) + 9, 25, even), first.min(25));
            assert_eq!(least_within(steep(first), 25, steep), first.min(25));
            assert_eq!(least_within(7, 25, flat), first.min(25));
            for from in 0..=first.min(25) {
                assert_eq!(least_from(from, 25, |n| n >= first), first.min(25), "from {from}");
            }
        }
    }
}
