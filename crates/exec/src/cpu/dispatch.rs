//! Calls the kernel of an op with the op's operands, in the type of its tensors.

use std::ops::Range;

use fitgpt_program::{
    Dropout, Heads, Op, Program, Qkv,
    units::{DType, TensorId},
};
use half::{bf16, f16};

use super::{
    Machine, attention, cross_entropy,
    dropout::{self, Masks},
    embed, linear, muon,
    norm::{self, Affine, GradientMode},
    rotary, update,
    update_8bit::{self, Quantised},
};
use crate::{
    Arguments,
    arena::{Operands, Stored},
    cpu::element::Element,
    random::Mask,
};

/// One op being run.
pub(super) struct Call<'c, 'a> {
    pub(super) machine: &'c mut Machine,
    pub(super) program: &'c Program,
    pub(super) arguments: &'c Arguments,
    pub(super) operands: &'c mut Operands<'a>,
}

/// Runs `op`. All its activations have the same type.
pub(super) fn run(call: &mut Call<'_, '_>, op: &Op) {
    match call.storage(op) {
        DType::Bf16 if call.matrix(op) == DType::Bf16 => call.linear::<bf16, bf16>(op),
        DType::Bf16 => call.run::<bf16>(op),
        DType::F16 => call.run::<f16>(op),
        DType::F32 | DType::U32 | DType::I64 | DType::U8 => call.run::<f32>(op),
    }
}

impl<'c, 'a> Call<'c, 'a> {
    /// The type of an op's activations.
    fn storage(&self, op: &Op) -> DType {
        let tensor = match *op {
            Op::Embed { out, .. } => out,
            Op::Norm { x, .. }
            | Op::NormAgain { x, .. }
            | Op::Rotary { x, .. }
            | Op::LinearSwiGlu { x, .. }
            | Op::Linear { x, .. }
            | Op::LinearGelu { x, .. }
            | Op::LinearResidual { x, .. }
            | Op::CrossEntropy { x, .. }
            | Op::CrossEntropyBackward { x, .. }
            | Op::NormBackward { x, .. }
            | Op::NormBackwardAdd { x, .. }
            | Op::Dropout { x, .. }
            | Op::LastRow { x, .. } => x,
            Op::Attention { qkv, .. }
            | Op::AttentionBackward { qkv, .. }
            | Op::StoreCache { qkv, .. }
            | Op::CachedAttention { qkv, .. } => qkv.queries(),
            Op::LinearBackwardInput { d_out, .. }
            | Op::LinearBackwardInputAdd { d_out, .. }
            | Op::LinearBackwardSwiGlu { d_out, .. }
            | Op::LinearBackwardGelu { d_out, .. }
            | Op::LinearBackwardWeight { d_out, .. } => d_out,
            Op::EmbedBackward { d_x, .. } => d_x,
            Op::GradientNorm { .. }
            | Op::Update { .. }
            | Op::AdamW8bit { .. }
            | Op::Muon { .. } => {
                return DType::F32;
            }
            Op::Named { name, .. } => {
                panic!("`{name}` is an op of another engine: it is planned, never run")
            }
        };
        self.program.get(tensor).dtype
    }

    /// The type of the matrix that a forward reads: float32 for other ops.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only forwards read a matrix of 16 bits")]
    fn matrix(&self, op: &Op) -> DType {
        match *op {
            Op::Linear { weight: matrix, .. }
            | Op::LinearGelu { weight: matrix, .. }
            | Op::LinearSwiGlu { weight: matrix, .. }
            | Op::LinearResidual { weight: matrix, .. } => self.program.get(matrix).dtype,
            _ => DType::F32,
        }
    }

