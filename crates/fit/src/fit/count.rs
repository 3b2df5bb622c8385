//! Counts candidates, and caches the live bytes of each program.
//!
//! Counting is cheap, so that `fit` can be exhaustive. A program that is only counted is built
//! without tensor names; phases of a candidate are counted until one is too large; a placement is
//! abandoned as soon as it cannot beat the best. None of this is an estimate: everything listed is
//! placed and verified.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
};

use fitgpt_config::{Config, GradCheckpoint, Precision};
use fitgpt_model::{
    Model, decoder,
    job::{self, Job, peak_bytes},
    optimizer::Footprint,
    programs::TrainingPrograms,
    report::{Overhead, PhaseReport, PlanReport, Verdict, phases_of_training},
    training::{Recompute, Training},
};
use fitgpt_program::{
    Names,
    memory::{PlanError, Target},
    units::{Bytes, DType},
};

use super::{Engine, FitRequest, candidate::FitCandidate};
use crate::{
    device::COMPILE_BYTES,
    torch::{self, CachingAllocator, Rules, TorchOptions},
};

/// What determines the live bytes of a program: the key of the cache.
#[derive(PartialEq, Eq, Hash)]
enum CountKey {
    Train {
        state: (Model, Footprint),
        shape: [u64; 2],
        dtype: DType,
        recompute: Recompute,
        rows: u64,
    },
    Evaluate {
        state: (Model, Footprint),
        seq: u64,
        dtype: DType,
        rows: u64,
    },
    Update {
        state: (Model, Footprint),
    },
    Torch {
        model: Model,
        phase: torch::TorchPhase,
        options: TorchOptions,
    },
}

/// Counts programs and caches the results.
pub(super) struct Counter<'a> {
    request: &'a FitRequest<'a>,
    known: RefCell<HashMap<CountKey, Bytes>>,
    flops: RefCell<HashMap<(Model, u64, Recompute), f64>>,
    twice_before: OnceCell<f64>,
}

/// The plan of a candidate.
pub(super) struct PlannedCandidate {
    pub(super) peak_bytes: Bytes,
    pub(super) arena_bytes: Bytes,
    pub(super) peak_phase: &'static str,
    pub(super) verdict: Verdict,
    /// As a share of a step.
    pub(super) computed_twice: f64,
}

impl<'a> Counter<'a> {
    pub(super) fn new(request: &'a FitRequest<'a>) -> Self {
        Self {
            request,
            known: RefCell::default(),
            flops: RefCell::default(),
            twice_before: OnceCell::new(),
        }
    }

    fn precision(&self, config: &Config) -> Precision {
        match self.request.engine {
            // nanoGPT has no autocast on a CPU.
            Engine::Torch { kernels, .. } if kernels.rules == Rules::Cpu => Precision::Float32,
            engine => config.precision_or(engine.precision()),
        }
    }

    /// What the tensors of a candidate may take, at the low and at the high end of the overhead.
    pub(super) fn limit(&self, config: &Config) -> [Bytes; 2] {
        self.overhead(config, job::least_staging_bytes(config))
            .range()
            .map(|overhead| self.request.device.usable_bytes.saturating_sub(overhead))
    }

    fn overhead(&self, config: &Config, staging_bytes: Bytes) -> Overhead {
        let overhead = self.request.overhead;
        match self.request.engine {
            Engine::Fitgpt { staging, .. } => overhead.with_staging(staging, staging_bytes),
            // The original does not compile.
            Engine::Torch { .. } if config.compile() && !self.request.config.compile() => {
                Overhead { compile_bytes: COMPILE_BYTES, ..overhead }
            }
            Engine::Torch { .. } => overhead,
        }
    }

    fn once(&self, key: CountKey, count: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(bytes) = self.known.borrow().get(&key) {
            return *bytes;
        }
        let bytes = count();
        self.known.borrow_mut().insert(key, bytes);
        bytes
    }

    /// Whether every phase fits `limit`; with `grad_checkpoint = 'auto'`, when recomputing
    /// everything. Stops at the first phase that does not fit.
    pub(super) fn lives_in(&self, candidate: &FitCandidate, limit: Bytes) -> bool {
        match self.request.engine {
            Engine::Fitgpt { target, .. } => self.lives_here(&candidate.config, &target, limit),
            Engine::Torch { .. } => {
                use torch::TorchPhase::{Evaluate, EvaluateFirst, Resume, Train, Update};
                let options = self.torch_options(candidate);
                let model = Model::new(&candidate.config, self.request.vocab);
                let run = torch::TorchPhase::of_run(&options);
                // The most likely to be too large first.
                let phases = [Train, Evaluate, EvaluateFirst, Update, Resume].into_iter();
                let mut phases = phases.filter(|phase| run.contains(phase));
                phases.all(|phase| self.torch_peak(&model, phase, &options) <= limit)
            }
        }
    }

