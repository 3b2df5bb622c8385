//! Causal attention in PyTorch: fused, or with explicit scores as before PyTorch 2.
//!
//! Which fused kernel runs, and what it saves, was read from PyTorch 2.15 (`sdp_utils.cpp`,
//! `attention.cpp`) and traced over fake CUDA tensors by `tools/trace_cuda_rules.py`.

use std::fmt;

use fitgpt_program::{
    TensorRole,
    units::{DType, TensorId},
};

use super::{
    Rules,
    math_attention::{self, MathTensors},
    pass::{DropoutOutput, ModelPass},
    tape::mask_name,
};

/// The attention's result and what its backward needs.
pub(super) struct AttentionOutput {
    pub(super) out: TensorId,
    /// Tensors that Python variables of the layer hold until it returns.
    pub(super) names: Vec<TensorId>,
    saved: SavedForBackward,
}

enum SavedForBackward {
    Fused { qkv: TensorId, lse: Option<TensorId> },
    PaddedHeads(PaddedHeads),
    Math(MathTensors),
    ScoreTensors(ScoreTensors),
}

/// Heads padded to the next multiple of [`FLASH_HEAD_MULTIPLE`].
struct PaddedHeads {
    parts: [TensorId; 3],
    out: TensorId,
    lse: TensorId,
}

/// Flash attention takes heads of a multiple of 8; others are padded by a copy.
const FLASH_HEAD_MULTIPLE: u64 = 8;

/// The memory-efficient kernel aligns its log-sum-exp to 32 rows.
const EFFICIENT_LSE_MULTIPLE: u64 = 32;

/// A fused kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FusedKernel {
    /// Half types on CUDA.
    Flash,
    /// Float32 on CUDA.
    Efficient,
    /// The CPU, for every type, without dropout.
    ForCpu,
}

impl FusedKernel {
    fn of(p: &ModelPass<'_>) -> Self {
        match (p.options.rules, p.compute()) {
            (Rules::Cpu, _) => Self::ForCpu,
            (Rules::Cuda, DType::F32) => Self::Efficient,
            (Rules::Cuda, _) => Self::Flash,
        }
    }

    const fn forward(self) -> &'static str {
        match self {
            Self::Flash => "_scaled_dot_product_flash_attention",
            Self::Efficient => "_scaled_dot_product_efficient_attention",
            Self::ForCpu => "_scaled_dot_product_flash_attention_for_cpu",
        }
    }

    const fn backward(self) -> &'static str {
        match self {
            Self::Flash => "_scaled_dot_product_flash_attention_backward",
            Self::Efficient => "_scaled_dot_product_efficient_attention_backward",
            Self::ForCpu => "_scaled_dot_product_flash_attention_for_cpu_backward",
        }
    }
}

struct ScoreTensors {
    q: TensorId,
    k: TensorId,
    v: TensorId,
    is_masked: TensorId,
    softmax: TensorId,
    dropout_mask: Option<TensorId>,
    probabilities: TensorId, // as multiplied with the values
}

/// Fused kernels save the output and one log-sum-exp per row. Flash attention also saves the state
/// of its random generator, 1 KiB per layer, which is not counted.
pub(super) fn fused(
    p: &mut ModelPass<'_>,
    layer: u32,
    again: &str,
    qkv: TensorId,
) -> AttentionOutput {
    let h = format!("h.{layer}");
    let (channels, heads) = (p.channels(), u64::from(p.tape.model.heads));
    let kernel = FusedKernel::of(p);
    let head = channels / heads;
    if kernel == FusedKernel::Flash && !head.is_multiple_of(FLASH_HEAD_MULTIPLE) {
        return padded(p, &h, again, qkv, head.next_multiple_of(FLASH_HEAD_MULTIPLE));
    }
    if kernel == FusedKernel::ForCpu && p.dropout {
        let (mut out, saved) = math_attention::forward(p, &h, again, qkv);
        if heads > 1 {
            let together = p.value(format_args!("{h}.attn.out{again}"), channels);
            p.tape.run("clone", &[out], &[together]);
            out = together;
        }
        return AttentionOutput { out, names: Vec::new(), saved: SavedForBackward::Math(saved) };
    }
    let out = p.value(format_args!("{h}.attn.out{again}"), channels);
    let rows = match kernel {
        FusedKernel::Efficient => p.seq.next_multiple_of(EFFICIENT_LSE_MULTIPLE),
        FusedKernel::Flash | FusedKernel::ForCpu => p.seq,
    };
    let mut into = vec![out];
    // The memory-efficient kernel computes none if no gradient is needed.
    let lse = (p.is_recorded || kernel != FusedKernel::Efficient).then(|| {
        let shape = [p.batch, heads, rows];
        p.tape.value(format_args!("{h}.attn.lse{again}"), &shape, DType::F32)
    });
    into.extend(lse);
    p.tape.run(kernel.forward(), &[qkv], &into);
    AttentionOutput { out, names: Vec::new(), saved: SavedForBackward::Fused { qkv, lse } }
}

