//! The doctor on the page: what `doctor --json` prints, plus the texts that the page shows, the
//! parts of a snapshot, and the values for the planner.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read},
    path::Path,
    sync::Arc,
};

use fitgpt_commands::doctor::{self, DoctorInput, InputLimits, RunFacts};
use fitgpt_config::{Config, Written};
use fitgpt_doctor::{
    Diagnosis, MemoryKind, Snapshot, StepName, diagnose as examine, explain, finding, in_one_unit,
    mark, plain, step_text, ties,
};
use fitgpt_files::formats::compression;
use fitgpt_serve::refuse;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    error::ApiError,
    planner,
    work::{WorkPermit, WorkPermits},
};
use crate::words::{Lang, Say as _, lang};

/// The most bytes of a log or snapshot; `fitgpt doctor FILE` reads larger ones.
pub(super) const MAX_BODY_BYTES: u64 = 64 << 20;
/// The most bytes of the first line of a body.
const MAX_HEAD_BYTES: u64 = 1 << 20;

/// Limits of an uploaded input. A container takes about 100 bytes, and a megabyte of nothing but
/// errors about 0.1 s.
const LIMITS: InputLimits =
    InputLimits { log_bytes: 32 << 20, snapshot_bytes: 256 << 20, containers: 2_000_000 };
/// Of a longer log, only the beginning and the end are read: the config is printed first, the error
/// last.
const LOG_HEAD_BYTES: usize = 1 << 20;
const LOG_TAIL_BYTES: usize = 15 << 20;

/// The first line of a body: what the user knows in addition to the log.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFacts {
    /// The text of a config file.
    #[serde(default)]
    config: String,
    /// A card by its name.
    #[serde(default)]
    gpu: Option<String>,
}

/// Diagnoses a body: one line of JSON, then the log or the snapshot as it is.
///
/// `uploads` allows one at a time: a snapshot takes more memory than anything else, and a few
/// compressed kilobytes may expand to 100 MiB. If the body is large, the caller has acquired it.
pub(super) fn diagnose(
    body: &mut dyn Read,
    upload: Option<WorkPermit>,
    uploads: &Arc<WorkPermits>,
    permits: &Arc<WorkPermits>,
) -> Result<Value, ApiError> {
    let mut body = BufReader::with_capacity(64 << 10, body);
    let mut head = Vec::new();
    let late = |_: io::Error| refuse(408, "the body did not arrive");
    (&mut body).take(MAX_HEAD_BYTES).read_until(b'\n', &mut head).map_err(late)?;
    let known: UserFacts =
        serde_json::from_slice(&head).map_err(|_| refuse(400, "the first line is not JSON"))?;
    // Before a permit is acquired: a slow client must not hold one.
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes).map_err(late)?;
    let _upload = match upload {
        None if !is_log(&bytes) => Some(uploads.take()?),
        other => other,
    };
    let _permit = permits.take()?;

    let facts = RunFacts {
        config: Some(("config.py", known.config.as_str()))
            .filter(|_| !known.config.trim().is_empty()),
        gpu: known.gpu.as_deref().filter(|name| !name.is_empty()),
        ..RunFacts::default()
    };
    // Without the keys of weights: the page must not reveal which are on this machine.
    let context = facts.context(&[])?;
    let (head, tail) = ends(&bytes);
    let input = doctor::read(&mut head.chain(tail), Path::new("the upload"), LIMITS)?;
    drop(bytes);
    let snapshot = match &input {
        DoctorInput::Log(_) => Value::Null,
        DoctorInput::Snapshot(snapshot) => json!({
            "allocated_bytes": snapshot.allocated_bytes,
            "reserved_bytes": snapshot.reserved_bytes,
            "largest_free_bytes": snapshot.largest_piece_bytes,
            "owners": snapshot.owners,
            "segments": snapshot.segments,
        }),
    };
    let diagnosis = examine(&input.into_log(), &context);
    let mut answer =
        json!({ "diagnosis": doctor::document(&diagnosis, lang()), "snapshot": snapshot });
    answer["texts"] = in_one_unit(|| texts(lang(), &diagnosis));
    answer["planner"] = json!({
        "keys": diagnosis.config.as_ref().map(written_keys),
        "gpu": context.gpu.map(|gpu| gpu.name),
        "total_bytes": diagnosis.facts.total.map(|size| size.bytes),
    });
    Ok(answer)
}

/// Whether these bytes are a plain log: not a snapshot and not compressed, so reading them takes no
/// more memory than they have.
fn is_log(bytes: &[u8]) -> bool {
    !Snapshot::is_one(bytes) && !compression::is_compressed(bytes)
}

