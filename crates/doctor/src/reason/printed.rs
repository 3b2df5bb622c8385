//! What a tensor is of which the log prints the shape: by the op that the log names next to it, by the
//! sizes of the model that the log names, and last by its form.

use fitgpt_config::{GPT2_VOCAB, PADDED_VOCAB};
use fitgpt_model::published;

use super::{Decoder, candidates::Candidate};
use crate::{
    facts::{Domain, Role, TensorName},
    parse::{Clue, Log, PrintedShape, Wording},
};

/// Parts of an op's name, and what it computes. Earlier ones outrank later ones: the optimizer's
/// copy of an attention layer's weight is a weight.
const OPS: &[(&str, Role)] = &[
    ("one_hot", Role::Other),
    ("onehot", Role::Other),
    ("initializer", Role::Weight),
    ("/adam", Role::Weight),
    ("momentum", Role::Weight),
    ("rmsprop", Role::Weight),
    ("exp_avg", Role::Weight),
    ("/kernel", Role::Weight),
    ("kernel/", Role::Weight),
    ("embed_tokens/convert_element_type", Role::Weight),
    ("readvariable", Role::Weight),
    // The second product of a gradient is the weight's.
    ("matmul_grad/matmul_1", Role::Weight),
    ("matmul/enter_grad", Role::Weight), // of a loop
    ("attention", Role::AttentionScores),
    ("attn", Role::AttentionScores),
    ("bhqk", Role::AttentionScores),
    ("lm_head", Role::Logits),
    ("logits", Role::Logits),
    ("output_projection", Role::Logits),
    ("softmax_cross_entropy", Role::Logits),
    ("intermediate", Role::Mlp),
    ("/ff/", Role::Mlp),
    ("ffn", Role::Mlp),
    ("mlp", Role::Mlp),
    ("feed_forward", Role::Mlp),
    ("feedforward", Role::Mlp),
    ("up_proj", Role::Mlp),
    ("gate_proj", Role::Mlp),
    ("dense_h_to_4h", Role::Mlp),
    ("/wi_0", Role::Mlp),
];

/// The vocabularies of nanochat's tokenizers, which its log need not print.
const NANOCHAT_VOCABS: [u64; 2] = [1 << 16, 1 << 15];

/// The candidate for a shape of an unknown run.
pub(super) fn candidate(
    log: &Log,
    shape: &PrintedShape,
    decoder: Option<&Decoder>,
    domain: Domain,
) -> Candidate {
    let by_op = OPS.iter().find(|(part, _)| shape.op.contains(part)).map(|(_, role)| *role);
    let by_op = by_op.filter(|role| has_form(shape, *role));
    let by_model = || by_model(log, &shape.axes, decoder, domain);
    let (role, is_form) = match by_op.or_else(by_model) {
        Some(role) => (role, false),
        None => by_form(log, shape, domain).map_or((Role::Other, false), |role| (role, true)),
    };
    let name = match role {
        Role::Logits => TensorName::Logits,
        Role::AttentionScores => TensorName::AttentionScores,
        Role::Mlp => TensorName::MlpActivation,
        Role::Weight if is_embedding(log, &shape.axes, decoder, domain) => TensorName::Embedding,
        Role::Weight | Role::Other => TensorName::Unnamed,
    };
    let mut candidate = Candidate::unexplained(name, role, shape);
    candidate.is_form = is_form || shape.is_part;
    candidate
}

/// Whether a tensor of this role can have this shape: an attention layer has weights, too.
fn has_form(shape: &PrintedShape, role: Role) -> bool {
    match (role, shape.axes.as_slice()) {
        (Role::AttentionScores, [_, .., rows, columns]) => rows == columns && *rows > 1,
        (Role::Logits, [.., last]) => *last >= 1000,
        (Role::AttentionScores | Role::Logits, _) => false,
        _ => true,
    }
}

