//! `fitgpt patch`: prints a diff for a nanoGPT folder; `--apply` changes the folder.

use std::{path::Path, sync::LazyLock};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_commands::Failure;
use fitgpt_fit::patch::{self, File, NotFound, Patch, Patched, folder};
use serde_json::json;

use super::{Outcome, OutputStyle, args::SuggestedValues};
use crate::{
    terminal,
    words::{names, patch as words},
};

/// What shells complete after `--only`.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| Patch::ALL.iter().map(|patch| patch.name().to_owned()).collect());

/// The command's arguments.
pub(super) fn command() -> Command {
    let line = |patch: &Patch| format!("  {:<18} {}", patch.name(), words::description(*patch));
    let list = Patch::ALL.iter().map(line).collect::<Vec<_>>().join("\n");
    Command::new("patch")
        .about("Prints a diff that lowers the memory of your nanoGPT under PyTorch")
        .arg(
            Arg::new("NANOGPT_DIR")
                .required(true)
                .help("Patch the train.py and model.py in this folder, edited or not"),
        )
        .arg(
            Arg::new("apply")
                .long("apply")
                .action(ArgAction::SetTrue)
                .help("Change the files; a copy of each is kept as .orig"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("NAME")
                .num_args(1..)
                .action(ArgAction::Append)
                .value_parser(SuggestedValues(&NAMES))
                .hide_possible_values(true)
                .help("Make only these patches"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON document instead of text"),
        )
        .after_help(format!(
            "Patches:\n{list}\n\nExamples:\n  fitgpt patch nanoGPT\n  \
             fitgpt patch nanoGPT | patch -p1 -d nanoGPT\n  \
             fitgpt patch nanoGPT --apply --only eval-batch-size save-before-eval"
        ))
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let path = Path::new(matches.get_one::<String>("NANOGPT_DIR").expect("clap requires it"));
    let only = matches.get_many::<String>("only").map(|names| {
        let patches = names.map(|name| patch::named(name));
        patches.collect::<Result<Vec<Patch>, _>>()
    });
    let only = only.transpose()?;
    let (train, model) = (folder::read(path, File::Train)?, folder::read(path, File::Model)?);
    let patched = patch::apply(&train, &model, only.as_deref())?;

    let changed = |&(file, before): &(File, &str)| patched.text(file) != before;
    let before = [(File::Train, train.as_str()), (File::Model, model.as_str())];
    let changed: Vec<_> = before.into_iter().filter(changed).collect();
    let diffs = changed
        .iter()
        .map(|(file, before)| patch::unified_diff(file.name(), before, patched.text(*file)));
    let diff: String = diffs.collect();
    let is_applied = matches.get_flag("apply");
    let copies = if is_applied {
        let texts: Vec<_> = changed.iter().map(|(file, _)| (*file, patched.text(*file))).collect();
        folder::write(path, &texts)?
    } else {
        Vec::new()
    };

    match style {
        OutputStyle::Json => terminal::json(&json(&patched, &diff, &copies)),
        OutputStyle::Text => {
            terminal::out(&diff);
            terminal::err(&summary(&patched, &copies));
            let names = only.as_deref().unwrap_or_default();
            terminal::err(&next(path, &patched, names, is_applied));
        }
    }
    Ok(if patched.not_found.is_empty() { Outcome::Yes } else { Outcome::No })
}

fn json(patched: &Patched, diff: &str, copies: &[std::path::PathBuf]) -> serde_json::Value {
    let names = |patches: &[Patch]| patches.iter().map(|patch| patch.name()).collect::<Vec<_>>();
    let not_found = patched.not_found.iter().map(|NotFound { patch, file, looked_for }| {
        json!({ "patch": patch.name(), "file": file.name(), "looked_for": looked_for.to_string() })
    });
    json!({
        "applied": names(&patched.applied),
        "already": names(&patched.already),
        "not_found": not_found.collect::<Vec<_>>(),
        "diff": diff,
        "copies": copies.iter().map(|copy| copy.display().to_string()).collect::<Vec<_>>(),
    })
}

/// What happened to every patch.
fn summary(patched: &Patched, copies: &[std::path::PathBuf]) -> String {
    let Patched { applied, already, not_found, .. } = patched;
    let mut lines = Vec::new();
    lines.extend(applied.iter().map(|patch| words::patched(patch, words::description(*patch))));
    lines.extend(already.iter().map(words::already));
    lines.extend(not_found.iter().map(|NotFound { patch, file, looked_for }| {
        words::not_found(patch, file, words::anchor(*looked_for))
    }));
    lines.extend(copies.iter().map(|copy| words::backup(copy.display())));
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// The command to run next: the one that applies the diff, or the training with the patches' keys.
fn next(path: &Path, patched: &Patched, only: &[Patch], is_applied: bool) -> String {
    if !patched.applied.is_empty() && !is_applied {
        let names: String = only.iter().flat_map(|patch| [" ", patch.name()]).collect();
        let only = if only.is_empty() { String::new() } else { format!(" --only{names}") };
        let command = format!("fitgpt patch {} --apply{only}", path.display());
        return format!("{}  ({})\n", names::next(command), words::applies());
    }
    let present = patched.applied.iter().chain(&patched.already);
    let keys: String = present.filter_map(|patch| key(*patch)).flat_map(|key| [" ", key]).collect();
    if patched.applied.is_empty() && patched.already.is_empty() {
        return String::new();
    }
    let command = format!("cd {} && python train.py CONFIG.py{keys}", path.display());
    let note = if keys.is_empty() { String::new() } else { words::keys_are_off() + "\n" };
    format!("{}\n{note}", names::next(command))
}

/// The key that turns a patch on, for patches that are off by default.
const fn key(patch: Patch) -> Option<&'static str> {
    match patch {
        Patch::EvalBatchSize => Some("--eval_batch_size=4"),
        Patch::ChunkedLoss => Some("--loss_chunk_rows=512"),
        Patch::CheckpointBlocks => Some("--grad_checkpoint=True"),
        Patch::LossAlone
        | Patch::DropStaleLogits
        | Patch::CheckpointToCpu
        | Patch::SaveBeforeEval
        | Patch::GradScaler => None,
    }
}
