//! Causal attention of every head, tiled in shared memory.
//!
//! ```text
//! p = softmax(q · kᵀ / √D) over keys not after the query;  out = drop(p) · v
//! ```
//!
//! Queries, keys and values are three tensors, or one with rows of q | k | v. A joined tensor is
//! passed as the queries, without keys and values. Query head h has channels h·D … (h+1)·D; groups
//! of query heads share a key/value head.
//!
//! The forward takes one tile of queries over all tiles of keys with a running maximum and sum, and
//! keeps the log-sum-exp of each row. The backward recomputes the probabilities from it: one kernel
//! takes a tile of keys over the queries of all heads of its group, another a tile of queries over
//! the keys. No two cubes add to the same number, so the order of every sum is fixed.
//!
//! Kernels are compiled for few widths: a head is padded with zeros to the next one. These kernels
//! multiply in float32, for every type; `tensor_attention` uses tensor cores.

use cubecl::prelude::*;

use super::{
    mask::{DropoutMask, factor},
    math::{SumOrder, UNITS, max_of_cube, sum_of_cube},
};

/// Lower than any score.
pub(super) const LEAST: f32 = -1e30;

/// The channels that a head of `size` is padded to: few widths, so that few kernels are compiled.
pub(crate) const fn padded(size: usize) -> usize {
    size.next_multiple_of(if size <= 128 { 32 } else { 64 })
}

/// Shared memory that every card since NVIDIA's Turing has. No tiles are larger, so that kernels do
/// not depend on the card.
const MOST_SHARED_BYTES: usize = 64 << 10;

/// How a cube splits its work, which depends on the head's width and the device's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttentionTiles {
    /// Queries and keys of a tile.
    pub(crate) rows: usize,
    /// Channels of a padded head.
    pub(crate) width: usize,
}

impl AttentionTiles {
    /// The largest tiles that fit into `shared_bytes`; `None` if the head is too wide.
    pub(crate) fn new(size: usize, shared_bytes: usize) -> Option<Self> {
        let (width, shared_bytes) = (padded(size), shared_bytes.min(MOST_SHARED_BYTES));
        let tiles = [32, 16, 8, 4].map(|rows| Self { rows, width });
        tiles.into_iter().find(|tiles| tiles.shared_floats() * 4 <= shared_bytes)
    }

    /// The shared memory of the backward, which needs more than the forward: four tiles of rows,
    /// two of scores.
    fn shared_floats(self) -> usize {
        4 * self.rows * self.pitch() + 2 * self.rows * (self.rows + 1)
    }

    /// Units along each side of a cube.
    pub(crate) fn side(self) -> usize {
        self.rows.min(16)
    }

    /// Rows of a unit.
    fn per(self) -> usize {
        self.rows / self.side()
    }

    /// Channels of a unit.
    fn columns(self) -> usize {
        self.width / self.side()
    }

    /// Distance between rows in shared memory.
    fn pitch(self) -> usize {
        self.width + 1
    }
}

/// The sequences of one launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct AttentionBatch {
    /// Rows of a sequence in memory.
    pub(crate) seq: usize,
    /// Rows in use.
    pub(crate) used: usize,
    /// Query heads.
    pub(crate) heads: usize,
    /// Query heads that share a key/value head.
    pub(crate) group: usize,
    /// Channels of a head.
    pub(crate) size: usize,
    /// Distance between rows of queries.
    pub(crate) query_stride: usize,
    /// Distance between rows of keys and of values.
    pub(crate) kv_stride: usize,
    /// The first element of keys in their tensor.
    pub(crate) keys_at: usize,
    /// The first element of values in their tensor.
    pub(crate) values_at: usize,
    /// `1 / √D`
    pub(crate) scale: f32,
    /// Sequences of the micro-batch before these.
    pub(crate) first_sequence: usize,
}

