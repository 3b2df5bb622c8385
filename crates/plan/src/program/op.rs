//! The instructions of a program.
//!
//! An op names tensors; where those live is the plan's business, and how it is computed a
//! kernel's. What changes from step to step (learning rate, counters, the length of a cache)
//! is an argument of running a program and never stands here.
//!
//! Shapes in comments: B sequences, T tokens each, C channels, V vocabulary, H heads.

use crate::{config::Gelu, units::TensorId};

/// How an op touches a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looks at it.
    Reads,
    /// Fills it whole; what was there does not matter.
    Writes,
    /// Looks at it and changes it.
    Updates,
}

/// One tensor of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Which tensor.
    pub tensor: TensorId,
    /// What happens to it.
    pub access: Access,
}

/// The op looks at `tensor`.
pub fn reads(tensor: TensorId) -> Operand {
    Operand { tensor, access: Access::Reads }
}

/// The op fills `tensor`.
pub fn writes(tensor: TensorId) -> Operand {
    Operand { tensor, access: Access::Writes }
}

/// The op changes `tensor` in place.
pub fn updates(tensor: TensorId) -> Operand {
    Operand { tensor, access: Access::Updates }
}

/// Where in the model a mask is drawn. With the layer it keys the counter generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
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
    /// Counted from the bottom; 0 for the embedding.
    pub layer: u32,
    /// Where in the layer.
    pub site: Site,
}

/// A parameter with all that its update touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    /// The weights.
    pub parameter: TensorId,
    /// Their gradient; the update leaves zeros.
    pub gradient: TensorId,
    /// Adam's first moment.
    pub exp_avg: TensorId,
    /// Adam's second moment.
    pub exp_avg_sq: TensorId,
    /// Whether weight decay applies.
    pub decays: bool,
}

/// AdamW's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Largest norm of the whole gradient; 0 for no limit.
    pub grad_clip: f32,
}

/// One instruction.
///
/// Gradients of activations are assigned, gradients of parameters are added to: activations
/// are written once a micro-batch, parameters collect over all of them.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "operands are named as in the maths beside them")]
pub enum Op {
    /// `out = drop(wte[tokens] + wpe[position])`; tokens (B, T), out (B, T, C).
    Embed {
        tokens: TensorId,
        wte: TensorId,
        wpe: TensorId,
        out: TensorId,
        dropout: Option<Dropout>,
    },
    /// `out = (x - mean) * rstd * weight + bias`, over the last axis; mean, rstd (B, T).
    LayerNorm {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        out: TensorId,
        mean: TensorId,
        rstd: TensorId,
    },
    /// `LayerNorm` once more from the saved `mean` and `rstd`: the same bits.
    LayerNormAgain {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        mean: TensorId,
        rstd: TensorId,
        out: TensorId,
    },
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
    /// `out = residual + drop(x · weightᵀ + bias)`.
    LinearResidual {
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        residual: TensorId,
        out: TensorId,
        dropout: Option<Dropout>,
    },
    /// Causal attention of every head; qkv (B, T, 3C), out (B, T, C), lse (B, H, T).
    ///
    /// `lse` is the log of the sum of exponentials of a row of scores: with it the backward
    /// makes the probabilities again.
    Attention { qkv: TensorId, out: TensorId, lse: TensorId, heads: u32, dropout: Option<Dropout> },
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
    /// Gradient of `LayerNorm`; assigns `d_x`.
    LayerNormBackward {
        x: TensorId,
        weight: TensorId,
        mean: TensorId,
        rstd: TensorId,
        d_out: TensorId,
        d_x: TensorId,
        d_weight: TensorId,
        d_bias: Option<TensorId>,
    },
    /// Gradient of `LayerNorm`, added to what the residual stream already carries.
    LayerNormBackwardAdd {
        x: TensorId,
        weight: TensorId,
        mean: TensorId,
        rstd: TensorId,
        d_out: TensorId,
        d_x: TensorId,
        d_weight: TensorId,
        d_bias: Option<TensorId>,
    },
    /// `d_x = d_out · weight`.
    LinearBackwardInput { d_out: TensorId, weight: TensorId, d_x: TensorId },
    /// `d_pre = (d_out · weight) * gelu'(pre); pre = gelu(pre)`: the activation once more, in
    /// the place of its input, which nobody needs any longer.
    LinearBackwardGelu {
        d_out: TensorId,
        weight: TensorId,
        pre: TensorId,
        d_pre: TensorId,
        gelu: Gelu,
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
        qkv: TensorId,
        out: TensorId,
        lse: TensorId,
        d_out: TensorId,
        d_qkv: TensorId,
        heads: u32,
        dropout: Option<Dropout>,
    },
    /// `out = drop(x)`: the gradient of a dropout is the same dropout.
    Dropout { x: TensorId, out: TensorId, dropout: Dropout },
    /// `d_wte[tokens] += drop(d_x); d_wpe[position] += drop(d_x)`.
    EmbedBackward {
        tokens: TensorId,
        d_x: TensorId,
        d_wte: TensorId,
        d_wpe: TensorId,
        dropout: Option<Dropout>,
    },
    /// `norm = √ Σ gradient²` over all of them, with the loss scale divided out.
    GradientNorm { gradients: Vec<TensorId>, norm: TensorId },
    /// One AdamW update of one parameter; its gradient is left zero. Where `norm` is not
    /// finite nothing but the gradient changes.
    AdamW { norm: TensorId, moments: Moments, adam: Adam },
    /// Puts the keys and values of a prompt into the cache: qkv (1, T, 3C), cache (B, T, C).
    StoreCache { qkv: TensorId, keys: TensorId, values: TensorId },
    /// One token a sequence: appends to the cache, then attends to all of it; qkv (B, 1, 3C).
    CachedAttention { qkv: TensorId, keys: TensorId, values: TensorId, out: TensorId, heads: u32 },
    /// The last row that is in use: x (1, T, C), out (1, 1, C).
    LastRow { x: TensorId, out: TensorId },
    /// An op of another engine: counted and planned, never run here.
    Named { name: &'static str, operands: Vec<Operand> },
}

/// A list that keeps nothing: what is added is shown.
struct Seen<F>(F);

impl<F: FnMut(Operand)> Seen<F> {
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

