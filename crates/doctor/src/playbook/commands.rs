//! The commands, flags and lines of code of the playbook.

use super::{Invocation, Remedy, stack::Stack};
use crate::{parse::Clue, reason::Analysis};

/// The commands or code that apply `remedy` on `stack`, best first; empty if the sentence is enough.
#[expect(clippy::too_many_lines, reason = "a table: the commands for every remedy and stack")]
pub(super) fn of(
    remedy: Remedy,
    stack: Stack,
    analysis: &Analysis<'_>,
    invocation: &Invocation<'_>,
) -> Vec<String> {
    use Remedy as R;
    use Stack as S;
    let setup = &analysis.log.setup;
    let batch = setup.batch.map_or(1, |batch| (batch / 2).max(1));
    let accumulation =
        setup.accumulation.unwrap_or(1).saturating_mul(if setup.batch.is_some() { 2 } else { 8 });
    let seq = setup.seq.map_or(1024, |seq| (seq / 2).max(64));
    let eval = setup.eval_batch.map_or(1, |batch| (batch / 4).max(1));
    let one = |text: &str| vec![text.to_owned()];
    // nanoGPT's patches, and its script with the user's config.
    let train = || invocation.train(&[], &[]);
    let patched = |name: &str| vec![format!("fitgpt patch . --apply --only {name} && {}", train())];
    match (remedy, stack) {
        (R::SmallerMicroBatch, S::Jax | S::Paddle)
        | (R::QuantizeWeights, S::Diffusers | S::ComfyUi | S::SdWebui | S::OtherServer)
        | (R::SmallerContext, S::Plain | S::HfTrainer | S::TextGenWebui | S::OtherServer | S::Mlx) => {
            Vec::new()
        }
        (R::SmallerMicroBatch, S::Mlx) => one("mlx_lm.lora ... --batch-size 1"),
        (R::GradientCheckpointing, S::Mlx) => one("mlx_lm.lora ... --grad-checkpoint"),
        (R::ShorterSequences, S::Mlx) => vec![format!("mlx_lm.lora ... --max-seq-length {seq}")],
        (R::QuantizeWeights, S::Mlx) => one("mlx_lm.convert --hf-path MODEL -q"),
        (R::GradientCheckpointing, S::Jax) => one("block = jax.checkpoint(block)"),
        (R::HalfPrecision, S::Jax) => one("Model(..., dtype=jnp.bfloat16)"),
        (R::Fsdp, S::Jax) => {
            one("jax.device_put(params, NamedSharding(mesh, PartitionSpec(\"model\")))")
        }
        (R::KeepNumbers, _) => vec![
            "total += loss.item()  # not: total += loss".to_owned(),
            "outputs.append(output.detach().cpu())".to_owned(),
        ],
        (R::SmallerMicroBatch, S::NanoGpt) => {
            vec![format!("fitgpt fit {}", invocation.target())]
        }
        (R::SmallerMicroBatch, _) if analysis.log.clues.has(Clue::NanoChat) => {
            vec![format!("--device-batch-size {batch}")]
        }
        // Its targets are shifted already.
        (R::ChunkedLoss, _) if analysis.log.clues.has(Clue::NanoChat) => {
            one("cut_cross_entropy.linear_cross_entropy(hidden, lm_head.weight, targets)")
        }
        (R::SmallerMicroBatch, S::HfTrainer) => {
            vec![format!("--per_device_train_batch_size {batch} --gradient_accumulation_steps {accumulation}")]
        }
        (R::SmallerMicroBatch, S::Lightning) => {
            vec![format!("DataLoader(..., batch_size={batch}); Trainer(accumulate_grad_batches={accumulation})")]
        }
        (R::SmallerMicroBatch, S::DeepSpeed) => {
            vec![format!("\"train_micro_batch_size_per_gpu\": {batch}, \"gradient_accumulation_steps\": {accumulation}")]
        }
        (R::SmallerMicroBatch, S::Yolo) => {
            vec![format!("python train.py --batch-size {batch}"), "yolo detect train batch=-1".to_owned()]
        }
        (R::SmallerMicroBatch, S::Keras) => vec![format!("model.fit(..., batch_size={batch})")],
        (R::SmallerMicroBatch, S::Diffusers) => {
            vec![format!("--train_batch_size {batch} --gradient_accumulation_steps {accumulation} --gradient_checkpointing")]
        }
        (R::SmallerMicroBatch, _) => {
            vec![format!("DataLoader(dataset, batch_size={batch}, ...)  # and (loss / {accumulation}).backward() in {accumulation} passes before optimizer.step()")]
        }
        (R::GradientCheckpointing, S::NanoGpt) => {
            vec![format!("fitgpt patch . --apply --only checkpoint-blocks && {} --grad_checkpoint=True", train())]
        }
        (R::GradientCheckpointing, S::HfTrainer) => one("--gradient_checkpointing True"),
        (R::GradientCheckpointing, S::Diffusers) => one("unet.enable_gradient_checkpointing()"),
        (R::GradientCheckpointing, _) => {
            one("x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)")
        }
        (R::ShorterSequences, S::HfTrainer) if analysis.log.clues.has(Clue::TuningKit) => {
            vec![format!("cutoff_len: {seq}  # or --max_length {seq}")]
        }
        (R::ShorterSequences, S::HfTrainer) => vec![format!("--max_length {seq}")],
        (R::ShorterSequences, _) => vec![format!("tokenizer(text, truncation=True, max_length={seq})")],
        (R::SmallerInput, S::Yolo) => one("python train.py --img 640"),
        (R::HalfPrecision, S::HfTrainer) => one("--bf16 True"),
        (R::HalfPrecision, S::Lightning) => one("Trainer(precision=\"bf16-mixed\")"),
        (R::HalfPrecision, S::Keras) => one("keras.mixed_precision.set_global_policy(\"mixed_float16\")"),
        (R::HalfPrecision, _) => one("with torch.autocast(\"cuda\", dtype=torch.bfloat16):"),
        (R::Lora, _) => vec![
            "pip install peft".to_owned(),
            "model = get_peft_model(model, LoraConfig(r=16, task_type=\"CAUSAL_LM\"))".to_owned(),
        ],
        (R::EightBitAdam, S::HfTrainer) => one("--optim adamw_bnb_8bit"),
        (R::EightBitAdam, _) => vec![
            "pip install bitsandbytes".to_owned(),
            "optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), lr=lr)".to_owned(),
        ],
        (R::FusedAdam, S::HfTrainer) => one("--optim adamw_torch_fused"),
        (R::FusedAdam, _) => one("torch.optim.AdamW(model.parameters(), lr=lr, fused=True)"),
        (R::ZeroOffload, S::HfTrainer | S::DeepSpeed) => {
            one("\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}")
        }
        (R::ZeroOffload, _) => one("optimizer = torchao.prototype.low_bit_optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, fused=True)"),
        (R::ZeroStage3, _) => {
            one("\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}")
        }
        (R::Fsdp, S::HfTrainer) => one("torchrun --nproc_per_node 4 train.py --fsdp \"full_shard auto_wrap\""),
        (R::Fsdp, _) => one("torch.distributed.fsdp.fully_shard(model)"),
        (R::LossAlone, _) => patched("loss-alone"),
        (R::ChunkedLoss, S::NanoGpt) => {
            vec![format!("fitgpt patch . --apply --only chunked-loss && {} --loss_chunk_rows=512", train())]
        }
        (R::ChunkedLoss, S::HfTrainer) => one("pip install liger-kernel && ... --use_liger_kernel True"),
        (R::ChunkedLoss, _) => one("cut_cross_entropy.linear_cross_entropy(hidden, lm_head.weight, labels, shift=1)"),
        (R::DropLogits, S::NanoGpt) => patched("drop-stale-logits"),
        (R::DropLogits, _) => one("loss = model(X, Y)[1]"),
        (R::FusedAttention, S::SdWebui) => one("set COMMANDLINE_ARGS=--opt-sdp-attention"),
        (R::FusedAttention, S::Diffusers) => one("pipe.enable_attention_slicing()"),
        (R::FusedAttention, S::ComfyUi) => one("python main.py --use-pytorch-cross-attention"),
        (R::FusedAttention, S::NanoGpt) => vec![format!("pip install --upgrade torch && {}", train())],
        (R::FusedAttention, _) => one("AutoModelForCausalLM.from_pretrained(name, attn_implementation=\"sdpa\")"),
        (R::EvalBatch, S::NanoGpt) => {
            vec![format!("fitgpt patch . --apply --only eval-batch-size && {} --eval_batch_size=4", train())]
        }
        (R::EvalBatch, S::HfTrainer) => vec![format!("--per_device_eval_batch_size {eval}")],
        (R::EvalBatch, _) => one("DataLoader(validation, batch_size=1)"),
        (R::EvalAccumulation, _) => vec![
            "--eval_accumulation_steps 1".to_owned(),
            "Trainer(..., preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1))".to_owned(),
        ],
        (R::NoGrad, _) => one("with torch.inference_mode():"),
        (R::LoadToCpu, _) => one("checkpoint = torch.load(path, map_location=\"cpu\")"),
        (R::FullStateOffload, _) => vec![
            "with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):".to_owned(),
            "    state = model.state_dict()".to_owned(),
        ],
        (R::ShardedStateDict, _) => one("accelerate launch --fsdp_state_dict_type SHARDED_STATE_DICT ..."),
        (R::QuantizeWeights, S::Vllm) => one("vllm serve MODEL-AWQ --quantization awq"),
        (R::QuantizeWeights, S::Ollama) => one("ollama run MODEL:7b-instruct-q4_K_M"),
        (R::QuantizeWeights, S::LlamaCpp) => one("llama-quantize MODEL-F16.gguf MODEL-Q4_K_M.gguf Q4_K_M"),
        (R::QuantizeWeights, _) => {
            one("AutoModelForCausalLM.from_pretrained(name, quantization_config=BitsAndBytesConfig(load_in_4bit=True))")
        }
        (R::DeviceMap, S::TextGenWebui) => one("python server.py --auto-devices --gpu-memory 5"),
        (R::DeviceMap, _) => one("AutoModelForCausalLM.from_pretrained(name, device_map=\"auto\", dtype=torch.bfloat16)"),
        (R::TensorParallel, S::Sglang) => one("python -m sglang.launch_server --model-path MODEL --tp 2"),
        (R::TensorParallel, S::Tgi) => one("text-generation-launcher --model-id MODEL --num-shard 2"),
        (R::TensorParallel, _) => one("vllm serve MODEL --tensor-parallel-size 2"),
        (R::GpuMemoryUtilization, S::Sglang) => one("python -m sglang.launch_server --model-path MODEL --mem-fraction-static 0.8"),
        (R::GpuMemoryUtilization, S::Tgi) => one("text-generation-launcher --model-id MODEL --cuda-memory-fraction 0.8"),
        (R::GpuMemoryUtilization, S::HfTrainer) if analysis.log.clues.has(Clue::Trl) => {
            vec![format!("gpu_memory_utilization={}  # of the rollout engine", share(analysis))]
        }
        (R::GpuMemoryUtilization, _) => vec![format!("vllm serve {} --gpu-memory-utilization {}", served(analysis), share(analysis))],
        (R::MaxModelLen, S::Sglang) => one("python -m sglang.launch_server --model-path MODEL --context-length 8192"),
        (R::MaxModelLen, S::Tgi) => one("text-generation-launcher --model-id MODEL --max-total-tokens 4096"),
        (R::MaxModelLen, _) => vec![format!("vllm serve {} --max-model-len 8192", served(analysis))],
        (R::EnforceEager, _) => vec![format!("vllm serve {} --enforce-eager", served(analysis))],
        (R::SmallerContext, S::Ollama) => one("OLLAMA_CONTEXT_LENGTH=4096 ollama serve"),
        (R::SmallerContext, S::Exllama) => one("ExLlamaV2Cache(model, max_seq_len=4096)"),
        (R::SmallerContext, _) => one("llama-server -m MODEL.gguf -c 4096"),
        (R::QuantizedKv, S::Vllm) => vec![format!("vllm serve {} --kv-cache-dtype fp8", served(analysis))],
        (R::QuantizedKv, S::Ollama) => one("OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve"),
        (R::QuantizedKv, S::LlamaCpp) => one("llama-server -m MODEL.gguf -fa on -ctk q8_0 -ctv q8_0"),
        (R::QuantizedKv, S::Exllama) => one("ExLlamaV2Cache_Q4(model)"),
        (R::QuantizedKv, _) => one("model.generate(..., cache_implementation=\"quantized\")"),
        (R::FewerGpuLayers, S::Ollama) => one("ollama run MODEL  # then: /set parameter num_gpu 20"),
        (R::FewerGpuLayers, S::TextGenWebui) => one("python server.py --model MODEL --pre_layer 20"),
        (R::FewerGpuLayers, _) => one("llama-server -m MODEL.gguf -ngl 20"),
        (R::LowVram, S::ComfyUi) => one("python main.py --lowvram"),
        (R::LowVram, S::Diffusers) => one("pipe.enable_sequential_cpu_offload()"),
        (R::LowVram, _) => one("set COMMANDLINE_ARGS=--medvram"),
        (R::TiledVae, S::Diffusers) => one("pipe.vae.enable_tiling()"),
        (R::CpuOffload, S::ComfyUi) => one("python main.py --novram"),
        (R::CpuOffload, S::SdWebui) => one("set COMMANDLINE_ARGS=--lowvram"),
        (R::CpuOffload, _) => one("pipe.enable_model_cpu_offload()"),
        (R::FreeTheCard, _) => free_the_card(analysis),
        (R::OneRankPerCard, _) => one("torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))"),
        (R::ExpandableSegments, S::NanoGpt) => {
            vec![format!("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {}", train())]
        }
        (R::FindTheShape | R::LaunchBlocking, S::NanoGpt) => {
            vec![format!("CUDA_LAUNCH_BLOCKING=1 {}", train())]
        }
        (R::ExpandableSegments, _) => one("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"),
        (R::XlaPreallocate, _) => one("XLA_PYTHON_CLIENT_PREALLOCATE=false python main.py"),
        (R::TfMemoryGrowth, _) => one("TF_FORCE_GPU_ALLOW_GROWTH=true python train.py"),
        (R::MpsWatermark, _) => one("PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 python main.py"),
        (R::MoreRam, _) if analysis.log.clues.has(Clue::Windows) => one("systeminfo | findstr Memory"),
        (R::MoreRam, _) => one("free -h; dmesg -T | grep -i 'killed process'"),
        (R::FewerWorkers, S::HfTrainer) => one("--dataloader_num_workers 0"),
        (R::FewerWorkers, S::Yolo) => one("python train.py --workers 0"),
        (R::FewerWorkers, _) => one("DataLoader(dataset, num_workers=0, pin_memory=False)"),
        (R::StreamData, S::NanoGpt) => one("fitgpt prepare input.txt --out data/mine"),
        (R::StreamData, _) => one("load_dataset(name, streaming=True)"),
        (R::ShmSize, _) => one("docker run --shm-size=8g ..."),
        (R::PagingFile, _) => one("SystemPropertiesPerformance.exe"),
        (R::FindTheShape | R::LaunchBlocking, _) => one("CUDA_LAUNCH_BLOCKING=1 python train.py"),
        (R::NcclDebug, _) => one("NCCL_DEBUG=INFO torchrun --nproc_per_node 2 train.py"),
        (R::LoadInMainProcess, _) => one("DataLoader(dataset, num_workers=0)"),
        (R::CheckIds, _) => one("assert 0 <= ids.min() and ids.max() < model.config.vocab_size"),
        (R::RecordSnapshot, _) => vec![
            "torch.cuda.memory._record_memory_history()  # first line of the script".to_owned(),
            "torch.cuda.memory._dump_snapshot(\"oom.pickle\")  # in `except torch.OutOfMemoryError`".to_owned(),
            match invocation.config() {
                Some(config) => format!("fitgpt doctor oom.pickle --config {config}"),
                None => "fitgpt doctor oom.pickle".to_owned(),
            },
        ],
        (R::OrtArena, _) => one(
            "InferenceSession(path, providers=[(\"CUDAExecutionProvider\", {\"arena_extend_strategy\": \"kSameAsRequested\", \"gpu_mem_limit\": 4 << 30})])",
        ),
        (R::TrtWorkspace, _) => one("trtexec --onnx=MODEL.onnx --fp16 --memPoolSize=workspace:1024"),
        (R::SmallerTiles, _) => one("pip install --upgrade torch triton"),
        (R::FixConfig, _) => vec![format!("fitgpt plan {}", invocation.target())],
        (R::LeaveMemoryForCompiler, S::NanoGpt) => vec![format!("{} --compile=False", train())],
        (
            R::SmallerInput
            | R::SmallerModel
            | R::SmallerImage
            | R::TiledVae
            | R::SysmemFallback
            | R::CloseApps
            | R::LeaveMemoryForCompiler
            | R::FixTheError,
            _,
        ) => Vec::new(),
    }
}

