//! Normalisation of rows: layer norm, and RMS norm, which takes the mean as 0.
//!
//! ```text
//! out = (x - mean) * rstd * weight + bias          x, out: (N, C)
//! ```
//!
//! `out` is computed from `mean` and `rstd` as they are stored, so that [`recompute`] gives the
//! same bits. Backward, with `g = d_out * weight` and `n = (x - mean) * rstd`:
//!
//! ```text
//! d_x      = rstd * (g - mean(g) - n * mean(g * n))
//! d_weight += Σ d_out * n          d_bias += Σ d_out
//! ```
//!
//! RMS norm has no `mean(g)`. Sums over rows are computed for each block of rows, then the blocks
//! are added in order.

use fitgpt_program::units::DType;

use crate::{
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        isa::{Kernel, Simd},
        parts::{Blocks, PerWorker},
        rows::{self, ONE, block_rows, whole, wide},
    },
};

/// Floats of scratch of [`forward`] and [`recompute`]: a row in and a row out for each worker.
pub(super) fn forward_scratch(dtype: DType, channels: usize, threads: usize) -> usize {
    2 * rows::space(dtype, channels) * threads
}

/// Floats of scratch of [`backward`]: the sums of each block of rows, then three rows for each
/// worker.
pub(super) fn backward_scratch(
    dtype: DType,
    count: usize,
    channels: usize,
    threads: usize,
) -> usize {
    2 * channels * count.div_ceil(block_rows(channels)) + 3 * rows::space(dtype, channels) * threads
}

/// The weight and bias of a norm.
pub(super) struct Affine<'a> {
    pub(super) weight: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
}

/// Operands of [`forward`].
pub(super) struct NormForward<'a, E> {
    pub(super) x: &'a [E],
    pub(super) affine: Affine<'a>,
    pub(super) out: &'a mut [E],
    /// None for RMS norm.
    pub(super) mean: Option<&'a mut [f32]>,
    pub(super) rstd: &'a mut [f32],
    pub(super) epsilon: f32,
    pub(super) scratch: &'a mut [f32],
}

/// Operands of [`recompute`].
pub(super) struct NormRecompute<'a, E> {
    pub(super) x: &'a [E],
    pub(super) affine: Affine<'a>,
    pub(super) mean: Option<&'a [f32]>,
    pub(super) rstd: &'a [f32],
    pub(super) out: &'a mut [E],
    pub(super) scratch: &'a mut [f32],
}

/// Operands of [`backward`].
pub(super) struct NormBackward<'a, E> {
    pub(super) x: &'a [E],
    pub(super) weight: &'a [f32],
    pub(super) mean: Option<&'a [f32]>,
    pub(super) rstd: &'a [f32],
    pub(super) d_out: &'a [E],
    pub(super) d_x: &'a mut [E],
    pub(super) d_weight: &'a mut [f32],
    pub(super) d_bias: Option<&'a mut [f32]>,
    pub(super) scratch: &'a mut [f32],
    pub(super) to: GradientMode,
}

/// What happens to the gradient of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GradientMode {
    /// It is assigned to `d_x`.
    Assign,
    /// It is added to `d_x`.
    Add,
}

