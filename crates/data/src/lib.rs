//! Datasets: token files, their vocabulary, and the sequences of a step.
//!
//! A dataset is a folder as nanoGPT lays it out: `train.bin`, `val.bin` and, if the vocabulary is
//! not GPT-2's, `meta.pkl`. A vocabulary of more than 65,536 tokens needs wider ones:
//! `train.u32.bin` and `val.u32.bin`, plain little-endian 32-bit tokens, under names that nanoGPT
//! does not open. Instead of each file there may be llm.c's shards, which are read as one:
//! `train_000001.bin`, `fineweb_train_000001.bin` and so on. A `tokenizer.json` in the folder is
//! copied to the folder of a run. Any file gives tokens or an error, and reading allocates nothing.
//!
//! Token files are read with positioned reads: mapped pages would count against the budget, and a
//! truncated file must be an error, not a signal.
//!
//! Promise: any split of the effective batch sees the same sequences and trains the same: losses
//! agree to 1e-4 at every step. Test: `tests/runs/training.rs`.

#![forbid(unsafe_code)]

pub mod tokenizer;
pub mod counter;
mod error;
mod meta;
mod words;
pub mod publish;
pub mod stories;
pub mod tokens;
mod batches;
mod fingerprint;
mod vocabulary;

use std::path::{Path, PathBuf};

use fitgpt_files::disk::{Disk, DiskError};

pub use self::{
    batches::{Batches, Purpose},
    error::DataError,
    fingerprint::{FileFingerprint, Fingerprint},
    meta::Meta,
    tokens::Tokens,
    vocabulary::{Vocabulary, VocabularyKind},
};
pub use crate::error::MetaError;
use crate::{tokenizer::Tokenizer, tokens::WIDE_EXTENSION};

/// GPT-2's 50,257 tokens, rounded up to a multiple of 64 as nanoGPT does.
pub const GPT2_VOCAB_SIZE: u32 = fitgpt_config::PADDED_VOCAB;

/// How a pointer of Git LFS begins.
pub const LFS_POINTER: &[u8; 43] = b"version https://git-lfs.github.com/spec/v1\n";

/// The built-in dataset, written on first use.
pub const STORIES: &str = "stories";

/// One of the two parts of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Training data.
    Train,
    /// Validation data.
    Val,
}

/// An open dataset.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    train: Tokens,
    val: Tokens,
    meta: Option<Meta>,
}

impl Dataset {
    /// Opens the dataset that a config names: a folder under `base/data`, or a path.
    ///
    /// `stories` is written to `base/data/stories` first if it is missing.
    pub fn open(dataset: &str, base: &Path) -> Result<Self, DataError> {
        let folder = find(dataset, base)?;
        if dataset == STORIES && !located(&folder, "train.bin")?.exists() {
            stories::write(&folder)?;
        }
        Ok(Self {
            train: Tokens::open_all(files_of(&folder, "train")?)?,
            val: Tokens::open_all(files_of(&folder, "val")?)?,
            meta: Meta::open(&located(&folder, "meta.pkl")?)?,
            folder,
        })
    }

