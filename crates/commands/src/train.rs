//! A training run in stages: asked for, planned, opened, run. Prints nothing.
//!
//! With several ranks all of them take the same steps up to the first training step, except that only
//! the root reads and writes the run's folder; after that, the others follow the root's commands.
//! `together` is a barrier: it is there before the next call that waits for all ranks.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    time::Instant,
};

use fitgpt_checkpoint::{
    Architecture, HeldFolder, LOG_FILE, Lock, NanoGptStamp, PositionRows, Scaler,
    events::{self, Event, EventLog},
    output,
};
use fitgpt_config::{Config, Precision, Written};
use fitgpt_data::{Dataset, Vocabulary};
use fitgpt_exec::{ArenaRefused, Backend, BackendError};
use fitgpt_files::disk::Disk;
use fitgpt_fit::fit::Fit;
use fitgpt_model::{
    report::{DeviceMemory, PlanReport},
    shard::Share,
};
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    budget::{HOST_OVERHEAD, less_a_margin},
    device::Runner,
    host,
    ranks::{Ranks, SharedInput},
    setup::{self, RunSetup},
    stop::StopFlag,
    train::{self, LossHistory, Progress, Run, RunEnd, Samples},
    trainer::Trainer,
};
use fitgpt_say::Sentence;

use super::{
    Failure,
    begin::{Start, StartingPoint, StepSplit},
    fit_options::{self, AdaptedConfig},
    out_dir::{self, BegunRun, ExistingRun},
    prompt, remarks,
    target::{EngineChoice, PlanTarget},
    together::{self, any_no, first_no, together},
    vocabulary,
};
use crate::words::train as words;

/// What the user asks for.
pub struct TrainRequest {
    /// The config: the preset's or the files' keys, and those of the command line.
    pub written: Written,
    /// The same without a preset, for a run that is resumed: the checkpoint has the rest.
    pub written_now: Option<Written>,
    /// Whether settings that keep the training may be changed so that it fits.
    pub wants_fit: bool,
    /// What to do with a run that is already in the folder.
    pub existing: ExistingRun,
    /// Whether TensorBoard's files are written.
    pub wants_tensorboard: bool,
    /// Where the loss curve is drawn at the end.
    pub svg: Option<PathBuf>,
    /// Files that must not be replaced.
    pub inputs: Vec<PathBuf>,
    /// Receives notes about the run's folder.
    pub note: fn(&Sentence),
}

/// A run that is planned on this machine, or on all ranks; nothing is allocated.
pub struct PlannedRun {
    request: TrainRequest,
    ranks: Rc<Ranks>,
    /// The config without the choices that the plan has made.
    as_written: Config,
    /// The config with every choice that affects rounding.
    pub config: Config,
    /// What it starts from.
    pub start: Start,
    data: Dataset,
    /// Whether a resumed run goes on with the data's tokenizer instead of its own.
    takes_vocabulary: bool,
    here: LocalPlanner,
    planned: RunSetup,
    /// What was changed so that it fits, if it was asked for and necessary.
    pub adapted: Option<AdaptedConfig>,
    /// The rank with the least memory.
    least: usize,
}

/// Whether a planned run can start.
pub enum Opening {
    /// On the root.
    Ready(Box<OpenRun>),
    /// On every other rank.
    Following(Box<Trainer>),
    /// Another process has taken the memory; the reason, on the ranks that have noticed.
    NotNow(Option<Sentence>),
}

/// A run with its arena, its folder and its weights.
pub struct OpenRun {
    config: Config,
    report: PlanReport,
    adapted: Option<AdaptedConfig>,
    folder: PathBuf,
    log: PathBuf,
    /// Until the run has ended: its arena is freed then.
    trainer: Option<Trainer>,
    begun: BegunRun,
    // After `begun`, which puts an old run back while the folder is locked.
    _lock: Lock,
    events: Option<EventLog>,
    saved: Option<u64>,
    architecture: Architecture,
    tokenizer_folder: Option<PathBuf>,
    vocabulary: Vocabulary,
    /// The `ckpt.pt` in the folder.
    nanogpt: Option<NanoGptStamp>,
    samples: Option<Samples>,
}

