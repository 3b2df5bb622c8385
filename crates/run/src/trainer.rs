//! A run in memory: the backend with its arena, the data, and the progress of the run.
//!
//! With several ranks there is a [`Trainer`] on each. The root's is driven by the training loop,
//! the others' by the root's commands ([`Trainer::follow`]).
//!
//! A step's loss is the mean over the effective batch; nanoGPT prints the loss of its last
//! micro-batch.

use std::{ops::Range, rc::Rc};

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{RunPosition, Scaler, StoreError, TensorPiece, Tensors};
use fitgpt_config::Config;
use fitgpt_data::{Batches, Dataset, Fingerprint, Purpose, Split};
use fitgpt_exec::{Arguments, Backend};
use fitgpt_model::{
    Parameter,
    job::Job,
    programs::{BatchTensors, EvaluationTensors, ProgramHandle, TrainingHandles},
    state::TrainingState,
};
use fitgpt_program::units::{Bytes, ProgramId, TensorId};

use super::{
    error::RunError,
    follow::{Command, CommandWords, Owners, StateBytes},
    init,
    lanes::{self, LaneSum, Round},
    sample::{Choice, Continuation},
    schedule,
    stop::StopFlag,
};
use crate::ranks::{ROOT, Ranks, hash};

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepResult {
    /// Mean over the effective batch.
    pub loss: f64,
    /// Learning rate used.
    pub lr: f64,
    /// Norm of the whole gradient, before clipping.
    pub grad_norm: f64,
    /// Whether the update was skipped because of an overflow.
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
    /// On the training split.
    pub train: Estimate,
    /// On the validation split.
    pub val: Estimate,
}

/// A run in memory.
pub struct Trainer {
    ranks: Rc<Ranks>,
    backend: Box<dyn Backend>,
    config: Config,
    job: Job,
    programs: TrainingHandles,
    data: Dataset,
    fingerprint: Fingerprint,
    parameters: Vec<Parameter>,
    state: TrainingState,
    tensors: Tensors,
    tokens: Vec<u32>,
    targets: Vec<u32>,
    losses: EvaluatedRound,
    /// If samples are drawn.
    continuation: Option<Continuation>,
    /// With more than one lane.
    lanes: Option<LaneSum>,
    owners: Owners,
    /// Whether the other ranks may be waiting for this one.
    is_midway: bool,
    last_step: Option<StepResult>,
    /// The progress of the run; only the root updates it.
    pub position: RunPosition,
}

/// Buffers for the losses of one round of an evaluation, one batch per rank.
struct EvaluatedRound {
    /// A flag to stop, and a loss for each sequence.
    own: Vec<f32>,
    /// `own` of all ranks.
    all: Vec<f32>,
}

impl Trainer {
    /// A run of a single process at step 0 whose weights are not set yet. `backend` has the plan of
    /// [`Job::training_programs`], which are `programs` in it.
    pub fn new(
        backend: Box<dyn Backend>,
        config: Config,
        job: Job,
        programs: TrainingHandles,
        data: Dataset,
        scaler: Scaler,
    ) -> Result<Self, RunError> {
        Self::of_rank(Rc::new(Ranks::single()), backend, config, job, programs, data, scaler)
    }