    fn run<E: Element + Stored>(&mut self, op: &Op) {
        match op {
            Op::Embed { .. } | Op::EmbedBackward { .. } => self.embed::<E>(op),
            Op::Norm { .. }
            | Op::NormAgain { .. }
            | Op::NormBackward { .. }
            | Op::NormBackwardAdd { .. } => self.norm::<E>(op),
            Op::Linear { .. }
            | Op::LinearGelu { .. }
            | Op::LinearSwiGlu { .. }
            | Op::LinearResidual { .. } => self.linear::<E, f32>(op),
            Op::LinearBackwardInput { .. }
            | Op::LinearBackwardInputAdd { .. }
            | Op::LinearBackwardSwiGlu { .. }
            | Op::LinearBackwardGelu { .. }
            | Op::LinearBackwardWeight { .. } => self.linear_backward::<E>(op),
            Op::Attention { .. }
            | Op::AttentionBackward { .. }
            | Op::StoreCache { .. }
            | Op::CachedAttention { .. } => self.attention::<E>(op),
            Op::CrossEntropy { .. } | Op::CrossEntropyBackward { .. } => self.loss::<E>(op),
            Op::GradientNorm { .. }
            | Op::Update { .. }
            | Op::AdamW8bit { .. }
            | Op::Muon { .. } => {
                self.update(op);
            }
            Op::Rotary { x, table, turn, .. } => {
                let args = rotary::Rotation {
                    columns: self.columns(*x),
                    positions: self.positions(*x),
                    x: self.write_rows::<E>(*x),
                    table: self.operands.read(*table),
                    head_channels: self.columns(*table),
                    turn: *turn,
                    scratch: self.scratch(),
                };
                rotary::rotate(self.machine, args);
            }
            Op::Dropout { x, out, dropout } => {
                let channels = self.columns(*x);
                let masks = self.masks(dropout, *x);
                let x = self.operands.read::<E>(*x);
                let out = self.operands.write(*out);
                dropout::dropout(self.machine, dropout::DropoutForward { x, out, channels, masks });
            }
            Op::LastRow { x, out } => {
                let channels = self.columns(*x);
                let last = self.arguments.length.checked_sub(1);
                let last = last.expect("a prompt has at least one token") as usize;
                let row = &self.operands.read::<E>(*x)[last * channels..][..channels];
                self.operands.write::<E>(*out).copy_from_slice(row);
            }
            Op::Named { .. } => unreachable!("`storage` refuses it"),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
    fn embed<E: Element + Stored>(&mut self, op: &Op) {
        match *op {
            Op::Embed { tokens, wte, wpe, out, ref dropout } => {
                let (channels, positions) = (self.columns(out), self.positions(out));
                let masks = dropout.as_ref().map(|dropout| self.masks(dropout, out));
                let used = self.used(out);
                let args = embed::EmbedForward {
                    tokens: &self.operands.read(tokens)[..used],
                    wte: self.operands.read(wte),
                    wpe: wpe.map(|wpe| self.operands.read(wpe)),
                    out: &mut self.operands.write::<E>(out)[..used * channels],
                    channels,
                    positions,
                    masks,
                };
                embed::forward(self.machine, args);
            }
            Op::EmbedBackward { tokens, d_x, d_wte, d_wpe, ref dropout } => {
                let (channels, positions) = (self.columns(d_x), self.positions(d_x));
                let masks = dropout.as_ref().map(|dropout| self.masks(dropout, d_x));
                let args = embed::EmbedBackward {
                    tokens: self.operands.read(tokens),
                    d_x: self.operands.read::<E>(d_x),
                    d_wte: self.operands.write(d_wte),
                    d_wpe: d_wpe.map(|d_wpe| self.operands.write(d_wpe)),
                    channels,
                    positions,
                    masks,
                };
                embed::backward(self.machine, args);
            }
            _ => misplaced(op),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
    fn norm<E: Element + Stored>(&mut self, op: &Op) {
        match *op {
            Op::Norm { x, weight, bias, out, mean, rstd, epsilon } => {
                let used = self.norm_rows(x, weight);
                let args = norm::NormForward {
                    x: self.read_rows::<E>(x),
                    affine: self.affine(weight, bias),
                    out: self.write_rows(out),
                    mean: mean.map(|mean| &mut self.operands.write(mean)[..used]),
                    rstd: &mut self.operands.write(rstd)[..used],
                    epsilon,
                    scratch: self.scratch(),
                };
                norm::forward(self.machine, args);
            }
            Op::NormAgain { x, weight, bias, mean, rstd, out } => {
                let used = self.norm_rows(x, weight);
                let args = norm::NormRecompute {
                    x: self.read_rows::<E>(x),
                    affine: self.affine(weight, bias),
                    mean: mean.map(|mean| &self.operands.read(mean)[..used]),
                    rstd: &self.operands.read(rstd)[..used],
                    out: self.write_rows(out),
                    scratch: self.scratch(),
                };
                norm::recompute(self.machine, args);
            }
            Op::NormBackward { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias }
            | Op::NormBackwardAdd { x, weight, mean, rstd, d_out, d_x, d_weight, d_bias } => {
                let adds = matches!(op, Op::NormBackwardAdd { .. });
                let args = norm::NormBackward {
                    x: self.operands.read::<E>(x),
                    weight: self.operands.read(weight),
                    mean: mean.map(|mean| self.operands.read(mean)),
                    rstd: self.operands.read(rstd),
                    d_out: self.operands.read(d_out),
                    d_x: self.operands.write(d_x),
                    d_weight: self.operands.write(d_weight),
                    d_bias: d_bias.map(|d_bias| self.operands.write(d_bias)),
                    scratch: self.scratch(),
                    to: if adds { GradientMode::Add } else { GradientMode::Assign },
                };
                norm::backward(self.machine, args);
            }
            _ => misplaced(op),
        }
    }

    /// Rows of a norm with this weight: one for each head if the weight is as long as a head.
    fn norm_rows(&self, x: TensorId, weight: TensorId) -> usize {
        self.used(x) * self.columns(x) / self.columns(weight)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
    fn linear<E: Element + Stored, W: Element + Stored>(&mut self, op: &Op) {
        match *op {
            Op::Linear { x, weight, bias, out } => {
                let layer = self.layer::<E, W>(x, weight, bias);
                if self.program.get(out).dtype == DType::F32 {
                    let out = self.write_rows::<f32>(out);
                    linear::forward(self.machine, layer, out);
                } else {
                    let out = self.write_rows::<E>(out);
                    linear::forward(self.machine, layer, out);
                }
            }
            Op::LinearGelu { x, weight, bias, pre, out, gelu } => {
                let layer = self.layer::<E, W>(x, weight, bias);
                let pre = pre.map(|pre| self.write_rows(pre));
                let out = self.write_rows(out);
                linear::forward_gelu(self.machine, layer, pre, out, gelu);
            }
            Op::LinearSwiGlu { x, weight, bias, gate, up, out } => {
                let layer = self.layer::<E, W>(x, weight, bias);
                let up = up.map(|up| self.write_rows(up));
                let (gate, out) = (self.read_rows(gate), self.write_rows(out));
                linear::forward_swiglu(self.machine, layer, gate, up, out);
            }
            Op::LinearResidual { x, weight, bias, residual, out, ref dropout } => {
                let masks = dropout.as_ref().map(|dropout| self.masks(dropout, out));
                let layer = self.layer::<E, W>(x, weight, bias);
                let (residual, out) = (self.read_rows(residual), self.write_rows(out));
                linear::forward_residual(self.machine, layer, residual, out, masks);
            }
            _ => misplaced(op),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
    fn linear_backward<E: Element + Stored>(&mut self, op: &Op) {
        match *op {
            Op::LinearBackwardInput { d_out, weight, d_x } => {
                let layer = self.input_gradient::<E>(d_out, weight);
                linear::backward_input(self.machine, layer, self.operands.write(d_x));
            }
            Op::LinearBackwardInputAdd { d_out, weight, d_x } => {
                let layer = self.input_gradient::<E>(d_out, weight);
                linear::backward_input_add(self.machine, layer, self.operands.write(d_x));
            }
            Op::LinearBackwardSwiGlu { d_out, weight, gate, up, out } => {
                let layer = self.input_gradient::<E>(d_out, weight);
                let (gate, up) = (self.operands.write(gate), self.operands.write(up));
                let out = self.operands.write(out);
                linear::backward_swiglu(self.machine, layer, gate, up, out);
            }
            Op::LinearBackwardGelu { d_out, weight, pre, d_pre, gelu } => {
                let layer = self.input_gradient::<E>(d_out, weight);
                let (pre, d_pre) = (self.operands.write(pre), self.operands.write(d_pre));
                linear::backward_gelu(self.machine, layer, pre, d_pre, gelu);
            }
            Op::LinearBackwardWeight { d_out, x, d_weight, d_bias } => {
                let args = linear::LinearWeightGradient {
                    shape: self.linear_shape(d_out, d_weight),
                    d_out: self.operands.read::<E>(d_out),
                    x: self.operands.read(x),
                    d_weight: self.operands.write(d_weight),
                    d_bias: d_bias.map(|d_bias| self.operands.write(d_bias)),
                    scratch: self.scratch(),
                };
                linear::backward_weight(self.machine, args);
            }
            _ => misplaced(op),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
    fn attention<E: Element + Stored>(&mut self, op: &Op) {
        match *op {
            Op::Attention { qkv, out, lse, heads, ref dropout } => {
                let arguments = self.arguments;
                let shape = self.attention_shape(out, heads);
                let args = attention::AttentionForward {
                    shape,
                    qkv: self.read_qkv::<E>(qkv, shape),
                    out: self.operands.write(out),
                    lse: self.operands.write(lse),
                    mask: |sequence| mask(dropout.as_ref(), arguments, sequence),
                    scratch: self.scratch(),
                };
                attention::forward(self.machine, args);
            }
            Op::AttentionBackward { qkv, out, lse, d_out, d_qkv, heads, ref dropout } => {
                let arguments = self.arguments;
                let shape = self.attention_shape(out, heads);
                let args = attention::AttentionBackward {
                    shape,
                    qkv: self.read_qkv::<E>(qkv, shape),
                    out: self.operands.read(out),
                    lse: self.operands.read(lse),
                    d_out: self.operands.read(d_out),
                    d_qkv: match d_qkv {
                        Qkv::Joined(all) => attention::QkvMut::Joined(self.operands.write(all)),
                        Qkv::Split { q, k, v } => {
                            attention::QkvMut::Split([q, k, v].map(|id| self.operands.write(id)))
                        }
                    },
                    mask: |sequence| mask(dropout.as_ref(), arguments, sequence),
                    scratch: self.scratch(),
                };
                attention::backward(self.machine, args);
            }
            Op::StoreCache { qkv, keys, values, heads } => {
                let capacity = self.program.get(keys).shape[1] as usize;
                let length = capacity * self.columns(keys);
                let first = self.arguments.cache_row as usize * length;
                let used = self.used(qkv.queries());
                let shape = attention::AttentionShape::new(1, used, used, heads);
                attention::store(attention::CacheStore {
                    shape,
                    qkv: self.read_qkv::<E>(qkv, shape),
                    keys: &mut self.operands.write(keys)[first..][..length],
                    values: &mut self.operands.write(values)[first..][..length],
                });
            }
            Op::CachedAttention { qkv, keys, values, out, heads } => {
                let shape = &self.program.get(keys).shape;
                let (batch, capacity) = (shape[0] as usize, shape[1] as usize);
                let used = self.arguments.length as usize;
                let one = attention::AttentionShape::new(batch, 1, 1, heads);
                let args = attention::CachedAttention {
                    shape: attention::AttentionShape::new(batch, capacity, used, heads),
                    qkv: self.read_qkv::<E>(qkv, one),
                    keys: self.operands.write(keys),
                    values: self.operands.write(values),
                    out: self.operands.write(out),
                    scratch: self.scratch(),
                };
                attention::cached(self.machine, args);
            }
            _ => misplaced(op),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
    fn loss<E: Element + Stored>(&mut self, op: &Op) {
        match *op {
            Op::CrossEntropy { x, weight, targets, logits, losses } => {
                let args = cross_entropy::LossForward {
                    shape: self.loss_shape(x, weight, logits),
                    x: self.operands.read::<E>(x),
                    weight: self.operands.read(weight),
                    targets: self.operands.read(targets),
                    logits: self.operands.write(logits),
                    losses: self.operands.write(losses),
                    scratch: self.scratch(),
                };
                cross_entropy::forward(self.machine, args);
            }
            Op::CrossEntropyBackward {
                x,
                weight,
                targets,
                logits,
                loss,
                d_x,
                d_weight,
                mean_over,
            } => {
                let args = cross_entropy::LossBackward {
                    shape: self.loss_shape(x, weight, logits),
                    x: self.operands.read::<E>(x),
                    weight: self.operands.read(weight),
                    targets: self.operands.read(targets),
                    logits: self.operands.write(logits),
                    loss: &mut self.operands.write(loss)[0],
                    d_x: self.operands.write(d_x),
                    d_weight: self.operands.write(d_weight),
                    scratch: self.scratch(),
                    mean_over: mean_over as f64,
                    loss_scale: self.arguments.loss_scale,
                };
                cross_entropy::backward(self.machine, args);
            }
            _ => misplaced(op),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
    fn update(&mut self, op: &Op) {
        match *op {
            Op::GradientNorm { ref gradients, norm } => {
                let sums: &mut [f64] = self.operands.scratch();
                let mut free = &mut *sums;
                for &gradient in gradients {
                    let gradient = self.operands.read(gradient);
                    let blocks;
                    (blocks, free) = free.split_at_mut(update::norm_blocks(gradient.len()));
                    update::squares(self.machine, gradient, blocks);
                }
                self.operands.write(norm)[0] = update::norm(sums, self.arguments);
            }
            Op::Update { norm, parameter, gradient, ref states, first, decays, ref rule } => {
                let owned = self.owned(first, states[0]);
                let weights = update::Weights {
                    parameter: &mut self.operands.write(parameter)[owned.clone()],
                    gradient: &mut self.operands.write(gradient)[owned],
                    norm: self.operands.read(norm)[0],
                    decays,
                    arguments: self.arguments,
                };
                let state = |at: usize| self.operands.write(states[at]);
                update::elements(self.machine, rule, weights, state);
            }
            Op::AdamW8bit {
                norm,
                parameter,
                gradient,
                exp_avg,
                exp_avg_scale,
                exp_avg_sq,
                exp_avg_sq_scale,
                first,
                decays,
                ref adam,
            } => {
                let owned = self.owned(first, exp_avg);
                let args = update_8bit::AdamW8bit {
                    parameter: &mut self.operands.write(parameter)[owned.clone()],
                    gradient: &mut self.operands.write(gradient)[owned],
                    exp_avg: self.quantised(exp_avg, exp_avg_scale),
                    exp_avg_sq: self.quantised(exp_avg_sq, exp_avg_sq_scale),
                    norm: self.operands.read(norm)[0],
                    adam,
                    decays,
                    arguments: self.arguments,
                };
                update_8bit::adamw(self.machine, args);
            }
            Op::Muon { norm, parameter, gradient, momentum, ref muon } => {
                let (out, inputs) = (self.rows(parameter), self.columns(parameter));
                let args = muon::MuonStep {
                    shape: muon::MatrixShape { out, inputs },
                    parameter: self.operands.write(parameter),
                    gradient: self.operands.write(gradient),
                    momentum: self.operands.write(momentum),
                    norm: self.operands.read(norm)[0],
                    muon,
                    arguments: self.arguments,
                    scratch: self.scratch(),
                };
                muon::step(self.machine, args);
            }
            _ => misplaced(op),
        }
    }

    fn quantised(&mut self, codes: TensorId, scales: TensorId) -> Quantised<'a> {
        Quantised { codes: self.operands.write(codes), scales: self.operands.write(scales) }
    }

    /// The elements of a parameter that an update changes: as many as there are moments.
    fn owned(&self, first: u64, moments: TensorId) -> Range<usize> {
        let first = first as usize;
        first..first + self.program.get(moments).count() as usize
    }

    fn rows(&self, id: TensorId) -> usize {
        self.program.get(id).rows() as usize
    }

    fn columns(&self, id: TensorId) -> usize {
        self.program.get(id).columns() as usize
    }

    /// How many rows of an activation are computed.
    fn used(&self, id: TensorId) -> usize {
        self.arguments.rows_in_use(self.program, self.rows(id) as u64) as usize
    }

    fn read_rows<E: Stored>(&self, id: TensorId) -> &'a [E] {
        &self.operands.read(id)[..self.used(id) * self.columns(id)]
    }

    fn write_rows<E: Stored>(&mut self, id: TensorId) -> &'a mut [E] {
        let count = self.used(id) * self.columns(id);
        &mut self.operands.write(id)[..count]
    }

    fn scratch(&mut self) -> &'a mut [f32] {
        self.operands.scratch()
    }

    /// The masks of the rows of `id`, (B, T, C).
    fn masks<'m>(&self, dropout: &'m Dropout, id: TensorId) -> Masks<'m>
    where
        'c: 'm,
    {
        let seq = self.program.get(id).shape[1] as usize;
        Masks::new(dropout, self.arguments, seq)
    }

    fn positions(&self, id: TensorId) -> embed::RowPositions {
        embed::RowPositions {
            first: self.arguments.first_position(self.program) as usize,
            seq: self.program.get(id).shape[1] as usize,
        }
    }

    fn affine(&self, weight: TensorId, bias: Option<TensorId>) -> Affine<'a> {
        let bias = bias.map(|bias| self.operands.read(bias));
        Affine { weight: self.operands.read(weight), bias }
    }

    fn linear_shape(&self, rows: TensorId, weight: TensorId) -> linear::LinearShape {
        let outputs = self.rows(weight);
        linear::LinearShape { rows: self.used(rows), inputs: self.columns(weight), outputs }
    }

    fn layer<E: Stored, W: Stored>(
        &mut self,
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
    ) -> linear::LinearForward<'a, E, W> {
        linear::LinearForward {
            shape: self.linear_shape(x, weight),
            x: self.read_rows(x),
            weight: self.operands.read(weight),
            bias: bias.map(|bias| self.operands.read(bias)),
            scratch: self.scratch(),
        }
    }

    fn input_gradient<E: Stored>(
        &mut self,
        d_out: TensorId,
        weight: TensorId,
    ) -> linear::LinearInputGradient<'a, E> {
        linear::LinearInputGradient {
            shape: self.linear_shape(d_out, weight),
            d_out: self.operands.read(d_out),
            weight: self.operands.read(weight),
            scratch: self.scratch(),
        }
    }

    fn attention_shape(&self, out: TensorId, heads: Heads) -> attention::AttentionShape {
        let shape = &self.program.get(out).shape;
        let (batch, seq) = (shape[0] as usize, shape[1] as usize);
        attention::AttentionShape::new(batch, seq, self.used(out).min(seq), heads)
    }

    /// Queries, keys and values of sequences of `shape.seq` rows.
    fn read_qkv<E: Stored>(
        &self,
        qkv: Qkv,
        shape: attention::AttentionShape,
    ) -> attention::QkvViews<'a, E> {
        match qkv {
            Qkv::Joined(all) => attention::QkvViews::joined(self.operands.read(all), shape),
            Qkv::Split { q, k, v } => {
                attention::QkvViews::split([q, k, v].map(|id| self.operands.read(id)), shape)
            }
        }
    }

    fn loss_shape(
        &self,
        x: TensorId,
        weight: TensorId,
        logits: TensorId,
    ) -> cross_entropy::LossShape {
        cross_entropy::LossShape {
            rows: self.rows(x),
            channels: self.columns(x),
            vocab: self.rows(weight),
            chunk: self.rows(logits),
        }
    }
}

fn mask(dropout: Option<&Dropout>, arguments: &Arguments, sequence: usize) -> Option<Mask> {
    dropout.map(|dropout| Mask::new(dropout, arguments, sequence as u64))
}

/// Panics for an op that `run` passed to the wrong function.
fn misplaced(op: &Op) -> ! {
    unreachable!("`{}` was sent to the wrong function", op.name())
}
