//! Causal attention on tensor cores, for activations of 16 bits.
//!
//! The same function as `attention`, with the same operands. Factors of products have the
//! activations' type, as stored; probabilities and gradients of scores are rounded to it before
//! they are multiplied, as PyTorch's fused attention does. Sums, the softmax and its statistics
//! are float32.
//!
//! A cube of four planes has 64 rows of its own, 16 for each plane, and goes over the rows of the
//! other side 32 at a time: queries over keys in the forward and for the gradient of queries, keys
//! over the queries of all heads of their group for the gradients of keys and values. Tiles in
//! which every key comes after every query are skipped. Each plane multiplies fragments of 16 × 16
//! and keeps its results in registers. The layout of a fragment in registers is unspecified, so
//! scores are copied through shared memory, in which two units share a row.
//!
//! No two cubes write the same number, and every sum has a fixed order.
//!
//! When a row's maximum grows, its results are rescaled through shared memory, which is rare after
//! the first tiles. The gradients of a head wider than 128 channels do not fit into registers. The
//! backward has two kernels, as with the ordinary units: without atomics the gradient of queries
//! needs its own pass, which costs two of seven products. `mma` instructions with known register
//! layouts would avoid the copy through shared memory, but need inline assembly, which the
//! simulated card cannot execute.

use cubecl::{cmma, prelude::*};

use super::{
    attention::{AttentionBatch, LEAST, kept, padded},
    mask::DropoutMask,
};

/// Rows and columns of a fragment.
const FRAGMENT: usize = 16;
/// Units of a plane.
const PLANE: usize = 32;
/// Planes of a cube.
const PLANES: usize = 4;
/// Units of a cube.
pub(crate) const TENSOR_UNITS: u32 = (PLANES * PLANE) as u32;
/// Rows of a cube.
const OWN: usize = PLANES * FRAGMENT;
/// Rows of the other side that are in shared memory at a time.
const OTHERS: usize = 32;
/// Padding after each row of 16-bit numbers, to use different banks.
const GAP: usize = 8;
/// Distance between rows of scores.
const SCORES_PITCH: usize = OTHERS + 4;
/// Distance between rows of weights, which are rounded scores.
const WEIGHTS_PITCH: usize = OTHERS + GAP;
/// Scores of a unit: half of a row.
const SHARE: usize = OTHERS / 2;
/// The widest head; the gradients of wider ones do not fit into registers.
const WIDEST: usize = 128;

/// How wide the padded heads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TensorTiles {
    width: usize,
}

impl TensorTiles {
    /// For heads of `size` channels; `None` if their tiles do not fit into `shared_bytes` or their
    /// results into registers.
    pub(crate) fn new(size: usize, shared_bytes: usize) -> Option<Self> {
        let tiles = Self { width: padded(size) };
        (tiles.width <= WIDEST && tiles.shared_bytes() <= shared_bytes).then_some(tiles)
    }

    /// The shared memory of the backward, which needs more than the forward: two tiles of each
    /// side, scores, weights, and two statistics of each query.
    const fn shared_bytes(self) -> usize {
        let halves = 2 * (OWN + OTHERS) * self.pitch() + OWN * WEIGHTS_PITCH;
        2 * halves + 4 * (OWN * SCORES_PITCH + 2 * OTHERS)
    }

    /// Rows of a cube.
    pub(crate) const fn rows() -> usize {
        OWN
    }

    /// Distance between rows of a head in shared memory.
    const fn pitch(self) -> usize {
        self.width + GAP
    }

    /// Fragments next to each other in a head.
    const fn fragments(self) -> usize {
        self.width / FRAGMENT
    }
}

/// A tile of 16-bit numbers. Tensor cores need an alignment of 32 bytes.
#[cube]
fn tile<E: Float>(#[comptime] rows: usize, #[comptime] pitch: usize) -> Shared<[E]> {
    Shared::<[E]>::new_aligned_slice(comptime!(rows * pitch), 32usize)
}

