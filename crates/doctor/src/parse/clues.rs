//! Clues: keywords that show which program wrote the log and what it was doing.
//!
//! One pass finds all of them. A clue alone is never a diagnosis: the rules and the domain
//! combine several.

use std::sync::LazyLock;

use super::{phrases::Phrases, squeezed::Passage};

macro_rules! clues {
    ($($(#[$doc:meta])* $clue:ident: [$($word:literal),* $(,)?],)*) => {
        /// One fact that keywords in the log indicate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Clue {
            $($(#[$doc])* $clue,)*
        }

        /// The keywords, without white space and in lower case.
        const WORDS: &[(&str, Clue)] = &[$($(($word, Clue::$clue)),*),*];
    };
}

clues! {
    // Training stacks.
    /// nanoGPT or a script derived from it.
    NanoGpt: ["nanogpt", "causalselfattention", "logits,loss=model(", "estimate_loss", "llama2.c/train.py"],
    /// nanochat.
    NanoChat: ["nanochat", "scripts.base_train", "scripts/base_train"],
    /// GPT-2 in any stack.
    Gpt2: ["gpt2", "gpt-2", "gpt_2", "mingpt", "transformer.wte"],
    /// Hugging Face's `Trainer`.
    HfTrainer: [
        "transformers/trainer.py", "transformers\\trainer.py", "trainer.train(", "trainingarguments", "per_device_train_batch_size",
        "per_gpu_train_batch_size", "run_clm.py", "run_mlm.py", "run_language_modeling.py", "run_glue.py", "run_qa.py",
        "run_summarization.py", "run_clm_no_trainer", "instantaneousbatchsizeperdevice", "seq2seqtrainer", "--model_name_or_path",
        "run_translation.py", "run_squad.py", "trainer.evaluate(", "trainer.predict(",
    ],
    /// Reinforcement learning and preference tuning.
    Trl: ["trl/trainer", "dpotrainer", "ppotrainer", "grpotrainer", "sfttrainer", "dpo_trainer", "grpo_trainer", "ppo_trainer", "sft_trainer", "openrlhf", "rlhf", "verl/", "actor_rollout_ref", "orpo", "kto_trainer", "grpo", "train_ppo"],
    /// Fine-tuning programs for decoders.
    TuningKit: ["llamafactory", "llama-factory", "axolotl", "unsloth", "torchtune", "lit-gpt", "litgpt", "lit_gpt", "xtuner", "ms-swift", "swift/llm", "fastchat", "alpaca", "llama-recipes", "llama_recipes", "mistral-finetune", "gpt-neox", "pretrain_gpt", "lmflow", "nanotron", "happytransformer", "happy-transformer", "finetune.py", "qlora.py"],
    /// PEFT and adapters.
    Lora: ["lora", "peft"],
    /// 8-bit or 4-bit weights.
    Quantized: ["load_in_4bit", "load_in_8bit", "quantization_bit", "gptq", "awq", "bnb_4bit", "bnb-4bit", "bitsandbytes", "qlora", "gguf", "exl2", "int4", "fp8", "nf4", "q4_k", "q8_0", "q4f16", "q4_0"],
    /// DeepSpeed.
    DeepSpeed: ["deepspeed", "sigkill_handler", "zerooptim", "zero_stage", "zerostage", "zero_optim"],
    /// 4-bit weights.
    FourBit: ["load_in_4bit", "bnb_4bit", "bnb-4bit", "qlora", "nf4", "gptq", "quantization_bit4", "quantization_bit:4"],
    /// 8-bit weights.
    EightBit: ["load_in_8bit", "quantization_bit8", "quantization_bit:8"],
    /// The weights themselves are in half precision.
    HalfWeights: ["torch_dtype=torch.bfloat16", "torch_dtype=torch.float16", "dtype=torch.bfloat16", "torch_dtype=bfloat16", "torch_dtypebfloat16", "pure_bf16", "model.half()", "model.bfloat16()"],
    /// ZeRO stage 2.
    ZeroTwo: ["zerostage2", "zero2", "zero-2", "zero_stage2", "stage\":2", "zero_2", "zero_stage:2"],
    /// ZeRO stage 3.
    ZeroThree: ["zerostage3", "zero3", "stage3.py", "zero-3", "zero_stage3", "stage\":3", "zero_3"],
    /// Fully sharded data parallel.
    Fsdp: ["fsdp", "fully_shard", "fullyshardeddataparallel"],
    /// Megatron.
    Megatron: ["megatron", "tensor_model_parallel", "nemo_"],
    /// Plain data parallelism.
    Ddp: ["distributeddataparallel", "torch/nn/parallel/distributed.py", "dataparallel", "ddp("],
    /// Lightning.
    Lightning: ["pytorch_lightning", "pytorch-lightning", "pytorchlightning", "local_rank:0-cuda_visible_devices", "lightning/pytorch", "lightning_fabric", "lightningmodule", "l.trainer(", "pl.trainer("],
    /// Gradient checkpointing is on.
    Recomputes: ["gradient_checkpointingtrue", "gradient_checkpointing=true", "gradient_checkpointing:true", "gradient_checkpointing','true", "checkpoint_activations", "torch/utils/checkpoint.py", "use_gradient_checkpointing=true"],
    /// Parameters or optimizer state are offloaded to the host.
    Offloads: ["offload_optimizer", "cpu_offload", "offload_param", "deepspeedcpuadam", "optimizer_offload=true", "param_offload=true"],
    // Models.
    /// A decoder of any family.
    Decoder: ["llama", "qwen", "mistral", "mixtral", "gemma", "deepseek", "falcon", "starcoder", "baichuan", "chatglm", "internlm", "gpt-j", "gptj", "gpt-neo", "gpt_neo", "gptneo", "gpt-oss", "gpt_oss", "vicuna", "bloomz", "bloom-", "pythia", "opt-125m", "opt-1.3b", "opt-6.7b", "phi-2", "phi-3", "phi3", "smollm", "nanochat", "maxtext", "mlx_lm", "mlx-lm", "causallm", "modeling_gpt", "dolly", "codegen", "mpt-7b", "yi-34b", "glm-4", "llm", "b-instruct", "b-chat"],
    /// A text encoder or encoder-decoder.
    TextEncoder: ["bert", "t5-", "modeling_t5", "bart", "pegasus", "electra", "longformer", "sentence-transformers", "sentence_transformers"],
    /// Speech and audio.
    Audio: ["whisper", "wav2vec", "hubert", "torchaudio", "tts", "bark", "musicgen", "rvc", "so-vits"],
    /// Computer vision: detection, segmentation, classification.
    Vision: ["yolo", "resnet", "torchvision", "detectron", "mmdet", "mmseg", "mmcv", "mmengine", "segmentation", "detr", "vit_", "efficientnet", "vgg", "mask_rcnn", "maskrcnn", "rcnn", "conv2d", "conv3d", "_conv_forward", "batchnorm", "batch_norm", "maxpool", "imagenet", "coco.data", "unet", "stylegan", "pix2pix", "cyclegan", "esrgan", "nerf", "gaussian-splatting", "gaussian_splatting", "gaussian_model", "pointnet", "nnunet", "medical", "darknet", "imgsz", "img_size"],
    /// YOLO.
    Yolo: ["yolo", "ultralytics"],
    /// Graph networks, proteins and other scientific models.
    Science: ["torch_geometric", "torch_scatter", "dgl", "alphafold", "openfold", "colabfold", "graphcast", "esmfold", "schnet", "mace_"],
    /// Image generation.
    Diffusion: ["txt2img", "img2img", "stablediffusion", "stable-diffusion", "stable_diffusion", "latentdiffusion", "ldm/", "ldm\\", "diffusers", "controlnet", "sdxl", "sd3.5", "inpaint", "hunyuan", "animatediff", "wan2", "flux.1", "flux1", "cogvideo", "vaedecode", "ksampler", "cogview", "diffusionpipeline", "flux2", "qwen-image", "qwenimage"],
    /// Training of image models: DreamBooth, kohya and others.
    DiffusionTraining: ["dreambooth", "kohya", "train_network.py", "sdxl_train", "train_text_to_image", "sd-scripts", "textual_inversion", "ai-toolkit", "musubi", "diffusion-pipe", "onetrainer"],
    // Servers and user interfaces.
    /// vLLM.
    Vllm: ["gpu_memory_utilization", "vllm", "ray_distributed_executor", "worker_base.py"],
    /// SGLang.
    Sglang: ["sglang", "mem_fraction_static", "mem-fraction-static"],
    /// Hugging Face's text-generation-inference.
    Tgi: ["text_generation_router", "max_batch_prefill_tokens", "max-batch-prefill-tokens", "text-generation-inference", "text_generation_server", "text-generation-launcher", "text_generation_launcher"],
    /// llama.cpp and programs built on it.
    LlamaCpp: ["llama.cpp", "ggml_", "ggml-", "llama_model_load", "llm_load_", "llamafile", "llama_cpp", "llama-cpp", "llama-server", "koboldcpp"],
    /// Ollama.
    Ollama: ["ollama"],
    /// oobabooga's text-generation-webui.
    TextGenWebui: ["--wbits", "server.py--auto-devices", "oobabooga", "text-generation-webui"],
    /// ExLlama.
    Exllama: ["exllama", "tabbyapi"],
    /// TensorRT-LLM and Triton Inference Server.
    TensorRt: ["tensorrt", "trtllm", "tritonserver", "trtexec", "[trt]", "nvinfer1"],
    /// Programs that run models on a PC, other than those above.
    OtherServer: ["mlc-llm", "mlc_llm", "mlc-chat", "lmdeploy", "turbomind", "ctranslate2", "gpt4all", "lmstudio"],
    /// ComfyUI.
    ComfyUi: ["comfyui", "comfy\\", "comfy/"],
    /// Web interfaces of Stable Diffusion.
    SdWebui: ["stable-diffusion-webui", "sd-webui", "sd.webui", "webui-user", "webui-forge", "automatic1111", "fooocus", "invokeai", "modules/sd_", "modules\\sd_", "modules/processing.py", "modules\\processing.py"],
    // Frameworks.
    /// JAX.
    Jax: ["jaxlib", "jax/_src", "xlaruntimeerror", "xla_extension", "xla_python_client", "importjax"],
    /// A TPU.
    Tpu: ["memoryspacehbm", "_hbm0", "hbmcapacity", "hbmrequirement", "xla:tpu", "colab_tpu", "setup_tpu", "tpuvm"],
    /// Apple's MLX.
    Mlx: ["mlx_lm", "mlx-lm", "mlx.core", "mlx-examples", "mlx-community", "/mlx/", "libmlx", "mlx_vlm", "mlx-omni"],
    /// TensorFlow or Keras.
    TensorFlow: ["tensorflow", "keras", "bfc_allocator", "gpu_0_bfc", "resourceexhaustederror"],
    /// Windows.
    Windows: ["c:\\", "d:\\", "e:\\", "f:\\", "windows", "wsl", "winerror", ".bat", ".dll"],
    /// An AMD card.
    Rocm: ["hipoutofmemory", "hiperror", "rocm", "radeon", "amdgpu"],
    /// An Intel card.
    Xpu: ["xpuoutofmemory", "level_zero", "torch.xpu", "intelarc", "intel(r)arc"],
    /// A GPU is mentioned.
    Card: ["gpu", "cuda", "vram", "显存", "h100", "a100", "v100", "rtx", "3090", "4090", "gtx", "geforce", "radeon", "显卡", "thecard", "グラボ", "grafikkarte"],
    // Activities.
    /// Training.
    Trains: ["ファインチューニング", "training", "finetun", "fine-tun", "fine_tun", "微调", "训练", "train.py", "epoch", ".backward(", "optimizer.step(", "train_batch_size", "num_train_epochs", "trainer.fit(", "model.fit(", "pretrain_", "_train", "train.lua", "trainloss", "mlx_lmlora", "mlx_lm.lora", "学習", "trainier", "trainiere", "feinabstimm"],
    /// Generating text or images.
    Generates: [".generate(", "inference", "generate_text", "推理", "pipeline(", "chatbot", "num_beams", "max_new_tokens", "textgeneration"],
    /// Loading weights, as described by a user.
    Loading: ["failedtoload", "loadingcheckpointshards", "errorloadingmodel", "tryingtoload", "whenloadingthemodel", "loadthemodel", "loadingthemodel", "failtoload", "failstoload", "notabletoload", "from_preset(", "whenloadingmodel", "whileloadingmodel", "加载模型时", "模型加载时", "modelllädt", "ladendesmodells", "モデルの読み込み", "モデルをロード"],
    /// A server handles requests.
    Serves: ["prefilloutofmemory.try", "decodeoutofmemory.try", "forward_decode_batch", "forward_prefill_batch", "running-req:"],
    /// Writing a checkpoint, as described by a user.
    Saving: ["failedtoclone()tensor", "savingthecheckpoint", "savingthemodelcheckpoint", "savingthefinalcheckpoint", "savingacheckpoint", "summoningcheckpoint"],
    /// Evaluating, as described by a user.
    Validating: ["duringvalidation", "duringevaluation", "inevaluation", "evaluationloop", "whileevaluating", "validationstep", "validating:", "iterationsofvalidation", "thetestphase", "测试阶段", "验证阶段", "验证时", "evaluierung", "評価時", "検証時"],
    /// The run failed after a while, as described by a user.
    FailsLate: [
        "aftersomeepoch", "afterafewepoch", "afterseveralepoch", "aftersomeiteration", "afterafewiteration", "afterseveraliteration",
        "aftersomesteps", "afterafewsteps", "afterseveralsteps", "afterfewbatches", "afterafewbatches", "aftersometime", "afterawhile",
        "afterafewhours", "afterseveralhours", "几个epoch后", "一段时间后", "几个小时", "nacheinigenschritten", "nacheinigenepochen", "数エポック後",
    ],
    // Other failures.
    /// An assertion in a kernel failed.
    DeviceAssert: ["]assertion`", "device-sideassert", "index>=-sizes[i]", "srcindex<srcselectdimsize", "indexselectlargeindex", "indexselectsmallindex", "vectorized_gather_kernel", "t>=0&&t<n_classes", "indexoutofrangeinself", "indexoutofbounds"],
    /// An illegal memory access.
    IllegalAccess: ["illegalmemoryaccess", "misalignedaddress", "cuda_error_illegal_address"],
    /// A library was called with shapes or values that do not fit.
    InvalidValue: ["cublas_status_invalid_value", "cublas_status_execution_failed", "cublas_status_internal_error", "mat1andmat2shapescannot"],
    /// Creating the state of a sharded optimizer.
    InitializesOptimizer: ["optimizerstateinitialization", "initializingoptimizerstate", "initializetheoptimizerstate", "initialize_optimizer_states"],
    /// Creating a CUDA context.
    MakesContext: ["cuctxcreate", "_cuda_init(", "cudeviceprimaryctxretain", "cudagetdevicecount"],
    /// An NCCL error.
    Nccl: ["ncclerror:", "ncclwarncudafailure", "ncclerrorin:", "ncclerror1:", "ncclcudaoutofmemory", "nccloutofmemory", "ncclunhandledcudaerror", "ncclsystemerror", "ncclinternalerror", "failedtocudacalloc", "cudacallocasync", "ncclcommsplit", "ncclcomminit"],
    /// A collective operation that timed out.
    NcclTimeout: ["nccltimeout", "watchdogcaughtcollective", "collectiveoperationtimeout", "ncclcommunicatorwasaborted"],
    /// NCCL reports an error of CUDA that is not about memory.
    NcclOther: ["cudafailure'initializationerror'", "cudafailure'invalidargument'", "cudafailure'invalidusage'", "cudafailure1'invalidargument'", "cudafailure'systemnotyetinitialized'", "cudafailure'unspecifiedlaunchfailure'", "cudafailure'peeraccessisnotsupported"],
    /// Capturing CUDA graphs.
    CapturesGraphs: ["capturingcudagraph", "cudagraphcapture", "capture_model", "cuda_graph_runner", "capture_end("],
    /// An inference engine inside a training run takes its memory back.
    WakesUp: ["wake_up(", "vllmwake_up", "vllmwakeup", "cumem_allocator", "resume_memory_occupation"],
    /// `TensorRT` builds an engine.
    BuildsEngine: ["trtexec", "buildserializednetwork", "build_cuda_engine", "buildengine", "enginecouldnotbecreated", "trtllm-build"],
    /// A compiler error wraps another error.
    CompilerError: ["backendcompilerfailed", "inductorerror:", "_dynamo.exc."],
    /// A data loader worker is named.
    LoaderWorker: ["dataloaderworker(pid"],
    /// A data loader worker crashed.
    WorkerCrashed: ["killedbysignal:segmentationfault", "killedbysignal:aborted", "killedbysignal:illegalinstruction"],
    /// The watchdog of a display stopped the GPU.
    Watchdog: ["kiogpucommandbuffercallbackerrorimpactinginteractivity", "kiogpucommandbuffercallbackerrortimeout", "thelaunchtimedoutandwasterminated"],
}

/// A set of clues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clues(u128);

impl Clues {
    /// Whether the set contains a clue.
    pub const fn has(self, clue: Clue) -> bool {
        self.0 & (1 << clue as u32) != 0
    }

    /// Whether the set contains one of several clues.
    pub fn any(self, clues: &[Clue]) -> bool {
        clues.iter().any(|clue| self.has(*clue))
    }

    fn add(&mut self, clue: Clue) {
        self.0 |= 1 << clue as u32;
    }

    /// The clues in a text without white space.
    pub(crate) fn of_squeezed(text: &str) -> Self {
        let mut clues = Self::default();
        PHRASES.values(text).for_each(|clue| clues.add(*clue));
        clues
    }

    pub(super) fn look(&mut self, passage: Passage<'_>) {
        PHRASES.find(passage).for_each(|(_, clue, _)| self.add(*clue));
    }
}

static PHRASES: LazyLock<Phrases<Clue>> = LazyLock::new(|| Phrases::new(WORDS.iter().copied()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clue_is_found_anywhere_in_a_text() {
        let clues = Clues::of_squeezed("file\"/x/transformers/trainer.py\",line3,intrain");
        assert!(clues.has(Clue::HfTrainer));
        assert!(!clues.any(&[Clue::Vllm, Clue::Diffusion]));
    }

    #[test]
    fn words_are_squeezed_and_every_clue_has_its_bit() {
        for (word, clue) in WORDS {
            assert!(word.chars().all(|c| !c.is_whitespace() && !c.is_ascii_uppercase()), "{word}");
            assert!((*clue as u32) < 128);
        }
    }
}
