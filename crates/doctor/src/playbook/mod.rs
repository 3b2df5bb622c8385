//! The playbook: for each cause and stack, what to do, in order, with the command or code.
//! [`commands`] has the latter.
//!
//! Promise: every failure ends in advice and a next step, and no fix is empty. Test:
//! `crates/doctor/tests/reports/main.rs`, `crates/doctor/src/rules/tests.rs`.

mod stack;
mod invocation;
mod commands;
mod steps;

use self::stack::Stack;
pub(crate) use self::{invocation::Invocation, steps::steps};
use crate::{
    cause::{Cause, GrowthSign, HostSign, OtherFailure},
    diagnosis::{Advice, DoNext, Finding, Step},
    facts::{Certainty, Domain, MemoryKind, PhaseName},
    parse::{Clue, LoggedOptimizer, TrainedPart, Wording},
    reason::{Analysis, TrainingRun},
    remedy::{Question, Remedy},
};

/// Maximum number of recommendations.
const MOST: usize = 6;

/// Recommendations for the causes, the most certain cause first.
pub(crate) fn advice(
    analysis: &Analysis<'_>,
    kind: MemoryKind,
    findings: &[Finding],
    invocation: &Invocation<'_>,
) -> Vec<Advice> {
    if kind == MemoryKind::None && findings.is_empty() {
        return Vec::new();
    }
    let stack = Stack::of(analysis);
    let causes = findings.iter().filter(|finding| finding.is_cause);
    let mut list: Vec<Remedy> = Vec::new();
    for finding in causes {
        list.extend(remedies(analysis, stack, &finding.cause));
    }
    // It costs nothing, so it comes before what makes a training pass smaller.
    let shrinks =
        |remedy: &Remedy| matches!(remedy, Remedy::SmallerMicroBatch | Remedy::ChunkedLoss);
    if is_compiled_with_logits(analysis) && list.iter().any(shrinks) {
        list.insert(0, Remedy::LossAlone);
    }
    let is_sure = |f: &Finding| f.is_cause && f.certainty > Certainty::Unknown;
    let is_open = match kind {
        MemoryKind::GpuMemory | MemoryKind::Unknown => !findings.iter().any(is_sure),
        _ => false,
    };
    if is_open {
        // What finds out comes first; then what is safe whatever the cause is.
        let mut open = safe(analysis, stack);
        // Nobody edits the source of a user interface.
        let can_record = is_torch(stack)
            && !matches!(stack, Stack::ComfyUi | Stack::SdWebui | Stack::TextGenWebui);
        if analysis.log.snapshot.is_none() && can_record {
            open.insert(0, Remedy::RecordSnapshot);
        }
        let at = list.len().min(2);
        list.splice(at..at, open);
    }
    // Skip what the run already does, unless nothing else is left.
    let clues = analysis.log.clues;
    let is_done = |remedy: &Remedy| match remedy {
        Remedy::GradientCheckpointing => clues.has(Clue::Recomputes),
        Remedy::Lora => clues.has(Clue::Lora),
        Remedy::ZeroOffload => clues.has(Clue::Offloads),
        Remedy::ZeroStage3 => clues.has(Clue::ZeroThree),
        Remedy::EightBitAdam | Remedy::FusedAdam => {
            analysis.log.setup.optimizer == Some(LoggedOptimizer::EightBitAdam)
        }
        _ => false,
    };
    if !list.iter().all(is_done) {
        list.retain(|remedy| !is_done(remedy));
    }
    let mut seen = Vec::new();
    list.retain(|remedy| {
        let is_new = !seen.contains(remedy);
        seen.push(*remedy);
        is_new
    });
    list.truncate(MOST);
    let of = |id| Advice { id, commands: commands::of(id, stack, analysis, invocation) };
    list.into_iter().map(of).collect()
}

