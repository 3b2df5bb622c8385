//! Datasets and models by name: downloads them before a command does its work.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::{Arg, ArgAction, ArgMatches};
use fitgpt_commands::Failure;
use fitgpt_config::{ConfigValue, InitFrom, Written};
use fitgpt_files::os;
use fitgpt_prepare::{
    Format, Input, Options, Vocabulary,
    hub::{self, DatasetContent, DownloadProgress, Hub, HubError, ModelPart, Selection, Settings},
};
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    pretrained::{self, UnknownModel},
    stop::StopFlag,
};

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
    let Some(ConfigValue::Str(name)) = written.get("init_from") else { return Ok(()) };
    let Some(InitFrom::Pretrained(name)) = InitFrom::parse(name) else { return Ok(()) };
    let not_here = match part {
        ModelPart::Weights => pretrained::find(&name).err(),
        ModelPart::Description => match pretrained::describe(&name) {
            Err(UnknownModel::Missing(not_here)) => Some(not_here),
            _ => None,
        },
    };
    let Some(repository) = not_here.and_then(|not_here| not_here.repository) else { return Ok(()) };
    let stop = StopFlag::on_signals().map_err(|error| Failure::signals(&error))?;
    let hub = Hub::new(Settings::from_env())?;
    let mut shown = DownloadLine::new(1);
    let fetched = hub::download_model(&hub, &repository, part, &mut |at| shown.show(at), &|| {
        stop.is_asked_for()
    });
    shown.clear();
    Ok(fetched?)
}

