//! Causal attention as PyTorch keeps it: fused, or score by score as before PyTorch 2.

use std::fmt;

use super::{eager::Dropped, pass::Pass, tape::mask_name};
use crate::units::{DType, TensorId};

/// The attention's result and what its backward needs.
pub(super) struct Attention {
    pub(super) out: TensorId,
    /// What Python names in the layer's own code hold until it returns.
    pub(super) names: Vec<TensorId>,
    saved: Saved,
}

enum Saved {
    Fused { qkv: TensorId, lse: TensorId },
    Plain(Plain),
}

struct Plain {
    q: TensorId,
    k: TensorId,
    v: TensorId,
    is_masked: TensorId,
    softmax: TensorId,
    dropout_mask: Option<TensorId>,
    probabilities: TensorId, // as multiplied with the values
}

/// Flash and memory-efficient kernels save the output and one log-sum-exp a row; with dropout
/// also the state of the generator, which is small.
pub(super) fn fused(p: &mut Pass<'_>, layer: u32, again: &str, qkv: TensorId) -> Attention {
    let h = format!("h.{layer}");
    let channels = p.channels();
    let out = p.value(format_args!("{h}.attn.out{again}"), channels);
    let rows = [p.batch, p.tape.model.heads.into(), p.seq];
    let lse = p.tape.value(format_args!("{h}.attn.lse{again}"), &rows, DType::F32);
    let name = match p.compute() {
        DType::F32 => "_scaled_dot_product_efficient_attention",
        _ => "_scaled_dot_product_flash_attention",
    };
    p.tape.run(name, &[qkv], &[out, lse]);
    Attention { out, names: Vec::new(), saved: Saved::Fused { qkv, lse } }
}

/// Scores, mask, softmax, product: each a tensor of (B, H, T, T).
pub(super) fn plain(p: &mut Pass<'_>, layer: u32, again: &str, qkv: TensorId) -> Attention {
    let h = format!("h.{layer}");
    let compute = p.compute();
    let heads = u64::from(p.tape.model.heads);
    let rows = [p.batch, heads, p.seq, p.channels() / heads];
    let scores = [p.batch, heads, p.seq, p.seq];
    let named = |part: &'static str| {
        let h = &h;
        fmt::from_fn(move |f| write!(f, "{h}.attn.{part}{again}"))
    };
    // A batched product wants its heads side by side; with one sequence or one head they are.
    let is_copied = p.batch > 1 && heads > 1;
    let gather = |p: &mut Pass<'_>, part: &'static str| {
        if !is_copied {
            return qkv;
        }
        let copy = p.tape.value(named(part), &rows, compute);
        p.tape.run("clone", &[qkv], &[copy]);
        copy
    };

    let q = gather(p, "q");
    let k = gather(p, "k");
    let raw = p.tape.value(named("scores"), &scores, compute);
    p.tape.run("bmm", &[q, k], &[raw]);
    let scaled = p.tape.value(named("scores scaled"), &scores, compute);
    p.tape.run("mul", &[raw], &[scaled]);
    let is_masked = p.tape.value(named("is masked"), &[p.seq, p.seq], DType::U8);
    let mask = p.tape.state(&mask_name(layer));
    p.tape.run("eq", &[mask], &[is_masked]);
    let masked = p.tape.value(named("scores masked"), &scores, compute);
    p.tape.run("masked_fill", &[scaled, is_masked], &[masked]);
    let wide = if compute == DType::F32 { masked } else { p.tape.cast(masked, DType::F32) };
    let softmax = p.tape.value(named("softmax"), &scores, DType::F32);
    p.tape.run("_softmax", &[wide], &[softmax]);
    p.tape.hold(&[masked]);
    let Dropped { out: dropped, mask: dropout_mask } = p.drop(named("softmax"), softmax);
    let probabilities = if compute == DType::F32 { dropped } else { p.tape.cast(dropped, compute) };
    let v = gather(p, "v");
    let mut out = p.tape.value(named("weighted"), &rows, compute);
    p.tape.run("bmm", &[probabilities, v], &[out]);
    p.tape.hold(&[dropped]);
    if heads > 1 {
        let together = p.value(named("out"), p.channels());
        p.tape.run("clone", &[out], &[together]);
        out = together;
    }
    let saved = Plain { q, k, v, is_masked, softmax, dropout_mask, probabilities };
    Attention { out, names: vec![dropped], saved: Saved::Plain(saved) }
}