/// The role that the sizes of the model say.
fn by_model(log: &Log, axes: &[u64], decoder: Option<&Decoder>, domain: Domain) -> Option<Role> {
    let last = *axes.last()?;
    if is_embedding(log, axes, decoder, domain) {
        return Some(Role::Weight);
    }
    if is_vocab(log, last, decoder, domain) {
        return Some(Role::Logits);
    }
    let decoder = decoder.filter(|decoder| decoder.width > 0)?;
    let Decoder { width, ffn, queries, keys, .. } = *decoder;
    match *axes {
        [a, b]
            if [[ffn, width], [queries, width], [keys, width]]
                .iter()
                .any(|w| *w == [a, b] || *w == [b, a]) =>
        {
            Some(Role::Weight)
        }
        _ if last == ffn => Some(Role::Mlp),
        _ => None,
    }
}

/// Rows of a vocabulary by the width of a model.
fn is_embedding(log: &Log, axes: &[u64], decoder: Option<&Decoder>, domain: Domain) -> bool {
    matches!(*axes, [rows, width] if (64..=16_384).contains(&width)
        && width.is_multiple_of(64)
        && rows > width
        && is_vocab(log, rows, decoder, domain))
}

/// Whether an axis is a vocabulary: the model's, or one that no other size is likely to equal.
fn is_vocab(log: &Log, axis: u64, decoder: Option<&Decoder>, domain: Domain) -> bool {
    let is_text = is_text(log, domain);
    let is_odd =
        axis >= 30_000 && !axis.is_power_of_two() && (is_text || !axis.is_multiple_of(1000));
    [GPT2_VOCAB, PADDED_VOCAB].map(u64::from).contains(&axis)
        || is_text && log.setup.vocab == Some(axis)
        || decoder.is_some_and(|decoder| decoder.vocab == axis)
        || log.setup.model().is_some_and(|model| u64::from(model.vocab) == axis)
        || log.clues.has(Clue::NanoChat)
            && log.setup.vocab.is_none()
            && NANOCHAT_VOCABS.contains(&axis)
        || is_odd && published::all().iter().any(|model| u64::from(model.vocab) == axis)
}

/// Whether the log is about a model of text. Square images have the form of attention scores.
fn is_text(log: &Log, domain: Domain) -> bool {
    let texts = [Clue::Decoder, Clue::TextEncoder, Clue::Gpt2, Clue::NanoGpt, Clue::NanoChat];
    let is_text =
        matches!(domain, Domain::NanoGpt | Domain::DecoderTraining) || log.clues.any(&texts);
    is_text && domain != Domain::Serving && !log.clues.any(&[Clue::Vision, Clue::Diffusion])
}

/// The role that the form alone suggests.
fn by_form(log: &Log, shape: &PrintedShape, domain: Domain) -> Option<Role> {
    let is_keras = log.message.as_ref().is_some_and(|m| m.wording == Wording::TensorFlow);
    match *shape.axes.as_slice() {
        // TensorFlow's kernels: height, width, input channels, output channels.
        [height, width, _, _]
            if height == width && is_keras && [3, 5, 7, 9, 11].contains(&height) =>
        {
            Some(Role::Weight)
        }
        // The filter of a convolution, as cuDNN takes it; feature maps of this size are rare.
        [_, _, height, width]
            if is_keras
                && height == width
                && [3, 5].contains(&height)
                && shape.op.contains("convolution") =>
        {
            Some(Role::Weight)
        }
        // Projections of attention are square.
        [rows, columns]
            if rows == columns
                && rows.is_multiple_of(64)
                && (256..=16_384).contains(&rows)
                && is_text(log, domain) =>
        {
            Some(Role::Weight)
        }
        [_, heads, rows, columns] if rows == columns && heads <= 256 => {
            // A square of patches and a class token, which no image has.
            let side = rows.saturating_sub(1).isqrt();
            let is_patches = side >= 7 && side * side + 1 == rows;
            (is_patches || is_text(log, domain)).then_some(Role::AttentionScores)
        }
        _ => None,
    }
}