/// Flash attention of heads that need padding: queries, keys and values are copied into wider
/// heads, and the output is copied back.
fn padded(
    p: &mut ModelPass<'_>,
    h: &str,
    again: &str,
    qkv: TensorId,
    head: u64,
) -> AttentionOutput {
    let heads = u64::from(p.tape.model.heads);
    let wide = [p.batch, heads, p.seq, head];
    let compute = p.compute();
    let parts = ["q", "k", "v"].map(|part| {
        let name = format_args!("{h}.attn.{part} padded{again}");
        let copy = p.tape.value(name, &wide, compute);
        p.tape.run("constant_pad_nd", &[qkv], &[copy]);
        copy
    });
    let wide_out = p.tape.value(format_args!("{h}.attn.out padded{again}"), &wide, compute);
    let rows = [p.batch, heads, p.seq];
    let lse = p.tape.value(format_args!("{h}.attn.lse{again}"), &rows, DType::F32);
    p.tape.run(FusedKernel::Flash.forward(), &parts, &[wide_out, lse]);
    let out = p.value(format_args!("{h}.attn.out{again}"), p.channels());
    p.tape.run("clone", &[wide_out], &[out]);
    p.tape.hold(&[qkv]);
    let saved = SavedForBackward::PaddedHeads(PaddedHeads { parts, out: wide_out, lse });
    AttentionOutput { out, names: Vec::new(), saved }
}

/// The gradients of queries, keys and values whose heads were padded.
fn padded_backward(
    p: &mut ModelPass<'_>,
    h: &str,
    saved: &PaddedHeads,
    d_out: TensorId,
) -> [TensorId; 3] {
    let PaddedHeads { parts: [q, k, v], out, lse } = *saved;
    let wide = p.tape.shape_of(out);
    let compute = p.compute();
    let d_wide = p.tape.value(format_args!("d_{h}.attn.out padded"), &wide, compute);
    p.tape.run("slice_backward", &[d_out], &[d_wide]);
    let gradients = ["q", "k", "v"]
        .map(|part| p.tape.value(format_args!("d_{h}.attn.{part} padded"), &wide, compute));
    p.tape.run(FusedKernel::Flash.backward(), &[d_wide, q, k, v, out, lse], &gradients);
    // Autograd runs the newest node first.
    let [d_q, d_k, d_v] = gradients;
    let [d_v, d_k, d_q] = [("v", d_v), ("k", d_k), ("q", d_q)].map(|(part, gradient)| {
        let cut = p.value(format_args!("d_{h}.attn.{part}"), p.channels());
        p.tape.run("constant_pad_nd", &[gradient], &[cut]);
        cut
    });
    [d_q, d_k, d_v]
}

/// Scores, mask, softmax, product: each a tensor of (B, H, T, T).
pub(super) fn plain(
    p: &mut ModelPass<'_>,
    layer: u32,
    again: &str,
    qkv: TensorId,
) -> AttentionOutput {
    let h = format!("h.{layer}");
    let compute = p.compute();
    let heads = u64::from(p.tape.model.heads);
    let rows = [p.batch, heads, p.seq, p.channels() / heads];
    let named = |part: &'static str| {
        let h = &h;
        fmt::from_fn(move |f| write!(f, "{h}.attn.{part}{again}"))
    };
    // A batched product needs contiguous heads; with one sequence or one head they are.
    let is_copied = p.batch > 1 && heads > 1;
    let gather = |p: &mut ModelPass<'_>, part: &'static str| {
        if !is_copied {
            return qkv;
        }
        let copy = p.tape.value(named(part), &rows, compute);
        p.tape.run("clone", &[qkv], &[copy]);
        copy
    };

    let q = gather(p, "q");
    let k = gather(p, "k");
    let raw = p.pairs(named("scores"), compute, TensorRole::AttentionScores);
    p.tape.run("bmm", &[q, k], &[raw]);
    let scaled = p.pairs(named("scores scaled"), compute, TensorRole::AttentionScores);
    p.tape.run("mul", &[raw], &[scaled]);
    let is_masked = p.tape.value(named("is masked"), &[p.seq, p.seq], DType::U8);
    let mask = p.tape.state(&mask_name(layer));
    p.tape.run("eq", &[mask], &[is_masked]);
    let masked = p.pairs(named("scores masked"), compute, TensorRole::AttentionScores);
    p.tape.run("masked_fill", &[scaled, is_masked], &[masked]);
    let (is_wide, softmax_dtype) = softmax_type(p);
    let wide = if is_wide { p.tape.cast(masked, DType::F32) } else { masked };
    let softmax = p.pairs(named("softmax"), softmax_dtype, TensorRole::AttentionSoftmax);
    p.tape.run("_softmax", &[wide], &[softmax]);
    p.tape.hold(&[masked]);
    let DropoutOutput { out: dropped, mask: dropout_mask } = p.drop(named("softmax"), softmax);
    let probabilities = if is_wide { p.tape.cast(dropped, compute) } else { dropped };
    let v = gather(p, "v");
    let mut out = p.tape.value(named("weighted"), &rows, compute);
    p.tape.run("bmm", &[probabilities, v], &[out]);
    p.tape.hold(&[dropped]);
    if heads > 1 {
        let together = p.value(named("out"), p.channels());
        p.tape.run("clone", &[out], &[together]);
        out = together;
    }
    let saved = ScoreTensors { q, k, v, is_masked, softmax, dropout_mask, probabilities };
    AttentionOutput { out, names: vec![dropped], saved: SavedForBackward::ScoreTensors(saved) }
}

