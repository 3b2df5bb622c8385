//! `LayerNorm`, forward, again and backward.

use cubecl::prelude::CubeCount;
use fitgpt_plan::{program::Op, units::TensorId};

use super::{Call, cubes, elements, launch, line, misplaced, optional};
use crate::kernels::{
    layer_norm::{self, BLOCK_ROWS},
    math::UNITS,
};

impl Call<'_> {
    pub(super) fn norm(&self) {
        match *self.op {
            Op::LayerNorm { x, weight, bias, out, mean, rstd } => {
                for window in self.windows(self.used(x), &[self.row_bytes(x), 4]) {
                    launch!(
                        self,
                        layer_norm::forward,
                        cubes(window.len()),
                        line(),
                        self.rows_of(x, &window),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        self.rows_of(out, &window),
                        self.one_a_row(mean, x, &window),
                        self.one_a_row(rstd, x, &window),
                        window.len(),
                        self.columns(x),
                        self.properties().sums,
                        self.stored(x),
                    );
                }
            }
            Op::LayerNormAgain { x, weight, bias, mean, rstd, out } => {
                for window in self.windows(self.used(x), &[self.row_bytes(x), 4]) {
                    launch!(
                        self,
                        layer_norm::again,
                        cubes(window.len()),
                        line(),
                        self.rows_of(x, &window),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        self.one_a_row(mean, x, &window),
                        self.one_a_row(rstd, x, &window),
                        self.rows_of(out, &window),
                        window.len(),
                        self.columns(x),
                        self.stored(x),
                    );
                }
            }
            Op::LayerNormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias }
            | Op::LayerNormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
                let adds = matches!(self.op, Op::LayerNormBackwardAdd { .. });
                let channels = self.columns(x);
                let mut blocks = 0;
                // Windows begin at multiples of 64 rows, because a row has 4 bytes of `mean`.
                for window in self.windows(self.rows(x), &[self.row_bytes(x), 4]) {
                    launch!(
                        self,
                        layer_norm::backward_input,
                        cubes(window.len()),
                        line(),
                        self.rows_of(x, &window),
                        self.whole(weight),
                        self.one_a_row(mean, x, &window),
                        self.one_a_row(rstd, x, &window),
                        self.rows_of(d_out, &window),
                        self.rows_of(d_x, &window),
                        window.len(),
                        channels,
                        adds,
                        self.properties().sums,
                        self.stored(x),
                    );
                    launch!(
                        self,
                        layer_norm::weight_sums,
                        blocks_of(window.len(), channels),
                        line(),
                        self.rows_of(x, &window),
                        self.one_a_row(mean, x, &window),
                        self.one_a_row(rstd, x, &window),
                        self.rows_of(d_out, &window),
                        self.floats(),
                        blocks,
                        window.len(),
                        channels,
                        self.stored(x),
                    );
                    blocks += window.len().div_ceil(BLOCK_ROWS);
                }
                self.add_blocks(d_weight, blocks, 2 * channels, 0);
                if let Some(d_bias) = d_bias {
                    self.add_blocks(d_bias, blocks, 2 * channels, channels);
                }
            }
            _ => misplaced(self.op),
        }
    }

    /// Adds to `d_bias` the sums of the columns of `d_out`.
    pub(super) fn add_column_sums(&self, d_out: TensorId, d_bias: TensorId) {
        let columns = self.columns(d_out);
        let mut blocks = 0;
        for window in self.windows(self.rows(d_out), &[self.row_bytes(d_out), 4]) {
            launch!(
                self,
                layer_norm::column_sums,
                blocks_of(window.len(), columns),
                line(),
                self.rows_of(d_out, &window),
                self.floats(),
                blocks,
                window.len(),
                columns,
                self.stored(d_out),
            );
            blocks += window.len().div_ceil(BLOCK_ROWS);
        }
        self.add_blocks(d_bias, blocks, columns, 0);
    }

    fn add_blocks(&self, out: TensorId, blocks: usize, stride: usize, first: usize) {
        let channels = self.columns(out);
        launch!(
            self,
            layer_norm::add_blocks,
            elements(channels),
            line(),
            self.floats(),
            self.whole(out),
            blocks,
            stride,
            first,
            channels,
        );
    }

    /// The numbers of a tensor that has one for each row of `x`.
    fn one_a_row(
        &self,
        id: TensorId,
        x: TensorId,
        window: &std::ops::Range<usize>,
    ) -> cubecl::prelude::BufferArg {
        self.shares(id, window, self.rows(x))
    }
}

/// A cube for each block of rows and each run of columns.
fn blocks_of(rows: usize, columns: usize) -> CubeCount {
    let x = columns.div_ceil(UNITS as usize);
    CubeCount::Static(x as u32, rows.div_ceil(BLOCK_ROWS) as u32, 1)
}
