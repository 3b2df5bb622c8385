//! The training loop: evaluate, save, step, in nanoGPT's order.
//!
//! Samples of a running training are drawn by rank 0 between two steps, from the weights as they
//! are; every rank's plan has the memory, so that all ranks have the same plan. Keys and values are
//! state of the plan: they live from one token to the next, so they share no bytes with the
//! workspace. That costs `2 × n_layer × block_size × channels` values of one sequence and needs no
//! second kind of lifetime. The step numbers the draws, so a resumed run writes the same texts.
//!
//! Promise: samples drawn while training change no bit of it; the plan grows by their keys and
//! values. Test: `tests/runs/samples.rs`.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
    rc::Rc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{
    Architecture, CheckpointError, Contents, Document, HeldFolder, LOG_FILE, Label, NanoGptStamp,
    Retention, RunPosition,
    events::{self, Event, EventError, EventLog},
};
use fitgpt_config::Config;
use fitgpt_data::{
    Split, Vocabulary,
    tokenizer::{Tokenizer, huggingface},
};
use fitgpt_files::disk::Disk;

use super::{
    card::{self, ModelCard},
    error::RunError,
    sample::Choice,
    schedule,
    stop::StopFlag,
    trainer::{Estimate, Evaluated, Trainer},
};

/// A new id for a run: 16 hexadecimal digits that no other run has.
pub fn new_run_id() -> String {
    // The hasher's keys are random for every process.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(now.as_nanos());
    format!("{:016x}", hasher.finish())
}

/// Writes the files of a run's tokenizer to its folder: those in the folder `from`, or else those of
/// the tokenizer in `architecture`.
pub fn write_tokenizer(
    from: Option<&Path>,
    architecture: &Architecture,
    folder: &Path,
) -> Result<(), CheckpointError> {
    if let Some(from) = from {
        return checkpoint::carry_tokenizer(from, folder);
    }
    let Some(tokenizer) = &architecture.tokenizer else { return Ok(()) };
    let model = &architecture.model;
    checkpoint::write_tokenizer(&huggingface::files(tokenizer, model.vocab, model.block), folder)
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All steps are done.
    Done,
    /// Stopped by a signal; the state is saved.
    Stopped,
    /// Stopped by a signal in a run that saves nothing.
    Abandoned,
}

/// The loss of every step and evaluation of this run, for the picture at its end.
#[derive(Clone, Debug, Default)]
pub struct LossHistory {
    /// (step, loss).
    pub steps: Vec<(u64, f64)>,
    /// (step, both losses).
    pub evaluations: Vec<(u64, Evaluated)>,
}

impl LossHistory {
    /// The history in the log at `path`, without lines that a crash truncated.
    pub fn of_log(path: &Path) -> Result<Self, EventError> {
        let mut history = Self::default();
        events::each(path, |event| match event {
            Event::Step { step, loss, .. } => history.steps.push((step, loss)),
            Event::Evaluation { step, train_loss, val_loss, train_loss_se, val_loss_se } => {
                let train = Estimate { mean: train_loss, standard_error: train_loss_se };
                let val = Estimate { mean: val_loss, standard_error: val_loss_se };
                history.evaluations.push((step, Evaluated { train, val }));
            }
            Event::Plan { .. }
            | Event::Sample { .. }
            | Event::Checkpoint { .. }
            | Event::End { .. } => {}
        })?;
        Ok(history)
    }
}

/// Makes an evaluation after the last save, in the log at `log`, count for the best loss of a run that
/// continues at `position`.
pub fn remember_best(position: &mut RunPosition, log: &Path) -> Result<(), EventError> {
    // A checkpoint may be continued without its log, and nanoGPT's has none.
    if !log.exists() {
        return Ok(());
    }
    let last = LossHistory::of_log(log)?.evaluations.pop();
    if let Some((step, Evaluated { val, .. })) = last
        && step == position.step
        && val.mean.is_finite()
        && position.best_val_loss.is_none_or(|best| val.mean < best)
    {
        (position.best_val_loss, position.best_step) = (Some(val.mean), Some(step));
    }
    Ok(())
}

/// What a run samples while it trains.
#[derive(Debug)]
pub struct Samples {
    /// Decodes the tokens.
    pub tokenizer: Tokenizer,
    /// The prompt of every sample, at least one token.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub choice: Choice,
    /// Tokens of a sample.
    pub n_tokens: u32,
}

/// How many tokens of the end of a prompt are logged.
const PROMPT_TOKENS_IN_LOG: usize = 256;
/// How many characters of a sample are printed on the terminal.
const EXCERPT_CHARACTERS: usize = 72;

