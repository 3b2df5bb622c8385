//! The text of a whole diagnosis: `fitgpt doctor`.

use std::fmt::Write as _;

use fitgpt_say::{Lang, Say as _};

use super::{
    before_a_run, config_helps, findings::finding, fixes_heading, harmless, in_one_unit, mark,
    more, more_on, now, ties, what_to_do, would_help,
};
use crate::{
    cause::Cause,
    diagnose::Context,
    diagnosis::{Diagnosis, DoNext, Finding},
    facts::{CandidateTensor, Certainty, Domain, MemoryKind},
    remedy::Question,
};

/// Maximum number of candidate tensors to print.
const MAX_TENSORS: usize = 4;
/// Maximum number of config changes to print.
const MAX_FIXES: usize = 4;

/// The diagnosis as text: verdict, account, causes, recommendations, next command.
pub fn text(lang: Lang, diagnosis: &Diagnosis, context: &Context) -> String {
    in_one_unit(|| plain(&whole(lang, diagnosis, context)))
}

fn whole(lang: Lang, diagnosis: &Diagnosis, context: &Context) -> String {
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
    if !diagnosis.advice.is_empty() {
        text += &what_to_do(lang);
    }
    for (index, advice) in diagnosis.advice.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", index + 1, advice.id.say(lang));
        for command in &advice.commands {
            let _ = writeln!(text, "       {command}");
        }
    }
    text += &changes(lang, diagnosis);
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

/// Config changes, each with its command.
fn changes(lang: Lang, diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    if !diagnosis.fixes.is_empty() {
        text += &fixes_heading(lang);
    }
    for fix in diagnosis.fixes.iter().take(MAX_FIXES) {
        let _ = write!(text, "  {}\n      {}\n", fix.command, fix.say(lang));
    }
    text
}

/// Removes control characters: names and lines of code come from untrusted logs.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}
