//! Attention in inductor's code: one kernel, or explicit scores with dropout on a CPU.
//!
//! The CPU's kernel has no dropout, so PyTorch decomposes attention. Inductor then computes products of
//! float32 copies in the forward and of half copies in the backward. The partitioner keeps the half
//! queries, keys and values, the float32 scores and the mask of the dropout, one byte per score: five
//! bytes for each pair of tokens and head. The softmax is recomputed from the scores.

use std::fmt;

use fitgpt_program::units::{DType, TensorId};

use super::{Rules, pass::ModelPass};

/// What the backward of attention needs, besides its output.
pub(super) enum CompiledAttention {
    /// One kernel.
    Fused { qkv: TensorId, lse: TensorId },
    /// Explicit scores.
    Scores { q: TensorId, k: TensorId, v: TensorId, scores: TensorId, mask: TensorId },
}

impl ModelPass<'_> {
    /// The output of attention, (B, T, C), and what its backward needs.
    pub(super) fn compiled_attention(
        &mut self,
        h: &str,
        again: &str,
        qkv: TensorId,
    ) -> (TensorId, CompiledAttention) {
        let channels = self.channels();
        let heads = u64::from(self.tape.model.heads);
        let named = |part: &'static str| fmt::from_fn(move |f| write!(f, "{h}.attn.{part}{again}"));
        if !(self.dropout && self.options.rules == Rules::Cpu) {
            let attended = self.value(named("out"), channels);
            let rows = [self.batch, heads, self.seq];
            let lse = self.tape.value(named("lse"), &rows, DType::F32);
            self.tape.run("_scaled_dot_product_flash_attention", &[qkv], &[attended, lse]);
            return (attended, CompiledAttention::Fused { qkv, lse });
        }
        let rows = [self.batch, heads, self.seq, channels / heads];
        let pairs = [self.batch, heads, self.seq, self.seq];
        let [q, k, v] = ["q", "k", "v"].map(|part| self.value(named(part), channels));
        let wide = ["q (float32)", "k (float32)", "v (float32)"]
            .map(|part| self.tape.value(named(part), &rows, DType::F32));
        let [wide_q, wide_k, wide_v] = wide;
        self.tape.run("fused_to_copy", &[qkv], &[q, k, v, wide_q, wide_k, wide_v]);
        let scores = self.tape.value(named("scores"), &pairs, DType::F32);
        self.tape.run("bmm", &[wide_q, wide_k], &[scores]);
        let mask = self.tape.value(named("softmax mask"), &pairs, DType::U8);
        let dropped = self.tape.value(named("softmax dropped"), &pairs, DType::F32);
        self.tape.run("fused_softmax", &[scores], &[mask, dropped]);
        let weighted = self.tape.value(named("weighted"), &rows, DType::F32);
        self.tape.run("bmm", &[dropped, wide_v], &[weighted]);
        let attended = self.value(named("out"), channels);
        self.tape.run("fused_to_copy", &[weighted], &[attended]);
        (attended, CompiledAttention::Scores { q, k, v, scores, mask })
    }

    /// The gradients of queries, keys and values.
    pub(super) fn compiled_attention_backward(
        &mut self,
        h: &str,
        saved: &CompiledAttention,
        attended: TensorId,
        d_out: TensorId,
    ) -> [TensorId; 3] {
        let channels = self.channels();
        let parts =
            ["q", "k", "v"].map(|part| self.value(format_args!("d_{h}.attn.{part}"), channels));
        match *saved {
            CompiledAttention::Fused { qkv, lse } => {
                let from = [d_out, qkv, attended, lse];
                self.tape.run("_scaled_dot_product_flash_attention_backward", &from, &parts);
            }
            CompiledAttention::Scores { q, k, v, scores, mask } => {
                let compute = self.compute();
                let pairs = [self.batch, self.tape.model.heads.into(), self.seq, self.seq];
                let d_scores = self.tape.value(format_args!("d_{h}.attn.scores"), &pairs, compute);
                self.tape.run("bmm", &[d_out, v], &[d_scores]);
                let name = format_args!("{h}.attn.softmax for d_v");
                let dropped = self.tape.value(name, &pairs, compute);
                self.tape.run("fused_softmax_backward", &[scores, mask, d_scores], &[dropped]);
                let [d_q, d_k, d_v] = parts;
                self.tape.run("bmm", &[dropped, d_out], &[d_v]);
                self.tape.run("bmm", &[q, d_scores], &[d_k]);
                self.tape.run("bmm", &[d_scores, k], &[d_q]);
            }
        }
        parts
    }
}