/// Whether autocast runs a softmax in float32, which only CUDA does, and the softmax's type.
fn softmax_type(p: &ModelPass<'_>) -> (bool, DType) {
    let is_wide = p.is_autocast() && p.options.rules == Rules::Cuda;
    (is_wide, if is_wide { DType::F32 } else { p.compute() })
}

/// The gradient of `qkv`.
pub(super) fn backward(
    p: &mut ModelPass<'_>,
    h: &str,
    attention: &AttentionOutput,
    d_out: TensorId,
) -> TensorId {
    let columns = p.channels();
    let parts = match &attention.saved {
        SavedForBackward::Fused { qkv, lse } => {
            let parts =
                ["q", "k", "v"].map(|part| p.value(format_args!("d_{h}.attn.{part}"), columns));
            let lse = lse.expect("a recorded pass has a log-sum-exp");
            let name = FusedKernel::of(p).backward();
            p.tape.run(name, &[d_out, *qkv, attention.out, lse], &parts);
            parts
        }
        SavedForBackward::PaddedHeads(saved) => padded_backward(p, h, saved, d_out),
        SavedForBackward::Math(saved) => math_attention::backward(p, h, saved, d_out),
        SavedForBackward::ScoreTensors(saved) => plain_backward(p, h, saved, d_out),
    };
    let d_qkv = p.value(format_args!("d_{h}.attn.qkv"), 3 * columns);
    p.tape.run("cat", &parts, &[d_qkv]);
    d_qkv
}

fn plain_backward(
    p: &mut ModelPass<'_>,
    h: &str,
    saved: &ScoreTensors,
    d_out: TensorId,
) -> [TensorId; 3] {
    let compute = p.compute();
    let heads = u64::from(p.tape.model.heads);
    let columns = p.channels();
    let named = |part: &'static str| fmt::from_fn(move |f| write!(f, "d_{h}.attn.{part}"));
    let mut d_weighted = d_out;
    if p.batch > 1 && heads > 1 {
        d_weighted = p.value(named("weighted"), columns);
        p.tape.run("clone", &[d_out], &[d_weighted]);
    }
    let d_v = p.value(named("v"), columns);
    p.tape.run("bmm", &[saved.probabilities, d_weighted], &[d_v]);
    let mut d = p.pairs(named("probabilities"), compute, TensorRole::AttentionScores);
    p.tape.run("bmm", &[d_weighted, saved.v], &[d]);
    p.tape.hold(&[saved.probabilities]);
    let (is_wide, softmax_dtype) = softmax_type(p);
    if is_wide {
        d = p.tape.cast(d, DType::F32);
    }
    d = p.gradient_before_dropout(named("softmax"), d, saved.dropout_mask);
    let mut d_scores = p.pairs(named("scores masked"), softmax_dtype, TensorRole::AttentionScores);
    p.tape.run("_softmax_backward_data", &[d, saved.softmax], &[d_scores]);
    if is_wide {
        d_scores = p.tape.cast(d_scores, compute);
    }
    let d_scaled = p.pairs(named("scores scaled"), compute, TensorRole::AttentionScores);
    p.tape.run("masked_fill", &[d_scores, saved.is_masked], &[d_scaled]);
    let d_raw = p.pairs(named("scores"), compute, TensorRole::AttentionScores);
    p.tape.run("mul", &[d_scaled], &[d_raw]);
    let d_q = p.value(named("q"), columns);
    p.tape.run("bmm", &[d_raw, saved.k], &[d_q]);
    let d_k = p.value(named("k"), columns);
    p.tape.run("bmm", &[d_raw, saved.q], &[d_k]);
    p.tape.hold(&[saved.k]);
    if heads == 1 {
        return [d_q, d_k, d_v];
    }
    // Heads are joined again, one tensor at a time.
    let parts = [("q", d_q), ("k", d_k), ("v", d_v)];
    parts.map(|(part, split)| {
        let together = p.value(format_args!("d_{h}.attn.{part} together"), columns);
        p.tape.run("clone", &[split], &[together]);
        together
    })
}
