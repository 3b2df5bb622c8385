//! # `chunked-loss`
//!
//! The logits of a batch, their softmax and its gradient are the largest tensors of a step. This
//! patch computes head and loss for some rows at a time, and again in the backward pass, so that no
//! tensor ever holds all rows. The loss is the same up to rounding.
//!
//! The head's weights are passed as a view: autocast caches one half-precision copy of a parameter
//! for a whole pass, so the gradients of all chunks would be summed in half precision. For a view
//! it makes one copy per chunk, and the sum is in float32.

use std::ops::Range;

use super::{field, hand_over, import_checkpoint, key, logits, own_config};
use crate::patch::{
    Anchor,
    edit::{Site, SourceEdit},
    python::PythonFile,
};

pub(in crate::patch) fn sites(train: &PythonFile<'_>, model: &PythonFile<'_>) -> Vec<Site> {
    let rows = "0 # rows of logits that exist at a time; 0: all of a batch";
    vec![
        key(train, "loss_chunk_rows", rows, "compile"),
        hand_over(train, "loss_chunk_rows"),
        import_checkpoint(model),
        field(model, "loss_chunk_rows", "int = 0 # rows of logits at a time; 0: all of a batch"),
        own_config(model),
        logits::unread(train),
        head(model),
        branch(model),
    ]
}

/// The head must have no bias: the chunks use only its weights.
fn head(model: &PythonFile<'_>) -> Site {
    let is_head = |statement| {
        let found = model.matches(statement, "self.lm_head = $$module.Linear($$arguments)")?;
        let mut arguments = model.arguments(found.gap("arguments")).into_iter();
        arguments.find_map(|argument| model.matches_tokens(argument, "bias=False"))
    };
    let found = (0..model.statements.len()).find_map(is_head);
    if found.is_some() {
        Site::Already
    } else {
        model.missing(Anchor::Code("self.lm_head = nn.Linear(…, bias=False)"))
    }
}

fn branch(model: &PythonFile<'_>) -> Site {
    let mut statements = 0..model.statements.len();
    if statements.any(|statement| model.find(statement, "self.chunked_loss($$a)").is_some()) {
        return Site::Already;
    }
    let edits = (0..model.statements.len()).find_map(|statement| edits(model, statement));
    edits.map_or(model.missing(Anchor::LossBranch), |edits| model.change(edits))
}

/// The edits if `branch` computes the loss in exactly the form that the chunks rely on.
fn edits(model: &PythonFile<'_>, branch: usize) -> Option<Vec<SourceEdit>> {
    let found = model.matches(branch, "if $targets is not None:")?;
    let function = model.statements[branch].parent?;
    model.matches(function, "def forward($$parameters)$$returns:")?;
    let class = model.statements[function].parent?;
    let targets = model.text_of(found.gap("targets"));

    let children: Vec<_> = model.children(Some(branch)).collect();
    let &[head, loss] = children.as_slice() else { return None };
    let head = model.matches(head, "$logits = self.lm_head($x)")?;
    let loss = model.matches(loss, "$loss = $$module.cross_entropy($$arguments)")?;
    let logits = model.text_of(head.gap("logits"));
    let arguments = model.arguments(loss.gap("arguments"));
    let (rows, wanted) = (arguments.first()?.clone(), arguments.get(1)?.clone());
    if !is_all_rows(model, rows, logits) || !is_flat(model, wanted, targets) {
        return None;
    }
    let ignored = match &arguments[2..] {
        [] => "-100", // PyTorch's
        [only] => {
            let found = model.matches_tokens(only.clone(), "ignore_index=$$value")?;
            model.text_of(found.gap("value"))
        }
        _ => return None,
    };

    let (x, loss_name) = (model.text_of(head.gap("x")), model.text_of(loss.gap("loss")));
    let unit = model.indent_of_block(branch);
    let lines = [
        format!("if {targets} is not None and self.config.loss_chunk_rows > 0:"),
        format!("{unit}# some rows at a time: no tensor holds the logits of the whole batch"),
        format!("{unit}{logits}, {loss_name} = None, self.chunked_loss({x}, {targets})"),
    ];
    let module = model.text_of(loss.gap("module"));
    let method = method(module, ignored, model.indent_of_block(class));
    Some(vec![
        model.lines_before(first_decorator(model, function), &method),
        model.lines_before(branch, &lines),
        model.replace(found.tokens.start..found.tokens.start + 1, "elif"),
    ])
}

/// `logits`, flattened to rows, all of them.
fn is_all_rows(model: &PythonFile<'_>, argument: Range<usize>, logits: &str) -> bool {
    let forms = [
        format!("{logits}.view(-1, {logits}.size(-1))"),
        format!("{logits}.view(-1, {logits}.shape[-1])"),
        format!("{logits}.reshape(-1, {logits}.size(-1))"),
        format!("{logits}.reshape(-1, {logits}.shape[-1])"),
        format!("{logits}.flatten(0, 1)"),
    ];
    forms.iter().any(|form| model.matches_tokens(argument.clone(), form).is_some())
}

fn is_flat(model: &PythonFile<'_>, argument: Range<usize>, targets: &str) -> bool {
    let forms = ["view(-1)", "reshape(-1)", "flatten()"].map(|call| format!("{targets}.{call}"));
    forms.iter().any(|form| model.matches_tokens(argument.clone(), form).is_some())
}

/// The first of the lines that start with `@` above a function.
fn first_decorator(source: &PythonFile<'_>, function: usize) -> usize {
    let is_decorator = |s: &usize| source.token(source.statements[*s].tokens.start) == "@";
    (0..function).rev().take_while(is_decorator).last().unwrap_or(function)
}

fn method(module: &str, ignored: &str, unit: &str) -> Vec<String> {
    let lines = [
        "def chunked_loss(self, x, targets):".to_owned(),
        ">x, targets = x.reshape(-1, x.size(-1)), targets.reshape(-1)".to_owned(),
        ">weight = self.lm_head.weight".to_owned(),
        ">def loss_of(rows, wanted):".to_owned(),
        ">># a view, so that autocast makes a copy a chunk and gradients are summed in float32"
            .to_owned(),
        format!(">>logits = {module}.linear(rows, weight.view(weight.shape))"),
        format!(
            ">>return {module}.cross_entropy(logits, wanted, ignore_index={ignored}, \
             reduction='sum')"
        ),
        ">n, total = self.config.loss_chunk_rows, 0.0".to_owned(),
        ">for rows, wanted in zip(x.split(n), targets.split(n)):".to_owned(),
        ">># keeps no logits for the backward pass: they are computed again there".to_owned(),
        ">>total = total + checkpoint(loss_of, rows, wanted, use_reentrant=False, \
         preserve_rng_state=False)"
            .to_owned(),
        format!(">return total / (targets != {ignored}).sum()"),
        String::new(),
    ];
    lines.map(|line| line.replace('>', unit)).into()
}
