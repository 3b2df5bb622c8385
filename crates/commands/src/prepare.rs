//! From text, or the name of a dataset, to token files.

use std::fs;

use fitgpt_files::os;
use fitgpt_prepare::{Input, Options, PrepareError, PrepareSummary, Progress, prepare};
use fitgpt_program::units::Bytes;
use fitgpt_say::Sentence;

use super::{
    Failure,
    download::{DatasetChoice, DownloadEvent},
};

/// What is prepared.
#[derive(Clone, Debug)]
pub struct PrepareRequest<'a> {
    /// The inputs, and how they are read and written.
    pub options: Options,
    /// For inputs that are names of datasets.
    pub choice: DatasetChoice<'a>,
}

/// How it ended.
#[derive(Debug)]
pub enum PrepareEnd {
    /// The dataset is complete.
    Done(Box<PrepareSummary>),
    /// It was stopped; the same command continues from there.
    Paused(Sentence),
}

impl PrepareRequest<'_> {
    /// Downloads what is given by name. An error if the user asks to stop.
    pub fn fetch(
        &mut self,
        report: &mut dyn FnMut(DownloadEvent<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        if !self.choice.fetch(&mut self.options, report, stop)? {
            return Err(Failure::stopped());
        }
        self.options.disk_free_bytes = os::disk_free(&self.options.folder).map(Bytes::get);
        Ok(())
    }

    /// Whether an input can keep its reader waiting.
    pub fn may_wait(&self) -> bool {
        self.options.inputs.iter().any(is_pipe)
    }

    /// Writes the dataset.
    pub fn prepare(
        &self,
        report: &mut dyn FnMut(Progress),
        stop: &dyn Fn() -> bool,
    ) -> Result<PrepareEnd, Failure> {
        match prepare(&self.options, report, stop) {
            Ok(summary) => Ok(PrepareEnd::Done(Box::new(summary))),
            Err(error @ PrepareError::Paused) => Ok(PrepareEnd::Paused(Sentence::about(&error))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether an input can keep its reader waiting.
fn is_pipe(input: &Input) -> bool {
    match input {
        Input::Stdin => true,
        Input::Path(path) => {
            fs::metadata(path).is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
        }
        Input::Fetched { .. } | Input::Joined { .. } => false,
    }
}
