//! The programs of a decoder: train, update, evaluate, prefill, decode.
//!
//! They depend only on the description of the model, not on its family.
//!
//! Each is built op by op, including the backward. Choices that do not change the training run
//! (recomputation, rows of logits at a time) are arguments of the builder, not rewrites of a
//! program. Programs without tensor names ([`Names::Left`]) are faster to build and only good for
//! counting.
//!
//! Memory of a training step: state (weights, gradients, both moments: 16 bytes per parameter) is
//! packed at the bottom of the arena, with gradients in parameter order. After it comes one
//! workspace as large as the largest program needs. A block keeps 12 values per token and channel.
//! The MLP's activation, four more, is not kept: the backward op that computes its slope also
//! writes its value over its input, from the same exponential. The gradient of the residual stream
//! is one tensor that every layer adds to. Weight gradients are computed before input gradients, so
//! that the gradient of a kept value can reuse its bytes.
//!
//! Promise: evaluation and update reuse the bytes of training and never add to the plan. Test:
//! `crates/model/tests/decoder_programs.rs`.

mod builder;
mod backward;

use fitgpt_program::{
    DropoutSite, Life, Names, Op, ProgramKind, Tensor, TensorClass, TensorRole,
    units::{Bytes, DType},
};

use self::builder::{AttentionKind, DecoderBuilder, NormedValues};
use crate::{
    MlpKind, Model,
    programs::{BatchTensors, EvaluationTensors, HostedProgram, TextTensors, UpdateTensors},
    state::SampledTypes,
    training::{Recompute, Training},
};

/// Rows of logits at a time if the config does not set them: a power of two, about 128 MiB of
/// float32. A function of the shapes alone, so that a memory budget never changes rounding.
pub fn default_loss_chunk_rows(vocab: u64, rows: u64) -> u64 {
    let fitting = ((128 << 20) / (4 * vocab)).max(64);
    let power = 1 << fitting.ilog2();
    power.min(rows)
}

/// One micro-batch: forward, loss, backward; adds to the gradients and the loss.
pub fn train(model: &Model, training: &Training, names: Names) -> HostedProgram<BatchTensors> {
    let mut b = DecoderBuilder::of_training(ProgramKind::Train, model, training, names);
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
    let final_norm = b.weights.norm;
    let norm = b.norm(final_norm, x, "");

    let rows = training.batch * training.seq;
    let name = format!("d_{}", b.norm_name(final_norm));
    let d_norm = b.activation(name, model.channels.into());
    let logits = b.logits(training.loss_chunk_rows.min(rows));
    let head = b.weights.head;
    b.program.op(Op::CrossEntropyBackward {
        x: norm.out,
        weight: b.weight(head),
        targets,
        logits,
        loss: b.loss(),
        d_x: d_norm,
        d_weight: b.gradient(head),
        mean_over: rows * training.accumulation,
    });

    let d_x = b.activation("d_x", model.channels.into());
    b.program.op(Op::NormBackward {
        x,
        weight: b.weight(final_norm.weight),
        mean: norm.mean,
        rstd: norm.rstd,
        d_out: d_norm,
        d_x,
        d_weight: b.gradient(final_norm.weight),
        d_bias: final_norm.bias.map(|bias| b.gradient(bias)),
    });
    let Recompute { blocks, cheap } = training.recompute;
    for layer in (0..model.layers).rev() {
        let mut forward = kept.pop().expect("the backward has as many blocks as the forward");
        let mut normed_values = NormedValues::Kept;
        if layer < blocks {
            forward = b.block(layer, forward.x, None);
        } else if layer < blocks + cheap {
            normed_values = NormedValues::Recomputed;
        }
        b.block_backward(layer, &forward, d_x, normed_values);
    }
    let d_wte = b.gradient(b.weights.embedding);
    let d_wpe = b.weights.positions.map(|positions| b.gradient(positions));
    let dropout = b.dropout_at(0, DropoutSite::Embedding);
    b.program.op(Op::EmbedBackward { tokens, d_x, d_wte, d_wpe, dropout });
    HostedProgram { program: b.program, tensors: BatchTensors { tokens, targets } }
}

/// The optimizer's step after the last micro-batch, for the elements that this rank owns. With more
/// than one lane the norm is an input: the host computed it when it added up the lanes.
pub fn update(model: &Model, training: &Training, names: Names) -> HostedProgram<UpdateTensors> {
    let mut b = DecoderBuilder::of_training(ProgramKind::Update, model, training, names);
    // In a small model a rank may own nothing. It never runs its update, which computes a norm only
    // so that the program is not empty.
    let owns_some = b.parameters().iter().any(|state| !state.owned.is_empty());
    let is_norm_given = training.adds_up_lanes() && owns_some;
    let (class, life) = if is_norm_given {
        (TensorClass::Input, Life::Input)
    } else {
        (TensorClass::Scratch, Life::Output)
    };
    let (name, shape) = ("norm".into(), vec![1]);
    let (dtype, role) = (DType::F32, TensorRole::General);
    let norm = b.program.tensor(Tensor { name, shape, dtype, class, life, role });
    let state = b.parameters();
    let gradients = state.iter().map(|state| state.gradient).collect();
    let updates: Vec<_> = b
        .weights
        .parameters
        .iter()
        .zip(state)
        .filter(|(_, state)| !state.owned.is_empty())
        .map(|(parameter, state)| training.optimizer.update(parameter, state, norm))
        .collect();
    if !is_norm_given {
        b.program.op(Op::GradientNorm { gradients, norm });
    }
    for op in updates {
        b.program.op(op);
    }
    HostedProgram { program: b.program, tensors: UpdateTensors { norm } }
}