/// Lists the processes on the card and kills the largest other one.
fn free_the_card(analysis: &Analysis<'_>) -> Vec<String> {
    let clues = analysis.log.clues;
    let list = match () {
        () if clues.has(Clue::Rocm) => "rocm-smi --showpids",
        () if clues.has(Clue::Xpu) => "xpu-smi ps",
        () => "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv",
    };
    let mut lines = vec![list.to_owned()];
    let own = analysis.facts.process.map_or(0, |size| size.bytes);
    let named = analysis.log.message.iter().flat_map(|message| &message.processes);
    let other = named.filter(|(_, size)| size.bytes != own).max_by_key(|(_, size)| size.bytes);
    let listed = analysis.log.setup.smi_processes.iter().max_by_key(|process| process.bytes);
    let pid = other.map(|(pid, _)| *pid).or(listed.map(|process| process.pid));
    lines.extend(
        pid.filter(|_| analysis.facts.foreign.is_some_and(|size| size.bytes > 0))
            .map(|pid| format!("kill {pid}")),
    );
    lines
}

/// The served model, or a placeholder.
fn served(analysis: &Analysis<'_>) -> &'static str {
    analysis.log.setup.model().map_or("MODEL", |model| model.id)
}

/// A fraction of the card that fits the free memory.
fn share(analysis: &Analysis<'_>) -> String {
    let fits = match (analysis.facts.free, analysis.facts.total) {
        (Some(free), Some(total)) if total.bytes > 0 && free.bytes > total.bytes / 10 => {
            free.bytes.saturating_mul(20) / total.bytes // in steps of a twentieth, rounded down
        }
        _ => 16,
    };
    let wanted =
        analysis.log.setup.utilization_thousandths.map_or(16, |share| share / 50).saturating_sub(2);
    let twentieths = fits.min(wanted.max(2)).clamp(2, 18);
    format!("{:.2}", twentieths as f64 / 20.0)
}
