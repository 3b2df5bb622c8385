//! Attention: forward, backward, and with a cache.

use std::ops::Range;

use cubecl::prelude::{ComptimeOptionArgs, CubeCount, CubeDim, CubePrimitive};
use fitgpt_program::{Heads, Op, Qkv, units::TensorId};

use super::{F32, OpLaunch, OptionalMask, elements, launch, line, misplaced, optional};
use crate::kernels::{
    attention::{self, AttentionBatchLaunch, AttentionTiles},
    elementwise,
    math::UNITS,
    product::ProductUnits,
    tensor_attention::{self, TENSOR_UNITS, TensorTiles},
};

/// The units that multiply, with their tiles.
#[derive(Clone, Copy)]
enum AttentionUnits {
    /// Each unit separately, in float32.
    Units(AttentionTiles),
    /// Tensor cores.
    Tensor(TensorTiles),
}

impl AttentionUnits {
    /// Rows of a cube.
    fn rows(self) -> usize {
        match self {
            Self::Units(tiles) => tiles.rows,
            Self::Tensor(_) => TensorTiles::rows(),
        }
    }

    fn dim(self) -> CubeDim {
        match self {
            Self::Units(tiles) => CubeDim::new_2d(tiles.side() as u32, tiles.side() as u32),
            Self::Tensor(_) => CubeDim::new_1d(TENSOR_UNITS),
        }
    }
}

/// Launches a kernel of `attention`, or the kernel of `tensor_attention` with the same operands.
macro_rules! launch_on {
    ($units:expr, $call:expr, $kernel:ident, $count:expr, [$($argument:expr),* $(,)?], $stored:expr $(,)?) => {
        match $units {
            AttentionUnits::Units(tiles) => {
                launch!($call, attention::$kernel, $count, $units.dim(), $($argument),*, tiles, $stored)
            }
            AttentionUnits::Tensor(tiles) => {
                launch!(
                    $call, tensor_attention::$kernel, $count, $units.dim(), $($argument),*, tiles, $stored
                )
            }
        }
    };
}

/// The sizes of an attention op.
#[derive(Clone, Copy)]
struct AttentionSizes {
    batch: usize,
    seq: usize,
    used: usize,
    heads: Heads,
    rows: QkvStrides,
}

/// The layout of queries, keys and values in their tensors.
#[derive(Clone, Copy)]
struct QkvStrides {
    query_stride: usize,
    kv_stride: usize,
    keys_at: usize,
    values_at: usize,
}

impl QkvStrides {
    fn of(qkv: Qkv, heads: Heads) -> Self {
        let [queries, keys] = [query_channels(heads), kv_channels(heads)];
        let joined = queries + 2 * keys;
        match qkv {
            Qkv::Joined(_) => Self {
                query_stride: joined,
                kv_stride: joined,
                keys_at: queries,
                values_at: queries + keys,
            },
            Qkv::Split { .. } => {
                Self { query_stride: queries, kv_stride: keys, keys_at: 0, values_at: 0 }
            }
        }
    }
}

fn query_channels(heads: Heads) -> usize {
    (heads.query * heads.channels) as usize
}

fn kv_channels(heads: Heads) -> usize {
    (heads.kv * heads.channels) as usize
}

/// The tensors of keys and of values, if they are not in the queries' tensor.
fn keys_and_values(qkv: Qkv) -> [Option<TensorId>; 2] {
    match qkv {
        Qkv::Joined(_) => [None, None],
        Qkv::Split { k, v, .. } => [Some(k), Some(v)],
    }
}

impl AttentionSizes {
    fn size(self) -> usize {
        self.heads.channels as usize
    }

    fn batch(self, first_sequence: usize) -> AttentionBatchLaunch {
        let QkvStrides { query_stride, kv_stride, keys_at, values_at } = self.rows;
        let Heads { query, kv, channels } = self.heads;
        let scale = (1.0 / f64::from(channels).sqrt()) as f32;
        AttentionBatchLaunch::new(
            self.seq,
            self.used,
            query as usize,
            (query / kv) as usize,
            channels as usize,
            query_stride,
            kv_stride,
            keys_at,
            values_at,
            scale,
            first_sequence,
        )
    }

