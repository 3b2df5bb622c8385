//! A dataset's vocabulary: nanoGPT's `meta.pkl`.
//!
//! It is a pickled dict: `vocab_size`, `itos` (id to symbol) and `stoi` (symbol to id).

use std::{io::Read, path::Path};

use fitgpt_files::{attempt::Attempt, os};
use fitgpt_pickle::{Pickle, PickleValue};

use super::{DataError, MetaError};

/// The most bytes that a `meta.pkl` can need: 65,536 symbols, twice, with 256 bytes each.
const LIMIT_BYTES: u64 = 32 << 20;

/// The most tokens of a vocabulary; more than 2^16 of them need files of 32-bit tokens.
const VOCAB_LIMIT: i64 = 1 << 24;

/// The most tokens of a vocabulary with symbols, because a small file could request a table of any
/// size.
const SYMBOLS_LIMIT: i64 = 1 << 16;

/// The contents of a `meta.pkl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// One more than the largest token; at least 1.
    pub vocab_size: u32,
    /// The symbol of each token, if the file has symbols; empty text for a token without one.
    pub itos: Option<Vec<String>>,
}

impl Meta {
    /// Reads `path`; `None` if there is no such file.
    pub fn open(path: &Path) -> Result<Option<Self>, DataError> {
        let io = |source| DataError::Io { action: Attempt::Read, path: path.to_owned(), source };
        let file = match os::open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                return Err(DataError::NotAFile { path: path.to_owned() });
            }
            Err(error) => return Err(io(error)),
        };
        let facts = file.metadata().map_err(io)?;
        if facts.len() > LIMIT_BYTES {
            let (path, bytes) = (path.to_owned(), facts.len());
            return Err(DataError::MetaTooLarge { path, bytes, limit: LIMIT_BYTES });
        }
        let mut bytes = Vec::new();
        file.take(LIMIT_BYTES).read_to_end(&mut bytes).map_err(io)?;
        let pickle = Pickle::read(bytes.as_slice())
            .map_err(|source| DataError::Pickle { path: path.to_owned(), source })?;
        let meta = Self::from_pickle(&pickle)
            .map_err(|source| DataError::Meta { path: path.to_owned(), source })?;
        Ok(Some(meta))
    }

    fn from_pickle(pickle: &Pickle) -> Result<Self, MetaError> {
        let PickleValue::Dict(root) = pickle.root() else {
            return Err(MetaError::NotADict { found: type_name(pickle.root()) });
        };
        let get = |wanted: &str| pickle.get(root, wanted); // the last one counts, as in Python
        let vocab_size =
            int("vocab_size", get("vocab_size").ok_or(MetaError::NoKey { key: "vocab_size" })?)?;
        let has_symbols = get("itos").is_some() || get("stoi").is_some();
        let limit = if has_symbols { SYMBOLS_LIMIT } else { VOCAB_LIMIT };
        if !(1..=limit).contains(&vocab_size) {
            return Err(MetaError::VocabSize { vocab_size, limit });
        }
        let mut symbols = SymbolTable { of: Vec::new(), vocab_size: vocab_size as u32 };
        match get("itos") {
            None => {}
            Some(PickleValue::Dict(pairs)) => {
                for [id, symbol] in pairs {
                    let (id, symbol) = (pickle.value(*id), pickle.value(*symbol));
                    symbols.set("itos", int("itos", id)?, text("itos", symbol)?)?;
                }
            }
            Some(PickleValue::List(items)) => {
                for (id, symbol) in (0..).zip(items) {
                    symbols.set("itos", id, text("itos", pickle.value(*symbol))?)?;
                }
            }
            Some(other) => return Err(wrong("itos", "dict", other)),
        }
        match get("stoi") {
            None => {}
            Some(PickleValue::Dict(pairs)) => {
                for [symbol, id] in pairs {
                    let (id, symbol) = (pickle.value(*id), pickle.value(*symbol));
                    symbols.set("stoi", int("stoi", id)?, text("stoi", symbol)?)?;
                }
            }
            Some(other) => return Err(wrong("stoi", "dict", other)),
        }
        let itos = Some(symbols.of).filter(|of| !of.is_empty());
        Ok(Self { vocab_size: vocab_size as u32, itos })
    }

    /// The bytes of a `meta.pkl` for a vocabulary whose symbols are in another file.
    pub fn pickled_size(vocab_size: u32) -> Vec<u8> {
        let mut bytes = b"\x80\x02}(".to_vec(); // protocol 2, an empty dict, a mark
        push_text(&mut bytes, "vocab_size");
        push_int(&mut bytes, vocab_size as usize);
        bytes.extend(b"u.");
        bytes
    }

    /// The bytes of a `meta.pkl` that Python's `pickle.load` reads, for symbols of one
    /// character each. The same symbols give the same bytes.
    pub fn pickled(itos: &[char]) -> Vec<u8> {
        let mut bytes = b"\x80\x02}(".to_vec(); // protocol 2, an empty dict, a mark
        push_text(&mut bytes, "vocab_size");
        push_int(&mut bytes, itos.len());
        push_text(&mut bytes, "itos");
        bytes.extend(b"}(");
        for (id, symbol) in itos.iter().enumerate() {
            push_int(&mut bytes, id);
            push_text(&mut bytes, symbol.encode_utf8(&mut [0; 4]));
        }
        bytes.push(b'u'); // everything since the mark goes into the dict
        push_text(&mut bytes, "stoi");
        bytes.extend(b"}(");
        for (id, symbol) in itos.iter().enumerate() {
            push_text(&mut bytes, symbol.encode_utf8(&mut [0; 4]));
            push_int(&mut bytes, id);
        }
        bytes.extend(b"uu.");
        bytes
    }
}

