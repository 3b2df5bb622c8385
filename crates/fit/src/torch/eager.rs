//! Eager mode: one micro-batch forward and backward, an evaluation, a sampled token.
//!
//! Shapes in comments: B sequences, T tokens each, C channels, V vocabulary, H heads.
//! Ops have PyTorch's names, so that a report can be compared with a profile.

use std::fmt;

use fitgpt_program::{
    Life, Program, TensorClass,
    units::{DType, TensorId},
};

use super::{
    ProgramSpec, Rules, TorchPhase,
    attention::{self, AttentionOutput},
    pass::{DropoutOutput, ModelPass, PreviousPass},
    tape::HeldState,
};

/// What a linear layer multiplies, and what its backward needs.
#[derive(Clone, Copy)]
pub(super) struct LinearFactors {
    pub(super) x: TensorId,
    pub(super) input: TensorId, // as multiplied: a half copy of `x` under autocast
    pub(super) weight: TensorId, // likewise
    pub(super) bias: Option<TensorId>,
}

impl LinearFactors {
    pub(super) fn input_was_cast(&self) -> bool {
        self.input != self.x
    }
}

/// A normalised value and what its backward needs.
#[derive(Clone, Copy)]
pub(super) struct EagerNorm {
    pub(super) x: TensorId,
    pub(super) out: TensorId,
    pub(super) mean: TensorId,
    pub(super) rstd: TensorId,
}

/// All that a block's backward needs.
pub(super) struct EagerBlock {
    pub(super) norm_1: EagerNorm,
    pub(super) c_attn: LinearFactors,
    pub(super) attention: AttentionOutput,
    pub(super) c_proj: LinearFactors,
    pub(super) attention_mask: Option<TensorId>,
    pub(super) middle: TensorId,
    pub(super) norm_2: EagerNorm,
    pub(super) c_fc: LinearFactors,
    pub(super) fc: TensorId,
    pub(super) mlp: LinearFactors,
    pub(super) mlp_mask: Option<TensorId>,
}

/// Tensors that Python variables hold after the embedding.
pub(super) struct EagerEmbedding {
    pub(super) x: TensorId,
    pub(super) mask: Option<TensorId>,
    pub(super) position: TensorId,
    tokens_out: TensorId,
    positions_out: TensorId,
}

/// One micro-batch, the last of a step, with the gradients of the earlier ones.
pub(super) fn train(spec: &ProgramSpec<'_>) -> Program {
    let ProgramSpec { model, options, .. } = *spec;
    let held = HeldState { gradients: options.accumulation > 1, ..HeldState::later(options) };
    let shape = (options.batch, options.seq);
    let mut p = ModelPass::new(TorchPhase::Train, spec, held, shape);
    p.dropout = options.dropout;
    let inputs = p.inputs("", Life::Input);
    let stale = p.stale(PreviousPass::MicroBatch);

    let embedded = p.embed(inputs.0);
    let mut x = embedded.x;
    let mut blocks = Vec::new();
    for layer in 0..model.layers {
        let (out, block) = p.block(layer, x);
        // A checkpointed block saves only its input.
        let block = (!options.checkpoint_blocks).then_some(block);
        blocks.push((x, block));
        x = out;
    }
    let norm = p.norm("ln_f", x, "");
    let mut names = vec![embedded.tokens_out, embedded.positions_out, norm.out];
    names.extend(stale);
    let (d_norm, d_head) = match options.chunked_loss_rows {
        Some(rows) => p.chunked_loss(norm.out, inputs.1, rows, &names),
        None => p.whole_loss(norm.out, inputs.1, &names),
    };

    let mut d_x = p.norm_backward("ln_f", norm, d_norm);
    for layer in (0..model.layers).rev() {
        let (x, block) = blocks.pop().expect("the backward has as many blocks as the forward");
        d_x = p.block_backward(layer, x, block, d_x);
    }
    p.embed_backward(inputs.0, &embedded, d_x, d_head);
    p.tape.finish()
}

/// One batch of `estimate_loss`, not the first: variables of the previous one are still held.
pub(super) fn evaluate(phase: TorchPhase, spec: &ProgramSpec<'_>, held: HeldState) -> Program {
    let ProgramSpec { model, options, .. } = *spec;
    let shape = (options.eval_batch, options.eval_seq);
    let mut p = ModelPass::new(phase, spec, held, shape);
    p.names_of_training(phase);
    let inputs = p.inputs("", Life::Input);
    let stale = p.stale(PreviousPass::Batch);

    let embedded = p.embed(inputs.0);
    let mut x = embedded.x;
    for layer in 0..model.layers {
        x = p.block(layer, x).0;
    }
    let norm = p.norm("ln_f", x, "");
    let mut names = vec![embedded.tokens_out, embedded.positions_out, embedded.position, norm.out];
    names.extend([inputs.0, inputs.1]);
    names.extend(stale);
    p.forward_loss(norm.out, inputs.1, &names);
    p.tape.finish()
}

