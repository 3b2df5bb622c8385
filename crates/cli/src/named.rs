//! `--download`, and what is printed while datasets and models are downloaded.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::{Arg, ArgAction, ArgMatches};
use fitgpt_commands::{
    Failure,
    download::{DownloadEvent, MissingModel},
};
use fitgpt_config::Written;
use fitgpt_prepare::hub::{DownloadProgress, ModelPart, Selection, Sizes};
use fitgpt_run::stop::StopFlag;

use crate::{
    terminal,
    words::{grouped, hub as words},
};

/// How often the progress line is updated.
const REFRESH: Duration = Duration::from_millis(200);

const DESCRIPTION: &str = "download_description";
const WEIGHTS: &str = "download";

/// `--download` of a command that needs a model's description.
pub(super) fn description_flag() -> Arg {
    flag(DESCRIPTION, "Fetch the config.json of the model in init_from from the hub")
}

/// `--download` of a command that needs a model's weights.
pub(super) fn weights_flag() -> Arg {
    flag(WEIGHTS, "Fetch the model in init_from from the Hugging Face hub")
}

fn flag(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long("download").action(ArgAction::SetTrue).help(help)
}

/// Downloads the model that `written` starts from, if the command line asks for it and it is not on
/// this machine.
pub(super) fn model(written: &Written, matches: &ArgMatches) -> Result<(), Failure> {
    let is_set = |id| matches!(matches.try_get_one::<bool>(id), Ok(Some(true)));
    let part = match (is_set(DESCRIPTION), is_set(WEIGHTS)) {
        (_, true) => ModelPart::Weights,
        (true, _) => ModelPart::Description,
        _ => return Ok(()),
    };
    let Some(missing) = MissingModel::of(written, part) else { return Ok(()) };
    let stop = StopFlag::on_signals().map_err(|error| Failure::signals(&error))?;
    let mut line = DownloadLine::new(Path::new(""));
    missing.fetch(&mut |event| line.show(&event), &|| stop.is_asked_for())
}

/// What is downloaded, and how much space that needs on which disk.
fn needs(selection: &Selection, sizes: Sizes, cache: &Path, folder: &Path) -> String {
    let revision = &selection.snapshot.repo.revision;
    let selected = words::selected(
        selection.dataset.name,
        &selection.sample,
        selection.dataset.repo,
        &revision[..revision.len().min(12)],
        grouped(selection.files.len() as u64),
        words::size(sizes.total_bytes),
    );
    let needs = words::needs(
        words::size(sizes.download_bytes),
        cache.display(),
        words::size(sizes.dataset_bytes),
        folder.display(),
    );
    selected + &needs
}

/// The progress line of downloads.
pub(super) struct DownloadLine {
    /// The folder of the dataset.
    folder: PathBuf,
    is_watched: bool,
    last: Option<Instant>,
    start: Option<(usize, Instant, u64)>,
}

impl DownloadLine {
    /// For a dataset in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        let (folder, is_watched) = (folder.to_owned(), terminal::is_watched());
        Self { folder, is_watched, last: None, start: None }
    }

    /// Prints what happens.
    pub(super) fn show(&mut self, event: &DownloadEvent<'_>) {
        match event {
            DownloadEvent::PathWins(name) => terminal::note(&words::path_wins(name)),
            DownloadEvent::Selected { selection, sizes, cache } => {
                terminal::err(&needs(selection, *sizes, cache, &self.folder));
            }
            DownloadEvent::Progress { file, files, at } => self.progress(*file, *files, at),
            DownloadEvent::Ended if self.is_watched => terminal::clear_progress(),
            DownloadEvent::Ended => {}
        }
    }

    fn progress(&mut self, file: usize, files: usize, at: &DownloadProgress<'_>) {
        if !self.is_watched || self.last.is_some_and(|last| last.elapsed() < REFRESH) {
            return;
        }
        self.last = Some(Instant::now());
        let (_, start, first) = match self.start {
            Some(start) if start.0 == file => start,
            _ => *self.start.insert((file, Instant::now(), at.bytes)),
        };
        let rate = (at.bytes - first) as f64 / start.elapsed().as_secs_f64().max(0.001);
        let (bytes, total) = (words::size(at.bytes), words::size(at.total_bytes));
        let line = words::downloading(file, files, at.path, bytes, total, words::size(rate as u64));
        let left = (at.total_bytes - at.bytes) as f64 / rate;
        let line = if rate > 0.0 { words::with_eta(line, words::clock(left as u64)) } else { line };
        terminal::progress(&line);
    }
}
