//! The instructions of a program.
//!
//! An op names tensors. Their slots are in the plan, their computation in kernels. Values that
//! change from step to step (learning rate, counters, the length of a cache) are arguments of
//! running a program, not part of an op.
//!
//! Shapes in comments: B sequences, T tokens each, C channels, V vocabulary, H query heads, G
//! key/value heads, D channels of a head, F inner channels of an MLP.

use super::{
    element_rule::{Adam, ElementRule},
    rope::Rope,
};
use crate::units::{DType, TensorId};

/// How an op touches a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Reads,
    /// Overwrites all of it.
    Writes,
    /// Reads and changes it.
    Updates,
}

/// One tensor of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Which tensor.
    pub tensor: TensorId,
    /// How the op touches it.
    pub access: Access,
}

/// The op reads `tensor`.
pub fn reads(tensor: TensorId) -> Operand {
    Operand { tensor, access: Access::Reads }
}

/// The op overwrites `tensor`.
pub fn writes(tensor: TensorId) -> Operand {
    Operand { tensor, access: Access::Writes }
}

/// The op changes `tensor` in place.
pub fn updates(tensor: TensorId) -> Operand {
    Operand { tensor, access: Access::Updates }
}

/// Which GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gelu {
    /// With the error function, as in nanoGPT.
    Exact,
    /// With the tanh approximation, as in OpenAI's GPT-2.
    Tanh,
}

impl Gelu {
    /// As written in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Tanh => "tanh",
        }
    }

    /// Every name.
    pub const NAMES: &'static [&'static str] = &["exact", "tanh"];

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Exact, Self::Tanh].into_iter().find(|gelu| gelu.name() == name)
    }
}

/// How Muon scales its learning rate by a matrix's shape: `torch.optim.Muon`'s `adjust_lr_fn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdjustLr {
    /// Times `√max(1, out / in)`.
    Original,
    /// Times `0.2 √max(out, in)`: updates as large as `AdamW`'s.
    MatchRmsAdamW,
    /// Times `√(out / in)`.
    SpectralUnclamped,
}

impl AdjustLr {
    /// As written in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::MatchRmsAdamW => "match_rms_adamw",
            Self::SpectralUnclamped => "spectral_unclamped",
        }
    }

    /// Every name.
    pub const NAMES: &'static [&'static str] =
        &["original", "match_rms_adamw", "spectral_unclamped"];

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Original, Self::MatchRmsAdamW, Self::SpectralUnclamped];
        all.into_iter().find(|adjust| adjust.name() == name)
    }
}

/// Where in the model a mask applies. Site and layer are part of the random generator's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropoutSite {
    /// After the embeddings.
    Embedding,
    /// On the attention's probabilities.
    Attention,
    /// After the attention's projection.
    AttentionOut,
    /// After the MLP's projection.
    MlpOut,
}

/// Elements are kept with probability `1 - rate` and then divided by it.
///
/// Never stored: the mask is a function of (seed, step, sequence, layer, site, element).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Probability of a zero; above 0 and below 1.
    pub rate: f32,
    /// Counted from 0 at the input; 0 for the embedding.
    pub layer: u32,
    /// Where in the layer.
    pub site: DropoutSite,
}

/// The tensors of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "queries, keys and values are named as in the literature")]
pub enum Qkv {
    /// Next to each other in one tensor, (B, T, (H + 2 G) D).
    Joined(TensorId),
    /// Queries (B, T, H·D), keys and values (B, T, G·D).
    Split { q: TensorId, k: TensorId, v: TensorId },
}

impl Qkv {
    /// The tensors: one or three.
    pub fn tensors(self) -> impl Iterator<Item = TensorId> {
        let [first, rest @ ..] = match self {
            Self::Joined(all) => [Some(all), None, None],
            Self::Split { q, k, v } => [Some(q), Some(k), Some(v)],
        };
        first.into_iter().chain(rest.into_iter().flatten())
    }

    /// The tensor that holds the queries.
    pub fn queries(self) -> TensorId {
        match self {
            Self::Joined(all) => all,
            Self::Split { q, .. } => q,
        }
    }
}