    /// One cube for each tile of rows, head and sequence.
    fn cubes(self, units: AttentionUnits, heads: u32, sequences: usize) -> CubeCount {
        let x = self.used.div_ceil(units.rows()).max(1);
        CubeCount::Static(x as u32, heads, sequences as u32)
    }
}

impl OpLaunch<'_> {
    #[expect(clippy::too_many_lines, reason = "a table: the launches of every op")]
    pub(super) fn attention(&self) {
        match *self.op {
            Op::Attention { qkv, out, lse, heads, ref dropout } => {
                let shape = self.attention_shape(qkv, out, heads);
                let units = self.attention_units(shape, out);
                let keys = dropout.as_ref().map(|dropout| self.keys(dropout, out));
                let [k, v] = keys_and_values(qkv);
                for window in self.sequences(shape, qkv, [out, lse]) {
                    launch_on!(
                        units,
                        self,
                        forward,
                        shape.cubes(units, heads.query, window.len()),
                        [
                            self.shares(qkv.queries(), &window, shape.batch),
                            self.optional_shares(k, &window, shape.batch),
                            self.optional_shares(v, &window, shape.batch),
                            self.shares(out, &window, shape.batch),
                            self.shares(lse, &window, shape.batch),
                            OptionalMask::from(keys.as_ref().map(|keys| keys())),
                            shape.batch(window.start),
                        ],
                        self.stored(out),
                    );
                }
            }
            Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, ref dropout } => {
                let shape = self.attention_shape(qkv, out, heads);
                let units = self.attention_units(shape, out);
                let keys = dropout.as_ref().map(|dropout| self.keys(dropout, out));
                let [k, v] = keys_and_values(qkv);
                let [d_k, d_v] = keys_and_values(d_qkv);
                for window in self.sequences(shape, qkv, [out, lse]) {
                    let rows = window.len() * heads.query as usize * shape.seq;
                    launch!(
                        self,
                        attention::along,
                        elements(rows),
                        line(),
                        self.shares(out, &window, shape.batch),
                        self.shares(d_out, &window, shape.batch),
                        self.floats(),
                        shape.batch(window.start),
                        rows,
                        self.stored(out),
                    );
                    launch_on!(
                        units,
                        self,
                        backward_keys,
                        shape.cubes(units, heads.kv, window.len()),
                        [
                            self.shares(qkv.queries(), &window, shape.batch),
                            self.optional_shares(k, &window, shape.batch),
                            self.optional_shares(v, &window, shape.batch),
                            self.shares(lse, &window, shape.batch),
                            self.floats(),
                            self.shares(d_out, &window, shape.batch),
                            self.shares(d_k.unwrap_or(d_qkv.queries()), &window, shape.batch),
                            self.optional_shares(d_v, &window, shape.batch),
                            OptionalMask::from(keys.as_ref().map(|keys| keys())),
                            shape.batch(window.start),
                        ],
                        self.stored(out),
                    );
                    launch_on!(
                        units,
                        self,
                        backward_queries,
                        shape.cubes(units, heads.query, window.len()),
                        [
                            self.shares(qkv.queries(), &window, shape.batch),
                            self.optional_shares(k, &window, shape.batch),
                            self.optional_shares(v, &window, shape.batch),
                            self.shares(lse, &window, shape.batch),
                            self.floats(),
                            self.shares(d_out, &window, shape.batch),
                            self.shares(d_qkv.queries(), &window, shape.batch),
                            OptionalMask::from(keys.as_ref().map(|keys| keys())),
                            shape.batch(window.start),
                        ],
                        self.stored(out),
                    );
                }
            }
            Op::StoreCache { qkv, keys, values, heads } => {
                let channels = kv_channels(heads);
                let sequences = self.listing.get(keys).shape[0] as usize;
                let row = self.arguments.cache_row as usize;
                let count = self.used(qkv.queries()) * channels;
                let rows = QkvStrides::of(qkv, heads);
                let [k, v] = keys_and_values(qkv);
                for (from, at, cache) in [(k, rows.keys_at, keys), (v, rows.values_at, values)] {
                    let (cache_row, first) = self.part(cache, &(row..row + 1), sequences);
                    launch!(
                        self,
                        elementwise::columns,
                        elements(count),
                        line(),
                        self.whole(from.unwrap_or(qkv.queries())),
                        cache_row,
                        count,
                        channels,
                        rows.kv_stride,
                        at,
                        first,
                        channels,
                        self.stored(keys),
                    );
                }
            }
            Op::CachedAttention { qkv, keys, values, out, heads } => {
                let length = self.arguments.length as usize;
                let cache = &self.listing.get(keys).shape;
                let channels = kv_channels(heads);
                let rows = QkvStrides::of(qkv, heads);
                let shape = AttentionSizes {
                    batch: cache[0] as usize,
                    seq: cache[1] as usize,
                    used: length + 1,
                    heads,
                    // Keys and values are read from the cache.
                    rows: QkvStrides { kv_stride: channels, keys_at: 0, values_at: 0, ..rows },
                };
                assert!(length < shape.seq, "the cache is full");
                let [k, v] = keys_and_values(qkv);
                for window in self.sequences(shape, qkv, [keys, out]) {
                    let new = [(k, rows.keys_at, keys), (v, rows.values_at, values)];
                    for (from, at, cache) in new {
                        let count = window.len() * channels;
                        launch!(
                            self,
                            elementwise::columns,
                            elements(count),
                            line(),
                            self.shares(from.unwrap_or(qkv.queries()), &window, shape.batch),
                            self.shares(cache, &window, shape.batch),
                            count,
                            channels,
                            rows.kv_stride,
                            at,
                            length * channels,
                            shape.seq * channels,
                            self.stored(keys),
                        );
                    }
                    launch!(
                        self,
                        attention::cached,
                        CubeCount::Static(heads.query, window.len() as u32, 1),
                        line(),
                        self.shares(qkv.queries(), &window, shape.batch),
                        self.shares(keys, &window, shape.batch),
                        self.shares(values, &window, shape.batch),
                        self.shares(out, &window, shape.batch),
                        shape.batch(window.start),
                        shape.size().div_ceil(UNITS as usize),
                        self.properties().sums,
                        self.stored(keys),
                    );
                }
            }
            _ => misplaced(self.op),
        }
    }

    fn attention_shape(&self, qkv: Qkv, out: TensorId, heads: Heads) -> AttentionSizes {
        let shape = &self.listing.get(out).shape;
        let (batch, seq) = (shape[0] as usize, shape[1] as usize);
        AttentionSizes {
            batch,
            seq,
            used: self.used(out).min(seq),
            heads,
            rows: QkvStrides::of(qkv, heads),
        }
    }

    /// Windows of sequences of `qkv` and `others`.
    fn sequences(
        &self,
        shape: AttentionSizes,
        qkv: Qkv,
        others: [TensorId; 2],
    ) -> Vec<Range<usize>> {
        let tensors = qkv.tensors().chain(others);
        let units: Vec<_> = tensors.map(|id| self.share_bytes(id, shape.batch)).collect();
        self.windows(shape.batch, &units)
    }

    fn optional_shares<E: CubePrimitive>(
        &self,
        id: Option<TensorId>,
        shares: &Range<usize>,
        count: usize,
    ) -> ComptimeOptionArgs<Box<[E]>> {
        optional(id.map(|id| self.shares(id, shares, count)))
    }

    /// Tensor cores if they multiply the other products of this program and the head is not too
    /// wide for them. Depends on the device and the model, never on the rows, so that recomputing
    /// and splitting use the same units.
    fn attention_units(&self, shape: AttentionSizes, out: TensorId) -> AttentionUnits {
        let shared_bytes = self.properties().shared_bytes;
        let has_tensor = self.properties().core == ProductUnits::Tensor && self.stored(out) != F32;
        let tensor = has_tensor.then(|| TensorTiles::new(shape.size(), shared_bytes)).flatten();
        tensor.map_or_else(
            || {
                let tiles = AttentionTiles::new(shape.size(), shared_bytes);
                AttentionUnits::Units(tiles.expect("the target was checked before planning"))
            },
            AttentionUnits::Tensor,
        )
    }
}