#[cube]
fn scores_tile() -> Shared<[f32]> {
    Shared::<[f32]>::new_aligned_slice(comptime!(OWN * SCORES_PITCH), 32usize)
}

/// Loads `rows` rows from `row` on of one head; rows that are not in use and padding are zero.
#[cube]
fn load<E: Float>(
    to: &mut Shared<[E]>,
    from: &[E],
    first: usize,
    stride: usize,
    row: usize,
    of: &AttentionBatch,
    #[comptime] rows: usize,
    #[comptime] tiles: TensorTiles,
) {
    let (width, pitch) = comptime!((tiles.width, tiles.pitch()));
    let unit = UNIT_POS as usize;
    for part in 0..comptime!(rows * width / (PLANES * PLANE)) {
        let i = unit + part * comptime!(PLANES * PLANE);
        let (r, d) = (i / width, i % width);
        let mut value = E::cast_from(0.0f32);
        if row + r < of.used && d < of.size {
            value = from[first + (row + r) * stride + d];
        }
        to[r * pitch + d] = value;
    }
}

/// Loads rows of keys or values, from their own tensor or the joined one.
#[cube]
fn load_kv<E: Float>(
    to: &mut Shared<[E]>,
    joined: &[E],
    own: &ComptimeOption<Box<[E]>>,
    first: usize,
    row: usize,
    of: &AttentionBatch,
    #[comptime] rows: usize,
    #[comptime] tiles: TensorTiles,
) {
    #[comptime]
    match own {
        ComptimeOption::Some(own) => {
            load::<E>(to, own, first, of.kv_stride, row, of, rows, tiles);
        }
        ComptimeOption::None => {
            load::<E>(to, joined, first, of.kv_stride, row, of, rows, tiles);
        }
    }
}

/// The first of this plane's rows in its cube.
#[cube]
fn plane_row() -> usize {
    UNIT_POS as usize / PLANE * FRAGMENT
}

/// The row of this unit in its cube; its neighbour has the same.
#[cube]
fn unit_row() -> usize {
    plane_row() + UNIT_POS as usize % PLANE / 2
}

/// The column of score `j` of this unit. Neighbours alternate.
#[cube]
fn unit_column(j: usize) -> usize {
    2 * j + UNIT_POS as usize % 2
}

/// Where score `j` of this unit is.
#[cube]
fn score_at(j: usize) -> usize {
    unit_row() * SCORES_PITCH + unit_column(j)
}

#[cube]
fn weight_at(j: usize) -> usize {
    unit_row() * WEIGHTS_PITCH + unit_column(j)
}

/// `count` fragments of zeros.
#[cube]
fn zeros(#[comptime] count: usize) -> Sequence<cmma::Matrix<f32>> {
    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..count {
        sums.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            FRAGMENT,
            FRAGMENT,
            FRAGMENT,
            cmma::MatrixLayout::Undefined,
            0.0,
        ));
    }
    sums
}

