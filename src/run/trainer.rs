//! A run in memory: the backend with its arena, the data, and how far the run is.

use fitgpt_exec::{Arguments, Backend};
use fitgpt_plan::{
    config::Config,
    job::{EVALUATE, Job, TRAIN, UPDATE},
    model::Parameter,
    program::TrainingState,
    units::{Bytes, TensorId},
};
use serde::{Deserialize, Serialize};

use super::{error::RunError, init, scaler::Scaler, schedule, stop::Stop};
use crate::{
    checkpoint::{self, StoreError, TensorPiece, Tensors},
    data::{Batches, Dataset, Fingerprint, Purpose, Split},
};

/// How far a run is: what a checkpoint holds in addition to the tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The step that comes next.
    pub step: u64,
    /// Updates made; fewer than steps if float16 overflowed.
    pub updates: u64,
    /// The least validation loss so far.
    pub best_val_loss: Option<f64>,
    /// The step of that evaluation; checkpoints of earlier versions do not say.
    #[serde(default)]
    pub best_step: Option<u64>,
    /// The loss scale.
    pub scaler: Scaler,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stepped {
    /// Mean over the effective batch.
    pub loss: f64,
    /// Learning rate used.
    pub lr: f64,
    /// Norm of the whole gradient, before clipping.
    pub grad_norm: f64,
    /// Whether overflow left the update out.
    pub is_skipped: bool,
}

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean over sequences.
    pub mean: f64,
    /// Its standard error; NaN for a single sequence.
    pub standard_error: f64,
}

/// The losses of both splits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluated {
    /// On data that is trained on.
    pub train: Estimate,
    /// On data that is not.
    pub val: Estimate,
}

/// A run in memory.
pub struct Trainer {
    backend: Box<dyn Backend>,
    config: Config,
    job: Job,
    data: Dataset,
    fingerprint: Fingerprint,
    parameters: Vec<Parameter>,
    state: TrainingState,
    tensors: Tensors,
    tokens: Vec<u32>,
    targets: Vec<u32>,
    losses: Vec<f32>,
    /// How far the run is.
    pub position: Position,
}

impl Trainer {
    /// A run at step 0 whose weights are still to be set. `backend` holds the plan of
    /// [`Job::training_programs`].
    pub fn new(
        mut backend: Box<dyn Backend>,
        config: Config,
        job: Job,
        data: Dataset,
        scaler: Scaler,
    ) -> Result<Self, RunError> {
        let training = &job.training;
        for (split, seq) in [
            (Split::Train, training.seq),
            (Split::Train, training.eval_seq),
            (Split::Val, training.eval_seq),
        ] {
            batches(&config, &job, seq).admits(data.tokens(split))?;
        }
        let most = (training.batch * training.seq).max(training.eval_batch * training.eval_seq);
        let parameters = job.model.parameters();
        let tensors = Tensors::of(&job.model, &job.training.optimizer);
        let state = TrainingState::new(&job.model, &job.training.optimizer);
        init::rotary(&mut *backend, TRAIN, state.rotary, &job.model)?;
        let fingerprint = data.fingerprint()?;
        let position =
            Position { step: 0, updates: 0, best_val_loss: None, best_step: None, scaler };
        Ok(Self {
            tokens: vec![0; most as usize],
            targets: vec![0; most as usize],
            losses: vec![0.0; training.eval_batch as usize],
            backend,
            config,
            job,
            data,
            fingerprint,
            parameters,
            state,
            tensors,
            position,
        })
    }

    /// Draws the first weights.
    pub fn initialise(&mut self) -> Result<(), RunError> {
        Ok(init::weights(&mut *self.backend, TRAIN, &self.parameters, self.config.seed())?)
    }