    /// Shows every operand to `see`, in the same order and without a list.
    pub fn visit(&self, see: impl FnMut(Operand)) {
        let mut list = Seen(see);
        match *self {
            Self::Embed { tokens, wte, wpe, out, .. } => {
                list.extend([reads(tokens), reads(wte), reads(wpe), writes(out)]);
            }
            Self::LayerNorm { x, weight, bias, out, mean, rstd } => {
                list.extend([reads(x), reads(weight), writes(out), writes(mean), writes(rstd)]);
                list.extend(bias.map(reads));
            }
            Self::LayerNormAgain { x, weight, bias, mean, rstd, out } => {
                list.extend([reads(x), reads(weight), reads(mean), reads(rstd), writes(out)]);
                list.extend(bias.map(reads));
            }
            Self::Linear { x, weight, bias, out } => {
                list.extend([reads(x), reads(weight), writes(out)]);
                list.extend(bias.map(reads));
            }
            Self::LinearGelu { x, weight, bias, pre, out, .. } => {
                list.extend([reads(x), reads(weight), writes(out)]);
                list.extend(bias.map(reads));
                list.extend(pre.map(writes));
            }
            Self::LinearResidual { x, weight, bias, residual, out, .. } => {
                list.extend([reads(x), reads(weight), reads(residual), writes(out)]);
                list.extend(bias.map(reads));
            }
            Self::Dropout { x, out, .. } | Self::LastRow { x, out } => {
                list.extend([reads(x), writes(out)]);
            }
            Self::Attention { qkv, out, lse, .. } => {
                list.extend([reads(qkv), writes(out), writes(lse)]);
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
            Self::LayerNormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
                list.extend([reads(x), reads(weight), reads(mean), reads(rstd), reads(d_out)]);
                list.extend([writes(d_x), updates(d_weight)]);
                list.extend(d_bias.map(updates));
            }
            Self::LayerNormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
                list.extend([reads(x), reads(weight), reads(mean), reads(rstd), reads(d_out)]);
                list.extend([updates(d_x), updates(d_weight)]);
                list.extend(d_bias.map(updates));
            }
            Self::LinearBackwardInput { d_out, weight, d_x } => {
                list.extend([reads(d_out), reads(weight), writes(d_x)]);
            }
            Self::LinearBackwardGelu { d_out, weight, pre, d_pre, .. } => {
                list.extend([reads(d_out), reads(weight), updates(pre), writes(d_pre)]);
            }
            Self::LinearBackwardWeight { d_out, x, d_weight, d_bias } => {
                list.extend([reads(d_out), reads(x), updates(d_weight)]);
                list.extend(d_bias.map(updates));
            }
            Self::AttentionBackward { qkv, out, lse, d_out, d_qkv, .. } => {
                list.extend([reads(qkv), reads(out), reads(lse), reads(d_out), writes(d_qkv)]);
            }
            Self::EmbedBackward { tokens, d_x, d_wte, d_wpe, .. } => {
                list.extend([reads(tokens), reads(d_x), updates(d_wte), updates(d_wpe)]);
            }
            Self::GradientNorm { ref gradients, norm } => {
                list.extend(gradients.iter().copied().map(reads));
                list.extend([writes(norm)]);
            }
            Self::AdamW { norm, moments: m, .. } => {
                list.extend([reads(norm)]);
                list.extend([m.parameter, m.gradient, m.exp_avg, m.exp_avg_sq].map(updates));
            }
            Self::StoreCache { qkv, keys, values } => {
                list.extend([reads(qkv), updates(keys), updates(values)]);
            }
            Self::CachedAttention { qkv, keys, values, out, .. } => {
                list.extend([reads(qkv), updates(keys), updates(values), writes(out)]);
            }
            Self::Named { ref operands, .. } => list.extend(operands.iter().copied()),
        }
    }

    /// The op's name in reports and profiles.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "embed",
            Self::LayerNorm { .. } => "layer_norm",
            Self::LayerNormAgain { .. } => "layer_norm_again",
            Self::Linear { .. } => "linear",
            Self::LinearGelu { .. } => "linear_gelu",
            Self::LinearResidual { .. } => "linear_residual",
            Self::Attention { .. } => "attention",
            Self::CrossEntropy { .. } => "cross_entropy",
            Self::CrossEntropyBackward { .. } => "cross_entropy_backward",
            Self::LayerNormBackward { .. } => "layer_norm_backward",
            Self::LayerNormBackwardAdd { .. } => "layer_norm_backward_add",
            Self::LinearBackwardInput { .. } => "linear_backward_input",
            Self::LinearBackwardGelu { .. } => "linear_backward_gelu",
            Self::LinearBackwardWeight { .. } => "linear_backward_weight",
            Self::AttentionBackward { .. } => "attention_backward",
            Self::Dropout { .. } => "dropout",
            Self::EmbedBackward { .. } => "embed_backward",
            Self::GradientNorm { .. } => "gradient_norm",
            Self::AdamW { .. } => "adamw",
            Self::StoreCache { .. } => "store_cache",
            Self::CachedAttention { .. } => "cached_attention",
            Self::LastRow { .. } => "last_row",
            Self::Named { name, .. } => name,
        }
    }
}