/// One token of `sample.py` at the end of a block: no cache, the whole prefix is recomputed.
pub(super) fn sample(spec: &ProgramSpec<'_>) -> Program {
    let ProgramSpec { model, options, .. } = *spec;
    let held = HeldState { masks: !options.fused_attention, ..HeldState::default() };
    let shape = (1, u64::from(model.block));
    let mut p = ModelPass::new(TorchPhase::Sample, spec, held, shape);
    let (tokens, _) = p.inputs("", Life::Input);
    let embedded = p.embed(tokens);
    let mut x = embedded.x;
    for layer in 0..model.layers {
        x = p.block(layer, x).0;
    }
    let norm = p.norm("ln_f", x, "");
    let last = p.tape.value("last row", &[1, 1, model.channels.into()], DType::F32);
    p.tape.run("index", &[norm.out], &[last]);
    let (_, logits) = p.head(last, 1, "");
    let names = [embedded.tokens_out, embedded.positions_out, embedded.position, norm.out];
    p.tape.hold(&names);
    p.leave_autocast();
    let scaled = p.scores("logits / temperature", 1, p.compute());
    p.tape.run("div", &[logits], &[scaled]);
    let probabilities = p.scores("probabilities", 1, DType::F32);
    p.tape.run("_softmax", &[scaled], &[probabilities]);
    p.tape.hold(&[tokens]);
    p.tape.finish()
}

