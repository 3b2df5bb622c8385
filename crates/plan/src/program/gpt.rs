//! The programs of a GPT: train, update, evaluate, prefill, decode.
//!
//! Each is written down op by op, backward included. What may be chosen without changing the
//! training (recomputation, rows of logits at a time) is an argument here, not a rewrite.

use std::{collections::HashMap, fmt};

use super::{Adam, Class, Dropout, Life, Moments, Names, Op, Program, Site, Tensor};
use crate::{
    model::{Model, Parameter},
    units::{Bytes, DType, TensorId},
};

/// What is computed again in the backward instead of kept. Layers are alike, so a count says
/// it; the lowest layers recompute, because their values would be kept longest.
///
/// The activation of an MLP is never kept: it is a quarter of a layer's bytes, and the op that
/// needs its slope gives it back on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recompute {
    /// Layers that keep only their input.
    pub blocks: u32,
    /// Layers above those that make normalised values again.
    pub cheap: u32,
}

/// Everything about a run that shapes its programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// Sequences of a micro-batch.
    pub batch: u64,
    /// Tokens of a sequence.
    pub seq: u64,
    /// Micro-batches of a step.
    pub accumulation: u64,
    /// Sequences that an evaluation runs at a time.
    pub eval_batch: u64,
    /// Tokens of an evaluation's sequence.
    pub eval_seq: u64,
    /// Probability of a zero, 0 for none.
    pub dropout: f32,
    /// The optimizer's constants.
    pub adam: Adam,
    /// How activations are stored.
    pub activations: DType,
    /// What is computed again.
    pub recompute: Recompute,
    /// Rows of logits at a time.
    pub loss_chunk_rows: u64,
}

/// Rows of logits at a time where the config does not say: a power of two, about 128 MiB of
/// float32. A function of the shapes alone, so that a budget never changes rounding.
pub fn default_loss_chunk_rows(vocab: u64, rows: u64) -> u64 {
    let fitting = ((128 << 20) / (4 * vocab)).max(64);
    let power = 1 << fitting.ilog2();
    power.min(rows)
}

/// The state of a training run: weights, gradients, moments, and the step's loss.
pub fn training_state(model: &Model) -> Vec<Tensor> {
    state_of(&model.parameters(), Names::Kept)
}

fn state_of(parameters: &[Parameter], names: Names) -> Vec<Tensor> {
    let mut state = Vec::with_capacity(4 * parameters.len() + 1);
    for (prefix, class) in [
        ("", Class::Parameter),
        ("d_", Class::Gradient),
        ("exp_avg.", Class::Optimizer),
        ("exp_avg_sq.", Class::Optimizer),
    ] {
        state.extend(parameters.iter().map(|p| Tensor {
            name: names.of(format_args!("{prefix}{}", p.name)),
            shape: p.shape.clone(),
            dtype: DType::F32,
            class,
            life: Life::Always,
        }));
    }
    state.push(Tensor {
        name: names.of("loss"),
        shape: vec![1],
        dtype: DType::F32,
        class: Class::Scratch,
        life: Life::Always,
    });
    state
}

/// The state of sampling: weights and the keys and values of `batch` sequences.
pub fn sampling_state(model: &Model, batch: u64, activations: DType) -> Vec<Tensor> {
    let mut state: Vec<_> = training_state(model);
    state.truncate(model.parameters().len());
    for layer in 0..model.layers {
        for part in ["keys", "values"] {
            state.push(Tensor {
                name: format!("h.{layer}.{part}"),
                shape: vec![batch, u64::from(model.block), u64::from(model.channels)],
                dtype: activations,
                class: Class::Activation,
                life: Life::Always,
            });
        }
    }
    state
}

/// One micro-batch: forward, loss, backward; gradients and the loss are added to.
pub fn train(model: &Model, training: &Training) -> Program {
    write_train(model, training, Names::Kept)
}

/// The same to be counted and forgotten: its tensors have no names.
pub(crate) fn unnamed_train(model: &Model, training: &Training) -> Program {
    write_train(model, training, Names::Left)
}

