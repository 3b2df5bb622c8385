//! The stack whose commands and code the playbook prints.

use crate::{
    facts::Domain,
    parse::{Clue, Wording},
    reason::Analysis,
};

/// A training or serving stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    NanoGpt,
    HfTrainer,
    Lightning,
    DeepSpeed,
    Yolo,
    Keras,
    Jax,
    Paddle,
    OnnxRuntime,
    TensorRt,
    Vllm,
    Sglang,
    Tgi,
    LlamaCpp,
    Ollama,
    TextGenWebui,
    Exllama,
    /// A program that runs models on a PC, without commands here.
    OtherServer,
    /// Apple's MLX.
    Mlx,
    ComfyUi,
    SdWebui,
    Diffusers,
    /// PyTorch without a known framework.
    Plain,
}

impl Stack {
    pub(super) fn of(analysis: &Analysis<'_>) -> Self {
        let clues = analysis.log.clues;
        let wording = analysis.log.message.as_ref().map(|message| message.wording);
        match wording {
            Some(Wording::Jax) if clues.has(Clue::TensorFlow) && !clues.has(Clue::Jax) => {
                return Self::Keras;
            }
            Some(Wording::Jax) => return Self::Jax,
            Some(Wording::TensorFlow) => return Self::Keras,
            Some(Wording::Paddle) => return Self::Paddle,
            Some(Wording::OnnxRuntime) => return Self::OnnxRuntime,
            Some(Wording::Server) if !clues.has(Clue::Sglang) => return Self::Vllm,
            _ if clues.has(Clue::BuildsEngine) => return Self::TensorRt,
            Some(Wording::Ggml) if !clues.has(Clue::Ollama) => return Self::LlamaCpp,
            Some(Wording::Metal) if clues.has(Clue::Mlx) => return Self::Mlx,
            _ => {}
        }
        let servers = [
            (Clue::Vllm, Self::Vllm),
            (Clue::Sglang, Self::Sglang),
            (Clue::Tgi, Self::Tgi),
            (Clue::Ollama, Self::Ollama),
            (Clue::TextGenWebui, Self::TextGenWebui),
            (Clue::Exllama, Self::Exllama),
            (Clue::LlamaCpp, Self::LlamaCpp),
            (Clue::ComfyUi, Self::ComfyUi),
            (Clue::SdWebui, Self::SdWebui),
            (Clue::OtherServer, Self::OtherServer),
            (Clue::Diffusion, Self::Diffusers),
        ];
        let trainers = [
            (Clue::HfTrainer, Self::HfTrainer),
            (Clue::Trl, Self::HfTrainer),
            (Clue::TuningKit, Self::HfTrainer),
            (Clue::Lightning, Self::Lightning),
            (Clue::DeepSpeed, Self::DeepSpeed),
            (Clue::Yolo, Self::Yolo),
            (Clue::DiffusionTraining, Self::Diffusers),
            (Clue::Jax, Self::Jax),
            (Clue::TensorFlow, Self::Keras),
        ];
        let first =
            |list: &[(Clue, Self)]| list.iter().find(|(clue, _)| clues.has(*clue)).map(|(_, s)| *s);
        let found = match analysis.domain {
            Domain::NanoGpt => Some(Self::NanoGpt),
            Domain::Serving | Domain::Inference => {
                first(&servers).or_else(|| first(&trainers[7..]))
            }
            Domain::DecoderTraining | Domain::OtherTraining => first(&trainers),
            Domain::None | Domain::Unknown => first(&trainers).or_else(|| first(&servers)),
        };
        found.unwrap_or(Self::Plain)
    }
}
