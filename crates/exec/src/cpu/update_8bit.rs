//! `AdamW` with 8-bit moments.
//!
//! A block of 256 elements is decoded, updated as in [`super::update`], and encoded with a new
//! scale; see [`Codebook`]. No multiplication is fused with an addition, so codes and scales have
//! the same bits on any machine.

use fitgpt_program::{Adam, QUANTISED_BLOCK};

use crate::{
    Arguments,
    codebook::Codebook,
    cpu::{
        Machine,
        isa::{Kernel, Simd},
        parts::Blocks,
        rows::BLOCK,
        update::AdamStep,
    },
};

/// Elements that share a scale.
const SHARING: usize = QUANTISED_BLOCK as usize;

/// Operands of [`adamw`].
pub(super) struct AdamW8bit<'a> {
    pub(super) parameter: &'a mut [f32],
    pub(super) gradient: &'a mut [f32],
    pub(super) exp_avg: Quantised<'a>,
    pub(super) exp_avg_sq: Quantised<'a>,
    pub(super) norm: f32,
    pub(super) adam: &'a Adam,
    pub(super) decays: bool,
    pub(super) arguments: &'a Arguments,
}

/// A stored moment: codes, and a scale for each block.
pub(super) struct Quantised<'a> {
    pub(super) codes: &'a mut [u8],
    pub(super) scales: &'a mut [f32],
}

impl<'a> Quantised<'a> {
    fn blocks(self) -> (Blocks<'a, u8>, Blocks<'a, f32>) {
        (Blocks::new(self.codes, BLOCK), Blocks::new(self.scales, BLOCK / SHARING))
    }
}

/// One update. Sets the gradient to zero; does nothing else if the norm is not finite.
pub(super) fn adamw(machine: &mut Machine, args: AdamW8bit<'_>) {
    let AdamW8bit { parameter, gradient, exp_avg, exp_avg_sq, norm, adam, decays, arguments } =
        args;
    let count = parameter.len();
    for moment in [&exp_avg, &exp_avg_sq] {
        assert_eq!((gradient.len(), moment.codes.len()), (count, count));
        assert_eq!(moment.scales.len(), count.div_ceil(SHARING));
    }
    if !norm.is_finite() {
        machine.pool.for_each(Blocks::new(gradient, BLOCK), |_, gradient| gradient.fill(0.0));
        return;
    }
    let step = AdamStep::new(adam, arguments, norm, decays);
    let parts = (
        Blocks::new(parameter, BLOCK),
        Blocks::new(gradient, BLOCK),
        exp_avg.blocks(),
        exp_avg_sq.blocks(),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |_, (parameter, gradient, exp_avg, exp_avg_sq)| {
        let blocks = parameter.chunks_mut(SHARING).zip(gradient.chunks_mut(SHARING));
        let first = exp_avg.0.chunks_mut(SHARING).zip(exp_avg.1);
        let second = exp_avg_sq.0.chunks_mut(SHARING).zip(exp_avg_sq.1);
        for ((parameter, gradient), (first, second)) in blocks.zip(first.zip(second)) {
            isa.run(AdamW8bitBlock { parameter, gradient, first, second, step });
        }
    });
}

/// One block with its scales.
struct AdamW8bitBlock<'a> {
    parameter: &'a mut [f32],
    gradient: &'a mut [f32],
    first: (&'a mut [u8], &'a mut f32),
    second: (&'a mut [u8], &'a mut f32),
    step: AdamStep,
}

impl Kernel for AdamW8bitBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { parameter, gradient, first, second, step } = self;
        let count = parameter.len();
        let (mut exp_avg, mut exp_avg_sq) = ([0.0; SHARING], [0.0; SHARING]);
        let (exp_avg, exp_avg_sq) = (&mut exp_avg[..count], &mut exp_avg_sq[..count]);
        let (signed, unsigned) = (Codebook::signed(), Codebook::unsigned());
        decode(signed, first.0, *first.1, exp_avg);
        decode(unsigned, second.0, *second.1, exp_avg_sq);

        let weights = parameter.iter_mut().zip(gradient);
        let moments = exp_avg.iter_mut().zip(exp_avg_sq.iter_mut());
        for ((p, gradient), (m, v)) in weights.zip(moments) {
            let g = *gradient * step.gradient_factor;
            *gradient = 0.0;
            *m = *m * step.beta1 + step.one_minus_beta1 * g;
            *v = *v * step.beta2 + step.one_minus_beta2 * g * g;
            let root = v.sqrt() + step.epsilon;
            *p = *p * step.decay_factor - step.lr * (*m / root);
        }

        *first.1 = encode(signed, exp_avg, first.0);
        *second.1 = encode(unsigned, exp_avg_sq, second.0);
    }
}

#[inline(always)]
fn decode(book: &Codebook, codes: &[u8], scale: f32, to: &mut [f32]) {
    for (to, code) in to.iter_mut().zip(codes) {
        *to = book.values[usize::from(*code)] * scale;
    }
}

/// Writes the codes and returns their scale.
#[inline(always)]
fn encode(book: &Codebook, values: &mut [f32], codes: &mut [u8]) -> f32 {
    // Sixteen independent maxima, so that the compiler vectorises.
    let mut most = [0.0_f32; 16];
    for piece in values.chunks(16) {
        for (most, value) in most.iter_mut().zip(piece) {
            *most = if value.abs() > *most { value.abs() } else { *most };
        }
    }
    let scale = most.into_iter().fold(0.0, f32::max);
    // In a block of zeros any code would do; use the code of zero.
    let divisor = if scale > 0.0 { scale } else { 1.0 };
    for value in values.iter_mut() {
        *value /= divisor;
    }
    for (code, value) in codes.iter_mut().zip(values) {
        *code = book.code(*value);
    }
    scale
}