    /// The part of a run on one of `ranks`.
    pub fn of_rank(
        ranks: Rc<Ranks>,
        mut backend: Box<dyn Backend>,
        config: Config,
        job: Job,
        programs: TrainingHandles,
        data: Dataset,
        scaler: Scaler,
    ) -> Result<Self, RunError> {
        let training = &job.training;
        assert_eq!(training.share, ranks.share(), "the plan is of this rank");
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
        let state = TrainingState::new(&job.model, training);
        let continuation = programs
            .sampling
            .and_then(|sampling| Continuation::in_training(&job.model, training, &state, sampling));
        let program = backend.plan().program(programs.train.program);
        let lanes = LaneSum::new(Rc::clone(&ranks), training, &parameters, program, &state);
        let owners = Owners::new(training.share.ranks, &parameters, training.optimizer);
        init::rotary(&mut *backend, state.rotary, &job.model)?;
        let fingerprint = data.fingerprint()?;
        let position =
            RunPosition { step: 0, updates: 0, best_val_loss: None, best_step: None, scaler };
        Ok(Self {
            tokens: vec![0; most as usize],
            targets: vec![0; most as usize],
            losses: EvaluatedRound {
                own: vec![0.0; 1 + training.eval_batch as usize],
                all: vec![0.0; ranks.count() * (1 + training.eval_batch as usize)],
            },
            continuation,
            lanes,
            owners,
            is_midway: false,
            last_step: None,
            ranks,
            backend,
            config,
            job,
            programs,
            data,
            fingerprint,
            parameters,
            state,
            tensors,
            position,
        })
    }

    /// Initialises the weights.
    pub fn initialise(&mut self) -> Result<(), RunError> {
        Ok(init::weights(&mut *self.backend, &self.parameters, self.config.seed())?)
    }

    /// Sends the root's weights to all ranks. They are sent rather than initialised on each rank,
    /// because another machine may round differently.
    pub fn share_weights(&mut self) -> Result<(), RunError> {
        self.command(Command::Weights);
        self.take_weights()
    }

    fn take_weights(&mut self) -> Result<(), RunError> {
        match &mut self.lanes {
            Some(lanes) if self.ranks.count() > 1 => {
                Ok(lanes.broadcast_weights(&mut *self.backend, &self.state)?)
            }
            _ => Ok(()),
        }
    }

    /// Whether a step or an evaluation failed halfway: then the other ranks are not waiting for
    /// commands.
    pub fn is_midway(&self) -> bool {
        self.is_midway
    }

    /// Lets the other ranks end.
    pub fn end(&self) {
        self.command(Command::End);
    }

    /// Sends a command to all other ranks.
    fn command(&self, command: Command) {
        let encoded = command.encode();
        let bytes = bytemuck::bytes_of(&encoded);
        let sends: Vec<_> = self.ranks.others().map(|rank| (rank, bytes)).collect();
        self.ranks.exchange(&sends, Vec::new());
    }

    /// Executes the root's commands until the run ends.
    pub fn follow(&mut self, stop: &StopFlag) -> Result<(), RunError> {
        loop {
            let mut encoded = CommandWords::default();
            self.ranks.receive(ROOT, bytemuck::bytes_of_mut(&mut encoded));
            match Command::decode(encoded) {
                Command::Weights => self.take_weights()?,
                Command::Step { step, updates, lr, loss_scale } => {
                    let arguments = Arguments { step, updates, lr, loss_scale, ..self.arguments() };
                    self.step_together(arguments, stop)?;
                }
                Command::Evaluate(split) => _ = self.estimate_together(split, stop)?,
                Command::Send(bytes) => {
                    let (tensor, start, length) = self.own_state(bytes);
                    let lanes = self.lanes.as_mut().expect("several ranks have several lanes");
                    let staging = &mut lanes.staging()[..length];
                    self.backend.read(ProgramId::FIRST, tensor, start, staging)?;
                    self.ranks.send(ROOT, staging);
                }
                Command::Receive(bytes) => {
                    let (tensor, start, length) = self.own_state(bytes);
                    let lanes = self.lanes.as_mut().expect("several ranks have several lanes");
                    let staging = &mut lanes.staging()[..length];
                    self.ranks.receive(ROOT, staging);
                    self.backend.write(ProgramId::FIRST, tensor, start, staging)?;
                }
                Command::End => return Ok(()),
            }
        }
    }