/// Loads rows from `row` on of one head; rows that are not in use and padding are zero.
#[cube]
fn load<E: Float>(
    tile: &mut Shared<[f32]>,
    from: &[E],
    first: usize,
    stride: usize,
    row: usize,
    of: &AttentionBatch,
    #[comptime] tiles: AttentionTiles,
) {
    let (width, pitch) = comptime!((tiles.width, tiles.pitch()));
    let mut i = UNIT_POS as usize;
    while i < comptime!(tiles.rows * tiles.width) {
        let (r, d) = (i / width, i % width);
        let mut value = 0.0f32;
        if row + r < of.used && d < of.size {
            value = f32::cast_from(from[first + (row + r) * stride + d]);
        }
        tile[r * pitch + d] = value;
        i += CUBE_DIM as usize;
    }
}

/// Loads rows from `row` on of keys or values, from their own tensor or the joined one.
#[cube]
fn load_kv<E: Float>(
    tile: &mut Shared<[f32]>,
    joined: &[E],
    own: &ComptimeOption<Box<[E]>>,
    first: usize,
    of: &AttentionBatch,
    row: usize,
    #[comptime] tiles: AttentionTiles,
) {
    #[comptime]
    match own {
        ComptimeOption::Some(own) => {
            load::<E>(tile, own, first, of.kv_stride, row, of, tiles);
        }
        ComptimeOption::None => {
            load::<E>(tile, joined, first, of.kv_stride, row, of, tiles);
        }
    }
}

/// The product of a row of one tile with a row of another.
#[cube]
fn dot(
    a: &Shared<[f32]>,
    b: &Shared<[f32]>,
    row_a: usize,
    row_b: usize,
    #[comptime] tiles: AttentionTiles,
) -> f32 {
    let pitch = comptime!(tiles.pitch());
    let mut sum = 0.0f32;
    for d in 0..comptime!(tiles.width) {
        sum = fma(a[row_a * pitch + d], b[row_b * pitch + d], sum);
    }
    sum
}

/// The dropout factor of the probability of (i, j).
#[cube]
pub(super) fn kept(
    mask: &ComptimeOption<DropoutMask>,
    of: &AttentionBatch,
    sequence: usize,
    head: usize,
    i: usize,
    j: usize,
) -> f32 {
    #[comptime]
    let value = match mask {
        ComptimeOption::Some(mask) => {
            factor(mask, of.first_sequence + sequence, (head * of.used + i) * of.used + j)
        }
        ComptimeOption::None => 1.0f32.runtime(),
    };
    value
}