/// What happens in a run.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// An evaluation begins before this step.
    Evaluating {
        /// The step.
        step: u64,
    },
    /// It is done.
    Evaluated {
        /// The step.
        step: u64,
        /// The losses.
        losses: Evaluated,
        /// How long it took.
        seconds: f64,
    },
    /// A sample is drawn before this step.
    Sampling {
        /// The step.
        step: u64,
    },
    /// It is drawn.
    Sampled {
        /// The step.
        step: u64,
        /// Its beginning, in one line.
        excerpt: &'a str,
    },
    /// A step is done.
    Stepped {
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// How long it took.
        seconds: f64,
    },
    /// The update of this step was skipped, because a gradient overflowed.
    Overflowed {
        /// The step.
        step: u64,
        /// The loss scale of the next one.
        scale: f32,
    },
    /// A checkpoint is about to be saved.
    Saving {
        /// Where.
        folder: &'a Path,
    },
    /// The checkpoint is saved, but its model card is not.
    NoCard(&'a CheckpointError),
    /// The run has ended, in whatever way.
    Ended,
}

/// A trainer with the folder it saves to.
pub struct Run<'a> {
    /// The state in memory.
    pub trainer: Trainer,
    /// `out_dir`.
    pub folder: PathBuf,
    /// The same, as it was when the run began: its path may come to refer to another folder.
    pub held: Rc<HeldFolder>,
    /// The folder whose tokenizer files were copied to the run's folder, if any.
    pub tokenizer_folder: Option<PathBuf>,
    /// The contents of `config.json`.
    pub architecture: Architecture,
    /// The log.
    pub events: EventLog,
    /// Receives what happens, as it happens.
    pub report: &'a mut dyn FnMut(Progress<'_>),
    /// When the run began.
    pub started: Instant,
    /// Set by Ctrl-C.
    pub stop: &'a StopFlag,
    /// The step of the checkpoint in the folder.
    pub saved: Option<u64>,
    /// Identifies the run in its log and its checkpoints.
    pub run_id: String,
    /// What is sampled, if the config asks for it.
    pub samples: Option<Samples>,
    /// The `ckpt.pt` in the folder, as it was when the run began.
    pub nanogpt: Option<NanoGptStamp>,
    /// What the tokens of the data mean.
    pub vocabulary: Vocabulary,
    /// The last evaluation and its step, including earlier parts of a resumed run.
    pub evaluated: Option<(u64, Evaluated)>,
}

