//! `torch.compile`: the tensors of inductor's generated code.
//!
//! Element-wise work is fused into kernels between matrix products, so the float32 copies of
//! the loss do not exist. For the backward the partitioner keeps, for each norm, the normalised
//! value in float32 and the result in the type of products; queries, keys and values; the
//! attention's output; the input and the output of GELU: 36 bytes per token, channel and layer
//! in half precision. The backward is one graph: all its gradients exist before the first of
//! them is added to those of earlier micro-batches.
//!
//! `forward` returns the logits next to the loss. `loss.backward()` has no gradient for them, so
//! autograd passes zeros of their size, and the backward may not overwrite what the caller holds:
//! a step peaks with the logits, these zeros and the gradient. A patch that returns the loss alone
//! (`loss_alone`) leaves one of the three.
//!
//! Derived from the code that inductor (PyTorch 2.15) generates for CUDA, counted with
//! `fitgpt.torch` (`tools/count_compiled_memory.py`). Attention is one kernel, except with dropout on
//! a CPU (`compiled_attention.rs`).

use std::fmt;

use fitgpt_program::{
    Life, Program, TensorClass, TensorRole,
    units::{DType, TensorId},
};

use super::{
    ProgramSpec, TorchPhase,
    compiled_attention::CompiledAttention,
    pass::{ModelPass, PreviousPass},
    tape::HeldState,
};

/// A norm as the partitioner keeps it.
#[derive(Clone, Copy)]
struct CompiledNorm {
    normalised: TensorId,
    rstd: TensorId,
    out: TensorId,
}

/// What the forward of a block keeps for its backward.
struct CompiledBlock {
    norm_1: CompiledNorm,
    attention: CompiledAttention,
    attended: TensorId,
    attention_mask: Option<TensorId>,
    norm_2: CompiledNorm,
    fc: TensorId,
    activated: TensorId,
    mlp_mask: Option<TensorId>,
    weights: [TensorId; 4],
}

const LAYERS: [&str; 4] = ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"];

/// One micro-batch, the last of a step.
pub(super) fn train(spec: &ProgramSpec<'_>) -> Program {
    let ProgramSpec { model, options, .. } = *spec;
    let held = HeldState { gradients: options.accumulation > 1, ..HeldState::later(options) };
    let shape = (options.batch, options.seq);
    let mut p = ModelPass::new(TorchPhase::Train, spec, held, shape);
    p.dropout = options.dropout;
    let (tokens, targets) = p.inputs("", Life::Input);
    let stale = p.stale(PreviousPass::MicroBatch);

    let (x, embedded) = p.fused_embedding(tokens);
    let mut inputs = Vec::new();
    let mut blocks = Vec::new();
    for layer in 0..model.layers {
        if options.checkpoint_blocks {
            let input = p.residual(format_args!("h.{layer}.input"));
            p.tape.run("fused_add", &[x], &[input]);
            inputs.push(input);
        }
        let block = p.fused_block(layer, x, "");
        blocks.push((!options.checkpoint_blocks).then_some(block));
    }
    let norm = p.fused_norm("ln_f", x, "");
    let mut names = stale;
    names.extend([tokens, targets]);
    let (d_x, d_head) = p.fused_loss(norm, targets, &names);

    let mut gradients = p.fused_norm_backward("ln_f", norm, d_x);
    let residual = gradients.residual;
    for layer in (0..model.layers).rev() {
        let block = blocks.pop().flatten().unwrap_or_else(|| {
            let x = p.residual(format_args!("h.{layer} again"));
            p.tape.run("fused_add", &[inputs[layer as usize]], &[x]);
            p.fused_block(layer, x, " again")
        });
        p.fused_block_backward(layer, &block, residual, &mut gradients.list);
    }
    p.fused_embedding_backward(tokens, &embedded, residual, d_head, &mut gradients.list);
    for (parameter, gradient) in gradients.list {
        p.tape.accumulate(&parameter, gradient);
    }
    p.tape.finish()
}