impl Affine<'_> {
    fn check(&self, x: usize, out: usize, rows: usize) -> usize {
        let channels = self.weight.len();
        assert!(self.bias.is_none_or(|bias| bias.len() == channels));
        assert_eq!(x, out);
        assert_eq!(x, rows * channels);
        channels
    }

    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, x: &[f32], (mean, rstd): (f32, f32), out: &mut [f32]) {
        let end = whole(simd, x.len());
        for c in (0..end).step_by(S::LANES) {
            self.apply_at(simd, c, x, (mean, rstd), out);
        }
        for c in end..x.len() {
            self.apply_at(ONE, c, x, (mean, rstd), out);
        }
    }

    #[inline(always)]
    fn apply_at<S: Simd>(
        &self,
        simd: S,
        c: usize,
        x: &[f32],
        (mean, rstd): (f32, f32),
        out: &mut [f32],
    ) {
        let normal = simd.mul(simd.sub(simd.load(&x[c..]), simd.splat(mean)), simd.splat(rstd));
        let weight = simd.load(&self.weight[c..]);
        let value = match self.bias {
            Some(bias) => simd.fma(normal, weight, simd.load(&bias[c..])),
            None => simd.mul(normal, weight),
        };
        simd.store(value, &mut out[c..]);
    }

    /// Normalises one stored row into another.
    #[inline(always)]
    fn row<S: Simd, E: Element>(
        &self,
        simd: S,
        x: &[f32],
        moments: (f32, f32),
        out: &mut [E],
        space: &mut [f32],
    ) {
        if let Some(out) = E::as_f32_mut(out) {
            return self.apply(simd, x, moments, out);
        }
        let space = &mut space[..x.len()];
        self.apply(simd, x, moments, space);
        E::narrow_with(simd, space, out);
    }
}

/// Computes `out`, `mean` and `rstd` of every row.
pub(super) fn forward<E: Element + Stored>(machine: &mut Machine, args: NormForward<'_, E>) {
    let NormForward { x, affine, out, mean, rstd, epsilon, scratch } = args;
    let channels = affine.check(x.len(), out.len(), rstd.len());
    assert!(mean.as_ref().is_none_or(|mean| mean.len() == rstd.len()));
    let block = block_rows(channels);
    let parts = (
        Blocks::new(out, block * channels),
        mean.map(|mean| Blocks::new(mean, block)),
        Blocks::new(rstd, block),
        PerWorker::new(scratch, 2 * rows::space(E::DTYPE, channels)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (out, mean, rstd, space)| {
        let x = &x[task.index * block * channels..][..out.len()];
        isa.run(NormRows { x, affine: &affine, out, mean, rstd, epsilon, space });
    });
}

struct NormRows<'a, E> {
    x: &'a [E],
    affine: &'a Affine<'a>,
    out: &'a mut [E],
    mean: Option<&'a mut [f32]>,
    rstd: &'a mut [f32],
    epsilon: f32,
    space: &'a mut [f32],
}

impl<E: Element> Kernel for NormRows<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let channels = self.affine.weight.len();
        let (x_space, out_space) = self.space.split_at_mut(self.space.len() / 2);
        let rows = self.x.chunks_exact(channels).zip(self.out.chunks_exact_mut(channels));
        for (row, ((x, out), rstd)) in rows.zip(self.rstd).enumerate() {
            let x = wide(simd, x, x_space);
            let mut mean = 0.0;
            if let Some(means) = &mut self.mean {
                mean = rows::sum(simd, x) / channels as f32;
                means[row] = mean;
            }
            let variance = rows::sum_of_squares(simd, x, mean) / channels as f32;
            *rstd = 1.0 / (variance + self.epsilon).sqrt();
            self.affine.row(simd, x, (mean, *rstd), out, out_space);
        }
    }
}

/// Recomputes `out` from the `mean` and `rstd` that [`forward`] stored.
pub(super) fn recompute<E: Element + Stored>(machine: &mut Machine, args: NormRecompute<'_, E>) {
    let NormRecompute { x, affine, mean, rstd, out, scratch } = args;
    let channels = affine.check(x.len(), out.len(), rstd.len());
    assert!(mean.is_none_or(|mean| mean.len() == rstd.len()));
    let block = block_rows(channels);
    let space = 2 * rows::space(E::DTYPE, channels);
    let parts = (Blocks::new(out, block * channels), PerWorker::new(scratch, space));
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (out, space)| {
        let x = &x[task.index * block * channels..][..out.len()];
        let count = out.len() / channels;
        let mean = mean.map(|mean| &mean[task.index * block..][..count]);
        let rstd = &rstd[task.index * block..][..count];
        isa.run(RecomputeRows { x, affine: &affine, mean, rstd, out, space });
    });
}