/// A run that has ended without an error.
pub struct FinishedRun {
    /// How.
    pub ended: RunEnd,
    /// The losses of this run.
    pub history: LossHistory,
}

/// Stops on signals.
pub fn stop_flag(ranks: &Ranks) -> Result<StopFlag, Failure> {
    let stop = StopFlag::on_signals().and_then(|stop| {
        #[cfg(unix)]
        if ranks.are_of_open_mpi() {
            stop.also_on_continue()?;
        }
        Ok(stop)
    });
    let stop = stop.map_err(|error| Failure::signals(&error));
    together(ranks, stop)
}

impl PlannedRun {
    /// Plans what is asked for.
    pub fn of(request: TrainRequest, ranks: &Rc<Ranks>) -> Result<Self, Failure> {
        together(ranks, together::check_same(ranks, &request.written))?;
        let mut beginning = together(ranks, beginning(&request, ranks))?;
        beginning.config = together::config_of_root(ranks, &beginning.config)?;

        let data = Dataset::open(beginning.config.dataset(), Path::new("."));
        let data = together(ranks, data.map_err(Failure::from))?;
        together(ranks, check_same_data(ranks, &data))?;
        let tokens = vocabulary::check(&beginning.start, &beginning.config, &data, request.note)
            .and_then(|taken| Ok((taken, vocab(&beginning.config, &data)?)))
            .and_then(|tokens| beginning.check_shape(tokens.1).map(|()| tokens));
        let (takes_vocabulary, vocab) = together(ranks, tokens)?;

        let (here, least) = LocalPlanner::of_ranks(ranks, &beginning.config, vocab)?;
        if let Some(sentence) = here.note.as_ref().filter(|_| ranks.is_root()) {
            (request.note)(sentence);
        }
        let mut planned = together(ranks, here.plan(&beginning.config))?;
        let mut adapted = None;
        if request.wants_fit {
            adapted = together(ranks, adapt(&beginning, &here, &planned))?;
            if let Some(adapted) = &adapted {
                beginning.config = adapted.config.clone();
            }
            beginning.config = together::config_of_root(ranks, &beginning.config)?;
            planned = together(ranks, here.plan(&beginning.config))?;
        }
        let StartingPoint { config: as_written, start } = beginning;
        let config = with_choices(&as_written, &planned, &here)?;
        let ranks = Rc::clone(ranks);
        Ok(Self {
            request,
            ranks,
            as_written,
            config,
            start,
            data,
            takes_vocabulary,
            here,
            planned,
            adapted,
            least,
        })
    }

    /// What is to be said about the learning rate, if anything.
    pub fn note_on_rate(&self) -> Option<Sentence> {
        remarks::of_rate(&self.config)
    }

    /// Where every byte goes.
    pub fn report(&self) -> &PlanReport {
        &self.planned.report
    }

    /// The work.
    pub fn model(&self) -> &fitgpt_model::Model {
        &self.planned.job.model
    }

    /// The device that runs it.
    pub fn runner(&self) -> &Runner {
        &self.here.runner
    }

    /// The config as it was asked for.
    pub fn written(&self) -> &Written {
        &self.request.written
    }

    /// Whether it continues a run.
    pub fn is_resumed(&self) -> bool {
        matches!(self.start, Start::Resume(..))
    }

    /// The step of a run that is resumed with no step left to train; only in a single process.
    pub fn finished_at(&self) -> Option<u64> {
        let Start::Resume(_, document) = &self.start else { return None };
        let step = document.position.step;
        let is_done = step > self.config.max_iters() && !self.config.eval_only();
        (is_done && self.ranks.count() == 1).then_some(step)
    }

    /// Puts back what an interrupted run left in the folder, without running anything.
    pub fn recover_folder(&self) -> Result<(), Failure> {
        self.lock_folder().map(drop)
    }

