//! `fitgpt patch`: a nanoGPT folder in, a diff out; with `--apply` the folder changed.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;

use super::{Answer, Failure, Reader};
use crate::{
    patch::{self, File, NotFound, Patch, Patched, folder},
    terminal,
    words::patch as said,
};

/// The command's arguments.
pub(super) fn command() -> Command {
    let line = |patch: &Patch| format!("  {:<18} {}", patch.name(), said::description(*patch));
    let list = Patch::ALL.iter().map(line).collect::<Vec<_>>().join("\n");
    Command::new("patch")
        .about("Lowers the memory of a nanoGPT folder that stays with PyTorch: prints a diff")
        .arg(
            Arg::new("NANOGPT_DIR")
                .required(true)
                .help("The folder with your train.py and model.py, edited or not"),
        )
        .arg(
            Arg::new("apply")
                .long("apply")
                .action(ArgAction::SetTrue)
                .help("Change the files, after a copy of each as .orig"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("NAME")
                .num_args(1..)
                .action(ArgAction::Append)
                .help("Only these patches"),
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

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
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
    let copies = if matches.get_flag("apply") {
        let texts: Vec<_> = changed.iter().map(|(file, _)| (*file, patched.text(*file))).collect();
        folder::write(path, &texts)?
    } else {
        Vec::new()
    };

    match reader {
        Reader::Programs => terminal::line(&json(&patched, &diff, &copies).to_string()),
        Reader::People => {
            terminal::out(&diff);
            terminal::err(&told(&patched, &copies));
        }
    }
    Ok(if patched.not_found.is_empty() { Answer::Yes } else { Answer::No })
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

/// What became of every patch, beside the diff.
fn told(patched: &Patched, copies: &[std::path::PathBuf]) -> String {
    let Patched { applied, already, not_found, .. } = patched;
    let mut lines = Vec::new();
    lines.extend(applied.iter().map(|patch| said::patched(patch, said::description(*patch))));
    lines.extend(already.iter().map(said::already));
    lines.extend(not_found.iter().map(|NotFound { patch, file, looked_for }| {
        said::not_found(patch, file, said::sought(*looked_for))
    }));
    lines.extend(copies.iter().map(|copy| said::file_before(copy.display())));
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}
