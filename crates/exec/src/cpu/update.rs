//! The optimizer step: the norm of the gradient, and `AdamW` as in PyTorch.
//!
//! ```text
//! norm = √ Σ g² / loss_scale
//! g    = gradient / loss_scale · min(1, clip / (norm + 1e-6))
//! p   *= 1 - lr · weight_decay
//! m    = β₁ m + (1 - β₁) g          v = β₂ v + (1 - β₂) g²
//! p   -= lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + ε)
//! ```
//!
//! Both are limited by memory bandwidth and take one pass. Squares are summed in f64, by blocks.

use fitgpt_program::{Adam, ElementRule, Lion, SHARD_BLOCK};

use crate::{
    Arguments,
    cpu::{
        Machine,
        isa::{Kernel, Simd},
        parts::Blocks,
        rows::{BLOCK, ONE},
    },
};

/// `clip_grad_norm_` adds this, so that it never divides by zero.
const CLIP_EPSILON: f64 = 1e-6;

const _: () = assert!(BLOCK as u64 == SHARD_BLOCK, "a rank sums whole blocks");

/// Sums of squares outside of a program, for gradients that are added up over several lanes or
/// processes. Gives the same bits as the program.
pub mod gradient_norm {
    use super::{BLOCK, Kernel as _, ONE, SumSquares};

    /// The sum of squares of each block of a gradient, or of a part that begins at a block boundary.
    pub fn block_sums(gradient: &[f32]) -> impl Iterator<Item = f64> {
        gradient.chunks(BLOCK).map(|block| SumSquares(block).run(ONE))
    }

    /// The norm from the sums of all blocks of all gradients, in the order of the parameters.
    pub fn of_sums(sums: &[f64], loss_scale: f32) -> f32 {
        (sums.iter().sum::<f64>().sqrt() / f64::from(loss_scale)) as f32
    }
}

/// Blocks of a gradient, each of which needs one f64 of scratch.
pub(super) fn norm_blocks(count: usize) -> usize {
    count.div_ceil(BLOCK)
}

/// Writes the sum of squares of each block of `gradient` to `sums`.
pub(super) fn squares(machine: &mut Machine, gradient: &[f32], sums: &mut [f64]) {
    assert_eq!(sums.len(), norm_blocks(gradient.len()));
    let isa = machine.isa;
    machine.pool.for_each(Blocks::new(sums, 1), |task, sum| {
        let start = task.index * BLOCK;
        let end = gradient.len().min(start + BLOCK);
        sum[0] = isa.run(SumSquares(&gradient[start..end]));
    });
}

/// The norm from the sums of all blocks.
pub(super) fn norm(sums: &[f64], arguments: &Arguments) -> f32 {
    gradient_norm::of_sums(sums, arguments.loss_scale)
}

struct SumSquares<'a>(&'a [f32]);

impl Kernel for SumSquares<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        // Sixteen independent sums, so that the compiler vectorises and additions overlap.
        let mut sums = [0.0_f64; 16];
        let (vectors, rest) = self.0.as_chunks::<16>();
        for vector in vectors {
            for (sum, &x) in sums.iter_mut().zip(vector) {
                let x = f64::from(x);
                *sum += x * x;
            }
        }
        for (sum, &x) in sums.iter_mut().zip(rest) {
            *sum += f64::from(x) * f64::from(x);
        }
        sums.iter().sum()
    }
}

/// What every rule updates.
pub(super) struct Weights<'a> {
    pub(super) parameter: &'a mut [f32],
    pub(super) gradient: &'a mut [f32],
    pub(super) norm: f32,
    pub(super) decays: bool,
    pub(super) arguments: &'a Arguments,
}

/// One update by `rule`, whose states are found by their index. Sets the gradient to zero; does
/// nothing else if the norm is not finite.
pub(super) fn elements<'a>(
    machine: &mut Machine,
    rule: &ElementRule,
    weights: Weights<'_>,
    mut state: impl FnMut(usize) -> &'a mut [f32],
) {
    let Weights { parameter, gradient, norm, decays, arguments } = weights;
    let count = parameter.len();
    assert_eq!(gradient.len(), count);
    if !norm.is_finite() {
        machine.pool.for_each(Blocks::new(gradient, BLOCK), |_, gradient| gradient.fill(0.0));
        return;
    }
    let mut state = |at| {
        let values = state(at);
        assert_eq!(values.len(), count);
        Blocks::new(values, BLOCK)
    };
    let (parameter, gradient) = (Blocks::new(parameter, BLOCK), Blocks::new(gradient, BLOCK));
    let isa = machine.isa;
    match rule {
        ElementRule::AdamW(adam) => {
            let step = AdamStep::new(adam, arguments, norm, decays);
            let parts = (parameter, gradient, state(0), state(1));
            machine.pool.for_each(parts, |_, (parameter, gradient, exp_avg, exp_avg_sq)| {
                isa.run(AdamWBlock { parameter, gradient, exp_avg, exp_avg_sq, step });
            });
        }
        ElementRule::Lion(lion) => {
            let step = LionStep::new(lion, arguments, norm, decays);
            let parts = (parameter, gradient, state(0));
            machine.pool.for_each(parts, |_, (parameter, gradient, exp_avg)| {
                isa.run(LionBlock { parameter, gradient, exp_avg, step });
            });
        }
    }
}