    /// The rank that explains why the run does not fit; `None` if it fits on all. The machine with
    /// the least memory decides for all.
    pub fn does_not_fit_on(&self) -> Option<usize> {
        any_no(&self.ranks, self.planned.report.fits, self.least)
    }

    /// The options that fit on this machine, and for which engine.
    pub fn options(&self) -> Result<(Fit, EngineChoice), Failure> {
        let place = self.here.target(&self.as_written)?;
        let found =
            fit_options::all_after(self.report(), &self.as_written, self.here.vocab, &place);
        Ok((found, place.engine))
    }

    /// Locks the folder, allocates the arena and loads the weights.
    pub fn open(self) -> Result<Opening, Failure> {
        let message = self.not_free();
        if first_no(&self.ranks, message.is_none()).is_some() {
            return Ok(Opening::NotNow(message));
        }
        let lock = together(&self.ranks, self.lock_folder())?;
        let backend = match self.allocate()? {
            Ok(backend) => backend,
            Err(message) => return Ok(Opening::NotNow(message)),
        };
        match lock {
            Some(lock) => self.begin(lock, backend),
            None => self.follow(backend),
        }
    }

    /// Why this machine has too little free memory now for a plan that is within its budget.
    fn not_free(&self) -> Option<Sentence> {
        let (free, limit) = host::memory().least();
        let Self { planned, here, ranks, .. } = self;
        let (needed, message): (_, fn(_, _, _) -> _) = if here.runner.is_host() {
            (planned.report.arena_bytes, words::not_free_now)
        } else {
            // The tokens of a batch are read on the host before they are copied to the device.
            let [least, _] = HOST_OVERHEAD.range();
            (least + planned.job.staging_bytes(), words::host_too_small)
        };
        // All ranks of this machine allocate at the same time.
        let needed = Bytes::new(needed.get().saturating_mul(ranks.count_on_host() as u64));
        (needed > free).then(|| message(needed, free, words::limit(limit)))
    }

    /// The lock of the run's folder, on the root.
    fn lock_folder(&self) -> Result<Option<Lock>, Failure> {
        if !self.ranks.is_root() {
            return Ok(None);
        }
        let TrainRequest { svg, inputs, existing, .. } = &self.request;
        if let Some(svg) = svg {
            let inputs: Vec<_> = inputs.iter().map(PathBuf::as_path).collect();
            output::check_file(svg, &inputs, output::SVG)?;
        }
        let folder = setup::out_dir(&self.config);
        let (job, svg) = (&self.planned.job, svg.as_deref());
        out_dir::prepare(&folder, svg, &self.start, *existing, job, &self.config).map(Some)
    }

    /// The backend with its arena, or on one rank at least the reason why the memory is taken.
    fn allocate(&self) -> Result<Result<Box<dyn Backend>, Option<Sentence>>, Failure> {
        let ranks = &self.ranks;
        let made = self.planned.backend();
        // If two runs start at the same time, one must give up before the system kills either.
        let taken = match &made {
            Err(error @ BackendError::Refused(ArenaRefused::Taken { .. })) => {
                Some(Sentence::about(error))
            }
            _ => None,
        };
        if first_no(ranks, taken.is_none()).is_some() {
            return Ok(Err(taken));
        }
        let backend = made.map_err(|error| without_arena(error, &self.as_written, &self.here));
        let backend = together(ranks, backend)?;
        // The arena has been touched; what is left must be enough for the overhead.
        let (left, _) = host::memory().least();
        let [least_left, _] = self.planned.report.overhead.range();
        let is_left = !self.here.runner.is_host() || left >= least_left;
        let taken = (!is_left).then(|| {
            let asked = self.planned.report.arena_bytes;
            Sentence::about(&ArenaRefused::Taken { asked, left })
        });
        if first_no(ranks, is_left).is_some() {
            return Ok(Err(taken));
        }
        Ok(Ok(backend))
    }

