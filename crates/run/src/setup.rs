//! From a config to a run that is ready to start: device, plan, report, backend.

use std::path::{Path, PathBuf};

use fitgpt_checkpoint::Architecture;
use fitgpt_config::{Config, Precision};
use fitgpt_exec::{Backend, BackendError};
use fitgpt_model::{
    Model,
    job::{self, Job},
    programs::{SamplingHandles, TrainingHandles},
    report::{
        DeviceMemory, Overhead, PhaseReport, PhaseTimeline, PlanReport, Verdict, phases_of_training,
    },
    shard::Share,
};
use fitgpt_program::{
    Names,
    memory::{PlanError, VerifiedPlan},
    units::Bytes,
};
use serde_json::Map;

use crate::{
    budget,
    device::{Runner, Unavailable},
    lanes,
    sample::{ContextWindow, Sampler},
};

/// Why nothing can be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The device.
    Device(#[from] Unavailable),
    /// No plan was made.
    Plan(#[from] PlanError),
}

/// A job with its plan on this machine.
#[derive(Debug)]
pub struct RunSetup {
    /// The work.
    pub job: Job,
    /// The place of every byte.
    pub plan: VerifiedPlan,
    /// What `plan` prints about it.
    pub report: PlanReport,
    /// The programs in the plan.
    pub handles: TrainingHandles,
    runner: Runner,
}

impl RunSetup {
    /// Plans training with a vocabulary of `vocab` tokens, for `runner`'s kernels and the memory of
    /// `device`.
    pub fn new(
        config: &Config,
        vocab: u32,
        precision: Precision,
        runner: &Runner,
        device: DeviceMemory,
        overhead: Overhead,
    ) -> Result<Self, SetupError> {
        Self::of_share(config, vocab, precision, runner, device, overhead, Share::WHOLE)
    }

    /// [`new`](Self::new) for one of several ranks.
    pub fn of_share(
        config: &Config,
        vocab: u32,
        precision: Precision,
        runner: &Runner,
        device: DeviceMemory,
        overhead: Overhead,
        share: Share,
    ) -> Result<Self, SetupError> {
        let target = runner.target();
        let staging = budget::staging(&device);
        let least_staging = job::least_staging_bytes(config);
        let [_, most] = overhead.with_staging(staging, least_staging).range();
        let left = device.usable_bytes.saturating_sub(most);
        let job = Job::of_share(config, vocab, precision, &target, left, share);
        let overhead = overhead.with_staging(staging, job.staging_bytes());
        let overhead = with_messages(overhead, &job, runner);
        let programs = job.training_programs(Names::Kept);
        let handles = programs.handles();
        runner.check(programs.all(), precision)?;
        let mut phases = phases_of_training(&programs, &target);
        phases.push(PhaseReport::of("sample", job.sampling_programs().both(), &target));
        let plan = job::plan(programs, &target)?;
        let arena = Some(plan.plan().arena_bytes());
        let report = PlanReport::new("fitgpt", device, overhead, config, phases, arena);
        let report = PlanReport { pools: runner.pools(), ..report };
        Ok(Self { job, plan, report, handles, runner: runner.clone() })
    }

    /// The live bytes of a step and an evaluation, op by op.
    pub fn timelines(&self) -> Vec<PhaseTimeline> {
        // Sampling has one sequence and only a forward pass: it is never the peak.
        let TrainingHandles { train, update, evaluate, .. } = self.handles;
        let target = self.runner.target();
        let timeline = |id| {
            let program = self.plan.program(id);
            PhaseTimeline::of(program.name(), program, &target)
        };
        [train.program, update.program, evaluate.program].into_iter().map(timeline).collect()
    }

    /// Allocates the arena.
    pub fn backend(&self) -> Result<Box<dyn Backend>, BackendError> {
        self.runner.backend(self.plan.clone())
    }
}

/// What MPI's libraries and their buffers may take in a process. Open MPI 4.1 takes about 20 MiB on
/// one machine; with a network it registers more.
const MPI_BYTES: Bytes = Bytes::new(32 << 20);

/// `overhead` plus what the host holds for lanes and ranks: message buffers, and MPI itself.
fn with_messages(overhead: Overhead, job: &Job, runner: &Runner) -> Overhead {
    if !runner.is_host() {
        return overhead;
    }
    let training = &job.training;
    let messages = lanes::buffer_bytes(training, &job.model.parameters());
    let mpi = if training.share.ranks > 1 { MPI_BYTES } else { Bytes::ZERO };
    let [low, high] = overhead.workspace_bytes;
    Overhead { workspace_bytes: [low + messages, high + messages + mpi], ..overhead }
}

/// Sampling with its plan on this machine.
#[derive(Debug)]
pub struct Sampling {
    /// The work.
    pub job: Job,
    /// The place of every byte.
    pub plan: VerifiedPlan,
    /// The programs in the plan.
    pub handles: SamplingHandles,
    runner: Runner,
}

impl Sampling {
    /// Plans to decode as many of `num_samples` together as fit in the budget, and returns how
    /// many; `None` if not even one fits.
    pub fn new(
        config: &Config,
        vocab: u32,
        runner: &Runner,
    ) -> Result<Option<(Self, u64)>, SetupError> {
        let target = runner.target();
        let device = runner.device(config)?;
        let precision = runner.precision(config);
        let mut job = Job::new(config, vocab, precision, &target, Bytes::ZERO);
        runner.check(job.sampling_programs().both(), precision)?;
        while job.samples > 0 {
            let programs = job.sampling_programs();
            let handles = programs.handles();
            let plan = job::plan(programs, &target)?;
            let needed = plan.plan().arena_bytes();
            if Verdict::of(needed, &runner.overhead(), device.usable_bytes) == Verdict::Fits {
                let samples = job.samples;
                return Ok(Some((Self { job, plan, handles, runner: runner.clone() }, samples)));
            }
            job.samples /= 2;
        }
        Ok(None)
    }

    /// Allocates the arena.
    pub fn backend(&self) -> Result<Box<dyn Backend>, BackendError> {
        self.runner.backend(self.plan.clone())
    }

    /// Allocates the arena and makes a sampler in it.
    pub fn sampler(&self, window: ContextWindow) -> Result<Sampler, BackendError> {
        let Job { model, samples, .. } = &self.job;
        let types = self.job.sampled_types();
        Sampler::new(self.backend()?, model, self.handles, *samples, types, window)
    }
}

/// What `config.json` states about a model, without its tokenizer.
pub fn architecture(config: &Config, vocab: u32) -> Architecture {
    Architecture {
        model: Model::new(config, vocab),
        dropout: config.dropout(),
        tokenizer: None,
        special_tokens: Map::new(),
    }
}

/// The folder of a run.
pub fn out_dir(config: &Config) -> PathBuf {
    Path::new(config.out_dir()).to_owned()
}
