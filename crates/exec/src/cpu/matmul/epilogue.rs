//! What is done with a product's sums: bias, activation, residual, storing.
//!
//! An epilogue processes each finished row of a tile once, while it is in cache. It uses values as
//! a later op would read them: if storage has 16 bits, GELU is taken of the rounded pre-activation,
//! so that recomputing it from storage gives the same bits.

use std::ops::Range;

use fitgpt_program::Gelu;

use crate::cpu::{element::Element, gelu, isa::Simd, parts::Tile, swiglu};

/// A part of one row of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSegment {
    /// Its row.
    pub row: usize,
    /// Its columns.
    pub columns: Range<usize>,
}

/// Processes finished sums; `T` is the tile of the outputs that they belong to.
///
/// Every element of the result is passed exactly once. The boundaries of segments depend on the
/// number of threads, so an epilogue must not reduce over a segment. Mark `finish`
/// `#[inline(always)]`.
pub trait Epilogue<T>: Sync {
    /// Processes the sums of `segment` and writes the same segment of `out`.
    fn finish<S: Simd>(&self, simd: S, segment: RowSegment, sums: &mut [f32], out: &mut T);
}

/// `out = scale · sums + bias`
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// One for each column.
    pub bias: Option<&'a [f32]>,
    /// 1 for a plain product.
    pub scale: f32,
}

impl Default for Store<'_> {
    fn default() -> Self {
        Self { bias: None, scale: 1.0 }
    }
}

impl<T: Element> Epilogue<Tile<'_, T>> for Store<'_> {
    #[inline(always)]
    fn finish<S: Simd>(&self, simd: S, at: RowSegment, sums: &mut [f32], out: &mut Tile<'_, T>) {
        if self.scale.to_bits() != 1.0_f32.to_bits() {
            for sum in &mut *sums {
                *sum *= self.scale;
            }
        }
        add_bias(self.bias, &at, sums);
        T::narrow_with(simd, sums, out.row(at.row, at.columns));
    }
}

/// `out += scale · sums`
#[derive(Clone, Copy, Debug)]
pub struct AddInto {
    /// 1 for a plain product.
    pub scale: f32,
}

impl Default for AddInto {
    fn default() -> Self {
        Self { scale: 1.0 }
    }
}

impl Epilogue<Tile<'_, f32>> for AddInto {
    #[inline(always)]
    fn finish<S: Simd>(&self, simd: S, at: RowSegment, sums: &mut [f32], out: &mut Tile<'_, f32>) {
        let out = out.row(at.row, at.columns);
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = simd.fma1(self.scale, *sum, *out);
        }
    }
}

/// `pre = sums + bias`, `out = gelu(pre)`; the outputs are `(pre, out)`, and `pre` may be `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreGelu<'a> {
    /// One for each column.
    pub bias: Option<&'a [f32]>,
    /// Which GELU.
    pub gelu: Gelu,
}

impl<T: Element> Epilogue<(Option<Tile<'_, T>>, Tile<'_, T>)> for StoreGelu<'_> {
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        at: RowSegment,
        sums: &mut [f32],
        (pre, out): &mut (Option<Tile<'_, T>>, Tile<'_, T>),
    ) {
        add_bias(self.bias, &at, sums);
        let out = out.row(at.row, at.columns.clone());
        if let Some(out) = T::as_f32_mut(out) {
            gelu::values(simd, self.gelu, sums, out);
        } else {
            // Round as storage does, using `out` as temporary storage.
            T::narrow_with(simd, sums, out);
            T::widen_with(simd, out, sums);
            let mut values = [0.0; PIECE];
            for (sums, out) in sums.chunks(PIECE).zip(out.chunks_mut(PIECE)) {
                let values = &mut values[..sums.len()];
                gelu::values(simd, self.gelu, sums, values);
                T::narrow_with(simd, values, out);
            }
        }
        if let Some(pre) = pre {
            T::narrow_with(simd, sums, pre.row(at.row, at.columns));
        }
    }
}

/// `out = sums · gelu'(pre)`, `pre = gelu(pre)`; the outputs are `(pre, out)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimesGeluSlope {
    /// Which GELU.
    pub gelu: Gelu,
}