    /// Begins the run in its folder, on the root.
    fn begin(self, lock: Lock, backend: Box<dyn Backend>) -> Result<Opening, Failure> {
        let Self { request, ranks, config, start, data, here, planned, adapted, .. } = self;
        let vocabulary = data.vocabulary()?;
        let folder = setup::out_dir(&config);
        let log = folder.join(LOG_FILE);
        let architecture = start.architecture(&config, here.vocab, &data, self.takes_vocabulary);
        let tokenizer_folder = start.tokenizer_folder(&data).map(Path::to_owned);
        let nanogpt = start.nanogpt(&folder)?;
        let begun = out_dir::begin(&folder, &start, &log, request.note)?;
        train::write_tokenizer(tokenizer_folder.as_deref(), &architecture, &folder)?;
        let samples = prompt::in_training(&config, &folder, &architecture)?;
        let scaler = scaler(here.runner.precision(&config));
        let RunSetup { job, report, handles, .. } = planned;
        let trainer = Trainer::of_rank(
            Rc::clone(&ranks),
            backend,
            config.clone(),
            job,
            handles,
            data,
            scaler,
        );
        let mut trainer = together(&ranks, trainer.map_err(Failure::from))?;
        let loaded = load(start, &mut trainer, &begun.held, &log, request.note);
        let loaded = loaded.and_then(|mut loaded| {
            if request.wants_tensorboard {
                loaded.events = loaded.events.with_tensorboard(&folder)?;
            }
            Ok(loaded)
        });
        let StartedRun { events, saved } = loaded.map_err(|failure| {
            trainer.end();
            failure.agreed()
        })?;
        trainer.share_weights()?;
        Ok(Opening::Ready(Box::new(OpenRun {
            config,
            report,
            adapted,
            folder,
            log,
            trainer: Some(trainer),
            begun,
            _lock: lock,
            events: Some(events),
            saved,
            architecture,
            tokenizer_folder,
            vocabulary,
            nanogpt,
            samples,
        })))
    }

    /// Follows the root, on every other rank.
    fn follow(self, backend: Box<dyn Backend>) -> Result<Opening, Failure> {
        let Self { ranks, config, data, here, planned, .. } = self;
        let scaler = scaler(here.runner.precision(&config));
        let trainer = Trainer::of_rank(
            Rc::clone(&ranks),
            backend,
            config,
            planned.job,
            planned.handles,
            data,
            scaler,
        );
        let trainer = together(&ranks, trainer.map_err(Failure::from))?;
        Ok(Opening::Following(Box::new(trainer)))
    }
}

impl OpenRun {
    /// The resolved config.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// `out_dir`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The step that comes next.
    pub fn step(&self) -> u64 {
        self.trainer.as_ref().map_or(0, |trainer| trainer.position.step)
    }