/// One batch of `estimate_loss`, not the first.
pub(super) fn evaluate(phase: TorchPhase, spec: &ProgramSpec<'_>, held: HeldState) -> Program {
    let ProgramSpec { model, options, .. } = *spec;
    let shape = (options.eval_batch, options.eval_seq);
    let mut p = ModelPass::new(phase, spec, held, shape);
    p.names_of_training(phase);
    let (tokens, targets) = p.inputs("", Life::Input);
    let stale = p.stale(PreviousPass::Batch);
    let channels = p.channels();

    let (x, embedded) = p.fused_embedding(tokens);
    // One set of tensors serves all layers and is kept until the last.
    let qkv = p.value("qkv", 3 * channels);
    let fc = p.value("fc", 4 * channels);
    let mut weights = None;
    for layer in 0..model.layers {
        let h = format!("h.{layer}");
        let normed = p.value(format_args!("{h}.ln_1"), channels);
        p.tape.run("fused_layer_norm", &[x], &[normed]);
        let [c_attn, c_proj, c_fc] = *weights.get_or_insert_with(|| p.weights_of_one_layer(layer));
        p.tape.run("mm", &[normed, c_attn], &[qkv]);
        let attended = p.value(format_args!("{h}.attn.out"), channels);
        p.tape.run("_scaled_dot_product_flash_attention", &[qkv], &[attended]);
        p.tape.run_in_place("mm", &[attended, c_proj], &[normed]);
        p.tape.run_in_place("fused_layer_norm", &[normed, x], &[attended]);
        p.tape.run("mm", &[attended, c_fc], &[fc]);
        p.tape.run_in_place("fused_gelu", &[], &[fc]);
        p.tape.hold(&[normed, x, qkv]);
        p.tape.run_in_place("mm", &[fc, c_fc], &[attended]);
        p.tape.run_in_place("fused_add", &[attended, normed], &[x]);
        p.tape.hold(&[c_attn, c_proj]);
    }
    p.tape.hold(&embedded.held());
    let norm = p.value("ln_f", channels);
    p.tape.run("fused_layer_norm", &[x], &[norm]);
    let head = p.fused_cast("wte.weight");
    let all = p.batch * p.seq;
    let rows = options.chunked_loss_rows.unwrap_or(all).clamp(1, all);
    let logits = p.fused_logits(rows);
    p.tape.run("mm", &[norm, head], &[logits]);
    let loss = p.tape.scalar("loss");
    p.tape.run("fused_cross_entropy", &[logits, targets], &[loss]);
    p.tape.hold(&stale);
    p.tape.hold(&[tokens, norm]);
    p.tape.finish()
}

/// The gradients after the backward of the loss.
struct BackwardGradients {
    /// Of the residual stream, changed in place from layer to layer.
    residual: TensorId,
    /// Of the parameters, in the order of computation.
    list: Vec<(String, TensorId)>,
}

/// The gradient of the head's weights, computed first or last, and what it is computed from.
struct DeferredHeadGradient {
    tensor: Option<TensorId>,
    d_logits: TensorId,
    input: TensorId,
}

/// The embedding as the backward needs it.
struct CompiledEmbedding {
    position: TensorId,
    mask: Option<TensorId>,
}

impl CompiledEmbedding {
    fn held(&self) -> Vec<TensorId> {
        std::iter::once(self.position).chain(self.mask).collect()
    }
}