/// Whether a training pass of compiled nanoGPT failed that returns its logits.
fn is_compiled_with_logits(analysis: &Analysis<'_>) -> bool {
    let is_pass = matches!(
        analysis.phase.name,
        PhaseName::TrainForward | PhaseName::TrainBackward | PhaseName::Unknown
    );
    let returns_logits = |run: &TrainingRun| run.options.compile && run.options.returns_logits();
    is_pass && analysis.run.as_ref().is_some_and(returns_logits)
}

/// Whether PyTorch can record a snapshot of this program's memory.
const fn is_torch(stack: Stack) -> bool {
    !matches!(
        stack,
        Stack::Jax
            | Stack::Keras
            | Stack::Paddle
            | Stack::OnnxRuntime
            | Stack::TensorRt
            | Stack::LlamaCpp
            | Stack::Ollama
            | Stack::OtherServer
            | Stack::Mlx
    )
}

/// The next command and question.
pub(crate) fn do_next(
    analysis: &Analysis<'_>,
    kind: MemoryKind,
    findings: &[Finding],
    steps: &[Step],
) -> DoNext {
    if kind == MemoryKind::None && steps.is_empty() {
        // Something failed, and this text does not show what.
        let question = analysis.log.mentions_error.then_some(Question::Traceback);
        return DoNext { command: None, question };
    }
    let command = steps.first().and_then(|step| step.command.clone());
    let mut question = question(analysis, kind, findings);
    if command.is_none() && question.is_none() {
        question = Some(Question::WhichProgram);
    }
    DoNext { command, question }
}

fn question(analysis: &Analysis<'_>, kind: MemoryKind, findings: &[Finding]) -> Option<Question> {
    if analysis.refuted_bytes.is_some() {
        return Some(Question::AnotherConfig);
    }
    let cause = findings.iter().find(|finding| finding.is_cause);
    match cause.map(|finding| (&finding.cause, finding.certainty)) {
        Some((Cause::DeviceSideError { is_shown: false }, _)) => return Some(Question::IdsInRange),
        Some((Cause::FreeExceedsRequest { .. }, _)) => return Some(Question::WhoElse),
        Some((
            Cause::HostMemory { sign: HostSign::Killed | HostSign::WorkerKilled, .. },
            certainty,
        )) if certainty < Certainty::Certain => {
            return Some(Question::KernelLog);
        }
        Some((_, Certainty::Certain)) => return None,
        _ => {}
    }
    let is_supposed = analysis.run.as_ref().is_some_and(|run| run.supposition().is_some());
    if analysis.domain == Domain::NanoGpt && (is_supposed || analysis.run.is_none()) {
        return Some(Question::Config);
    }
    if kind == MemoryKind::Unknown && analysis.domain != Domain::Unknown {
        return Some(Question::WhichMemory);
    }
    if kind == MemoryKind::Unknown || analysis.domain == Domain::Unknown {
        return Some(Question::WhichProgram);
    }
    if kind != MemoryKind::GpuMemory {
        return None;
    }
    if analysis.log.frames.is_empty() {
        return Some(Question::Traceback);
    }
    if analysis.domain == Domain::DecoderTraining && analysis.decoder.is_none() {
        return Some(Question::WhichModel);
    }
    if analysis.trains() && analysis.log.setup.batch.is_none() && analysis.run.is_none() {
        return Some(Question::BatchAndLength);
    }
    if analysis.facts.total.is_none() {
        return Some(Question::WhichCard);
    }
    let is_likely = cause.is_some_and(|finding| finding.certainty > Certainty::Unknown);
    let has_snapshots = is_torch(Stack::of(analysis)) && analysis.log.snapshot.is_none();
    (!is_likely && has_snapshots).then_some(Question::Snapshot)
}