/// `out` (B, T, H·D) and `lse` (B, H, T). Cubes: query tiles, query heads, sequences.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn forward<E: Float>(
    queries: &[E],
    keys: ComptimeOption<Box<[E]>>,
    values: ComptimeOption<Box<[E]>>,
    out: &mut [E],
    lse: &mut [f32],
    mask: ComptimeOption<DropoutMask>,
    of: AttentionBatch,
    #[comptime] tiles: AttentionTiles,
    #[define(E)] _stored: ElemType,
) {
    let (rows, side, per) = comptime!((tiles.rows, tiles.side(), tiles.per()));
    let (pitch, columns) = comptime!((tiles.pitch(), tiles.columns()));
    let scores_pitch = comptime!(rows + 1);
    let mut q = Shared::<[f32]>::new_slice(comptime!(rows * pitch));
    let mut kv = Shared::<[f32]>::new_slice(comptime!(rows * pitch));
    let mut scores = Shared::<[f32]>::new_slice(comptime!(rows * (rows + 1)));
    let mut partial = Shared::<[f32]>::new_slice(comptime!(rows * (side + 1)));
    let partial_pitch = comptime!(side + 1);

    let first_query = CUBE_POS_X as usize * rows;
    let (head, sequence) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let (y, x) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    let start = sequence * of.seq * of.query_stride + head * of.size;
    load::<E>(&mut q, queries, start, of.query_stride, first_query, &of, tiles);

    let mut sums = Array::<f32>::new(comptime!(per * columns));
    let mut most = Array::<f32>::new(per);
    let mut total = Array::<f32>::new(per);
    #[unroll]
    for i in 0..per {
        most[i] = LEAST;
        total[i] = 0.0;
        #[unroll]
        for c in 0..columns {
            sums[i * columns + c] = 0.0;
        }
    }

    let end = min(first_query + rows, of.used);
    let mut first_key = 0usize;
    while first_key < end {
        // Recomputed for each tile, because keeping it would take registers that the sums need.
        let row_kv = CUBE_POS_Z as usize * of.seq * of.kv_stride;
        let start_kv = row_kv + CUBE_POS_Y as usize / of.group * of.size;
        load_kv::<E>(&mut kv, queries, &keys, start_kv + of.keys_at, &of, first_key, tiles);
        sync_cube();
        #[unroll]
        for i in 0..per {
            let row = y + i * side;
            let mut largest = LEAST.runtime();
            #[unroll]
            for j in 0..per {
                let column = x + j * side;
                let key = first_key + column;
                let mut score = dot(&q, &kv, row, column, tiles) * of.scale;
                if key > first_query + row || key >= of.used {
                    score = LEAST.runtime();
                }
                scores[row * scores_pitch + column] = score;
                largest = max(largest, score);
            }
            partial[row * partial_pitch + x] = largest;
        }
        sync_cube();
        // The keys have been used; values overwrite them.
        load_kv::<E>(&mut kv, queries, &values, start_kv + of.values_at, &of, first_key, tiles);
        #[unroll]
        for i in 0..per {
            let row = y + i * side;
            let mut largest = most[i];
            #[unroll]
            for other in 0..side {
                largest = max(largest, partial[row * partial_pitch + other]);
            }
            let correction = (most[i] - largest).exp();
            most[i] = largest;
            total[i] *= correction;
            #[unroll]
            for c in 0..columns {
                sums[i * columns + c] *= correction;
            }
        }
        sync_cube();
        #[unroll]
        for i in 0..per {
            let row = y + i * side;
            let mut sum = 0.0f32;
            #[unroll]
            for j in 0..per {
                let column = x + j * side;
                let at = row * scores_pitch + column;
                let p = (scores[at] - most[i]).exp();
                sum += p;
                let (query, key) = (first_query + row, first_key + column);
                scores[at] = p * kept(&mask, &of, sequence, head, query, key);
            }
            partial[row * partial_pitch + x] = sum;
        }
        sync_cube();
        #[unroll]
        for i in 0..per {
            let row = y + i * side;
            #[unroll]
            for other in 0..side {
                total[i] += partial[row * partial_pitch + other];
            }
            for key in 0..rows {
                let p = scores[row * scores_pitch + key];
                #[unroll]
                for c in 0..columns {
                    let value = kv[key * pitch + x + c * side];
                    sums[i * columns + c] = fma(p, value, sums[i * columns + c]);
                }
            }
        }
        sync_cube();
        first_key += rows;
    }

    #[unroll]
    for i in 0..per {
        let query = first_query + y + i * side;
        if query < of.used {
            #[unroll]
            for c in 0..columns {
                let d = x + c * side;
                if d < of.size {
                    let at = ((sequence * of.seq + query) * of.heads + head) * of.size + d;
                    out[at] = E::cast_from(sums[i * columns + c] / total[i]);
                }
            }
            if x == 0 {
                lse[(sequence * of.heads + head) * of.seq + query] = most[i] + total[i].ln();
            }
        }
    }
}

/// `along[b, h, i] = Σ out · d_out` over the channels of a head: the sum of `p · d_p` of a row.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn along<E: Float>(
    out: &[E],
    d_out: &[E],
    along: &mut [f32],
    of: AttentionBatch,
    count: usize,
    #[define(E)] _stored: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let (query, head) = (i % of.seq, i / of.seq % of.heads);
        let sequence = i / of.seq / of.heads;
        let first = ((sequence * of.seq + query) * of.heads + head) * of.size;
        let mut sum = 0.0f32;
        for d in 0..of.size {
            sum = fma(f32::cast_from(out[first + d]), f32::cast_from(d_out[first + d]), sum);
        }
        along[i] = sum;
    }
}

