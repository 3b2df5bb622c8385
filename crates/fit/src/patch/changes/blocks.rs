//! # `checkpoint-blocks`
//!
//! With `grad_checkpoint` a block keeps only its input and is recomputed in the backward pass.
//! This saves activations, not logits; `chunked-loss` saves those.

use super::{field, hand_over, import_checkpoint, key, own_config};
use crate::patch::{Anchor, edit::Site, python::PythonFile};

pub(in crate::patch) fn sites(train: &PythonFile<'_>, model: &PythonFile<'_>) -> Vec<Site> {
    let value = "False # keep only the inputs of blocks, compute the rest again in backward";
    vec![
        key(train, "grad_checkpoint", value, "compile"),
        hand_over(train, "grad_checkpoint"),
        import_checkpoint(model),
        field(model, "grad_checkpoint", "bool = False # compute blocks again in backward"),
        own_config(model),
        blocks(model),
    ]
}

fn blocks(model: &PythonFile<'_>) -> Site {
    for head in 0..model.statements.len() {
        let Some(found) = model.matches(head, "for $block in self.transformer.h:") else {
            continue;
        };
        let block = model.text_of(found.gap("block"));
        let call = format!("$x = {block}($$arguments)");
        let again = format!("checkpoint({block}, $$arguments)");
        if model.inside(head).any(|statement| model.find(statement, &again).is_some()) {
            return Site::Already;
        }
        for statement in model.children(Some(head)) {
            let Some(found) = model.matches(statement, &call) else { continue };
            let arguments = model.arguments(found.gap("arguments"));
            let Some(last) = arguments.last() else { continue };
            let arguments = model.text_of(arguments[0].start..last.end);
            let (x, unit) = (model.text_of(found.gap("x")), model.indent_of_block(head));
            let mut lines = vec![
                "if self.config.grad_checkpoint and self.training:".to_owned(),
                format!("{unit}{x} = checkpoint({block}, {arguments}, use_reentrant=False)"),
                "else:".to_owned(),
            ];
            let old = model.unindented(model.statements[statement].lines.clone());
            lines.extend(old.iter().map(|line| format!("{unit}{line}")));
            return model.change([model.replace_lines(statement, &lines)]);
        }
    }
    model.missing(Anchor::Blocks)
}
