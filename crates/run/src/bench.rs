//! How fast a job runs here, op by op, compared with the peak rates of this machine.

use std::time::{Duration, Instant};

use fitgpt_config::Config;
use fitgpt_data::counter;
use fitgpt_exec::{
    Arguments, Backend, BackendError,
    cpu::{
        isa::Isa,
        pool::Pool,
        rates::{peak_bytes_per_s, peak_flops_per_s, peak_pair_flops_per_s},
    },
};
use fitgpt_files::os;
use fitgpt_model::{
    Model,
    programs::{ProgramHandle, SamplingHandles, TextTensors, TrainingHandles},
    state::SamplingState,
};
use fitgpt_program::{
    Products, Program,
    units::{Bytes, ProgramId, TensorId},
};
use serde::Serialize;

use super::{
    device::{Runner, threads},
    init,
    sample::write_weights,
    setup::{RunSetup, Sampling},
};

/// The peak rates of this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachinePeaks {
    /// Threads that kernels use.
    pub threads: usize,
    /// Their instruction set.
    pub isa: &'static str,
    /// Fused multiply-adds on registers, all threads at once; one counts as two operations. Of
    /// bfloat16 pairs if the job multiplies those with the machine's instruction.
    pub peak_flops_per_s: f64,
    /// The factors of those products.
    pub factors: &'static str,
    /// A copy of memory larger than every cache: bytes read and written.
    pub peak_bytes_per_s: f64,
}

impl MachinePeaks {
    /// Measures this machine; takes about a second.
    pub fn measure(config: &Config, runner: &Runner) -> Result<Self, BackendError> {
        let (threads, isa) = (threads(config), Isa::best());
        let mut pool = Pool::new(threads)
            .map_err(|error| BackendError::Threads { asked: threads, kind: error.kind() })?;
        let of_pairs = runner.products(config).filter(|factors| *factors == Products::Bfloat16);
        let of_pairs = of_pairs.and_then(|_| peak_pair_flops_per_s(isa, &mut pool));
        let factors = if of_pairs.is_some() { Products::Bfloat16 } else { Products::Float32 };
        Ok(Self {
            threads,
            isa: isa.name(),
            peak_flops_per_s: of_pairs.unwrap_or_else(|| peak_flops_per_s(isa, &mut pool)),
            factors: factors.name(),
            peak_bytes_per_s: peak_bytes_per_s(&mut pool),
        })
    }
}

/// One program, run several times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedProgram {
    /// `train` is one micro-batch, `decode` one token of every sample.
    pub name: &'static str,
    /// Number of runs after the first, which is not counted.
    pub runs: u32,
    /// The fastest run.
    pub ms: f64,
    /// Tokens of one run.
    pub tokens: u64,
    /// Floating-point operations of its matrix products, computed from the shapes.
    pub flops: u64,
    /// Its ops by kind, longest first.
    pub ops: Vec<OpTimes>,
}

impl TimedProgram {
    /// Tokens per second.
    pub fn tokens_per_s(&self) -> f64 {
        self.tokens as f64 / self.ms * 1e3
    }

    /// Floating-point operations per second.
    pub fn flops_per_s(&self) -> f64 {
        self.flops as f64 / self.ms * 1e3
    }
}

/// All ops of a kind in one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpTimes {
    /// The op's name.
    pub op: &'static str,
    /// How many there are.
    pub count: usize,
    /// Their time, each op at its fastest.
    pub ms: f64,
    /// Their floating-point operations.
    pub flops: u64,
    /// A lower bound of the bytes that they move.
    pub bytes: u64,
}

/// Speed and memory of one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Parameters of the model.
    pub parameters: u64,
    /// The planned arena of training.
    pub arena_bytes: Bytes,
    /// Peak resident memory of the process while it trained, if the system reports it.
    pub resident_bytes: Option<Bytes>,
    /// Programs in the order of a run.
    pub programs: Vec<TimedProgram>,
}

/// How long and how often each program runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Minimum number of runs after the first.
    pub runs: u32,
    /// Minimum time.
    pub at_least: Duration,
}

/// Runs training's programs.
pub fn training(
    planned: &RunSetup,
    config: &Config,
    effort: Effort,
) -> Result<Measured, BackendError> {
    let job = &planned.job;
    let mut backend = planned.backend()?;
    init::weights(&mut *backend, &job.model.parameters(), config.seed())?;
    let training = job.training;
    let mut programs = Vec::new();
    let rate = Arguments { lr: 1e-6, ..Arguments::default() };
    let TrainingHandles { train, update, evaluate, .. } = planned.handles;
    for (program, inputs, tokens) in [
        (
            train.program,
            &[train.tensors.tokens, train.tensors.targets][..],
            [training.batch, training.seq],
        ),
        (update.program, &[], [0, 0]),
        (
            evaluate.program,
            &[evaluate.tensors.batch.tokens, evaluate.tensors.batch.targets],
            [training.eval_batch, training.eval_seq],
        ),
    ] {
        let inputs = Inputs::new(&*backend, program, inputs, &job.model);
        let tokens = tokens.into_iter().product();
        programs.push(timed(&mut *backend, &inputs, tokens, &rate, effort)?);
    }
    Ok(Measured {
        parameters: job.model.parameter_count(),
        arena_bytes: planned.report.arena_bytes,
        resident_bytes: os::process_memory(std::process::id()).map(|memory| memory.peak),
        programs,
    })
}

