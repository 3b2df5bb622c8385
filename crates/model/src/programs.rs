//! The programs of a job, with the tensors through which the host reads and writes each.

use fitgpt_program::{
    Program,
    units::{ProgramId, TensorId},
};

/// What the host writes before a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTensors {
    /// (B, T)
    pub tokens: TensorId,
    /// (B, T)
    pub targets: TensorId,
}

/// What the host reads after an update, or writes before it if there are lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateTensors {
    /// The norm of the whole gradient.
    pub norm: TensorId,
}

/// What the host writes before an evaluation and reads after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluationTensors {
    /// The sequences.
    pub batch: BatchTensors,
    /// (B)
    pub losses: TensorId,
}

/// What the host writes before a text is continued and reads after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextTensors {
    /// A whole prompt, or one token of each text.
    pub tokens: TensorId,
    /// Of the next token.
    pub logits: TensorId,
}

/// A program with its tensors.
#[derive(Clone, Debug)]
pub struct HostedProgram<T> {
    /// The ops.
    pub program: Program,
    /// What the host reads and writes.
    pub tensors: T,
}

/// A program in a plan with its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramHandle<T> {
    /// Which one.
    pub program: ProgramId,
    /// What the host reads and writes.
    pub tensors: T,
}

/// The programs of training, in the order of their plan.
#[derive(Clone, Debug)]
pub struct TrainingPrograms {
    /// A micro-batch.
    pub train: HostedProgram<BatchTensors>,
    /// The optimizer's step.
    pub update: HostedProgram<UpdateTensors>,
    /// The losses of some sequences.
    pub evaluate: HostedProgram<EvaluationTensors>,
    /// If the run draws samples.
    pub sampling: Option<SamplingPrograms>,
}

/// The programs of sampling, in the order of their plan.
#[derive(Clone, Debug)]
pub struct SamplingPrograms {
    /// A prompt.
    pub prefill: HostedProgram<TextTensors>,
    /// One more token.
    pub decode: HostedProgram<TextTensors>,
}

/// [`TrainingPrograms`] in their plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingHandles {
    /// A micro-batch.
    pub train: ProgramHandle<BatchTensors>,
    /// The optimizer's step.
    pub update: ProgramHandle<UpdateTensors>,
    /// The losses of some sequences.
    pub evaluate: ProgramHandle<EvaluationTensors>,
    /// If the run draws samples.
    pub sampling: Option<SamplingHandles>,
}

/// [`SamplingPrograms`] in their plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingHandles {
    /// A prompt.
    pub prefill: ProgramHandle<TextTensors>,
    /// One more token.
    pub decode: ProgramHandle<TextTensors>,
}

impl<T: Copy> HostedProgram<T> {
    /// As program `id` of a plan.
    fn handle(&self, id: u32) -> ProgramHandle<T> {
        ProgramHandle { program: ProgramId(id), tensors: self.tensors }
    }
}

impl TrainingPrograms {
    /// Train, update and evaluate.
    pub fn phases(&self) -> [&Program; 3] {
        [&self.train.program, &self.update.program, &self.evaluate.program]
    }

    /// In the order of their plan.
    pub fn all(&self) -> impl Iterator<Item = &Program> {
        self.phases().into_iter().chain(self.sampling.iter().flat_map(SamplingPrograms::both))
    }

    /// Where they are in a plan of these programs alone.
    pub fn handles(&self) -> TrainingHandles {
        TrainingHandles {
            train: self.train.handle(0),
            update: self.update.handle(1),
            evaluate: self.evaluate.handle(2),
            sampling: self.sampling.as_ref().map(|sampling| sampling.handles_from(3)),
        }
    }
}

impl SamplingPrograms {
    /// Prefill and decode.
    pub fn both(&self) -> [&Program; 2] {
        [&self.prefill.program, &self.decode.program]
    }

    /// Where they are in a plan of these programs alone.
    pub fn handles(&self) -> SamplingHandles {
        self.handles_from(0)
    }

    fn handles_from(&self, first: u32) -> SamplingHandles {
        SamplingHandles {
            prefill: self.prefill.handle(first),
            decode: self.decode.handle(first + 1),
        }
    }
}

impl From<TrainingPrograms> for Vec<Program> {
    fn from(programs: TrainingPrograms) -> Self {
        let TrainingPrograms { train, update, evaluate, sampling } = programs;
        let sampling = sampling.map(Self::from).unwrap_or_default();
        [train.program, update.program, evaluate.program].into_iter().chain(sampling).collect()
    }
}

impl From<SamplingPrograms> for Vec<Program> {
    fn from(programs: SamplingPrograms) -> Self {
        vec![programs.prefill.program, programs.decode.program]
    }
}
