//! Common claims about memory, and what is true of them.

use serde::Serialize;

use crate::{facts::PhaseName, named::named};

named! {
    /// A claim that notes and forum answers make.
    Claim {
        /// nanoGPT knows `eval_batch_size`, and 4 is enough.
        EvalBatchSize = "eval_batch_size",
        /// nanoGPT knows `eval_block_size`, which keeps the accuracy.
        EvalBlockSize = "eval_block_size",
        /// Fewer `eval_iters` save memory.
        EvalIters = "eval_iters",
        /// 512 or 448 channels are safe.
        Heads = "n_head",
        /// Gradient checkpointing halves the memory with one key or call.
        GradientCheckpointing = "gradient_checkpointing",
        /// A smaller micro-batch with accumulation is the same training.
        SmallerMicroBatch = "batch_size",
        /// `compile = False` saves memory.
        CompileOff = "compile",
        /// `reduce-overhead` saves memory.
        ReduceOverhead = "reduce-overhead",
        /// `empty_cache()` helps.
        EmptyCache = "empty_cache",
        /// Warnings and settings that free nothing.
        Warnings = "warnings",
        /// `expandable_segments` helps.
        ExpandableSegments = "expandable_segments",
        /// A shorter context helps.
        BlockSize = "block_size",
        /// Moving the evaluation to the CPU helps.
        OffloadEvaluation = "offload-evaluation",
        /// Watch `nvidia-smi`.
        NvidiaSmi = "nvidia-smi",
        /// End other processes.
        KillProcesses = "foreign-memory",
        /// `float16` on cards without bfloat16.
        HalfOnOldCards = "float16-on-old-cards",
        /// Train on the CPU.
        OnCpu = "device-cpu",
        /// DDP lowers the memory of a card.
        Ddp = "ddp",
        /// Reinstall PyTorch or CUDA.
        Reinstall = "reinstall",
        /// A KV cache fills the card.
        KvCache = "kv_cache",
        /// The evaluation runs a backward pass or keeps the graph.
        BackwardInEvaluation = "estimate_loss",
        /// Large cards have 12 GB.
        Cards = "cards",
        /// The weights are in half precision.
        HalfWeights = "weights",
        /// The data loader fills memory.
        DataLoader = "data_loader",
    }
}

named! {
    /// What is true of a claim.
    ClaimVerdict {
        /// It is true.
        True = "true",
        /// It is false.
        False = "false",
        /// It is true under a condition.
        OnlyIf = "only-if",
    }
}

impl Claim {
    /// What is true of it.
    pub const fn verdict(self) -> ClaimVerdict {
        match self {
            Self::NvidiaSmi | Self::HalfOnOldCards => ClaimVerdict::True,
            Self::GradientCheckpointing
            | Self::SmallerMicroBatch
            | Self::ExpandableSegments
            | Self::BlockSize
            | Self::OffloadEvaluation
            | Self::KillProcesses
            | Self::OnCpu => ClaimVerdict::OnlyIf,
            _ => ClaimVerdict::False,
        }
    }
}

/// A claim in a text, with what is true of it and, if a config was given, what it changes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedClaim {
    /// The claim.
    pub claim: Claim,
    /// What is true of it.
    pub verdict: ClaimVerdict,
    /// The phase that was planned.
    pub phase: Option<PhaseName>,
    /// Its peak with the config as it is.
    pub before_bytes: Option<u64>,
    /// Its peak with the change.
    pub after_bytes: Option<u64>,
}
