//! The changes of each patch, one file per patch, and the sites that several of them share.

pub(super) mod blocks;
pub(super) mod evaluation;
pub(super) mod logits;
pub(super) mod alone;
pub(super) mod loss;
pub(super) mod resume;
pub(super) mod save;
pub(super) mod scaler;

use super::{Anchor, edit::Site, python::PythonFile};

/// A statement at the top of a file.
fn top(source: &PythonFile<'_>, pattern: &str) -> Option<usize> {
    source.children(None).find(|&statement| source.matches(statement, pattern).is_some())
}

/// The function `estimate_loss`.
fn estimate_loss(train: &PythonFile<'_>) -> Option<usize> {
    top(train, "def estimate_loss($$parameters)$$returns:")
}

/// A key of the configuration: an assignment at the top of `train.py`, before `config_keys`
/// collects them. `near` is the key to insert it after.
fn key(train: &PythonFile<'_>, name: &str, value: &str, near: &str) -> Site {
    let Some(end) = top(train, "config_keys = $$list") else {
        return train.missing(Anchor::ConfigKeys);
    };
    let keys = || train.children(None).take_while(|&statement| statement < end);
    let assigns = |name: &str| {
        let pattern = format!("{name} = $$value");
        keys().find(|&statement| train.matches(statement, &pattern).is_some())
    };
    if assigns(name).is_some() {
        return Site::Already;
    }
    let last = || keys().filter(|&key| train.matches(key, "$key = $$value").is_some()).last();
    match assigns(near).or_else(last) {
        Some(anchor) => {
            let line = format!("{name} = {value}");
            train.change([train.lines_after(anchor, &[line])])
        }
        None => train.missing(Anchor::Default),
    }
}

/// A field of `GPTConfig`.
fn field(model: &PythonFile<'_>, name: &str, default: &str) -> Site {
    let class = top(model, "class GPTConfig$$bases:");
    let Some(class) = class else {
        return model.missing(Anchor::GptConfig);
    };
    let mut fields = model.children(Some(class));
    if fields.any(|field| model.matches(field, &format!("{name}: $$rest")).is_some()) {
        return Site::Already;
    }
    let with_default = |&field: &usize| model.matches(field, "$name: $$type = $$value").is_some();
    match model.children(Some(class)).filter(with_default).last() {
        Some(last) => {
            let line = format!("{name}: {default}");
            model.change([model.lines_after(last, &[line])])
        }
        None => model.missing(Anchor::GptConfig),
    }
}

/// Passes a key of `train.py` to the model. Not through `model_args`: those are stored in the
/// checkpoint, which a `model.py` without the field could then not read.
fn hand_over(train: &PythonFile<'_>, name: &str) -> Site {
    if top(train, &format!("model.config.{name} = $$value")).is_some() {
        return Site::Already;
    }
    let moved = top(train, "model.to($$device)").or_else(|| top(train, "model = model.to($$d)"));
    match moved {
        Some(moved) => {
            let line = format!("model.config.{name} = {name}");
            train.change([train.lines_before(moved, &[line])])
        }
        None => train.missing(Anchor::ToDevice),
    }
}

/// `from torch.utils.checkpoint import checkpoint` in `model.py`.
fn import_checkpoint(model: &PythonFile<'_>) -> Site {
    const LINE: &str = "from torch.utils.checkpoint import checkpoint";
    if top(model, LINE).is_some() {
        return Site::Already;
    }
    let is_import = |&statement: &usize| {
        let first = model.token(model.statements[statement].tokens.start);
        first == "import" || first == "from"
    };
    match model.children(None).filter(is_import).last() {
        Some(last) => model.change([model.lines_after(last, &[LINE])]),
        None => model.missing(Anchor::ImportTorch),
    }
}

/// `self.config`, from which a model reads its keys.
fn own_config(model: &PythonFile<'_>) -> Site {
    let mut statements = 0..model.statements.len();
    if statements.any(|statement| model.matches(statement, "self.config = config").is_some()) {
        Site::Already
    } else {
        model.missing(Anchor::SelfConfig)
    }
}
