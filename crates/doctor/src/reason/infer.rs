//! Without a config: common runs with a tensor of the requested size.

use fitgpt_config::{GPT2_VOCAB, PADDED_VOCAB};
use fitgpt_model::published;
use fitgpt_program::units::DType;

use crate::{
    facts::{AssumedRun, CandidateTensor, PhaseName, Role, TensorName},
    parse::{Clue, Log, PrintedSize, allocator_request},
};

/// The number of parameters that nanoGPT prints, in hundredths of a million: without the position
/// embedding. Biases and padding of the vocabulary change it by less than a hundredth.
fn printed_parameters(model: &published::Published) -> u64 {
    let positions = u64::from(model.context) * u64::from(model.width);
    (model.parameters - positions) / 10_000
}

/// OpenAI's four sizes, smallest first.
pub(super) fn gpt2_sizes() -> impl Iterator<Item = &'static published::Published> {
    published::all().iter().filter(|model| model.id.starts_with("gpt2"))
}

/// As nanoGPT pads it, and as published.
const VOCABS: [u64; 2] = [PADDED_VOCAB as u64, GPT2_VOCAB as u64];
const SEQS: [u64; 4] = [1024, 512, 2048, 256];
const MOST: usize = 12;

/// 2 MiB and 20 MiB are the allocator's request for any small tensor.
pub(super) fn carries_shape(requested: PrintedSize) -> bool {
    requested.bytes != 0 && requested.bytes != 2 << 20 && requested.bytes != 20 << 20
}

/// Common batch sizes. If all were tried, some would match any number.
fn is_common(batch: u64) -> bool {
    batch.is_power_of_two() || matches!(batch, 3 | 5 | 6 | 10 | 12 | 20 | 24 | 40 | 48)
}

/// Runs with a tensor of the `requested` size, most likely first: logits before other tensors,
/// common batch sizes before odd ones, small models before large ones.
///
/// If nothing indicates a GPT-2, only logits at common batch sizes are tried: a vocabulary is
/// distinctive, products of powers of two are not.
pub(super) fn suppose(
    log: &Log,
    requested: Option<PrintedSize>,
) -> Vec<(CandidateTensor, AssumedRun)> {
    let Some(requested) = requested else { return Vec::new() };
    let is_rounded = log.message.as_ref().is_some_and(crate::parse::Message::is_rounded);
    let prints_alike =
        |bytes: u64| requested.admits(if is_rounded { allocator_request(bytes) } else { bytes });
    let is_gpt2 = log.clues.any(&[Clue::Gpt2, Clue::NanoGpt]) || log.progress.is_nanogpt;
    let mut found: Vec<(u64, CandidateTensor, AssumedRun)> = Vec::new();
    for (index, size) in gpt2_sizes().enumerate() {
        let (model, heads, channels) = (size.id, u64::from(size.heads), u64::from(size.width));
        let printed = printed_parameters(size);
        let is_another = |n: u64| n.abs_diff(printed) > printed / 100;
        if log.progress.parameters_hundredth_millions.is_some_and(is_another) {
            continue;
        }
        for vocab in VOCABS {
            for (rank, seq) in (0_u64..).zip(SEQS) {
                for batch in 1..=64 {
                    if !is_gpt2 && !is_common(batch) {
                        continue;
                    }
                    let divides = |tokens: u64| tokens.is_multiple_of(batch * seq);
                    if !log.progress.tokens_per_iteration.is_none_or(divides) {
                        continue;
                    }
                    let supposing =
                        AssumedRun { model, batch_size: batch, block_size: seq, vocab_size: vocab };
                    let oddness = if batch.is_power_of_two() || batch == 12 { 0 } else { 4 };
                    let unlikely = oddness + rank + index as u64 + u64::from(vocab != VOCABS[0]);
                    let shapes = [
                        (TensorName::Logits, Role::Logits, vec![batch * seq, vocab], 0),
                        (
                            TensorName::AttentionScores,
                            Role::AttentionScores,
                            vec![batch, heads, seq, seq],
                            10,
                        ),
                        (TensorName::MlpActivation, Role::Mlp, vec![batch, seq, 4 * channels], 20),
                        (TensorName::ResidualStream, Role::Other, vec![batch, seq, channels], 30),
                    ];
                    for (name, role, shape, kind) in shapes {
                        if kind > 0 && (vocab != VOCABS[0] || !is_gpt2) {
                            continue; // the shape does not depend on the vocabulary
                        }
                        for dtype in [DType::Bf16, DType::F32] {
                            let bytes = shape.iter().product::<u64>() * dtype.size();
                            if prints_alike(bytes) {
                                let tensor = CandidateTensor {
                                    name: name.clone(),
                                    shape: shape.clone(),
                                    dtype: dtype.name(),
                                    bytes,
                                    role,
                                    phase: PhaseName::Unknown,
                                    supposing: Some(supposing),
                                };
                                found.push((kind + unlikely, tensor, supposing));
                            }
                        }
                    }
                }
            }
        }
        let weight = CandidateTensor {
            name: TensorName::OfProgram("wte.weight".to_owned()),
            shape: vec![VOCABS[0], channels],
            dtype: DType::F32.name(),
            bytes: VOCABS[0] * channels * 4,
            role: Role::Weight,
            phase: PhaseName::Unknown,
            supposing: None,
        };
        if is_gpt2 && prints_alike(weight.bytes) {
            let supposing =
                AssumedRun { model, batch_size: 1, block_size: SEQS[0], vocab_size: VOCABS[0] };
            found.push((15, CandidateTensor { supposing: Some(supposing), ..weight }, supposing));
        }
    }
    found.sort_by_key(|(unlikely, _, _)| *unlikely);
    // A tensor that does not depend on the width is the same in every model.
    let mut seen: Vec<(TensorName, Vec<u64>, &str)> = Vec::new();
    found.retain(|(_, tensor, _)| {
        let key = (tensor.name.clone(), tensor.shape.clone(), tensor.dtype);
        let is_new = seen.len() < MOST && !seen.contains(&key);
        if is_new {
            seen.push(key);
        }
        is_new
    });
    found.into_iter().map(|(_, tensor, supposing)| (tensor, supposing)).collect()
}