/// The beginning and the end of a log, in whole lines. Snapshots and compressed input are returned
/// whole, as the beginning.
fn ends(bytes: &[u8]) -> (&[u8], &[u8]) {
    if !is_log(bytes) || bytes.len() <= LOG_HEAD_BYTES + LOG_TAIL_BYTES {
        return (bytes, &[]);
    }
    let (head, tail) = (&bytes[..LOG_HEAD_BYTES], &bytes[bytes.len() - LOG_TAIL_BYTES..]);
    let is_end = |byte: &u8| *byte == b'\n';
    let head = head.iter().rposition(is_end).map_or(head, |end| &head[..=end]);
    let tail = tail.iter().position(is_end).map_or(tail, |end| &tail[end + 1..]);
    (head, tail)
}

/// The texts of a diagnosis, in the order of `fitgpt doctor`.
fn texts(lang: Lang, diagnosis: &Diagnosis) -> Value {
    let findings = diagnosis.findings.iter().map(|found| {
        json!({
            "rule": found.rule(),
            "is_cause": found.is_cause,
            "mark": mark(lang, found),
            "text": plain(&finding(lang, found, diagnosis.refused.as_ref())),
        })
    });
    let steps = diagnosis.steps.iter().map(|step| {
        let change = match step.id {
            StepName::Change(index) => diagnosis.fixes.get(index),
            StepName::Remedy(_) => None,
        };
        let apply = change.map(|fix| -> BTreeMap<_, _> {
            fix.changes.iter().map(|(key, value)| (*key, planner::plain(value))).collect()
        });
        let text = plain(&step_text(lang, diagnosis, step));
        let verdict = change.map(|fix| fix.verdict);
        json!({ "text": text, "command": step.command, "code": step.code, "apply": apply, "verdict": verdict })
    });
    let is_gpu = diagnosis.kind == MemoryKind::GpuMemory;
    let notes = diagnosis.notes.iter().map(|line| line.say(lang));
    json!({
        "kind": diagnosis.kind.say(lang),
        "phase": is_gpu.then(|| diagnosis.phase.say(lang)),
        "parts": diagnosis.account.as_ref().map(|account| {
            account.parts.iter().map(|part| plain(&part.name.say(lang))).collect::<Vec<_>>()
        }),
        "findings": findings.collect::<Vec<_>>(),
        "tensors": diagnosis.tensors.iter().take(6).map(|it| plain(&it.say(lang))).collect::<Vec<_>>(),
        "ties": ties(lang),
        "next": diagnosis.next.map(|next| next.say(lang)),
        "notes": notes.collect::<Vec<_>>(),
        "steps": steps.collect::<Vec<_>>(),
        "command": diagnosis.do_next.command,
        "question": diagnosis.do_next.question.map(|question| question.say(lang)),
    })
}

/// The keys in which `config` differs from nanoGPT's defaults.
fn written_keys(config: &Config) -> BTreeMap<&'static str, String> {
    let default = Written::new().resolve().expect("the defaults are a config");
    let both = config.pairs().into_iter().zip(default.pairs());
    let is_shown = |key: &str| !matches!(key, "out_dir" | "dataset" | "init_from" | "device");
    both.filter(|((key, own), (_, default))| own != default && is_shown(key))
        .map(|((key, own), _)| (key, planner::plain(&own)))
        .collect()
}

/// The page of a rule or of a claim.
pub(super) fn page(topic: &str) -> Option<Value> {
    let page = explain(topic, lang())?;
    Some(json!({ "topic": topic, "text": page.trim_end() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_read_in_whole_lines_at_both_ends() {
        let line = b"step 1: loss 3.0\n";
        let long = line.repeat((LOG_HEAD_BYTES + 2 * LOG_TAIL_BYTES) / line.len());
        let long = [b"first\n", &long[..], b"last\n"].concat();
        let (head, tail) = ends(&long);
        assert!(head.starts_with(b"first\n") && head.ends_with(line));
        assert!(tail.starts_with(line) && tail.ends_with(b"last\n"));
        assert!(head.len() + tail.len() <= LOG_HEAD_BYTES + LOG_TAIL_BYTES);
        // Without lines it is cut anywhere; a snapshot and compressed bytes are never cut.
        let flat = vec![b'x'; 40 << 20];
        assert_eq!(ends(&flat).1.len(), LOG_TAIL_BYTES);
        for start in [&b"\x80\x02"[..], b"\x1f\x8b", b""] {
            let length = if start.is_empty() { 100 } else { 40 << 20 };
            let bytes = [start, &vec![b'x'; length][..]].concat();
            assert_eq!(ends(&bytes), (&bytes[..], &[][..]));
        }
    }
}