fn write_train(model: &Model, training: &Training, names: Names) -> Program {
    let mut b = Builder::of_training("train", model, training, names);
    b.shape = (training.batch, training.seq);
    b.dropout = training.dropout;
    let tokens = b.input("tokens");
    let targets = b.input("targets");

    let embedded = b.embed(tokens);
    let mut x = embedded;
    let mut kept = Vec::new();
    for layer in 0..model.layers {
        let activated = b.activated(layer);
        let forward = b.block(layer, x, Some(activated));
        x = b.mlp_residual(layer, activated, forward.middle);
        kept.push(forward);
    }
    let norm = b.norm("ln_f", x, "");

    let rows = training.batch * training.seq;
    let d_norm = b.activation("d_ln_f", model.channels.into());
    let logits = b.logits(training.loss_chunk_rows.min(rows));
    b.program.op(Op::CrossEntropyBackward {
        x: norm.out,
        weight: b.state("wte.weight"),
        targets,
        logits,
        loss: b.state("loss"),
        d_x: d_norm,
        d_weight: b.state("d_wte.weight"),
        mean_over: rows * training.accumulation,
    });

    let d_x = b.activation("d_x", model.channels.into());
    b.program.op(Op::LayerNormBackward {
        x,
        weight: b.state("ln_f.weight"),
        mean: norm.mean,
        rstd: norm.rstd,
        d_out: d_norm,
        d_x,
        d_weight: b.state("d_ln_f.weight"),
        d_bias: b.bias("d_ln_f"),
    });
    let Recompute { blocks, cheap } = training.recompute;
    for layer in (0..model.layers).rev() {
        let mut forward = kept.pop().expect("as many blocks back as forth");
        let mut level = Level::Keep;
        if layer < blocks {
            forward = b.block(layer, forward.x, None);
        } else if layer < blocks + cheap {
            level = Level::Cheap;
        }
        b.block_backward(layer, &forward, d_x, level);
    }
    b.program.op(Op::EmbedBackward {
        tokens,
        d_x,
        d_wte: b.state("d_wte.weight"),
        d_wpe: b.state("d_wpe.weight"),
        dropout: b.dropout_at(0, Site::Embedding),
    });
    b.program
}

/// The optimizer's step, after the last micro-batch.
pub fn update(model: &Model, training: &Training) -> Program {
    let mut b = Builder::of_training("update", model, training, Names::Kept);
    let parameters = model.parameters();
    let count = parameters.len() as u32;
    let gradients = (count..2 * count).map(TensorId).collect();
    let norm = b.program.tensor(Tensor {
        name: "norm".into(),
        shape: vec![1],
        dtype: DType::F32,
        class: Class::Scratch,
        life: Life::Output,
    });
    b.program.op(Op::GradientNorm { gradients, norm });
    for (i, parameter) in (0..).zip(&parameters) {
        let moments = Moments {
            parameter: TensorId(i),
            gradient: TensorId(count + i),
            exp_avg: TensorId(2 * count + i),
            exp_avg_sq: TensorId(3 * count + i),
            decays: parameter.decays(),
        };
        b.program.op(Op::AdamW { norm, moments, adam: training.adam });
    }
    b.program
}

/// What an evaluation holds beside the state at the least: in a block's MLP the residual stream,
/// its normalised values and the four times wider values between the two products.
pub(crate) fn least_of_evaluation(model: &Model, training: &Training) -> Bytes {
    let values = training.eval_batch * training.eval_seq * u64::from(model.channels);
    Bytes::new(values.saturating_mul(6 * training.activations.size()))
}

/// The losses of some sequences: forward only.
pub fn evaluate(model: &Model, training: &Training) -> Program {
    write_evaluate(model, training, Names::Kept)
}

/// The same to be counted and forgotten: its tensors have no names.
pub(crate) fn unnamed_evaluate(model: &Model, training: &Training) -> Program {
    write_evaluate(model, training, Names::Left)
}

fn write_evaluate(model: &Model, training: &Training, names: Names) -> Program {
    let mut b = Builder::of_training("evaluate", model, training, names);
    b.shape = (training.eval_batch, training.eval_seq);
    let tokens = b.input("tokens");
    let targets = b.input("targets");
    let mut x = b.embed(tokens);
    for layer in 0..model.layers {
        x = b.block_forward_only(layer, x, Mixer::Attention);
    }
    let norm = b.norm("ln_f", x, "");
    let rows = training.eval_batch * training.eval_seq;
    let logits = b.logits(training.loss_chunk_rows.min(rows));
    let losses = b.program.tensor(Tensor {
        name: "losses".into(),
        shape: vec![training.eval_batch],
        dtype: DType::F32,
        class: Class::Scratch,
        life: Life::Output,
    });
    b.program.op(Op::CrossEntropy {
        x: norm.out,
        weight: b.state("wte.weight"),
        targets,
        logits,
        losses,
    });
    b.program
}