/// `scores = own · othersᵀ` for this plane's rows: the products of rows of heads.
#[cube]
fn multiply_rows<E: Float>(
    scores: &mut Shared<[f32]>,
    own: &Shared<[E]>,
    others: &Shared<[E]>,
    #[comptime] tiles: TensorTiles,
) {
    let pitch = comptime!(tiles.pitch());
    let columns = comptime!(OTHERS / FRAGMENT);
    let sums = zeros(columns);
    #[unroll]
    for step in 0..comptime!(tiles.fragments()) {
        let at = plane_row() * pitch + step * FRAGMENT;
        let left = cmma::Matrix::<E>::from_slice(
            cmma::MatrixIdent::A,
            FRAGMENT,
            FRAGMENT,
            FRAGMENT,
            cmma::MatrixLayout::RowMajor,
            &own[at..comptime!(OWN * tiles.pitch())],
            comptime!(pitch as u32),
        );
        #[unroll]
        for column in 0..columns {
            let at = column * comptime!(FRAGMENT * pitch) + step * FRAGMENT;
            let right = cmma::Matrix::<E>::from_slice(
                cmma::MatrixIdent::B,
                FRAGMENT,
                FRAGMENT,
                FRAGMENT,
                cmma::MatrixLayout::ColMajor,
                &others[at..comptime!(OTHERS * tiles.pitch())],
                comptime!(pitch as u32),
            );
            cmma::execute(&left, &right, sums.index(column), sums.index(column));
        }
    }
    #[unroll]
    for column in 0..columns {
        let at = plane_row() * SCORES_PITCH + column * FRAGMENT;
        cmma::store(
            &mut scores[at..comptime!(OWN * SCORES_PITCH)],
            sums.index(column),
            comptime!(SCORES_PITCH as u32),
            cmma::MatrixLayout::RowMajor,
        );
    }
}

/// `sums += weights · others` for this plane's rows of weights.
#[cube]
fn add_weighted<E: Float>(
    sums: &mut Sequence<cmma::Matrix<f32>>,
    weights: &Shared<[E]>,
    others: &Shared<[E]>,
    #[comptime] tiles: TensorTiles,
) {
    let pitch = comptime!(tiles.pitch());
    #[unroll]
    for step in 0..comptime!(OTHERS / FRAGMENT) {
        let at = plane_row() * WEIGHTS_PITCH + step * FRAGMENT;
        let left = cmma::Matrix::<E>::from_slice(
            cmma::MatrixIdent::A,
            FRAGMENT,
            FRAGMENT,
            FRAGMENT,
            cmma::MatrixLayout::RowMajor,
            &weights[at..comptime!(OWN * WEIGHTS_PITCH)],
            comptime!(WEIGHTS_PITCH as u32),
        );
        #[unroll]
        for column in 0..comptime!(tiles.fragments()) {
            let at = step * comptime!(FRAGMENT * pitch) + column * FRAGMENT;
            let right = cmma::Matrix::<E>::from_slice(
                cmma::MatrixIdent::B,
                FRAGMENT,
                FRAGMENT,
                FRAGMENT,
                cmma::MatrixLayout::RowMajor,
                &others[at..comptime!(OTHERS * tiles.pitch())],
                comptime!(pitch as u32),
            );
            cmma::execute(&left, &right, sums.index(column), sums.index(column));
        }
    }
}

/// Multiplies each of this plane's rows by its unit's `factor`. Uses this plane's scores as memory.
#[cube]
fn scale_rows(
    sums: &mut Sequence<cmma::Matrix<f32>>,
    scores: &mut Shared<[f32]>,
    factor: f32,
    #[comptime] tiles: TensorTiles,
) {
    let start = plane_row() * SCORES_PITCH;
    #[unroll]
    for column in 0..comptime!(tiles.fragments()) {
        sync_plane();
        cmma::store(
            &mut scores[start..comptime!(OWN * SCORES_PITCH)],
            sums.index(column),
            comptime!(SCORES_PITCH as u32),
            cmma::MatrixLayout::RowMajor,
        );
        sync_plane();
        #[unroll]
        for j in 0..FRAGMENT / 2 {
            scores[score_at(j)] *= factor;
        }
        sync_plane();
        cmma::load_with_layout(
            sums.index_mut(column),
            &scores[start..comptime!(OWN * SCORES_PITCH)],
            comptime!(SCORES_PITCH as u32),
            cmma::MatrixLayout::RowMajor,
        );
    }
}

