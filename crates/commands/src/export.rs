//! A model for another program.

use std::{fs, path::Path};

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::export::{self, Exported, gguf::GgufType};
use fitgpt_config::ResumeFrom;
use fitgpt_files::attempt::Attempt;

use super::Failure;

/// The program that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A GGUF file for llama.cpp.
    Gguf(GgufType),
    /// `ckpt.pt`, with the optimizer's state.
    NanoGpt,
    /// A folder that transformers loads.
    Folder,
}

/// What is exported.
#[derive(Clone, Copy, Debug)]
pub struct ExportRequest<'a> {
    /// A run's `out_dir`, a folder of weights, or `ckpt.pt`.
    pub model: &'a Path,
    /// Which checkpoint, if the folder has two.
    pub from: Option<ResumeFrom>,
    /// For what.
    pub format: ExportFormat,
    /// The file or the folder to write.
    pub out: &'a Path,
    /// Whether an existing file is replaced.
    pub replaces: bool,
}

impl ExportRequest<'_> {
    /// Writes it.
    pub fn export(&self) -> Result<Exported, Failure> {
        let Self { model, from, format, out, replaces } = *self;
        let model = &checkpoint::choose(model, from)?.path;
        if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|e| Failure::io(Attempt::Create, folder, &e))?;
        }
        Ok(match format {
            ExportFormat::Gguf(kind) => export::to_gguf(model, out, kind, replaces)?,
            ExportFormat::NanoGpt => export::to_nanogpt(model, out, replaces)?,
            ExportFormat::Folder => export::to_folder(model, out, replaces)?,
        })
    }
}
