//! What to do: one sentence a remedy, and one a question.

use fitgpt_doctor::{Question, Remedy};

english! {
    smaller_micro_batch() "use a smaller micro-batch and accumulate gradients over more of them: the step stays the same"
    gradient_checkpointing() "recompute activations in the backward pass instead of keeping them; costs about a third more compute"
    shorter_sequences() "shorten the sequences: activations and logits grow with every token"
    smaller_input() "use smaller images, crops or inputs: activations grow with their area"
    half_precision() "compute in bfloat16 or float16: activations need half the memory"
    lora() "train adapters (LoRA) instead of all weights: gradients and moments shrink to a few percent"
    eight_bit_adam() "use an 8-bit Adam: its moments need 2 bytes a parameter instead of 8"
    fused_adam() "use the fused AdamW, which makes no lists of temporaries"
    zero_offload() "keep the optimizer state in host memory"
    zero_stage_3() "share weights, gradients and moments between the cards (ZeRO-3), with offload to the host if that is not enough"
    fsdp() "shard the model over several cards"
    chunked_loss() "compute logits and loss in chunks, so that the full logits never exist"
    drop_stale_logits() "do not keep the last batch's logits alive under a name"
    fused_attention() "use fused attention (SDPA, FlashAttention, xFormers), which never writes the scores out"
    eval_batch() "use a smaller batch for evaluation than for training"
    eval_accumulation() "move predictions to the host during the evaluation, or keep only the argmax"
    no_grad() "run without a graph: under `torch.inference_mode()`, nothing is kept for a backward pass"
    load_to_cpu() "load the checkpoint into host memory first"
    full_state_offload() "gather the full state dict on the host, on rank 0 only"
    sharded_state_dict() "save shards instead of one full checkpoint"
    quantize_weights() "load the weights in 4 or 8 bits"
    device_map() "spread the layers over several cards and host memory"
    tensor_parallel() "serve the model on several cards"
    smaller_model() "use a smaller model"
    gpu_memory_utilization() "set the server's share of the card to what is really free"
    max_model_len() "limit the context length: the server plans for the longest that the model allows"
    enforce_eager() "serve without CUDA graphs"
    smaller_context() "limit the context length"
    quantized_kv() "store keys and values in 8 bits"
    fewer_gpu_layers() "put fewer layers on the card; the rest runs on the CPU"
    lowvram() "use the interface's mode for small cards"
    tiled_vae() "decode the image in tiles (in ComfyUI the node `VAE Decode (Tiled)` with a smaller tile)"
    smaller_image() "generate smaller images or fewer at once, and upscale afterwards"
    cpu_offload() "let the parts of the pipeline wait in host memory until they run"
    sysmem_fallback() "in NVIDIA's control panel set `CUDA - Sysmem Fallback Policy` to `Prefer No Sysmem Fallback`: the run then fails at once instead of slowing down"
    free_the_card() "see who is on the card and end what should not be there, including notebooks and earlier runs"
    one_rank_per_card() "check that every rank uses its own card and that nothing limits this process"
    expandable_segments() "let the allocator grow its segments, so that unused pieces can be joined"
    find_the_shape() "find the operation that asks for so much: print its shapes; a forgotten reshape or broadcast is likely"
    room_to_compile() "leave free memory for the compiler's first call"
    xla_preallocate() "let JAX take memory as it needs it, and check that no other process holds the card"
    tf_memory_growth() "let TensorFlow take memory as it needs it"
    mps_watermark() "as a last resort lift PyTorch's own limit on Metal; the machine may start to swap"
    close_apps() "close other programs: they share this memory"
    larger_card() "use a card with more memory"
    more_ram() "give the machine or the container more memory or swap, and look at who used it"
    fewer_workers() "use fewer data-loader workers: each holds its own copy of what it reads"
    stream_data() "read data in a stream instead of whole"
    shm_size() "give the container a larger `/dev/shm`"
    paging_file() "let Windows manage the paging file, or make it larger (Advanced, Virtual memory), then restart"
    launch_blocking() "run once with synchronous kernels: the traceback then points at the operation that failed"
    check_ids() "check that every token id is below the vocabulary size and every label is in range"
    smaller_tiles() "use smaller tiles or fewer stages in that kernel, or another version of Triton; a smaller batch does not help"
    fix_config() "fix the config: it cannot run anywhere"
    record_snapshot() "record a memory snapshot, which shows who owns every byte, and hand it to the doctor"

    which_program() "what program is this: which framework, training or inference, which model?"
    traceback() "where did it fail? The whole traceback would tell"
    which_model() "which model is it (how many parameters), and are all weights trained or only adapters?"
    batch_and_length() "how large are the batch and the sequences or images?"
    config_used() "which config was used, with the overrides of the command line?"
    which_card() "which card is it, and what does `nvidia-smi` show while the program runs?"
    who_else() "does another process or rank use the same card, or is a limit set for this one?"
    kernel_log() "does the kernel's log (`dmesg -T`) show `Killed process` for it, and how much memory does the machine have?"
    ids_in_range() "does the same batch run on the CPU? `index out of range` there means a bad token id, not memory"
    snapshot() "which tensors fill the card? A memory snapshot shows it"
}

