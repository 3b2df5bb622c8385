//! # `loss-alone`
//!
//! `forward` returns the logits next to the loss. Compiled code then has two outputs, and
//! `loss.backward()` has no gradient for the first: autograd makes one, zeros as large as the
//! logits, and the backward may not overwrite the logits, because the caller has them. With
//! `(None, loss)` in training both are gone, and no number changes. (With 16-bit
//! types, PyTorch 2.12 and 2.13 keep a gradient next to the logits, and free the zeros only.)
//! Evaluation and sampling, which have no backward, get their logits as before.

use super::logits;
use crate::patch::{Anchor, edit::Site, python::PythonFile};

pub(in crate::patch) fn sites(train: &PythonFile<'_>, model: &PythonFile<'_>) -> Vec<Site> {
    vec![logits::unread(train), result(model)]
}

/// The last line of `forward`.
fn result(model: &PythonFile<'_>) -> Site {
    let is_forward = |&statement: &usize| {
        let is_method = model.statements[statement].parent.is_some();
        is_method && model.matches(statement, "def forward($$parameters)$$returns:").is_some()
    };
    for function in (0..model.statements.len()).filter(is_forward) {
        let is_alone = |s: usize| model.matches(s, "return None, $loss").is_some();
        if model.inside(function).any(is_alone) {
            return Site::Already;
        }
        let returned = model.children(Some(function)).find_map(|statement| {
            Some((statement, model.matches(statement, "return $logits, $loss")?))
        });
        let Some((statement, found)) = returned else { continue };
        let loss = model.text_of(found.gap("loss"));
        let unit = model.indent_of_block(function);
        let lines = [
            format!("if self.training and {loss} is not None:"),
            format!(
                "{unit}# returned logits would cost two more tensors of their size in the backward"
            ),
            format!("{unit}return None, {loss}"),
        ];
        return model.change([model.lines_before(statement, &lines)]);
    }
    model.missing(Anchor::Code("return logits, loss"))
}
