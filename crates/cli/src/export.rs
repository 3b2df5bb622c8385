//! `fitgpt export`: a model for another program.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_checkpoint::export::gguf::GgufType;
use fitgpt_commands::{
    Failure,
    export::{ExportFormat, ExportRequest},
};
use fitgpt_config::ResumeFrom;
use serde_json::json;

use super::{Outcome, OutputStyle};
use crate::{
    terminal,
    words::{export as words, grouped},
};

pub(super) fn command() -> Command {
    Command::new("export")
        .about("Writes a model for llama.cpp (GGUF), for nanoGPT, or for transformers")
        .arg(
            Arg::new("FOLDER")
                .required(true)
                .help("Read a run's out_dir, a folder of weights, or nanoGPT's ckpt.pt"),
        )
        .arg(
            Arg::new("to")
                .long("to")
                .required(true)
                .value_name("FORMAT")
                .value_parser(["gguf", "nanogpt", "hf"])
                .help(
                    "Write gguf for llama.cpp; nanogpt for its sample.py and train.py, with the \
                     optimizer's state; hf for a folder that transformers loads",
                ),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .required(true)
                .value_name("PATH")
                .help("Write to this file, for hf to this folder"),
        )
        .arg(
            Arg::new("type")
                .long("type")
                .value_name("TYPE")
                .value_parser(["f32", "f16", "q8_0"])
                .help("Store the matrices of a GGUF file as this type [default: f16]"),
        )
        .arg(
            Arg::new("resume_from")
                .long("resume_from")
                .value_name("WHOSE")
                .value_parser(["fitgpt", "nanogpt"])
                .help("Read this one of two checkpoints in the folder: FitGPT's, or nanoGPT's ckpt.pt"),
        )
        .arg(
            Arg::new("overwrite")
                .long("overwrite")
                .action(ArgAction::SetTrue)
                .help("Replace an existing file"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON document instead of text"),
        )
        .after_help(
            "Examples:\n  fitgpt export out-stories --to gguf --type q8_0 --out stories.gguf\n  \
             fitgpt export out-stories --to nanogpt --out nanoGPT/out/ckpt.pt\n  \
             fitgpt export out-stories --to hf --out stories-hf\n  \
             fitgpt export nanoGPT/out/ckpt.pt --to hf --out shakespeare-hf",
        )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let path = |name| Path::new(matches.get_one::<String>(name).expect("clap asks for it"));
    let request = ExportRequest {
        model: path("FOLDER"),
        from: matches.get_one::<String>("resume_from").and_then(|name| ResumeFrom::parse(name)),
        format: format(matches)?,
        out: path("out"),
        replaces: matches.get_flag("overwrite"),
    };
    let exported = request.export()?;
    let out = request.out;
    match style {
        OutputStyle::Json => {
            let document = json!({ "path": out, "tensors": exported.n_tensors,
                "bytes": exported.bytes, "other_gelu": exported.has_other_gelu });
            terminal::json(&document);
        }
        OutputStyle::Text => {
            let megabytes = format!("{:.1}", exported.bytes as f64 / 1e6);
            let tensors = grouped(exported.n_tensors as u64);
            terminal::line(&words::exported(out.display(), tensors, megabytes));
            if exported.has_other_gelu {
                let is_nanogpt = request.format == ExportFormat::NanoGpt;
                terminal::line(&if is_nanogpt { words::tanh_gelu() } else { words::exact_gelu() });
            }
        }
    }
    Ok(Outcome::Yes)
}

/// `--to` and `--type`.
fn format(matches: &ArgMatches) -> Result<ExportFormat, Failure> {
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    match (text("to"), text("type")) {
        (Some("nanogpt" | "hf"), Some(_)) => Err(Failure::new("usage", words::type_is_ggufs())),
        (Some("nanogpt"), None) => Ok(ExportFormat::NanoGpt),
        (Some("hf"), None) => Ok(ExportFormat::Folder),
        (_, Some("f32")) => Ok(ExportFormat::Gguf(GgufType::F32)),
        (_, Some("q8_0")) => Ok(ExportFormat::Gguf(GgufType::Q8)),
        _ => Ok(ExportFormat::Gguf(GgufType::F16)),
    }
}
