//! Rotary positions, forward and inverse.

use fitgpt_program::{Op, Turn};

use super::{OpLaunch, elements, launch, line, misplaced};
use crate::kernels::rotary;

impl OpLaunch<'_> {
    pub(super) fn rotary(&self) {
        let Op::Rotary { x, table, turn, .. } = *self.op else { misplaced(self.op) };
        let (columns, size) = (self.columns(x), self.columns(table));
        let (seq, used) = (self.seq(x), self.used(x));
        let first = self.arguments.first_position(self.listing) as usize;
        let positions = first..first + seq.min(used);
        for window in self.windows(used, &[self.row_bytes(x)]) {
            let pairs = window.len() * columns / 2;
            let (angles, first_angle) = self.part(table, &positions, self.rows(table));
            launch!(
                self,
                rotary::rotate,
                elements(pairs),
                line(),
                self.rows_of(x, &window),
                angles,
                pairs,
                columns,
                seq,
                window.start,
                first_angle,
                size,
                turn == Turn::Back,
                self.stored(x),
            );
        }
    }
}
