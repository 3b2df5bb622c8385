//! The rules: one file each, and each file's first comment is its page.
//!
//! A rule looks at a [`Scene`] and answers with evidence or not at all. It says what it saw and
//! how sure it is; whether another finding settles the case is decided here.

mod attention_scores;
mod checkpoint_on_device;
mod evaluation_uses_training_batch;
mod foreign_memory;
mod fragmentation;
mod free_exceeds_request;
mod hidden_by_compiler;
mod host_memory;
mod invalid_config;
mod logits_at_the_peak;
mod mlp_activation;
mod no_match;
mod no_shape_in_request;
mod optimizer_temporaries;
mod request_larger_than_card;
mod shared_memory;
mod stale_logits;
mod static_state_too_large;
#[cfg(test)]
mod tests;
mod weight_shaped;

use crate::{
    diagnosis::{Certainty, Evidence, Finding},
    reason::{Candidate, Group, Scene},
};

/// One rule.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// Its file, whose first comment is its page.
    pub(crate) source: &'static str,
    /// The page in Chinese, Japanese and German.
    pub(crate) translated: [&'static str; 3],
    check: fn(&Scene<'_>) -> Option<Answer>,
    /// Where this is the cause, what was asked for is not.
    settles: bool,
}

/// What a rule says where it fires.
struct Answer {
    certainty: Certainty,
    is_cause: bool,
    evidence: Evidence,
}

macro_rules! rule {
    ($name:literal, $module:ident, $settles:literal) => {
        Rule {
            name: $name,
            source: include_str!(concat!(stringify!($module), ".rs")),
            translated: [
                include_str!(concat!("../pages/zh/", stringify!($module), ".md")),
                include_str!(concat!("../pages/ja/", stringify!($module), ".md")),
                include_str!(concat!("../pages/de/", stringify!($module), ".md")),
            ],
            check: $module::check,
            settles: $settles,
        }
    };
}

/// All of them, in the order in which they are asked.
pub(crate) static RULES: [Rule; 19] = [
    rule!("host-memory", host_memory, true),
    rule!("shared-memory", shared_memory, true),
    rule!("invalid-config", invalid_config, true),
    rule!("hidden-by-compiler", hidden_by_compiler, false),
    rule!("static-state-too-large", static_state_too_large, true),
    rule!("foreign-memory", foreign_memory, true),
    rule!("free-exceeds-request", free_exceeds_request, true),
    rule!("request-larger-than-card", request_larger_than_card, false),
    rule!("fragmentation", fragmentation, false),
    rule!("checkpoint-on-device", checkpoint_on_device, false),
    rule!("optimizer-temporaries", optimizer_temporaries, false),
    rule!("stale-logits", stale_logits, false),
    rule!("logits-at-the-peak", logits_at_the_peak, false),
    rule!("evaluation-uses-training-batch", evaluation_uses_training_batch, false),
    rule!("attention-scores", attention_scores, false),
    rule!("mlp-activation", mlp_activation, false),
    rule!("weight-shaped", weight_shaped, false),
    rule!("no-shape-in-request", no_shape_in_request, false),
    rule!("no-match", no_match, false),
];

/// What the rules find: causes first, then what was seen beside them.
pub(crate) fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    let mut list = Vec::new();
    let mut is_settled = false;
    for rule in &RULES {
        let Some(Answer { certainty, is_cause, evidence }) = (rule.check)(scene) else { continue };
        let is_cause = is_cause && !is_settled;
        is_settled |= rule.settles && is_cause;
        list.push(Finding { rule: rule.name, certainty, is_cause, evidence });
    }
    list.sort_by_key(|finding| !finding.is_cause);
    list
}

/// The answer of a rule about what was asked for, by the kind of tensor.
fn asked_for(scene: &Scene<'_>, group: Group) -> Option<Answer> {
    let (candidate, is_best) = scene.best_of(group)?;
    let certainty = match candidate {
        Candidate { is_printed: true, .. } => Certainty::Certain,
        Candidate { is_of_config: true, .. } if is_best => Certainty::Likely,
        _ => Certainty::Unknown,
    };
    let evidence = tensor_evidence(candidate).size("requested_bytes", scene.facts.requested);
    Some(Answer { certainty, is_cause: is_best, evidence })
}

fn tensor_evidence(candidate: &Candidate) -> Evidence {
    let tensor = &candidate.tensor;
    Evidence::new()
        .text("tensor", &tensor.name)
        .text("shape", shape(&tensor.shape))
        .text("dtype", tensor.dtype)
        .number("tensor_bytes", tensor.bytes)
}

/// `(65536, 50304)`, as PyTorch prints it.
pub(crate) fn shape(axes: &[u64]) -> String {
    let axes: Vec<_> = axes.iter().map(u64::to_string).collect();
    format!("({})", axes.join(", "))
}
