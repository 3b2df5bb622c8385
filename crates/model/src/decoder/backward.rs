//! Writes the backward of a block, op by op.

use fitgpt_program::{DropoutSite, Op, Qkv, Turn, units::TensorId};

use super::builder::{BlockActivations, DecoderBuilder, MlpActivations, NormOutput, NormedValues};
use crate::{BlockWeights, LinearWeights, MlpKind, MlpWeights, NormWeights, QkvWeights};

impl DecoderBuilder<'_> {
    /// Turns `d_x` from the gradient of the block's output into that of its input.
    ///
    /// Weight gradients come first: they are the last ops to read the kept input, so the gradient of
    /// that input can reuse its bytes.
    pub(super) fn block_backward(
        &mut self,
        layer: u32,
        block: &BlockActivations,
        d_x: TensorId,
        normed_values: NormedValues,
    ) {
        let weights = self.block_weights(layer);
        let name = self.block_name(layer);

        // The MLP.
        let d_branch = self.gradient_before_dropout(layer, DropoutSite::MlpOut, d_x, "mlp");
        let d_norm_2 =
            self.mlp_backward(&name, weights.mlp, weights.norm_2, block, d_branch, normed_values);
        self.norm_backward_add(weights.norm_2, block.middle, block.norm_2, d_norm_2, d_x);

        // The attention.
        let d_branch = self.gradient_before_dropout(layer, DropoutSite::AttentionOut, d_x, "attn");
        self.weight_gradient(weights.attention_out, d_branch, block.attended);
        let name_of_gradient = format!("d_{name}.attn");
        let d_attn = self.input_gradient(weights.attention_out, d_branch, &name_of_gradient);
        let d_qkv = self.attention_backward(&name, layer, block, d_attn);
        let (d_parts, layers) = match (d_qkv, weights.qkv) {
            (Qkv::Joined(d_qkv), QkvWeights::Joined(linear)) => (vec![d_qkv], vec![linear]),
            (Qkv::Split { q, k, v }, QkvWeights::Split(layers)) => {
                let [q, k] = self.qk_norm_backward(&weights, block, [q, k]);
                (vec![q, k, v], layers.to_vec())
            }
            _ => unreachable!("activations are joined if the weights are"),
        };
        let normed = self.normed(weights.norm_1, block.x, block.norm_1, normed_values);
        for (layer, d_part) in layers.iter().zip(&d_parts) {
            self.weight_gradient(*layer, *d_part, normed);
        }
        let d_norm_1 = self.input_gradients(&layers, &d_parts, weights.norm_1);
        self.norm_backward_add(weights.norm_1, block.x, block.norm_1, d_norm_1, d_x);
    }

    /// The gradient of the MLP's normalised input.
    fn mlp_backward(
        &mut self,
        name: &str,
        weights: MlpWeights,
        norm: NormWeights,
        block: &BlockActivations,
        d_branch: TensorId,
        normed_values: NormedValues,
    ) -> TensorId {
        let columns = u64::from(self.model.mlp_channels);
        let (down, activated, layers, d_parts) = match (weights, block.inner) {
            (MlpWeights::Gelu { up, down }, MlpActivations::Gelu { pre }) => {
                let MlpKind::Gelu(gelu) = self.model.mlp else {
                    unreachable!("the weights of an MLP are of its kind");
                };
                let d_pre = self.activation(format_args!("d_{name}.mlp.pre"), columns);
                let weight = self.weight(down.weight);
                self.program.op(Op::LinearBackwardGelu {
                    d_out: d_branch,
                    weight,
                    pre,
                    d_pre,
                    gelu,
                });
                (down, pre, vec![up], vec![d_pre])
            }
            (
                MlpWeights::SwiGlu { gate, up, down },
                MlpActivations::SwiGlu { gate: gated, up: kept },
            ) => {
                let out = self.activation(format_args!("{name}.mlp.activated again"), columns);
                let weight = self.weight(down.weight);
                self.program.op(Op::LinearBackwardSwiGlu {
                    d_out: d_branch,
                    weight,
                    gate: gated,
                    up: kept,
                    out,
                });
                (down, out, vec![gate, up], vec![gated, kept])
            }
            _ => unreachable!("an MLP keeps what its kind needs"),
        };
        self.weight_gradient(down, d_branch, activated);
        let normed = self.normed(norm, block.middle, block.norm_2, normed_values);
        for (layer, d_part) in layers.iter().zip(&d_parts) {
            self.weight_gradient(*layer, *d_part, normed);
        }
        self.input_gradients(&layers, &d_parts, norm)
    }

    /// The gradients of the queries, keys and values that the attention read.
    fn attention_backward(
        &mut self,
        name: &str,
        layer: u32,
        block: &BlockActivations,
        d_out: TensorId,
    ) -> Qkv {
        let (queries, keys) = (self.model.query_channels(), self.model.kv_channels());
        let mut part = |part: &str, columns| self.activation(format!("d_{name}.{part}"), columns);
        let d_qkv = match block.qkv {
            Qkv::Joined(_) => Qkv::Joined(part("qkv", queries + 2 * keys)),
            Qkv::Split { .. } => {
                Qkv::Split { q: part("q", queries), k: part("k", keys), v: part("v", keys) }
            }
        };
        let heads = self.heads();
        let dropout = self.dropout_at(layer, DropoutSite::Attention);
        let BlockActivations { qkv, attended: out, lse, .. } = *block;
        self.program.op(Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, dropout });
        d_qkv
    }

    /// The gradients of queries and keys before rotation and normalisation.
    fn qk_norm_backward(
        &mut self,
        weights: &BlockWeights,
        block: &BlockActivations,
        d_parts: [TensorId; 2],
    ) -> [TensorId; 2] {
        for d_part in d_parts {
            self.rotate(d_part, Turn::Back);
        }
        let (Some(layers), Some(kept)) = (weights.qk_norm, block.qk_norm) else { return d_parts };
        std::array::from_fn(|i| {
            let columns = self.program.get(d_parts[i]).columns();
            let name = format!("d_{}.before", self.norm_name(layers[i]));
            let d_x = self.activation(name, columns);
            self.program.op(Op::NormBackward {
                x: kept.before[i],
                weight: self.weight(layers[i].weight),
                mean: kept.norms[i].mean,
                rstd: kept.norms[i].rstd,
                d_out: d_parts[i],
                d_x,
                d_weight: self.gradient(layers[i].weight),
                d_bias: layers[i].bias.map(|bias| self.gradient(bias)),
            });
            d_x
        })
    }

    /// The gradient before a dropout; `d_out` itself if there is none.
    fn gradient_before_dropout(
        &mut self,
        layer: u32,
        site: DropoutSite,
        d_out: TensorId,
        part: &str,
    ) -> TensorId {
        let Some(dropout) = self.dropout_at(layer, site) else { return d_out };
        let name = self.block_name(layer);
        let channels = self.model.channels.into();
        let out = self.activation(format_args!("d_{name}.{part}.dropped"), channels);
        self.program.op(Op::Dropout { x: d_out, out, dropout });
        out
    }

    /// The normalised value, recomputed if it was not kept.
    fn normed(
        &mut self,
        weights: NormWeights,
        x: TensorId,
        norm: NormOutput,
        normed_values: NormedValues,
    ) -> TensorId {
        if normed_values == NormedValues::Kept {
            return norm.out;
        }
        let name = format!("{} again", self.norm_name(weights));
        let out = self.activation(name, self.model.channels.into());
        let weight = self.weight(weights.weight);
        let bias = weights.bias.map(|bias| self.weight(bias));
        let NormOutput { mean, rstd, .. } = norm;
        self.program.op(Op::NormAgain { x, weight, bias, mean, rstd, out });
        out
    }

    fn weight_gradient(&mut self, layer: LinearWeights, d_out: TensorId, x: TensorId) {
        let d_weight = self.gradient(layer.weight);
        let d_bias = layer.bias.map(|bias| self.gradient(bias));
        self.program.op(Op::LinearBackwardWeight { d_out, x, d_weight, d_bias });
    }

    /// The gradient of the normalised value that several layers read.
    fn input_gradients(
        &mut self,
        layers: &[LinearWeights],
        d_outs: &[TensorId],
        norm: NormWeights,
    ) -> TensorId {
        let name = format!("d_{}", self.norm_name(norm));
        let d_x = self.input_gradient(layers[0], d_outs[0], &name);
        for (layer, d_out) in layers.iter().zip(d_outs).skip(1) {
            let weight = self.weight(layer.weight);
            self.program.op(Op::LinearBackwardInputAdd { d_out: *d_out, weight, d_x });
        }
        d_x
    }

    fn input_gradient(&mut self, layer: LinearWeights, d_out: TensorId, name: &str) -> TensorId {
        let columns = self.weights.parameters[layer.weight.index()].shape[1];
        let d_x = self.activation(name, columns);
        let weight = self.weight(layer.weight);
        self.program.op(Op::LinearBackwardInput { d_out, weight, d_x });
        d_x
    }

    fn norm_backward_add(
        &mut self,
        weights: NormWeights,
        x: TensorId,
        norm: NormOutput,
        d_out: TensorId,
        d_x: TensorId,
    ) {
        self.program.op(Op::NormBackwardAdd {
            x,
            weight: self.weight(weights.weight),
            mean: norm.mean,
            rstd: norm.rstd,
            d_out,
            d_x,
            d_weight: self.gradient(weights.weight),
            d_bias: weights.bias.map(|bias| self.gradient(bias)),
        });
    }
}