impl ModelPass<'_> {
    /// Autocast frees its copies of the weights after the last op.
    pub(super) fn leave_autocast(&mut self) {
        let copies = std::mem::take(&mut self.cast_weights);
        self.tape.hold(&copies);
    }

    fn embed(&mut self, tokens: TensorId) -> EagerEmbedding {
        let (seq, channels) = (self.seq, self.channels());
        let tape = &mut self.tape;
        let index = (TensorClass::Input, Life::Inner);
        let position = tape.tensor("position", &[seq], DType::I64, index);
        tape.run("arange", &[], &[position]);
        let (wte, wpe) = (tape.state("wte.weight"), tape.state("wpe.weight"));
        let tokens_out = self.residual("embedded tokens");
        self.tape.run("embedding", &[tokens, wte], &[tokens_out]);
        let positions_out = self.tape.value("embedded positions", &[seq, channels], DType::F32);
        self.tape.run("embedding", &[position, wpe], &[positions_out]);
        let sum = self.residual("embedded");
        self.tape.run("add", &[tokens_out, positions_out], &[sum]);
        let DropoutOutput { out: x, mask } = self.drop("embedded", sum);
        EagerEmbedding { x, mask, position, tokens_out, positions_out }
    }

    pub(super) fn drop(&mut self, name: impl fmt::Display, x: TensorId) -> DropoutOutput {
        if !self.dropout {
            return DropoutOutput { out: x, mask: None };
        }
        let (shape, dtype) = (self.tape.shape_of(x), self.tape.dtype_of(x));
        let role = self.tape.role_of(x);
        let out = self.tape.value(format_args!("{name} dropped"), &shape, dtype);
        self.tape.mark(out, role);
        // CUDA's kernel keeps one byte per element, the CPU multiplies by noise of the input's type.
        let mask = match self.options.rules {
            Rules::Cuda => {
                let mask = self.tape.value(format_args!("{name} mask"), &shape, DType::U8);
                self.tape.mark(mask, role);
                self.tape.run("native_dropout", &[x], &[out, mask]);
                mask
            }
            Rules::Cpu => {
                let noise = self.noise(name, x);
                self.tape.run("mul", &[x, noise], &[out]);
                noise
            }
        };
        DropoutOutput { out, mask: Some(mask) }
    }

    /// The factors of a dropout on a CPU.
    fn noise(&mut self, name: impl fmt::Display, x: TensorId) -> TensorId {
        let (shape, dtype) = (self.tape.shape_of(x), self.tape.dtype_of(x));
        let noise = self.tape.value(format_args!("{name} mask"), &shape, dtype);
        self.tape.mark(noise, self.tape.role_of(x));
        self.tape.run("bernoulli_", &[], &[noise]);
        self.tape.hold(&[x]);
        noise
    }

    pub(super) fn norm(&mut self, name: &str, x: TensorId, again: &str) -> EagerNorm {
        let out = self.residual(format_args!("{name}{again}"));
        let rows = [self.batch, self.seq, 1];
        let mean = self.tape.value(format_args!("{name}.mean{again}"), &rows, DType::F32);
        let rstd = self.tape.value(format_args!("{name}.rstd{again}"), &rows, DType::F32);
        let weight = self.tape.state(&format!("{name}.weight"));
        self.tape.run("native_layer_norm", &[x, weight], &[out, mean, rstd]);
        EagerNorm { x, out, mean, rstd }
    }

    /// A weight as matrix products take it: under autocast a copy, made once per forward.
    pub(super) fn operand(&mut self, parameter: TensorId) -> TensorId {
        if !self.is_autocast() {
            return parameter;
        }
        let copy = self.tape.cast(parameter, self.compute());
        self.cast_weights.push(copy);
        copy
    }

    /// Casts what a linear layer multiplies, its arguments from the last to the first.
    pub(super) fn factors(&mut self, owner: &str, x: TensorId) -> LinearFactors {
        let bias = self.tape.bias(owner).map(|b| self.operand(b));
        let weight = self.tape.state(&format!("{owner}.weight"));
        let weight = self.operand(weight);
        let is_cast = self.tape.dtype_of(x) != self.compute();
        let input = if is_cast { self.tape.cast(x, self.compute()) } else { x };
        LinearFactors { x, input, weight, bias }
    }

    fn multiply(&mut self, factors: &LinearFactors, out: TensorId) {
        let LinearFactors { input, weight, bias, .. } = *factors;
        match bias {
            Some(bias) => self.tape.run("addmm", &[bias, input, weight], &[out]),
            None => self.tape.run("mm", &[input, weight], &[out]),
        }
    }

    /// One transformer block, pre-norm.
    fn block(&mut self, layer: u32, x: TensorId) -> (TensorId, EagerBlock) {
        let mut block = self.block_before_its_last_product(layer, x, "");
        let projected = self.last_product(layer, &mut block, "");
        let out = self.residual(format_args!("h.{layer}"));
        self.tape.run("add", &[block.middle, projected], &[out]);
        self.tape.hold(&[x]); // the caller's `x` still holds it
        (out, block)
    }

    /// Reruns a checkpointed block. It stops at the last saved value: in a dropout, or before a
    /// product.
    pub(super) fn block_again(&mut self, layer: u32, x: TensorId) -> EagerBlock {
        let mut block = self.block_before_its_last_product(layer, x, " again");
        if self.dropout {
            match self.options.rules {
                Rules::Cuda => {
                    self.last_product(layer, &mut block, " again");
                }
                // The noise is saved before it is multiplied.
                Rules::Cpu => {
                    let name = fmt::from_fn(|f| write!(f, "h.{layer}.mlp.projected again"));
                    let projected = self.value(&name, self.channels());
                    self.multiply(&block.mlp, projected);
                    block.mlp_mask = Some(self.noise(&name, projected));
                    self.tape.hold(&[block.norm_2.out]);
                }
            }
        }
        self.leave_autocast();
        block
    }

    fn block_before_its_last_product(
        &mut self,
        layer: u32,
        x: TensorId,
        again: &str,
    ) -> EagerBlock {
        let channels = self.channels();
        let h = format!("h.{layer}");

        let norm_1 = self.norm(&format!("{h}.ln_1"), x, again); //               (B, T, C)
        let c_attn = self.factors(&format!("{h}.attn.c_attn"), norm_1.out);
        let qkv = self.value(format_args!("{h}.attn.qkv{again}"), 3 * channels);
        self.multiply(&c_attn, qkv);
        let attention = if self.options.fused_attention {
            attention::fused(self, layer, again, qkv)
        } else {
            attention::plain(self, layer, again, qkv)
        };
        let c_proj = self.factors(&format!("{h}.attn.c_proj"), attention.out);
        let name = fmt::from_fn(|f| write!(f, "{h}.attn.projected{again}"));
        let projected = self.value(&name, channels);
        self.multiply(&c_proj, projected);
        let dropped = self.drop(&name, projected);
        // The attention's variables, and its argument, which the caller holds.
        self.tape.hold(&[projected, qkv, attention.out, norm_1.out]);
        self.tape.hold(&attention.names);
        let middle = self.residual(format_args!("{h}.middle{again}"));
        self.tape.run("add", &[x, dropped.out], &[middle]);

        let norm_2 = self.norm(&format!("{h}.ln_2"), middle, again);
        let c_fc = self.factors(&format!("{h}.mlp.c_fc"), norm_2.out);
        let fc = self.value(format_args!("{h}.mlp.fc{again}"), 4 * channels);
        self.multiply(&c_fc, fc);
        let activated = self.value(format_args!("{h}.mlp.activated{again}"), 4 * channels);
        self.tape.run("gelu", &[fc], &[activated]);
        let mlp = self.factors(&format!("{h}.mlp.c_proj"), activated);
        self.tape.hold(&[norm_2.out, x]);
        let attention_mask = dropped.mask;
        EagerBlock {
            norm_1,
            c_attn,
            attention,
            c_proj,
            attention_mask,
            middle,
            norm_2,
            c_fc,
            fc,
            mlp,
            mlp_mask: None,
        }
    }

    fn last_product(&mut self, layer: u32, block: &mut EagerBlock, again: &str) -> TensorId {
        let name = fmt::from_fn(|f| write!(f, "h.{layer}.mlp.projected{again}"));
        let projected = self.value(&name, self.channels());
        self.multiply(&block.mlp, projected);
        let dropped = self.drop(&name, projected);
        block.mlp_mask = dropped.mask;
        self.tape.hold(&[projected, block.norm_2.out]);
        dropped.out
    }
}