/// Downloads the datasets that are given by name among the inputs of `prepare`, and replaces the
/// names by their files. `false` if the user asked to stop.
pub(super) fn fetch(
    options: &mut Options,
    matches: &ArgMatches,
    stop: &dyn Fn() -> bool,
) -> Result<bool, Failure> {
    let name_of = |input: &Input| match input {
        Input::Path(path) => path.to_str().and_then(hub::named),
        _ => None,
    };
    let is_alone = options.inputs.len() == 1;
    let mut inputs = Vec::new();
    let mut has_name = false;
    for input in std::mem::take(&mut options.inputs) {
        let Some(dataset) = name_of(&input) else {
            check_path(&input)?;
            inputs.push(input);
            continue;
        };
        if Path::new(dataset.name).exists() {
            terminal::note(&words::path_wins(dataset.name));
            inputs.push(input);
            continue;
        }
        has_name = true;
        let column = match dataset.content {
            DatasetContent::Documents { column } | DatasetContent::OneText { column, .. } => column,
            DatasetContent::Shards => "",
        };
        let is_field_free = matches.get_one::<String>("field").is_none();
        if is_field_free && !column.is_empty() {
            column.clone_into(&mut options.field);
        }
        let is_free = matches.get_one::<String>("tokenizer").is_none();
        if is_alone
            && is_free
            && matches!(dataset.content, DatasetContent::OneText { is_chars: true, .. })
        {
            options.vocabulary = Vocabulary::Chars;
        }
        match download(dataset, options, matches, stop) {
            Ok(files) => inputs.extend(files),
            Err(HubError::Stopped) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    for flag in ["sample", "files"] {
        if !has_name && matches.value_source(flag).is_some() {
            return Err(Failure::new("usage", words::only_by_name(format!("--{flag}"))));
        }
    }
    options.inputs = inputs;
    Ok(true)
}

/// Refuses a plain word that is neither a path nor the name of a dataset, and lists the names.
fn check_path(input: &Input) -> Result<(), Failure> {
    let Input::Path(path) = input else { return Ok(()) };
    let is_word = path.to_str().is_some_and(|word| {
        word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    });
    match std::fs::metadata(path) {
        Err(error) if is_word && error.kind() == std::io::ErrorKind::NotFound => {
            let names: Vec<_> = hub::DATASETS.iter().map(|dataset| dataset.name).collect();
            Err(Failure::unreadable(path, &error).hint(words::names_are(names.join(", "))))
        }
        _ => Ok(()),
    }
}

fn download(
    dataset: &'static hub::NamedDataset,
    options: &Options,
    matches: &ArgMatches,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Input>, HubError> {
    let hub = Hub::new(Settings::from_env())?;
    let sample = matches.get_one::<String>("sample").map(String::as_str);
    let n_files = matches.get_one("files").copied().map(NonZeroUsize::get);
    let selection = dataset.select(&hub, sample, n_files, stop)?;
    state_needs(&hub, &selection, &options.folder)?;
    let mut shown = DownloadLine::new(selection.files.len());
    let mut paths = Vec::new();
    for (index, (file, _)) in selection.files.iter().enumerate() {
        shown.file = index + 1;
        paths.push(hub.fetch(&selection.snapshot, file, &mut |at| shown.show(at), stop)?);
    }
    shown.clear();
    Ok(inputs(&selection, paths, &options.field))
}

fn inputs(selection: &Selection, paths: Vec<PathBuf>, field: &str) -> Vec<Input> {
    let format = match selection.dataset.content {
        DatasetContent::OneText { .. } => {
            return vec![Input::Joined { paths, column: field.to_owned() }];
        }
        DatasetContent::Documents { .. } => Format::Parquet,
        DatasetContent::Shards => Format::Shard,
    };
    let splits = selection.files.iter().map(|(_, split)| *split);
    let fetched = |(path, split)| Input::Fetched { path, format, split };
    paths.into_iter().zip(splits).map(fetched).collect()
}

/// Prints how much space is needed on which disk, and refuses if there is less.
fn state_needs(hub: &Hub, selection: &Selection, folder: &Path) -> Result<(), HubError> {
    let sizes = selection.sizes(hub);
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
        hub.cache().display(),
        words::size(sizes.dataset_bytes),
        folder.display(),
    );
    terminal::err(&(selected + &needs));
    let is_one_disk = os::is_same_disk(hub.cache(), folder);
    let needs = if is_one_disk {
        vec![(folder, sizes.download_bytes + sizes.dataset_bytes)]
    } else {
        vec![(hub.cache(), sizes.download_bytes), (folder, sizes.dataset_bytes)]
    };
    for (folder, need_bytes) in needs {
        match os::disk_free(folder).map(Bytes::get) {
            Some(free_bytes) if free_bytes < need_bytes => {
                let folder = folder.to_owned();
                return Err(HubError::TooLittleDisk { need_bytes, free_bytes, folder });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The progress line of downloads.
struct DownloadLine {
    file: usize,
    files: usize,
    is_watched: bool,
    last: Option<Instant>,
    start: Option<(usize, Instant, u64)>,
}

impl DownloadLine {
    fn new(files: usize) -> Self {
        Self { file: 0, files, is_watched: terminal::is_watched(), last: None, start: None }
    }

    fn show(&mut self, at: DownloadProgress<'_>) {
        if !self.is_watched || self.last.is_some_and(|last| last.elapsed() < REFRESH) {
            return;
        }
        self.last = Some(Instant::now());
        let (_, start, first) = match self.start {
            Some(start) if start.0 == self.file => start,
            _ => *self.start.insert((self.file, Instant::now(), at.bytes)),
        };
        let rate = (at.bytes - first) as f64 / start.elapsed().as_secs_f64().max(0.001);
        let (bytes, total) = (words::size(at.bytes), words::size(at.total_bytes));
        let line = words::downloading(
            self.file,
            self.files,
            at.path,
            bytes,
            total,
            words::size(rate as u64),
        );
        let left = (at.total_bytes - at.bytes) as f64 / rate;
        let line = if rate > 0.0 { words::with_eta(line, words::clock(left as u64)) } else { line };
        terminal::progress(&line);
    }

    fn clear(&self) {
        if self.is_watched {
            terminal::clear_progress();
        }
    }
}