/// The number of heads and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads: H.
    pub query: u32,
    /// Key/value heads, each serving `query / kv` query heads: G.
    pub kv: u32,
    /// Channels of a head: D.
    pub channels: u32,
}

/// The direction of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// By the angle of the position.
    Forward,
    /// Back: the gradient of a rotation.
    Back,
}

/// Muon's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Muon {
    /// Its learning rate, as a multiple of the step's.
    pub lr_ratio: f32,
    /// How the learning rate follows from the shape.
    pub adjust: AdjustLr,
    /// Decay of the mean.
    pub momentum: f32,
    /// Whether the gradient is mixed into the mean once more.
    pub nesterov: bool,
    /// Newton-Schulz iterations.
    pub steps: u32,
    /// Their coefficients.
    pub coefficients: [f32; 3],
    /// The least norm that is divided by.
    pub epsilon: f32,
    /// How the iteration's matrices are stored: float32 or bfloat16.
    pub dtype: DType,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Largest norm of the whole gradient; 0 for no limit.
    pub grad_clip: f32,
}

impl Muon {
    /// What the learning rate of a matrix (out, in) is multiplied by.
    pub fn adjustment(&self, out: u64, inputs: u64) -> f64 {
        let (out, inputs) = (out as f64, inputs as f64);
        match self.adjust {
            AdjustLr::Original => (out / inputs).max(1.0).sqrt(),
            AdjustLr::MatchRmsAdamW => 0.2 * out.max(inputs).sqrt(),
            AdjustLr::SpectralUnclamped => (out / inputs).sqrt(),
        }
    }
}

/// Elements of an 8-bit state that share a scale.
pub const QUANTISED_BLOCK: u64 = 256;

/// Elements of the smallest part of a parameter that a rank owns. The squares of a gradient are
/// summed over the same blocks, so the norm does not depend on which rank sums them. A multiple of
/// the block that shares a scale in 8-bit states.
pub const SHARD_BLOCK: u64 = 1 << 14;

