//! What the tokens of a dataset mean: a fingerprint of its vocabulary and tokenizer.
//!
//! It is stored in every checkpoint. A model that is trained on with other meanings of the same
//! numbers loses what it has learned, and its samples are decoded wrongly; so such data is refused.
//!
//! Promise: a run is not resumed on data whose tokens mean something else, unless it is told to.
//! Test: `tests/runs/vocabulary.rs`.

use std::{io::Read as _, path::Path};

use fitgpt_files::{attempt::Attempt, os};
use fitgpt_program::hash::{FNV_1A_START, fnv_1a};
use serde::{Deserialize, Serialize};

use super::{
    DataError,
    tokenizer::{END_OF_TEXT, Json, TOKENIZER_FILE, Tokenizer},
};

/// A text whose tokens differ between any two tokenizers of practical interest.
const PROBE: &str =
    "Hello, I'm a language model;\n\n  naïve 日本語 😀 12345 don't\tINDENTED_code();";

/// A vocabulary and how text is divided into its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabulary {
    /// What kind of tokens they are.
    pub kind: VocabularyKind,
    /// How many.
    pub tokens: u32,
    /// A hash of the symbols or of the tokenizer's file, in hexadecimal; empty if the kind says it
    /// all.
    pub hash: String,
}

/// What kind of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VocabularyKind {
    /// The symbols of a `meta.pkl`.
    Symbols,
    /// GPT-2's.
    Gpt2,
    /// Those of a `tokenizer.json`.
    File,
    /// Numbers whose meaning is not known here.
    Ids,
}

impl Vocabulary {
    /// The vocabulary of `tokenizer`; tokens without symbols are those of the `tokenizer.json` in
    /// `folder`, if there is one.
    pub fn of(
        tokenizer: &Tokenizer,
        tokens: u32,
        folder: Option<&Path>,
    ) -> Result<Self, DataError> {
        match tokenizer {
            Tokenizer::Chars(chars) => {
                let symbols = chars.symbols();
                let hash = symbols.iter().fold(FNV_1A_START, |hash, symbol| {
                    let length = (symbol.len() as u64).to_le_bytes();
                    fnv_1a(fnv_1a(hash, &length), symbol.as_bytes())
                });
                Ok(Self {
                    kind: VocabularyKind::Symbols,
                    tokens: symbols.len() as u32,
                    hash: format!("{hash:016x}"),
                })
            }
            Tokenizer::Gpt2 | Tokenizer::Ids | Tokenizer::Json(_) => {
                let file = folder.map(|folder| folder.join(TOKENIZER_FILE));
                if let Some(file) = file.filter(|file| file.is_file()) {
                    return Self::of_file(&file, tokens);
                }
                let is_gpt2 = *tokenizer == Tokenizer::Gpt2;
                let kind = if is_gpt2 { VocabularyKind::Gpt2 } else { VocabularyKind::Ids };
                let tokens = if is_gpt2 { END_OF_TEXT + 1 } else { tokens };
                Ok(Self { kind, tokens, hash: String::new() })
            }
        }
    }

    /// The vocabulary of a `tokenizer.json`.
    fn of_file(path: &Path, tokens: u32) -> Result<Self, DataError> {
        let io = |source| DataError::Io { action: Attempt::Read, path: path.to_owned(), source };
        let mut file = os::open_regular(path).map_err(io)?;
        let (mut hash, mut chunk) = (FNV_1A_START, vec![0; 256 << 10]);
        loop {
            match file.read(&mut chunk).map_err(io)? {
                0 => break,
                count => hash = fnv_1a(hash, &chunk[..count]),
            }
        }
        Ok(Self { kind: VocabularyKind::File, tokens, hash: format!("{hash:016x}") })
    }

    /// Whether tokens mean the same in both. GPT-2's `tokenizer.json` has the same tokens as GPT-2's
    /// built-in tables; `folders` are where such a file may be.
    pub fn is_same(&self, other: &Self, folders: [&Path; 2]) -> bool {
        use VocabularyKind::{File, Gpt2};
        match (self.kind, other.kind) {
            // The number of tokens may include padding.
            (File, File) => self.hash == other.hash,
            (File, Gpt2) | (Gpt2, File) => folders.into_iter().any(is_gpt2),
            _ => self == other,
        }
    }
}

/// Whether the `tokenizer.json` in `folder` divides text as GPT-2's does.
fn is_gpt2(folder: &Path) -> bool {
    Json::open(&folder.join(TOKENIZER_FILE)).is_ok_and(|json| {
        let theirs = Tokenizer::Json(json).encode_document(PROBE);
        theirs.is_ok_and(|theirs| Tokenizer::Gpt2.encode_document(PROBE) == Ok(theirs))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(tokenizer: &Tokenizer, tokens: u32, folder: &Path) -> Vocabulary {
        Vocabulary::of(tokenizer, tokens, Some(folder)).unwrap()
    }

    #[test]
    fn other_symbols_another_order_and_other_borders_differ() {
        let folder = tempfile::tempdir().unwrap();
        let symbols = |symbols: &[&str]| {
            let symbols = symbols.iter().map(|&symbol| symbol.to_owned()).collect();
            of(&Tokenizer::from_symbols(symbols), 9, folder.path())
        };
        let all = [
            symbols(&["a", "b"]),
            symbols(&["b", "a"]),
            symbols(&["ab", ""]),
            symbols(&["", "ab"]),
            symbols(&["a", "b", "c"]),
            of(&Tokenizer::Gpt2, 50_304, folder.path()),
            of(&Tokenizer::Ids, 2, folder.path()),
            of(&Tokenizer::Ids, 3, folder.path()),
        ];
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                let is_same = one.is_same(other, [folder.path(); 2]);
                assert_eq!(is_same, i == j, "{one:?} {other:?}");
            }
        }
        // Padding of the model is not part of GPT-2's vocabulary.
        let padded = of(&Tokenizer::Gpt2, 50_257, folder.path());
        assert!(padded.is_same(&all[5], [folder.path(); 2]));
    }

    #[test]
    fn a_tokenizer_file_is_known_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(TOKENIZER_FILE);
        fs::write(&file, "{}").unwrap();
        let one = of(&Tokenizer::Ids, 7, folder.path());
        assert_eq!(one.kind, VocabularyKind::File);
        fs::write(&file, "{ }").unwrap();
        let other = of(&Tokenizer::Ids, 7, folder.path());
        assert!(!one.is_same(&other, [folder.path(); 2]));
        // It is not GPT-2's, whatever it is.
        let gpt2 = Vocabulary { kind: VocabularyKind::Gpt2, tokens: 50_257, hash: String::new() };
        assert!(!gpt2.is_same(&other, [folder.path(); 2]));
        // The symbols of `meta.pkl` come first, as for everything else.
        let symbols = of(&Tokenizer::from_text("ab"), 2, folder.path());
        assert_eq!(symbols.kind, VocabularyKind::Symbols);
    }
}
