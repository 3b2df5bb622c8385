//! The weights that a config starts from determine its model, in every command.

use std::path::{Path, PathBuf};

use fitgpt_config::{ConfigValue, InitFrom, Key, Location, Written};
use fitgpt_run::pretrained::{self, DescribedWeights, MissingWeights, UnknownModel};
use fitgpt_say::Sentence;

use super::Failure;
use crate::words::train as words;

/// `written` with the keys of the weights that it starts from, if it names any. As in nanoGPT, the
/// weights' sizes override those of a config file; the config only sets `dropout` and `block_size`,
/// which must not exceed the positions of the weights. A key on the command line, or one that nanoGPT
/// does not have, must not contradict the weights. `preset` is a file that the user did not name: its
/// values count as defaults.
pub fn describe(mut written: Written, preset: Option<&str>) -> Result<Written, Failure> {
    let Some(ConfigValue::Str(name)) = written.get("init_from") else { return Ok(written) };
    let Some(InitFrom::Pretrained(name)) = InitFrom::parse(name) else { return Ok(written) };
    let weights = pretrained::describe(&name).map_err(|e| failure(&name, e))?;
    let described = &weights.description;
    let key = Key::find("block_size").expect("a key of the table");
    let place = written.place_of("block_size").map(|place| place.source.as_str());
    let is_asked_for = place.is_some() && place != preset;
    let block = match written.get("block_size").unwrap_or(&key.default) {
        ConfigValue::Int(block) => u32::try_from(*block).unwrap_or(u32::MAX),
        // Resolving the config reports the error.
        _ => return Ok(written),
    };
    if is_asked_for && block > described.positions {
        let message = words::block_too_long(block, &weights.place, described.positions);
        return Err(Failure::new("init-from", message));
    }
    check_against_weights(&written, &weights, preset)?;
    let block = block.min(described.positions);
    described.check_window(block).map_err(|error| {
        Failure::new("init-from", words::unsupported(&name, Sentence::about(&error)))
    })?;
    let block = [("block_size", block.into())];
    let source = format!("the weights in {}", weights.place);
    written.add_of_weights(&source, described.pairs().chain(block))?;
    Ok(written)
}

/// What is known of a published model that is not on this machine.
const SIZES: [&str; 9] = [
    "family",
    "n_layer",
    "n_head",
    "n_embd",
    "n_kv_head",
    "head_dim",
    "ffn_dim",
    "tie_embeddings",
    "vocab_size",
];

/// Refuses a key that contradicts the weights, if the user expects it to have an effect.
fn check_against_weights(
    written: &Written,
    weights: &DescribedWeights,
    preset: Option<&str>,
) -> Result<(), Failure> {
    for (key, there) in weights.description.pairs() {
        if !weights.is_complete && !SIZES.contains(&key) {
            continue;
        }
        let (Some(here), Some(place)) = (written.get(key), written.place_of(key)) else { continue };
        let is_presets = Some(place.source.as_str()) == preset;
        // nanoGPT takes its own keys from the weights, whatever a config file says.
        let is_nanogpts = Key::find(key).is_some_and(Key::is_nanogpt);
        let is_overridden = is_nanogpts && *place != Location::command_line();
        // 0 means that other keys decide.
        if *here == there || is_presets || is_overridden || *here == ConfigValue::Int(0) {
            continue;
        }
        let message = words::contradicts_weights(key, here, &weights.place, &there);
        return Err(Failure::new("init-from", message)
            .at(Sentence::about(place))
            .hint(words::weights_decide(key)));
    }
    Ok(())
}

/// The keys of the weights that `written` starts from, as text; none if it names no weights, or
/// weights that are not on this machine.
pub fn keys_if_known(written: &Written) -> Result<Vec<(&'static str, String)>, Failure> {
    let Some(ConfigValue::Str(name)) = written.get("init_from") else { return Ok(Vec::new()) };
    let Some(InitFrom::Pretrained(name)) = InitFrom::parse(name) else { return Ok(Vec::new()) };
    match pretrained::describe(&name) {
        Ok(weights) => {
            let pairs = weights.description.pairs();
            Ok(pairs.map(|(key, value)| (key, value.to_string())).collect())
        }
        Err(UnknownModel::Missing(_)) => Ok(Vec::new()),
        Err(unknown) => Err(failure(&name, unknown)),
    }
}

/// Why the model called `name` is unknown.
fn failure(name: &str, unknown: UnknownModel) -> Failure {
    match unknown {
        UnknownModel::Missing(not_here) => missing(name, &not_here),
        UnknownModel::Folder(error) => error.into(),
        UnknownModel::Published(error) => {
            Failure::new("init-from", words::unsupported(name, Sentence::about(&error)))
        }
    }
}

/// The failure if there are no weights: which folders were tried, and how to get them.
pub fn missing(name: &str, not_here: &MissingWeights) -> Failure {
    let quoted = |folder: &PathBuf| format!("`{}`", Path::display(folder));
    let folders: Vec<_> = not_here.looked_at.iter().map(quoted).collect();
    let failure = Failure::new("init-from", words::no_weights(name, folders.join(", ")));
    match &not_here.repository {
        Some(repository) => failure.hint(words::get_weights(repository)),
        None => failure,
    }
}
