//! Embeddings, forward and backward.

use fitgpt_program::Op;

use super::{OpLaunch, OptionalMask, cubes, elements, launch, line, misplaced, optional};
use crate::kernels::embed;

impl OpLaunch<'_> {
    pub(super) fn embed(&self) {
        match *self.op {
            Op::Embed { tokens, wte, wpe, out, ref dropout } => {
                let keys = dropout.as_ref().map(|dropout| self.keys(dropout, out));
                let channels = self.columns(out);
                for table in self.windows(self.rows(wte), &[self.row_bytes(wte)]) {
                    for window in self.windows(self.used(out), &[self.row_bytes(out)]) {
                        let count = window.len() * channels;
                        launch!(
                            self,
                            embed::forward,
                            elements(count),
                            line(),
                            self.whole(tokens),
                            self.rows_of(wte, &table),
                            optional(wpe.map(|wpe| self.whole(wpe))),
                            self.rows_of(out, &window),
                            OptionalMask::from(keys.as_ref().map(|keys| keys())),
                            count,
                            channels,
                            self.seq(out),
                            window.start,
                            self.arguments.first_position(self.listing) as usize,
                            table.start as u32,
                            table.end as u32,
                            self.stored(out),
                        );
                    }
                }
            }
            Op::EmbedBackward { tokens, d_x, d_wte, d_wpe, ref dropout } => {
                let keys =
                    dropout.as_ref().map(|dropout| self.keys_in(dropout, d_x, || self.floats()));
                let sequences = self.listing.get(d_x).shape[0] as usize;
                let (seq, channels) = (self.seq(d_x), self.columns(d_x));
                let units = [self.share_bytes(d_x, sequences), self.share_bytes(tokens, sequences)];
                for window in self.windows(sequences, &units) {
                    let rows = window.len() * seq;
                    launch!(
                        self,
                        embed::link,
                        elements(rows),
                        line(),
                        self.shares(tokens, &window, sequences),
                        self.words(),
                        rows,
                    );
                    for table in self.windows(self.rows(d_wte), &[self.row_bytes(d_wte)]) {
                        launch!(
                            self,
                            embed::backward_tokens,
                            cubes(rows),
                            line(),
                            self.shares(tokens, &window, sequences),
                            self.words(),
                            self.shares(d_x, &window, sequences),
                            self.rows_of(d_wte, &table),
                            OptionalMask::from(keys.as_ref().map(|keys| keys())),
                            rows,
                            channels,
                            seq,
                            window.start,
                            table.start as u32,
                            table.end as u32,
                            self.stored(d_x),
                        );
                    }
                    let Some(d_wpe) = d_wpe else { continue };
                    launch!(
                        self,
                        embed::backward_positions,
                        elements(seq * channels),
                        line(),
                        self.shares(d_x, &window, sequences),
                        self.whole(d_wpe),
                        OptionalMask::from(keys.as_ref().map(|keys| keys())),
                        window.len(),
                        channels,
                        seq,
                        window.start,
                        self.stored(d_x),
                    );
                }
            }
            _ => misplaced(self.op),
        }
    }
}