/// The remedies for a cause on a stack, in order.
#[expect(clippy::too_many_lines, reason = "a table: the remedies for every cause")]
fn remedies(analysis: &Analysis<'_>, stack: Stack, cause: &Cause) -> Vec<Remedy> {
    use Remedy as R;
    let clues = analysis.log.clues;
    let is_llm = analysis.domain == Domain::DecoderTraining;
    match cause {
        Cause::HostMemory { sign, .. } => match sign {
            HostSign::WorkerKilled => vec![R::FewerWorkers, R::MoreRam, R::LoadInMainProcess],
            HostSign::PageLocked => vec![R::MoreRam, R::ZeroOffload],
            HostSign::Grows => vec![R::KeepNumbers, R::FewerWorkers, R::MoreRam],
            HostSign::HostAllocator if clues.has(Clue::Windows) => vec![R::PagingFile, R::MoreRam],
            _ if analysis.phase.name == PhaseName::Save => vec![R::ShardedStateDict, R::MoreRam],
            _ if analysis.phase.name == PhaseName::Prepare => vec![R::StreamData, R::MoreRam],
            _ if matches!(analysis.domain, Domain::Serving | Domain::Inference) => {
                vec![R::MoreRam, R::QuantizeWeights, R::SmallerModel]
            }
            _ => vec![R::MoreRam, R::FewerWorkers, R::StreamData],
        },
        Cause::PagingFile {} => vec![R::PagingFile, R::FewerWorkers],
        Cause::DevShm {} => vec![R::ShmSize, R::FewerWorkers],
        Cause::SharedMemory { .. } => vec![R::SmallerTiles],
        Cause::NotMemory { failure: OtherFailure::Communicator, .. } => vec![R::NcclDebug],
        Cause::NotMemory { failure: OtherFailure::Exception, .. } => vec![R::FixTheError],
        Cause::NotMemory { failure: OtherFailure::Watchdog, .. } => {
            vec![R::SmallerMicroBatch, R::ShorterSequences]
        }
        Cause::NotMemory { failure: OtherFailure::WorkerCrashed, .. } => vec![R::LoadInMainProcess],
        Cause::NotMemory { .. } | Cause::DeviceSideError { is_shown: true } => {
            vec![R::LaunchBlocking, R::CheckIds]
        }
        Cause::DeviceSideError { .. } => {
            vec![R::LaunchBlocking, R::CheckIds, R::FreeTheCard, R::SmallerMicroBatch]
        }
        Cause::InvalidConfig { .. } => vec![R::FixConfig],
        Cause::UnifiedMemoryLimit { .. } => unified(analysis, stack),
        Cause::MemoryGrows { .. } if analysis.domain == Domain::Serving => pass(analysis, stack),
        Cause::MemoryGrows { sign } => {
            let mut list = vec![R::KeepNumbers];
            list.extend((analysis.phase.name == PhaseName::Evaluate).then_some(R::NoGrad));
            list.extend((*sign == GrowthSign::FailsLate).then_some(R::SmallerMicroBatch));
            let can_record = is_torch(stack) && analysis.log.snapshot.is_none();
            list.extend(can_record.then_some(R::RecordSnapshot));
            list
        }
        Cause::KvCache { .. } => match stack {
            Stack::Vllm | Stack::Sglang | Stack::Tgi => {
                vec![R::MaxModelLen, R::GpuMemoryUtilization, R::QuantizedKv, R::TensorParallel]
            }
            Stack::LlamaCpp | Stack::Ollama => {
                vec![R::SmallerContext, R::QuantizedKv, R::FewerGpuLayers]
            }
            _ => vec![R::SmallerContext, R::QuantizedKv, R::QuantizeWeights],
        },
        Cause::ServerReservation { .. } => match stack {
            Stack::Jax => vec![R::XlaPreallocate, R::FreeTheCard],
            _ => vec![R::GpuMemoryUtilization, R::FreeTheCard, R::EnforceEager],
        },
        Cause::SpilledToHost { .. } => {
            let mut list = pass(analysis, stack);
            list.insert(list.len().min(3), R::SysmemFallback);
            list
        }
        Cause::HiddenByCompiler { .. } => vec![R::LeaveMemoryForCompiler, R::SmallerMicroBatch],
        Cause::EvaluationGathersPredictions { .. } => vec![R::EvalAccumulation, R::EvalBatch],
        Cause::GatherOnSave { .. } => vec![R::FullStateOffload, R::ShardedStateDict],
        Cause::StaticStateTooLarge { .. } if analysis.domain == Domain::NanoGpt => {
            vec![R::EightBitAdam, R::SmallerModel, R::ZeroOffload, R::Fsdp]
        }
        Cause::StaticStateTooLarge { .. } => {
            vec![R::Lora, R::EightBitAdam, R::ZeroOffload, R::Fsdp]
        }
        Cause::ForeignMemory { .. } => match stack {
            Stack::Jax => vec![R::FreeTheCard, R::XlaPreallocate],
            Stack::Keras => vec![R::FreeTheCard, R::TfMemoryGrowth],
            Stack::Vllm | Stack::Sglang => vec![R::FreeTheCard, R::GpuMemoryUtilization],
            _ => vec![R::FreeTheCard],
        },
        Cause::FreeExceedsRequest { .. } => {
            vec![R::FreeTheCard, R::OneRankPerCard, R::FindTheShape]
        }
        Cause::RequestLargerThanCard { .. } if matches!(stack, Stack::Vllm | Stack::Sglang) => {
            vec![R::MaxModelLen, R::TensorParallel, R::FindTheShape]
        }
        Cause::RequestLargerThanCard { .. } => {
            let mut list = vec![R::FindTheShape, R::SmallerMicroBatch];
            list.extend(if is_llm {
                vec![R::FusedAttention, R::ShorterSequences]
            } else {
                vec![R::SmallerInput]
            });
            list
        }
        Cause::FlatCopy { .. } => vec![R::ZeroStage3, R::ZeroOffload, R::Lora, R::Fsdp],
        Cause::CommunicatorBuffers { .. } => {
            vec![R::OneRankPerCard, R::ZeroStage3, R::Fsdp, R::SmallerMicroBatch]
        }
        // Without numbers it is unknown whether this process fills the card.
        Cause::WeightsTooLarge { weights_bytes: None, .. }
            if analysis.facts.total.is_none() && analysis.domain != Domain::Serving =>
        {
            vec![R::FreeTheCard, R::QuantizeWeights, R::SmallerModel]
        }
        Cause::WeightsTooLarge { .. } => match stack {
            Stack::Vllm | Stack::Sglang | Stack::Tgi => {
                vec![R::QuantizeWeights, R::TensorParallel, R::SmallerModel]
            }
            Stack::LlamaCpp | Stack::Ollama => {
                vec![R::FewerGpuLayers, R::SmallerContext, R::QuantizeWeights, R::SmallerModel]
            }
            Stack::TextGenWebui | Stack::Exllama => {
                vec![R::FewerGpuLayers, R::QuantizeWeights, R::SmallerModel, R::DeviceMap]
            }
            Stack::ComfyUi | Stack::SdWebui | Stack::Diffusers => {
                vec![R::LowVram, R::CpuOffload, R::SmallerModel]
            }
            Stack::OtherServer | Stack::Mlx => {
                vec![R::QuantizeWeights, R::SmallerContext, R::SmallerModel]
            }
            Stack::Keras => {
                vec![R::HalfPrecision, R::FreeTheCard, R::TfMemoryGrowth, R::SmallerModel]
            }
            Stack::Jax if clues.has(Clue::Tpu) => vec![R::HalfPrecision, R::Fsdp, R::SmallerModel],
            Stack::Jax => {
                vec![R::HalfPrecision, R::FreeTheCard, R::XlaPreallocate, R::SmallerModel]
            }
            _ if analysis.trains() => {
                vec![R::QuantizeWeights, R::ZeroStage3, R::Fsdp, R::DeviceMap, R::SmallerModel]
            }
            _ => vec![R::QuantizeWeights, R::DeviceMap, R::SmallerModel],
        },
        Cause::Fragmentation { .. } => {
            let mut list = vec![R::ExpandableSegments];
            list.extend(pass(analysis, stack).into_iter().take(3));
            list
        }
        Cause::CheckpointOnDevice { .. } => vec![R::LoadToCpu],
        Cause::OptimizerTemporaries { .. } => {
            let mut list = vec![R::FusedAdam, R::EightBitAdam, R::ZeroOffload];
            list.extend(is_llm.then_some(R::Lora));
            list
        }
        Cause::StaleLogits { .. } => vec![R::DropLogits, R::EvalBatch],
        Cause::LogitsAtThePeak { .. } if analysis.phase.name == PhaseName::Evaluate => {
            vec![R::EvalBatch, R::ChunkedLoss]
        }
        Cause::LogitsAtThePeak { .. } if !analysis.trains() => {
            vec![R::ShorterSequences, R::NoGrad, R::QuantizeWeights]
        }
        Cause::LogitsAtThePeak { .. } => {
            vec![R::ChunkedLoss, R::SmallerMicroBatch, R::ShorterSequences]
        }
        Cause::EvaluationUsesTrainingBatch { .. } => vec![R::EvalBatch],
        Cause::AttentionScores { .. } => {
            let mut list = vec![R::FusedAttention];
            list.extend(pass(analysis, stack).into_iter().take(3));
            list
        }
        Cause::MlpActivation { .. } => vec![R::SmallerMicroBatch, R::GradientCheckpointing],
        Cause::WeightShaped { .. } if analysis.trains() => match analysis.phase.name {
            PhaseName::Update => vec![R::EightBitAdam, R::FusedAdam],
            PhaseName::Resume => vec![R::LoadToCpu],
            _ => vec![R::SmallerMicroBatch, R::EightBitAdam],
        },
        Cause::BatchTooLarge { .. } => pass(analysis, stack),
        // The weights themselves do not fit, or the card is not empty.
        Cause::WeightShaped { .. } => match stack {
            Stack::Keras => {
                vec![R::FreeTheCard, R::TfMemoryGrowth, R::HalfPrecision, R::SmallerModel]
            }
            _ => vec![R::FreeTheCard, R::QuantizeWeights, R::SmallerModel],
        },
        Cause::Undecided { .. } | Cause::NoShapeInRequest { .. } | Cause::NoMatch { .. } => {
            Vec::new()
        }
    }
}