/// A prompt of one sequence, up to a whole block: fills its cache, gives the last row's logits.
pub fn prefill(model: &Model, batch: u64, activations: DType) -> Program {
    let mut b = Builder::of_sampling("prefill", model, batch, activations);
    b.shape = (1, model.block.into());
    let tokens = b.input("tokens");
    let mut x = b.embed(tokens);
    for layer in 0..model.layers {
        x = b.block_forward_only(layer, x, Mixer::AttentionThatFillsTheCache);
    }
    b.shape = (1, 1);
    let last = b.activation("last", model.channels.into());
    b.program.op(Op::LastRow { x, out: last });
    b.next_logits(last);
    b.program
}

/// One token more of every sequence.
pub fn decode(model: &Model, batch: u64, activations: DType) -> Program {
    let mut b = Builder::of_sampling("decode", model, batch, activations);
    b.shape = (batch, 1);
    let tokens = b.input("tokens");
    let mut x = b.embed(tokens);
    for layer in 0..model.layers {
        x = b.block_forward_only(layer, x, Mixer::Cache);
    }
    b.next_logits(x);
    b.program
}

/// A normalised value with what its backward needs.
#[derive(Clone, Copy)]
struct Norm {
    out: TensorId,
    mean: TensorId,
    rstd: TensorId,
}

/// Everything a block computed before its last projection.
#[derive(Clone, Copy)]
struct Block {
    x: TensorId,
    norm_1: Norm,
    qkv: TensorId,
    attended: TensorId,
    lse: TensorId,
    middle: TensorId,
    norm_2: Norm,
    pre: TensorId,
}

/// How much of a block's forward is still there when its backward begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Keep,
    Cheap,
}

/// What mixes the tokens of a forward-only block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mixer {
    Attention,
    AttentionThatFillsTheCache,
    Cache,
}

struct Builder<'a> {
    program: Program,
    model: &'a Model,
    activations: DType,
    shape: (u64, u64), // sequences, tokens of each
    dropout: f32,
    names: Names,
    ids: HashMap<String, TensorId>, // of the parameters and of the state that is none's
    parameters: u32,                // how many
}

impl<'a> Builder<'a> {
    fn of_training(
        name: &'static str,
        model: &'a Model,
        training: &Training,
        names: Names,
    ) -> Self {
        let parameters = model.parameters();
        let state = state_of(&parameters, names);
        let loss = TensorId(state.len() as u32 - 1);
        let mut b = Self::new(name, model, parameters, state, training.activations);
        b.ids.insert("loss".into(), loss);
        b.names = names;
        b
    }

    fn of_sampling(name: &'static str, model: &'a Model, batch: u64, activations: DType) -> Self {
        let parameters = model.parameters();
        let state = sampling_state(model, batch, activations);
        let caches: Vec<_> =
            state.iter().map(|t| t.name.clone()).zip((0..).map(TensorId)).collect();
        let mut b = Self::new(name, model, parameters, state, activations);
        b.ids.extend(caches);
        b
    }

    fn new(
        name: &'static str,
        model: &'a Model,
        parameters: Vec<Parameter>,
        state: Vec<Tensor>,
        activations: DType,
    ) -> Self {
        let count = parameters.len() as u32;
        let ids = parameters.into_iter().map(|p| p.name).zip((0..).map(TensorId)).collect();
        let program = Program::new(name, state);
        let names = Names::Kept;
        Self {
            program,
            model,
            activations,
            shape: (1, 1),
            dropout: 0.0,
            names,
            ids,
            parameters: count,
        }
    }

    /// A parameter, its gradient (`d_…`), or other state by its name.
    fn state(&self, name: &str) -> TensorId {
        match name.strip_prefix("d_") {
            Some(parameter) => TensorId(self.ids[parameter].0 + self.parameters),
            None => self.ids[name],
        }
    }

    fn bias(&self, owner: &str) -> Option<TensorId> {
        self.model.has_bias.then(|| self.state(&format!("{owner}.bias")))
    }

    fn dropout_at(&self, layer: u32, site: Site) -> Option<Dropout> {
        (self.dropout > 0.0).then_some(Dropout { rate: self.dropout, layer, site })
    }