/// A lower bound of the memory of an evaluation in addition to the state: in a block's MLP, the
/// residual stream, its normalised values, the input of the last product, and the gate of a gated
/// MLP.
pub(crate) fn evaluation_lower_bound(model: &Model, training: &Training) -> Bytes {
    let inner = match model.mlp {
        MlpKind::Gelu(_) => u64::from(model.mlp_channels),
        MlpKind::SwiGlu => 2 * u64::from(model.mlp_channels),
    };
    let of_token = 2 * u64::from(model.channels) + inner;
    let values = (training.eval_batch * training.eval_seq).saturating_mul(of_token);
    Bytes::new(values.saturating_mul(training.activations.size()))
}

/// The losses of some sequences: forward only.
pub fn evaluate(
    model: &Model,
    training: &Training,
    names: Names,
) -> HostedProgram<EvaluationTensors> {
    let mut b = DecoderBuilder::of_training(ProgramKind::Evaluate, model, training, names);
    b.shape = (training.eval_batch, training.eval_seq);
    let tokens = b.input("tokens");
    let targets = b.input("targets");
    let mut x = b.embed(tokens);
    for layer in 0..model.layers {
        x = b.block_forward_only(layer, x, AttentionKind::Plain);
    }
    let norm = b.norm(b.weights.norm, x, "");
    let rows = training.eval_batch * training.eval_seq;
    let logits = b.logits(training.loss_chunk_rows.min(rows));
    let losses = b.program.tensor(Tensor {
        name: "losses".into(),
        shape: vec![training.eval_batch],
        dtype: DType::F32,
        class: TensorClass::Scratch,
        life: Life::Output,
        role: TensorRole::General,
    });
    let weight = b.weight(b.weights.head);
    b.program.op(Op::CrossEntropy { x: norm.out, weight, targets, logits, losses });
    let batch = BatchTensors { tokens, targets };
    HostedProgram { program: b.program, tensors: EvaluationTensors { batch, losses } }
}

/// A prompt of one sequence, up to a whole block: fills its cache and computes the logits of its
/// last row.
pub fn prefill(model: &Model, batch: u64, types: SampledTypes) -> HostedProgram<TextTensors> {
    write_prefill(DecoderBuilder::of_sampling(ProgramKind::Prefill, model, batch, types))
}

/// The same with the state of training, which has caches for [`Training::sampled`] sequences.
pub(crate) fn prefill_in_training(
    model: &Model,
    training: &Training,
    names: Names,
) -> HostedProgram<TextTensors> {
    write_prefill(DecoderBuilder::of_training(ProgramKind::Prefill, model, training, names))
}

fn write_prefill(mut b: DecoderBuilder<'_>) -> HostedProgram<TextTensors> {
    let model = b.model;
    b.shape = (1, model.block.into());
    let tokens = b.input("tokens");
    let mut x = b.embed(tokens);
    for layer in 0..model.layers {
        x = b.block_forward_only(layer, x, AttentionKind::FillsCache);
    }
    b.shape = (1, 1);
    let last = b.activation("last", model.channels.into());
    b.program.op(Op::LastRow { x, out: last });
    let logits = b.next_logits(last);
    HostedProgram { program: b.program, tensors: TextTensors { tokens, logits } }
}

/// One more token of every sequence.
pub fn decode(model: &Model, batch: u64, types: SampledTypes) -> HostedProgram<TextTensors> {
    let b = DecoderBuilder::of_sampling(ProgramKind::Decode, model, batch, types);
    write_decode(b, batch)
}

/// The same with the state of training.
pub(crate) fn decode_in_training(
    model: &Model,
    training: &Training,
    names: Names,
) -> HostedProgram<TextTensors> {
    let b = DecoderBuilder::of_training(ProgramKind::Decode, model, training, names);
    write_decode(b, training.sampled)
}

fn write_decode(mut b: DecoderBuilder<'_>, batch: u64) -> HostedProgram<TextTensors> {
    b.shape = (batch, 1);
    let tokens = b.input("tokens");
    let mut x = b.embed(tokens);
    for layer in 0..b.model.layers {
        x = b.block_forward_only(layer, x, AttentionKind::ReadsCache);
    }
    let logits = b.next_logits(x);
    HostedProgram { program: b.program, tensors: TextTensors { tokens, logits } }
}
