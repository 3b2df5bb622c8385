//! The cost of an op: floating-point operations (a multiply-add counts as two), and bytes moved
//! between memory and the chip.
//!
//! Causal attention counts only the unmasked half. Products of the largest allowed sizes exceed 64
//! bits: they are computed in 128 bits, and the result is the largest number instead.

use super::{Access, Op, Program};
use crate::units::{Bytes, DType, TensorId};

impl Op {
    /// Floating-point operations of its matrix products; others are few in comparison.
    pub fn flops(&self, program: &Program) -> u64 {
        let rows = |id: TensorId| u128::from(program.get(id).rows());
        let columns = |id: TensorId| u128::from(program.get(id).columns());
        let count = |id: TensorId| u128::from(program.get(id).count());
        // (B, T, C) with T scores per token, half of them masked: two products of 2·T·C / 2.
        let second = |id: TensorId| u128::from(program.get(id).shape[1]);
        let attention = |out: TensorId| count(out) * second(out) * 2;
        saturated(match *self {
            Self::Linear { x, weight, .. }
            | Self::LinearGelu { x, weight, .. }
            | Self::LinearSwiGlu { x, weight, .. }
            | Self::LinearResidual { x, weight, .. }
            | Self::CrossEntropy { x, weight, .. } => 2 * rows(x) * count(weight),
            Self::CrossEntropyBackward { x, weight, .. } => 6 * rows(x) * count(weight),
            Self::LinearBackwardInput { d_out, weight, .. }
            | Self::LinearBackwardInputAdd { d_out, weight, .. }
            | Self::LinearBackwardSwiGlu { d_out, weight, .. }
            | Self::LinearBackwardGelu { d_out, weight, .. } => 2 * rows(d_out) * count(weight),
            Self::LinearBackwardWeight { d_out, x, .. } => 2 * count(d_out) * columns(x),
            Self::Attention { out, .. } => attention(out),
            // The scores once more, then the gradients of scores, values, queries and keys.
            Self::AttentionBackward { out, .. } => attention(out) * 5 / 2,
            Self::CachedAttention { out, keys, .. } => 4 * count(out) * second(keys),
            // Each iteration makes the Gram matrix of the shorter axis, squares it, and
            // multiplies by it.
            Self::Muon { parameter, ref muon, .. } => {
                let (out, inputs) = (rows(parameter), columns(parameter));
                let (short, long) = (out.min(inputs), out.max(inputs));
                u128::from(muon.steps) * 2 * short * short * (2 * long + short)
            }
            _ => 0,
        })
    }

    /// A lower bound of the bytes moved: each operand once for a read and once for a write, as if
    /// data that an op reads twice stayed in a cache. Of an embedding table only the rows of the
    /// tokens count. The chunked loss reads its logits and the vocabulary's table chunk by chunk, and
    /// neither stays in a cache.
    pub fn moved_bytes(&self, program: &Program) -> Bytes {
        let get = |id: TensorId| program.get(id);
        let bytes = |id: TensorId| u128::from(get(id).bytes().get());
        let chunks = |x: TensorId, logits| u128::from(get(x).rows().div_ceil(get(logits).rows()));
        // All rows of logits, which never exist at the same time.
        let passes = |x: TensorId, logits: TensorId| {
            let row = get(logits).columns() * get(logits).dtype.size();
            u128::from(get(x).rows()) * u128::from(row)
        };
        let rows_of_table =
            |of: TensorId| u128::from(get(of).count()) * u128::from(DType::F32.size());
        Bytes::new(saturated(match *self {
            Self::Embed { tokens, wpe, out, .. } => {
                bytes(tokens) + rows_of_table(out) + wpe.map_or(0, bytes) + bytes(out)
            }
            Self::EmbedBackward { tokens, d_x, d_wpe, .. } => {
                bytes(tokens) + bytes(d_x) + 2 * rows_of_table(d_x) + 2 * d_wpe.map_or(0, bytes)
            }
            // Logits are written and read.
            Self::CrossEntropy { x, weight, targets, logits, losses } => {
                let table = chunks(x, logits) * bytes(weight);
                bytes(x) + bytes(targets) + bytes(losses) + table + 2 * passes(x, logits)
            }
            // Logits are written, read and overwritten by their gradient, which is read twice.
            Self::CrossEntropyBackward { x, weight, targets, logits, d_x, d_weight, .. } => {
                let tables = chunks(x, logits) * (2 * bytes(weight) + 2 * bytes(d_weight));
                2 * bytes(x) + bytes(targets) + bytes(d_x) + tables + 5 * passes(x, logits)
            }
            // Keys and values of every row, into the cache.
            Self::StoreCache { qkv, heads, .. } => {
                let queries = get(qkv.queries());
                let both = 2 * u128::from(heads.kv) * u128::from(heads.channels);
                2 * u128::from(queries.rows()) * both * u128::from(queries.dtype.size())
            }
            // The whole cache, and one new row of each.
            Self::CachedAttention { qkv, keys, values, out, heads } => {
                let rows = u128::from(get(out).rows() * get(out).dtype.size());
                let new = 2 * rows * u128::from(heads.kv) * u128::from(heads.channels);
                let of_token: u128 = qkv.tensors().map(bytes).sum();
                of_token + bytes(keys) + bytes(values) + bytes(out) + new
            }
            Self::LastRow { out, .. } => 2 * bytes(out),
            _ => {
                let mut sum = 0;
                self.visit(|operand| {
                    let times = if operand.access == Access::Updates { 2 } else { 1 };
                    sum += times * bytes(operand.tensor);
                });
                sum
            }
        }))
    }
}

/// The number in 64 bits, or the largest one.
fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl Program {
    /// Floating-point operations of one run.
    pub fn flops(&self) -> u64 {
        self.ops().iter().map(|op| op.flops(self)).fold(0, u64::saturating_add)
    }
}
