//! What a finding names, with the evidence that it rests on.

use serde::Serialize;

use crate::{
    diagnosis::{AccountShare, AssumedRun},
    parse::Process,
};

macro_rules! causes {
    ($($(#[$doc:meta])* $rule:literal $cause:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {
        /// One cause, or one thing that was looked at and is not the cause. In JSON: `rule` and
        /// `evidence`.
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
            /// The rule's name; its page says more.
            pub const fn rule(&self) -> &'static str {
                match self {
                    $(Self::$cause { .. } => $rule,)*
                }
            }
        }
    };
}

/// What tells that the host's memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostSign {
    /// The process was ended from outside.
    Killed,
    /// A worker of a data loader was.
    WorkerKilled,
    /// PyTorch's allocator for the host gave up.
    HostAllocator,
    /// A page-locked copy could not be made.
    PageLocked,
    /// Another word for it.
    Other,
}

/// What else failed in a log that looks like memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherFailure {
    /// A kernel's own check.
    DeviceAssert,
    /// A kernel touched what it may not.
    IllegalAccess,
}

/// What a server or a framework takes before anything is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reservation {
    /// A share of the card, as vLLM and SGLang take it.
    Share,
    /// What was left for CUDA graphs and activations was too little.
    NothingLeft,
    /// XLA takes three quarters of the card at once.
    Preallocation,
}

/// The tensor that was asked for, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestedTensor {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// Outermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u64>>,
    /// As PyTorch calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<&'static str>,
    /// Its size before an allocator rounds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor_bytes: Option<u64>,
    /// The run in which it has this size, where the log's own run is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposing: Option<AssumedRun>,
    /// The line of code that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// What the message says was asked for.
    pub requested_bytes: Option<u64>,
}