/// Stores this plane's rows, times their units' `factor`, from `row` of the sequence on.
#[cube]
fn store<E: Float>(
    sums: &Sequence<cmma::Matrix<f32>>,
    scores: &mut Shared<[f32]>,
    to: &mut [E],
    first: usize,
    stride: usize,
    row: usize,
    factor: f32,
    of: &AttentionBatch,
    #[comptime] tiles: TensorTiles,
) {
    let start = plane_row() * SCORES_PITCH;
    #[unroll]
    for column in 0..comptime!(tiles.fragments()) {
        sync_plane();
        cmma::store(
            &mut scores[start..comptime!(OWN * SCORES_PITCH)],
            sums.index(column),
            comptime!(SCORES_PITCH as u32),
            cmma::MatrixLayout::RowMajor,
        );
        sync_plane();
        let row = row + unit_row();
        #[unroll]
        for j in 0..FRAGMENT / 2 {
            let d = column * FRAGMENT + unit_column(j);
            if row < of.used && d < of.size {
                to[first + row * stride + d] = E::cast_from(scores[score_at(j)] * factor);
            }
        }
    }
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
    #[comptime] tiles: TensorTiles,
    #[define(E)] _stored: ElemType,
) {
    let pitch = comptime!(tiles.pitch());
    let mut q = tile::<E>(OWN, pitch);
    let mut k = tile::<E>(OTHERS, pitch);
    let mut v = tile::<E>(OTHERS, pitch);
    let mut weights = tile::<E>(OWN, WEIGHTS_PITCH);
    let mut scores = scores_tile();

    let first_query = CUBE_POS_X as usize * OWN;
    let (head, sequence) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let start = sequence * of.seq * of.query_stride + head * of.size;
    load::<E>(&mut q, queries, start, of.query_stride, first_query, &of, OWN, tiles);
    let start_kv = sequence * of.seq * of.kv_stride + head / of.group * of.size;
    let (at_k, at_v) = (start_kv + of.keys_at, start_kv + of.values_at);

    let mut sums = zeros(comptime!(tiles.fragments()));
    let query = first_query + unit_row();
    let last_of_plane = first_query + plane_row() + comptime!(FRAGMENT - 1);
    let mut most = LEAST.runtime();
    let mut total = 0.0f32; // of this unit's half of the row

    let end = min(first_query + OWN, of.used);
    let mut first_key = 0usize;
    while first_key < end {
        load_kv::<E>(&mut k, queries, &keys, at_k, first_key, &of, OTHERS, tiles);
        load_kv::<E>(&mut v, queries, &values, at_v, first_key, &of, OTHERS, tiles);
        sync_cube();
        // The same for all units of a plane.
        if first_key <= last_of_plane {
            multiply_rows::<E>(&mut scores, &q, &k, tiles);
            sync_plane();
            let mut largest = most;
            #[unroll]
            for j in 0..SHARE {
                let key = first_key + unit_column(j);
                let mut score = scores[score_at(j)] * of.scale;
                if key > query || key >= of.used {
                    score = LEAST.runtime();
                }
                scores[score_at(j)] = score;
                largest = max(largest, score);
            }
            largest = max(largest, plane_shuffle_xor(largest, 1u32));
            let correction = (most - largest).exp();
            let grown = plane_max(largest - most);
            most = largest;
            total *= correction;
            #[unroll]
            for j in 0..SHARE {
                let p = (scores[score_at(j)] - most).exp();
                total += p;
                let key = first_key + unit_column(j);
                weights[weight_at(j)] =
                    E::cast_from(p * kept(&mask, &of, sequence, head, query, key));
            }
            // Rarely after the first tiles.
            if first_key > 0 && grown > 0.0 {
                scale_rows(&mut sums, &mut scores, correction, tiles);
            }
            sync_plane();
            add_weighted::<E>(&mut sums, &weights, &v, tiles);
        }
        sync_cube();
        first_key += OTHERS;
    }

    let total = total + plane_shuffle_xor(total, 1u32);
    let stride_out = of.heads * of.size;
    let start_out = sequence * of.seq * stride_out + head * of.size;
    store::<E>(
        &sums,
        &mut scores,
        out,
        start_out,
        stride_out,
        first_query,
        1.0f32 / total,
        &of,
        tiles,
    );
    if query < of.used && UNIT_POS % 2 == 0 {
        lse[(sequence * of.heads + head) * of.seq + query] = most + total.ln();
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
    #[comptime] tiles: TensorTiles,
    #[define(E)] _stored: ElemType,
) {
    let pitch = comptime!(tiles.pitch());
    let mut k = tile::<E>(OWN, pitch);
    let mut v = tile::<E>(OWN, pitch);
    let mut q = tile::<E>(OTHERS, pitch);
    let mut d_o = tile::<E>(OTHERS, pitch);
    let mut weights = tile::<E>(OWN, WEIGHTS_PITCH);
    let mut scores = scores_tile();
    let mut lse_of = Shared::<[f32]>::new_slice(OTHERS);
    let mut along_of = Shared::<[f32]>::new_slice(OTHERS);

    let first_key = CUBE_POS_X as usize * OWN;
    let (kv_head, sequence) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let start_kv = sequence * of.seq * of.kv_stride + kv_head * of.size;
    let (at_k, at_v) = (start_kv + of.keys_at, start_kv + of.values_at);
    load_kv::<E>(&mut k, queries, &keys, at_k, first_key, &of, OWN, tiles);
    load_kv::<E>(&mut v, queries, &values, at_v, first_key, &of, OWN, tiles);

    let mut d_k = zeros(comptime!(tiles.fragments()));
    let mut d_v = zeros(comptime!(tiles.fragments()));
    let mut p = Array::<f32>::new(SHARE);
    let key = first_key + unit_row();
    let first_of_plane = first_key + plane_row();
    let stride_out = of.heads * of.size;
    let unit = UNIT_POS as usize;
    // One loop over the query tiles of all heads of the group: two loops would need more registers
    // than a thread has.
    let steps = (max(of.used, first_key) - first_key).div_ceil(OTHERS);
    for step in 0..of.group * steps {
        let head = kv_head * of.group + step / steps;
        let first_query = first_key + step % steps * OTHERS;
        let start = sequence * of.seq * of.query_stride + head * of.size;
        let start_out = sequence * of.seq * stride_out + head * of.size;
        load::<E>(&mut q, queries, start, of.query_stride, first_query, &of, OTHERS, tiles);
        load::<E>(&mut d_o, d_out, start_out, stride_out, first_query, &of, OTHERS, tiles);
        if unit < OTHERS {
            let query = first_query + unit;
            let mut lse_here = 0.0f32;
            let mut along_here = 0.0f32;
            if query < of.used {
                let at = (sequence * of.heads + head) * of.seq + query;
                lse_here = lse[at];
                along_here = along[at];
            }
            lse_of[unit] = lse_here;
            along_of[unit] = along_here;
        }
        sync_cube();
        // The same for all units of a plane.
        if first_query + OTHERS > first_of_plane {
            multiply_rows::<E>(&mut scores, &k, &q, tiles);
            sync_plane();
            #[unroll]
            for j in 0..SHARE {
                let query = first_query + unit_column(j);
                let mut value = 0.0f32;
                if key <= query && query < of.used {
                    value = (scores[score_at(j)] * of.scale - lse_of[unit_column(j)]).exp();
                }
                p[j] = value;
                weights[weight_at(j)] =
                    E::cast_from(value * kept(&mask, &of, sequence, head, query, key));
            }
            sync_plane();
            add_weighted::<E>(&mut d_v, &weights, &d_o, tiles);
            multiply_rows::<E>(&mut scores, &v, &d_o, tiles);
            sync_plane();
            #[unroll]
            for j in 0..SHARE {
                let query = first_query + unit_column(j);
                let d_p = scores[score_at(j)] * kept(&mask, &of, sequence, head, query, key);
                let d_score = p[j] * (d_p - along_of[unit_column(j)]);
                weights[weight_at(j)] = E::cast_from(d_score);
            }
            sync_plane();
            add_weighted::<E>(&mut d_k, &weights, &q, tiles);
        }
        sync_cube();
    }
    let stride = of.kv_stride;
    store::<E>(&d_k, &mut scores, d_keys, at_k, stride, first_key, of.scale, &of, tiles);
    #[comptime]
    match &mut d_values {
        ComptimeOption::Some(d_values) => {
            store::<E>(&d_v, &mut scores, d_values, at_v, stride, first_key, 1.0f32, &of, tiles);
        }
        ComptimeOption::None => {
            store::<E>(&d_v, &mut scores, d_keys, at_v, stride, first_key, 1.0f32, &of, tiles);
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
    #[comptime] tiles: TensorTiles,
    #[define(E)] _stored: ElemType,
) {
    let pitch = comptime!(tiles.pitch());
    let mut q = tile::<E>(OWN, pitch);
    let mut d_o = tile::<E>(OWN, pitch);
    let mut k = tile::<E>(OTHERS, pitch);
    let mut v = tile::<E>(OTHERS, pitch);
    let mut weights = tile::<E>(OWN, WEIGHTS_PITCH);
    let mut scores = scores_tile();

    let first_query = CUBE_POS_X as usize * OWN;
    let (head, sequence) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let start = sequence * of.seq * of.query_stride + head * of.size;
    let start_kv = sequence * of.seq * of.kv_stride + head / of.group * of.size;
    let (at_k, at_v) = (start_kv + of.keys_at, start_kv + of.values_at);
    let stride_out = of.heads * of.size;
    let start_out = sequence * of.seq * stride_out + head * of.size;
    load::<E>(&mut q, queries, start, of.query_stride, first_query, &of, OWN, tiles);
    load::<E>(&mut d_o, d_out, start_out, stride_out, first_query, &of, OWN, tiles);

    let mut d_q = zeros(comptime!(tiles.fragments()));
    let mut p = Array::<f32>::new(SHARE);
    let query = first_query + unit_row();
    let last_of_plane = first_query + plane_row() + comptime!(FRAGMENT - 1);
    let mut lse_of = 0.0f32;
    let mut along_of = 0.0f32;
    if query < of.used {
        let at = (sequence * of.heads + head) * of.seq + query;
        lse_of = lse[at];
        along_of = along[at];
    }
    let end = min(first_query + OWN, of.used);
    let mut first_key = 0usize;
    while first_key < end {
        load_kv::<E>(&mut k, queries, &keys, at_k, first_key, &of, OTHERS, tiles);
        load_kv::<E>(&mut v, queries, &values, at_v, first_key, &of, OTHERS, tiles);
        sync_cube();
        // The same for all units of a plane.
        if first_key <= last_of_plane {
            multiply_rows::<E>(&mut scores, &q, &k, tiles);
            sync_plane();
            #[unroll]
            for j in 0..SHARE {
                let key = first_key + unit_column(j);
                let mut value = 0.0f32;
                if key <= query && query < of.used {
                    value = (scores[score_at(j)] * of.scale - lse_of).exp();
                }
                p[j] = value;
            }
            sync_plane();
            multiply_rows::<E>(&mut scores, &d_o, &v, tiles);
            sync_plane();
            #[unroll]
            for j in 0..SHARE {
                let key = first_key + unit_column(j);
                let d_p = scores[score_at(j)] * kept(&mask, &of, sequence, head, query, key);
                weights[weight_at(j)] = E::cast_from(p[j] * (d_p - along_of));
            }
            sync_plane();
            add_weighted::<E>(&mut d_q, &weights, &k, tiles);
        }
        sync_cube();
        first_key += OTHERS;
    }
    let stride = of.query_stride;
    store::<E>(&d_q, &mut scores, d_queries, start, stride, first_query, of.scale, &of, tiles);
}
