//! The rules: one file each. The doc comment of a file is its `--explain` page.
//!
//! A rule checks an [`Analysis`] and returns a cause with its evidence, or nothing. It states how
//! certain it is; this module decides whether one finding rules out others. A new rule needs a
//! file, a line in [`RULES`], a variant of [`Cause`] and its sentence. Translations of its page are
//! optional: English is shown until they exist.

mod attention_scores;
mod batch_too_large;
mod checkpoint_on_device;
mod communicator_buffers;
mod dev_shm;
mod device_side_error;
mod evaluation_gathers_predictions;
mod evaluation_uses_training_batch;
mod flat_copy;
mod foreign_memory;
mod fragmentation;
mod free_exceeds_request;
mod gather_on_save;
mod hidden_by_compiler;
mod host_memory;
mod invalid_config;
mod kv_cache;
mod logits_at_the_peak;
mod memory_grows;
mod mlp_activation;
mod no_match;
mod no_shape_in_request;
mod not_memory;
mod optimizer_temporaries;
mod paging_file;
mod request_larger_than_card;
mod server_reservation;
mod shared_memory;
mod spilled_to_host;
mod stale_logits;
mod static_state_too_large;
#[cfg(test)]
mod tests;
mod undecided;
mod unified_memory_limit;
mod weight_shaped;
mod weights_too_large;

use crate::{
    cause::{Cause, RequestedTensor},
    diagnosis::{Finding, MemoryFacts},
    facts::{CandidateTensor, Certainty, Role},
    reason::{Analysis, Candidate, trace},
};

/// One rule.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// The source file, whose doc comment is the English page.
    pub(crate) source: &'static str,
    /// The page in Chinese, Japanese and German; `None` shows English.
    pub(crate) translated: Option<[&'static str; 3]>,
    check: fn(&Analysis<'_>) -> Option<RuleMatch>,
    settles: Settles,
}

/// Whether a rule that finds the cause ends the search for other causes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settles {
    No,
    /// If it is at least likely.
    IfLikely,
    /// If it is certain.
    IfCertain,
    Yes,
    /// No; and it is checked only if no likely cause was found.
    Last,
}

/// Free memory that a driver reports but does not hand out: requests of 20 MiB fail with 25 MiB
/// free.
const LAST_PAGES: u64 = 64 << 20;

/// Whether the card is nearly full: drivers hand out little of the last twentieth.
fn is_full(facts: &MemoryFacts) -> bool {
    matches!((facts.free, facts.total), (Some(free), Some(total)) if free.bytes < total.bytes / 20)
}

/// The result of a rule that applies.
struct RuleMatch {
    certainty: Certainty,
    is_cause: bool,
    cause: Cause,
}

macro_rules! rule {
    ($name:literal, $module:ident, $settles:ident) => {
        Rule { translated: None, ..rule!(@ $name, $module, $settles) }
    };
    ($name:literal, $module:ident, $settles:ident, translated) => {
        Rule {
            translated: Some([
                include_str!(concat!("../pages/zh/", stringify!($module), ".md")),
                include_str!(concat!("../pages/ja/", stringify!($module), ".md")),
                include_str!(concat!("../pages/de/", stringify!($module), ".md")),
            ]),
            ..rule!(@ $name, $module, $settles)
        }
    };
    (@ $name:literal, $module:ident, $settles:ident) => {
        Rule {
            name: $name,
            source: include_str!(concat!(stringify!($module), ".rs")),
            translated: None,
            check: $module::check,
            settles: Settles::$settles,
        }
    };
}

/// All rules in the order in which they are checked: those that prove a cause first, those that
/// only match numbers last.
pub(crate) static RULES: [Rule; 35] = [
    rule!("paging-file", paging_file, Yes, translated),
    rule!("dev-shm", dev_shm, Yes, translated),
    rule!("host-memory", host_memory, Yes, translated),
    rule!("shared-memory", shared_memory, Yes, translated),
    rule!("not-memory", not_memory, Yes, translated),
    rule!("invalid-config", invalid_config, No, translated),
    rule!("device-side-error", device_side_error, IfCertain, translated),
    rule!("unified-memory-limit", unified_memory_limit, Yes, translated),
    rule!("kv-cache", kv_cache, Yes, translated),
    rule!("server-reservation", server_reservation, Yes, translated),
    rule!("spilled-to-host", spilled_to_host, Yes, translated),
    rule!("hidden-by-compiler", hidden_by_compiler, No, translated),
    rule!("evaluation-gathers-predictions", evaluation_gathers_predictions, IfLikely, translated),
    rule!("gather-on-save", gather_on_save, Yes, translated),
    rule!("static-state-too-large", static_state_too_large, IfLikely, translated),
    rule!("foreign-memory", foreign_memory, IfCertain, translated),
    rule!("request-larger-than-card", request_larger_than_card, No, translated),
    rule!("flat-copy", flat_copy, Yes, translated),
    rule!("communicator-buffers", communicator_buffers, Yes, translated),
    rule!("weights-too-large", weights_too_large, IfLikely, translated),
    rule!("free-exceeds-request", free_exceeds_request, Yes, translated),
    rule!("fragmentation", fragmentation, No, translated),
    rule!("checkpoint-on-device", checkpoint_on_device, No, translated),
    rule!("optimizer-temporaries", optimizer_temporaries, No, translated),
    rule!("stale-logits", stale_logits, No, translated),
    rule!("logits-at-the-peak", logits_at_the_peak, No, translated),
    rule!("evaluation-uses-training-batch", evaluation_uses_training_batch, No, translated),
    rule!("attention-scores", attention_scores, No, translated),
    rule!("mlp-activation", mlp_activation, No, translated),
    rule!("weight-shaped", weight_shaped, No, translated),
    rule!("memory-grows", memory_grows, No, translated),
    rule!("batch-too-large", batch_too_large, Last, translated),
    rule!("undecided", undecided, Last, translated),
    rule!("no-shape-in-request", no_shape_in_request, No, translated),
    rule!("no-match", no_match, No, translated),
];