/// The shared memory of a backward cube: four tiles of rows and two of scores.
#[derive(CubeType)]
struct BackwardShared {
    q: Shared<[f32]>,
    k: Shared<[f32]>,
    v: Shared<[f32]>,
    d_out: Shared<[f32]>,
    /// The weights of the values.
    weights: Shared<[f32]>,
    d_scores: Shared<[f32]>,
}

#[cube]
fn held(#[comptime] tiles: AttentionTiles) -> BackwardShared {
    let rows = comptime!(tiles.rows * tiles.pitch());
    let scores = comptime!(tiles.rows * (tiles.rows + 1));
    BackwardShared {
        q: Shared::<[f32]>::new_slice(rows),
        k: Shared::<[f32]>::new_slice(rows),
        v: Shared::<[f32]>::new_slice(rows),
        d_out: Shared::<[f32]>::new_slice(rows),
        weights: Shared::<[f32]>::new_slice(scores),
        d_scores: Shared::<[f32]>::new_slice(scores),
    }
}

/// Probabilities and gradients of scores of a tile of queries of `head` with a tile of keys.
#[cube]
fn gradients_of_scores(
    held: &mut BackwardShared,
    lse: &[f32],
    along: &[f32],
    mask: &ComptimeOption<DropoutMask>,
    of: &AttentionBatch,
    head: usize,
    first_query: usize,
    first_key: usize,
    #[comptime] tiles: AttentionTiles,
) {
    let (side, per) = comptime!((tiles.side(), tiles.per()));
    let scores_pitch = comptime!(tiles.rows + 1);
    let sequence = CUBE_POS_Z as usize;
    let (y, x) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    #[unroll]
    for i in 0..per {
        let row = y + i * side;
        let query = first_query + row;
        #[unroll]
        for j in 0..per {
            let column = x + j * side;
            let key = first_key + column;
            let mut weight = 0.0f32;
            let mut d_score = 0.0f32;
            if key <= query && query < of.used {
                let at = (sequence * of.heads + head) * of.seq + query;
                let score = dot(&held.q, &held.k, row, column, tiles) * of.scale;
                let p = (score - lse[at]).exp();
                let factor = kept(mask, of, sequence, head, query, key);
                let d_p = dot(&held.d_out, &held.v, row, column, tiles) * factor;
                weight = p * factor;
                d_score = p * (d_p - along[at]) * of.scale;
            }
            held.weights[row * scores_pitch + column] = weight;
            held.d_scores[row * scores_pitch + column] = d_score;
        }
    }
}

