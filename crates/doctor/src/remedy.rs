//! What can be advised and asked.
//!
//! A remedy is only a name here; its sentence is in `words/advice.rs`.

use crate::named::named;

named! {
    /// A remedy.
    Remedy {
        /// A smaller micro-batch with gradient accumulation.
        SmallerMicroBatch = "smaller-micro-batch",
        /// Recompute activations in the backward pass.
        GradientCheckpointing = "gradient-checkpointing",
        /// Fewer tokens per sequence.
        ShorterSequences = "shorter-sequences",
        /// Smaller images, crops or graphs.
        SmallerInput = "smaller-input",
        /// 16-bit arithmetic.
        HalfPrecision = "half-precision",
        /// Train adapters only.
        Lora = "lora",
        /// 8-bit moments.
        EightBitAdam = "eight-bit-adam",
        /// Fused AdamW.
        FusedAdam = "fused-adam",
        /// Optimizer state on the host.
        ZeroOffload = "zero-offload",
        /// Weights sharded over the cards (DeepSpeed).
        ZeroStage3 = "zero-stage-3",
        /// Weights sharded over the cards (PyTorch).
        Fsdp = "fsdp",
        /// `forward` returns no logits while training.
        LossAlone = "loss-alone",
        /// Logits and loss in chunks.
        ChunkedLoss = "chunked-loss",
        /// Keep numbers instead of tensors.
        KeepNumbers = "keep-numbers",
        /// Release the previous logits.
        DropLogits = "drop-stale-logits",
        /// Fused attention.
        FusedAttention = "fused-attention",
        /// A smaller evaluation batch.
        EvalBatch = "eval-batch",
        /// Move predictions to the host.
        EvalAccumulation = "eval-accumulation",
        /// No autograd graph during inference.
        NoGrad = "no-grad",
        /// Load the checkpoint into host memory.
        LoadToCpu = "load-to-cpu",
        /// Gather the full state dict in host memory.
        FullStateOffload = "full-state-offload",
        /// Each rank saves its shard.
        ShardedStateDict = "sharded-state-dict",
        /// 4-bit or 8-bit weights.
        QuantizeWeights = "quantize-weights",
        /// Spread layers over several cards and the host.
        DeviceMap = "device-map",
        /// Tensor parallelism.
        TensorParallel = "tensor-parallel",
        /// A smaller model.
        SmallerModel = "smaller-model",
        /// The fraction of the card that a server reserves.
        GpuMemoryUtilization = "gpu-memory-utilization",
        /// The maximum context length of a server.
        MaxModelLen = "max-model-len",
        /// No CUDA graphs.
        EnforceEager = "enforce-eager",
        /// A smaller context.
        SmallerContext = "smaller-context",
        /// A quantized KV cache.
        QuantizedKv = "quantized-kv",
        /// Fewer layers on the card.
        FewerGpuLayers = "fewer-gpu-layers",
        /// The low-VRAM mode of a user interface.
        LowVram = "lowvram",
        /// Decode images in tiles.
        TiledVae = "tiled-vae",
        /// A smaller image.
        SmallerImage = "smaller-image",
        /// Keep idle parts of a pipeline on the host.
        CpuOffload = "cpu-offload",
        /// Disable the driver's fallback to host memory.
        SysmemFallback = "sysmem-fallback",
        /// End other processes.
        FreeTheCard = "free-the-card",
        /// One rank per card.
        OneRankPerCard = "one-rank-per-card",
        /// Expandable segments.
        ExpandableSegments = "expandable-segments",
        /// Find the op that requests so much.
        FindTheShape = "find-the-shape",
        /// Leave memory for the compiler.
        LeaveMemoryForCompiler = "room-to-compile",
        /// XLA without preallocation.
        XlaPreallocate = "xla-preallocate",
        /// TensorFlow without preallocation.
        TfMemoryGrowth = "tf-memory-growth",
        /// Raise the limit of the Metal backend.
        MpsWatermark = "mps-watermark",
        /// Close other programs.
        CloseApps = "close-apps",
        /// More host memory or swap.
        MoreRam = "more-ram",
        /// Fewer data loader workers.
        FewerWorkers = "fewer-workers",
        /// Stream the data.
        StreamData = "stream-data",
        /// A larger `/dev/shm`.
        ShmSize = "shm-size",
        /// A larger paging file.
        PagingFile = "paging-file",
        /// Synchronous kernel launches.
        LaunchBlocking = "launch-blocking",
        /// Check that token ids and labels are in range.
        CheckIds = "check-ids",
        /// Load data in the main process, whose errors are visible.
        LoadInMainProcess = "load-in-main-process",
        /// What NCCL reports.
        NcclDebug = "nccl-debug",
        /// Smaller kernel tiles.
        SmallerTiles = "smaller-tiles",
        /// Fix the error that the last line names.
        FixTheError = "fix-the-error",
        /// Fix the config.
        FixConfig = "fix-config",
        /// ONNX Runtime's arena grows by what is requested, up to a limit.
        OrtArena = "ort-arena",
        /// A smaller workspace and smaller shapes for `TensorRT`'s builder.
        TrtWorkspace = "trt-workspace",
        /// Record a memory snapshot.
        RecordSnapshot = "record-snapshot",
    }
}

impl Remedy {
    /// Whether the training result stays the same; `None` if it is not about a training run.
    pub const fn keeps_training(self) -> Option<bool> {
        match self {
            Self::SmallerMicroBatch
            | Self::GradientCheckpointing
            | Self::FusedAdam
            | Self::ZeroOffload
            | Self::ZeroStage3
            | Self::Fsdp
            | Self::LossAlone
            | Self::ChunkedLoss
            | Self::KeepNumbers
            | Self::DropLogits
            | Self::FusedAttention
            | Self::EvalBatch
            | Self::EvalAccumulation
            | Self::NoGrad
            | Self::LoadToCpu
            | Self::FullStateOffload
            | Self::ShardedStateDict
            | Self::FreeTheCard
            | Self::OneRankPerCard
            | Self::ExpandableSegments
            | Self::LeaveMemoryForCompiler
            | Self::FewerWorkers
            | Self::StreamData
            | Self::LaunchBlocking
            | Self::CheckIds
            | Self::LoadInMainProcess
            | Self::NcclDebug
            | Self::RecordSnapshot => Some(true),
            Self::ShorterSequences
            | Self::SmallerInput
            | Self::HalfPrecision
            | Self::Lora
            | Self::EightBitAdam
            | Self::QuantizeWeights
            | Self::SmallerModel => Some(false),
            _ => None,
        }
    }
}

named! {
    /// A missing fact that would change the diagnosis.
    Question {
        /// Which program it was.
        WhichProgram = "which-program",
        /// Which memory ran out.
        WhichMemory = "which-memory",
        /// The complete traceback.
        Traceback = "traceback",
        /// Which model, and how it was trained.
        WhichModel = "which-model",
        /// Batch size and sequence length.
        BatchAndLength = "batch-and-length",
        /// The config of the run.
        Config = "config",
        /// Whether the given config is the one that ran: the log shows more memory than it needs.
        AnotherConfig = "another-config",
        /// The card.
        WhichCard = "which-card",
        /// Other processes on the card.
        WhoElse = "who-else",
        /// The kernel log.
        KernelLog = "kernel-log",
        /// Whether token ids are in range.
        IdsInRange = "ids-in-range",
        /// A memory snapshot.
        Snapshot = "snapshot",
    }
}
