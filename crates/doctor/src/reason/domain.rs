//! What kind of program wrote the log. This is decided before anything is assumed about tensors.

use crate::{
    facts::Domain,
    parse::{Clue, Clues, Frame, Log, Wording},
};

/// Model servers and user interfaces.
const SERVERS: [Clue; 11] = [
    Clue::Vllm,
    Clue::Sglang,
    Clue::Tgi,
    Clue::LlamaCpp,
    Clue::Ollama,
    Clue::TextGenWebui,
    Clue::Exllama,
    Clue::TensorRt,
    Clue::ComfyUi,
    Clue::SdWebui,
    Clue::OtherServer,
];

/// Training frameworks.
const TRAINERS: [Clue; 8] = [
    Clue::HfTrainer,
    Clue::Trl,
    Clue::TuningKit,
    Clue::DeepSpeed,
    Clue::Fsdp,
    Clue::Megatron,
    Clue::Lightning,
    Clue::Ddp,
];

/// The clues in the traceback alone.
pub(crate) fn of_frames(log: &Log) -> Clues {
    let text = |frame: &Frame| {
        let file: String = frame.file.chars().filter(|c| !c.is_whitespace()).collect();
        (file + " " + &frame.squeezed()).to_ascii_lowercase()
    };
    Clues::of_squeezed(&log.frames.iter().map(text).collect::<Vec<_>>().join("\n"))
}

/// The domain of a log.
pub(crate) fn domain(log: &Log) -> Domain {
    if log.message.is_none() {
        return Domain::None;
    }
    let (words, frames) = (log.clues, of_frames(log));
    let of_library = frames.any(&[Clue::HfTrainer, Clue::Trl, Clue::Lightning, Clue::Diffusion]);
    let is_nanogpt = log.progress.is_nanogpt || words.has(Clue::NanoGpt);
    if is_nanogpt && !of_library && !words.any(&SERVERS) {
        return Domain::NanoGpt;
    }
    let wording = log.message.as_ref().map(|message| message.wording);
    let is_server = words.any(&SERVERS) || wording == Some(Wording::Server);
    let learns = frames.any(&[Clue::Trains, Clue::HfTrainer, Clue::Trl])
        || words.any(&[Clue::Trl, Clue::HfTrainer, Clue::DiffusionTraining]);
    let draws = words.has(Clue::Diffusion);
    if (is_server || draws) && !learns {
        return Domain::Serving;
    }
    let model = log.setup.model();
    let is_decoder = words.any(&[
        Clue::Decoder,
        Clue::Gpt2,
        Clue::NanoChat,
        Clue::Megatron,
        Clue::TuningKit,
        Clue::Trl,
    ]) || model.is_some_and(fitgpt_model::published::Published::is_decoder);
    let is_other =
        words.any(&[Clue::Vision, Clue::Audio, Clue::Diffusion, Clue::TextEncoder, Clue::Science]);
    let trains = words.any(&TRAINERS) || words.has(Clue::Trains) || learns;
    if trains {
        let is_text = is_decoder || (words.has(Clue::HfTrainer) && !is_other);
        let is_picture = words.any(&[Clue::DiffusionTraining, Clue::Yolo]);
        return if is_text && !is_picture {
            Domain::DecoderTraining
        } else {
            Domain::OtherTraining
        };
    }
    if wording == Some(Wording::OnnxRuntime) {
        return Domain::Inference;
    }
    if words.any(&[Clue::Generates, Clue::Loading]) || frames.any(&[Clue::Generates, Clue::Decoder])
    {
        return Domain::Inference;
    }
    Domain::Unknown
}