impl ModelPass<'_> {
    fn fused_embedding(&mut self, tokens: TensorId) -> (TensorId, CompiledEmbedding) {
        let x = self.residual("embedded");
        let index = (TensorClass::Input, Life::Inner);
        let position = self.tape.tensor("position", &[self.seq], DType::I64, index);
        let mask = self.fused_mask("embedded mask");
        let (wte, wpe) = (self.tape.state("wte.weight"), self.tape.state("wpe.weight"));
        let mut into = vec![x, position];
        into.extend(mask);
        self.tape.run("fused_embedding", &[tokens, wte, wpe], &into);
        (x, CompiledEmbedding { position, mask })
    }

    /// The mask of a dropout, if there is one.
    fn fused_mask(&mut self, name: impl fmt::Display) -> Option<TensorId> {
        let shape = [self.batch, self.seq, self.channels()];
        self.dropout.then(|| self.tape.value(name, &shape, DType::U8))
    }

    /// A weight in the type of products: a copy, or the weight itself.
    fn fused_cast(&mut self, parameter: &str) -> TensorId {
        let weight = self.tape.state(parameter);
        if self.is_autocast() { self.tape.cast(weight, self.compute()) } else { weight }
    }

    /// Copies of a layer's weights; both weights of the MLP share one.
    fn weights_of_one_layer(&mut self, layer: u32) -> [TensorId; 3] {
        ["attn.c_attn", "attn.c_proj", "mlp.c_fc"]
            .map(|owner| self.fused_cast(&format!("h.{layer}.{owner}.weight")))
    }

    fn fused_norm(&mut self, name: &str, x: TensorId, again: &str) -> CompiledNorm {
        let channels = self.channels();
        let normalised = self.residual(format_args!("{name} normalised{again}"));
        let rows = [self.batch, self.seq, 1];
        let rstd = self.tape.value(format_args!("{name}.rstd{again}"), &rows, DType::F32);
        let out = self.value(format_args!("{name}{again}"), channels);
        let weight = self.tape.state(&format!("{name}.weight"));
        self.tape.run("fused_layer_norm", &[x, weight], &[normalised, rstd, out]);
        CompiledNorm { normalised, rstd, out }
    }

    /// Adds the block to the residual stream `x`.
    fn fused_block(&mut self, layer: u32, x: TensorId, again: &str) -> CompiledBlock {
        let channels = self.channels();
        let h = format!("h.{layer}");
        let named = |part: &'static str| {
            let h = &h;
            fmt::from_fn(move |f| write!(f, "{h}.{part}{again}"))
        };

        let norm_1 = self.fused_norm(&format!("{h}.ln_1"), x, again);
        let weights = LAYERS.map(|owner| self.fused_cast(&format!("{h}.{owner}.weight")));
        let [c_attn, c_proj, c_fc, mlp] = weights;
        let qkv = self.value(named("attn.qkv"), 3 * channels);
        self.tape.run("mm", &[norm_1.out, c_attn], &[qkv]);
        let (attended, attention) = self.compiled_attention(&h, again, qkv);
        let projected = self.value(named("attn.projected"), channels);
        self.tape.run("mm", &[attended, c_proj], &[projected]);
        let attention_mask = self.fused_add(named("attn mask"), projected, x);

        let norm_2 = self.fused_norm(&format!("{h}.ln_2"), x, again);
        let fc = self.value(named("mlp.fc"), 4 * channels);
        self.tape.run("mm", &[norm_2.out, c_fc], &[fc]);
        let activated = self.value(named("mlp.activated"), 4 * channels);
        self.tape.run("fused_gelu", &[fc], &[activated]);
        let projected = self.value(named("mlp.projected"), channels);
        self.tape.run("mm", &[activated, mlp], &[projected]);
        let mlp_mask = self.fused_add(named("mlp mask"), projected, x);
        CompiledBlock {
            norm_1,
            attention,
            attended,
            attention_mask,
            norm_2,
            fc,
            activated,
            mlp_mask,
            weights,
        }
    }

    /// Drops out a branch and adds it to the residual stream.
    fn fused_add(
        &mut self,
        mask: impl fmt::Display,
        branch: TensorId,
        x: TensorId,
    ) -> Option<TensorId> {
        let mask = self.fused_mask(mask);
        if let Some(mask) = mask {
            self.tape.run("fused_dropout", &[branch], &[mask]);
        }
        self.tape.run_in_place("fused_add", &[branch], &[x]);
        self.tape.hold(mask.as_slice());
        mask
    }

    fn fused_logits(&mut self, rows: u64) -> TensorId {
        let shape = [rows, self.tape.model.vocab.into()];
        let logits = (TensorClass::Logits, self.life_of_logits());
        let logits = self.tape.tensor("logits", &shape, self.compute(), logits);
        self.tape.mark(logits, TensorRole::Logits);
        logits
    }

    /// The loss and its backward: the gradients of the head's input and of its weights.
    ///
    /// The softmax is recomputed from the logits, so only gradients exist in addition, in their
    /// type: two if `forward` returns the logits, none otherwise.
    fn fused_loss(
        &mut self,
        norm: CompiledNorm,
        targets: TensorId,
        names: &[TensorId],
    ) -> (TensorId, DeferredHeadGradient) {
        let all = self.batch * self.seq;
        let rows = self.options.chunked_loss_rows.unwrap_or(all).clamp(1, all);
        let head = self.fused_cast("wte.weight");
        let logits = self.fused_logits(rows);
        self.tape.run("mm", &[norm.out, head], &[logits]);
        let row = [all, 1];
        let largest = self.tape.value("largest logit", &row, DType::F32);
        let log_sum = self.tape.value("log of the sum", &row, DType::F32);
        let loss = self.tape.tensor("loss", &[], DType::F32, (TensorClass::Scratch, Life::Output));
        let into = [largest, log_sum, loss];
        self.tape.run("fused_cross_entropy", &[logits, targets], &into);
        self.tape.hold(names);
        let (next_tokens, next_targets) = self.inputs("next ", Life::Output);
        self.tape.run("to", &[], &[next_tokens, next_targets]);

        let from = [logits, targets, largest, log_sum];
        let d_logits = if self.options.returns_logits() {
            // `backward` is called on the loss alone, so autograd passes zeros for the other output.
            let zeros = self.scores("zeros for d_logits", rows, self.compute());
            self.tape.mark(zeros, TensorRole::LossGradient);
            self.tape.run("zeros", &[], &[zeros]);
            let d_logits = self.scores("d_logits", rows, self.compute());
            self.tape.mark(d_logits, TensorRole::LossGradient);
            let from = [&from[..], &[zeros]].concat();
            self.tape.run("fused_cross_entropy_backward", &from, &[d_logits]);
            d_logits
        } else {
            // Nobody else has the logits, so the backward overwrites them.
            self.tape.run_in_place("fused_cross_entropy_backward", &from[1..], &[logits]);
            logits
        };
        let mut d_head = DeferredHeadGradient { tensor: None, d_logits, input: norm.out };
        if self.is_autocast() {
            self.head_gradient(&mut d_head);
        }
        let d_x = self.value("d_ln_f", self.channels());
        self.tape.run("mm", &[d_logits, head], &[d_x]);
        (d_x, d_head)
    }

    /// The gradient of the head's weights, computed now unless it was before.
    ///
    /// In half precision it is smaller than what it frees, so inductor computes it first; in
    /// float32 it comes last.
    fn head_gradient(&mut self, d_head: &mut DeferredHeadGradient) -> TensorId {
        if let Some(tensor) = d_head.tensor {
            return tensor;
        }
        let shape = [self.tape.model.vocab.into(), self.channels()];
        let gradient = (TensorClass::Gradient, Life::Inner);
        let tensor = self.tape.tensor("d_lm_head.weight", &shape, self.compute(), gradient);
        self.tape.run("mm", &[d_head.d_logits, d_head.input], &[tensor]);
        d_head.tensor = Some(tensor);
        tensor
    }

    fn fused_norm_backward(
        &mut self,
        name: &str,
        norm: CompiledNorm,
        d_out: TensorId,
    ) -> BackwardGradients {
        let residual = self.residual("d_x");
        let mut list = Vec::new();
        self.norm_gradients(name, norm, d_out, &mut list);
        self.tape.run("fused_layer_norm_backward", &[d_out, norm.normalised], &[residual]);
        BackwardGradients { residual, list }
    }

    /// The gradients of a norm's parameters.
    fn norm_gradients(
        &mut self,
        name: &str,
        norm: CompiledNorm,
        d_out: TensorId,
        list: &mut Vec<(String, TensorId)>,
    ) {
        let mut into = Vec::new();
        for part in ["weight", "bias"] {
            if part == "bias" && !self.tape.model.has_bias() {
                continue;
            }
            let parameter = format!("{name}.{part}");
            let gradient = self.tape.new_gradient(&parameter);
            list.push((parameter, gradient));
            into.push(gradient);
        }
        let from = [d_out, norm.normalised, norm.rstd];
        self.tape.run("fused_layer_norm_backward", &from, &into);
    }

    /// A product's gradients: of the weight (half, then float32) and of the input.
    fn product_backward(
        &mut self,
        owner: &str,
        (input, weight): (TensorId, TensorId),
        (d_out, d_x): (TensorId, TensorId),
        list: &mut Vec<(String, TensorId)>,
    ) {
        let parameter = format!("{owner}.weight");
        let gradient = self.tape.new_gradient(&parameter);
        if self.is_autocast() {
            let shape = self.tape.shape_of(weight);
            let name = format_args!("half d_{parameter}");
            let half = self.tape.tensor(
                name,
                &shape,
                self.compute(),
                (TensorClass::Gradient, Life::Inner),
            );
            self.tape.run("mm", &[d_out, input], &[half]);
            self.tape.run("mm", &[d_out, weight], &[d_x]);
            self.tape.run("fused_to_copy", &[half], &[gradient]);
        } else {
            self.tape.run("mm", &[d_out, input], &[gradient]);
            self.tape.run("mm", &[d_out, weight], &[d_x]);
        }
        list.push((parameter, gradient));
        if self.tape.model.has_bias() {
            let parameter = format!("{owner}.bias");
            let gradient = self.tape.new_gradient(&parameter);
            self.tape.run("fused_sum", &[d_out], &[gradient]);
            list.push((parameter, gradient));
        }
    }

    /// Turns `d_x`, in place, from the gradient of a block's output into that of its input.
    fn fused_block_backward(
        &mut self,
        layer: u32,
        block: &CompiledBlock,
        d_x: TensorId,
        list: &mut Vec<(String, TensorId)>,
    ) {
        let channels = self.channels();
        let h = format!("h.{layer}");
        let [c_attn, c_proj, c_fc, mlp] = block.weights;

        let d_branch = self.value(format_args!("d_{h}.mlp"), channels);
        self.tape.run("fused_to_copy", &[d_x], &[d_branch]);
        self.tape.hold(block.mlp_mask.as_slice());
        let d_fc = self.value(format_args!("d_{h}.mlp.fc"), 4 * channels);
        let owner = format!("{h}.mlp.c_proj");
        self.product_backward(&owner, (block.activated, mlp), (d_branch, d_fc), list);
        self.tape.run_in_place("fused_gelu_backward", &[block.fc], &[d_fc]);
        let d_norm = self.value(format_args!("d_{h}.ln_2"), channels);
        let owner = format!("{h}.mlp.c_fc");
        self.product_backward(&owner, (block.norm_2.out, c_fc), (d_fc, d_norm), list);
        self.norm_gradients(&format!("{h}.ln_2"), block.norm_2, d_norm, list);
        let from = [d_norm, block.norm_2.normalised, block.norm_2.rstd];
        self.tape.run_in_place("fused_layer_norm_backward", &from, &[d_x]);

        let d_branch = self.value(format_args!("d_{h}.attn"), channels);
        self.tape.run("fused_to_copy", &[d_x], &[d_branch]);
        self.tape.hold(block.attention_mask.as_slice());
        let d_attended = self.value(format_args!("d_{h}.attn.out"), channels);
        let owner = format!("{h}.attn.c_proj");
        self.product_backward(&owner, (block.attended, c_proj), (d_branch, d_attended), list);
        let parts =
            self.compiled_attention_backward(&h, &block.attention, block.attended, d_attended);
        let d_qkv = self.value(format_args!("d_{h}.attn.qkv"), 3 * channels);
        self.tape.run("fused_cat", &parts, &[d_qkv]);
        let d_norm = self.value(format_args!("d_{h}.ln_1"), channels);
        let owner = format!("{h}.attn.c_attn");
        self.product_backward(&owner, (block.norm_1.out, c_attn), (d_qkv, d_norm), list);
        self.norm_gradients(&format!("{h}.ln_1"), block.norm_1, d_norm, list);
        let from = [d_norm, block.norm_1.normalised, block.norm_1.rstd];
        self.tape.run_in_place("fused_layer_norm_backward", &from, &[d_x]);
    }

    fn fused_embedding_backward(
        &mut self,
        tokens: TensorId,
        embedded: &CompiledEmbedding,
        d_x: TensorId,
        mut d_head: DeferredHeadGradient,
        list: &mut Vec<(String, TensorId)>,
    ) {
        let d_head = self.head_gradient(&mut d_head);
        let d_wpe = self.tape.new_gradient("wpe.weight");
        let shape = self.tape.shape_of(d_head);
        let gradient = (TensorClass::Gradient, Life::Inner);
        let d_tokens = self.tape.tensor("d_wte.weight of the tokens", &shape, DType::F32, gradient);
        let d_wte = self.tape.new_gradient("wte.weight");
        let mut from = embedded.held();
        from.extend([d_x, d_head, tokens]);
        self.tape.run("fused_embedding_backward", &from, &[d_wpe, d_tokens, d_wte]);
        list.push(("wpe.weight".to_owned(), d_wpe));
        list.push(("wte.weight".to_owned(), d_wte));
    }
}