/// Symbols by id, while they are read.
struct SymbolTable {
    of: Vec<String>,
    vocab_size: u32,
}

impl SymbolTable {
    fn set(&mut self, place: &'static str, id: i64, symbol: &str) -> Result<(), MetaError> {
        let vocab_size = self.vocab_size;
        let index = usize::try_from(id).ok().filter(|&index| index < vocab_size as usize);
        let index = index.ok_or(MetaError::IdOutside { place, id, vocab_size })?;
        if self.of.len() <= index {
            self.of.resize(index + 1, String::new());
        }
        let slot = &mut self.of[index];
        if slot.is_empty() {
            symbol.clone_into(slot);
        } else if slot != symbol {
            return Err(MetaError::Disagree { id, symbol: symbol.escape_debug().collect() });
        }
        Ok(())
    }
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(b'X');
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn push_int(bytes: &mut Vec<u8>, value: usize) {
    bytes.push(b'J');
    bytes.extend((value as i32).to_le_bytes()); // a vocabulary has fewer than 2^31 symbols
}

fn int(place: &'static str, value: PickleValue<'_>) -> Result<i64, MetaError> {
    match value {
        PickleValue::Int(value) => Ok(value),
        other => Err(wrong(place, "int", other)),
    }
}

fn text<'a>(place: &'static str, value: PickleValue<'a>) -> Result<&'a str, MetaError> {
    match value {
        PickleValue::Text(text) => Ok(text),
        other => Err(wrong(place, "str", other)),
    }
}

fn wrong(place: &'static str, expected: &'static str, found: PickleValue<'_>) -> MetaError {
    MetaError::WrongType { place, expected, found: type_name(found) }
}

fn type_name(value: PickleValue<'_>) -> &'static str {
    match value {
        PickleValue::Int(_) => "int",
        PickleValue::BigInt => "int of more than 64 bits",
        PickleValue::Float(_) => "float",
        PickleValue::Bool(_) => "bool",
        PickleValue::Text(_) => "str",
        PickleValue::Dict(_) => "dict",
        PickleValue::List(_) => "list",
        PickleValue::Other(name) => name,
        PickleValue::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fitgpt_pickle::PickleError;

    use super::*;

    const SYMBOLS: [char; 7] = ['\n', ' ', 'A', 'b', 'é', '日', '😀'];

    fn open(bytes: &[u8]) -> Result<Meta, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta.pkl");
        fs::write(&path, bytes).unwrap();
        Meta::open(&path).map(Option::unwrap)
    }

    fn meta_error(bytes: &[u8]) -> MetaError {
        match open(bytes).unwrap_err() {
            DataError::Meta { source, .. } => source,
            other => panic!("{other}"),
        }
    }

    fn expected() -> Meta {
        let itos = Some(SYMBOLS.iter().map(char::to_string).collect());
        Meta { vocab_size: 7, itos }
    }

    #[test]
    fn every_protocol_of_python_gives_the_same_result() {
        for bytes in [
            include_bytes!("fixtures/meta.0.pkl").as_slice(),
            include_bytes!("fixtures/meta.1.pkl"),
            include_bytes!("fixtures/meta.2.pkl"),
            include_bytes!("fixtures/meta.3.pkl"),
            include_bytes!("fixtures/meta.4.pkl"),
            include_bytes!("fixtures/meta.5.pkl"),
        ] {
            assert_eq!(open(bytes).unwrap(), expected());
        }
    }

    #[test]
    fn code_in_a_pickle_is_reported_and_not_run() {
        for bytes in [
            include_bytes!("fixtures/code.0.pkl").as_slice(),
            include_bytes!("fixtures/code.1.pkl"),
            include_bytes!("fixtures/code.2.pkl"),
            include_bytes!("fixtures/code.3.pkl"),
            include_bytes!("fixtures/code.4.pkl"),
            include_bytes!("fixtures/code.5.pkl"),
        ] {
            match open(bytes).unwrap_err() {
                DataError::Pickle { source: PickleError::Code { opcode, .. }, .. } => {
                    assert!(opcode.ends_with("GLOBAL"));
                }
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn a_written_file_is_read_back() {
        assert_eq!(open(&Meta::pickled(&SYMBOLS)).unwrap(), expected());
    }

    #[test]
    fn a_pickle_cut_anywhere_or_with_any_byte_changed_never_panics() {
        let whole = include_bytes!("fixtures/meta.4.pkl");
        for end in 0..whole.len() {
            assert!(Pickle::read(&whole[..end]).is_err());
        }
        for position in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = whole.to_vec();
                bytes[position] = byte;
                if let Ok(pickle) = Pickle::read(bytes.as_slice()) {
                    let _ = Meta::from_pickle(&pickle);
                }
            }
        }
    }

    #[test]
    fn wrong_types_and_sizes_are_reported() {
        let table: [(&[u8], &str); 9] = [
            (b"].", "it is a pickled `list`, not a `dict`"),
            (b"}.", "it has no `vocab_size`"),
            (
                b"}X\n\0\0\0vocab_sizeX\x02\0\0\x0065s.",
                "`vocab_size` should be `int`, but holds `str`",
            ),
            (b"}X\n\0\0\0vocab_sizeNs.", "`vocab_size` should be `int`, but holds `None`"),
            (
                b"}X\n\0\0\0vocab_size\x8a\x09\0\0\0\0\0\0\0\0\x01s.",
                "`vocab_size` should be `int`, but holds `int of more than 64 bits`",
            ),
            (b"}X\n\0\0\0vocab_sizeK\0s.", "`vocab_size` should be from 1 to 16777216: 0"),
            (
                b"}X\n\0\0\0vocab_sizeJ\xff\xff\xff\xffs.",
                "`vocab_size` should be from 1 to 16777216: -1",
            ),
            (
                b"}X\n\0\0\0vocab_sizeJ\xff\xff\xff\x7fs.",
                "`vocab_size` should be from 1 to 16777216: 2147483647",
            ),
            (
                b"}(X\n\0\0\0vocab_sizeK\x05X\x04\0\0\0itosK\x05u.",
                "`itos` should be `dict`, but holds `int`",
            ),
        ];
        for (bytes, text) in table {
            assert_eq!(meta_error(bytes).to_string(), text);
        }
    }

    #[test]
    fn ids_outside_the_vocabulary_are_reported() {
        let pickle = |id: i32, symbol: &[u8]| {
            let mut bytes = b"}(X\n\0\0\0vocab_sizeK\x05X\x04\0\0\0itos}J".to_vec();
            bytes.extend(id.to_le_bytes());
            bytes.extend(symbol);
            bytes.extend(b"su.");
            bytes
        };
        for id in [-1, 5, i32::MAX, i32::MIN] {
            assert_eq!(
                meta_error(&pickle(id, b"X\x01\0\0\0a")),
                MetaError::IdOutside { place: "itos", id: id.into(), vocab_size: 5 }
            );
        }
        let no_symbol = meta_error(&pickle(1, b"K\x07"));
        assert_eq!(no_symbol.to_string(), "`itos` should be `str`, but holds `int`");
        let sparse = open(&pickle(2, b"X\x01\0\0\0a")).unwrap();
        assert_eq!(sparse.itos.unwrap(), ["", "", "a"]);
    }

    #[test]
    fn directions_that_disagree_are_an_error() {
        let bytes = b"}(X\n\0\0\0vocab_sizeK\x05X\x04\0\0\0itos}K\0X\x01\0\0\0asX\x04\0\0\0stoi}X\x01\0\0\0bK\0su.";
        assert_eq!(meta_error(bytes), MetaError::Disagree { id: 0, symbol: "b".into() });
    }

    #[test]
    fn a_vocabulary_without_symbols_is_a_size() {
        let meta = open(b"}X\n\0\0\0vocab_sizeK\x05s.").unwrap();
        assert_eq!(meta, Meta { vocab_size: 5, itos: None });
        let meta = open(&Meta::pickled_size(151_936)).unwrap();
        assert_eq!(meta, Meta { vocab_size: 151_936, itos: None });
        let with_symbols = b"}(X\n\0\0\0vocab_sizeJ\0\0\x01\x01X\x04\0\0\0itos}u.";
        let error = MetaError::VocabSize { vocab_size: 0x0101_0000, limit: 65_536 };
        assert_eq!(meta_error(with_symbols), error);
    }

    #[test]
    fn a_missing_file_gives_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Meta::open(&folder.path().join("meta.pkl")).unwrap(), None);
    }
}