/// Remedies on a Mac. Only PyTorch has a watermark.
fn unified(analysis: &Analysis<'_>, stack: Stack) -> Vec<Remedy> {
    use Remedy as R;
    let mut list = match (stack, analysis.domain) {
        (Stack::LlamaCpp | Stack::Ollama, _) => {
            vec![R::QuantizeWeights, R::SmallerContext, R::CloseApps, R::FewerGpuLayers]
        }
        (Stack::Mlx, Domain::Serving | Domain::Inference | Domain::Unknown) => {
            vec![R::QuantizeWeights, R::SmallerContext, R::CloseApps]
        }
        (Stack::Mlx, _) => {
            vec![R::SmallerMicroBatch, R::ShorterSequences, R::GradientCheckpointing, R::CloseApps]
        }
        (_, Domain::Serving) => vec![R::LowVram, R::CloseApps, R::SmallerImage],
        (_, Domain::Inference) => vec![R::SmallerInput, R::CloseApps],
        _ => vec![R::SmallerMicroBatch, R::CloseApps],
    };
    let is_torch = analysis.log.message.as_ref().is_some_and(|m| m.wording == Wording::Mps);
    list.extend(is_torch.then_some(R::MpsWatermark));
    list
}

/// Steps that do no harm whatever the cause is.
fn safe(analysis: &Analysis<'_>, stack: Stack) -> Vec<Remedy> {
    use Remedy as R;
    match analysis.phase.name {
        PhaseName::Save => vec![R::FullStateOffload, R::ShardedStateDict],
        PhaseName::Resume => vec![R::LoadToCpu],
        PhaseName::Load if !analysis.trains() => {
            vec![R::FreeTheCard, R::QuantizeWeights, R::DeviceMap]
        }
        PhaseName::Load => vec![R::FreeTheCard, R::QuantizeWeights],
        _ => {
            let mut list = pass(analysis, stack);
            if analysis.log.setup.method.trained() == Some(TrainedPart::Whole) {
                list.insert(list.len().min(1), R::Lora);
            }
            // Numbers that account for the card rule other processes out.
            if analysis.facts.foreign.is_none() && analysis.facts.allocated.is_none() {
                list.insert(list.len().min(2), R::FreeTheCard);
            }
            list
        }
    }
}

