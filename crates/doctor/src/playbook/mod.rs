//! The playbook: for each cause and stack what to do, in order, with the command or the line of
//! code that does it.
//!
//! A remedy is a name here and a sentence elsewhere; [`commands`] holds what is typed.

mod commands;
mod stack;

use serde::Serialize;

use self::stack::Stack;
use crate::{
    cause::{Cause, HostSign},
    diagnosis::{Advice, Certainty, DoNext, Domain, Finding, Fix, MemoryKind, PhaseName},
    parse::Clue,
    reason::Analysis,
};

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $id:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name {
            $($(#[$item_doc])* #[serde(rename = $id)] $item,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$item),*];

            /// Its name in JSON.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$item => $id,)*
                }
            }
        }
    };
}

names! {
    /// Something that helps.
    Remedy {
        /// Fewer sequences or images at once, and accumulation.
        SmallerMicroBatch = "smaller-micro-batch",
        /// Recompute instead of keeping.
        GradientCheckpointing = "gradient-checkpointing",
        /// Fewer tokens of a sequence.
        ShorterSequences = "shorter-sequences",
        /// Smaller images, crops, graphs.
        SmallerInput = "smaller-input",
        /// 16-bit arithmetic.
        HalfPrecision = "half-precision",
        /// Train adapters only.
        Lora = "lora",
        /// Moments of 8 bits.
        EightBitAdam = "eight-bit-adam",
        /// AdamW as one kernel.
        FusedAdam = "fused-adam",
        /// Optimizer state on the host.
        ZeroOffload = "zero-offload",
        /// Weights shared between cards.
        ZeroStage3 = "zero-stage-3",
        /// The same with PyTorch's own means.
        Fsdp = "fsdp",
        /// Logits in pieces.
        ChunkedLoss = "chunked-loss",
        /// Do not hold the last logits.
        DropLogits = "drop-stale-logits",
        /// Attention without written-out scores.
        FusedAttention = "fused-attention",
        /// A smaller batch for evaluations.
        EvalBatch = "eval-batch",
        /// Predictions go to the host.
        EvalAccumulation = "eval-accumulation",
        /// No graph where nothing learns.
        NoGrad = "no-grad",
        /// The checkpoint goes through the host.
        LoadToCpu = "load-to-cpu",
        /// A full state dict goes through the host.
        FullStateOffload = "full-state-offload",
        /// Each rank writes its shard.
        ShardedStateDict = "sharded-state-dict",
        /// Weights of 4 or 8 bits.
        QuantizeWeights = "quantize-weights",
        /// Layers on the host or on several cards.
        DeviceMap = "device-map",
        /// Several cards serve one model.
        TensorParallel = "tensor-parallel",
        /// A smaller model.
        SmallerModel = "smaller-model",
        /// A server's share of the card.
        GpuMemoryUtilization = "gpu-memory-utilization",
        /// A server's longest context.
        MaxModelLen = "max-model-len",
        /// No CUDA graphs.
        EnforceEager = "enforce-eager",
        /// llama.cpp's context.
        SmallerContext = "smaller-context",
        /// A cache of 8 bits.
        QuantizedKv = "quantized-kv",
        /// Fewer layers on the card.
        FewerGpuLayers = "fewer-gpu-layers",
        /// Interfaces for small cards.
        LowVram = "lowvram",
        /// Images are decoded in tiles.
        TiledVae = "tiled-vae",
        /// A smaller image.
        SmallerImage = "smaller-image",
        /// Parts of a pipeline wait on the host.
        CpuOffload = "cpu-offload",
        /// Let the driver refuse at once.
        SysmemFallback = "sysmem-fallback",
        /// End other processes.
        FreeTheCard = "free-the-card",
        /// One rank a card.
        OneRankPerCard = "one-rank-per-card",
        /// Segments that grow.
        ExpandableSegments = "expandable-segments",
        /// Find the op that asks for so much.
        FindTheShape = "find-the-shape",
        /// Leave memory for the compiler.
        LeaveMemoryForCompiler = "room-to-compile",
        /// XLA without preallocation.
        XlaPreallocate = "xla-preallocate",
        /// TensorFlow without it.
        TfMemoryGrowth = "tf-memory-growth",
        /// The limit of the Metal backend.
        MpsWatermark = "mps-watermark",
        /// Close other programs.
        CloseApps = "close-apps",
        /// More memory or swap for the host.
        MoreRam = "more-ram",
        /// Fewer workers of the loader.
        FewerWorkers = "fewer-workers",
        /// Data in a stream.
        StreamData = "stream-data",
        /// A larger `/dev/shm`.
        ShmSize = "shm-size",
        /// A larger paging file.
        PagingFile = "paging-file",
        /// Errors where they happen.
        LaunchBlocking = "launch-blocking",
        /// Token ids and labels in range.
        CheckIds = "check-ids",
        /// Smaller tiles of a kernel.
        SmallerTiles = "smaller-tiles",
        /// A config that can run.
        FixConfig = "fix-config",
        /// A memory snapshot.
        RecordSnapshot = "record-snapshot",
    }
}