impl<T: Element> Epilogue<(Tile<'_, T>, Tile<'_, T>)> for TimesGeluSlope {
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        at: RowSegment,
        sums: &mut [f32],
        (pre, out): &mut (Tile<'_, T>, Tile<'_, T>),
    ) {
        let pre = pre.row(at.row, at.columns.clone());
        if let Some(pre) = T::as_f32_mut(pre) {
            gelu::values_and_slopes(simd, self.gelu, pre, sums);
        } else {
            let mut wide = [0.0; PIECE];
            for (pre, sums) in pre.chunks_mut(PIECE).zip(sums.chunks_mut(PIECE)) {
                let wide = &mut wide[..pre.len()];
                T::widen_with(simd, pre, wide);
                gelu::values_and_slopes(simd, self.gelu, wide, sums);
                T::narrow_with(simd, wide, pre);
            }
        }
        T::narrow_with(simd, sums, out.row(at.row, at.columns));
    }
}

/// `up = sums + bias`, `out = silu(gate) * up`; the outputs are `(up, out)`, `up` may be `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreSwiGlu<'a, T> {
    /// One for each column.
    pub bias: Option<&'a [f32]>,
    /// A matrix of the result's shape.
    pub gate: &'a [T],
    /// Columns of `gate`.
    pub columns: usize,
}

impl<T: Element> Epilogue<(Option<Tile<'_, T>>, Tile<'_, T>)> for StoreSwiGlu<'_, T> {
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        at: RowSegment,
        sums: &mut [f32],
        (up, out): &mut (Option<Tile<'_, T>>, Tile<'_, T>),
    ) {
        add_bias(self.bias, &at, sums);
        let gate = &self.gate[at.row * self.columns..][at.columns.clone()];
        let out = out.row(at.row, at.columns.clone());
        if let (Some(gate), Some(out)) = (T::as_f32(gate), T::as_f32_mut(out)) {
            swiglu::values(simd, gate, sums, out);
        } else {
            // Round as storage does, using `out` as temporary storage.
            T::narrow_with(simd, sums, out);
            T::widen_with(simd, out, sums);
            let (mut wide, mut values) = ([0.0; PIECE], [0.0; PIECE]);
            let pieces = gate.chunks(PIECE).zip(sums.chunks(PIECE));
            for ((gate, sums), out) in pieces.zip(out.chunks_mut(PIECE)) {
                let (wide, values) = (&mut wide[..out.len()], &mut values[..out.len()]);
                T::widen_with(simd, gate, wide);
                swiglu::values(simd, wide, sums, values);
                T::narrow_with(simd, values, out);
            }
        }
        if let Some(up) = up {
            T::narrow_with(simd, sums, up.row(at.row, at.columns));
        }
    }
}

/// The sums are the gradient of `silu(gate) * up`. Writes that value to `out` and replaces `gate`
/// and `up` with their gradients; the outputs are `(gate, up, out)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimesSwiGluSlopes;

impl<T: Element> Epilogue<(Tile<'_, T>, Tile<'_, T>, Tile<'_, T>)> for TimesSwiGluSlopes {
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        at: RowSegment,
        sums: &mut [f32],
        (gate, up, out): &mut (Tile<'_, T>, Tile<'_, T>, Tile<'_, T>),
    ) {
        let gate = gate.row(at.row, at.columns.clone());
        let up = up.row(at.row, at.columns.clone());
        if let (Some(gate), Some(up)) = (T::as_f32_mut(gate), T::as_f32_mut(up)) {
            swiglu::values_and_gradients(simd, gate, up, sums);
        } else {
            let (mut gates, mut ups) = ([0.0; PIECE], [0.0; PIECE]);
            let pieces = gate.chunks_mut(PIECE).zip(up.chunks_mut(PIECE));
            for ((gate, up), sums) in pieces.zip(sums.chunks_mut(PIECE)) {
                let (gates, ups) = (&mut gates[..sums.len()], &mut ups[..sums.len()]);
                T::widen_with(simd, gate, gates);
                T::widen_with(simd, up, ups);
                swiglu::values_and_gradients(simd, gates, ups, sums);
                T::narrow_with(simd, gates, gate);
                T::narrow_with(simd, ups, up);
            }
        }
        T::narrow_with(simd, sums, out.row(at.row, at.columns));
    }
}

