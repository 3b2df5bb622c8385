//! The backward of eager mode, in autograd's order: newest nodes first; a parameter's gradient is
//! added as soon as it exists.

use std::fmt;

use fitgpt_program::{
    Life, TensorClass,
    units::{DType, TensorId},
};

use super::{
    attention,
    eager::{EagerBlock, EagerEmbedding, EagerNorm, LinearFactors},
    pass::ModelPass,
};

impl ModelPass<'_> {
    pub(super) fn norm_backward(
        &mut self,
        name: &str,
        norm: EagerNorm,
        d_out: TensorId,
    ) -> TensorId {
        let d_x = self.residual(format_args!("d_{name}, of its input"));
        let weight = format!("{name}.weight");
        let d_weight = self.tape.new_gradient(&weight);
        let bias = self.tape.model.has_bias().then(|| format!("{name}.bias"));
        let d_bias = bias.as_ref().map(|b| self.tape.new_gradient(b));
        let from = [d_out, norm.x, norm.mean, norm.rstd, self.tape.state(&weight)];
        let mut into = vec![d_x, d_weight];
        into.extend(d_bias);
        self.tape.run("native_layer_norm_backward", &from, &into);
        self.tape.accumulate(&weight, d_weight);
        if let (Some(bias), Some(d_bias)) = (bias, d_bias) {
            self.tape.accumulate(&bias, d_bias);
        }
        d_x
    }

    /// The gradient of a linear layer's input; also accumulates those of its parameters.
    fn linear_backward(
        &mut self,
        owner: &str,
        factors: &LinearFactors,
        d_out: TensorId,
        d_x: impl fmt::Display,
    ) -> TensorId {
        let LinearFactors { input, weight, bias, .. } = *factors;
        let parameter = format!("{owner}.weight");
        let d_weight = self.product_gradient(&parameter);
        let shape = self.tape.shape_of(input);
        let mut d_x = self.tape.value(d_x, &shape, self.compute());
        let mut gradients = vec![(parameter, d_weight)];
        if bias.is_some() {
            self.tape.run("mm", &[d_out, weight], &[d_x]);
            self.tape.run("mm", &[d_out, input], &[d_weight]);
            self.tape.hold(&[weight]);
            let parameter = format!("{owner}.bias");
            let d_bias = self.product_gradient(&parameter);
            self.tape.run("sum", &[d_out, d_weight], &[d_bias]);
            gradients.push((parameter, d_bias));
            // A node holds its saved tensors until it is done; a checkpoint frees them at once.
            if !self.options.checkpoint_blocks {
                self.tape.hold(&[weight, input]);
            }
        } else {
            self.tape.run("mm", &[d_out, input], &[d_weight]);
            self.tape.run("mm", &[d_out, weight], &[d_x]);
            self.tape.hold(&[input]);
        }
        if factors.input_was_cast() {
            d_x = self.tape.cast(d_x, DType::F32);
        }
        for (parameter, mut gradient) in gradients {
            if self.is_autocast() {
                let half = gradient;
                gradient = self.tape.new_gradient(&parameter);
                self.tape.run("_to_copy", &[half], &[gradient]);
            }
            self.tape.accumulate(&parameter, gradient);
        }
        d_x
    }

    /// The tensor for a parameter's gradient in the type of matrix products.
    fn product_gradient(&mut self, parameter: &str) -> TensorId {
        if !self.is_autocast() {
            return self.tape.new_gradient(parameter);
        }
        let shape = self.tape.shape_of(self.tape.state(parameter));
        let name = format_args!("half d_{parameter}");
        self.tape.tensor(name, &shape, self.compute(), (TensorClass::Gradient, Life::Inner))
    }

    /// The gradient of a branch: that of the residual stream in the branch's type.
    fn branch_gradient(&mut self, name: impl fmt::Display, d_x: TensorId) -> TensorId {
        if !self.is_autocast() {
            return d_x;
        }
        let d_branch = self.value(format_args!("d_{name}"), self.channels());
        self.tape.run("_to_copy", &[d_x], &[d_branch]);
        d_branch
    }

    /// The gradient before a dropout; `d_out` itself if there is none.
    pub(super) fn gradient_before_dropout(
        &mut self,
        name: impl fmt::Display,
        d_out: TensorId,
        mask: Option<TensorId>,
    ) -> TensorId {
        let Some(mask) = mask else { return d_out };
        let (shape, dtype) = (self.tape.shape_of(d_out), self.tape.dtype_of(d_out));
        let d = self.tape.value(format_args!("d_{name} undropped"), &shape, dtype);
        self.tape.mark(d, self.tape.role_of(mask));
        self.tape.run("native_dropout_backward", &[d_out, mask], &[d]);
        d
    }

    /// From the gradient of a block's output to that of its input `x`.
    pub(super) fn block_backward(
        &mut self,
        layer: u32,
        x: TensorId,
        kept: Option<EagerBlock>,
        d_x: TensorId,
    ) -> TensorId {
        let h = format!("h.{layer}");
        let channels = self.channels();

        // The MLP. A checkpointed block is rerun when its first saved value is needed.
        let mlp = fmt::from_fn(|f| write!(f, "{h}.mlp"));
        let d_branch = self.branch_gradient(&mlp, d_x);
        let block = kept.unwrap_or_else(|| self.block_again(layer, x));
        let d_branch = self.gradient_before_dropout(&mlp, d_branch, block.mlp_mask);
        let name = format_args!("d_{h}.mlp.activated");
        let d = self.linear_backward(&format!("{h}.mlp.c_proj"), &block.mlp, d_branch, name);
        let d_fc = self.value(format_args!("d_{h}.mlp.fc"), 4 * channels);
        self.tape.run("gelu_backward", &[d, block.fc], &[d_fc]);
        let name = format_args!("d_{h}.ln_2");
        let d = self.linear_backward(&format!("{h}.mlp.c_fc"), &block.c_fc, d_fc, name);
        let d = self.norm_backward(&format!("{h}.ln_2"), block.norm_2, d);
        let d_middle = self.residual(format_args!("d_{h}.middle"));
        self.tape.run("add", &[d_x, d], &[d_middle]);

        // The attention.
        let attn = fmt::from_fn(|f| write!(f, "{h}.attn"));
        let d_branch = self.branch_gradient(&attn, d_middle);
        let d_branch = self.gradient_before_dropout(&attn, d_branch, block.attention_mask);
        let name = format_args!("d_{h}.attn.out");
        let d = self.linear_backward(&format!("{h}.attn.c_proj"), &block.c_proj, d_branch, name);
        let d_qkv = attention::backward(self, &h, &block.attention, d);
        let name = format_args!("d_{h}.ln_1");
        let d = self.linear_backward(&format!("{h}.attn.c_attn"), &block.c_attn, d_qkv, name);
        let d = self.norm_backward(&format!("{h}.ln_1"), block.norm_1, d);
        let d_in = self.residual(format_args!("d_{h}"));
        self.tape.run("add", &[d_middle, d], &[d_in]);
        d_in
    }

    pub(super) fn embed_backward(
        &mut self,
        tokens: TensorId,
        embedded: &EagerEmbedding,
        d_x: TensorId,
        d_head: TensorId,
    ) {
        let d_x = self.gradient_before_dropout("embedded", d_x, embedded.mask);
        let sum = self.tape.value("d_positions", &[self.seq, self.channels()], DType::F32);
        self.tape.run("sum", &[d_x], &[sum]);
        let d_wpe = self.tape.new_gradient("wpe.weight");
        self.tape.run("embedding_dense_backward", &[sum, embedded.position], &[d_wpe]);
        self.tape.accumulate("wpe.weight", d_wpe);
        let shape = self.tape.shape_of(d_head);
        let gradient = (TensorClass::Gradient, Life::Inner);
        let d_tokens = self.tape.tensor("d_wte.weight of the tokens", &shape, DType::F32, gradient);
        self.tape.run("embedding_dense_backward", &[d_x, tokens], &[d_tokens]);
        // `wte` is also the head: its two gradients are added here, into a third tensor. The counts
        // that these programs match ran under a dispatch mode; without one PyTorch adds in place.
        let d_wte = self.tape.new_gradient("wte.weight");
        self.tape.run("add", &[d_head, d_tokens], &[d_wte]);
        self.tape.accumulate("wte.weight", d_wte);
    }
}
