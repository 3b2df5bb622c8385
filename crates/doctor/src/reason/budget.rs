//! The budget of a known model on a known card: weights, gradients and optimizer state, before any
//! activation. It is arithmetic, so it comes before every guess.

use fitgpt_fit::device::CUDA_CONTEXT_BYTES;

use super::{Decoder, MemoryFacts};
use crate::{
    budget::Budget,
    facts::{AccountShare, Domain, ShareName},
    parse::{Clue, Log, LoggedOptimizer, TrainedPart},
};

/// The budget of a training or inference run of another stack than nanoGPT; `None` if the model
/// or the card is unknown.
pub(super) fn budget(
    log: &Log,
    facts: &MemoryFacts,
    domain: Domain,
    decoder: Option<&Decoder>,
) -> Option<Budget> {
    let (decoder, total) = (decoder?, facts.total?);
    let is_training =
        matches!(domain, Domain::DecoderTraining | Domain::OtherTraining | Domain::NanoGpt);
    let runs = matches!(domain, Domain::Inference | Domain::Serving);
    if !is_training && !runs {
        return None;
    }
    let part = trained_part(log, decoder);
    let ranks = ranks(log);
    let (least, usual) = if is_training {
        training(log, decoder, part, ranks)
    } else {
        let weights = weights(log, decoder);
        (weights, vec![(ShareName::Weights, weights)])
    };
    let usual_bytes = usual.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let parts = usual.into_iter().filter(|(_, bytes)| *bytes > 0);
    Some(Budget {
        model: decoder.name.clone(),
        parameters: decoder.parameters,
        parts: parts.map(|(name, bytes)| AccountShare { name, bytes }).collect(),
        usual_bytes,
        least_bytes: least,
        usable_bytes: total.high.saturating_sub(CUDA_CONTEXT_BYTES[0].get()),
        ranks,
        is_stated: part.is_some(),
        is_training,
    })
}

/// Which weights are trained: from the numbers in the log, else from its words.
fn trained_part(log: &Log, decoder: &Decoder) -> Option<TrainedPart> {
    match log.setup.trainable {
        // Unsloth and PEFT print both numbers.
        Some(trainable) if trainable.saturating_mul(10) < decoder.parameters.saturating_mul(9) => {
            Some(TrainedPart::Adapters)
        }
        Some(_) => Some(TrainedPart::Whole),
        None => log.setup.method.trained(),
    }
}

/// Cards over which state is divided.
fn ranks(log: &Log) -> u64 {
    let is_sharded = log.clues.any(&[
        Clue::Fsdp,
        Clue::DeepSpeed,
        Clue::ZeroTwo,
        Clue::ZeroThree,
        Clue::Megatron,
    ]);
    if !is_sharded {
        return 1;
    }
    log.world().max(log.setup.cards.count.unwrap_or(1)).max(1)
}

/// The weights of a model that only runs, as the log says they are stored.
fn weights(log: &Log, decoder: &Decoder) -> u64 {
    let clues = log.clues;
    let count = decoder.parameters;
    match () {
        () if clues.has(Clue::EightBit) => count,
        () if clues.any(&[Clue::FourBit, Clue::Quantized]) => count / 2,
        () => count.saturating_mul(2),
    }
}

type Parts = Vec<(ShareName, u64)>;

/// The least and the usual state of training.
fn training(log: &Log, decoder: &Decoder, part: Option<TrainedPart>, ranks: u64) -> (u64, Parts) {
    let clues = log.clues;
    let count = decoder.parameters;
    let of = |each: u64, divisor: u64| count.saturating_mul(each) / divisor.max(1);
    let all = if clues.any(&[Clue::ZeroThree, Clue::Fsdp]) { ranks } else { 1 };
    let gradients = if clues.has(Clue::ZeroTwo) { ranks } else { all };
    if part == Some(TrainedPart::Adapters) {
        let trainable = log.setup.trainable.unwrap_or(count / 200);
        let frozen = if clues.has(Clue::FourBit) {
            count / 16 * 9
        } else if clues.any(&[Clue::EightBit, Clue::Quantized]) {
            count
        } else {
            of(2, 1)
        };
        let (frozen, adapters) = (frozen / all, trainable.saturating_mul(16) / all);
        let least = if clues.any(&[Clue::Quantized, Clue::Offloads]) { frozen / 2 } else { frozen };
        return (least, vec![(ShareName::Weights, frozen), (ShareName::Adapters, adapters)]);
    }
    let offloads = clues.has(Clue::Offloads);
    let optimizer = log.setup.optimizer;
    // Moments per parameter in elements, and whether they are 8-bit.
    let moments = match optimizer {
        None | Some(LoggedOptimizer::Adam) => 2,
        Some(_) => 0,
    };
    let small = if optimizer == Some(LoggedOptimizer::EightBitAdam) { 2 } else { 0 };
    let is_half = clues.has(Clue::HalfWeights);
    // An engine keeps float32 master weights and moments for half-precision weights.
    let has_master = clues.has(Clue::DeepSpeed);
    let each = if is_half || has_master { 2 } else { 4 };
    let state = match () {
        () if offloads => 0,
        () if has_master => 12,
        () => moments * each + small,
    };
    let usual = vec![
        (ShareName::Weights, of(each, all)),
        (ShareName::Gradients, of(each, gradients)),
        (ShareName::OptimizerState, of(state, ranks)),
    ];
    let least_state = if offloads || optimizer.is_none() { 0 } else { moments * 2 + small };
    let least = of(2, all).saturating_add(of(2, gradients)).saturating_add(of(least_state, ranks));
    (least, usual)
}
