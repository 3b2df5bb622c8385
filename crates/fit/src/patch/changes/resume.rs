//! # `checkpoint-to-cpu`
//!
//! Resuming with `map_location=device` puts a second set of weights and a second optimizer state
//! on the card, and the name `state_dict` keeps the weights there until the run ends. Loaded into
//! host memory they never use the card.

use crate::patch::{Anchor, edit::Site, python::PythonFile};

pub(in crate::patch) fn sites(train: &PythonFile<'_>) -> Vec<Site> {
    vec![load(train), weights(train), checkpoint(train)]
}

fn load(train: &PythonFile<'_>) -> Site {
    let missing = train.missing(Anchor::Code("checkpoint = torch.load(…)"));
    let loads = |s| train.matches(s, "checkpoint = torch.load($$arguments)");
    let Some(found) = (0..train.statements.len()).find_map(loads) else { return missing };
    let arguments = train.arguments(found.gap("arguments"));
    let mut locations = arguments
        .iter()
        .filter_map(|argument| train.matches_tokens(argument.clone(), "map_location=$$where"));
    match (locations.next(), arguments.last()) {
        (Some(location), _) if train.matches_tokens(location.gap("where"), "'cpu'").is_some() => {
            Site::Already
        }
        (Some(location), _) => train.change([train.replace(location.gap("where"), "'cpu'")]),
        (None, Some(last)) => train.change([train.append(last.end - 1, ", map_location='cpu'")]),
        (None, None) => missing,
    }
}

/// After `model.load_state_dict(state_dict)`, if the weights have a name.
fn weights(train: &PythonFile<'_>) -> Site {
    let loads = |&s: &usize| train.matches(s, "model.load_state_dict($$weights)").is_some();
    let Some(load) = (0..train.statements.len()).find(loads) else {
        return train.missing(Anchor::Code("model.load_state_dict(state_dict)"));
    };
    let Some(found) = train.matches(load, "model.load_state_dict($name)") else {
        return Site::Already; // an expression: only the checkpoint refers to it
    };
    let name = train.text_of(found.gap("name"));
    if is_freed(train, name, load) {
        return Site::Already;
    }
    let line = format!("{name} = checkpoint['model'] = None # the model has its own copy");
    train.change([train.lines_after(load, &[line])])
}

fn checkpoint(train: &PythonFile<'_>) -> Site {
    const LOOKED_FOR: Anchor = Anchor::Code("optimizer.load_state_dict(checkpoint['optimizer'])");
    let loads = |s: &usize| train.matches(*s, "optimizer.load_state_dict($$state)").is_some();
    let Some(load) = (0..train.statements.len()).find(loads) else {
        return train.missing(LOOKED_FOR);
    };
    if is_freed(train, "checkpoint", load) {
        return Site::Already;
    }
    train.change([train.lines_after(load, &["checkpoint = None # free up memory"])])
}

/// Whether a name is deleted or reassigned after a statement.
fn is_freed(train: &PythonFile<'_>, name: &str, after: usize) -> bool {
    let patterns = [format!("{name} = $$others None"), format!("del {name}")];
    let mut later = after..train.statements.len();
    later.any(|s| patterns.iter().any(|pattern| train.matches(s, pattern).is_some()))
}
