//! Causal attention as PyTorch keeps it: fused, or score by score as before PyTorch 2.

use super::{
    eager::{Dropped, Eager},
    tape::mask_name,
};
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
pub(super) fn fused(e: &mut Eager<'_>, layer: u32, again: &str, qkv: TensorId) -> Attention {
    let h = format!("h.{layer}");
    let channels = e.channels();
    let out = e.value(&format!("{h}.attn.out{again}"), channels);
    let rows = [e.batch, e.tape.model.heads.into(), e.seq];
    let lse = e.tape.value(format!("{h}.attn.lse{again}"), &rows, DType::F32);
    let name = match e.compute() {
        DType::F32 => "_scaled_dot_product_efficient_attention",
        _ => "_scaled_dot_product_flash_attention",
    };
    e.tape.run(name, &[qkv], &[out, lse]);
    Attention { out, names: Vec::new(), saved: Saved::Fused { qkv, lse } }
}

/// Scores, mask, softmax, product: each a tensor of (B, H, T, T).
pub(super) fn plain(e: &mut Eager<'_>, layer: u32, again: &str, qkv: TensorId) -> Attention {
    let h = format!("h.{layer}");
    let compute = e.compute();
    let heads = u64::from(e.tape.model.heads);
    let rows = [e.batch, heads, e.seq, e.channels() / heads];
    let scores = [e.batch, heads, e.seq, e.seq];
    let named = |part: &str| format!("{h}.attn.{part}{again}");
    // A batched product wants its heads side by side; with one sequence or one head they are.
    let is_copied = e.batch > 1 && heads > 1;
    let gather = |e: &mut Eager<'_>, part: &str| {
        if !is_copied {
            return qkv;
        }
        let copy = e.tape.value(named(part), &rows, compute);
        e.tape.run("clone", &[qkv], &[copy]);
        copy
    };

    let q = gather(e, "q");
    let k = gather(e, "k");
    let raw = e.tape.value(named("scores"), &scores, compute);
    e.tape.run("bmm", &[q, k], &[raw]);
    let scaled = e.tape.value(named("scores scaled"), &scores, compute);
    e.tape.run("mul", &[raw], &[scaled]);
    let is_masked = e.tape.value(named("is masked"), &[e.seq, e.seq], DType::U8);
    let mask = e.tape.state(&mask_name(layer));
    e.tape.run("eq", &[mask], &[is_masked]);
    let masked = e.tape.value(named("scores masked"), &scores, compute);
    e.tape.run("masked_fill", &[scaled, is_masked], &[masked]);
    let wide = if compute == DType::F32 { masked } else { e.tape.cast(masked, DType::F32) };
    let softmax = e.tape.value(named("softmax"), &scores, DType::F32);
    e.tape.run("_softmax", &[wide], &[softmax]);
    e.tape.hold(&[masked]);
    let Dropped { out: dropped, mask: dropout_mask } = e.drop(&named("softmax"), softmax);
    let probabilities = if compute == DType::F32 { dropped } else { e.tape.cast(dropped, compute) };
    let v = gather(e, "v");
    let mut out = e.tape.value(named("weighted"), &rows, compute);
    e.tape.run("bmm", &[probabilities, v], &[out]);
    e.tape.hold(&[dropped]);
    if heads > 1 {
        let together = e.value(&named("out"), e.channels());
        e.tape.run("clone", &[out], &[together]);
        out = together;
    }
    let saved = Plain { q, k, v, is_masked, softmax, dropout_mask, probabilities };
    Attention { out, names: vec![dropped], saved: Saved::Plain(saved) }
}

/// The gradient of `qkv`.
pub(super) fn backward(
    e: &mut Eager<'_>,
    h: &str,
    attention: &Attention,
    d_out: TensorId,
) -> TensorId {
    let columns = e.channels();
    let parts = match &attention.saved {
        Saved::Fused { qkv, lse } => {
            let parts = ["q", "k", "v"].map(|part| e.value(&format!("d_{h}.attn.{part}"), columns));
            let name = match e.compute() {
                DType::F32 => "_scaled_dot_product_efficient_attention_backward",
                _ => "_scaled_dot_product_flash_attention_backward",
            };
            e.tape.run(name, &[d_out, *qkv, attention.out, *lse], &parts);
            parts
        }
        Saved::Plain(saved) => plain_backward(e, h, saved, d_out),
    };
    let d_qkv = e.value(&format!("d_{h}.attn.qkv"), 3 * columns);
    e.tape.run("cat", &parts, &[d_qkv]);
    d_qkv
}

fn plain_backward(e: &mut Eager<'_>, h: &str, saved: &Plain, d_out: TensorId) -> [TensorId; 3] {
    let compute = e.compute();
    let heads = u64::from(e.tape.model.heads);
    let shape = [e.batch, heads, e.seq, e.seq];
    let columns = e.channels();
    let named = |part: &str| format!("d_{h}.attn.{part}");
    let mut d_weighted = d_out;
    if e.batch > 1 && heads > 1 {
        d_weighted = e.value(&named("weighted"), columns);
        e.tape.run("clone", &[d_out], &[d_weighted]);
    }
    let d_v = e.value(&named("v"), columns);
    e.tape.run("bmm", &[saved.probabilities, d_weighted], &[d_v]);
    let mut d = e.tape.value(named("probabilities"), &shape, compute);
    e.tape.run("bmm", &[d_weighted, saved.v], &[d]);
    e.tape.hold(&[saved.probabilities]);
    if compute != DType::F32 {
        d = e.tape.cast(d, DType::F32);
    }
    d = e.undrop(&named("softmax"), d, saved.dropout_mask);
    let mut d_scores = e.tape.value(named("scores masked"), &shape, DType::F32);
    e.tape.run("_softmax_backward_data", &[d, saved.softmax], &[d_scores]);
    if compute != DType::F32 {
        d_scores = e.tape.cast(d_scores, compute);
    }
    let d_scaled = e.tape.value(named("scores scaled"), &shape, compute);
    e.tape.run("masked_fill", &[d_scores, saved.is_masked], &[d_scaled]);
    let d_raw = e.tape.value(named("scores"), &shape, compute);
    e.tape.run("mul", &[d_scaled], &[d_raw]);
    let d_q = e.value(&named("q"), columns);
    e.tape.run("bmm", &[d_raw, saved.k], &[d_q]);
    let d_k = e.value(&named("k"), columns);
    e.tape.run("bmm", &[d_raw, saved.q], &[d_k]);
    e.tape.hold(&[saved.k]);
    if heads == 1 {
        return [d_q, d_k, d_v];
    }
    // Heads go back beside each other, one tensor at a time.
    let parts = [("q", d_q), ("k", d_k), ("v", d_v)];
    parts.map(|(part, split)| {
        let together = e.value(&named(&format!("{part} together")), columns);
        e.tape.run("clone", &[split], &[together]);
        together
    })
}
