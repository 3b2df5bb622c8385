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
    diagnosis::{Certainty, Evidence, Finding, Tensor},
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
    settles: Settles,
}

/// Whether a rule that names the cause ends the search for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settles {
    No,
    /// Unless the log only lets it be inferred.
    IfCertain,
    Yes,
}

/// What a driver reports as free and does not give: its last pages. Requests of 20 MiB fail where
/// 25 are free.
const LAST_PAGES: u64 = 64 << 20;

/// What a rule says where it fires.
struct Answer {
    certainty: Certainty,
    is_cause: bool,
    evidence: Evidence,
}

macro_rules! rule {
    ($name:literal, $module:ident, $settles:ident) => {
        Rule {
            name: $name,
            source: include_str!(concat!(stringify!($module), ".rs")),
            translated: [
                include_str!(concat!("../pages/zh/", stringify!($module), ".md")),
                include_str!(concat!("../pages/ja/", stringify!($module), ".md")),
                include_str!(concat!("../pages/de/", stringify!($module), ".md")),
            ],
            check: $module::check,
            settles: Settles::$settles,
        }
    };
}

/// All of them, in the order in which they are asked.
pub(crate) static RULES: [Rule; 19] = [
    rule!("host-memory", host_memory, Yes),
    rule!("shared-memory", shared_memory, Yes),
    rule!("invalid-config", invalid_config, Yes),
    rule!("hidden-by-compiler", hidden_by_compiler, No),
    rule!("static-state-too-large", static_state_too_large, Yes),
    rule!("foreign-memory", foreign_memory, IfCertain),
    rule!("free-exceeds-request", free_exceeds_request, Yes),
    rule!("request-larger-than-card", request_larger_than_card, No),
    rule!("fragmentation", fragmentation, No),
    rule!("checkpoint-on-device", checkpoint_on_device, No),
    rule!("optimizer-temporaries", optimizer_temporaries, No),
    rule!("stale-logits", stale_logits, No),
    rule!("logits-at-the-peak", logits_at_the_peak, No),
    rule!("evaluation-uses-training-batch", evaluation_uses_training_batch, No),
    rule!("attention-scores", attention_scores, No),
    rule!("mlp-activation", mlp_activation, No),
    rule!("weight-shaped", weight_shaped, No),
    rule!("no-shape-in-request", no_shape_in_request, No),
    rule!("no-match", no_match, No),
];

/// What the rules find: causes first, then what was seen beside them.
pub(crate) fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    let mut list = Vec::new();
    let mut is_settled = false;
    for rule in &RULES {
        let Some(Answer { certainty, is_cause, evidence }) = (rule.check)(scene) else { continue };
        let is_cause = is_cause && !is_settled;
        let settles = match rule.settles {
            Settles::No => false,
            Settles::IfCertain => certainty == Certainty::Certain,
            Settles::Yes => true,
        };
        is_settled |= settles && is_cause;
        list.push(Finding { rule: rule.name, certainty, is_cause, evidence });
    }
    list.sort_by_key(|finding| !finding.is_cause);
    list
}

/// The answer of a rule about what was asked for, by the kind of tensor.
fn asked_for(scene: &Scene<'_>, group: Group) -> Option<Answer> {
    let Some((candidate, is_best)) = scene.best_of(group) else {
        return supposed_for(scene, group);
    };
    let certainty = match candidate {
        Candidate { is_printed: true, .. } => Certainty::Certain,
        Candidate { tensor: Tensor { supposing: Some(_), .. }, .. } => Certainty::Unknown,
        Candidate { is_of_config: true, .. } if is_best => Certainty::Likely,
        _ => Certainty::Unknown,
    };
    let evidence = tensor_evidence(scene, &candidate.tensor);
    Some(Answer { certainty, is_cause: is_best, evidence })
}

/// Without a config the number alone can say it, and then it says what it supposes.
fn supposed_for(scene: &Scene<'_>, group: Group) -> Option<Answer> {
    let name = match group {
        Group::Logits => "logits",
        Group::Attention => "attention scores",
        Group::Mlp => "mlp activation",
        Group::Weight => "wte.weight",
        Group::Other => return None,
    };
    let (tensor, _) = scene.supposed.first().filter(|(tensor, _)| tensor.name == name)?;
    if scene.run.is_some() {
        return None; // a config that does not match: `no-match` says which would
    }
    let evidence = tensor_evidence(scene, tensor);
    Some(Answer { certainty: Certainty::Unknown, is_cause: true, evidence })
}

fn tensor_evidence(scene: &Scene<'_>, tensor: &Tensor) -> Evidence {
    let mut evidence = Evidence::new()
        .text("tensor", &tensor.name)
        .text("shape", shape(&tensor.shape))
        .text("dtype", tensor.dtype)
        .number("tensor_bytes", tensor.bytes);
    if let Some(supposing) = tensor.supposing {
        evidence = evidence
            .text("supposing_model", supposing.model)
            .number("supposing_batch_size", supposing.batch_size)
            .number("supposing_block_size", supposing.block_size);
    }
    evidence.size("requested_bytes", scene.facts.requested)
}

/// `(65536, 50304)`, as PyTorch prints it.
pub(crate) fn shape(axes: &[u64]) -> String {
    let axes: Vec<_> = axes.iter().map(u64::to_string).collect();
    format!("({})", axes.join(", "))
}
