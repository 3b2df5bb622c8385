//! Norms: forward, recomputation and backward.

use std::ops::Range;

use cubecl::prelude::{BufferArg, CubeCount};
use fitgpt_program::{Op, units::TensorId};

use super::{OpLaunch, cubes, elements, launch, line, misplaced, optional};
use crate::{
    adapter::GpuProperties,
    kernels::{
        math::{SumOrder, UNITS},
        norm::{self, BLOCK_ROWS, RowTeam},
    },
};

impl OpLaunch<'_> {
    pub(super) fn norm(&self) {
        match *self.op {
            Op::Norm { x, weight, bias, out, mean, rstd, epsilon } => {
                let heads = self.heads_of_row(x, weight);
                let (team, teams) = self.team(heads);
                for window in self.norm_windows(self.used(x), x, heads) {
                    let rows = window.len() * heads;
                    launch!(
                        self,
                        norm::forward,
                        teams(rows),
                        line(),
                        self.rows_of(x, &window),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        self.rows_of(out, &window),
                        optional(mean.map(|mean| self.statistics(mean, x, &window))),
                        self.statistics(rstd, x, &window),
                        rows,
                        self.columns(weight),
                        epsilon,
                        team,
                        self.stored(x),
                    );
                }
            }
            Op::NormAgain { x, weight, bias, mean, rstd, out } => {
                let heads = self.heads_of_row(x, weight);
                let (team, teams) = self.team(heads);
                for window in self.norm_windows(self.used(x), x, heads) {
                    let rows = window.len() * heads;
                    launch!(
                        self,
                        norm::recompute,
                        teams(rows),
                        line(),
                        self.rows_of(x, &window),
                        self.whole(weight),
                        optional(bias.map(|bias| self.whole(bias))),
                        optional(mean.map(|mean| self.statistics(mean, x, &window))),
                        self.statistics(rstd, x, &window),
                        self.rows_of(out, &window),
                        rows,
                        self.columns(weight),
                        team,
                        self.stored(x),
                    );
                }
            }
            Op::NormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias }
            | Op::NormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
                let adds = matches!(self.op, Op::NormBackwardAdd { .. });
                let (heads, channels) = (self.heads_of_row(x, weight), self.columns(weight));
                let (team, teams) = self.team(heads);
                let mut blocks = 0;
                for window in self.norm_windows(self.rows(x), x, heads) {
                    let rows = window.len() * heads;
                    launch!(
                        self,
                        norm::backward_input,
                        teams(rows),
                        line(),
                        self.rows_of(x, &window),
                        self.whole(weight),
                        optional(mean.map(|mean| self.statistics(mean, x, &window))),
                        self.statistics(rstd, x, &window),
                        self.rows_of(d_out, &window),
                        self.rows_of(d_x, &window),
                        rows,
                        channels,
                        adds,
                        team,
                        self.stored(x),
                    );
                    launch!(
                        self,
                        norm::weight_sums,
                        blocks_of(window.len(), channels),
                        line(),
                        self.rows_of(x, &window),
                        optional(mean.map(|mean| self.statistics(mean, x, &window))),
                        self.statistics(rstd, x, &window),
                        self.rows_of(d_out, &window),
                        self.floats(),
                        blocks,
                        BLOCK_ROWS * heads,
                        rows,
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

    /// Adds the column sums of `d_out` to `d_bias`.
    pub(super) fn add_column_sums(&self, d_out: TensorId, d_bias: TensorId) {
        let columns = self.columns(d_out);
        let mut blocks = 0;
        for window in self.windows(self.rows(d_out), &[self.row_bytes(d_out), 4]) {
            launch!(
                self,
                norm::column_sums,
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
            norm::add_blocks,
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

    /// The number of normalised heads in one row of `x`.
    fn heads_of_row(&self, x: TensorId, weight: TensorId) -> usize {
        self.columns(x) / self.columns(weight)
    }

    /// The units that work on a row, and a function from rows to cubes.
    fn team(&self, heads: usize) -> (RowTeam, impl Fn(usize) -> CubeCount) {
        let GpuProperties { sums, plane, .. } = self.properties();
        let (team, rows_of_cube) = if heads > 1 && sums == SumOrder::Planes {
            (RowTeam::Plane, (UNITS / plane[0]) as usize)
        } else {
            (RowTeam::Cube(sums), 1)
        };
        (team, move |rows: usize| cubes(rows.div_ceil(rows_of_cube)))
    }

    /// Windows of the rows of `x`. They start at multiples of [`BLOCK_ROWS`], because with 4 bytes
    /// per row aligned windows start at multiples of 64.
    fn norm_windows(&self, rows: usize, x: TensorId, heads: usize) -> Vec<Range<usize>> {
        self.windows(rows, &[self.row_bytes(x), 4 * heads as u64, 4])
    }

    /// The means or reciprocal deviations of some rows of `x`.
    fn statistics(&self, id: TensorId, x: TensorId, window: &Range<usize>) -> BufferArg {
        self.shares(id, window, self.rows(x))
    }
}

/// One cube for each block of rows and each range of columns.
fn blocks_of(rows: usize, columns: usize) -> CubeCount {
    let x = columns.div_ceil(UNITS as usize);
    CubeCount::Static(x as u32, rows.div_ceil(BLOCK_ROWS) as u32, 1)
}
