//! Datasets and models by name: they are downloaded before a command does its work.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use fitgpt_config::{ConfigValue, InitFrom, Written};
use fitgpt_files::os;
use fitgpt_prepare::{
    Format, Input, Options, Vocabulary,
    hub::{
        self, DatasetContent, DownloadProgress, Hub, HubError, ModelPart, NamedDataset, Selection,
        Settings, Sizes,
    },
};
use fitgpt_program::units::Bytes;
use fitgpt_run::pretrained::{self, UnknownModel};

use super::Failure;
use crate::words::download as words;

/// What happens before and while files are downloaded.
pub enum DownloadEvent<'a> {
    /// A path has the name of a dataset: the path is read.
    PathWins(&'static str),
    /// A dataset is about to be downloaded.
    Selected {
        /// Which files.
        selection: &'a Selection,
        /// How large they are.
        sizes: Sizes,
        /// Where they are kept.
        cache: &'a Path,
    },
    /// A file, counted from 1, of so many.
    Progress {
        /// Which one.
        file: usize,
        /// How many there are.
        files: usize,
        /// How far.
        at: DownloadProgress<'a>,
    },
    /// All files are here, or it failed.
    Ended,
}

/// A model that is not on this machine.
pub struct MissingModel {
    repository: String,
    part: ModelPart,
}

impl MissingModel {
    /// The model that `written` starts from, if it names one of which `part` is not here.
    pub fn of(written: &Written, part: ModelPart) -> Option<Self> {
        let Some(ConfigValue::Str(name)) = written.get("init_from") else { return None };
        let Some(InitFrom::Pretrained(name)) = InitFrom::parse(name) else { return None };
        let not_here = match part {
            ModelPart::Weights => pretrained::find(&name).err(),
            ModelPart::Description => match pretrained::describe(&name) {
                Err(UnknownModel::Missing(not_here)) => Some(not_here),
                _ => None,
            },
        };
        Some(Self { repository: not_here?.repository?, part })
    }

    /// Downloads it.
    pub fn fetch(
        &self,
        report: &mut dyn FnMut(DownloadEvent<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let hub = Hub::new(Settings::from_env())?;
        let mut progress = |at: DownloadProgress<'_>| {
            report(DownloadEvent::Progress { file: 1, files: 1, at });
        };
        let fetched = hub::download_model(&hub, &self.repository, self.part, &mut progress, stop);
        report(DownloadEvent::Ended);
        Ok(fetched?)
    }
}

/// Datasets by name, and what the user has set.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatasetChoice<'a> {
    /// The part of a dataset.
    pub sample: Option<&'a str>,
    /// Only so many files.
    pub n_files: Option<usize>,
    /// Whether a field or column was named; else it is the dataset's.
    pub has_field: bool,
    /// Whether a tokenizer was given; else it may be the dataset's.
    pub has_tokenizer: bool,
}

impl DatasetChoice<'_> {
    /// Downloads the datasets that are given by name among the inputs, and replaces the names by
    /// their files. `false` if the user asked to stop.
    pub fn fetch(
        &self,
        options: &mut Options,
        report: &mut dyn FnMut(DownloadEvent<'_>),
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
                report(DownloadEvent::PathWins(dataset.name));
                inputs.push(input);
                continue;
            }
            has_name = true;
            let column = match dataset.content {
                DatasetContent::Documents { column } | DatasetContent::OneText { column, .. } => {
                    column
                }
                DatasetContent::Shards => "",
            };
            if !self.has_field && !column.is_empty() {
                column.clone_into(&mut options.field);
            }
            let is_chars =
                matches!(dataset.content, DatasetContent::OneText { is_chars: true, .. });
            if is_alone && is_chars && !self.has_tokenizer {
                options.vocabulary = Vocabulary::Chars;
            }
            match self.download(dataset, options, report, stop) {
                Ok(files) => inputs.extend(files),
                Err(HubError::Stopped) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        let flags = [("--sample", self.sample.is_some()), ("--files", self.n_files.is_some())];
        if let Some((flag, _)) = flags.into_iter().find(|(_, is_set)| !has_name && *is_set) {
            return Err(Failure::new("usage", words::only_by_name(flag)));
        }
        options.inputs = inputs;
        Ok(true)
    }

    fn download(
        &self,
        dataset: &'static NamedDataset,
        options: &Options,
        report: &mut dyn FnMut(DownloadEvent<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Input>, HubError> {
        let hub = Hub::new(Settings::from_env())?;
        let selection = dataset.select(&hub, self.sample, self.n_files, stop)?;
        let sizes = selection.sizes(&hub);
        report(DownloadEvent::Selected { selection: &selection, sizes, cache: hub.cache() });
        check_disks(&hub, sizes, &options.folder)?;
        let files = selection.files.len();
        let mut paths = Vec::new();
        for (index, (file, _)) in selection.files.iter().enumerate() {
            let mut progress = |at: DownloadProgress<'_>| {
                report(DownloadEvent::Progress { file: index + 1, files, at });
            };
            paths.push(hub.fetch(&selection.snapshot, file, &mut progress, stop)?);
        }
        report(DownloadEvent::Ended);
        Ok(inputs(&selection, paths, &options.field))
    }
}

/// Refuses a plain word that is neither a path nor the name of a dataset, and lists the names.
fn check_path(input: &Input) -> Result<(), Failure> {
    let Input::Path(path) = input else { return Ok(()) };
    let is_word = path.to_str().is_some_and(|word| {
        word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    });
    match std::fs::metadata(path) {
        Err(error) if is_word && error.kind() == ErrorKind::NotFound => {
            let names: Vec<_> = hub::DATASETS.iter().map(|dataset| dataset.name).collect();
            Err(Failure::unreadable(path, &error).hint(words::names_are(names.join(", "))))
        }
        _ => Ok(()),
    }
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

/// Refuses if a disk has less space than is needed.
fn check_disks(hub: &Hub, sizes: Sizes, folder: &Path) -> Result<(), HubError> {
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
