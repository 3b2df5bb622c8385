//! Whose failure it is: a GPT-2's, or that of a model of which nothing is known here.

use super::squeezed::Passage;

/// What the log's own words say of its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// GPT-2 or a script that trains one is named.
    pub is_gpt2: bool,
    /// A model of another kind is named.
    pub is_other: bool,
}

/// Squeezed and in lower case, as all of them.
const GPT2: [&str; 9] = [
    "gpt2",
    "gpt-2",
    "gpt_2",
    "nanogpt",
    "mingpt",
    "causalselfattention",
    "transformer.wte",
    "logits,loss=model(",
    "estimate_loss",
];

/// Other models, their layers and the programs that people run them in.
const OTHER: [&str; 48] = [
    "txt2img",
    "img2img",
    "stable-dif",
    "diffusion",
    "diffusers",
    "unet",
    "vae",
    "comfyui",
    "ksampler",
    "controlnet",
    "sdxl",
    "sd3.5",
    "inpaint",
    "hunyuan",
    "dreambooth",
    "kohya",
    "webui",
    "llama",
    "qwen",
    "mistral",
    "mixtral",
    "gemma",
    "deepseek",
    "falcon",
    "starcoder",
    "baichuan",
    "chatglm",
    "internlm",
    "gpt-j",
    "gptj",
    "gpt-neo",
    "gpt_neo",
    "gptneo",
    "gpt-oss",
    "gpt_oss",
    "bert",
    "whisper",
    "wav2vec",
    "resnet",
    "yolo",
    "detr",
    "vit_",
    "torchvision",
    "conv2d",
    "conv3d",
    "_conv_forward",
    "alphafold",
    "gaussian",
];

impl Subject {
    pub(super) fn look(&mut self, passage: Passage<'_>) {
        self.is_gpt2 = self.is_gpt2 || GPT2.iter().any(|name| passage.holds(name));
        self.is_other = self.is_other || OTHER.iter().any(|name| passage.holds(name));
    }
}
