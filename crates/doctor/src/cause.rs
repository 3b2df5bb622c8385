//! Causes and their evidence.

use serde::Serialize;

use crate::{
    facts::{AccountShare, AssumedRun, TensorName},
    parse::CardProcess,
};

macro_rules! causes {
    ($($(#[$doc:meta])* $rule:literal $cause:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {
        /// A cause or an observation. In JSON: `rule` and `evidence`.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "rule", content = "evidence")]
        pub enum Cause {
            $(
                $(#[$doc])*
                #[serde(rename = $rule)]
                $cause {
                    $($(#[$field_doc])* $field: $kind,)*
                },
            )*
        }

        impl Cause {
            /// The name of its rule, which is also the name of its `--explain` page.
            pub const fn rule(&self) -> &'static str {
                match self {
                    $(Self::$cause { .. } => $rule,)*
                }
            }
        }
    };
}

/// What shows that host memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostSign {
    /// The process was killed.
    Killed,
    /// A data loader worker was killed.
    WorkerKilled,
    /// PyTorch's CPU allocator failed.
    HostAllocator,
    /// Page-locked memory could not be allocated.
    PageLocked,
    /// It grows during the run.
    Grows,
    /// Another message.
    Other,
}

/// A failure that looks like a memory error and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherFailure {
    /// An assertion in a kernel.
    DeviceAssert,
    /// An illegal memory access in a kernel.
    IllegalAccess,
    /// The watchdog of a display stopped the GPU.
    Watchdog,
    /// A data loader worker crashed.
    WorkerCrashed,
    /// NCCL failed for another reason, or a collective operation timed out.
    Communicator,
    /// Another error of the program.
    Exception,
}

/// What shows that memory grows during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthSign {
    /// The user describes it.
    Described,
    /// Many steps fitted before one failed. A later batch may also be larger.
    FailsLate,
}

/// How a server or a framework reserves memory in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reservation {
    /// A fraction of the card (vLLM, SGLang).
    Share,
    /// The reservation left too little for CUDA graphs and activations.
    NothingLeft,
    /// XLA preallocates three quarters of the card.
    Preallocation,
}

/// The tensor that the request was for, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestedTensor {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<TensorName>,
    /// Outermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u64>>,
    /// PyTorch's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<&'static str>,
    /// Its size before the allocator rounds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor_bytes: Option<u64>,
    /// The assumed run, if the log does not show the real one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<AssumedRun>,
    /// The line of code that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Size of the failed request.
    pub requested_bytes: Option<u64>,
}