names! {
    /// A fact that would change the answer.
    Question {
        /// What program this is of.
        WhichProgram = "which-program",
        /// The whole traceback.
        Traceback = "traceback",
        /// Which model, trained how.
        WhichModel = "which-model",
        /// Batch and length.
        BatchAndLength = "batch-and-length",
        /// The config that was used.
        Config = "config",
        /// The card.
        WhichCard = "which-card",
        /// Who else is on the card.
        WhoElse = "who-else",
        /// What the kernel says.
        KernelLog = "kernel-log",
        /// Whether ids are in range.
        IdsInRange = "ids-in-range",
        /// Whether a snapshot shows more.
        Snapshot = "snapshot",
    }
}

/// Pieces of advice at most.
const MOST: usize = 6;

/// What to do about the causes, the surest first.
pub(crate) fn advice(
    analysis: &Analysis<'_>,
    kind: MemoryKind,
    findings: &[Finding],
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
    let is_sure = |f: &Finding| f.is_cause && f.certainty > Certainty::Unknown;
    let is_torch = !matches!(stack, Stack::Jax | Stack::Keras | Stack::LlamaCpp | Stack::Ollama);
    if kind == MemoryKind::GpuMemory && is_torch && !findings.iter().any(is_sure) {
        list.truncate(MOST - 1);
        list.push(Remedy::RecordSnapshot);
    }
    if kind == MemoryKind::Unknown {
        list.push(Remedy::RecordSnapshot);
    }
    // What the run does already helps nobody, unless there is nothing else.
    let clues = analysis.log.clues;
    let is_done = |remedy: &Remedy| match remedy {
        Remedy::GradientCheckpointing => clues.has(Clue::Recomputes),
        Remedy::Lora => clues.has(Clue::Lora),
        Remedy::ZeroOffload => clues.has(Clue::Offloads),
        Remedy::ZeroStage3 => clues.has(Clue::ZeroThree),
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
    let of = |id| Advice { id, commands: commands::of(id, stack, analysis) };
    list.into_iter().map(of).collect()
}

/// The one step now, and the one question.
pub(crate) fn do_next(
    analysis: &Analysis<'_>,
    kind: MemoryKind,
    findings: &[Finding],
    advice: &[Advice],
    fixes: &[Fix],
) -> DoNext {
    if kind == MemoryKind::None && advice.is_empty() {
        return DoNext::default();
    }
    let fix = fixes.iter().find(|fix| fix.fits).map(|fix| fix.command.clone());
    let first = advice.iter().find_map(|advice| advice.commands.first().cloned());
    let is_foreign =
        findings.iter().any(|f| f.is_cause && matches!(f.cause, Cause::ForeignMemory { .. }));
    let command = if is_foreign { first } else { fix.or(first) };
    let mut question = question(analysis, kind, findings);
    if command.is_none() && question.is_none() {
        question = Some(Question::WhichProgram);
    }
    DoNext { command, question }
}

fn question(analysis: &Analysis<'_>, kind: MemoryKind, findings: &[Finding]) -> Option<Question> {
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
    (!is_likely).then_some(Question::Snapshot)
}

/// What helps against one cause on one stack, in order.
fn remedies(analysis: &Analysis<'_>, stack: Stack, cause: &Cause) -> Vec<Remedy> {
    use Remedy as R;
    let clues = analysis.log.clues;
    let is_llm = analysis.domain == Domain::DecoderTraining;
    match cause {
        Cause::HostMemory { sign, .. } => match sign {
            HostSign::WorkerKilled => vec![R::FewerWorkers, R::MoreRam],
            HostSign::PageLocked => vec![R::MoreRam, R::ZeroOffload],
            HostSign::HostAllocator if clues.has(Clue::Windows) => vec![R::PagingFile, R::MoreRam],
            _ if analysis.phase.name == PhaseName::Save => vec![R::ShardedStateDict, R::MoreRam],
            _ if analysis.phase.name == PhaseName::Prepare => vec![R::StreamData, R::MoreRam],
            _ => vec![R::MoreRam, R::FewerWorkers, R::StreamData],
        },
        Cause::PagingFile {} => vec![R::PagingFile, R::FewerWorkers],
        Cause::DevShm {} => vec![R::ShmSize, R::FewerWorkers],
        Cause::SharedMemory { .. } => vec![R::SmallerTiles],
        Cause::NotMemory { .. } | Cause::DeviceSideError { is_shown: true } => {
            vec![R::LaunchBlocking, R::CheckIds]
        }
        Cause::DeviceSideError { .. } => {
            vec![R::LaunchBlocking, R::CheckIds, R::FreeTheCard, R::SmallerMicroBatch]
        }
        Cause::InvalidConfig { .. } => vec![R::FixConfig],
        Cause::UnifiedMemoryLimit { .. } => match analysis.domain {
            Domain::Serving => vec![R::LowVram, R::CloseApps, R::SmallerImage, R::MpsWatermark],
            Domain::Inference => vec![R::SmallerInput, R::CloseApps, R::MpsWatermark],
            _ => vec![R::SmallerMicroBatch, R::CloseApps, R::MpsWatermark],
        },
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
            list.truncate(MOST - 1);
            list.push(R::SysmemFallback);
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
        // Without a number nothing says that this process holds the card.
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
            Stack::Keras | Stack::Jax => vec![R::FreeTheCard, R::TfMemoryGrowth, R::SmallerModel],
            _ if analysis.trains() => {
                vec![R::QuantizeWeights, R::ZeroStage3, R::Fsdp, R::DeviceMap, R::SmallerModel]
            }
            _ => vec![R::QuantizeWeights, R::DeviceMap, R::SmallerModel],
        },
        Cause::Fragmentation { .. } => vec![R::ExpandableSegments, R::SmallerMicroBatch],
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
        Cause::WeightShaped { .. } | Cause::NoShapeInRequest { .. } | Cause::NoMatch { .. } => {
            Vec::new()
        }
    }
}

/// What makes one pass smaller.
fn pass(analysis: &Analysis<'_>, stack: Stack) -> Vec<Remedy> {
    use Remedy as R;
    match stack {
        Stack::Vllm | Stack::Sglang | Stack::Tgi => {
            return vec![R::MaxModelLen, R::GpuMemoryUtilization, R::TensorParallel];
        }
        Stack::LlamaCpp | Stack::Ollama => return vec![R::SmallerContext, R::FewerGpuLayers],
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
        Stack::ComfyUi | Stack::SdWebui | Stack::Diffusers if !analysis.trains() => {
            return vec![R::TiledVae, R::SmallerImage, R::LowVram, R::CpuOffload];
        }
        _ => {}
    }
    match (analysis.domain, analysis.phase.name) {
        (Domain::Inference | Domain::Serving, _) => {
            vec![R::NoGrad, R::SmallerInput, R::HalfPrecision, R::QuantizeWeights, R::DeviceMap]
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
