//! # `logits-at-the-peak`
//!
//! ## What it sees
//! The request prints exactly as rows × vocabulary would: logits, their float32 copy, their
//! softmax or a gradient of one of these.
//!
//! ## Why it happens
//! The loss needs the logits, their softmax and a gradient of the same size at once. GPT-2's
//! vocabulary is 65 times its width, so that one such tensor outweighs a layer; eager mode keeps
//! up to 20 bytes for each token and word, compiled mode 4.
//!
//! ## What helps
//! A loss that is computed for some rows at a time, a smaller micro-batch with more accumulation
//! (the same training), and for evaluations a batch of their own.

use super::{Answer, asked_for, shape};
use crate::{
    diagnosis::{Certainty, Evidence},
    reason::{Group, Scene},
};

pub(super) fn check(scene: &Scene<'_>) -> Option<Answer> {
    if let Some(answer) = asked_for(scene, Group::Logits) {
        return Some(answer);
    }
    // Without a config the number alone can say it, and then it says what it supposes.
    let (tensor, supposing) = scene.supposed.first().filter(|(t, _)| t.name == "logits")?;
    if scene.run.is_some() {
        return None; // a config that does not match: `no-match` says which would
    }
    let evidence = Evidence::new()
        .text("tensor", &tensor.name)
        .text("shape", shape(&tensor.shape))
        .text("dtype", tensor.dtype)
        .number("tensor_bytes", tensor.bytes)
        .text("supposing_model", supposing.model)
        .number("supposing_batch_size", supposing.batch_size)
        .number("supposing_block_size", supposing.block_size)
        .size("requested_bytes", scene.facts.requested);
    Some(Answer { certainty: Certainty::Unknown, is_cause: true, evidence })
}