/// One instruction.
///
/// Gradients of activations are assigned, gradients of parameters are added to: activations
/// are written once per micro-batch, gradients of parameters accumulate over all micro-batches.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "operands are named as in the formulas")]
pub enum Op {
    /// `out = drop(wte[tokens] + wpe[position])`; tokens (B, T), out (B, T, C).
    Embed {
        tokens: TensorId,
        wte: TensorId,
        wpe: Option<TensorId>,
        out: TensorId,
        dropout: Option<Dropout>,
    },
    /// `out = (x - mean) * rstd * weight + bias` over rows as long as `weight`: the last axis, or
    /// each head of it. `rstd = 1 / √(variance + epsilon)`; mean, rstd: one for each row.
    ///
    /// Without `mean` it is RMS norm: the mean counts as 0, there and in the variance.
    Norm {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        out: TensorId,
        mean: Option<TensorId>,
        rstd: TensorId,
        epsilon: f32,
    },
    /// Recomputes `Norm` from the saved `mean` and `rstd`: the same bits.
    NormAgain {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        mean: Option<TensorId>,
        rstd: TensorId,
        out: TensorId,
    },
    /// Rotates each head of `x` by its position, in place; x (B, T, heads·D), table (positions, D).
    ///
    /// A row of the table has the cosines of D/2 pairs, then their sines. Pair `i` of a head is
    /// `(x[i], x[i + D/2])`. The table is a constant: see [`Program::constants`].
    ///
    /// [`Program::constants`]: super::Program::constants
    Rotary { x: TensorId, table: TensorId, rope: Rope, turn: Turn },
    /// `out = x · weightᵀ + bias`; x (…, K), weight (N, K), out (…, N).
    Linear { x: TensorId, weight: TensorId, bias: Option<TensorId>, out: TensorId },
    /// `pre = x · weightᵀ + bias; out = gelu(pre)`. `pre` is kept only for a backward.
    LinearGelu {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        pre: Option<TensorId>,
        out: TensorId,
        gelu: Gelu,
    },
    /// `up = x · weightᵀ + bias; out = silu(gate) * up`. `up` is kept only for a backward; `out` is
    /// computed from `up` as it is stored.
    LinearSwiGlu {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        gate: TensorId,
        up: Option<TensorId>,
        out: TensorId,
    },
    /// `out = residual + drop(x · weightᵀ + bias)`.
    LinearResidual {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        residual: TensorId,
        out: TensorId,
        dropout: Option<Dropout>,
    },
    /// Causal attention of every head; out (B, T, H·D), lse (B, H, T). Query head `h` attends to
    /// key/value head `h / (H / G)`.
    ///
    /// `lse` is the log of the sum of exponentials of a row of scores: with it the backward
    /// recomputes the probabilities.
    Attention { qkv: Qkv, out: TensorId, lse: TensorId, heads: Heads, dropout: Option<Dropout> },
    /// The mean loss of each sequence: x (B, T, C), weight (V, C), losses (B).
    ///
    /// `logits` holds some rows at a time; a full (B·T, V) tensor never exists.
    CrossEntropy {
        x: TensorId,
        weight: TensorId,
        targets: TensorId,
        logits: TensorId,
        losses: TensorId,
    },
    /// The loss and its gradients, some rows at a time: `loss += Σ rows / mean_over`,
    /// `d_x = scale / mean_over · (softmax - onehot) · weight`, `d_weight += …ᵀ · x`.
    CrossEntropyBackward {
        x: TensorId,
        weight: TensorId,
        targets: TensorId,
        logits: TensorId,
        loss: TensorId,
        d_x: TensorId,
        d_weight: TensorId,
        /// Tokens of the effective batch.
        mean_over: u64,
    },
    /// Gradient of `Norm`; assigns `d_x`.
    NormBackward {
        x: TensorId,
        weight: TensorId,
        mean: Option<TensorId>,
        rstd: TensorId,
        d_out: TensorId,
        d_x: TensorId,
        d_weight: TensorId,
        d_bias: Option<TensorId>,
    },
    /// Gradient of `Norm`, added to the gradient of the residual stream.
    NormBackwardAdd {
        x: TensorId,
        weight: TensorId,
        mean: Option<TensorId>,
        rstd: TensorId,
        d_out: TensorId,
        d_x: TensorId,
        d_weight: TensorId,
        d_bias: Option<TensorId>,
    },
    /// `d_x = d_out · weight`.
    LinearBackwardInput { d_out: TensorId, weight: TensorId, d_x: TensorId },
    /// `d_x += d_out · weight`: another layer reads the same input.
    LinearBackwardInputAdd { d_out: TensorId, weight: TensorId, d_x: TensorId },
    /// `d_pre = (d_out · weight) * gelu'(pre); pre = gelu(pre)`: recomputes the activation in
    /// place of its input, which is not needed any more.
    LinearBackwardGelu {
        d_out: TensorId,
        weight: TensorId,
        pre: TensorId,
        d_pre: TensorId,
        gelu: Gelu,
    },
    /// With `d = d_out · weight` and `s = 1 / (1 + exp(-gate))`, all from the old values:
    /// `out = gate * s * up; gate = d * up * s * (1 + gate * (1 - s)); up = d * gate * s`: recomputes
    /// the activation, and replaces gate and up by their gradients.
    LinearBackwardSwiGlu {
        d_out: TensorId,
        weight: TensorId,
        gate: TensorId,
        up: TensorId,
        out: TensorId,
    },
    /// `d_weight += d_outᵀ · x; d_bias += Σ d_out`.
    LinearBackwardWeight {
        d_out: TensorId,
        x: TensorId,
        d_weight: TensorId,
        d_bias: Option<TensorId>,
    },
    /// Gradient of `Attention`; assigns `d_qkv`.
    AttentionBackward {
        qkv: Qkv,
        out: TensorId,
        lse: TensorId,
        d_out: TensorId,
        d_qkv: Qkv,
        heads: Heads,
        dropout: Option<Dropout>,
    },
    /// `out = drop(x)`: the gradient of a dropout is the same dropout.
    Dropout { x: TensorId, out: TensorId, dropout: Dropout },
    /// `d_wte[tokens] += drop(d_x); d_wpe[position] += drop(d_x)`.
    EmbedBackward {
        tokens: TensorId,
        d_x: TensorId,
        d_wte: TensorId,
        d_wpe: Option<TensorId>,
        dropout: Option<Dropout>,
    },
    /// `norm = √ Σ gradient²` over all of them, divided by the loss scale.
    GradientNorm { gradients: Vec<TensorId>, norm: TensorId },
    /// One update of a parameter's elements from `first` on, as many as each state has. Their
    /// gradient is set to zero. If `norm` is not finite, only the gradient changes.
    Update {
        norm: TensorId,
        parameter: TensorId,
        gradient: TensorId,
        /// Those of the rule, in its order.
        states: Vec<TensorId>,
        first: u64,
        /// Whether weight decay applies.
        decays: bool,
        rule: ElementRule,
    },
    /// `AdamW` with moments in 8 bits: codes of a dynamic map, and the largest magnitude of each
    /// block of [`QUANTISED_BLOCK`] elements as its scale. The update uses the new moments before
    /// they are rounded to codes.
    AdamW8bit {
        norm: TensorId,
        parameter: TensorId,
        gradient: TensorId,
        exp_avg: TensorId,
        exp_avg_scale: TensorId,
        exp_avg_sq: TensorId,
        exp_avg_sq_scale: TensorId,
        /// A multiple of the block.
        first: u64,
        /// Whether weight decay applies.
        decays: bool,
        adam: Adam,
    },
    /// One Muon update of one matrix, (out, in); its gradient is set to zero. If `norm` is not
    /// finite, only the gradient changes.
    ///
    /// With `g` the clipped gradient: `momentum += (1 - µ) (g - momentum)`, and `u` is that or,
    /// with Nesterov, `g + µ (momentum - g)`. `X = u / max(‖u‖, ε)`; then `steps` times
    /// `G = X Xᵀ; X = a X + (b G + c G G) X`; at last
    /// `parameter = parameter (1 - lr weight_decay) - lr adjustment X`. `u`, `X`, `G` and
    /// `b G + c G G` are stored as `dtype`. The product `X Xᵀ` is over the longer axis.
    Muon { norm: TensorId, parameter: TensorId, gradient: TensorId, momentum: TensorId, muon: Muon },
    /// Puts the keys and values of a prompt into the cache: one sequence of T rows, cache
    /// (B, T, G·D).
    StoreCache { qkv: Qkv, keys: TensorId, values: TensorId, heads: Heads },
    /// One token per sequence: appends to the cache, then attends to all of it.
    CachedAttention { qkv: Qkv, keys: TensorId, values: TensorId, out: TensorId, heads: Heads },
    /// The last row in use: x (1, T, C), out (1, 1, C).
    LastRow { x: TensorId, out: TensorId },
    /// An op of another engine: counted and planned, never run here.
    Named { name: &'static str, operands: Vec<Operand> },
}

/// Passes every operand to a function instead of collecting them.
struct OperandVisitor<F>(F);

impl<F: FnMut(Operand)> OperandVisitor<F> {
    fn extend(&mut self, operands: impl IntoIterator<Item = Operand>) {
        operands.into_iter().for_each(&mut self.0);
    }
}

impl Op {
    /// Everything this op touches. Liveness is built from this alone, so an operand missing
    /// here is memory reused too early at run time.
    pub fn operands(&self) -> Vec<Operand> {
        let mut list = Vec::with_capacity(8);
        self.visit(|operand| list.push(operand));
        list
    }

