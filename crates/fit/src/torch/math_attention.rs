//! Attention with dropout on a CPU. Its fused kernel has no dropout, so PyTorch falls back to
//! explicit scores in float32 (`_scaled_dot_product_attention_math`), whatever the input's type.
//!
//! Ops and lifetimes are those of real tensors on a CPU, PyTorch 2.15. The function's local variables
//! live until it returns, and autograd keeps the factors of both products, the softmax and the noise.

use std::fmt;

use fitgpt_program::{
    TensorRole,
    units::{DType, TensorId},
};

use super::pass::ModelPass;

/// What the backward needs.
pub(super) struct MathTensors {
    q: TensorId,
    k: TensorId,
    v: TensorId,
    softmax: TensorId,
    noise: TensorId,
    probabilities: TensorId, // after dropout
}

/// The result, (B, H, T, D), and what its backward needs.
pub(super) fn forward(
    p: &mut ModelPass<'_>,
    h: &str,
    again: &str,
    qkv: TensorId,
) -> (TensorId, MathTensors) {
    let heads = u64::from(p.tape.model.heads);
    let compute = p.compute();
    let rows = [p.batch, heads, p.seq, p.channels() / heads];
    let named = |part: &'static str| fmt::from_fn(move |f| write!(f, "{h}.attn.{part}{again}"));
    let is_half = compute != DType::F32;
    // A batched product needs contiguous heads; with one sequence or one head they are.
    let is_copied = p.batch > 1 && heads > 1;

    let [wide_q, wide_k, wide_v] = ["q (float32)", "k (float32)", "v (float32)"].map(|part| {
        if !is_half {
            return qkv;
        }
        let wide = p.tape.value(named(part), &rows, DType::F32);
        p.tape.run("_to_copy", &[qkv], &[wide]);
        wide
    });
    let scaled_q = p.tape.value(named("q scaled"), &rows, DType::F32);
    p.tape.run("mul", &[wide_q], &[scaled_q]);
    let mask = causal_mask(p, named("mask"));
    let scaled_k = p.tape.value(named("k scaled"), &rows, DType::F32);
    p.tape.run("mul", &[wide_k], &[scaled_k]);
    let gather = |p: &mut ModelPass<'_>, part: &'static str, from: TensorId| {
        if !is_copied {
            return from;
        }
        let copy = p.tape.value(named(part), &rows, DType::F32);
        p.tape.run("clone", &[from], &[copy]);
        copy
    };
    let q = gather(p, "q", scaled_q);
    let k = gather(p, "k", scaled_k);
    let raw = p.pairs(named("scores"), DType::F32, TensorRole::AttentionScores);
    p.tape.run("bmm", &[q, k], &[raw]);
    p.tape.hold(&[scaled_k]);
    let masked = p.pairs(named("scores masked"), DType::F32, TensorRole::AttentionScores);
    p.tape.run("add", &[raw, mask], &[masked]);
    let softmax = p.pairs(named("softmax"), DType::F32, TensorRole::AttentionSoftmax);
    p.tape.run("_safe_softmax", &[masked], &[softmax]);
    let noise = p.pairs(named("softmax mask"), DType::F32, TensorRole::AttentionSoftmax);
    p.tape.run("bernoulli_", &[], &[noise]);
    let probabilities = p.pairs(named("softmax dropped"), DType::F32, TensorRole::AttentionSoftmax);
    p.tape.run("mul", &[softmax, noise], &[probabilities]);
    let mut locals = vec![scaled_q, mask, wide_q, wide_k, wide_v, probabilities];
    if is_half {
        // The second result, which the caller drops, is computed first.
        locals.push(p.tape.cast(probabilities, compute));
    }
    let v = gather(p, "v", wide_v);
    let weighted = p.tape.value(named("weighted"), &rows, DType::F32);
    p.tape.run("bmm", &[probabilities, v], &[weighted]);
    let out = if is_half { p.tape.cast(weighted, compute) } else { weighted };
    p.tape.hold(&locals);
    (out, MathTensors { q, k, v, softmax, noise, probabilities })
}

