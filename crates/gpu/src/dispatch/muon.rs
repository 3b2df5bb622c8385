//! Muon.

use cubecl::prelude::{BufferArg, CubeCount, CubeDim};
use fitgpt_program::{
    Muon, Op,
    units::{DType, TensorId},
};

use super::{OpLaunch, cubes, elements, launch, line, misplaced};
use crate::{
    kernels::{
        muon::{self, IterationType, MuonConstantsLaunch, PolynomialSide},
        product::{FactorLaunch, FactorLayout, ProductUnits, SIDE},
        update::{self, BLOCK},
    },
    target::MuonScratch,
};

impl OpLaunch<'_> {
    pub(super) fn muon(&self) {
        let Op::Muon { norm, parameter, gradient, momentum, ref muon } = *self.op else {
            misplaced(self.op)
        };
        let (out, inputs) = (self.rows(parameter), self.columns(parameter));
        let (count, short, long) = (out * inputs, out.min(inputs), out.max(inputs));
        let scratch = MuonScratch::new(out as u64, inputs as u64);
        let matrix = |which: usize| self.scratch_part(scratch.matrices[which], count as u64);
        let square =
            |which: usize| self.scratch_part(scratch.squares[which], (short * short) as u64);
        let length = || self.scratch_part(scratch.length, 1);
        let stored = match muon.dtype {
            DType::Bf16 => IterationType::Bf16,
            _ => IterationType::F32,
        };
        self.begin_muon(norm, gradient, momentum, (count, stored), muon, matrix(0));
        self.length_of(matrix(0), length(), count);
        launch!(
            self,
            muon::divide,
            elements(count),
            line(),
            length(),
            matrix(0),
            count,
            muon.epsilon,
            stored,
        );
        let [a, b, c] = muon.coefficients;
        // (first, stride, outer) of a factor.
        let of = |stride: usize, outer: usize| FactorLaunch::new(0, stride, outer);
        let is_tall = out > inputs;
        let mut x = 0;
        for _ in 0..muon.steps {
            launch!(
                self,
                muon::gram,
                tiles(short, short),
                units(),
                matrix(x),
                square(0),
                of(inputs, short),
                of(inputs, short),
                long,
                if is_tall { FactorLayout::InnerFirst } else { FactorLayout::InnerLast },
                stored,
            );
            launch!(
                self,
                muon::polynomial,
                tiles(short, short),
                units(),
                square(0),
                square(1),
                of(short, short),
                of(short, short),
                short,
                b,
                c,
                stored,
            );
            let (left, right, side) = if is_tall {
                (of(inputs, out), of(short, inputs), PolynomialSide::Right)
            } else {
                (of(short, out), of(inputs, inputs), PolynomialSide::Left)
            };
            launch!(
                self,
                muon::advance,
                tiles(out, inputs),
                units(),
                matrix(x),
                square(1),
                matrix(1 - x),
                left,
                right,
                short,
                a,
                side,
                stored,
            );
            x = 1 - x;
        }
        let lr = f64::from(self.arguments.lr) * f64::from(muon.lr_ratio);
        let decay_factor = (1.0 - lr * f64::from(muon.weight_decay)) as f32;
        let rate = (lr * muon.adjustment(out as u64, inputs as u64)) as f32;
        launch!(
            self,
            muon::apply,
            elements(count),
            line(),
            self.whole(norm),
            matrix(x),
            self.whole(parameter),
            self.whole(gradient),
            count,
            decay_factor,
            rate,
        );
    }

    /// Updates the momentum and writes the matrix to orthogonalise to `x`.
    fn begin_muon(
        &self,
        norm: TensorId,
        gradient: TensorId,
        momentum: TensorId,
        (count, stored): (usize, IterationType),
        muon: &Muon,
        x: BufferArg,
    ) {
        let rest = (1.0 - f64::from(muon.momentum)) as f32;
        let mixing = MuonConstantsLaunch::new(
            1.0 / self.arguments.loss_scale,
            muon.grad_clip,
            rest,
            if muon.nesterov { rest } else { 0.0 },
        );
        launch!(
            self,
            muon::mix,
            elements(count),
            line(),
            self.whole(norm),
            self.whole(gradient),
            self.whole(momentum),
            x,
            count,
            mixing,
            stored,
        );
    }

    /// `length = ‖x‖`
    fn length_of(&self, x: BufferArg, length: BufferArg, count: usize) {
        let blocks = count.div_ceil(BLOCK);
        let sums = self.properties().sums;
        launch!(self, update::squares, cubes(blocks), line(), x, self.floats(), 0, count, sums);
        launch!(self, update::norm, cubes(1), line(), self.floats(), length, blocks, 1.0, sums);
    }
}

fn tiles(rows: usize, columns: usize) -> CubeCount {
    let tile = ProductUnits::Units.tile();
    CubeCount::Static(columns.div_ceil(tile) as u32, rows.div_ceil(tile) as u32, 1)
}

fn units() -> CubeDim {
    CubeDim::new_2d(SIDE, SIDE)
}