    /// The phase with the highest peak, the first of equals. Sampling is a separate run.
    fn torch_peak_of_run(&self, candidate: &FitCandidate) -> (Bytes, torch::TorchPhase) {
        let options = self.torch_options(candidate);
        let model = Model::new(&candidate.config, self.request.vocab);
        let phases = torch::TorchPhase::of_run(&options).into_iter();
        let of_the_run = phases.filter(|phase| *phase != torch::TorchPhase::Sample);
        let peaks = of_the_run.map(|phase| (self.torch_peak(&model, phase, &options), phase));
        peaks.reduce(|a, b| if b.0 > a.0 { b } else { a }).expect("a run has phases")
    }

    /// Whether both evaluations fit `limit`. Only PyTorch has an evaluation batch to choose.
    pub(super) fn evaluates_in(&self, candidate: &FitCandidate, limit: Bytes) -> bool {
        use torch::TorchPhase::{Evaluate, EvaluateFirst};
        let options = self.torch_options(candidate);
        let model = Model::new(&candidate.config, self.request.vocab);
        let mut phases = [Evaluate, EvaluateFirst].into_iter();
        if options.eval_only {
            phases.next();
        }
        phases.all(|phase| self.torch_peak(&model, phase, &options) <= limit)
    }

    fn lives_here(&self, config: &Config, target: &impl Target, limit: Bytes) -> bool {
        let Job { model, mut training, .. } = self.unadapted(config);
        if config.grad_checkpoint() != GradCheckpoint::Off {
            training.recompute = Recompute { blocks: model.layers, cheap: 0 };
        }
        let Training { batch, seq, activations: dtype, recompute, .. } = training;
        let rows = training.loss_chunk_rows;
        let state = (model, training.optimizer.footprint());
        let train = CountKey::Train { state, shape: [batch, seq], dtype, recompute, rows };
        if self.once(train, || {
            peak_bytes(&decoder::train(&model, &training, Names::Left).program, target)
        }) > limit
        {
            return false;
        }
        let update = CountKey::Update { state };
        if self.once(update, || {
            peak_bytes(&decoder::update(&model, &training, Names::Left).program, target)
        }) > limit
        {
            return false;
        }
        // An evaluation can run one sequence at a time.
        training.eval_batch = 1;
        let rows = rows.min(training.eval_seq);
        let evaluate = CountKey::Evaluate { state, seq: training.eval_seq, dtype, rows };
        self.once(evaluate, || {
            peak_bytes(&decoder::evaluate(&model, &training, Names::Left).program, target)
        }) <= limit
    }

    fn torch_options(&self, candidate: &FitCandidate) -> TorchOptions {
        let precision = self.precision(&candidate.config);
        candidate.kernels.of_config(&candidate.config, precision)
    }

    fn torch_peak(&self, model: &Model, phase: torch::TorchPhase, options: &TorchOptions) -> Bytes {
        let options = options.read_by(phase);
        let key = CountKey::Torch { model: *model, phase, options };
        let program = || torch::program(phase, model, &options, Names::Left);
        self.once(key, || peak_bytes(&program(), &CachingAllocator))
    }

    /// The plan of the unchanged config, and the error if it could not be placed.
    pub(super) fn original(&self) -> (PlanReport, Option<PlanError>) {
        let FitRequest { config, vocab, device, overhead, .. } = self.request;
        match self.request.engine {
            Engine::Torch { precision, kernels } => {
                let options = kernels.of_config(config, precision);
                (torch::torch_report(config, *vocab, &options, (*device).clone(), *overhead), None)
            }
            Engine::Fitgpt { target, .. } => {
                let job = self.job(config, &target);
                let (mut report, refusal) = match self.report_here(
                    config,
                    &job,
                    job.training_programs(Names::Kept),
                    &target,
                ) {
                    Ok(report) => (report, None),
                    Err(error) => {
                        let phases =
                            phases_of_training(&job.training_programs(Names::Kept), &target);
                        let device = (*device).clone();
                        let mut report =
                            PlanReport::new("fitgpt", device, *overhead, config, phases, None);
                        (report.fits, report.verdict) = (false, Verdict::No);
                        (report, Some(error))
                    }
                };
                report.phases.push(PhaseReport::of(
                    "sample",
                    job.sampling_programs().both(),
                    &target,
                ));
                (report, refusal)
            }
        }
    }

