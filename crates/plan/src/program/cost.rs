//! What an op costs: floating-point operations, as people count them (a multiply-add is two).
//!
//! Causal attention is counted by the half it computes.

use super::{Op, Program};
use crate::units::TensorId;

impl Op {
    /// Floating-point operations of the matrix products inside; the rest is small beside them.
    pub fn flops(&self, program: &Program) -> u64 {
        let rows = |id: TensorId| program.get(id).rows();
        let columns = |id: TensorId| program.get(id).columns();
        let count = |id: TensorId| program.get(id).count();
        // (B, T, C) at T scores a token, half of them masked: two products of 2·T·C / 2.
        let attention = |out: TensorId| count(out) * program.get(out).shape[1] * 2;
        match *self {
            Self::Linear { x, weight, .. }
            | Self::LinearGelu { x, weight, .. }
            | Self::LinearResidual { x, weight, .. }
            | Self::CrossEntropy { x, weight, .. } => 2 * rows(x) * count(weight),
            Self::CrossEntropyBackward { x, weight, .. } => 6 * rows(x) * count(weight),
            Self::LinearBackwardInput { d_out, weight, .. }
            | Self::LinearBackwardGelu { d_out, weight, .. } => 2 * rows(d_out) * count(weight),
            Self::LinearBackwardWeight { d_out, x, .. } => 2 * count(d_out) * columns(x),
            Self::Attention { out, .. } => attention(out),
            // Scores again, then the gradients of scores, values, queries and keys.
            Self::AttentionBackward { out, .. } => attention(out) * 5 / 2,
            Self::CachedAttention { out, keys, .. } => 4 * count(out) * program.get(keys).shape[1],
            _ => 0,
        }
    }
}

impl Program {
    /// Floating-point operations of one run.
    pub fn flops(&self) -> u64 {
        self.ops.iter().map(|op| op.flops(self)).sum()
    }
}
