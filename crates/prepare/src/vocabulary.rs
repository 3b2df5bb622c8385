//! What the tokens of a dataset mean: their encoder, and the files that describe them.

use std::path::{Path, PathBuf};

use fitgpt_data::{
    Meta,
    tokenizer::{
        END_OF_TEXT, END_OF_TEXT_SPELLING, EndOfTextOrigin, EndOfTextToken, FILE_LIMIT_BYTES, Json,
        TOKENIZER_FILE, Tokenizer, TokenizerError, huggingface,
    },
};
use fitgpt_files::os;

use super::{
    EndOfText, Options, PrepareError, Vocabulary, need::DiskNeed, shards::TokenWidth,
    symbols::Symbols,
};

/// The table of a dataset whose tokens are not GPT-2's.
pub(super) const META: &str = "meta.pkl";

/// The tokens of a dataset.
pub(super) struct DatasetVocabulary {
    pub(super) tokenizer: Tokenizer,
    /// One more than the largest token.
    pub(super) size: u32,
    /// Where the end-of-text token is written.
    pub(super) end_of_text: EndOfText,
    /// Also set if it is written nowhere: `transformers` stops at it.
    end_of_text_token: Option<EndOfTextToken>,
    meta: Option<Vec<u8>>,
    json: Option<JsonFile>,
}

impl DatasetVocabulary {
    /// The vocabulary that `options` name, with the characters of the text or the tokens of `json`.
    pub(super) fn new(
        options: &Options,
        symbols: Option<&Symbols>,
        json: Option<JsonFile>,
        end_of_text: EndOfText,
    ) -> Result<Self, PrepareError> {
        let (tokenizer, size, meta) = match (options.vocabulary, symbols, &json) {
            (Vocabulary::Chars, Some(symbols), _) => {
                let symbols = symbols.sorted()?;
                let meta = Meta::pickled(&symbols);
                let n = symbols.len() as u32; // at most 2^16
                let symbols = symbols.iter().map(char::to_string).collect();
                (Tokenizer::from_symbols(symbols), n, Some(meta))
            }
            (Vocabulary::Json, _, Some(file)) => {
                let n = file.json.vocab_size();
                (Tokenizer::Json(file.json.clone()), n, Some(Meta::pickled_size(n)))
            }
            _ => (Tokenizer::Gpt2, END_OF_TEXT + 1, None),
        };
        let end_of_text_token = match (&json, end_of_text) {
            (Some(file), EndOfText::None) if options.end_of_text_token.is_none() => {
                file.end_of_text(None).ok()
            }
            (Some(file), _) => Some(file.end_of_text(options.end_of_text_token.as_deref())?),
            (None, _) if options.vocabulary == Vocabulary::Gpt2 => Some(EndOfTextToken {
                token: END_OF_TEXT_SPELLING.to_owned(),
                id: END_OF_TEXT,
                origin: EndOfTextOrigin::Gpt2,
            }),
            (None, _) => None,
        };
        Ok(Self { tokenizer, size, end_of_text, end_of_text_token, meta, json })
    }

    /// How many bits a token has in a file.
    pub(super) fn width(&self) -> TokenWidth {
        TokenWidth::of(self.size)
    }

    /// The token between documents, if there is one.
    pub(super) fn mark(&self) -> Option<&EndOfTextToken> {
        self.end_of_text_token.as_ref().filter(|_| self.end_of_text != EndOfText::None)
    }

    /// Whether the dataset has a [`META`].
    pub(super) fn has_meta(&self) -> bool {
        self.meta.is_some()
    }

    /// The length of its `tokenizer.json`.
    pub(super) fn json_bytes(&self) -> u64 {
        self.json.as_ref().map_or(0, |file| file.bytes.len() as u64)
    }

    /// What the dataset takes on the disk, if the length of the text is known: in characters, or in
    /// bytes.
    pub(super) fn disk_need(
        &self,
        characters: Option<u64>,
        plain_bytes: Option<u64>,
    ) -> Option<DiskNeed> {
        match (&self.meta, characters) {
            (Some(meta), Some(characters)) if self.json.is_none() => {
                Some(DiskNeed::of_characters(characters, meta.len() as u64))
            }
            _ => plain_bytes.map(|bytes| DiskNeed::of_tokens(bytes, self.width().bytes())),
        }
    }

    /// The files that describe the tokens, by name.
    pub(super) fn into_tables(self) -> Vec<(&'static str, Vec<u8>)> {
        let mut tables = Vec::new();
        tables.extend(self.meta.map(|meta| (META, meta)));
        if let Some(file) = self.json {
            let next_to_it = huggingface::files_for_json(self.end_of_text_token.as_ref());
            tables.extend(next_to_it.into_iter().map(|(name, text)| (name, text.into_bytes())));
            tables.push((TOKENIZER_FILE, file.bytes));
        }
        tables
    }
}

/// A `tokenizer.json`.
pub(super) struct JsonFile {
    path: PathBuf,
    bytes: Vec<u8>,
    json: Json,
}

impl JsonFile {
    /// The file that `options` name, if they name one.
    pub(super) fn of(options: &Options) -> Result<Option<Self>, PrepareError> {
        match &options.tokenizer {
            Some(path) if options.vocabulary == Vocabulary::Json => Self::open(path).map(Some),
            _ => Ok(None),
        }
    }

    fn open(path: &Path) -> Result<Self, PrepareError> {
        let bytes = os::read_bytes(path, FILE_LIMIT_BYTES);
        let bytes = bytes.map_err(|source| PrepareError::reading(path, source))?;
        let json =
            Json::open_for_documents(path).map_err(|source| PrepareError::Encode { source })?;
        Ok(Self { path: path.to_owned(), bytes, json })
    }

    /// The end-of-text token: `named`, or the one that the tokenizer's files determine.
    fn end_of_text(&self, named: Option<&str>) -> Result<EndOfTextToken, PrepareError> {
        let Some(token) = named else {
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let found = self.json.end_of_text(folder);
            return found.ok_or_else(|| PrepareError::NoEndOfText { path: self.path.clone() });
        };
        let Some(id) = self.json.id_of(token) else {
            let (path, token) = (self.path.clone(), token.to_owned());
            return Err(PrepareError::Encode { source: TokenizerError::NoToken { path, token } });
        };
        Ok(EndOfTextToken { token: token.to_owned(), id, origin: EndOfTextOrigin::Option })
    }
}
