//! The memory of training a published decoder in another stack than nanoGPT.
//!
//! Weights, gradients and optimizer state follow from the model, the optimizer, the dtype of the
//! weights and the sharding. Nothing is computed unless the log names model and optimizer: with all
//! combinations allowed, one of them would match any number.

use super::Analysis;
use crate::{
    facts::{AccountShare, PhaseName, ShareName},
    parse::{Clue, LoggedOptimizer},
    reason::Decoder,
};

/// The possible accounts of a training step, most likely first.
pub(super) fn accounts(analysis: &Analysis<'_>, decoder: &Decoder) -> Vec<Vec<AccountShare>> {
    let (log, phase) = (analysis.log, analysis.phase.name);
    let is_step =
        matches!(phase, PhaseName::TrainForward | PhaseName::TrainBackward | PhaseName::Update);
    let Some(optimizer) = log.setup.optimizer.filter(|_| is_step && analysis.trains()) else {
        return Vec::new();
    };
    let adapters = log.clues.has(Clue::Lora);
    let states = if adapters {
        with_adapters(analysis, decoder)
    } else {
        full(analysis, decoder, optimizer)
    };
    let pass = pass(analysis, decoder);
    states.into_iter().flat_map(|state| [[state.clone(), pass.clone()].concat(), state]).collect()
}

fn share(name: ShareName, bytes: u64) -> AccountShare {
    AccountShare { name, bytes }
}

/// All weights are trained.
fn full(
    analysis: &Analysis<'_>,
    decoder: &Decoder,
    optimizer: LoggedOptimizer,
) -> Vec<Vec<AccountShare>> {
    let clues = analysis.log.clues;
    let world = analysis.log.world();
    let is_sharded = clues.any(&[Clue::Fsdp, Clue::DeepSpeed, Clue::ZeroThree, Clue::Megatron]);
    if is_sharded && world == 1 {
        return Vec::new(); // the number of ranks decides
    }
    // Which of weights, gradients and moments each rank holds a part of.
    let divisors = match () {
        () if clues.any(&[Clue::ZeroThree, Clue::Fsdp]) => [world, world, world],
        () if clues.has(Clue::ZeroTwo) => [1, world, world],
        () if is_sharded => [1, 1, world],
        () => [1, 1, 1],
    };
    let moments = match optimizer {
        LoggedOptimizer::Adam => 2,
        LoggedOptimizer::EightBitAdam | LoggedOptimizer::Adafactor | LoggedOptimizer::Sgd => 0,
    };
    let small_state = if optimizer == LoggedOptimizer::EightBitAdam { 2 } else { 0 };
    // Bytes per element of the weights; moments have the dtype of the weights, unless an engine
    // keeps float32 master weights.
    let dtypes: &[u64] = if clues.has(Clue::HalfWeights) { &[2] } else { &[4, 2] };
    let is_offloaded = clues.has(Clue::Offloads);
    let state = |each: u64| {
        let master = if each == 2 && clues.has(Clue::DeepSpeed) { 4 + 8 } else { moments * each };
        let optimizer_bytes = if is_offloaded { 0 } else { master + small_state };
        let bytes = [each, each, optimizer_bytes].map(|n| n.saturating_mul(decoder.parameters));
        let names = [ShareName::Weights, ShareName::Gradients, ShareName::OptimizerState];
        let shares = names.into_iter().zip(bytes).zip(divisors);
        shares
            .map(|((name, bytes), divisor)| share(name, bytes / divisor))
            .filter(|share| share.bytes > 0)
            .collect()
    };
    dtypes.iter().map(|each| state(*each)).collect()
}

/// Only adapters are trained, in float32: 16 bytes per adapter parameter.
fn with_adapters(analysis: &Analysis<'_>, decoder: &Decoder) -> Vec<Vec<AccountShare>> {
    let clues = analysis.log.clues;
    let adapters = analysis.log.setup.trainable.unwrap_or(0).saturating_mul(16);
    let embeddings = decoder.vocab.saturating_mul(decoder.width);
    let body = decoder.parameters.saturating_sub(embeddings);
    let weights: Vec<u64> = if clues.has(Clue::FourBit) {
        // 4 bits and a scale for each block of 64; the embedding stays in 16 or 32 bits.
        [2, 4].map(|each| body / 16 * 9 + embeddings.saturating_mul(each)).to_vec()
    } else if clues.has(Clue::EightBit) {
        vec![body.saturating_add(embeddings.saturating_mul(2))]
    } else {
        [2, 4].map(|each| decoder.parameters.saturating_mul(each)).to_vec()
    };
    let shares = |weights: u64| {
        let list = [share(ShareName::Weights, weights), share(ShareName::Adapters, adapters)];
        list.into_iter().filter(|share| share.bytes > 0).collect()
    };
    weights.into_iter().map(shares).collect()
}

/// Activations and logits of a micro-batch when its backward pass begins, if the log prints batch
/// size and length.
fn pass(analysis: &Analysis<'_>, decoder: &Decoder) -> Vec<AccountShare> {
    let setup = &analysis.log.setup;
    let (Some(batch), Some(seq)) = (setup.batch, setup.seq) else { return Vec::new() };
    if decoder.width == 0 || analysis.phase.name == PhaseName::Update {
        return Vec::new();
    }
    let tokens = batch.saturating_mul(seq);
    // Elements that one layer keeps for its backward pass: norms, queries, keys, values, the
    // outputs of attention and of the feed-forward layer, and the residual stream.
    let Decoder { width, keys, ffn, layers, vocab, .. } = *decoder;
    let layer = tokens.saturating_mul(2 * (8 * width + 2 * keys + 4 * ffn) + 8 * width);
    let kept = if analysis.log.clues.has(Clue::Recomputes) {
        tokens.saturating_mul(2 * width).saturating_mul(layers).saturating_add(layer)
    } else {
        layer.saturating_mul(layers)
    };
    // Half-precision logits and their float32 copy.
    let logits = tokens.saturating_mul(vocab).saturating_mul(2 + 4);
    vec![share(ShareName::Activations, kept), share(ShareName::Logits, logits)]
}
