//! The text of a whole diagnosis: `fitgpt doctor`.

use std::fmt::Write as _;

use fitgpt_say::{Lang, Say as _};

use super::{
    before_a_run, claims, config_helps, findings::finding, harmless, in_one_unit, mark, more,
    more_on, now, open, ties, what_to_do, would_help,
};
use crate::{
    cause::Cause,
    diagnose::Context,
    diagnosis::{Diagnosis, DoNext, Finding, Step, StepName},
    facts::{CandidateTensor, Certainty, Domain, MemoryKind},
    remedy::{Question, Remedy},
};

/// Maximum number of candidate tensors to print.
const MAX_TENSORS: usize = 4;

/// The diagnosis as text: verdict, account, causes, recommendations, next command.
pub fn text(lang: Lang, diagnosis: &Diagnosis, context: &Context) -> String {
    in_one_unit(|| plain(&whole(lang, diagnosis, context)))
}

fn whole(lang: Lang, diagnosis: &Diagnosis, context: &Context) -> String {
    if diagnosis.kind == MemoryKind::None && !diagnosis.claims.is_empty() {
        return claims::list(lang, &diagnosis.claims);
    }
    let mut text = format!("{}\n", diagnosis.kind.say(lang));
    if diagnosis.kind == MemoryKind::GpuMemory {
        let _ = writeln!(text, "{}", diagnosis.phase.say(lang));
    }
    if let Some(account) = &diagnosis.account {
        let _ = writeln!(text, "{}", account.say(lang));
    }
    for found in &diagnosis.findings {
        let mark = mark(lang, found);
        let sentence = finding(lang, found, diagnosis.refused.as_ref());
        let _ = writeln!(text, "{mark}  {}: {sentence}", found.rule());
    }
    text += &list_of_ties(lang, diagnosis);
    if let Some(next) = diagnosis.next {
        let _ = writeln!(text, "{}", next.say(lang));
    }
    for line in &diagnosis.notes {
        let _ = writeln!(text, "{}  {}", harmless(lang), line.say(lang));
    }
    text += &claims::list(lang, &diagnosis.claims);
    if let Some(budget) = diagnosis.budget.as_ref().filter(|_| decides(diagnosis)) {
        let _ = writeln!(text, "{}", open::budget(lang, budget));
    }
    if !diagnosis.steps.is_empty() {
        text += &what_to_do(lang);
    }
    for (index, step) in diagnosis.steps.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", index + 1, step_text(lang, diagnosis, step));
        // A snapshot is recorded before it is read.
        let is_recorded_first = step.id == StepName::Remedy(Remedy::RecordSnapshot);
        let (first, last) = if is_recorded_first {
            (None, Some(&step.command))
        } else {
            (Some(&step.command), None)
        };
        let lines = first.into_iter().flatten().chain(&step.code);
        for line in lines.chain(last.into_iter().flatten()) {
            let _ = writeln!(text, "       {line}");
        }
    }
    text.push('\n');
    if let Some(cause) = diagnosis.findings.iter().find(|finding| finding.is_cause) {
        let _ = writeln!(text, "{}", more_on(lang, cause.rule()));
    }
    let DoNext { command, question } = &diagnosis.do_next;
    if let Some(command) = command {
        let _ = writeln!(text, "{}", now(lang, command));
    }
    if let Some(question) = question {
        let _ = writeln!(text, "{}", would_help(lang, question.say(lang)));
    }
    if command.is_none() && question.is_none() {
        let _ = writeln!(text, "{}", before_a_run(lang));
    }
    // Without a config nothing can be computed for nanoGPT; other stacks have no config to give.
    let takes_config = matches!(diagnosis.domain, Domain::NanoGpt | Domain::Unknown);
    let is_asked = *question == Some(Question::Config);
    if takes_config && context.config.is_none() && !is_asked {
        let _ = writeln!(text, "{}", config_helps(lang));
    }
    text
}

/// Tensors with the requested size. None are listed if the log names the tensor; those with the
/// same shape and dtype are one line.
fn list_of_ties(lang: Lang, diagnosis: &Diagnosis) -> String {
    let is_named = |f: &Finding| {
        let (Cause::LogitsAtThePeak { asked }
        | Cause::AttentionScores { asked }
        | Cause::MlpActivation { asked }
        | Cause::WeightShaped { asked }) = &f.cause
        else {
            return false;
        };
        f.certainty == Certainty::Certain || asked.line.is_some()
    };
    let mut text = String::new();
    if diagnosis.tensors.len() < 2 || diagnosis.findings.iter().any(is_named) {
        return text;
    }
    let mut shown: Vec<&CandidateTensor> = Vec::new();
    for tensor in &diagnosis.tensors {
        let is_alike =
            |other: &&&CandidateTensor| other.shape == tensor.shape && other.dtype == tensor.dtype;
        if !shown.iter().any(|other| is_alike(&other)) {
            shown.push(tensor);
        }
    }
    if shown.len() < 2 {
        return text;
    }
    let _ = writeln!(text, "{}", ties(lang));
    for tensor in shown.iter().take(MAX_TENSORS) {
        let _ = writeln!(text, "  {}", tensor.say(lang));
    }
    let rest = shown.len().saturating_sub(MAX_TENSORS);
    if rest > 0 {
        let _ = writeln!(text, "  {}", more(lang, rest));
    }
    text
}

/// Whether the budget is the reason of a finding.
fn decides(diagnosis: &Diagnosis) -> bool {
    let is_it = |cause: &Cause| {
        matches!(cause, Cause::StaticStateTooLarge { .. } | Cause::WeightsTooLarge { .. })
    };
    diagnosis.findings.iter().any(|f| f.is_cause && is_it(&f.cause))
}

/// The sentence of a step.
pub fn step_text(lang: Lang, diagnosis: &Diagnosis, step: &Step) -> String {
    let text = match step.id {
        StepName::Remedy(remedy) => remedy.say(lang),
        StepName::Change(index) => {
            diagnosis.fixes.get(index).map_or_else(String::new, |fix| fix.say(lang))
        }
    };
    if step.is_safe { open::safe_mark(lang, text) } else { text }
}

/// Removes control characters: names and lines of code come from untrusted logs.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}