    fn inner(&mut self, name: impl fmt::Display, shape: Vec<u64>, dtype: DType) -> TensorId {
        let (name, class) = (self.names.of(name), Class::Activation);
        self.program.tensor(Tensor { name, shape, dtype, class, life: Life::Inner })
    }

    /// (B, T, columns) in the activations' type.
    fn activation(&mut self, name: impl fmt::Display, columns: u64) -> TensorId {
        let (batch, seq) = self.shape;
        self.inner(name, vec![batch, seq, columns], self.activations)
    }

    fn input(&mut self, name: &str) -> TensorId {
        let (batch, seq) = self.shape;
        self.program.tensor(Tensor {
            name: name.into(),
            shape: vec![batch, seq],
            dtype: DType::U32,
            class: Class::Input,
            life: Life::Input,
        })
    }

    /// Float32 scores of some rows.
    fn logits(&mut self, rows: u64) -> TensorId {
        self.program.tensor(Tensor {
            name: "logits".into(),
            shape: vec![rows, self.model.vocab.into()],
            dtype: DType::F32,
            class: Class::Logits,
            life: Life::Inner,
        })
    }

    fn embed(&mut self, tokens: TensorId) -> TensorId {
        let out = self.activation("embedded", self.model.channels.into());
        self.program.op(Op::Embed {
            tokens,
            wte: self.state("wte.weight"),
            wpe: self.state("wpe.weight"),
            out,
            dropout: self.dropout_at(0, Site::Embedding),
        });
        out
    }

    fn norm(&mut self, name: &str, x: TensorId, suffix: &str) -> Norm {
        let (batch, seq) = self.shape;
        let out = self.activation(format_args!("{name}{suffix}"), self.model.channels.into());
        let mean = self.inner(format_args!("{name}.mean{suffix}"), vec![batch, seq], DType::F32);
        let rstd = self.inner(format_args!("{name}.rstd{suffix}"), vec![batch, seq], DType::F32);
        let weight = self.state(&format!("{name}.weight"));
        let bias = self.bias(name);
        self.program.op(Op::LayerNorm { x, weight, bias, out, mean, rstd });
        Norm { out, mean, rstd }
    }

    /// One transformer block, pre-norm, up to the activation of its MLP; made again for a
    /// backward, which makes the activation itself, where there is none.
    fn block(&mut self, layer: u32, x: TensorId, activated: Option<TensorId>) -> Block {
        let suffix = if activated.is_some() { "" } else { " again" };
        let channels = u64::from(self.model.channels);
        let heads = self.model.heads;
        let (batch, seq) = self.shape;
        let h = format!("h.{layer}");

        let norm_1 = self.norm(&format!("{h}.ln_1"), x, suffix); //                    (B, T, C)
        let qkv = self.linear(&format!("{h}.attn.c_attn"), norm_1.out, "qkv", suffix); // 3C
        let attended = self.activation(format_args!("{h}.attn{suffix}"), channels);
        let lse_shape = vec![batch, heads.into(), seq];
        let lse = self.inner(format_args!("{h}.attn.lse{suffix}"), lse_shape, DType::F32);
        let dropout = self.dropout_at(layer, Site::Attention);
        self.program.op(Op::Attention { qkv, out: attended, lse, heads, dropout });
        let middle = self.attention_out(layer, attended, x, suffix);

        let norm_2 = self.norm(&format!("{h}.ln_2"), middle, suffix); //               (B, T, C)
        let pre = self.activation(format_args!("{h}.mlp.pre{suffix}"), 4 * channels);
        match activated {
            Some(out) => self.mlp_in(layer, norm_2.out, Some(pre), out),
            None => self.linear_into(&format!("{h}.mlp.c_fc"), norm_2.out, pre),
        }
        Block { x, norm_1, qkv, attended, lse, middle, norm_2, pre }
    }

    fn linear(&mut self, owner: &str, x: TensorId, name: &str, suffix: &str) -> TensorId {
        let weight = self.state(&format!("{owner}.weight"));
        let columns = self.program.get(weight).shape[0];
        let out = self.activation(format_args!("{owner}.{name}{suffix}"), columns);
        self.linear_into(owner, x, out);
        out
    }

