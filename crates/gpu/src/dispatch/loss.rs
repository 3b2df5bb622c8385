//! The chunked loss and its gradients.

use std::ops::Range;

use fitgpt_program::{Op, units::TensorId};

use super::{
    F32, OpLaunch, cubes, elements, launch, line,
    linear::{Extents, StoreMode, floats},
    misplaced,
};
use crate::kernels::{cross_entropy, elementwise, product::FactorLayout};

/// The tensors that both ops have.
#[derive(Clone, Copy)]
struct LossOperands {
    x: TensorId,
    weight: TensorId,
    targets: TensorId,
    logits: TensorId,
}

impl OpLaunch<'_> {
    pub(super) fn loss(&self) {
        match *self.op {
            Op::CrossEntropy { x, weight, targets, logits, losses } => {
                let of = LossOperands { x, weight, targets, logits };
                for rows in self.chunks(of) {
                    self.scores(of, &rows);
                    self.row_losses(of, &rows, None);
                }
                let sequences = self.columns(losses);
                let seq = self.seq(x);
                self.means(losses, sequences, seq, 1.0 / seq as f32, StoreMode::Assign);
            }
            Op::CrossEntropyBackward {
                x,
                weight,
                targets,
                logits,
                loss,
                d_x,
                d_weight,
                mean_over,
            } => {
                let of = LossOperands { x, weight, targets, logits };
                let factor = f64::from(self.arguments.loss_scale) / mean_over as f64;
                for rows in self.chunks(of) {
                    self.scores(of, &rows);
                    self.row_losses(of, &rows, Some(factor as f32));
                    self.gradient_of_input(of, d_x, &rows);
                    let chunk = 0..rows.len();
                    self.add_weight_gradient((logits, &chunk), (x, &rows), d_weight);
                }
                let scale = (1.0 / mean_over as f64) as f32;
                self.means(loss, 1, self.rows(x), scale, StoreMode::Add);
            }
            _ => misplaced(self.op),
        }
    }

    /// Chunks of rows whose logits are computed together.
    fn chunks(&self, of: LossOperands) -> Vec<Range<usize>> {
        let fits = self.properties().max_binding.get() / self.row_bytes(of.logits);
        let step = self.rows(of.logits).min(fits as usize).max(1);
        let rows = self.rows(of.x);
        (0..rows).step_by(step).map(|start| start..(start + step).min(rows)).collect()
    }

    /// `logits = x · weightᵀ`
    fn scores(&self, of: LossOperands, rows: &Range<usize>) {
        let inner = self.columns(of.x);
        for table in self.windows(self.rows(of.weight), &[self.row_bytes(of.weight)]) {
            let mut product = self.matrix(of.logits, &(0..rows.len()));
            product.first += table.start;
            self.multiply(
                self.matrix(of.x, rows),
                self.matrix(of.weight, &table),
                None,
                product,
                Extents { left: rows.len(), right: table.len(), inner },
                (FactorLayout::InnerLast, FactorLayout::InnerLast),
                StoreMode::Assign,
            );
        }
    }

    fn row_losses(&self, of: LossOperands, rows: &Range<usize>, factor: Option<f32>) {
        launch!(
            self,
            cross_entropy::row_losses,
            cubes(rows.len()),
            line(),
            self.rows_of(of.logits, &(0..rows.len())),
            self.whole(of.targets),
            self.floats(),
            rows.start,
            rows.len(),
            self.rows(of.weight),
            factor.unwrap_or(0.0),
            self.properties().sums,
            factor.is_some(),
        );
    }

    /// `d_x = d_logits · weight`. If the weight is split, the parts are summed in float32.
    fn gradient_of_input(&self, of: LossOperands, d_x: TensorId, rows: &Range<usize>) {
        let tables = self.windows(self.rows(of.weight), &[self.row_bytes(of.weight)]);
        let right = self.columns(of.x);
        let is_cut = tables.len() > 1;
        for table in tables {
            let mut d_logits = self.matrix(of.logits, &(0..rows.len()));
            d_logits.first += table.start;
            let product = if is_cut { floats(self.words(), right) } else { self.matrix(d_x, rows) };
            self.multiply(
                d_logits,
                self.matrix(of.weight, &table),
                None,
                product,
                Extents { left: rows.len(), right, inner: table.len() },
                (FactorLayout::InnerLast, FactorLayout::InnerFirst),
                if table.start == 0 { StoreMode::Assign } else { StoreMode::Add },
            );
        }
        if is_cut {
            let place = self.matrix(d_x, rows);
            let count = rows.len() * right;
            launch!(
                self,
                elementwise::converted,
                elements(count),
                line(),
                self.words(),
                place.buffer,
                place.first,
                count,
                F32,
                place.stored,
            );
        }
    }

    fn means(&self, out: TensorId, count: usize, per: usize, scale: f32, to: StoreMode) {
        launch!(
            self,
            cross_entropy::means,
            cubes(count),
            line(),
            self.floats(),
            self.whole(out),
            count,
            per,
            scale,
            self.properties().sums,
            to == StoreMode::Add,
        );
    }
}