/// Remedies that make one pass smaller.
fn pass(analysis: &Analysis<'_>, stack: Stack) -> Vec<Remedy> {
    use Remedy as R;
    match stack {
        Stack::Vllm | Stack::Sglang | Stack::Tgi => {
            return vec![R::MaxModelLen, R::GpuMemoryUtilization, R::TensorParallel];
        }
        Stack::LlamaCpp | Stack::Ollama => return vec![R::SmallerContext, R::FewerGpuLayers],
        Stack::OtherServer => return vec![R::SmallerContext, R::QuantizeWeights, R::SmallerModel],
        Stack::Paddle if !analysis.trains() => return vec![R::FreeTheCard, R::SmallerInput],
        Stack::Paddle => return vec![R::SmallerMicroBatch, R::SmallerInput, R::FreeTheCard],
        Stack::OnnxRuntime => return vec![R::FreeTheCard, R::OrtArena, R::SmallerInput],
        Stack::TensorRt => return vec![R::TrtWorkspace, R::SmallerInput, R::FreeTheCard],
        Stack::Jax if analysis.log.clues.has(Clue::Tpu) => {
            return vec![R::SmallerMicroBatch, R::HalfPrecision, R::GradientCheckpointing, R::Fsdp];
        }
        Stack::Jax => {
            return vec![R::XlaPreallocate, R::SmallerMicroBatch, R::SmallerInput, R::FreeTheCard];
        }
        Stack::Keras => {
            return vec![
                R::SmallerMicroBatch,
                R::SmallerInput,
                R::TfMemoryGrowth,
                R::HalfPrecision,
            ];
        }
        Stack::Diffusers if !analysis.trains() => {
            return vec![R::TiledVae, R::CpuOffload, R::SmallerImage, R::LowVram];
        }
        Stack::ComfyUi | Stack::SdWebui if !analysis.trains() => {
            return vec![R::TiledVae, R::SmallerImage, R::LowVram, R::CpuOffload];
        }
        _ => {}
    }
    match (analysis.domain, analysis.phase.name) {
        (Domain::Inference | Domain::Serving, _) => {
            vec![R::NoGrad, R::SmallerInput, R::HalfPrecision, R::QuantizeWeights, R::DeviceMap]
        }
        (_, PhaseName::Evaluate) if stack == Stack::HfTrainer => {
            vec![R::EvalBatch, R::EvalAccumulation, R::NoGrad]
        }
        (_, PhaseName::Evaluate) => vec![R::EvalBatch, R::NoGrad, R::ZeroStage3],
        (Domain::DecoderTraining, _) => vec![
            R::SmallerMicroBatch,
            R::GradientCheckpointing,
            R::ShorterSequences,
            R::Lora,
            R::EightBitAdam,
        ],
        (Domain::NanoGpt, _) => {
            vec![R::SmallerMicroBatch, R::GradientCheckpointing, R::ChunkedLoss]
        }
        (Domain::OtherTraining, _) => {
            vec![R::SmallerMicroBatch, R::SmallerInput, R::HalfPrecision, R::GradientCheckpointing]
        }
        _ => vec![R::SmallerMicroBatch, R::NoGrad, R::FreeTheCard],
    }
}