causes! {
    /// Scores over the vocabulary.
    "logits-at-the-peak" LogitsAtThePeak {
        /// Which tensor.
        asked: RequestedTensor,
    }
    /// The logits of the pass before are still held.
    "stale-logits" StaleLogits {
        /// Theirs.
        stale_bytes: u64,
        /// All that the program holds then.
        held_bytes: u64,
        /// What the message says.
        allocated_bytes: u64,
        /// Of what it is made.
        parts: Vec<AccountShare>,
        /// Whether the request would have fitted without them.
        would_have_fitted_without: bool,
    }
    /// An evaluation runs with the batch of training.
    "evaluation-uses-training-batch" EvaluationUsesTrainingBatch {
        /// Sequences.
        batch_size: u64,
        /// Its peak.
        peak_bytes: u64,
        /// The peak with one sequence at a time.
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
        /// Whose, if it is a published model.
        model: Option<String>,
        /// Learned elements.
        parameter_count: u64,
        /// Weights, gradients and moments.
        state_bytes: u64,
        /// Copies in half precision.
        half_copies_bytes: u64,
        /// What the card has.
        total_bytes: u64,
    }
    /// Others are on the card.
    "foreign-memory" ForeignMemory {
        /// Theirs.
        foreign_bytes: Option<u64>,
        /// What was free.
        free_bytes: Option<u64>,
        /// What was asked for.
        requested_bytes: Option<u64>,
        /// Who they are, as far as the log says.
        processes: Vec<Process>,
    }
    /// More was free than was asked for.
    "free-exceeds-request" FreeExceedsRequest {
        /// What was free.
        free_bytes: u64,
        /// What was asked for.
        requested_bytes: u64,
        /// A limit of this process.
        allowed_bytes: Option<u64>,
    }
    /// One tensor is larger than the card.
    "request-larger-than-card" RequestLargerThanCard {
        /// What was asked for.
        requested_bytes: u64,
        /// What the card has.
        total_bytes: u64,
    }
    /// The request is the allocator's least.
    "no-shape-in-request" NoShapeInRequest {
        /// What was asked for.
        requested_bytes: u64,
    }
    /// Reserved memory is unused and in pieces.
    "fragmentation" Fragmentation {
        /// Reserved and unused.
        unallocated_bytes: u64,
        /// What was asked for.
        requested_bytes: u64,
        /// The longest piece, if a snapshot shows it.
        largest_piece_bytes: Option<u64>,
    }
    /// The optimizer's step needs more.
    "optimizer-temporaries" OptimizerTemporaries {
        /// Whether the moments are being made.
        makes_moments: bool,
        /// Whether it works on lists of tensors.
        uses_lists: bool,
        /// Both moments.
        moments_bytes: Option<u64>,
        /// What the lists add.
        list_bytes: Option<u64>,
    }
    /// A checkpoint was loaded onto the card.
    "checkpoint-on-device" CheckpointOnDevice {
        /// Whether that is what failed.
        while_loading: bool,
        /// The copy that stays.
        second_copy_bytes: Option<u64>,
    }
    /// A compiler's error wraps it.
    "hidden-by-compiler" HiddenByCompiler {
        /// Whether the compiler was at work.
        while_compiling: bool,
        /// Whether its error wraps another.
        wrapped: bool,
        /// What was asked for.
        requested_bytes: Option<u64>,
    }
    /// The config cannot run.
    "invalid-config" InvalidConfig {
        /// The kind of error.
        problem: Option<String>,
        /// What it says.
        message: Option<String>,
        /// The key that the script refused.
        key: Option<String>,
    }
    /// The machine's own memory.
    "host-memory" HostMemory {
        /// What tells so.
        sign: HostSign,
        /// What was asked for.
        requested_bytes: Option<u64>,
        /// What the process held when the kernel ended it.
        held_bytes: Option<u64>,
    }
    /// A multiprocessor's memory.
    "shared-memory" SharedMemory {
        /// What a kernel needs.
        required_bytes: Option<u64>,
        /// What there is.
        limit_bytes: Option<u64>,
    }
    /// No tensor of the run has this size.
    "no-match" NoMatch {
        /// What was asked for.
        requested_bytes: u64,
        /// Whether the run is known.
        has_config: bool,
        /// A common run that would print it.
        would_match: Option<RequestedTensor>,
        /// The most that the run was planned to hold, if the log holds clearly more.
        planned_bytes: Option<u64>,
        /// What the log holds.
        allocated_bytes: Option<u64>,
    }
    /// More is held than the card has: the driver moved it to the host.
    "spilled-to-host" SpilledToHost {
        /// What tensors hold.
        allocated_bytes: u64,
        /// What the card has.
        total_bytes: u64,
    }
    /// The weights do not fit the card.
    "weights-too-large" WeightsTooLarge {
        /// Whose, if it is a published model.
        model: Option<String>,
        /// Learned elements.
        parameter_count: Option<u64>,
        /// What they need.
        weights_bytes: Option<u64>,
        /// What the card has.
        total_bytes: Option<u64>,
    }
    /// The cache of keys and values.
    "kv-cache" KvCache {
        /// What it needs.
        needed_bytes: Option<u64>,
        /// What there is for it.
        available_bytes: Option<u64>,
        /// Tokens that it was to hold.
        tokens: Option<u64>,
    }
    /// A server or a framework takes its share first.
    "server-reservation" ServerReservation {
        /// How.
        reservation: Reservation,
        /// What it wants.
        wanted_bytes: Option<u64>,
        /// What is free.
        free_bytes: Option<u64>,
        /// The share, in thousandths.
        share_thousandths: Option<u64>,
    }
    /// Predictions of all batches are kept on the card.
    "evaluation-gathers-predictions" EvaluationGathersPredictions {
        /// What was asked for.
        requested_bytes: Option<u64>,
        /// The line that joins them.
        line: String,
    }
    /// A sharded model is gathered to be saved.
    "gather-on-save" GatherOnSave {
        /// What was asked for.
        requested_bytes: Option<u64>,
    }
    /// All parameters in one piece.
    "flat-copy" FlatCopy {
        /// What was asked for.
        requested_bytes: Option<u64>,
        /// Elements of that piece.
        elements: Option<u64>,
        /// Whose, if it is a published model.
        model: Option<String>,
    }
    /// One pass needs more than the card has.
    "batch-too-large" BatchTooLarge {
        /// What tensors hold.
        allocated_bytes: Option<u64>,
        /// What was asked for.
        requested_bytes: Option<u64>,
        /// What the card has.
        total_bytes: Option<u64>,
        /// Sequences or images of a pass.
        batch_size: Option<u64>,
        /// A shape that the log prints.
        shape: Option<Vec<u64>>,
    }
    /// A kernel failed before, and the library's error only follows.
    "device-side-error" DeviceSideError {
        /// Whether the failed check is in the log.
        is_shown: bool,
    }
    /// Apple's limit on what a program may hold.
    "unified-memory-limit" UnifiedMemoryLimit {
        /// Tensors.
        allocated_bytes: Option<u64>,
        /// Held by the same process outside of tensors.
        other_bytes: Option<u64>,
        /// The limit.
        limit_bytes: Option<u64>,
        /// What was asked for.
        requested_bytes: Option<u64>,
    }
    /// Windows' paging file.
    "paging-file" PagingFile {}
    /// `/dev/shm`.
    "dev-shm" DevShm {}
    /// What a communicator or data parallelism needs.
    "communicator-buffers" CommunicatorBuffers {
        /// What was asked for.
        requested_bytes: Option<u64>,
    }
    /// It looks like memory and is not.
    "not-memory" NotMemory {
        /// What it is.
        failure: OtherFailure,
    }
}