/// Runs sampling's programs at their capacity: a prompt of a whole block, and the token that fills
/// the KV cache.
pub fn sampling(
    planned: &Sampling,
    config: &Config,
    effort: Effort,
) -> Result<[TimedProgram; 2], BackendError> {
    let model = &planned.job.model;
    let block = u64::from(model.block);
    let mut backend = planned.backend()?;
    let state = SamplingState::new(model, planned.job.samples, planned.job.sampled_types());
    init::each_weight(&model.parameters(), config.seed(), |index, start, bytes| {
        write_weights(&mut *backend, &state, index, start, bytes)
    })?;
    let whole = Arguments { length: block, ..Arguments::default() };
    let last = Arguments { length: block - 1, ..whole };
    let SamplingHandles { prefill, decode } = planned.handles;
    let mut timed = |text: ProgramHandle<TextTensors>, tokens, arguments| {
        let inputs = Inputs::new(&*backend, text.program, &[text.tensors.tokens], model);
        timed(&mut *backend, &inputs, tokens, arguments, effort)
    };
    let prefill = timed(prefill, block, &whole)?;
    let decode = timed(decode, planned.job.samples, &last)?;
    Ok([prefill, decode])
}

/// Inputs of one program: tokens drawn from the whole vocabulary. They are in the workspace, so
/// each run overwrites them.
struct Inputs {
    program: ProgramId,
    tensors: Vec<TensorId>,
    tokens: Vec<u32>,
}

impl Inputs {
    fn new(backend: &dyn Backend, program: ProgramId, tensors: &[TensorId], model: &Model) -> Self {
        let table = backend.plan().program(program);
        let count = tensors.iter().map(|id| table.get(*id).count()).max().unwrap_or(0);
        let token = |i| (counter::draw([i]) % u64::from(model.vocab)) as u32;
        Self { program, tensors: tensors.to_vec(), tokens: (0..count).map(token).collect() }
    }

    fn load(&self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        let bytes = bytemuck::cast_slice(&self.tokens);
        let mut tensors = self.tensors.iter();
        tensors.try_for_each(|id| backend.write(self.program, *id, Bytes::ZERO, bytes))
    }
}

fn timed(
    backend: &mut dyn Backend,
    inputs: &Inputs,
    tokens: u64,
    arguments: &Arguments,
    effort: Effort,
) -> Result<TimedProgram, BackendError> {
    let program = inputs.program;
    inputs.load(backend)?;
    backend.run(program, arguments)?;
    let count = backend.plan().program(program).ops().len();
    let mut fastest = vec![Duration::MAX; count];
    let (mut best, mut runs) = (Duration::MAX, 0);
    let begin = Instant::now();
    while runs < effort.runs || begin.elapsed() < effort.at_least {
        inputs.load(backend)?;
        let start = Instant::now();
        let mut last = start;
        backend.run_op_by_op(program, arguments, &mut |op| {
            let now = Instant::now();
            let ms = &mut fastest[op.index()];
            *ms = (*ms).min(now - last);
            last = now;
        })?;
        best = best.min(start.elapsed());
        runs += 1;
    }
    let program = backend.plan().program(program);
    Ok(TimedProgram {
        name: program.name(),
        runs,
        ms: best.as_secs_f64() * 1e3,
        tokens,
        flops: program.flops(),
        ops: by_op(program, &fastest),
    })
}

/// Sums up the times of the ops by their names, longest first.
fn by_op(program: &Program, times: &[Duration]) -> Vec<OpTimes> {
    let mut sums: Vec<OpTimes> = Vec::new();
    for (op, time) in program.ops().iter().zip(times) {
        let name = op.name();
        let at = sums.iter().position(|kind| kind.op == name).unwrap_or_else(|| {
            sums.push(OpTimes { op: name, count: 0, ms: 0.0, flops: 0, bytes: 0 });
            sums.len() - 1
        });
        let kind = &mut sums[at];
        kind.count += 1;
        kind.ms += time.as_secs_f64() * 1e3;
        kind.flops = kind.flops.saturating_add(op.flops(program));
        kind.bytes += op.moved_bytes(program).get();
    }
    sums.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    sums
}
