//! Linear layers, alone and fused, and their gradients.

use std::ops::Range;

use cubecl::{
    ir::ElemType,
    prelude::{BufferArg, CubeCount, CubeDim},
};
use fitgpt_plan::{program::Op, units::TensorId};

use super::{Call, F32, OptionalMask, kind, launch, misplaced, optional};
use crate::kernels::linear::{self, CornerLaunch, FactorLaunch, Layout, SIDE, TILE};

/// A factor of a product, or the product itself: a matrix in a bound buffer.
pub(super) struct Matrix {
    pub(super) buffer: BufferArg,
    pub(super) stored: ElemType,
    /// Elements bound before its first.
    pub(super) first: usize,
    /// Elements from one of its rows in memory to the next.
    pub(super) stride: usize,
}

/// Rows of the left factor, rows of the right one, and the axis that is summed over.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) inner: usize,
}

/// What happens to what the product's place holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Assign,
    Add,
}

impl Call<'_> {
    pub(super) fn linear(&self) {
        match *self.op {
            Op::Linear { x, weight, bias, out } => {
                let inner = self.columns(x);
                for rows in self.windows(self.used(x), &[self.row_bytes(x), self.row_bytes(out)]) {
                    for table in self.windows(self.rows(weight), &[self.row_bytes(weight), 4]) {
                        let left = self.matrix(x, &rows);
                        let right = self.matrix(weight, &table);
                        let mut product = self.matrix(out, &rows);
                        product.first += table.start;
                        let bias = bias.map(|bias| self.shares(bias, &table, self.columns(bias)));
                        let extents = Extents { left: rows.len(), right: table.len(), inner };
                        let layouts = (Layout::InnerLast, Layout::InnerLast);
                        self.multiply(left, right, bias, product, extents, layouts, To::Assign);
                    }
                }
            }
            Op::LinearGelu { x, weight, bias, pre, out, gelu } => {
                for rows in self.windows(self.used(x), &[self.row_bytes(x), self.row_bytes(out)]) {
                    let extents = self.layer(weight, rows.len());
                    launch!(
                        self,
                        linear::activate,
                        tiles(extents),
                        square(),
                        self.rows_of(x, &rows),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        optional(pre.map(|pre| self.rows_of(pre, &rows))),
                        self.rows_of(out, &rows),
                        factor(0, extents.inner, extents.left),
                        factor(0, extents.inner, extents.right),
                        extents.inner,
                        kind(gelu),
                        self.stored(x),
                    );
                }
            }
            Op::LinearResidual { x, weight, bias, residual, out, ref dropout } => {
                let keys = dropout.as_ref().map(|dropout| self.keys(dropout, out));
                for rows in self.windows(self.used(x), &[self.row_bytes(x), self.row_bytes(out)]) {
                    let extents = self.layer(weight, rows.len());
                    launch!(
                        self,
                        linear::onto_residual,
                        tiles(extents),
                        square(),
                        self.rows_of(x, &rows),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        self.rows_of(residual, &rows),
                        self.rows_of(out, &rows),
                        OptionalMask::from(keys.as_ref().map(|keys| keys())),
                        factor(0, extents.inner, extents.left),
                        factor(0, extents.inner, extents.right),
                        extents.inner,
                        rows.start,
                        self.seq(out),
                        self.stored(x),
                    );
                }
            }
            Op::LinearBackwardInput { d_out, weight, d_x } => {
                let units = [self.row_bytes(d_out), self.row_bytes(d_x)];
                for rows in self.windows(self.rows(d_out), &units) {
                    let (inner, right) = (self.rows(weight), self.columns(weight));
                    self.multiply(
                        self.matrix(d_out, &rows),
                        self.matrix(weight, &(0..inner)),
                        None,
                        self.matrix(d_x, &rows),
                        Extents { left: rows.len(), right, inner },
                        (Layout::InnerLast, Layout::InnerFirst),
                        To::Assign,
                    );
                }
            }
            Op::LinearBackwardGelu { d_out, weight, pre, d_pre, gelu } => {
                let units = [self.row_bytes(d_out), self.row_bytes(d_pre)];
                for rows in self.windows(self.rows(d_out), &units) {
                    let (inner, right) = (self.rows(weight), self.columns(weight));
                    let extents = Extents { left: rows.len(), right, inner };
                    launch!(
                        self,
                        linear::through_gelu,
                        tiles(extents),
                        square(),
                        self.rows_of(d_out, &rows),
                        self.whole(weight),
                        self.rows_of(pre, &rows),
                        self.rows_of(d_pre, &rows),
                        factor(0, inner, extents.left),
                        factor(0, right, right),
                        inner,
                        kind(gelu),
                        self.stored(d_out),
                    );
                }
            }
            Op::LinearBackwardWeight { d_out, x, d_weight, d_bias } => {
                let units = [self.row_bytes(d_out), self.row_bytes(x)];
                for rows in self.windows(self.rows(x), &units) {
                    self.add_weight_gradient((d_out, &rows), (x, &rows), d_weight);
                }
                if let Some(d_bias) = d_bias {
                    self.add_column_sums(d_out, d_bias);
                }
            }
            _ => misplaced(self.op),
        }
    }

    /// `d_weight += d_outᵀ · x` over some rows of each.
    pub(super) fn add_weight_gradient(
        &self,
        (d_out, d_rows): (TensorId, &Range<usize>),
        (x, rows): (TensorId, &Range<usize>),
        d_weight: TensorId,
    ) {
        for table in self.windows(self.rows(d_weight), &[self.row_bytes(d_weight)]) {
            let mut left = self.matrix(d_out, d_rows);
            left.first += table.start;
            self.multiply(
                left,
                self.matrix(x, rows),
                None,
                self.matrix(d_weight, &table),
                Extents { left: table.len(), right: self.columns(x), inner: rows.len() },
                (Layout::InnerFirst, Layout::InnerFirst),
                To::Add,
            );
        }
    }

    /// Rows of a tensor, wherever they begin.
    pub(super) fn matrix(&self, id: TensorId, rows: &Range<usize>) -> Matrix {
        let (buffer, first) = self.part(id, rows, self.rows(id));
        Matrix { buffer, stored: self.stored(id), first, stride: self.columns(id) }
    }

    #[expect(clippy::too_many_arguments, reason = "a product has two factors, a place and a shape")]
    pub(super) fn multiply(
        &self,
        left: Matrix,
        right: Matrix,
        bias: Option<BufferArg>,
        product: Matrix,
        extents: Extents,
        layouts: (Layout, Layout),
        to: To,
    ) {
        launch!(
            self,
            linear::multiply,
            tiles(extents),
            square(),
            left.buffer,
            right.buffer,
            optional(bias),
            product.buffer,
            factor(left.first, left.stride, extents.left),
            factor(right.first, right.stride, extents.right),
            extents.inner,
            CornerLaunch::new(product.first, product.stride),
            layouts,
            to == To::Add,
            left.stored,
            right.stored,
            product.stored,
        );
    }

    /// Of `rows` rows through a weight (outputs, inputs).
    fn layer(&self, weight: TensorId, rows: usize) -> Extents {
        Extents { left: rows, right: self.rows(weight), inner: self.columns(weight) }
    }
}

/// A matrix of 4-byte floats in scratch.
pub(super) fn floats(buffer: BufferArg, stride: usize) -> Matrix {
    Matrix { buffer, stored: F32, first: 0, stride }
}

fn factor(first: usize, stride: usize, outer: usize) -> FactorLaunch {
    FactorLaunch::new(first, stride, outer)
}

fn tiles(extents: Extents) -> CubeCount {
    let (x, y) = (extents.right.div_ceil(TILE), extents.left.div_ceil(TILE));
    CubeCount::Static(x as u32, y as u32, 1)
}

fn square() -> CubeDim {
    CubeDim::new_2d(SIDE, SIDE)
}