/// What to do.
pub(crate) fn advice(remedy: Remedy) -> String {
    match remedy {
        Remedy::SmallerMicroBatch => smaller_micro_batch(),
        Remedy::GradientCheckpointing => gradient_checkpointing(),
        Remedy::ShorterSequences => shorter_sequences(),
        Remedy::SmallerInput => smaller_input(),
        Remedy::HalfPrecision => half_precision(),
        Remedy::Lora => lora(),
        Remedy::EightBitAdam => eight_bit_adam(),
        Remedy::FusedAdam => fused_adam(),
        Remedy::ZeroOffload => zero_offload(),
        Remedy::ZeroStage3 => zero_stage_3(),
        Remedy::Fsdp => fsdp(),
        Remedy::ChunkedLoss => chunked_loss(),
        Remedy::DropLogits => drop_stale_logits(),
        Remedy::FusedAttention => fused_attention(),
        Remedy::EvalBatch => eval_batch(),
        Remedy::EvalAccumulation => eval_accumulation(),
        Remedy::NoGrad => no_grad(),
        Remedy::LoadToCpu => load_to_cpu(),
        Remedy::FullStateOffload => full_state_offload(),
        Remedy::ShardedStateDict => sharded_state_dict(),
        Remedy::QuantizeWeights => quantize_weights(),
        Remedy::DeviceMap => device_map(),
        Remedy::TensorParallel => tensor_parallel(),
        Remedy::SmallerModel => smaller_model(),
        Remedy::GpuMemoryUtilization => gpu_memory_utilization(),
        Remedy::MaxModelLen => max_model_len(),
        Remedy::EnforceEager => enforce_eager(),
        Remedy::SmallerContext => smaller_context(),
        Remedy::QuantizedKv => quantized_kv(),
        Remedy::FewerGpuLayers => fewer_gpu_layers(),
        Remedy::LowVram => lowvram(),
        Remedy::TiledVae => tiled_vae(),
        Remedy::SmallerImage => smaller_image(),
        Remedy::CpuOffload => cpu_offload(),
        Remedy::SysmemFallback => sysmem_fallback(),
        Remedy::FreeTheCard => free_the_card(),
        Remedy::OneRankPerCard => one_rank_per_card(),
        Remedy::ExpandableSegments => expandable_segments(),
        Remedy::FindTheShape => find_the_shape(),
        Remedy::RoomToCompile => room_to_compile(),
        Remedy::XlaPreallocate => xla_preallocate(),
        Remedy::TfMemoryGrowth => tf_memory_growth(),
        Remedy::MpsWatermark => mps_watermark(),
        Remedy::CloseApps => close_apps(),
        Remedy::LargerCard => larger_card(),
        Remedy::MoreRam => more_ram(),
        Remedy::FewerWorkers => fewer_workers(),
        Remedy::StreamData => stream_data(),
        Remedy::ShmSize => shm_size(),
        Remedy::PagingFile => paging_file(),
        Remedy::LaunchBlocking => launch_blocking(),
        Remedy::CheckIds => check_ids(),
        Remedy::SmallerTiles => smaller_tiles(),
        Remedy::FixConfig => fix_config(),
        Remedy::RecordSnapshot => record_snapshot(),
    }
}

/// What would change the answer.
pub(crate) fn question(question: Question) -> String {
    match question {
        Question::WhichProgram => which_program(),
        Question::Traceback => traceback(),
        Question::WhichModel => which_model(),
        Question::BatchAndLength => batch_and_length(),
        Question::Config => config_used(),
        Question::WhichCard => which_card(),
        Question::WhoElse => who_else(),
        Question::KernelLog => kernel_log(),
        Question::IdsInRange => ids_in_range(),
        Question::Snapshot => snapshot(),
    }
}