    /// Runs to the end, or until a signal stops it, and frees the arena. `report` receives what
    /// happens, `begins` is called before that. Only once.
    pub fn run(
        &mut self,
        stop: &StopFlag,
        begins: impl FnOnce(&Path),
        report: &mut dyn FnMut(Progress<'_>),
    ) -> Result<FinishedRun, Failure> {
        let trainer = self.trainer.take().expect("a run is run once");
        let events = self.events.take().expect("a run is run once");
        let run_id = self.begun.run_id.clone();
        let mut run = Run {
            trainer,
            folder: self.folder.clone(),
            held: Rc::clone(&self.begun.held),
            tokenizer_folder: self.tokenizer_folder.clone(),
            architecture: self.architecture.clone(),
            events,
            report,
            started: Instant::now(),
            stop,
            saved: self.saved,
            run_id: run_id.clone(),
            samples: self.samples.take(),
            vocabulary: self.vocabulary.clone(),
            nanogpt: self.nanogpt.clone(),
            evaluated: LossHistory::of_log(&self.log)?.evaluations.pop(),
        };
        let mut plan = serde_json::to_value(&self.report).expect("a report is plain data");
        if let Some(adapted) = &self.adapted {
            plan["fit"] = adapted.to_json();
        }
        let step = run.trainer.position.step;
        run.events.write(&Event::Plan { step, run_id: Some(run_id), plan })?;
        begins(&self.folder);
        let trained = run.train().map_err(Failure::from);
        let is_midway = run.trainer.is_midway();
        if !is_midway {
            run.trainer.end();
        }
        let (ended, history) =
            trained.map_err(|failure| if is_midway { failure } else { failure.agreed() })?;
        Ok(FinishedRun { ended, history })
    }
}

/// The config and what it starts from. Only the root opens checkpoints and pretrained weights; the
/// others get its config and weights.
fn beginning(request: &TrainRequest, ranks: &Ranks) -> Result<StartingPoint, Failure> {
    let TrainRequest { written, written_now, existing, note, .. } = request;
    if !ranks.is_root() {
        return Ok(StartingPoint { config: written.resolve()?, start: Start::Scratch });
    }
    let split = if request.wants_fit { StepSplit::AsBefore } else { StepSplit::AsWritten };
    let mut beginning = StartingPoint::of(written, written_now.as_ref(), split, *note)?;
    out_dir::check_new(&beginning.start, &setup::out_dir(&beginning.config), *existing)?;
    beginning.config = together::with_lanes(ranks.count() as u32, &beginning.config)?;
    Ok(beginning)
}

fn check_same_data(ranks: &Ranks, data: &Dataset) -> Result<(), Failure> {
    if ranks.count() == 1 {
        return Ok(());
    }
    let fingerprint = serde_json::to_string(&data.fingerprint()?).expect("it is plain data");
    Ok(ranks.check_same(SharedInput::Data, fingerprint.as_bytes())?)
}

/// The inputs that all plans of this rank on this machine share.
struct LocalPlanner {
    vocab: u32,
    runner: Runner,
    memory: DeviceMemory,
    share: Share,
    /// What to say about the arithmetic of its products.
    note: Option<Sentence>,
}

impl LocalPlanner {
    /// The same on all ranks but for the device; also returns which rank has the least memory.
    fn of_ranks(ranks: &Ranks, config: &Config, vocab: u32) -> Result<(Self, usize), Failure> {
        let (runner, memory, note) = together::runner(ranks, config)?;
        let (memory, least) = together::memory(ranks, &runner, config, memory);
        Ok((Self { vocab, runner, memory, share: ranks.share(), note }, least))
    }

    /// Plans training within the budget.
    fn plan(&self, config: &Config) -> Result<RunSetup, Failure> {
        let Self { vocab, runner, memory, share, .. } = self;
        let (precision, overhead) = (runner.precision(config), runner.overhead());
        let memory = memory.clone();
        Ok(RunSetup::of_share(config, *vocab, precision, runner, memory, overhead, *share)?)
    }