/// 0 for visible positions and minus infinity for the others, (T, T).
fn causal_mask(p: &mut ModelPass<'_>, name: impl fmt::Display) -> TensorId {
    let shape = [p.seq, p.seq];
    let ones = p.tape.value(format_args!("{name} of ones"), &shape, DType::U8);
    p.tape.run("ones", &[], &[ones]);
    let visible = p.tape.value(format_args!("{name} of visible positions"), &shape, DType::U8);
    p.tape.run("tril", &[ones], &[visible]);
    let [low, high] = ["minus infinity", "zero"].map(|value| {
        let scalar = p.tape.scalar(format_args!("{name}: {value}"));
        p.tape.run("scalar_tensor", &[], &[scalar]);
        scalar
    });
    let mask = p.tape.value(name, &shape, DType::F32);
    p.tape.run("where", &[visible, low, high], &[mask]);
    mask
}

/// The gradients of queries, keys and values.
pub(super) fn backward(
    p: &mut ModelPass<'_>,
    h: &str,
    saved: &MathTensors,
    d_out: TensorId,
) -> [TensorId; 3] {
    let heads = u64::from(p.tape.model.heads);
    let compute = p.compute();
    let is_half = compute != DType::F32;
    let rows = [p.batch, heads, p.seq, p.channels() / heads];
    let named = |part: &'static str| fmt::from_fn(move |f| write!(f, "d_{h}.attn.{part}"));
    let mut d = if is_half { p.tape.cast(d_out, DType::F32) } else { d_out };
    if p.batch > 1 && heads > 1 {
        let together = p.tape.value(named("weighted"), &rows, DType::F32);
        p.tape.run("clone", &[d], &[together]);
        d = together;
    }
    let d_v = p.tape.value(named("v (float32)"), &rows, DType::F32);
    p.tape.run("bmm", &[saved.probabilities, d], &[d_v]);
    let d_probabilities =
        p.pairs(named("softmax dropped"), DType::F32, TensorRole::AttentionSoftmax);
    p.tape.run("bmm", &[d, saved.v], &[d_probabilities]);
    p.tape.hold(&[saved.probabilities]);
    let d_softmax = p.pairs(named("softmax"), DType::F32, TensorRole::AttentionSoftmax);
    p.tape.run("mul", &[d_probabilities, saved.noise], &[d_softmax]);
    let d_scores = p.pairs(named("scores"), DType::F32, TensorRole::AttentionScores);
    p.tape.run("_softmax_backward_data", &[d_softmax, saved.softmax], &[d_scores]);
    let scaled_k = p.tape.value(named("k scaled"), &rows, DType::F32);
    p.tape.run("bmm", &[saved.q, d_scores], &[scaled_k]);
    let scaled_q = p.tape.value(named("q scaled"), &rows, DType::F32);
    p.tape.run("bmm", &[d_scores, saved.k], &[scaled_q]);
    p.tape.hold(&[saved.q]);
    let unscale = |p: &mut ModelPass<'_>, part: &'static str, scaled: TensorId| {
        let d = p.tape.value(named(part), &rows, DType::F32);
        p.tape.run("mul", &[scaled], &[d]);
        d
    };
    let d_k = unscale(p, "k (float32)", scaled_k);
    let d_q = unscale(p, "q (float32)", scaled_q);
    let [d_q, d_k, d_v] =
        [d_q, d_k, d_v].map(|d| if is_half { p.tape.cast(d, compute) } else { d });
    if heads == 1 {
        return [d_q, d_k, d_v];
    }
    // The keys' gradient is transposed, and its heads are adjacent already.
    let [d_v, d_q] = [("v", d_v), ("q", d_q)].map(|(part, split)| {
        let together = p.value(format_args!("d_{h}.attn.{part} together"), p.channels());
        p.tape.run("clone", &[split], &[together]);
        together
    });
    [d_q, d_k, d_v]
}
