//! A corpus of short stories that the program generates.
//!
//! Training can be tried without a download: 3.7 MB of plain English with few words and few
//! characters. Names, pronouns and things stay the same through a story, so that a model first
//! learns to spell, then to form sentences, then to keep track of who is who.
//!
//! The text depends only on this folder: plots, words and counter-based random numbers.

mod chance;
mod plot;
mod words;
mod cast;
mod text;

use std::path::Path;

use fitgpt_files::disk::{Disk, DiskError};

use super::{DataError, Meta};

/// How many stories there are.
const STORIES: u64 = 7_000;

/// One story in ten is held out.
const VAL_EVERY: u64 = 10;

/// How many different characters the stories have.
pub(crate) const VOCAB_SIZE: u32 = 59;

/// The text of the corpus, for training and for validation.
#[derive(Debug)]
pub(crate) struct Corpus {
    /// Nine stories of ten.
    pub train: String,
    /// The tenth.
    pub val: String,
}

/// Generates every story, with a blank line after each.
pub(crate) fn corpus() -> Corpus {
    let plots = plot::plots();
    let mut corpus = Corpus { train: String::new(), val: String::new() };
    for story in 0..STORIES {
        let is_val = story % VAL_EVERY == VAL_EVERY - 1;
        let text = if is_val { &mut corpus.val } else { &mut corpus.train };
        text.push_str(&text::write_story(&plots, story));
        text.push_str("\n\n");
    }
    corpus
}

/// Writes the corpus as a dataset in nanoGPT's format of characters.
///
/// Each file is written atomically, `train.bin` last: if it exists, the others do.
pub fn write(folder: &Path) -> Result<(), DataError> {
    let corpus = corpus();
    let itos = symbols(&corpus);
    let disk = Disk::real();
    let write = |name, bytes: &[u8]| disk.replace(&folder.join(name), bytes);
    disk.create_dirs(folder)
        .and_then(|()| write("meta.pkl", &Meta::pickled(&itos)))
        .and_then(|()| write("val.bin", &encoded(&corpus.val, &itos)))
        .and_then(|()| write("train.bin", &encoded(&corpus.train, &itos)))
        .map_err(|DiskError { action, path, source }| DataError::Io { action, path, source })
}

/// The characters of the corpus, sorted.
fn symbols(corpus: &Corpus) -> Vec<char> {
    let mut is_used = [false; 128];
    for byte in corpus.train.bytes().chain(corpus.val.bytes()) {
        is_used[usize::from(byte)] = true; // words and plots are ASCII, which a test checks
    }
    (0..128_u8).filter(|&byte| is_used[usize::from(byte)]).map(char::from).collect()
}

fn encoded(text: &str, itos: &[char]) -> Vec<u8> {
    let mut ids = [0_u16; 128];
    for (&symbol, id) in itos.iter().zip(0..) {
        ids[symbol as usize] = id;
    }
    text.bytes().flat_map(|byte| ids[usize::from(byte)].to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use fitgpt_program::hash::{FNV_1A_START, fnv_1a};

    use super::*;
    use crate::{Dataset, Split, tokenizer::Tokenizer};

    fn stories(text: &str) -> impl Iterator<Item = &str> {
        text.split_terminator("\n\n")
    }

    #[test]
    fn the_corpus_is_the_same_everywhere() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let hash = |name| fnv_1a(FNV_1A_START, &fs::read(folder.path().join(name)).unwrap());
        // A change of a story changes these, and the losses that people compare.
        assert_eq!(
            ["train.bin", "val.bin", "meta.pkl"].map(hash),
            [0x0e2f_1a95_76a7_81d0, 0xc8c2_5b3a_91d3_2cce, 0x5200_ecac_aa5b_f9c9]
        );
    }

    #[test]
    fn the_size_of_the_vocabulary_is_known_before_the_corpus() {
        assert_eq!(symbols(&corpus()).len(), VOCAB_SIZE as usize);
    }

    #[test]
    fn only_the_three_files_are_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["meta.pkl", "train.bin", "val.bin"]);
    }

    #[test]
    fn the_files_decode_to_the_stories() {
        let base = tempfile::tempdir().unwrap();
        let dataset = Dataset::open("stories", base.path()).unwrap();
        let corpus = corpus();
        for (split, text) in [(Split::Train, &corpus.train), (Split::Val, &corpus.val)] {
            let file = dataset.tokens(split);
            let mut ids = vec![0; file.len() as usize];
            file.read(0, &mut ids).unwrap();
            assert_eq!(&dataset.tokenizer().decode(&ids), text);
        }
        let both = format!("{}{}", corpus.train, corpus.val);
        assert_eq!(dataset.tokenizer(), Tokenizer::from_text(&both));
    }

    #[test]
    fn the_corpus_has_the_promised_size_and_few_symbols() {
        let corpus = corpus();
        let bytes = corpus.train.len() + corpus.val.len();
        assert!((3_000_000..=4_000_000).contains(&bytes), "{bytes}");
        let symbols = symbols(&corpus);
        assert!(symbols.len() <= 64, "{symbols:?}");
        assert!(corpus.train.is_ascii() && corpus.val.is_ascii());
        assert_eq!(stories(&corpus.train).count(), 6_300);
        assert_eq!(stories(&corpus.val).count(), 700);
    }

    #[test]
    fn a_story_has_a_few_sentences_and_is_almost_always_unique() {
        let corpus = corpus();
        let mut seen = BTreeSet::new();
        for story in stories(&corpus.train).chain(stories(&corpus.val)) {
            let body = story.split_once('\n').map_or(story, |(_title, body)| body);
            assert!(!body.contains('\n') && !story.contains("  "), "{story}");
            let ends = body.matches(['.', '!', '?']).count();
            assert!((4..=20).contains(&ends), "{ends}: {story}"); // counts the quoted ones too
            seen.insert(body);
        }
        assert!(seen.len() > 6_990, "{}", seen.len());
    }

    #[test]
    fn the_validation_text_uses_words_of_the_training_text() {
        let corpus = corpus();
        let words = |text: &'static str| -> BTreeSet<&'static str> {
            text.split(|c: char| !c.is_ascii_alphabetic()).collect()
        };
        let learned = words(corpus.train.leak());
        let kept = words(corpus.val.leak());
        assert!(kept.is_subset(&learned), "{:?}", kept.difference(&learned));
        assert!(learned.len() > 600, "{}", learned.len());
    }
}
