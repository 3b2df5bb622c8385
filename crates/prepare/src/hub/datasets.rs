//! Datasets by name: their repository, commit, files and format.
//!
//! Commits are pinned if possible, so that a name means the same bytes next year.
//! `karpathy/tiny_shakespeare` is available as Parquet only under a ref that moves: its commit is
//! looked up once and then kept in the cache.

use fitgpt_data::Split;
use glob::{MatchOptions, Pattern};

use super::{Hub, HubError, RemoteFile, Repo, RepoKind, RepoSnapshot};

/// A dataset that has a name.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedDataset {
    /// Its name in `fitgpt prepare NAME`.
    pub name: &'static str,
    /// Its repository.
    pub repo: &'static str,
    /// The commit or the ref.
    pub revision: &'static str,
    /// Its parts that can be selected by name; the first is the default.
    pub samples: &'static [DatasetSample],
    /// Whether single crawls, `CC-MAIN-…`, can be selected too.
    has_dumps: bool,
    /// The content of its files.
    pub content: DatasetContent,
    /// Approximate bytes of the dataset per 1,000 bytes of download: GPT-2's tokens, two bytes
    /// each. From the publishers' sizes and token counts.
    per_mille: u64,
}

/// A part of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSample {
    /// Its name in `--sample NAME`.
    pub name: &'static str,
    /// The folder of the repository that is listed.
    folder: &'static str,
    /// Files, in the order in which they are read.
    files: &'static [(&'static str, Option<Split>)],
    /// The default number of training files; `None`: all.
    default_files: Option<usize>,
}

/// The content of a dataset's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetContent {
    /// Parquet with one document per row.
    Documents {
        /// The column.
        column: &'static str,
    },
    /// Parquet whose rows, in order, form one text.
    OneText {
        /// The column.
        column: &'static str,
        /// Whether it is prepared as characters.
        is_chars: bool,
    },
    /// GPT-2's tokens in llm.c's format.
    Shards,
}

const TRAIN: Option<Split> = Some(Split::Train);
const VAL: Option<Split> = Some(Split::Val);
const TEXT: DatasetContent = DatasetContent::Documents { column: "text" };

const fn sample(
    name: &'static str,
    folder: &'static str,
    files: &'static [(&'static str, Option<Split>)],
) -> DatasetSample {
    DatasetSample { name, folder, files, default_files: None }
}

const FINEWEB_SAMPLES: &[DatasetSample] = &[
    sample("sample-10BT", "sample/10BT", &[("sample/10BT/*.parquet", None)]),
    sample("sample-100BT", "sample/100BT", &[("sample/100BT/*.parquet", None)]),
    sample("sample-350BT", "sample/350BT", &[("sample/350BT/*.parquet", None)]),
];

const SHAKESPEARE: &[DatasetSample] = &[sample(
    "default",
    "",
    // The hub's three parts, which nanoGPT has as one file.
    &[
        ("default/train/*.parquet", None),
        ("default/validation/*.parquet", None),
        ("default/test/*.parquet", None),
    ],
)];

/// Every dataset that has a name.
pub const DATASETS: &[NamedDataset] = &[
    NamedDataset {
        name: "fineweb",
        repo: "HuggingFaceFW/fineweb",
        revision: "9bb295ddab0e05d785b879661af7260fed5140fc", // v1.4.0
        samples: FINEWEB_SAMPLES,
        has_dumps: true,
        content: TEXT,
        per_mille: 680,
    },
    NamedDataset {
        name: "fineweb-edu",
        repo: "HuggingFaceFW/fineweb-edu",
        revision: "87f09149ef4734204d70ed1d046ddc9ca3f2b8f9",
        samples: FINEWEB_SAMPLES,
        has_dumps: true,
        content: TEXT,
        per_mille: 720,
    },
    NamedDataset {
        name: "openwebtext",
        repo: "Skylion007/openwebtext",
        revision: "79d93d786212f7344586290adb811d4ae6a1762c",
        samples: &[sample("plain_text", "plain_text", &[("plain_text/train-*.parquet", None)])],
        has_dumps: false,
        content: TEXT,
        per_mille: 750,
    },
    NamedDataset {
        name: "tinystories",
        repo: "roneneldan/TinyStories",
        revision: "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64",
        samples: &[sample(
            "default",
            "data",
            &[("data/train-*.parquet", TRAIN), ("data/validation-*.parquet", VAL)],
        )],
        has_dumps: false,
        content: TEXT,
        per_mille: 950,
    },
    NamedDataset {
        name: "shakespeare",
        repo: "karpathy/tiny_shakespeare",
        revision: "refs/convert/parquet",
        samples: SHAKESPEARE,
        has_dumps: false,
        content: DatasetContent::OneText { column: "text", is_chars: false },
        per_mille: 1000,
    },
    NamedDataset {
        name: "shakespeare_char",
        repo: "karpathy/tiny_shakespeare",
        revision: "refs/convert/parquet",
        samples: SHAKESPEARE,
        has_dumps: false,
        content: DatasetContent::OneText { column: "text", is_chars: true },
        per_mille: 3300,
    },
    NamedDataset {
        name: "climbmix",
        repo: "karpathy/climbmix-400b-shuffle",
        revision: "915333b4f8b8684f39aeaafea600fea6f43fb703",
        samples: &[DatasetSample {
            name: "default",
            folder: "",
            // nanochat evaluates on the last one.
            files: &[("shard_06542.parquet", VAL), ("shard_*.parquet", TRAIN)],
            // As many of the 6,542 as nanochat uses for a model of GPT-2's quality.
            default_files: Some(170),
        }],
        has_dumps: false,
        content: TEXT,
        per_mille: 1250,
    },
    NamedDataset {
        name: "fineweb10B-gpt2",
        repo: "kjj0/fineweb10B-gpt2",
        revision: "889765ea1f903759787add96995d81171b632d0c",
        samples: &[sample(
            "default",
            "",
            &[("fineweb_val_*.bin", VAL), ("fineweb_train_*.bin", TRAIN)],
        )],
        has_dumps: false,
        content: DatasetContent::Shards,
        per_mille: 1000,
    },
];