/// The factor of a gradient: clips its norm and divides out the loss scale.
pub(super) fn gradient_factor(grad_clip: f32, arguments: &Arguments, norm: f32) -> f32 {
    let limit = f64::from(grad_clip);
    let clip = limit / (f64::from(norm) + CLIP_EPSILON);
    let clip = if limit > 0.0 { clip.min(1.0) } else { 1.0 };
    (clip / f64::from(arguments.loss_scale)) as f32
}

/// The constants of one step, which all elements of a parameter share.
#[derive(Clone, Copy)]
pub(super) struct AdamStep {
    pub(super) gradient_factor: f32,
    pub(super) decay_factor: f32,
    pub(super) beta1: f32,
    pub(super) beta2: f32,
    pub(super) one_minus_beta1: f32,
    pub(super) one_minus_beta2: f32,
    /// `lr · √(1 - β₂ᵗ) / (1 - β₁ᵗ)` and `ε · √(1 - β₂ᵗ)`, so that an element needs one division.
    pub(super) lr: f32,
    pub(super) epsilon: f32,
}

impl AdamStep {
    pub(super) fn new(adam: &Adam, arguments: &Arguments, norm: f32, decays: bool) -> Self {
        let (beta1, beta2) = (f64::from(adam.beta1), f64::from(adam.beta2));
        let lr = f64::from(arguments.lr);
        let decay = lr * f64::from(adam.weight_decay);
        let updates = arguments.updates as f64;
        let root_correction = (1.0 - beta2.powf(updates)).sqrt();
        Self {
            gradient_factor: gradient_factor(adam.grad_clip, arguments, norm),
            decay_factor: if decays { (1.0 - decay) as f32 } else { 1.0 },
            beta1: adam.beta1,
            beta2: adam.beta2,
            one_minus_beta1: (1.0 - beta1) as f32,
            one_minus_beta2: (1.0 - beta2) as f32,
            lr: (lr * root_correction / (1.0 - beta1.powf(updates))) as f32,
            epsilon: (f64::from(adam.epsilon) * root_correction) as f32,
        }
    }
}

struct AdamWBlock<'a> {
    parameter: &'a mut [f32],
    gradient: &'a mut [f32],
    exp_avg: &'a mut [f32],
    exp_avg_sq: &'a mut [f32],
    step: AdamStep,
}

impl Kernel for AdamWBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { parameter, gradient, exp_avg, exp_avg_sq, step } = self;
        let weights = parameter.iter_mut().zip(gradient);
        let moments = exp_avg.iter_mut().zip(exp_avg_sq);
        for ((p, gradient), (m, v)) in weights.zip(moments) {
            let g = *gradient * step.gradient_factor;
            *gradient = 0.0;
            *m = simd.fma1(step.beta1, *m, step.one_minus_beta1 * g);
            *v = simd.fma1(step.beta2, *v, step.one_minus_beta2 * g * g);
            let root = v.sqrt() + step.epsilon;
            *p = *p * step.decay_factor - step.lr * (*m / root);
        }
    }
}

/// As [`AdamStep`], for Lion.
#[derive(Clone, Copy)]
struct LionStep {
    gradient_factor: f32,
    decay_factor: f32,
    beta1: f32,
    beta2: f32,
    one_minus_beta1: f32,
    one_minus_beta2: f32,
    lr: f32,
}

impl LionStep {
    fn new(lion: &Lion, arguments: &Arguments, norm: f32, decays: bool) -> Self {
        let decay = f64::from(arguments.lr) * f64::from(lion.weight_decay);
        Self {
            gradient_factor: gradient_factor(lion.grad_clip, arguments, norm),
            decay_factor: if decays { (1.0 - decay) as f32 } else { 1.0 },
            beta1: lion.beta1,
            beta2: lion.beta2,
            one_minus_beta1: (1.0 - f64::from(lion.beta1)) as f32,
            one_minus_beta2: (1.0 - f64::from(lion.beta2)) as f32,
            lr: arguments.lr,
        }
    }
}

struct LionBlock<'a> {
    parameter: &'a mut [f32],
    gradient: &'a mut [f32],
    exp_avg: &'a mut [f32],
    step: LionStep,
}

impl Kernel for LionBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { parameter, gradient, exp_avg, step } = self;
        for ((p, gradient), m) in parameter.iter_mut().zip(gradient).zip(exp_avg) {
            let g = *gradient * step.gradient_factor;
            *gradient = 0.0;
            let direction = simd.fma1(step.beta1, *m, step.one_minus_beta1 * g);
            *m = simd.fma1(step.beta2, *m, step.one_minus_beta2 * g);
            let size = if direction == 0.0 { 0.0 } else { step.lr };
            *p = *p * step.decay_factor - size.copysign(direction);
        }
    }
}