    /// Bytes of an optimizer state that this rank owns.
    fn own_state(&self, bytes: StateBytes) -> (TensorId, Bytes, usize) {
        let StateBytes { parameter, state, start, length } = bytes;
        let (_, tensor) = self.state.parameters[parameter as usize].states[state as usize];
        (tensor, Bytes::new(start), length as usize)
    }

    /// The job of this run.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The resolved config.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The fingerprint of the training data.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint.clone()
    }

    /// A number that depends only on the training so far: a hash of the last step's loss and norm.
    pub fn fingerprint_of_steps(&self) -> u64 {
        let Some(StepResult { loss, grad_norm, .. }) = self.last_step else { return 0 };
        let words = [self.position.step, loss.to_bits(), grad_norm.to_bits()];
        hash(bytemuck::cast_slice(&words))
    }

    /// How many tokens a split has.
    pub fn tokens_of(&self, split: Split) -> u64 {
        self.data.tokens(split).len()
    }

    /// The tensors of a checkpoint of this run.
    pub fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// One optimizer step; `None` if it was stopped before its update, when only the gradients have
    /// changed.
    pub fn step(&mut self, stop: &StopFlag) -> Result<Option<StepResult>, RunError> {
        let step = self.position.step;
        let lr = schedule::lr(&self.config, step);
        let (updates, loss_scale) = (self.position.updates + 1, self.position.scaler.scale);
        let arguments = Arguments { step, updates, lr: lr as f32, loss_scale, ..self.arguments() };
        self.command(Command::Step { step, updates, lr: arguments.lr, loss_scale });
        self.is_midway = true;
        let stepped = self.step_together(arguments, stop)?;
        self.is_midway = false;
        let Some([loss, grad_norm]) = stepped else { return Ok(None) };

        let is_finite = grad_norm.is_finite();
        if is_finite {
            self.position.updates += 1;
        }
        self.position.scaler.update(is_finite);
        self.position.step += 1;
        let is_skipped = !is_finite && self.position.scaler.is_dynamic;
        let stepped = StepResult { loss, lr, grad_norm, is_skipped };
        self.last_step = Some(stepped);
        Ok(Some(stepped))
    }

    /// How long this rank has waited for others since the last call; `None` if there are none.
    pub fn take_wait_ms(&self) -> Option<f64> {
        let waited = self.ranks.take_waited().as_secs_f64();
        (self.ranks.count() > 1).then_some(waited * 1e3)
    }

    /// The arguments that are the same in every step.
    fn arguments(&self) -> Arguments {
        Arguments { seed: self.config.seed(), ..Arguments::default() }
    }

    /// This rank's part of a step. The loss and the norm are the same on all ranks.
    fn step_together(
        &mut self,
        arguments: Arguments,
        stop: &StopFlag,
    ) -> Result<Option<[f64; 2]>, RunError> {
        let training = self.job.training;
        let TrainingHandles { train, update, .. } = self.programs;
        let norm = update.tensors.norm;
        let (first, last) = (0, training.accumulation);
        if self.lanes.is_none() {
            if !self.accumulate(first..last, arguments, stop)? {
                return Ok(None);
            }
            self.backend.run(update.program, &arguments)?;
            let mut read = [0.0; 2];
            let scalars = [(train.program, self.state.loss), (update.program, norm)];
            self.backend.read_scalars(&scalars, &mut read)?;
            return Ok(Some(read.map(f64::from)));
        }

        let Some(loss) = self.run_lanes(arguments, stop)? else { return Ok(None) };
        let lanes = self.lanes.as_mut().expect("checked above");
        let grad_norm = lanes.norm(arguments.loss_scale);
        if self.state.parameters.iter().any(|parameter| !parameter.owned.is_empty()) {
            let bytes = grad_norm.to_ne_bytes();
            self.backend.write(update.program, norm, Bytes::ZERO, &bytes)?;
            self.backend.run(update.program, &arguments)?;
        }
        // An update with a norm that is not finite changes no weight.
        if grad_norm.is_finite() {
            lanes.gather_weights(&mut *self.backend, &self.state)?;
        }
        Ok(Some([loss, grad_norm].map(f64::from)))
    }

    /// Runs this rank's lanes, one in each round, and adds all lanes up. Returns the loss, or
    /// `None` if any rank was stopped.
    fn run_lanes(
        &mut self,
        arguments: Arguments,
        stop: &StopFlag,
    ) -> Result<Option<f32>, RunError> {
        let training = self.job.training;
        let (rank, ranks) = (self.ranks.rank() as u64, self.ranks.count() as u64);
        let rounds = training.lanes / ranks;
        let each = training.accumulation / training.lanes;
        let mut all = vec![[0_f32; 2]; ranks as usize];
        let mut total: Option<f32> = None;
        for round in 0..rounds {
            let first = (round * ranks + rank) * each;
            let last = first + each - 1;
            let round = Round { is_first: round == 0, is_last: round + 1 == rounds };
            let is_whole = self.accumulate(first..last, arguments, stop)?
                && self.run_last_micro_batch(last, arguments, stop, round)?;
            // A rank that was stopped still takes part in the exchange; the others are notified
            // afterwards.
            let lanes = self.lanes.as_mut().expect("there are several lanes");
            lanes.finish(&mut *self.backend, &self.state, round)?;
            let mut loss = [0.0];
            self.backend.read_scalars(&[(ProgramId::FIRST, self.state.loss)], &mut loss)?;
            let own = [if is_whole { 0.0 } else { 1.0 }, loss[0]];
            self.ranks.gather(bytemuck::cast_slice(&own), bytemuck::cast_slice_mut(&mut all));
            if all.iter().any(|[is_stopped, _]| *is_stopped > 0.0) {
                return Ok(None);
            }
            for [_, loss] in &all {
                total = Some(total.map_or(*loss, |total| total + loss));
            }
        }
        Ok(total)
    }

    /// Runs the last micro-batch of a lane, and exchanges gradients as soon as they are complete.
    /// Returns `false` if it was stopped before.
    fn run_last_micro_batch(
        &mut self,
        micro: u64,
        mut arguments: Arguments,
        stop: &StopFlag,
        round: Round,
    ) -> Result<bool, RunError> {
        if stop.is_asked_for() {
            return Ok(false);
        }
        self.load_micro_batch(micro, &mut arguments)?;
        let Self { backend, lanes, state, .. } = self;
        let lanes = lanes.as_mut().expect("there are several lanes");
        let train = self.programs.train.program;
        let count = backend.plan().program(train).ops().len();
        let first = lanes.first_complete().unwrap_or(count);
        backend.run_part(train, 0..first, &arguments)?;
        for at in first..count {
            lanes.progress(&mut **backend, state, round, at)?;
            backend.run_part(train, at..at + 1, &arguments)?;
        }
        Ok(true)
    }

    /// Sums the loss and the gradients of some micro-batches of a step, from zero. Returns `false`
    /// if it was stopped before the last one.
    fn accumulate(
        &mut self,
        micro_batches: Range<u64>,
        mut arguments: Arguments,
        stop: &StopFlag,
    ) -> Result<bool, RunError> {
        self.backend.write(ProgramId::FIRST, self.state.loss, Bytes::ZERO, &0f32.to_ne_bytes())?;
        for micro in micro_batches {
            if stop.is_asked_for() {
                return Ok(false);
            }
            self.load_micro_batch(micro, &mut arguments)?;
            self.backend.run(self.programs.train.program, &arguments)?;
        }
        Ok(true)
    }

    fn load_micro_batch(&mut self, micro: u64, arguments: &mut Arguments) -> Result<(), RunError> {
        let training = self.job.training;
        arguments.first_sequence = micro * training.batch;
        let (split, purpose) = (Split::Train, Purpose::Training { step: arguments.step });
        let first = arguments.first_sequence;
        self.load(self.programs.train, training.batch, training.seq, split, purpose, first)
    }

    /// The losses of both splits; `None` if it was stopped.
    pub fn evaluate(&mut self, stop: &StopFlag) -> Result<Option<Evaluated>, RunError> {
        let Some(train) = self.estimate(Split::Train, stop)? else { return Ok(None) };
        let Some(val) = self.estimate(Split::Val, stop)? else { return Ok(None) };
        Ok(Some(Evaluated { train, val }))
    }

    fn estimate(&mut self, split: Split, stop: &StopFlag) -> Result<Option<Estimate>, RunError> {
        self.command(Command::Evaluate(split));
        self.is_midway = true;
        let estimate = self.estimate_together(split, stop)?;
        self.is_midway = false;
        Ok(estimate)
    }

    /// This rank's part of an evaluation: one batch per round. Every rank adds up the losses of all
    /// sequences in the same order.
    fn estimate_together(
        &mut self,
        split: Split,
        stop: &StopFlag,
    ) -> Result<Option<Estimate>, RunError> {
        let training = self.job.training;
        let (batch, seq) = (training.eval_batch, training.eval_seq);
        let ProgramHandle { program, tensors } = self.programs.evaluate;
        let EvaluationTensors { batch: tensors, losses } = tensors;
        let inputs = ProgramHandle { program, tensors };
        let count = self.job.eval_sequences;
        let (rank, ranks) = (self.ranks.rank() as u64, self.ranks.count() as u64);
        let (mut sum, mut squares) = (0.0, 0.0);
        for round_first in (0..count).step_by((batch * ranks) as usize) {
            let first = round_first + rank * batch;
            self.losses.own[0] = if stop.is_asked_for() { 1.0 } else { 0.0 };
            if first < count && !stop.is_asked_for() {
                self.load(inputs, batch, seq, split, Purpose::Evaluation { split }, first)?;
                self.backend.run(program, &Arguments::default())?;
                let bytes = bytemuck::cast_slice_mut(&mut self.losses.own[1..]);
                self.backend.read(program, losses, Bytes::ZERO, bytes)?;
            }
            let EvaluatedRound { own, all } = &mut self.losses;
            self.ranks.gather(bytemuck::cast_slice(own), bytemuck::cast_slice_mut(all));
            let batches = all.chunks(own.len());
            if batches.clone().any(|batch| batch[0] > 0.0) {
                return Ok(None);
            }
            let left = (count - round_first).div_ceil(batch).min(ranks) as usize;
            for loss in batches.take(left).flat_map(|batch| &batch[1..]) {
                sum += f64::from(*loss);
                squares += f64::from(*loss) * f64::from(*loss);
            }
        }
        let n = count as f64;
        let mean = sum / n;
        let variance = ((squares - n * mean * mean) / (n - 1.0)).max(0.0);
        Ok(Some(Estimate { mean, standard_error: (variance / n).sqrt() }))
    }

    /// Continues `prompt` by `n_tokens` tokens with the current weights; `None` if it was stopped.
    /// Only the root samples, while the other ranks wait for the next command; the plan of every
    /// rank has the KV caches. Panics if the config asks for no samples.
    pub fn sample(
        &mut self,
        prompt: &[u32],
        n_tokens: u32,
        choice: &Choice,
        stop: &StopFlag,
    ) -> Result<Option<Vec<u32>>, RunError> {
        let continuation = self.continuation.as_mut().expect("the plan has programs for it");
        let backend = &mut *self.backend;
        let mut ranked = Vec::new();
        continuation.begin(backend, prompt)?;
        for n in 0..n_tokens {
            if stop.is_asked_for() {
                return Ok(None);
            }
            if n > 0 {
                continuation.advance(backend)?;
            }
            // The step is the sample's number, so that a resumed run generates the same text again.
            continuation.choose(choice, self.position.step, &mut ranked);
        }
        Ok(Some(continuation.texts()[0][prompt.len()..].to_vec()))
    }

    /// Writes a micro-batch to the program's inputs.
    fn load(
        &mut self,
        to: ProgramHandle<BatchTensors>,
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
        for (tensor, values) in [(to.tensors.tokens, tokens), (to.tensors.targets, targets)] {
            self.backend.write(to.program, tensor, Bytes::ZERO, bytemuck::cast_slice(values))?;
        }
        Ok(())
    }

    /// The tensors of the parameter that a piece of a checkpoint belongs to.
    fn parameter_of(&self, piece: &TensorPiece<'_>) -> usize {
        let index = self.parameters.iter().position(|p| p.name == piece.entry.parameter);
        index.expect("entries are made from the parameters")
    }

    /// The parts of a piece of an optimizer state, each with its owner, its bytes there and its
    /// range in the piece.
    fn parts_of(
        &self,
        piece: &TensorPiece<'_>,
        state: &str,
        length: usize,
    ) -> Vec<(usize, StateBytes, Range<usize>)> {
        let index = self.parameter_of(piece);
        let parameter = &self.parameters[index];
        let states = self.job.training.optimizer.states(parameter);
        let which = states.iter().position(|s| s.name == state);
        let which = which.expect("entries are made from the optimizer's states");
        let bytes = piece.start as u64..(piece.start + length) as u64;
        let parts = self.owners.parts((index, parameter), which, bytes);
        // Parts are no longer than a message.
        let most = lanes::message_bytes(self.ranks.count());
        let mut list = Vec::new();
        for (owner, start, inside) in parts {
            for first in inside.clone().step_by(most) {
                let inside_part = first..inside.end.min(first + most);
                list.push((
                    owner,
                    StateBytes {
                        parameter: index as u64,
                        state: which as u64,
                        start: start + (first - inside.start) as u64,
                        length: inside_part.len() as u64,
                    },
                    inside_part,
                ));
            }
        }
        list
    }
}