/// The gradient of `qkv`.
pub(super) fn backward(
    p: &mut Pass<'_>,
    h: &str,
    attention: &Attention,
    d_out: TensorId,
) -> TensorId {
    let columns = p.channels();
    let parts = match &attention.saved {
        Saved::Fused { qkv, lse } => {
            let parts =
                ["q", "k", "v"].map(|part| p.value(format_args!("d_{h}.attn.{part}"), columns));
            let name = match p.compute() {
                DType::F32 => "_scaled_dot_product_efficient_attention_backward",
                _ => "_scaled_dot_product_flash_attention_backward",
            };
            p.tape.run(name, &[d_out, *qkv, attention.out, *lse], &parts);
            parts
        }
        Saved::Plain(saved) => plain_backward(p, h, saved, d_out),
    };
    let d_qkv = p.value(format_args!("d_{h}.attn.qkv"), 3 * columns);
    p.tape.run("cat", &parts, &[d_qkv]);
    d_qkv
}

fn plain_backward(p: &mut Pass<'_>, h: &str, saved: &Plain, d_out: TensorId) -> [TensorId; 3] {
    let compute = p.compute();
    let heads = u64::from(p.tape.model.heads);
    let shape = [p.batch, heads, p.seq, p.seq];
    let columns = p.channels();
    let named = |part: &'static str| fmt::from_fn(move |f| write!(f, "d_{h}.attn.{part}"));
    let mut d_weighted = d_out;
    if p.batch > 1 && heads > 1 {
        d_weighted = p.value(named("weighted"), columns);
        p.tape.run("clone", &[d_out], &[d_weighted]);
    }
    let d_v = p.value(named("v"), columns);
    p.tape.run("bmm", &[saved.probabilities, d_weighted], &[d_v]);
    let mut d = p.tape.value(named("probabilities"), &shape, compute);
    p.tape.run("bmm", &[d_weighted, saved.v], &[d]);
    p.tape.hold(&[saved.probabilities]);
    if compute != DType::F32 {
        d = p.tape.cast(d, DType::F32);
    }
    d = p.undrop(named("softmax"), d, saved.dropout_mask);
    let mut d_scores = p.tape.value(named("scores masked"), &shape, DType::F32);
    p.tape.run("_softmax_backward_data", &[d, saved.softmax], &[d_scores]);
    if compute != DType::F32 {
        d_scores = p.tape.cast(d_scores, compute);
    }
    let d_scaled = p.tape.value(named("scores scaled"), &shape, compute);
    p.tape.run("masked_fill", &[d_scores, saved.is_masked], &[d_scaled]);
    let d_raw = p.tape.value(named("scores"), &shape, compute);
    p.tape.run("mul", &[d_scaled], &[d_raw]);
    let d_q = p.value(named("q"), columns);
    p.tape.run("bmm", &[d_raw, saved.k], &[d_q]);
    let d_k = p.value(named("k"), columns);
    p.tape.run("bmm", &[d_raw, saved.q], &[d_k]);
    p.tape.hold(&[saved.k]);
    if heads == 1 {
        return [d_q, d_k, d_v];
    }
    // Heads go back beside each other, one tensor at a time.
    let parts = [("q", d_q), ("k", d_k), ("v", d_v)];
    parts.map(|(part, split)| {
        let together = p.value(format_args!("d_{h}.attn.{part} together"), columns);
        p.tape.run("clone", &[split], &[together]);
        together
    })
}