/// `out = factor · matrix + scale · sums`
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddScaled<'a, T> {
    /// A matrix of the result's shape.
    pub matrix: &'a [T],
    /// Columns of `matrix`.
    pub columns: usize,
    /// The factor of the matrix.
    pub factor: f32,
    /// The factor of the sums.
    pub scale: f32,
}

impl<T: Element> Epilogue<Tile<'_, T>> for AddScaled<'_, T> {
    #[inline(always)]
    fn finish<S: Simd>(&self, simd: S, at: RowSegment, sums: &mut [f32], out: &mut Tile<'_, T>) {
        let matrix = &self.matrix[at.row * self.columns..][at.columns.clone()];
        let mut wide = [0.0; PIECE];
        for (matrix, sums) in matrix.chunks(PIECE).zip(sums.chunks_mut(PIECE)) {
            let wide = &mut wide[..matrix.len()];
            T::widen_with(simd, matrix, wide);
            for (sum, value) in sums.iter_mut().zip(wide) {
                *sum = simd.fma1(self.scale, *sum, self.factor * *value);
            }
        }
        T::narrow_with(simd, sums, out.row(at.row, at.columns));
    }
}

/// `out = out + sums`, in any stored type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddStored;

impl<T: Element> Epilogue<Tile<'_, T>> for AddStored {
    #[inline(always)]
    fn finish<S: Simd>(&self, simd: S, at: RowSegment, sums: &mut [f32], out: &mut Tile<'_, T>) {
        let out = out.row(at.row, at.columns);
        if let Some(out) = T::as_f32_mut(out) {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out += *sum);
            return;
        }
        let mut wide = [0.0; PIECE];
        for (out, sums) in out.chunks_mut(PIECE).zip(sums.chunks_mut(PIECE)) {
            let wide = &mut wide[..out.len()];
            T::widen_with(simd, out, wide);
            sums.iter_mut().zip(wide).for_each(|(sum, old)| *sum += *old);
            T::narrow_with(simd, sums, out);
        }
    }
}

/// `out = residual + drop(sums + bias)`
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddResidual<'a, T, D> {
    /// One for each column.
    pub bias: Option<&'a [f32]>,
    /// A matrix of the result's shape.
    pub residual: &'a [T],
    /// Columns of `residual`.
    pub columns: usize,
    /// The dropout, if any.
    pub dropout: Option<D>,
}

/// Dropout of a result.
pub(crate) trait ResultDropout: Sync {
    /// Drops elements of `segment` of a result with `columns` columns. Mark it
    /// `#[inline(always)]`.
    fn apply(&self, segment: &RowSegment, columns: usize, sums: &mut [f32]);
}

impl<T: Element, D: ResultDropout> Epilogue<Tile<'_, T>> for AddResidual<'_, T, D> {
    #[inline(always)]
    fn finish<S: Simd>(&self, simd: S, at: RowSegment, sums: &mut [f32], out: &mut Tile<'_, T>) {
        add_bias(self.bias, &at, sums);
        if let Some(dropout) = &self.dropout {
            dropout.apply(&at, self.columns, sums);
        }
        let residual = &self.residual[at.row * self.columns..][at.columns.clone()];
        let out = out.row(at.row, at.columns);
        if let (Some(residual), Some(out)) = (T::as_f32(residual), T::as_f32_mut(out)) {
            for (out, (sum, residual)) in out.iter_mut().zip(sums.iter().zip(residual)) {
                *out = sum + residual;
            }
            return;
        }
        let mut wide = [0.0; PIECE];
        for (residual, sums) in residual.chunks(PIECE).zip(sums.chunks_mut(PIECE)) {
            let wide = &mut wide[..residual.len()];
            T::widen_with(simd, residual, wide);
            sums.iter_mut().zip(wide).for_each(|(sum, residual)| *sum += *residual);
        }
        T::narrow_with(simd, sums, out);
    }
}

/// Numbers that are widened to f32 at a time.
const PIECE: usize = 64;

#[inline(always)]
fn add_bias(bias: Option<&[f32]>, at: &RowSegment, sums: &mut [f32]) {
    if let Some(bias) = bias {
        let bias = &bias[at.columns.clone()];
        sums.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias);
    }
}