fn batches(config: &Config, job: &Job, seq: u64) -> Batches {
    Batches::new(config.seed(), seq as usize, job.model.vocab)
}

/// Only on the root.
impl checkpoint::TensorSource for Trainer {
    fn read(&mut self, piece: TensorPiece<'_>, out: &mut [u8]) -> Result<(), StoreError> {
        let Some(state) = piece.entry.state else {
            let tensor = self.state.parameters[self.parameter_of(&piece)].weight;
            let start = Bytes::new(piece.start as u64);
            return Ok(self.backend.read(ProgramId::FIRST, tensor, start, out)?);
        };
        for (owner, bytes, inside) in self.parts_of(&piece, state, out.len()) {
            if owner == ROOT {
                let (tensor, start, _) = self.own_state(bytes);
                self.backend.read(ProgramId::FIRST, tensor, start, &mut out[inside])?;
            } else {
                self.ranks.send(owner, bytemuck::bytes_of(&Command::Send(bytes).encode()));
                self.ranks.receive(owner, &mut out[inside]);
            }
        }
        Ok(())
    }
}

/// Only on the root. The others get their weights from [`Trainer::share_weights`].
impl checkpoint::TensorSink for Trainer {
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(state) = piece.entry.state else {
            let tensor = self.state.parameters[self.parameter_of(&piece)].weight;
            let start = Bytes::new(piece.start as u64);
            return Ok(self.backend.write(ProgramId::FIRST, tensor, start, bytes)?);
        };
        for (owner, part, inside) in self.parts_of(&piece, state, bytes.len()) {
            if owner == ROOT {
                let (tensor, start, _) = self.own_state(part);
                self.backend.write(ProgramId::FIRST, tensor, start, &bytes[inside])?;
            } else {
                self.ranks.send(owner, bytemuck::bytes_of(&Command::Receive(part).encode()));
                self.ranks.send(owner, &bytes[inside]);
            }
        }
        Ok(())
    }
}