/// Gradients of keys and values; both are in `d_keys` if they are joined. Cubes: key tiles,
/// key/value heads, sequences.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn backward_keys<E: Float>(
    queries: &[E],
    keys: ComptimeOption<Box<[E]>>,
    values: ComptimeOption<Box<[E]>>,
    lse: &[f32],
    along: &[f32],
    d_out: &[E],
    d_keys: &mut [E],
    mut d_values: ComptimeOption<Box<[E]>>,
    mask: ComptimeOption<DropoutMask>,
    of: AttentionBatch,
    #[comptime] tiles: AttentionTiles,
    #[define(E)] _stored: ElemType,
) {
    let (rows, side, per) = comptime!((tiles.rows, tiles.side(), tiles.per()));
    let (pitch, columns) = comptime!((tiles.pitch(), tiles.columns()));
    let scores_pitch = comptime!(rows + 1);
    let mut held = held(tiles);
    let first_key = CUBE_POS_X as usize * rows;
    let (kv_head, sequence) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let (y, x) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    let start_kv = sequence * of.seq * of.kv_stride + kv_head * of.size;
    let (at_k, at_v) = (start_kv + of.keys_at, start_kv + of.values_at);
    load_kv::<E>(&mut held.k, queries, &keys, at_k, &of, first_key, tiles);
    load_kv::<E>(&mut held.v, queries, &values, at_v, &of, first_key, tiles);
    let mut d_k = Array::<f32>::new(comptime!(per * columns));
    let mut d_v = Array::<f32>::new(comptime!(per * columns));
    #[unroll]
    for i in 0..per * columns {
        d_k[i] = 0.0;
        d_v[i] = 0.0;
    }
    let stride_out = of.heads * of.size;
    for head in kv_head * of.group..(kv_head + 1) * of.group {
        let start = sequence * of.seq * of.query_stride + head * of.size;
        let start_out = sequence * of.seq * stride_out + head * of.size;
        let mut first_query = first_key;
        while first_query < of.used {
            load::<E>(&mut held.q, queries, start, of.query_stride, first_query, &of, tiles);
            load::<E>(&mut held.d_out, d_out, start_out, stride_out, first_query, &of, tiles);
            sync_cube();
            gradients_of_scores(
                &mut held,
                lse,
                along,
                &mask,
                &of,
                head,
                first_query,
                first_key,
                tiles,
            );
            sync_cube();
            #[unroll]
            for i in 0..per {
                let key = y + i * side;
                for query in 0..rows {
                    let weight = held.weights[query * scores_pitch + key];
                    let d_score = held.d_scores[query * scores_pitch + key];
                    #[unroll]
                    for c in 0..columns {
                        let (at, d) = (i * columns + c, x + c * side);
                        d_v[at] = fma(weight, held.d_out[query * pitch + d], d_v[at]);
                        d_k[at] = fma(d_score, held.q[query * pitch + d], d_k[at]);
                    }
                }
            }
            sync_cube();
            first_query += rows;
        }
    }
    #[unroll]
    for i in 0..per {
        let key = first_key + y + i * side;
        #[unroll]
        for c in 0..columns {
            let d = x + c * side;
            if key < of.used && d < of.size {
                let at = key * of.kv_stride + d;
                d_keys[at_k + at] = E::cast_from(d_k[i * columns + c]);
                let d_value = E::cast_from(d_v[i * columns + c]);
                #[comptime]
                match &mut d_values {
                    ComptimeOption::Some(d_values) => {
                        d_values[at_v + at] = d_value;
                    }
                    ComptimeOption::None => {
                        d_keys[at_v + at] = d_value;
                    }
                }
            }
        }
    }
}

