//! Column sums: the gradient of a bias.
//!
//! ```text
//! d_bias (N) += sum over m of d_out (M,N)
//! ```
//!
//! Rows are summed in blocks of 64, then the blocks: the error grows with M / 64, not with M,
//! and the order is the same for any number of threads. Needs no scratch.

use crate::cpu::{
    element::Element,
    isa::{Isa, Kernel, Simd},
    parts::Blocks,
    pool::Pool,
};

/// `out += Σ rows of data`
#[derive(Debug)]
pub(crate) struct ColumnSums<'a, E> {
    /// Row-major, with rows of `out.len()`.
    pub data: &'a [E],
    /// One sum for each column.
    pub out: &'a mut [f32],
}

/// Columns of one task: four cache lines of f32.
const COLUMNS: usize = 64;
/// Rows of a block, which is summed before it is added to the total.
const ROWS: usize = 64;

impl<E: Element> ColumnSums<'_, E> {
    /// Adds the sums.
    pub(crate) fn run(self, isa: Isa, pool: &mut Pool) {
        let Self { data, out } = self;
        let columns = out.len();
        assert_eq!(
            data.len().checked_rem(columns).unwrap_or(data.len()),
            0,
            "not whole rows of {columns}"
        );
        pool.for_each(Blocks::new(out, COLUMNS), |task, out| {
            isa.run(OneTask { data, columns, first: task.index * COLUMNS, out });
        });
    }
}

struct OneTask<'a, E> {
    data: &'a [E],
    columns: usize,
    first: usize,
    out: &'a mut [f32],
}

impl<E: Element> Kernel for OneTask<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let n = self.out.len();
        let mut total = [0.0; COLUMNS];
        let mut wide = [0.0; COLUMNS];
        for rows in self.data.chunks(ROWS * self.columns) {
            let mut sums = [0.0; COLUMNS];
            for row in rows.chunks_exact(self.columns) {
                E::widen_with(simd, &row[self.first..][..n], &mut wide[..n]);
                // Includes the unused end, so that the loop has a constant length.
                sums.iter_mut().zip(&wide).for_each(|(sum, x)| *sum += x);
            }
            total.iter_mut().zip(&sums).for_each(|(total, sum)| *total += sum);
        }
        self.out.iter_mut().zip(&total).for_each(|(out, total)| *out += total);
    }
}
