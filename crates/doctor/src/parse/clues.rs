//! Clues: words that tell whose log this is and what the program was doing.
//!
//! One pass finds all of them, however many there are. A clue is never a diagnosis: rules and
//! the domain gate weigh several.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::squeezed::Passage;

macro_rules! clues {
    ($($(#[$doc:meta])* $clue:ident: [$($word:literal),* $(,)?],)*) => {
        /// One thing that a log's words say.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Clue {
            $($(#[$doc])* $clue,)*
        }

        /// The words of each, squeezed and in lower case.
        const WORDS: &[(&str, Clue)] = &[$($(($word, Clue::$clue)),*),*];
    };
}

clues! {
    // Who trains.
    /// nanoGPT or a script written after it.
    NanoGpt: ["nanogpt", "causalselfattention", "logits,loss=model(", "estimate_loss", "llama2.c/train.py"],
    /// GPT-2, by whomever it is run.
    Gpt2: ["gpt2", "gpt-2", "gpt_2", "mingpt", "transformer.wte"],
    /// Hugging Face's trainer.
    HfTrainer: [
        "transformers/trainer.py", "transformers\\trainer.py", "trainer.train(", "trainingarguments", "per_device_train_batch_size",
        "per_gpu_train_batch_size", "run_clm.py", "run_mlm.py", "run_language_modeling.py", "run_glue.py", "run_qa.py",
        "run_summarization.py", "run_clm_no_trainer", "instantaneousbatchsizeperdevice", "seq2seqtrainer", "--model_name_or_path",
        "run_translation.py", "run_squad.py", "trainer.evaluate(", "trainer.predict(",
    ],
    /// Reinforcement learning and preference tuning.
    Trl: ["trl/trainer", "dpotrainer", "ppotrainer", "grpotrainer", "sfttrainer", "dpo_trainer", "grpo_trainer", "ppo_trainer", "sft_trainer", "openrlhf", "rlhf", "verl/", "actor_rollout_ref", "orpo", "kto_trainer"],
    /// Programs that fine-tune decoders.
    TuningKit: ["llamafactory", "llama-factory", "axolotl", "unsloth", "torchtune", "lit-gpt", "litgpt", "lit_gpt", "xtuner", "ms-swift", "swift/llm", "fastchat", "alpaca", "llama-recipes", "llama_recipes", "mistral-finetune", "gpt-neox", "pretrain_gpt", "lmflow", "nanotron", "happytransformer", "happy-transformer", "finetune.py", "qlora.py"],
    /// PEFT and adapters.
    Lora: ["lora", "peft"],
    /// Weights of 8 or 4 bits.
    Quantized: ["load_in_4bit", "load_in_8bit", "quantization_bit", "gptq", "awq", "bnb_4bit", "bnb-4bit", "bitsandbytes", "qlora", "gguf", "exl2", "int4", "fp8", "nf4", "q4_k", "q8_0"],
    /// DeepSpeed.
    DeepSpeed: ["deepspeed", "sigkill_handler", "zerooptim", "zero_stage", "zerostage", "zero_optim"],
    /// ZeRO's third stage.
    ZeroThree: ["zerostage3", "zero3", "stage3.py", "zero-3", "zero_stage3", "stage\":3", "zero_3"],
    /// Fully sharded data parallel.
    Fsdp: ["fsdp", "fully_shard", "fullyshardeddataparallel"],
    /// Megatron.
    Megatron: ["megatron", "tensor_model_parallel", "nemo_"],
    /// Plain data parallelism.
    Ddp: ["distributeddataparallel", "torch/nn/parallel/distributed.py", "dataparallel", "ddp("],
    /// Lightning.
    Lightning: ["pytorch_lightning", "lightning/pytorch", "lightning_fabric", "lightningmodule", "l.trainer(", "pl.trainer("],
    /// Recomputation is on.
    Recomputes: ["gradient_checkpointingtrue", "gradient_checkpointing=true", "gradient_checkpointing:true", "gradient_checkpointing','true", "checkpoint_activations", "torch/utils/checkpoint.py", "use_gradient_checkpointing=true"],
    /// State is kept on the host.
    Offloads: ["offload_optimizer", "cpu_offload", "offload_param", "deepspeedcpuadam", "optimizer_offload=true", "param_offload=true"],
    // Which models.
    /// A decoder of some family.
    Decoder: ["llama", "qwen", "mistral", "mixtral", "gemma", "deepseek", "falcon", "starcoder", "baichuan", "chatglm", "internlm", "gpt-j", "gptj", "gpt-neo", "gpt_neo", "gptneo", "gpt-oss", "gpt_oss", "vicuna", "bloomz", "bloom-", "pythia", "opt-125m", "opt-1.3b", "opt-6.7b", "phi-2", "phi-3", "phi3", "smollm", "causallm", "modeling_gpt", "dolly", "codegen", "mpt-7b", "yi-34b", "glm-4", "llm"],
    /// An encoder or encoder-decoder of text.
    TextEncoder: ["bert", "t5-", "modeling_t5", "bart", "pegasus", "electra", "longformer", "sentence-transformers", "sentence_transformers"],
    /// Speech and sound.
    Audio: ["whisper", "wav2vec", "hubert", "torchaudio", "tts", "bark", "musicgen", "rvc", "so-vits"],
    /// Pictures: detection, segmentation, classification.
    Vision: ["yolo", "resnet", "torchvision", "detectron", "mmdet", "mmseg", "mmcv", "mmengine", "segmentation", "detr", "vit_", "efficientnet", "vgg", "mask_rcnn", "maskrcnn", "rcnn", "conv2d", "conv3d", "_conv_forward", "imagenet", "coco.data", "unet", "stylegan", "pix2pix", "cyclegan", "esrgan", "nerf", "gaussian-splatting", "gaussian_splatting", "gaussian_model", "pointnet", "nnunet", "medical", "darknet", "imgsz", "img_size"],
    /// Ultralytics' programs.
    Yolo: ["yolo", "ultralytics"],
    /// Graphs, proteins and other science.
    Science: ["torch_geometric", "torch_scatter", "dgl", "alphafold", "openfold", "colabfold", "graphcast", "esmfold", "schnet", "mace_"],
    /// Image generation.
    Diffusion: ["txt2img", "img2img", "stablediffusion", "stable-diffusion", "stable_diffusion", "latentdiffusion", "ldm/", "ldm\\", "diffusers", "controlnet", "sdxl", "sd3.5", "inpaint", "hunyuan", "animatediff", "wan2", "flux.1", "flux1", "cogvideo", "vaedecode", "ksampler", "cogview"],
    /// DreamBooth, kohya and other training of image models.
    DiffusionTraining: ["dreambooth", "kohya", "train_network.py", "sdxl_train", "train_text_to_image", "sd-scripts", "textual_inversion"],
    // Who serves.
    /// vLLM.
    Vllm: ["vllm"],
    /// SGLang.
    Sglang: ["sglang", "mem_fraction_static", "mem-fraction-static"],
    /// Hugging Face's server.
    Tgi: ["text-generation-inference", "text_generation_server", "text-generation-launcher", "text_generation_launcher"],
    /// llama.cpp and what is built on it.
    LlamaCpp: ["llama.cpp", "ggml_", "ggml-", "llama_model_load", "llm_load_", "llamafile", "llama_cpp", "llama-cpp", "llama-server", "koboldcpp"],
    /// Ollama.
    Ollama: ["ollama"],
    /// oobabooga's web interface.
    TextGenWebui: ["oobabooga", "text-generation-webui"],
    /// ExLlama.
    Exllama: ["exllama", "tabbyapi"],
    /// TensorRT-LLM and Triton's server.
    TensorRt: ["tensorrt", "trtllm", "tritonserver"],
    /// ComfyUI.
    ComfyUi: ["comfyui", "comfy\\", "comfy/"],
    /// The web interfaces of Stable Diffusion.
    SdWebui: ["webui", "automatic1111", "sd.webui", "fooocus", "invokeai", "forge"],
    // Which framework.
    /// JAX.
    Jax: ["jaxlib", "jax/_src", "xlaruntimeerror", "xla_extension", "xla_python_client", "importjax"],
    /// TensorFlow or Keras.
    TensorFlow: ["tensorflow", "keras", "bfc_allocator", "gpu_0_bfc", "resourceexhaustederror"],
    /// Windows.
    Windows: ["c:\\", "d:\\", "e:\\", "f:\\", "windows", "wsl", "winerror", ".bat", ".dll"],
    // What it was doing.
    /// A training.
    Trains: ["training", "finetun", "fine-tun", "fine_tun", "微调", "训练", "train.py", "epoch", ".backward(", "optimizer.step(", "train_batch_size", "num_train_epochs", "trainer.fit(", "model.fit(", "pretrain_", "_train"],
    /// Text or images are generated.
    Generates: [".generate(", "inference", "generate_text", "推理", "pipeline(", "chatbot", "num_beams", "max_new_tokens", "textgeneration"],
    /// Weights are being loaded, in somebody's words.
    Loading: ["failedtoload", "loadingcheckpointshards", "errorloadingmodel", "tryingtoload", "whenloadingthemodel", "loadthemodel", "loadingthemodel"],
    /// A checkpoint is being written, in somebody's words.
    Saving: ["savingthecheckpoint", "savingthefinalcheckpoint", "savingacheckpoint", "whensaving", "savingthemodel", "checkpointsaving", "保存"],
    /// An evaluation, in somebody's words.
    Validating: ["duringvalidation", "duringevaluation", "inevaluation", "evaluationloop", "whileevaluating", "validationstep"],
    // What else failed.
    /// A kernel's own check failed.
    DeviceAssert: ["device-sideassert", "srcindex<srcselectdimsize", "indexselectlargeindex", "indexselectsmallindex", "vectorized_gather_kernel", "t>=0&&t<n_classes", "indexoutofrangeinself", "indexoutofbounds"],
    /// Illegal access: not a matter of sizes.
    IllegalAccess: ["illegalmemoryaccess", "misalignedaddress"],
    /// A context is being made.
    MakesContext: ["cuctxcreate", "_cuda_init(", "cudeviceprimaryctxretain", "cudagetdevicecount"],
    /// NCCL spoke.
    Nccl: ["ncclunhandledcudaerror", "ncclsystemerror", "ncclinternalerror", "failedtocudacalloc", "cudacallocasync", "ncclcommsplit", "ncclcomminit"],
    /// CUDA graphs were being captured.
    CapturesGraphs: ["capturingcudagraph", "cudagraphcapture", "capture_model", "cuda_graph_runner"],
}

/// The clues of a log, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clues(u128);

impl Clues {
    /// Whether the log holds one.
    pub const fn has(self, clue: Clue) -> bool {
        self.0 & (1 << clue as u32) != 0
    }

    /// Whether it holds one of several.
    pub fn any(self, clues: &[Clue]) -> bool {
        clues.iter().any(|clue| self.has(*clue))
    }

    fn add(&mut self, clue: Clue) {
        self.0 |= 1 << clue as u32;
    }

    /// The clues of a text that is squeezed already.
    pub(crate) fn of_squeezed(text: &str) -> Self {
        let mut clues = Self::default();
        clues.search(text);
        clues
    }

    pub(super) fn look(&mut self, passage: Passage<'_>) {
        self.search(passage.text());
    }

    fn search(&mut self, text: &str) {
        for found in AUTOMATON.find_overlapping_iter(text) {
            self.add(WORDS[found.pattern().as_usize()].1);
        }
    }
}

static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let words = WORDS.iter().map(|(word, _)| word);
    let builder = AhoCorasick::builder().match_kind(MatchKind::Standard).build(words);
    builder.expect("the words are few and short")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clue_is_found_wherever_it_stands() {
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