/// Gradients of queries. Cubes: query tiles, query heads, sequences.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn backward_queries<E: Float>(
    queries: &[E],
    keys: ComptimeOption<Box<[E]>>,
    values: ComptimeOption<Box<[E]>>,
    lse: &[f32],
    along: &[f32],
    d_out: &[E],
    d_queries: &mut [E],
    mask: ComptimeOption<DropoutMask>,
    of: AttentionBatch,
    #[comptime] tiles: AttentionTiles,
    #[define(E)] _stored: ElemType,
) {
    let (rows, side, per) = comptime!((tiles.rows, tiles.side(), tiles.per()));
    let (pitch, columns) = comptime!((tiles.pitch(), tiles.columns()));
    let scores_pitch = comptime!(rows + 1);
    let mut held = held(tiles);
    let first_query = CUBE_POS_X as usize * rows;
    let (head, sequence) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let (y, x) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    let start = sequence * of.seq * of.query_stride + head * of.size;
    let start_kv = sequence * of.seq * of.kv_stride + head / of.group * of.size;
    let (at_k, at_v) = (start_kv + of.keys_at, start_kv + of.values_at);
    let stride_out = of.heads * of.size;
    let start_out = sequence * of.seq * stride_out + head * of.size;
    load::<E>(&mut held.q, queries, start, of.query_stride, first_query, &of, tiles);
    load::<E>(&mut held.d_out, d_out, start_out, stride_out, first_query, &of, tiles);
    let mut d_q = Array::<f32>::new(comptime!(per * columns));
    #[unroll]
    for i in 0..per * columns {
        d_q[i] = 0.0;
    }
    let end = min(first_query + rows, of.used);
    let mut first_key = 0usize;
    while first_key < end {
        load_kv::<E>(&mut held.k, queries, &keys, at_k, &of, first_key, tiles);
        load_kv::<E>(&mut held.v, queries, &values, at_v, &of, first_key, tiles);
        sync_cube();
        gradients_of_scores(&mut held, lse, along, &mask, &of, head, first_query, first_key, tiles);
        sync_cube();
        #[unroll]
        for i in 0..per {
            let query = y + i * side;
            for key in 0..rows {
                let d_score = held.d_scores[query * scores_pitch + key];
                #[unroll]
                for c in 0..columns {
                    let (at, d) = (i * columns + c, x + c * side);
                    d_q[at] = fma(d_score, held.k[key * pitch + d], d_q[at]);
                }
            }
        }
        sync_cube();
        first_key += rows;
    }
    #[unroll]
    for i in 0..per {
        let query = first_query + y + i * side;
        #[unroll]
        for c in 0..columns {
            let d = x + c * side;
            if query < of.used && d < of.size {
                d_queries[start + query * of.query_stride + d] = E::cast_from(d_q[i * columns + c]);
            }
        }
    }
}

/// One query of each sequence with `of.used` rows of the cache; a unit has up to `columns`
/// channels. Cubes: query heads, sequences.
#[cube(launch_unchecked, create_dummy_kernel)]
pub(crate) fn cached<E: Float>(
    queries: &[E],
    keys: &[E],
    values: &[E],
    out: &mut [E],
    of: AttentionBatch,
    #[comptime] columns: usize,
    #[comptime] sums: SumOrder,
    #[define(E)] _stored: ElemType,
) {
    let units = comptime!(UNITS as usize);
    let mut weights = Shared::<[f32]>::new_slice(units);
    let (head, sequence) = (CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let unit = UNIT_POS as usize;
    let query = sequence * of.query_stride + head * of.size;
    let start = sequence * of.seq * of.kv_stride + head / of.group * of.size;
    let mut weighted = Array::<f32>::new(columns);
    #[unroll]
    for c in 0..columns {
        weighted[c] = 0.0;
    }
    let mut most = LEAST.runtime();
    let mut total = 0.0f32;
    let mut first_key = 0usize;
    while first_key < of.used {
        let key = first_key + unit;
        let mut score = LEAST.runtime();
        if key < of.used {
            let mut sum = 0.0f32;
            for d in 0..of.size {
                let q = f32::cast_from(queries[query + d]);
                sum = fma(q, f32::cast_from(keys[start + key * of.kv_stride + d]), sum);
            }
            score = sum * of.scale;
        }
        let largest = max(most, max_of_cube(score, sums));
        let correction = (most - largest).exp();
        let p = (score - largest).exp();
        total = fma(total, correction, sum_of_cube(p, sums));
        most = largest;
        weights[unit] = p;
        sync_cube();
        let end = min(units, of.used - first_key);
        #[unroll]
        for c in 0..columns {
            let d = unit + c * units;
            if d < of.size {
                weighted[c] *= correction;
                for j in 0..end {
                    let value = f32::cast_from(values[start + (first_key + j) * of.kv_stride + d]);
                    weighted[c] = fma(weights[j], value, weighted[c]);
                }
            }
        }
        sync_cube();
        first_key += units;
    }
    #[unroll]
    for c in 0..columns {
        let d = unit + c * units;
        if d < of.size {
            out[(sequence * of.heads + head) * of.size + d] = E::cast_from(weighted[c] / total);
        }
    }
}