    /// What is trained.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// As resolved.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The data that is trained on.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint.clone()
    }

    /// What a checkpoint of this run holds.
    pub fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// One optimizer step; `None` if it was stopped before its update, so that nothing but the
    /// gradients has changed.
    pub fn step(&mut self, stop: &Stop) -> Result<Option<Stepped>, RunError> {
        let training = self.job.training;
        let step = self.position.step;
        let loss = self.state.loss;
        self.backend.write(TRAIN, loss, Bytes::ZERO, &0f32.to_ne_bytes())?;
        let mut arguments = Arguments {
            seed: self.config.seed(),
            step,
            loss_scale: self.position.scaler.scale,
            lr: schedule::lr(&self.config, step) as f32,
            updates: self.position.updates + 1,
            ..Arguments::default()
        };
        for micro in 0..training.accumulation {
            if stop.is_asked_for() {
                return Ok(None);
            }
            arguments.first_sequence = micro * training.batch;
            let (split, purpose) = (Split::Train, Purpose::Training { step });
            self.load(
                TRAIN,
                training.batch,
                training.seq,
                split,
                purpose,
                arguments.first_sequence,
            )?;
            self.backend.run(TRAIN, &arguments)?;
        }
        self.backend.run(UPDATE, &arguments)?;

        let norm = self.backend.plan().program(UPDATE).find("norm").expect("update has a norm");
        let mut read = [0.0; 2];
        self.backend.read_scalars(&[(TRAIN, loss), (UPDATE, norm)], &mut read)?;
        let [loss, grad_norm] = read.map(f64::from);
        let is_finite = grad_norm.is_finite();
        if is_finite {
            self.position.updates += 1;
        }
        self.position.scaler.learn(is_finite);
        self.position.step += 1;
        let lr = schedule::lr(&self.config, step);
        let is_skipped = !is_finite && self.position.scaler.is_dynamic;
        Ok(Some(Stepped { loss, lr, grad_norm, is_skipped }))
    }

    /// The losses of both splits; `None` if it was stopped.
    pub fn evaluate(&mut self, stop: &Stop) -> Result<Option<Evaluated>, RunError> {
        let Some(train) = self.estimate(Split::Train, stop)? else { return Ok(None) };
        let Some(val) = self.estimate(Split::Val, stop)? else { return Ok(None) };
        Ok(Some(Evaluated { train, val }))
    }

    fn estimate(&mut self, split: Split, stop: &Stop) -> Result<Option<Estimate>, RunError> {
        let training = self.job.training;
        let output = self.backend.plan().program(EVALUATE).find("losses");
        let output = output.expect("evaluate has losses");
        let count = self.job.eval_sequences;
        let (mut sum, mut squares) = (0.0, 0.0);
        for first in (0..count).step_by(training.eval_batch as usize) {
            if stop.is_asked_for() {
                return Ok(None);
            }
            let purpose = Purpose::Evaluation { split };
            self.load(EVALUATE, training.eval_batch, training.eval_seq, split, purpose, first)?;
            self.backend.run(EVALUATE, &Arguments::default())?;
            let bytes = bytemuck::cast_slice_mut(&mut self.losses);
            self.backend.read(EVALUATE, output, Bytes::ZERO, bytes)?;
            for loss in &self.losses {
                sum += f64::from(*loss);
                squares += f64::from(*loss) * f64::from(*loss);
            }
        }
        let n = count as f64;
        let mean = sum / n;
        let variance = ((squares - n * mean * mean) / (n - 1.0)).max(0.0);
        Ok(Some(Estimate { mean, standard_error: (variance / n).sqrt() }))
    }

    /// Puts a micro-batch in place.
    fn load(
        &mut self,
        program: usize,
        batch: u64,
        seq: u64,
        split: Split,
        purpose: Purpose,
        first_sequence: u64,
    ) -> Result<(), RunError> {
        let count = (batch * seq) as usize;
        let (tokens, targets) = (&mut self.tokens[..count], &mut self.targets[..count]);
        let file = self.data.tokens(split);
        let batches = batches(&self.config, &self.job, seq);
        batches.fill(file, purpose, first_sequence, tokens, targets)?;
        for (name, values) in [("tokens", tokens), ("targets", targets)] {
            let tensor = self.backend.plan().program(program).find(name).expect("both are inputs");
            self.backend.write(program, tensor, Bytes::ZERO, bytemuck::cast_slice(values))?;
        }
        Ok(())
    }

    /// The tensor that a piece of a checkpoint belongs to.
    fn tensor_of(&self, piece: &TensorPiece<'_>) -> TensorId {
        let entry = piece.entry;
        let index = self.parameters.iter().position(|p| p.name == entry.parameter);
        let state = &self.state.parameters[index.expect("entries are made from the parameters")];
        entry.state.map_or(state.weight, |name| state.optimizer(name))
    }
}

fn batches(config: &Config, job: &Job, seq: u64) -> Batches {
    Batches::new(config.seed(), seq as usize, job.model.vocab)
}

impl checkpoint::TensorSource for Trainer {
    fn read(&mut self, piece: TensorPiece<'_>, out: &mut [u8]) -> Result<(), StoreError> {
        let start = Bytes::new(piece.start as u64);
        let tensor = self.tensor_of(&piece);
        Ok(self.backend.read(TRAIN, tensor, start, out)?)
    }
}

impl checkpoint::TensorSink for Trainer {
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        let start = Bytes::new(piece.start as u64);
        let tensor = self.tensor_of(&piece);
        Ok(self.backend.write(TRAIN, tensor, start, bytes)?)
    }
}