    /// This machine as the target of other plans.
    fn target(&self, config: &Config) -> Result<PlanTarget, Failure> {
        let mut target = PlanTarget::of_runner(config, self.runner.clone())?;
        (target.device, target.share) = (self.memory.clone(), self.share);
        Ok(target)
    }
}

/// The loss scale at the start.
fn scaler(precision: Precision) -> Scaler {
    match precision {
        Precision::Float16 => Scaler::DYNAMIC,
        Precision::Float32 | Precision::Bfloat16 => Scaler::NONE,
    }
}

/// The failure if the arena was refused. If the device has less memory than the plan, it includes
/// options that fit.
fn without_arena(error: BackendError, config: &Config, here: &LocalPlanner) -> Failure {
    let free = match &error {
        BackendError::Memory(refused) => refused.free,
        _ => None,
    };
    let failure = Failure::from(error);
    let (Some(free), Ok(mut place)) = (free, here.target(config)) else { return failure };
    place.device.usable_bytes = less_a_margin(free);
    let found = fit_options::all(config, here.vocab, &place);
    fit_options::advice(&found, place.engine).into_iter().fold(failure, Failure::hint)
}

/// What `--fit` changes; `None` if the config fits already, or if no allowed change makes it fit.
fn adapt(
    beginning: &StartingPoint,
    here: &LocalPlanner,
    planned: &RunSetup,
) -> Result<Option<AdaptedConfig>, Failure> {
    let LocalPlanner { vocab, runner, .. } = here;
    let memory = host::memory();
    let (really_free, _) = memory.least();
    let report = &planned.report;
    if report.fits && (!runner.is_host() || report.arena_bytes <= really_free) {
        return Ok(None);
    }
    let config = &beginning.config;
    let mut place = here.target(config)?;
    if runner.is_host() {
        // The budget may exceed the memory of this machine.
        place.device.usable_bytes = place.device.usable_bytes.min(memory.usable());
    }
    if beginning.is_resumed() {
        fit_options::adapt_resumed(config, *vocab, &place, report)
    } else {
        fit_options::adapt(config, *vocab, &place, report)
    }
}

/// The log of a run that is about to start or to continue.
struct StartedRun {
    events: EventLog,
    /// The step of the checkpoint in the folder.
    saved: Option<u64>,
}

/// Loads the first weights, and starts or continues the log.
fn load(
    start: Start,
    trainer: &mut Trainer,
    held: &Rc<HeldFolder>,
    log: &Path,
    note: fn(&Sentence),
) -> Result<StartedRun, Failure> {
    let folder = held.path();
    match start {
        Start::Resume(mut checkpoint, document) => {
            let log_id = events::run_id(&Disk::real(), log)?;
            if let (Some(in_log), Some(saved)) = (&log_id, checkpoint.run_id())
                && in_log != saved
            {
                let message =
                    words::log_of_another_run(log.display(), in_log, folder.display(), saved);
                return Err(Failure::new("checkpoint", message)
                    .hint(words::move_the_log(log.display(), folder.display())));
            }
            let tensors = trainer.tensors().clone();
            checkpoint.read(&tensors, trainer)?;
            if document.data.as_ref().is_some_and(|data| *data != trainer.fingerprint()) {
                note(&words::data_changed());
            }
            let is_nanogpt = checkpoint.nanogpt().is_some();
            let new_scaler = trainer.position.scaler;
            trainer.position = document.position;
            train::remember_best(&mut trainer.position, log)?;
            if is_nanogpt {
                trainer.position.scaler = new_scaler;
            }
            let step = trainer.position.step;
            return Ok(StartedRun {
                events: EventLog::resume(&Disk::real(), log, step)?.0.within(Rc::clone(held)),
                saved: (!is_nanogpt).then_some(step),
            });
        }
        Start::Pretrained(mut weights, _) => {
            let tensors = trainer.tensors().clone();
            weights.read(&tensors, PositionRows::Crop, trainer)?;
        }
        Start::Scratch => trainer.initialise()?,
    }
    Ok(StartedRun {
        events: EventLog::create(&Disk::real(), log)?.within(Rc::clone(held)),
        saved: None,
    })
}

/// The config with every choice that affects rounding made explicit, as checkpoints store it.
fn with_choices(
    config: &Config,
    planned: &RunSetup,
    here: &LocalPlanner,
) -> Result<Config, Failure> {
    let chunk = planned.job.training.loss_chunk_rows;
    let dtype = here.runner.precision(config).name();
    let changes = [
        ("vocab_size", i64::from(here.vocab).into()),
        ("loss_chunk_rows", (chunk as i64).into()),
        ("dtype", dtype.into()),
    ];
    let products = here.runner.products(config).map(|it| ("matmul_dtype", it.name().into()));
    Ok(config.with("plan", changes.into_iter().chain(products))?)
}

/// The size of the model's vocabulary: the config's, else the data's.
fn vocab(config: &Config, data: &Dataset) -> Result<u32, Failure> {
    match (config.vocab_size(), data.vocab_size()) {
        (0, data) => Ok(data),
        (config, data) if config < data && data != fitgpt_data::GPT2_VOCAB_SIZE => {
            Err(Failure::new("vocabulary", words::vocab_too_small(config, data)))
        }
        (config, _) => Ok(config),
    }
}
