//! One pass through the model: its shapes, its types, and what Python variables hold.

use std::fmt;

use fitgpt_program::{
    Life, TensorClass, TensorRole,
    units::{DType, TensorId},
};

use super::{
    ProgramSpec, TorchOptions, TorchPhase,
    tape::{HeldState, Tape},
};

/// A dropout's result and its mask.
#[derive(Clone, Copy)]
pub(super) struct DropoutOutput {
    pub(super) out: TensorId,
    pub(super) mask: Option<TensorId>,
}

/// The pass before this one, whose results variables still hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PreviousPass {
    /// Of an evaluation.
    Batch,
    /// Of a training step.
    MicroBatch,
}

impl PreviousPass {
    const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::MicroBatch => "micro-batch",
        }
    }

    const fn logits(self) -> TensorRole {
        match self {
            Self::Batch => TensorRole::LastBatchLogits,
            Self::MicroBatch => TensorRole::LastMicroBatchLogits,
        }
    }
}

/// A pass under construction.
pub(super) struct ModelPass<'a> {
    pub(super) tape: Tape<'a>,
    pub(super) options: &'a TorchOptions,
    pub(super) batch: u64,
    pub(super) seq: u64,
    pub(super) dropout: bool,
    /// Whether autograd records the pass.
    pub(super) is_recorded: bool,
    /// Half copies of weights: autocast makes each once and keeps it until its context ends.
    pub(super) cast_weights: Vec<TensorId>,
}

impl<'a> ModelPass<'a> {
    pub(super) fn new(
        phase: TorchPhase,
        spec: &ProgramSpec<'a>,
        held: HeldState,
        (batch, seq): (u64, u64),
    ) -> Self {
        let tape = Tape::new(phase.name(), spec, held);
        let options = spec.options;
        let is_recorded = phase == TorchPhase::Train;
        let cast_weights = Vec::new();
        Self { tape, options, batch, seq, dropout: false, is_recorded, cast_weights }
    }

    /// The type of matrix products.
    pub(super) fn compute(&self) -> DType {
        self.options.precision.dtype()
    }

    pub(super) fn channels(&self) -> u64 {
        self.tape.model.channels.into()
    }

    /// Whether linear layers multiply half copies of float32 values.
    pub(super) fn is_autocast(&self) -> bool {
        self.compute() != DType::F32
    }

    /// (B, T, columns) in the type of matrix products.
    pub(super) fn value(&mut self, name: impl fmt::Display, columns: u64) -> TensorId {
        let shape = [self.batch, self.seq, columns];
        self.tape.value(name, &shape, self.compute())
    }

    /// (B, T, C) in float32: the residual stream.
    pub(super) fn residual(&mut self, name: impl fmt::Display) -> TensorId {
        let shape = [self.batch, self.seq, self.channels()];
        self.tape.value(name, &shape, DType::F32)
    }

    /// (B, H, T, T): a value for every pair of tokens in every head.
    pub(super) fn pairs(
        &mut self,
        name: impl fmt::Display,
        dtype: DType,
        role: TensorRole,
    ) -> TensorId {
        let shape = [self.batch, self.tape.model.heads.into(), self.seq, self.seq];
        let pairs = self.tape.value(name, &shape, dtype);
        self.tape.mark(pairs, role);
        pairs
    }

    /// Tokens and targets.
    pub(super) fn inputs(&mut self, prefix: &str, life: Life) -> (TensorId, TensorId) {
        let shape = [self.batch, self.seq];
        let mut input = |name: &str| {
            let name = format_args!("{prefix}{name}");
            self.tape.tensor(name, &shape, DType::I64, (TensorClass::Input, life))
        };
        (input("tokens"), input("targets"))
    }

    /// How long the logits of this pass live.
    pub(super) fn life_of_logits(&self) -> Life {
        let own = if self.is_recorded { PreviousPass::MicroBatch } else { PreviousPass::Batch };
        if self.options.names_logits(own) { Life::Output } else { Life::Inner }
    }

    /// What the previous pass left: its loss and, if a variable holds them, its logits.
    pub(super) fn stale(&mut self, pass: PreviousPass) -> Vec<TensorId> {
        let mut stale = Vec::new();
        let loss = (TensorClass::Scratch, Life::Input);
        stale.push(self.tape.tensor(
            format_args!("loss of the last {}", pass.name()),
            &[],
            DType::F32,
            loss,
        ));
        if self.options.names_logits(pass) {
            let shape = [self.batch * self.seq, self.tape.model.vocab.into()];
            let logits = (TensorClass::Logits, Life::Input);
            let name = format_args!("logits of the last {}", pass.name());
            let logits = self.tape.tensor(name, &shape, self.compute(), logits);
            self.tape.mark(logits, pass.logits());
            stale.push(logits);
        }
        stale
    }

    /// What the training loop's global variables hold during another phase.
    pub(super) fn names_of_training(&mut self, phase: TorchPhase) {
        let (batch, seq) = (self.options.batch, self.options.seq);
        let mut names = Vec::new();
        for name in ["training tokens", "training targets"] {
            let input = (TensorClass::Input, Life::Output);
            names.push(self.tape.tensor(name, &[batch, seq], DType::I64, input));
        }
        if phase != TorchPhase::EvaluateFirst {
            let loss = (TensorClass::Scratch, Life::Output);
            names.push(self.tape.tensor("training loss", &[], DType::F32, loss));
        }
        for variable in &names {
            self.tape.mark(*variable, TensorRole::TrainingVariable);
        }
        if phase != TorchPhase::EvaluateFirst && self.options.names_logits(PreviousPass::MicroBatch)
        {
            let pass = PreviousPass::MicroBatch;
            let shape = [batch * seq, self.tape.model.vocab.into()];
            let logits = (TensorClass::Logits, Life::Output);
            let name = format_args!("logits of the last {}", pass.name());
            let logits = self.tape.tensor(name, &shape, self.compute(), logits);
            self.tape.mark(logits, pass.logits());
            names.push(logits);
        }
        self.tape.run("to", &[], &names);
    }
}
