//! # `gradscaler`
//!
//! `torch.cuda.amp.GradScaler` is deprecated; the current one takes its device as an argument.

use crate::patch::{
    Anchor,
    edit::{Site, SourceEdit},
    python::PythonFile,
};

pub(in crate::patch) fn sites(train: &PythonFile<'_>) -> Vec<Site> {
    const LOOKED_FOR: Anchor = Anchor::Code("torch.cuda.amp.GradScaler(…)");
    let statements = || 0..train.statements.len();
    let edits: Vec<_> = statements().flat_map(|statement| edits(train, statement)).collect();
    let is_current = |s| train.find(s, "torch.amp.GradScaler($$arguments)").is_some();
    let place = match edits.is_empty() {
        false => train.change(edits),
        true if statements().any(is_current) => Site::Already,
        true => train.missing(LOOKED_FOR),
    };
    vec![place]
}

fn edits(train: &PythonFile<'_>, statement: usize) -> Vec<SourceEdit> {
    let Some(found) = train.find(statement, "torch.cuda.amp.GradScaler($$arguments)") else {
        return Vec::new();
    };
    let arguments = found.gap("arguments");
    let device = if arguments.is_empty() { "'cuda'" } else { "'cuda', " };
    vec![
        train.replace(found.tokens.start..arguments.start - 1, "torch.amp.GradScaler"),
        train.append(arguments.start - 1, device),
    ]
}