struct RecomputeRows<'a, E> {
    x: &'a [E],
    affine: &'a Affine<'a>,
    mean: Option<&'a [f32]>,
    rstd: &'a [f32],
    out: &'a mut [E],
    space: &'a mut [f32],
}

impl<E: Element> Kernel for RecomputeRows<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.affine.weight.len();
        let (x_space, out_space) = self.space.split_at_mut(self.space.len() / 2);
        let rows = self.x.chunks_exact(channels).zip(self.out.chunks_exact_mut(channels));
        for (row, ((x, out), &rstd)) in rows.zip(self.rstd).enumerate() {
            let x = wide(simd, x, x_space);
            let mean = self.mean.map_or(0.0, |mean| mean[row]);
            self.affine.row(simd, x, (mean, rstd), out, out_space);
        }
    }
}

/// Computes `d_x` of every row and adds the sums over rows to `d_weight` and `d_bias`.
pub(super) fn backward<E: Element + Stored>(machine: &mut Machine, args: NormBackward<'_, E>) {
    let NormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias, scratch, to } = args;
    let channels = weight.len();
    assert_eq!(d_weight.len(), channels);
    assert!(d_bias.as_ref().is_none_or(|d_bias| d_bias.len() == channels));
    assert_eq!(x.len(), rstd.len() * channels);
    assert_eq!((x.len(), x.len()), (d_out.len(), d_x.len()));
    assert!(mean.is_none_or(|mean| mean.len() == rstd.len()));
    let block = block_rows(channels);
    let blocks = rstd.len().div_ceil(block);
    let (sums, space) = scratch.split_at_mut(blocks * 2 * channels);
    let parts = (
        Blocks::new(d_x, block * channels),
        Blocks::new(sums, 2 * channels),
        PerWorker::new(space, 3 * rows::space(E::DTYPE, channels)),
    );
    let isa = machine.isa;
    machine.pool.for_each(parts, |task, (d_x, sums, space)| {
        let count = d_x.len() / channels;
        let numbers = task.index * block * channels..(task.index * block + count) * channels;
        let rows = task.index * block..task.index * block + count;
        isa.run(BackwardRows {
            x: &x[numbers.clone()],
            weight,
            mean: mean.map(|mean| &mean[rows.clone()]),
            rstd: &rstd[rows],
            d_out: &d_out[numbers],
            d_x,
            sums,
            space,
            to,
        });
    });
    isa.run(AddBlocks { sums, d_weight, d_bias });
}

struct BackwardRows<'a, E> {
    x: &'a [E],
    weight: &'a [f32],
    mean: Option<&'a [f32]>,
    rstd: &'a [f32],
    d_out: &'a [E],
    d_x: &'a mut [E],
    sums: &'a mut [f32],
    space: &'a mut [f32],
    to: GradientMode,
}

impl<E: Element> Kernel for BackwardRows<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.weight.len();
        let (x_space, space) = self.space.split_at_mut(self.space.len() / 3);
        let (d_out_space, d_x_space) = space.split_at_mut(space.len() / 2);
        self.sums.fill(0.0);
        let (d_weight, d_bias) = self.sums.split_at_mut(channels);
        let rows = self.x.chunks_exact(channels).zip(self.d_out.chunks_exact(channels));
        let results = self.d_x.chunks_exact_mut(channels);
        for (number, (((x, d_out), &rstd), d_x)) in rows.zip(self.rstd).zip(results).enumerate() {
            let row = BackwardRow {
                x: wide(simd, x, x_space),
                weight: self.weight,
                d_out: wide(simd, d_out, d_out_space),
                mean: self.mean.map_or(0.0, |mean| mean[number]),
                rstd,
                to: self.to,
            };
            let mut means = row.means(simd);
            if self.mean.is_none() {
                means.0 = 0.0;
            }
            if let Some(d_x) = E::as_f32_mut(d_x) {
                row.finish(simd, means, d_x, d_weight, d_bias);
            } else {
                let space = &mut d_x_space[..channels];
                if self.to == GradientMode::Add {
                    E::widen_with(simd, d_x, space);
                }
                row.finish(simd, means, space, d_weight, d_bias);
                E::narrow_with(simd, space, d_x);
            }
        }
    }
}