/// The dataset of this name.
pub fn named(name: &str) -> Option<&'static NamedDataset> {
    DATASETS.iter().find(|dataset| dataset.name == name)
}

/// The selected files of a dataset.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Which dataset.
    pub dataset: &'static NamedDataset,
    /// Which part of it.
    pub sample: String,
    /// The commit and the listed files.
    pub snapshot: RepoSnapshot,
    /// In the order in which they are read, with the split that each belongs to, if any.
    pub files: Vec<(RemoteFile, Option<Split>)>,
}

/// The disk space of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// All files.
    pub total_bytes: u64,
    /// What is not in the cache yet.
    pub download_bytes: u64,
    /// The dataset, approximately.
    pub dataset_bytes: u64,
}

impl NamedDataset {
    /// The names of its samples.
    pub(crate) fn sample_names(&self) -> Vec<&'static str> {
        let names = self.samples.iter().map(|sample| sample.name);
        names.chain(self.has_dumps.then_some("CC-MAIN-…")).collect()
    }

    /// Lists the files of `sample` at the pinned commit, limited to `n_files` in addition to those
    /// for validation.
    pub fn select(
        &'static self,
        hub: &Hub,
        sample: Option<&str>,
        n_files: Option<usize>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Selection, HubError> {
        let sample = sample.unwrap_or(self.samples[0].name);
        let known = self.samples.iter().find(|known| known.name == sample);
        let is_dump = self.has_dumps
            && sample.starts_with("CC-MAIN-")
            && sample.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let dump = format!("data/{sample}");
        let dump_pattern = format!("{dump}/*.parquet");
        let (folder, patterns, default_files) = match known {
            Some(known) => (known.folder, known.files.to_vec(), known.default_files),
            None if is_dump => (&*dump, vec![(&*dump_pattern, None)], None),
            None => {
                let (dataset, samples) = (self.name, self.sample_names());
                return Err(HubError::NoSample { dataset, sample: sample.to_owned(), samples });
            }
        };
        let repo = Repo {
            kind: RepoKind::Dataset,
            id: self.repo.to_owned(),
            revision: self.revision.to_owned(),
        };
        let snapshot = hub.list(&repo, folder, stop)?;
        let mut files: Vec<(RemoteFile, Option<Split>)> = Vec::new();
        let mut n_left = n_files.or(default_files).unwrap_or(usize::MAX);
        for (pattern, split) in patterns {
            for file in snapshot.files.iter().filter(|file| matches_pattern(&file.path, pattern)) {
                let is_taken = files.iter().any(|(taken, _)| taken.path == file.path);
                let is_counted = split != VAL;
                if is_taken || (is_counted && n_left == 0) {
                    continue;
                }
                n_left -= usize::from(is_counted);
                files.push((file.clone(), split));
            }
        }
        if files.iter().all(|(_, split)| *split == VAL) {
            let pattern = self.samples.first().map_or("", |sample| sample.files[0].0).to_owned();
            let pattern = if is_dump { dump_pattern } else { pattern };
            let revision = snapshot.repo.revision;
            return Err(HubError::NoFiles { repo: repo.id, pattern, revision });
        }
        Ok(Selection { dataset: self, sample: sample.to_owned(), snapshot, files })
    }
}

impl Selection {
    /// The disk space that it takes.
    pub fn sizes(&self, hub: &Hub) -> Sizes {
        let total_bytes = self.files.iter().map(|(file, _)| file.bytes).sum::<u64>();
        let missing = self.files.iter().map(|(file, _)| hub.missing_bytes(&self.snapshot, file));
        Sizes {
            total_bytes,
            download_bytes: missing.sum(),
            dataset_bytes: total_bytes.saturating_mul(self.dataset.per_mille) / 1000,
        }
    }
}

/// Whether a path matches a pattern, in which `*` does not match a slash.
fn matches_pattern(path: &str, pattern: &str) -> bool {
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_with(path, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_dataset_is_offered_by_every_name() {
        assert!(DATASETS.iter().map(|dataset| dataset.name).eq(fitgpt_data::DOWNLOADED));
    }

    #[test]
    fn every_name_has_a_repository_a_revision_and_patterns_that_parse() {
        for dataset in DATASETS {
            assert_eq!(named(dataset.name), Some(dataset));
            assert!(dataset.repo.split('/').count() == 2 && !dataset.samples.is_empty());
            let is_pinned = super::super::is_commit(dataset.revision);
            assert!(is_pinned || dataset.revision.starts_with("refs/"), "{}", dataset.name);
            for sample in dataset.samples {
                for (pattern, _) in sample.files {
                    assert!(Pattern::new(pattern).is_ok(), "{pattern}");
                    assert!(pattern.starts_with(sample.folder), "{pattern}");
                }
            }
        }
        assert_eq!(named("fine"), None);
    }

    #[test]
    fn a_star_stays_within_its_folder() {
        assert!(matches_pattern("sample/10BT/000_00000.parquet", "sample/10BT/*.parquet"));
        assert!(!matches_pattern("sample/10BT/x/0.parquet", "sample/10BT/*.parquet"));
        assert!(!matches_pattern("shard_06542.json", "shard_*.parquet"));
    }
}
