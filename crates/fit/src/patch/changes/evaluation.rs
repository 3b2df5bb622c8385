//! # `eval-batch-size`
//!
//! An evaluation with the training batch needs more memory than necessary: it saves nothing for a
//! backward pass, but it computes the full logits. With this patch `get_batch` takes its sizes as
//! arguments that default to those of training, and `estimate_loss` passes other ones.
//!
//! If the model is compiled, a second shape would make PyTorch compile it for dynamic shapes;
//! `dynamic=False` keeps one program per shape.

use super::{estimate_loss, key, top};
use crate::patch::{Anchor, edit::Site, python::PythonFile};

pub(in crate::patch) fn sites(train: &PythonFile<'_>) -> Vec<Site> {
    let batch = "0 # sequences of a batch in estimate_loss; 0: batch_size";
    let block = "0 # tokens of a sequence in estimate_loss; 0: block_size";
    vec![
        key(train, "eval_batch_size", batch, "eval_iters"),
        key(train, "eval_block_size", block, "eval_iters"),
        parameters(train),
        call(train),
        compile(train),
    ]
}

/// `def get_batch(split, batch_size=batch_size, block_size=block_size):`.
fn parameters(train: &PythonFile<'_>) -> Site {
    const HEAD: &str = "def get_batch($$parameters)$$returns:";
    let missing = train.missing(Anchor::GetBatch);
    let Some(function) = top(train, HEAD) else { return missing };
    // Defaults are evaluated at the definition: the command line must be read before it.
    if top(train, "config_keys = $$list").is_none_or(|keys| function < keys) {
        return missing;
    }
    let found = train.matches(function, HEAD).expect("just matched");
    let parameters = train.arguments(found.gap("parameters"));
    let has = |name| parameters.iter().any(|p| train.mentions(p.clone(), name) > 0);
    match (has("batch_size"), has("block_size")) {
        (true, true) => return Site::Already,
        (false, false) => {}
        _ => return missing,
    }
    let body = train.inside(function);
    let tokens = match (body.clone().next(), body.last()) {
        (Some(first), Some(last)) => {
            train.statements[first].tokens.start..train.statements[last].tokens.end
        }
        _ => return missing,
    };
    let is_read = |name| train.mentions(tokens.clone(), name) > 0;
    let has_stars = found.gap("parameters").any(|token| train.token(token).starts_with('*'));
    match parameters.last() {
        Some(last) if is_read("batch_size") && is_read("block_size") && !has_stars => {
            let added = ", batch_size=batch_size, block_size=block_size";
            train.change([train.append(last.end - 1, added)])
        }
        _ => missing,
    }
}

fn call(train: &PythonFile<'_>) -> Site {
    let call = estimate_loss(train).and_then(|function| {
        train.inside(function).find_map(|statement| train.find(statement, "get_batch($$arguments)"))
    });
    let Some(call) = call else {
        return train.missing(Anchor::EvaluationBatch);
    };
    let arguments = call.gap("arguments");
    if train.mentions(arguments.clone(), "eval_batch_size") > 0 {
        return Site::Already;
    }
    match train.arguments(arguments).last() {
        Some(last) => {
            let added = ", batch_size=eval_batch_size or batch_size, \
                         block_size=eval_block_size or block_size";
            train.change([train.append(last.end - 1, added)])
        }
        None => train.missing(Anchor::EvaluationBatch),
    }
}

/// Only if the model is compiled with PyTorch's own options.
fn compile(train: &PythonFile<'_>) -> Site {
    let mut statements = 0..train.statements.len();
    let found = statements.find_map(|statement| train.find(statement, "torch.compile($model)"));
    match found {
        Some(found) => train.change([train.append(found.gap("model").start, ", dynamic=False")]),
        None => Site::Already,
    }
}
