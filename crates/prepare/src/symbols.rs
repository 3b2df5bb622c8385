//! The set of characters in a text.

use super::PrepareError;

/// Token files have 16 bits per token.
const SYMBOLS_LIMIT: usize = 1 << 16;

/// A set of characters: one bit for every possible one.
#[derive(Debug)]
pub(super) struct Symbols(Vec<u64>);

impl Symbols {
    pub(super) fn new() -> Self {
        Self(vec![0; (char::MAX as usize + 1) / 64])
    }

    pub(super) fn add(&mut self, text: &str) {
        for character in text.chars() {
            self.0[character as usize / 64] |= 1 << (character as usize % 64);
        }
    }

    /// The characters in order, as nanoGPT numbers them.
    pub(super) fn sorted(&self) -> Result<Vec<char>, PrepareError> {
        let is_in = |&character: &char| {
            self.0[character as usize / 64] >> (character as usize % 64) & 1 == 1
        };
        let sorted = ('\0'..=char::MAX).filter(is_in).collect::<Vec<_>>();
        match sorted.len() {
            symbols if symbols > SYMBOLS_LIMIT => {
                Err(PrepareError::TooManySymbols { symbols, limit: SYMBOLS_LIMIT })
            }
            _ => Ok(sorted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_sorted_and_unique() {
        let mut symbols = Symbols::new();
        assert!(symbols.sorted().unwrap().is_empty());
        symbols.add("banana \u{10ffff}\0é");
        symbols.add("band\u{d7ff}\u{e000}");
        let sorted = ['\0', ' ', 'a', 'b', 'd', 'n', 'é', '\u{d7ff}', '\u{e000}', '\u{10ffff}'];
        assert_eq!(symbols.sorted().unwrap(), sorted);
    }

    #[test]
    fn more_characters_than_sixteen_bits_can_number_are_refused() {
        let mut symbols = Symbols::new();
        let text = ('\0'..).take(1 << 16).collect::<String>();
        symbols.add(&text);
        assert_eq!(symbols.sorted().unwrap().len(), 65_536);
        symbols.add("\u{10ffff}");
        let error = symbols.sorted().unwrap_err();
        assert!(matches!(error, PrepareError::TooManySymbols { symbols: 65_537, .. }), "{error}");
    }
}