causes! {
    /// Scores over the vocabulary.
    "logits-at-the-peak" LogitsAtThePeak {
        /// Which tensor.
        asked: RequestedTensor,
    }
    /// The logits of the previous pass are still alive.
    "stale-logits" StaleLogits {
        /// Size of the stale logits.
        stale_bytes: u64,
        /// Everything that the program holds at that moment.
        held_bytes: u64,
        /// The number in the message.
        allocated_bytes: u64,
        /// What `held_bytes` consists of.
        parts: Vec<AccountShare>,
        /// Whether the request would have fit without them.
        would_have_fitted_without: bool,
    }
    /// The evaluation uses the training batch size.
    "evaluation-uses-training-batch" EvaluationUsesTrainingBatch {
        /// Sequences.
        batch_size: u64,
        /// Peak of the evaluation.
        peak_bytes: u64,
        /// Its peak with one sequence at a time.
        peak_with_one_sequence_bytes: u64,
    }
    /// Heads × tokens × tokens.
    "attention-scores" AttentionScores {
        /// Which tensor.
        asked: RequestedTensor,
    }
    /// The inner value of a feed-forward layer.
    "mlp-activation" MlpActivation {
        /// Which tensor.
        asked: RequestedTensor,
    }
    /// A weight, its gradient, a moment or a copy.
    "weight-shaped" WeightShaped {
        /// Which tensor.
        asked: RequestedTensor,
    }
    /// Weights, gradients and moments exceed the card.
    "static-state-too-large" StaticStateTooLarge {
        /// The model, if it is a published one.
        model: Option<String>,
        /// Number of parameters.
        parameter_count: u64,
        /// Weights, gradients and moments.
        state_bytes: u64,
        /// Half-precision copies of the weights.
        half_copies_bytes: u64,
        /// Capacity of the card.
        total_bytes: u64,
    }
    /// Other processes use the card.
    "foreign-memory" ForeignMemory {
        /// Memory of the other processes.
        foreign_bytes: Option<u64>,
        /// Free memory.
        free_bytes: Option<u64>,
        /// Size of the failed request.
        requested_bytes: Option<u64>,
        /// The processes that the log lists.
        processes: Vec<CardProcess>,
    }
    /// More memory was free than requested.
    "free-exceeds-request" FreeExceedsRequest {
        /// Free memory.
        free_bytes: u64,
        /// Size of the failed request.
        requested_bytes: u64,
        /// A limit set on this process.
        allowed_bytes: Option<u64>,
    }
    /// One tensor is larger than the card.
    "request-larger-than-card" RequestLargerThanCard {
        /// Size of the failed request.
        requested_bytes: u64,
        /// Capacity of the card; `None` if it is unknown and no card is as large as the request.
        total_bytes: Option<u64>,
    }
    /// The request has the allocator's minimum size.
    "no-shape-in-request" NoShapeInRequest {
        /// Size of the failed request.
        requested_bytes: u64,
    }
    /// Reserved memory is unused because it is fragmented.
    "fragmentation" Fragmentation {
        /// Reserved and unused.
        unallocated_bytes: u64,
        /// Size of the failed request.
        requested_bytes: u64,
        /// The largest free block, if a snapshot shows it.
        largest_piece_bytes: Option<u64>,
    }
    /// The optimizer step allocates memory.
    "optimizer-temporaries" OptimizerTemporaries {
        /// Whether the step creates the moments.
        makes_moments: bool,
        /// Whether it is a multi-tensor (`foreach`) step.
        uses_lists: bool,
        /// Size of both moments.
        moments_bytes: Option<u64>,
        /// Size of the multi-tensor temporaries.
        list_bytes: Option<u64>,
    }
    /// A checkpoint was loaded onto the card.
    "checkpoint-on-device" CheckpointOnDevice {
        /// Whether loading itself failed.
        while_loading: bool,
        /// The copy that stays on the card.
        second_copy_bytes: Option<u64>,
    }
    /// A compiler error wraps the allocation failure.
    "hidden-by-compiler" HiddenByCompiler {
        /// Whether the compiler was running.
        while_compiling: bool,
        /// Whether a compiler error wraps the failure.
        wrapped: bool,
        /// Size of the failed request.
        requested_bytes: Option<u64>,
    }
    /// The config cannot run.
    "invalid-config" InvalidConfig {
        /// The kind of error.
        problem: Option<String>,
        /// Its message.
        message: Option<String>,
        /// The key that the script rejected.
        key: Option<String>,
    }
    /// Host memory ran out.
    "host-memory" HostMemory {
        /// What shows it.
        sign: HostSign,
        /// Size of the failed request.
        requested_bytes: Option<u64>,
        /// What the process held when the kernel killed it.
        held_bytes: Option<u64>,
    }
    /// A kernel needs too much shared memory.
    "shared-memory" SharedMemory {
        /// What the kernel needs.
        required_bytes: Option<u64>,
        /// What a multiprocessor has.
        limit_bytes: Option<u64>,
    }
    /// No tensor of the run has this size.
    "no-match" NoMatch {
        /// Size of the failed request.
        requested_bytes: u64,
        /// Whether the run is known.
        has_config: bool,
        /// The model that the log names.
        model: Option<String>,
        /// A common run that has a tensor of this size.
        would_match: Option<RequestedTensor>,
        /// The planned peak of the run, if the log shows clearly more.
        planned_bytes: Option<u64>,
        /// The allocated memory in the log.
        allocated_bytes: Option<u64>,
    }
    /// Tensors hold more than the card has: the driver spilled to host memory.
    "spilled-to-host" SpilledToHost {
        /// Memory held by tensors; `None` if a user describes it.
        allocated_bytes: Option<u64>,
        /// Capacity of the card.
        total_bytes: Option<u64>,
    }
    /// The weights do not fit the card.
    "weights-too-large" WeightsTooLarge {
        /// The model, if it is a published one.
        model: Option<String>,
        /// Number of parameters.
        parameter_count: Option<u64>,
        /// Size of the weights.
        weights_bytes: Option<u64>,
        /// Capacity of the card.
        total_bytes: Option<u64>,
    }
    /// The KV cache does not fit.
    "kv-cache" KvCache {
        /// Size of the cache.
        needed_bytes: Option<u64>,
        /// Memory available for it.
        available_bytes: Option<u64>,
        /// Tokens that it was planned for.
        tokens: Option<u64>,
    }
    /// A server or a framework reserves memory in advance.
    "server-reservation" ServerReservation {
        /// How it reserves.
        reservation: Reservation,
        /// How much it reserves.
        wanted_bytes: Option<u64>,
        /// Free memory.
        free_bytes: Option<u64>,
        /// The fraction of the card, in thousandths.
        share_thousandths: Option<u64>,
    }
    /// Predictions of all batches are kept on the card.
    "evaluation-gathers-predictions" EvaluationGathersPredictions {
        /// Size of the failed request.
        requested_bytes: Option<u64>,
        /// The line of code that concatenates them.
        line: String,
    }
    /// A sharded model is gathered in order to save it.
    "gather-on-save" GatherOnSave {
        /// Size of the failed request.
        requested_bytes: Option<u64>,
    }
    /// All parameters flattened into one tensor.
    "flat-copy" FlatCopy {
        /// Size of the failed request.
        requested_bytes: Option<u64>,
        /// Elements of the flat tensor.
        elements: Option<u64>,
        /// The model, if it is a published one.
        model: Option<String>,
    }
    /// Tensors of earlier steps are kept.
    "memory-grows" MemoryGrows {
        /// What shows it.
        sign: GrowthSign,
    }
    /// One pass needs more memory than the card has.
    "batch-too-large" BatchTooLarge {
        /// Memory held by tensors.
        allocated_bytes: Option<u64>,
        /// Size of the failed request.
        requested_bytes: Option<u64>,
        /// Capacity of the card.
        total_bytes: Option<u64>,
        /// Sequences or images per pass.
        batch_size: Option<u64>,
        /// A shape that the log prints.
        shape: Option<Vec<u64>>,
    }
    /// A library error caused by an earlier kernel failure, or by a full card.
    "device-side-error" DeviceSideError {
        /// Whether the log shows the failed assertion.
        is_shown: bool,
    }
    /// The limit of Apple's Metal backend.
    "unified-memory-limit" UnifiedMemoryLimit {
        /// Memory held by tensors.
        allocated_bytes: Option<u64>,
        /// Other allocations of the process.
        other_bytes: Option<u64>,
        /// The limit.
        limit_bytes: Option<u64>,
        /// Size of the failed request.
        requested_bytes: Option<u64>,
    }
    /// The Windows paging file is too small.
    "paging-file" PagingFile {}
    /// `/dev/shm` is too small.
    "dev-shm" DevShm {}
    /// Buffers of a communicator or of data parallelism.
    "communicator-buffers" CommunicatorBuffers {
        /// Size of the failed request.
        requested_bytes: Option<u64>,
    }
    /// The log does not show the cause.
    "undecided" Undecided {
        /// Explanations that remain, by the names of their rules.
        explanations: Vec<&'static str>,
        /// Memory held by tensors.
        allocated_bytes: Option<u64>,
        /// Capacity of the card.
        total_bytes: Option<u64>,
        /// Size of the failed request.
        requested_bytes: Option<u64>,
    }
    /// The failure is not a memory error.
    "not-memory" NotMemory {
        /// What failed instead.
        failure: OtherFailure,
        /// The line that says so.
        line: Option<String>,
    }
}