/// One row of the backward.
struct BackwardRow<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    d_out: &'a [f32],
    mean: f32,
    rstd: f32,
    to: GradientMode,
}

impl BackwardRow<'_> {
    #[inline(always)]
    fn normal<S: Simd>(&self, simd: S, c: usize) -> S::Lanes {
        simd.mul(simd.sub(simd.load(&self.x[c..]), simd.splat(self.mean)), simd.splat(self.rstd))
    }

    /// `mean(g)` and `mean(g * n)`.
    #[inline(always)]
    fn means<S: Simd>(&self, simd: S) -> (f32, f32) {
        let end = whole(simd, self.x.len());
        let (mut gs, mut gns) = (simd.splat(0.0), simd.splat(0.0));
        for c in (0..end).step_by(S::LANES) {
            let g = simd.mul(simd.load(&self.d_out[c..]), simd.load(&self.weight[c..]));
            gs = simd.add(gs, g);
            gns = simd.fma(g, self.normal(simd, c), gns);
        }
        let (mut g_sum, mut gn_sum) = (simd.sum(gs), simd.sum(gns));
        for c in end..self.x.len() {
            let g = self.d_out[c] * self.weight[c];
            g_sum += g;
            gn_sum += g * self.normal(ONE, c)[0];
        }
        let count = self.x.len() as f32;
        (g_sum / count, gn_sum / count)
    }

    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        means: (f32, f32),
        d_x: &mut [f32],
        d_weight: &mut [f32],
        d_bias: &mut [f32],
    ) {
        let end = whole(simd, self.x.len());
        for c in (0..end).step_by(S::LANES) {
            self.finish_at(simd, c, means, d_x, d_weight, d_bias);
        }
        for c in end..self.x.len() {
            self.finish_at(ONE, c, means, d_x, d_weight, d_bias);
        }
    }

    #[inline(always)]
    fn finish_at<S: Simd>(
        &self,
        simd: S,
        c: usize,
        (g_mean, gn_mean): (f32, f32),
        d_x: &mut [f32],
        d_weight: &mut [f32],
        d_bias: &mut [f32],
    ) {
        let normal = self.normal(simd, c);
        let d_out = simd.load(&self.d_out[c..]);
        let (d_weight, d_bias, d_x) = (&mut d_weight[c..], &mut d_bias[c..], &mut d_x[c..]);
        simd.store(simd.fma(d_out, normal, simd.load(d_weight)), d_weight);
        simd.store(simd.add(d_out, simd.load(d_bias)), d_bias);
        let g = simd.mul(d_out, simd.load(&self.weight[c..]));
        let centred = simd.sub(g, simd.splat(g_mean));
        let centred = simd.fma(normal, simd.splat(-gn_mean), centred);
        let rstd = simd.splat(self.rstd);
        let value = match self.to {
            GradientMode::Assign => simd.mul(rstd, centred),
            GradientMode::Add => simd.fma(rstd, centred, simd.load(d_x)),
        };
        simd.store(value, d_x);
    }
}

/// Adds the sums of the blocks to the gradients, in order.
struct AddBlocks<'a> {
    sums: &'a mut [f32],
    d_weight: &'a mut [f32],
    d_bias: Option<&'a mut [f32]>,
}

impl Kernel for AddBlocks<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.d_weight.len();
        // Summed into the first block, so that the gradient itself is rounded once.
        let (first, rest) = self.sums.split_at_mut((2 * channels).min(self.sums.len()));
        for block in rest.chunks_exact(2 * channels) {
            rows::add_to(simd, block, first);
        }
        if first.is_empty() {
            return;
        }
        let (d_weight, d_bias) = first.split_at(channels);
        rows::add_to(simd, d_weight, self.d_weight);
        if let Some(to) = self.d_bias {
            rows::add_to(simd, d_bias, to);
        }
    }
}
