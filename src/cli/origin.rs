//! Weights that a config begins from decide what its model is, in every command alike.

use std::path::{Path, PathBuf};

use fitgpt_plan::config::{ConfigValue, InitFrom, Key, Written};

use super::Failure;
use crate::{
    run::pretrained::{self, NotHere, Unknown},
    words::{errors::Spoken as _, train as words},
};

/// `written` with the keys of the weights that it begins from, if it names any. As in nanoGPT,
/// the sizes of weights win over what a config says of the model; its own are `dropout` and
/// `block_size`, which is at most the positions there are. `preset` is a file that was not asked
/// for: its `block_size` is a default.
pub(super) fn describe(mut written: Written, preset: Option<&str>) -> Result<Written, Failure> {
    let Some(ConfigValue::Str(name)) = written.get("init_from") else { return Ok(written) };
    let Some(InitFrom::Pretrained(name)) = InitFrom::parse(name) else { return Ok(written) };
    let (described, place_of_weights) =
        pretrained::describe(&name).map_err(|e| failure(&name, e))?;
    let key = Key::find("block_size").expect("a key of the table");
    let place = written.place_of("block_size").map(|place| place.source.as_str());
    let is_asked_for = place.is_some() && place != preset;
    let block = match written.get("block_size").unwrap_or(&key.default) {
        ConfigValue::Int(block) => u32::try_from(*block).unwrap_or(u32::MAX),
        // Resolving the config reports it.
        _ => return Ok(written),
    };
    if is_asked_for && block > described.positions {
        let message = words::block_too_long(block, place_of_weights, described.positions);
        return Err(Failure::new("init-from", message));
    }
    let block = block.min(described.positions);
    described
        .check_window(block)
        .map_err(|error| Failure::new("init-from", words::unsupported(&name, error.spoken())))?;
    let block = [("block_size", block.into())];
    let source = format!("the weights in {place_of_weights}");
    written.merge(Written::from_pairs(&source, described.pairs().chain(block))?);
    Ok(written)
}

/// The keys of the weights that `written` begins from, as texts; none if it begins from nothing
/// or from weights that this machine does not know.
pub(super) fn keys_if_known(written: &Written) -> Result<Vec<(&'static str, String)>, Failure> {
    let Some(ConfigValue::Str(name)) = written.get("init_from") else { return Ok(Vec::new()) };
    let Some(InitFrom::Pretrained(name)) = InitFrom::parse(name) else { return Ok(Vec::new()) };
    match pretrained::describe(&name) {
        Ok((described, _)) => {
            Ok(described.pairs().map(|(key, value)| (key, value.to_string())).collect())
        }
        Err(Unknown::NotHere(_)) => Ok(Vec::new()),
        Err(unknown) => Err(failure(&name, unknown)),
    }
}

/// Why the model called `name` is unknown.
fn failure(name: &str, unknown: Unknown) -> Failure {
    match unknown {
        Unknown::NotHere(not_here) => missing(name, &not_here),
        Unknown::Folder(error) => error.into(),
        Unknown::Published(error) => {
            Failure::new("init-from", words::unsupported(name, error.spoken()))
        }
    }
}

/// There are no weights: which folders were tried, and how to get them.
pub(super) fn missing(name: &str, not_here: &NotHere) -> Failure {
    let quoted = |folder: &PathBuf| format!("`{}`", Path::display(folder));
    let folders: Vec<_> = not_here.looked_at.iter().map(quoted).collect();
    let failure = Failure::new("init-from", words::no_weights(name, folders.join(", ")));
    match &not_here.repository {
        Some(repository) => failure.hint(words::get_weights(repository)),
        None => failure,
    }
}