    /// Calls `visitor` with every operand, in the same order and without allocating.
    #[expect(clippy::too_many_lines, reason = "a table: the operands of every op")]
    pub fn visit(&self, visitor: impl FnMut(Operand)) {
        let mut list = OperandVisitor(visitor);
        match *self {
            Self::Embed { tokens, wte, wpe, out, .. } => {
                list.extend([reads(tokens), reads(wte)]);
                list.extend(wpe.map(reads));
                list.extend([writes(out)]);
            }
            Self::Norm { x, weight, bias, out, mean, rstd, .. } => {
                list.extend([reads(x), reads(weight), writes(out)]);
                list.extend(mean.map(writes));
                list.extend([writes(rstd)]);
                list.extend(bias.map(reads));
            }
            Self::NormAgain { x, weight, bias, mean, rstd, out } => {
                list.extend([reads(x), reads(weight)]);
                list.extend(mean.map(reads));
                list.extend([reads(rstd), writes(out)]);
                list.extend(bias.map(reads));
            }
            Self::Rotary { x, table, .. } => list.extend([updates(x), reads(table)]),
            Self::Linear { x, weight, bias, out } => {
                list.extend([reads(x), reads(weight), writes(out)]);
                list.extend(bias.map(reads));
            }
            Self::LinearGelu { x, weight, bias, pre, out, .. } => {
                list.extend([reads(x), reads(weight), writes(out)]);
                list.extend(bias.map(reads));
                list.extend(pre.map(writes));
            }
            Self::LinearSwiGlu { x, weight, bias, gate, up, out } => {
                list.extend([reads(x), reads(weight), reads(gate), writes(out)]);
                list.extend(bias.map(reads));
                list.extend(up.map(writes));
            }
            Self::LinearResidual { x, weight, bias, residual, out, .. } => {
                list.extend([reads(x), reads(weight), reads(residual), writes(out)]);
                list.extend(bias.map(reads));
            }
            Self::Dropout { x, out, .. } | Self::LastRow { x, out } => {
                list.extend([reads(x), writes(out)]);
            }
            Self::Attention { qkv, out, lse, .. } => {
                list.extend(qkv.tensors().map(reads));
                list.extend([writes(out), writes(lse)]);
            }
            Self::CrossEntropy { x, weight, targets, logits, losses } => list.extend([
                reads(x),
                reads(weight),
                reads(targets),
                writes(logits),
                writes(losses),
            ]),
            Self::CrossEntropyBackward {
                x, weight, targets, logits, loss, d_x, d_weight, ..
            } => list.extend([
                reads(x),
                reads(weight),
                reads(targets),
                writes(logits),
                updates(loss),
                writes(d_x),
                updates(d_weight),
            ]),
            Self::NormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias }
            | Self::NormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
                let adds = matches!(self, Self::NormBackwardAdd { .. });
                list.extend([reads(x), reads(weight)]);
                list.extend(mean.map(reads));
                list.extend([reads(rstd), reads(d_out)]);
                list.extend([if adds { updates(d_x) } else { writes(d_x) }, updates(d_weight)]);
                list.extend(d_bias.map(updates));
            }
            Self::LinearBackwardInput { d_out, weight, d_x } => {
                list.extend([reads(d_out), reads(weight), writes(d_x)]);
            }
            Self::LinearBackwardInputAdd { d_out, weight, d_x } => {
                list.extend([reads(d_out), reads(weight), updates(d_x)]);
            }
            Self::LinearBackwardSwiGlu { d_out, weight, gate, up, out } => {
                list.extend([reads(d_out), reads(weight), updates(gate), updates(up), writes(out)]);
            }
            Self::LinearBackwardGelu { d_out, weight, pre, d_pre, .. } => {
                list.extend([reads(d_out), reads(weight), updates(pre), writes(d_pre)]);
            }
            Self::LinearBackwardWeight { d_out, x, d_weight, d_bias } => {
                list.extend([reads(d_out), reads(x), updates(d_weight)]);
                list.extend(d_bias.map(updates));
            }
            Self::AttentionBackward { qkv, out, lse, d_out, d_qkv, .. } => {
                list.extend(qkv.tensors().map(reads));
                list.extend([reads(out), reads(lse), reads(d_out)]);
                list.extend(d_qkv.tensors().map(writes));
            }
            Self::EmbedBackward { tokens, d_x, d_wte, d_wpe, .. } => {
                list.extend([reads(tokens), reads(d_x), updates(d_wte)]);
                list.extend(d_wpe.map(updates));
            }
            Self::GradientNorm { ref gradients, norm } => {
                list.extend(gradients.iter().copied().map(reads));
                list.extend([writes(norm)]);
            }
            Self::Update { norm, parameter, gradient, ref states, .. } => {
                list.extend([reads(norm), updates(parameter), updates(gradient)]);
                list.extend(states.iter().copied().map(updates));
            }
            Self::AdamW8bit {
                norm,
                parameter,
                gradient,
                exp_avg,
                exp_avg_scale,
                exp_avg_sq,
                exp_avg_sq_scale,
                ..
            } => {
                list.extend([reads(norm)]);
                list.extend([parameter, gradient].map(updates));
                list.extend([exp_avg, exp_avg_scale, exp_avg_sq, exp_avg_sq_scale].map(updates));
            }
            Self::Muon { norm, parameter, gradient, momentum, .. } => {
                list.extend([reads(norm)]);
                list.extend([parameter, gradient, momentum].map(updates));
            }
            Self::StoreCache { qkv, keys, values, .. } => {
                list.extend(qkv.tensors().map(reads));
                list.extend([updates(keys), updates(values)]);
            }
            Self::CachedAttention { qkv, keys, values, out, .. } => {
                list.extend(qkv.tensors().map(reads));
                list.extend([updates(keys), updates(values), writes(out)]);
            }
            Self::Named { ref operands, .. } => list.extend(operands.iter().copied()),
        }
    }

    /// The op's name in reports and profiles.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "embed",
            Self::Norm { mean: Some(_), .. } => "layer_norm",
            Self::Norm { mean: None, .. } => "rms_norm",
            Self::NormAgain { mean: Some(_), .. } => "layer_norm_again",
            Self::NormAgain { mean: None, .. } => "rms_norm_again",
            Self::Rotary { turn: Turn::Forward, .. } => "rotary",
            Self::Rotary { turn: Turn::Back, .. } => "rotary_back",
            Self::Linear { .. } => "linear",
            Self::LinearGelu { .. } => "linear_gelu",
            Self::LinearSwiGlu { .. } => "linear_swiglu",
            Self::LinearResidual { .. } => "linear_residual",
            Self::Attention { .. } => "attention",
            Self::CrossEntropy { .. } => "cross_entropy",
            Self::CrossEntropyBackward { .. } => "cross_entropy_backward",
            Self::NormBackward { mean: Some(_), .. } => "layer_norm_backward",
            Self::NormBackward { mean: None, .. } => "rms_norm_backward",
            Self::NormBackwardAdd { mean: Some(_), .. } => "layer_norm_backward_add",
            Self::NormBackwardAdd { mean: None, .. } => "rms_norm_backward_add",
            Self::LinearBackwardInput { .. } => "linear_backward_input",
            Self::LinearBackwardInputAdd { .. } => "linear_backward_input_add",
            Self::LinearBackwardSwiGlu { .. } => "linear_backward_swiglu",
            Self::LinearBackwardGelu { .. } => "linear_backward_gelu",
            Self::LinearBackwardWeight { .. } => "linear_backward_weight",
            Self::AttentionBackward { .. } => "attention_backward",
            Self::Dropout { .. } => "dropout",
            Self::EmbedBackward { .. } => "embed_backward",
            Self::GradientNorm { .. } => "gradient_norm",
            Self::Update { rule, .. } => rule.name(),
            Self::AdamW8bit { .. } => "adamw8bit",
            Self::Muon { .. } => "muon",
            Self::StoreCache { .. } => "store_cache",
            Self::CachedAttention { .. } => "cached_attention",
            Self::LastRow { .. } => "last_row",
            Self::Named { name, .. } => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_back_as_it_prints() {
        for name in Gelu::NAMES {
            assert_eq!(Gelu::parse(name).unwrap().name(), *name);
        }
        for name in AdjustLr::NAMES {
            assert_eq!(AdjustLr::parse(name).unwrap().name(), *name);
        }
    }
}