    fn linear_into(&mut self, owner: &str, x: TensorId, out: TensorId) {
        let weight = self.state(&format!("{owner}.weight"));
        let bias = self.bias(owner);
        self.program.op(Op::Linear { x, weight, bias, out });
    }

    fn attention_out(&mut self, layer: u32, x: TensorId, residual: TensorId, s: &str) -> TensorId {
        let out = self.activation(format_args!("h.{layer}.middle{s}"), self.model.channels.into());
        self.residual(&format!("h.{layer}.attn.c_proj"), x, residual, out, {
            self.dropout_at(layer, Site::AttentionOut)
        });
        out
    }

    /// Where the activation of an MLP goes, for as long as its second product needs it.
    fn activated(&mut self, layer: u32) -> TensorId {
        let columns = 4 * u64::from(self.model.channels);
        self.activation(format_args!("h.{layer}.mlp.activated"), columns)
    }

    fn mlp_in(&mut self, layer: u32, x: TensorId, pre: Option<TensorId>, out: TensorId) {
        let owner = format!("h.{layer}.mlp.c_fc");
        let weight = self.state(&format!("{owner}.weight"));
        let bias = self.bias(&owner);
        let gelu = self.model.gelu;
        self.program.op(Op::LinearGelu { x, weight, bias, pre, out, gelu });
    }

    /// The block's output.
    fn mlp_residual(&mut self, layer: u32, x: TensorId, residual: TensorId) -> TensorId {
        let out = self.activation(format_args!("h.{layer}"), self.model.channels.into());
        let dropout = self.dropout_at(layer, Site::MlpOut);
        self.residual(&format!("h.{layer}.mlp.c_proj"), x, residual, out, dropout);
        out
    }

    fn residual(
        &mut self,
        owner: &str,
        x: TensorId,
        residual: TensorId,
        out: TensorId,
        dropout: Option<Dropout>,
    ) {
        let weight = self.state(&format!("{owner}.weight"));
        let bias = self.bias(owner);
        self.program.op(Op::LinearResidual { x, weight, bias, residual, out, dropout });
    }

    fn block_forward_only(&mut self, layer: u32, x: TensorId, mixer: Mixer) -> TensorId {
        let h = format!("h.{layer}");
        let heads = self.model.heads;
        let (batch, seq) = self.shape;
        let norm_1 = self.norm(&format!("{h}.ln_1"), x, "");
        let qkv = self.linear(&format!("{h}.attn.c_attn"), norm_1.out, "qkv", "");
        let attended = self.activation(format_args!("{h}.attn"), self.model.channels.into());
        if mixer != Mixer::Attention {
            let keys = self.state(&format!("{h}.keys"));
            let values = self.state(&format!("{h}.values"));
            self.program.op(match mixer {
                Mixer::Cache => Op::CachedAttention { qkv, keys, values, out: attended, heads },
                _ => Op::StoreCache { qkv, keys, values },
            });
        }
        if mixer != Mixer::Cache {
            let lse_shape = vec![batch, heads.into(), seq];
            let lse = self.inner(format_args!("{h}.attn.lse"), lse_shape, DType::F32);
            self.program.op(Op::Attention { qkv, out: attended, lse, heads, dropout: None });
        }
        let middle = self.attention_out(layer, attended, x, "");
        let norm_2 = self.norm(&format!("{h}.ln_2"), middle, "");
        let activated = self.activated(layer);
        self.mlp_in(layer, norm_2.out, None, activated);
        self.mlp_residual(layer, activated, middle)
    }

    /// The scores of the next token, for the host to choose from.
    fn next_logits(&mut self, x: TensorId) {
        let norm = self.norm("ln_f", x, "");
        let (batch, _) = self.shape;
        let out = self.program.tensor(Tensor {
            name: "logits".into(),
            shape: vec![batch, 1, self.model.vocab.into()],
            dtype: DType::F32,
            class: Class::Logits,
            life: Life::Output,
        });
        let weight = self.state("wte.weight");
        self.program.op(Op::Linear { x: norm.out, weight, bias: None, out });
    }