    fn job(&self, config: &Config, target: &impl Target) -> Job {
        let [_, limit] = self.limit(config);
        let (vocab, precision) = (self.request.vocab, self.precision(config));
        Job::of_share(config, vocab, precision, target, limit, self.request.share)
    }

    fn unadapted(&self, config: &Config) -> Job {
        Job::unadapted(config, self.request.vocab, self.precision(config), self.request.share)
    }

    fn report_here(
        &self,
        config: &Config,
        job: &Job,
        programs: TrainingPrograms,
        target: &impl Target,
    ) -> Result<PlanReport, PlanError> {
        let phases = phases_of_training(&programs, target);
        let plan = job::plan(programs, target)?;
        let arena = Some(plan.plan().arena_bytes());
        let overhead = self.overhead(config, job.staging_bytes());
        let device = self.request.device.clone();
        Ok(PlanReport::new("fitgpt", device, overhead, config, phases, arena))
    }

    /// Plans a candidate. `None` if one of its tensors is too large for the device.
    pub(super) fn plan(&self, candidate: &FitCandidate) -> Option<PlannedCandidate> {
        let config = &candidate.config;
        match self.request.engine {
            Engine::Fitgpt { target, .. } => {
                let job = self.job(config, &target);
                let programs = job.training_programs(Names::Left);
                let report = self.report_here(config, &job, programs, &target).ok()?;
                Some(PlannedCandidate {
                    peak_bytes: report.peak_bytes,
                    arena_bytes: report.arena_bytes,
                    peak_phase: report.peak_phase,
                    verdict: report.verdict,
                    computed_twice: self.computed_twice(&job, job.training.recompute),
                })
            }
            Engine::Torch { .. } => {
                let (peak_bytes, peak_phase) = self.torch_peak_of_run(candidate);
                let usable_bytes = self.request.device.usable_bytes;
                Some(PlannedCandidate {
                    peak_bytes,
                    arena_bytes: peak_bytes,
                    peak_phase: peak_phase.name(),
                    verdict: Verdict::of(
                        peak_bytes,
                        &self.overhead(config, Bytes::ZERO),
                        usable_bytes,
                    ),
                    computed_twice: self.computed_twice_by_torch(config),
                })
            }
        }
    }

    /// The recomputed share of the original's step.
    pub(super) fn computed_twice_by_original(&self) -> f64 {
        *self.twice_before.get_or_init(|| match self.request.engine {
            Engine::Fitgpt { target, .. } => {
                let config = self.request.config;
                let (vocab, precision) = (self.request.vocab, self.precision(config));
                let ([_, limit], share) = (self.limit(config), self.request.share);
                let job = Job::with_recompute(config, vocab, precision, &target, limit, share);
                self.computed_twice(&job, job.training.recompute)
            }
            Engine::Torch { .. } => self.computed_twice_by_torch(self.request.config),
        })
    }

    fn computed_twice(&self, job: &Job, recompute: Recompute) -> f64 {
        self.flops_a_token(job, recompute) / self.flops_a_token(job, Recompute::default()) - 1.0
    }

    /// Counted with FitGPT's programs, which recompute the same products.
    fn computed_twice_by_torch(&self, config: &Config) -> f64 {
        let job = self.unadapted(config);
        let mut twice = 0.0;
        if config.grad_checkpoint() == GradCheckpoint::Every {
            let blocks = job.model.layers;
            twice += self.computed_twice(&job, Recompute { blocks, cheap: 0 });
        }
        if config.loss_chunk_rows() > 0 {
            let head = 2 * u64::from(job.model.vocab) * u64::from(job.model.channels);
            twice += head as f64 / self.flops_a_token(&job, Recompute::default());
        }
        twice
    }

    fn flops_a_token(&self, job: &Job, recompute: Recompute) -> f64 {
        let seq = job.training.seq;
        let key = (job.model, seq, recompute);
        if let Some(flops) = self.flops.borrow().get(&key) {
            return *flops;
        }
        let training = Training { batch: 1, recompute, ..job.training };
        let flops =
            decoder::train(&job.model, &training, Names::Left).program.flops() as f64 / seq as f64;
        self.flops.borrow_mut().insert(key, flops);
        flops
    }
}
