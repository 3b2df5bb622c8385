//! `fitgpt export`: a model as a file of another program.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;

use super::{Answer, Failure, Reader, plan};
use crate::{
    export::{self, gguf::GgufType},
    terminal,
    words::export as words,
};

pub(super) fn command() -> Command {
    Command::new("export")
        .about("Writes a model as a file of another program: GGUF for llama.cpp")
        .arg(Arg::new("FOLDER").required(true).help("A run's out_dir, or a folder of weights"))
        .arg(
            Arg::new("to")
                .long("to")
                .required(true)
                .value_name("FORMAT")
                .value_parser(["gguf"])
                .help("The format"),
        )
        .arg(Arg::new("out").long("out").required(true).value_name("FILE").help("The file"))
        .arg(
            Arg::new("type")
                .long("type")
                .value_name("TYPE")
                .value_parser(["f32", "f16", "q8_0"])
                .default_value("f16")
                .help("How matrices are stored"),
        )
        .arg(
            Arg::new("overwrite")
                .long("overwrite")
                .action(ArgAction::SetTrue)
                .help("Replace a file that is there"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON document instead of text"),
        )
        .after_help(
            "Example:\n  fitgpt export out-stories --to gguf --type q8_0 --out stories.gguf",
        )
}

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let path = |name| Path::new(matches.get_one::<String>(name).expect("clap asks for it"));
    let (folder, out) = (path("FOLDER"), path("out"));
    let dtype = match matches.get_one::<String>("type").map(String::as_str) {
        Some("f32") => GgufType::F32,
        Some("q8_0") => GgufType::Q8,
        _ => GgufType::F16,
    };
    let exported = export::to_gguf(folder, out, dtype, matches.get_flag("overwrite"))?;
    match reader {
        Reader::Programs => {
            let document = json!({ "path": out, "tensors": exported.n_tensors,
                "bytes": exported.bytes, "exact_gelu": exported.has_exact_gelu });
            terminal::line(&document.to_string());
        }
        Reader::People => {
            let megabytes = format!("{:.1}", exported.bytes as f64 / 1e6);
            let tensors = plan::grouped(exported.n_tensors as u64);
            terminal::line(&words::exported(out.display(), tensors, megabytes));
            if exported.has_exact_gelu {
                terminal::line(&words::exact_gelu());
            }
        }
    }
    Ok(Answer::Yes)
}
