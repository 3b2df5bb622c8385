//! Attention, forward, backward and from the cache.

use cubecl::prelude::{CubeCount, CubeDim};
use fitgpt_plan::{program::Op, units::TensorId};

use super::{Call, OptionalMask, elements, launch, line, misplaced};
use crate::kernels::{
    attention::{self, BatchLaunch, Tiles},
    elementwise,
};

/// The attention of an op.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    seq: usize,
    used: usize,
    heads: usize,
    size: usize,
}

impl Shape {
    fn channels(self) -> usize {
        self.heads * self.size
    }

    fn heads(self, first_sequence: usize) -> BatchLaunch {
        let scale = (1.0 / (self.size as f64).sqrt()) as f32;
        BatchLaunch::new(self.seq, self.used, self.heads, self.channels(), scale, first_sequence)
    }

    /// A cube for each tile of rows, head and sequence.
    fn cubes(self, tiles: Tiles, sequences: usize) -> CubeCount {
        let x = self.used.div_ceil(tiles.rows).max(1);
        CubeCount::Static(x as u32, self.heads as u32, sequences as u32)
    }
}

impl Call<'_> {
    pub(super) fn attention(&self) {
        match *self.op {
            Op::Attention { qkv, out, lse, heads, ref dropout } => {
                let shape = self.attention_shape(out, heads);
                let tiles = self.tiles(shape);
                let keys = dropout.as_ref().map(|dropout| self.keys(dropout, out));
                let units = [qkv, out, lse].map(|id| self.share_bytes(id, shape.batch));
                for window in self.windows(shape.batch, &units) {
                    launch!(
                        self,
                        attention::forward,
                        shape.cubes(tiles, window.len()),
                        square(tiles),
                        self.shares(qkv, &window, shape.batch),
                        self.shares(out, &window, shape.batch),
                        self.shares(lse, &window, shape.batch),
                        OptionalMask::from(keys.as_ref().map(|keys| keys())),
                        shape.heads(window.start),
                        tiles,
                        self.stored(qkv),
                    );
                }
            }
            Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, ref dropout } => {
                let shape = self.attention_shape(out, heads);
                let tiles = self.tiles(shape);
                let keys = dropout.as_ref().map(|dropout| self.keys(dropout, out));
                let units = [qkv, out, lse].map(|id| self.share_bytes(id, shape.batch));
                for window in self.windows(shape.batch, &units) {
                    let rows = window.len() * shape.heads * shape.seq;
                    launch!(
                        self,
                        attention::along,
                        elements(rows),
                        line(),
                        self.shares(out, &window, shape.batch),
                        self.shares(d_out, &window, shape.batch),
                        self.floats(),
                        shape.heads(window.start),
                        rows,
                        shape.size,
                        self.stored(qkv),
                    );
                    launch!(
                        self,
                        attention::backward_keys,
                        shape.cubes(tiles, window.len()),
                        square(tiles),
                        self.shares(qkv, &window, shape.batch),
                        self.shares(lse, &window, shape.batch),
                        self.floats(),
                        self.shares(d_out, &window, shape.batch),
                        self.shares(d_qkv, &window, shape.batch),
                        OptionalMask::from(keys.as_ref().map(|keys| keys())),
                        shape.heads(window.start),
                        tiles,
                        self.stored(qkv),
                    );
                    launch!(
                        self,
                        attention::backward_queries,
                        shape.cubes(tiles, window.len()),
                        square(tiles),
                        self.shares(qkv, &window, shape.batch),
                        self.shares(lse, &window, shape.batch),
                        self.floats(),
                        self.shares(d_out, &window, shape.batch),
                        self.shares(d_qkv, &window, shape.batch),
                        OptionalMask::from(keys.as_ref().map(|keys| keys())),
                        shape.heads(window.start),
                        tiles,
                        self.stored(qkv),
                    );
                }
            }
            Op::StoreCache { qkv, keys, values } => {
                let channels = self.columns(keys);
                let sequences = self.listing.get(keys).shape[0] as usize;
                let row = self.arguments.cache_row as usize;
                let count = self.used(qkv) * channels;
                for (part, cache) in [(1, keys), (2, values)] {
                    let (cache_row, first) = self.part(cache, &(row..row + 1), sequences);
                    launch!(
                        self,
                        elementwise::columns,
                        elements(count),
                        line(),
                        self.whole(qkv),
                        cache_row,
                        count,
                        channels,
                        3 * channels,
                        part * channels,
                        first,
                        channels,
                        self.stored(qkv),
                    );
                }
            }
            Op::CachedAttention { qkv, keys, values, out, heads } => {
                let length = self.arguments.length as usize;
                let cache = &self.listing.get(keys).shape;
                let shape = Shape {
                    batch: cache[0] as usize,
                    seq: cache[1] as usize,
                    used: length + 1,
                    heads: heads as usize,
                    size: cache[2] as usize / heads as usize,
                };
                assert!(length < shape.seq, "the cache has room for one token more");
                let channels = shape.channels();
                let units = [qkv, keys, out].map(|id| self.share_bytes(id, shape.batch));
                for window in self.windows(shape.batch, &units) {
                    for (part, cache) in [(1, keys), (2, values)] {
                        let count = window.len() * channels;
                        launch!(
                            self,
                            elementwise::columns,
                            elements(count),
                            line(),
                            self.shares(qkv, &window, shape.batch),
                            self.shares(cache, &window, shape.batch),
                            count,
                            channels,
                            3 * channels,
                            part * channels,
                            length * channels,
                            shape.seq * channels,
                            self.stored(qkv),
                        );
                    }
                    launch!(
                        self,
                        attention::cached,
                        CubeCount::Static(heads, window.len() as u32, 1),
                        line(),
                        self.shares(qkv, &window, shape.batch),
                        self.shares(keys, &window, shape.batch),
                        self.shares(values, &window, shape.batch),
                        self.shares(out, &window, shape.batch),
                        shape.heads(window.start),
                        shape.size,
                        self.properties().sums,
                        self.stored(qkv),
                    );
                }
            }
            _ => misplaced(self.op),
        }
    }

    fn attention_shape(&self, out: TensorId, heads: u32) -> Shape {
        let shape = &self.listing.get(out).shape;
        let (seq, heads) = (shape[1] as usize, heads as usize);
        let size = shape[2] as usize / heads;
        Shape { batch: shape[0] as usize, seq, used: self.used(out).min(seq), heads, size }
    }

    fn tiles(&self, shape: Shape) -> Tiles {
        let tiles = Tiles::new(shape.size, self.properties().shared_bytes);
        tiles.expect("the target was asked before the program was planned")
    }
}

fn square(tiles: Tiles) -> CubeDim {
    CubeDim::new_2d(tiles.side() as u32, tiles.side() as u32)
}