    /// Turns `d_x` from the gradient of the block's output into that of its input.
    ///
    /// Weight gradients come first: they are the last to read the kept input, whose bytes
    /// the gradient of that input can then take.
    fn block_backward(&mut self, layer: u32, block: &Block, d_x: TensorId, level: Level) {
        let channels = u64::from(self.model.channels);
        let heads = self.model.heads;
        let h = format!("h.{layer}");

        // The MLP.
        let d_branch = self.undrop(layer, Site::MlpOut, d_x, "mlp");
        let d_pre = self.activation(format_args!("d_{h}.mlp.pre"), 4 * channels);
        self.program.op(Op::LinearBackwardGelu {
            d_out: d_branch,
            weight: self.state(&format!("{h}.mlp.c_proj.weight")),
            pre: block.pre,
            d_pre,
            gelu: self.model.gelu,
        });
        self.weight_gradient(&format!("{h}.mlp.c_proj"), d_branch, block.pre);
        let normed = self.normed(&format!("{h}.ln_2"), block.middle, block.norm_2, level);
        self.weight_gradient(&format!("{h}.mlp.c_fc"), d_pre, normed);
        let d_norm_2 = self.input_gradient(&format!("{h}.mlp.c_fc"), d_pre, "ln_2", layer);
        self.norm_backward(&format!("{h}.ln_2"), block.middle, block.norm_2, d_norm_2, d_x);

        // The attention.
        let d_branch = self.undrop(layer, Site::AttentionOut, d_x, "attn");
        self.weight_gradient(&format!("{h}.attn.c_proj"), d_branch, block.attended);
        let d_attn = self.input_gradient(&format!("{h}.attn.c_proj"), d_branch, "attn", layer);
        let d_qkv = self.activation(format_args!("d_{h}.qkv"), 3 * channels);
        self.program.op(Op::AttentionBackward {
            qkv: block.qkv,
            out: block.attended,
            lse: block.lse,
            d_out: d_attn,
            d_qkv,
            heads,
            dropout: self.dropout_at(layer, Site::Attention),
        });
        let normed = self.normed(&format!("{h}.ln_1"), block.x, block.norm_1, level);
        self.weight_gradient(&format!("{h}.attn.c_attn"), d_qkv, normed);
        let d_norm_1 = self.input_gradient(&format!("{h}.attn.c_attn"), d_qkv, "ln_1", layer);
        self.norm_backward(&format!("{h}.ln_1"), block.x, block.norm_1, d_norm_1, d_x);
    }

    /// The gradient before a dropout; `d_out` itself where there is none.
    fn undrop(&mut self, layer: u32, site: Site, d_out: TensorId, part: &str) -> TensorId {
        let Some(dropout) = self.dropout_at(layer, site) else { return d_out };
        let channels = self.model.channels.into();
        let out = self.activation(format_args!("d_h.{layer}.{part}.dropped"), channels);
        self.program.op(Op::Dropout { x: d_out, out, dropout });
        out
    }

    /// The normalised value, made again where it was not kept.
    fn normed(&mut self, name: &str, x: TensorId, norm: Norm, level: Level) -> TensorId {
        if level == Level::Keep {
            return norm.out;
        }
        let out = self.activation(format_args!("{name} again"), self.model.channels.into());
        let weight = self.state(&format!("{name}.weight"));
        let bias = self.bias(name);
        let Norm { mean, rstd, .. } = norm;
        self.program.op(Op::LayerNormAgain { x, weight, bias, mean, rstd, out });
        out
    }

    fn weight_gradient(&mut self, owner: &str, d_out: TensorId, x: TensorId) {
        let d_weight = self.state(&format!("d_{owner}.weight"));
        let d_bias = self.bias(&format!("d_{owner}"));
        self.program.op(Op::LinearBackwardWeight { d_out, x, d_weight, d_bias });
    }

    fn input_gradient(&mut self, owner: &str, d_out: TensorId, of: &str, layer: u32) -> TensorId {
        let d_x = self.activation(format_args!("d_h.{layer}.{of}"), self.model.channels.into());
        let weight = self.state(&format!("{owner}.weight"));
        self.program.op(Op::LinearBackwardInput { d_out, weight, d_x });
        d_x
    }

    fn norm_backward(
        &mut self,
        name: &str,
        x: TensorId,
        norm: Norm,
        d_out: TensorId,
        d_x: TensorId,
    ) {
        self.program.op(Op::LayerNormBackwardAdd {
            x,
            weight: self.state(&format!("{name}.weight")),
            mean: norm.mean,
            rstd: norm.rstd,
            d_out,
            d_x,
            d_weight: self.state(&format!("d_{name}.weight")),
            d_bias: self.bias(&format!("d_{name}")),
        });
    }
}
