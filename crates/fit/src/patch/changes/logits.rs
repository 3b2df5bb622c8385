//! # `drop-stale-logits`
//!
//! `logits, loss = model(X, Y)` names the logits, and the name keeps them alive through the
//! update and the next evaluation, in addition to the next batch's. `_, loss = …` would not help:
//! `_` is a name like any other.

use std::ops::Range;

use super::estimate_loss;
use crate::patch::{Anchor, edit::Site, python::PythonFile};

pub(in crate::patch) fn sites(train: &PythonFile<'_>) -> Vec<Site> {
    let evaluation = estimate_loss(train);
    let is_loop = |&head: &usize| {
        let is_head = |pattern| train.matches(head, pattern).is_some();
        is_head("while $$condition:") || is_head("for $$names in $$values:")
    };
    let in_loop = train.children(None).filter(is_loop).find_map(|head| {
        let place = drop_in(train, head, None);
        (!matches!(place, Site::Missing(..))).then_some(place)
    });
    let in_evaluation = evaluation.map(|head| drop_in(train, head, Some(head)));
    vec![
        in_evaluation.unwrap_or(train.missing(Anchor::LogitsInEvaluation)),
        in_loop.unwrap_or(train.missing(Anchor::LogitsInLoop)),
    ]
}

const NAMED: &str = "$logits, $loss = model($$arguments)";

/// Nothing may read logits that the model no longer returns.
pub(super) fn unread(train: &PythonFile<'_>) -> Site {
    if are_read(train) { train.missing(Anchor::LogitsUnread) } else { Site::Already }
}

/// Whether anything in the file reads logits that the model returned.
fn are_read(train: &PythonFile<'_>) -> bool {
    let statements = 0..train.statements.len();
    let names = statements.clone().filter_map(|s| train.matches(s, NAMED));
    let mut names = names.map(|found| train.token(found.gap("logits").start));
    names.any(|name| is_read(train, statements.clone(), name))
}

/// Whether some statements use `name` other than to unpack the model's result.
fn is_read(train: &PythonFile<'_>, statements: Range<usize>, name: &str) -> bool {
    let is_named = |&statement: &usize| {
        let found = train.matches(statement, NAMED);
        found.is_some_and(|found| train.token(found.gap("logits").start) == name)
    };
    let unpacked = statements.clone().filter(is_named).count();
    name != "_" && train.mentions(tokens_of(train, statements), name) > unpacked
}

/// Drops the logits in the block of `head`. Names are looked up in `scope`, a function, or in the
/// whole file.
fn drop_in(train: &PythonFile<'_>, head: usize, scope: Option<usize>) -> Site {
    let missing = train.missing(if scope.is_some() {
        Anchor::LogitsInEvaluation
    } else {
        Anchor::LogitsInLoop
    });
    let statements = scope.map_or(0..train.statements.len(), |scope| train.inside(scope));
    let mut edits = Vec::new();
    for statement in train.inside(head) {
        let Some(found) = train.matches(statement, NAMED) else { continue };
        let logits = train.token(found.gap("logits").start);
        if is_read(train, statements.clone(), logits) {
            return missing;
        }
        let loss = train.text_of(found.gap("loss"));
        edits.push(train.replace(found.gap("logits").start..found.gap("loss").end, loss));
        edits.push(train.append(found.tokens.end - 1, "[1]"));
    }
    let is_dropped = |s: usize| train.matches(s, "$loss = model($$arguments)[1]").is_some();
    match edits.is_empty() {
        false => train.change(edits),
        true if train.inside(head).any(is_dropped) => Site::Already,
        true => missing,
    }
}

fn tokens_of(source: &PythonFile<'_>, statements: Range<usize>) -> Range<usize> {
    let first = source.statements.get(statements.start).map_or(0, |s| s.tokens.start);
    let last = source.statements[..statements.end].last().map_or(0, |s| s.tokens.end);
    first..last
}