impl Run<'_> {
    /// Runs to the end, or until a signal stops it.
    pub fn train(&mut self) -> Result<(RunEnd, LossHistory), RunError> {
        let config = self.trainer.config().clone();
        let mut history = LossHistory::default();
        let mut ended = self.steps(&config, &mut history);
        if let Err(error) = &ended
            && error.is_folder_lost()
        {
            ended = Err(self.saved_elsewhere());
        }
        (self.report)(Progress::Ended);
        let reason = match &ended {
            Ok(RunEnd::Done) => "done",
            Ok(RunEnd::Stopped | RunEnd::Abandoned) => "interrupted",
            Err(RunError::Diverged { .. } | RunError::NotFinite { .. }) => "diverged",
            Err(_) => "failed",
        };
        let (step, seconds) = (self.trainer.position.step, self.started.elapsed().as_secs_f64());
        let written = self.events.write(&Event::End { step, reason: reason.into(), seconds });
        // Report the run's error first; a failed log write is secondary.
        let ended = ended?;
        written?;
        Ok((ended, history))
    }

    fn steps(&mut self, config: &Config, history: &mut LossHistory) -> Result<RunEnd, RunError> {
        if config.eval_only() {
            // Also for a run that has finished all of its steps.
            let step = self.trainer.position.step;
            let Some(evaluated) = self.evaluate(config)? else { return Ok(RunEnd::Abandoned) };
            history.evaluations.push((step, evaluated));
            return Ok(RunEnd::Done);
        }
        while self.trainer.position.step <= config.max_iters() {
            let step = self.trainer.position.step;
            if schedule::evaluates(config, step) {
                // Save before the evaluation, so that no failure in it can lose the run.
                if step > 0 {
                    self.save()?;
                }
                let Some(evaluated) = self.evaluate(config)? else { return self.stopped() };
                history.evaluations.push((step, evaluated));
            }
            if schedule::samples(config, step) && !self.sample()? {
                return self.stopped();
            }

            self.trainer.take_wait_ms();
            let clock = Instant::now();
            let Some(stepped) = self.trainer.step(self.stop)? else { return self.stopped() };
            let seconds = clock.elapsed().as_secs_f64();

            let scaler = self.trainer.position.scaler;
            self.events.write(&Event::Step {
                step,
                loss: stepped.loss,
                lr: stepped.lr,
                grad_norm: stepped.grad_norm,
                ms: seconds * 1e3,
                tokens_per_s: config.effective_batch().tokens as f64 / seconds,
                loss_scale: scaler.is_dynamic.then_some(f64::from(scaler.scale)),
                skipped: stepped.is_skipped,
                wait_ms: self.trainer.take_wait_ms(),
            })?;
            (self.report)(Progress::Stepped { step, loss: stepped.loss, seconds });
            if stepped.is_skipped {
                (self.report)(Progress::Overflowed { step, scale: scaler.scale });
            }
            let has_diverged = !stepped.loss.is_finite() || !stepped.grad_norm.is_finite();
            if scaler.has_failed() || (has_diverged && !stepped.is_skipped) {
                // A checkpoint from which not even one step succeeds is useless.
                if self.saved == Some(step) && self.held.check().is_ok() {
                    self.saved =
                        checkpoint::roll_back(&Disk::real(), self.held.dir())?.or(self.saved);
                }
                return Err(RunError::Diverged {
                    step,
                    loss: stepped.loss,
                    grad_norm: stepped.grad_norm,
                    saved: self.saved,
                });
            }
            history.steps.push((step, stepped.loss));
        }
        self.save()?;
        // Not the model of some steps ago, or of step 0: the one that was saved.
        let step = self.trainer.position.step;
        if self.evaluated.is_none_or(|(at, _)| schedule::evaluates_at_the_end(at, step)) {
            let Some(evaluated) = self.evaluate(config)? else { return Ok(RunEnd::Stopped) };
            history.evaluations.push((step, evaluated));
            self.update_card();
        }
        Ok(RunEnd::Done)
    }

    /// Saves the state and ends.
    fn stopped(&mut self) -> Result<RunEnd, RunError> {
        self.save()?;
        Ok(RunEnd::Stopped)
    }

    /// Measures both losses, and saves the weights if they are the best so far and the config
    /// asks for that.
    fn evaluate(&mut self, config: &Config) -> Result<Option<Evaluated>, RunError> {
        let step = self.trainer.position.step;
        (self.report)(Progress::Evaluating { step });
        let clock = Instant::now();
        let Some(evaluated) = self.trainer.evaluate(self.stop)? else { return Ok(None) };
        let seconds = clock.elapsed().as_secs_f64();
        (self.report)(Progress::Evaluated { step, losses: evaluated, seconds });
        let Evaluated { train, val } = evaluated;
        self.evaluated = Some((step, evaluated));
        let is_best = self.trainer.position.best_val_loss.is_none_or(|best| val.mean < best);
        if is_best && val.mean.is_finite() && !config.eval_only() {
            self.trainer.position.best_val_loss = Some(val.mean);
            self.trainer.position.best_step = Some(step);
            if !config.always_save_checkpoint() && step > 0 {
                let folder = checkpoint::best_dir(self.held.dir());
                let tensors = &self.trainer.tensors().clone();
                let (run_id, nanogpt) = (&self.run_id, self.nanogpt.as_ref());
                let keep = Retention::ONE;
                let fingerprint = self.trainer.fingerprint_of_steps();
                let label = Label { run_id, step, keep, fingerprint, nanogpt };
                let (architecture, held) = (&self.architecture, Some(&*self.held));
                let contents = Contents { architecture, tensors, label, held };
                checkpoint::save_weights(&folder, contents, &mut self.trainer)
                    .map_err(|error| self.of_save(error))?;
                checkpoint::carry_tokenizer(self.held.dir(), &folder)?;
            }
        }
        // Last: an evaluation in the log means that the best weights are saved.
        self.events.write(&Event::Evaluation {
            step,
            train_loss: train.mean,
            val_loss: val.mean,
            train_loss_se: train.standard_error,
            val_loss_se: val.standard_error,
        })?;
        Ok(Some(evaluated))
    }

    /// Writes a sample to the log; `false` if it was stopped.
    fn sample(&mut self) -> Result<bool, RunError> {
        let Some(samples) = &self.samples else { return Ok(true) };
        let step = self.trainer.position.step;
        (self.report)(Progress::Sampling { step });
        let Samples { tokenizer, prompt, choice, n_tokens } = samples;
        let Some(tokens) = self.trainer.sample(prompt, *n_tokens, choice, self.stop)? else {
            return Ok(false);
        };
        let shown = prompt.len().saturating_sub(PROMPT_TOKENS_IN_LOG);
        let (prompt, text) = (tokenizer.decode(&prompt[shown..]), tokenizer.decode(&tokens));
        let excerpt: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let excerpt: String = excerpt.chars().take(EXCERPT_CHARACTERS).collect();
        (self.report)(Progress::Sampled { step, excerpt: &excerpt });
        self.events.write(&Event::Sample { step, prompt, text })?;
        Ok(true)
    }

    /// A state that is not finite means that the run has diverged. Other errors may come from a
    /// folder that was moved during the save.
    fn of_save(&self, error: CheckpointError) -> RunError {
        match error {
            CheckpointError::NotFinite { tensor } => {
                RunError::NotFinite { tensor, saved: self.saved }
            }
            other => self.held.check().err().unwrap_or_else(|| self.held.named(other)).into(),
        }
    }

    /// Saves the state next to the folder, which is no longer the run's: nothing may be written
    /// there.
    fn saved_elsewhere(&mut self) -> RunError {
        let path = self.folder.clone();
        if self.trainer.config().eval_only() {
            return CheckpointError::FolderLost { path }.into();
        }
        let step = self.trainer.position.step;
        match self.move_next_to_its_folder().and_then(|()| self.save()) {
            Ok(()) => RunError::FolderLost { path, step, saved_in: self.folder.clone() },
            Err(error) => RunError::FolderLostUnsaved { path, source: Box::new(error) },
        }
    }

    /// Begins again in a new folder next to the old one, with a copy of the log and the tokenizer.
    fn move_next_to_its_folder(&mut self) -> Result<(), RunError> {
        let folder = checkpoint::new_folder_next_to(&Disk::real(), &self.folder, &self.run_id)?;
        checkpoint::begin(&Disk::real(), &folder, &self.run_id)?;
        self.held = Rc::new(HeldFolder::of(&folder, &self.run_id)?);
        let events = self.events.copy_to(&Disk::real(), &folder.join(LOG_FILE))?;
        self.events = events.within(Rc::clone(&self.held));
        write_tokenizer(self.tokenizer_folder.as_deref(), &self.architecture, &folder)?;
        (self.folder, self.saved) = (folder, None);
        Ok(())
    }

    /// Saves the state as the folder's checkpoint, unless it is already saved.
    fn save(&mut self) -> Result<(), RunError> {
        let step = self.trainer.position.step;
        if self.saved == Some(step) {
            return Ok(());
        }
        (self.report)(Progress::Saving { folder: &self.folder });
        // A resume needs the log up to the checkpoint.
        self.events.sync()?;
        let config = self.trainer.config();
        let data = self.trainer.fingerprint();
        let vocabulary = Some(self.vocabulary.clone());
        let document = Document::new(&self.trainer.position, config, Some(data), vocabulary);
        let (last, best_step) = (config.keep_checkpoints(), self.trainer.position.best_step);
        let keep = Retention { last: last.into(), best_step };
        let tensors = &self.trainer.tensors().clone();
        let (run_id, nanogpt) = (&self.run_id, self.nanogpt.as_ref());
        let fingerprint = self.trainer.fingerprint_of_steps();
        let label = Label { run_id, step, keep, fingerprint, nanogpt };
        let (architecture, held) = (&self.architecture, Some(&*self.held));
        let contents = Contents { architecture, tensors, label, held };
        let id = checkpoint::save(
            &Disk::real(),
            self.held.dir(),
            contents,
            &document,
            &mut self.trainer,
        )
        .map_err(|error| self.of_save(error))?;
        self.saved = Some(step);
        let (save_id, path) = (id.to_string(), self.folder.display().to_string());
        self.events.write(&Event::Checkpoint { step, save_id, path })?;
        self.update_card();
        Ok(())
    }

    /// A failure here must not end the run: the checkpoint is saved.
    fn update_card(&mut self) {
        if let Err(error) = self.write_card() {
            (self.report)(Progress::NoCard(&error));
        }
    }

    fn write_card(&self) -> Result<(), CheckpointError> {
        self.held.check_path()?;
        let trainer = &self.trainer;
        let card = ModelCard {
            config: trainer.config(),
            model: &trainer.job().model,
            position: &trainer.position,
            evaluated: self.evaluated,
            tokens: [Split::Train, Split::Val].map(|split| trainer.tokens_of(split)),
            command: &card::command_line(),
        };
        card::write(self.held.dir(), &self.folder, &card)
    }
}