/// The findings of all rules: causes first, then observations.
pub(crate) fn findings(analysis: &Analysis<'_>) -> Vec<Finding> {
    let mut list: Vec<Finding> = Vec::new();
    let mut is_settled = false;
    for rule in &RULES {
        let is_likely = |f: &Finding| f.is_cause && f.certainty > Certainty::Unknown;
        if rule.settles == Settles::Last && (is_settled || list.iter().any(is_likely)) {
            continue;
        }
        let Some(RuleMatch { certainty, is_cause, cause }) = (rule.check)(analysis) else {
            continue;
        };
        let is_cause = is_cause && !is_settled;
        let settles = match rule.settles {
            Settles::No | Settles::Last => false,
            Settles::IfLikely => certainty > Certainty::Unknown,
            Settles::IfCertain => certainty == Certainty::Certain,
            Settles::Yes => true,
        };
        is_settled |= settles && is_cause;
        list.push(Finding { certainty, is_cause, cause });
    }
    list.sort_by_key(|finding| (!finding.is_cause, is_weaker(finding)));
    list
}

/// Possible causes come after likely ones.
fn is_weaker(finding: &Finding) -> bool {
    finding.is_cause && finding.certainty == Certainty::Unknown
}

/// The answer of a rule about the requested tensor, by its role.
fn asked_for(
    analysis: &Analysis<'_>,
    role: Role,
    cause: fn(RequestedTensor) -> Cause,
) -> Option<RuleMatch> {
    let Some((candidate, is_best)) = analysis.best_of(role) else {
        return supposed_for(analysis, role, cause);
    };
    let certainty = match candidate {
        Candidate { is_form: true, .. } => Certainty::Likely,
        Candidate { is_printed: true, .. } => Certainty::Certain,
        Candidate { tensor: CandidateTensor { supposing: Some(_), .. }, .. } => Certainty::Unknown,
        Candidate { is_of_config: true, .. } if is_best => Certainty::Likely,
        _ => Certainty::Unknown,
    };
    let mut asked = asked(analysis, &candidate.tensor);
    if analysis.log.shape.as_ref().is_some_and(|shape| shape.is_part) {
        asked.requested_bytes = None; // it is for the whole program
    }
    Some(RuleMatch { certainty, is_cause: is_best, cause: cause(asked) })
}

/// Without a config: a tensor of an assumed run.
fn supposed_for(
    analysis: &Analysis<'_>,
    role: Role,
    cause: fn(RequestedTensor) -> Cause,
) -> Option<RuleMatch> {
    let (tensor, _) = analysis.supposed.first().filter(|(tensor, _)| tensor.role == role)?;
    if analysis.run.is_some() || role == Role::Other {
        return None; // `no-match` reports a config that does not match
    }
    let cause = cause(asked(analysis, tensor));
    Some(RuleMatch { certainty: Certainty::Unknown, is_cause: true, cause })
}

/// The failing line of code shows what it allocates.
fn named_by_line(
    analysis: &Analysis<'_>,
    lines: &[&str],
    cause: fn(RequestedTensor) -> Cause,
) -> Option<RuleMatch> {
    let line = trace::line_with(analysis.log, lines)
        .filter(|_| analysis.is_gpu() && analysis.run.is_none())?;
    let requested_bytes = analysis.facts.requested.map(|size| size.bytes);
    let asked = RequestedTensor { line: Some(line), requested_bytes, ..RequestedTensor::default() };
    Some(RuleMatch { certainty: Certainty::Likely, is_cause: true, cause: cause(asked) })
}

fn asked(analysis: &Analysis<'_>, tensor: &CandidateTensor) -> RequestedTensor {
    RequestedTensor {
        tensor: Some(tensor.name.clone()),
        shape: Some(tensor.shape.clone()),
        dtype: Some(tensor.dtype),
        tensor_bytes: Some(tensor.bytes),
        supposing: tensor.supposing,
        line: None,
        requested_bytes: analysis.facts.requested.map(|size| size.bytes),
    }
}