    /// The size of a dataset's vocabulary; GPT-2's if the dataset does not exist yet.
    pub fn vocab_size_of(dataset: &str, base: &Path) -> Result<u32, DataError> {
        let Ok(folder) = find(dataset, base) else { return Ok(GPT2_VOCAB_SIZE) };
        let meta = located(&folder, "meta.pkl")?;
        if dataset == STORIES && !meta.exists() {
            return Ok(stories::VOCAB_SIZE);
        }
        let meta = Meta::open(&meta)?;
        Ok(meta.map_or(GPT2_VOCAB_SIZE, |meta| meta.vocab_size))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of its files.
    pub fn tokens(&self, split: Split) -> &Tokens {
        match split {
            Split::Train => &self.train,
            Split::Val => &self.val,
        }
    }

    /// A fingerprint of its files, to detect changes.
    pub fn fingerprint(&self) -> Result<Fingerprint, DataError> {
        Ok(Fingerprint {
            train: FileFingerprint::of(&self.train)?,
            val: FileFingerprint::of(&self.val)?,
        })
    }

    /// What its tokens mean.
    pub fn vocabulary(&self) -> Result<Vocabulary, DataError> {
        Vocabulary::of(&self.tokenizer(), self.vocab_size(), Some(&self.folder))
    }

    /// The vocabulary of `meta.pkl`, else GPT-2's.
    pub fn vocab_size(&self) -> u32 {
        self.meta.as_ref().map_or(GPT2_VOCAB_SIZE, |meta| meta.vocab_size)
    }

    /// Whether it has a `meta.pkl`, which defines its tokens.
    pub fn has_table(&self) -> bool {
        self.meta.is_some()
    }

    /// Its tokenizer: as in nanoGPT, characters if `meta.pkl` has symbols, and GPT-2's tokens if
    /// there is no `meta.pkl`.
    pub fn tokenizer(&self) -> Tokenizer {
        match &self.meta {
            None => Tokenizer::Gpt2,
            Some(Meta { itos: Some(itos), .. }) => Tokenizer::from_symbols(itos.clone()),
            Some(Meta { itos: None, .. }) => Tokenizer::Ids,
        }
    }
}

/// The files of a split: `train.u32.bin` or `train.bin` if there is one, else all shards whose
/// names have the word.
fn files_of(folder: &Path, split: &str) -> Result<Vec<PathBuf>, DataError> {
    let plain = located(folder, &format!("{split}.bin"))?;
    for one in [located(folder, &format!("{split}{WIDE_EXTENSION}"))?, plain.clone()] {
        if one.exists() {
            return Ok(vec![one]);
        }
    }
    let files = publish::files(&Disk::real(), folder).map_err(of_disk)?;
    let is_shard = |name: &str| {
        let stem = name.strip_suffix(".bin");
        stem.is_some_and(|stem| stem.split(['_', '-', '.']).any(|word| word == split))
    };
    let shards = files.into_iter().filter(|(name, _)| is_shard(name));
    let shards: Vec<_> = shards.map(|(_, path)| path).collect();
    Ok(if shards.is_empty() { vec![plain] } else { shards })
}

/// The path of a file of the dataset: in its folder, unless a crash interrupted `prepare`.
fn located(folder: &Path, name: &str) -> Result<PathBuf, DataError> {
    publish::locate(&Disk::real(), folder, name).map_err(of_disk)
}

fn of_disk(error: DiskError) -> DataError {
    let DiskError { action, path, source } = error;
    DataError::Io { action, path, source }
}

/// The datasets that `fitgpt prepare` downloads by name.
pub const DOWNLOADED: [&str; 8] = [
    "fineweb",
    "fineweb-edu",
    "openwebtext",
    "tinystories",
    "shakespeare",
    "shakespeare_char",
    "climbmix",
    "fineweb10B-gpt2",
];

/// The `fitgpt prepare` command that makes `dataset`.
pub fn prepare_line(dataset: &str) -> String {
    let is_path = dataset.contains(['/', std::path::MAIN_SEPARATOR]);
    let folder = if is_path { dataset.to_owned() } else { format!("data/{dataset}") };
    if DOWNLOADED.contains(&dataset) {
        return format!("fitgpt prepare {dataset}");
    }
    let input = match dataset {
        name if name.ends_with("_char") => "input.txt --chars",
        _ => "input.txt",
    };
    format!("fitgpt prepare {input} --out {folder}")
}

/// The folder of a dataset, by name or path.
fn find(dataset: &str, base: &Path) -> Result<PathBuf, DataError> {
    let named = base.join("data").join(dataset);
    if dataset == STORIES {
        return Ok(named); // created if it is missing
    }
    let path = base.join(dataset);
    // `data/mine` and `./mine` are paths; `mine` is a name first, as in nanoGPT.
    let is_path = dataset.contains(['/', std::path::MAIN_SEPARATOR]);
    let looked_at = if is_path { vec![path, named] } else { vec![named, path] };
    match looked_at.iter().find(|folder| !dataset.is_empty() && folder.is_dir()) {
        Some(folder) => Ok(folder.clone()),
        None => Err(DataError::NoDataset { dataset: dataset.to_owned(), looked_at }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tokens::tests::write_plain;

    fn dataset_at(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        write_plain(&folder.join("train.bin"), 0..100);
        write_plain(&folder.join("val.bin"), 0..50);
    }

    #[test]
    fn a_name_is_a_folder_under_data_before_it_is_a_path() {
        let base = tempfile::tempdir().unwrap();
        dataset_at(&base.path().join("mine"));
        let found = Dataset::open("mine", base.path()).unwrap();
        assert_eq!(found.folder(), base.path().join("mine"));
        dataset_at(&base.path().join("data/mine"));
        let found = Dataset::open("mine", base.path()).unwrap();
        assert_eq!(found.folder(), base.path().join("data/mine"));
        for path in ["./mine", base.path().join("mine").to_str().unwrap()] {
            let found = Dataset::open(path, base.path()).unwrap();
            assert!(!found.folder().starts_with(base.path().join("data")));
            assert_eq!(found.tokens(Split::Train).len(), 100);
            assert_eq!(found.tokens(Split::Val).len(), 50);
        }
    }

    #[test]
    fn shards_are_one_dataset_under_our_names_and_under_others() {
        for names in [
            ["train_000001.bin", "train_000002.bin", "val_000000.bin"],
            ["x_train_000001.bin", "x_train_000002.bin", "x_val_000000.bin"],
        ] {
            let base = tempfile::tempdir().unwrap();
            let folder = base.path().join("data/mine");
            fs::create_dir_all(&folder).unwrap();
            for (i, name) in (0..).zip(names) {
                let mut bytes = tokens::shard_header(40, 2).to_vec();
                bytes.extend((0..40).flat_map(|t: u16| (t + 100 * i).to_le_bytes()));
                fs::write(folder.join(name), bytes).unwrap();
            }
            let found = Dataset::open("mine", base.path()).unwrap();
            assert_eq!(found.tokens(Split::Train).len(), 80);
            let mut read = [0; 2];
            found.tokens(Split::Train).read(39, &mut read).unwrap();
            assert_eq!(read, [39, 100]);
            assert_eq!(found.tokens(Split::Val).len(), 40);
            let before = found.fingerprint().unwrap();
            fs::write(folder.join(names[1]), tokens::shard_header(0, 2)).unwrap();
            assert!(Dataset::open("mine", base.path()).is_err(), "each must be whole");
            fs::remove_file(folder.join(names[1])).unwrap();
            let fewer = Dataset::open("mine", base.path()).unwrap();
            assert_ne!(fewer.fingerprint().unwrap(), before);
        }
    }

    #[test]
    fn without_meta_the_vocabulary_is_gpt2s() {
        let base = tempfile::tempdir().unwrap();
        dataset_at(&base.path().join("data/mine"));
        let found = Dataset::open("mine", base.path()).unwrap();
        assert_eq!(found.vocab_size(), 50_304);
        assert_eq!(found.tokenizer(), Tokenizer::Gpt2);
        fs::write(base.path().join("data/mine/meta.pkl"), Meta::pickled(&['a', 'b'])).unwrap();
        let found = Dataset::open("mine", base.path()).unwrap();
        assert_eq!(found.vocab_size(), 2);
        assert_eq!(found.tokenizer().encode("ba").unwrap(), [1, 0]);
    }

    #[test]
    fn a_missing_dataset_is_reported_with_every_folder_and_the_command_that_makes_it() {
        let base = Path::new("here");
        let text = Dataset::open("openwebtext", base).unwrap_err().to_string();
        assert_eq!(
            text,
            "there is no dataset `openwebtext`: no folder `here/data/openwebtext`, no folder \
             `here/openwebtext`; make it with \
             `fitgpt prepare openwebtext`"
        );
        assert_eq!(
            prepare_line("book_char"),
            "fitgpt prepare input.txt --chars --out data/book_char"
        );
        assert_eq!(prepare_line("some/where"), "fitgpt prepare input.txt --out some/where");
        assert!(matches!(Dataset::open("", base), Err(DataError::NoDataset { .. })));
    }

    #[test]
    fn a_missing_file_of_a_folder_is_named() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("data/mine")).unwrap();
        let text = Dataset::open("mine", base.path()).unwrap_err().to_string();
        assert!(text.ends_with("data/mine/train.bin` does not exist"), "{text}");
    }

    #[test]
    fn stories_are_written_only_once() {
        let base = tempfile::tempdir().unwrap();
        let found = Dataset::open(STORIES, base.path()).unwrap();
        assert!(found.vocab_size() <= 64);
        let train = base.path().join("data/stories/train.bin");
        let written = fs::metadata(&train).unwrap().modified().unwrap();
        Dataset::open(STORIES, base.path()).unwrap();
        assert_eq!(fs::metadata(&train).unwrap().modified().unwrap(), written);
    }
}
