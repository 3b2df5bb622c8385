//! One token per character, from a table.

use serde::{Deserialize, Serialize};

use super::TokenizerError;

/// A table of symbols, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Table", into = "Table")]
pub struct Chars {
    itos: Vec<String>,      // empty text for an id without a symbol
    stoi: Vec<(char, u32)>, // sorted by character
}

/// The stored form of [`Chars`].
#[derive(Serialize, Deserialize)]
struct Table {
    itos: Vec<String>,
}

impl Chars {
    /// From a dataset's table. Symbols of several characters are decoded but never encoded, as in
    /// nanoGPT; if two ids have the same symbol, the later one is used.
    pub(super) fn from_symbols(itos: Vec<String>) -> Self {
        let mut stoi = Vec::new();
        for (symbol, id) in itos.iter().zip(0..) {
            let mut characters = symbol.chars();
            if let (Some(character), None) = (characters.next(), characters.next()) {
                stoi.push((character, id));
            }
        }
        stoi.sort_unstable_by_key(|&(character, id)| (character, std::cmp::Reverse(id)));
        stoi.dedup_by_key(|&mut (character, _)| character);
        Self { itos, stoi }
    }

    /// From the characters of a text, sorted.
    pub(super) fn from_text(text: &str) -> Self {
        let characters = text.chars().collect::<std::collections::BTreeSet<_>>();
        Self::from_symbols(characters.into_iter().map(String::from).collect())
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let id = |(position, character)| match self.stoi.binary_search_by_key(&character, |s| s.0) {
            Ok(index) => Ok(self.stoi[index].1),
            Err(_) => Err(TokenizerError::UnknownCharacter { character, position }),
        };
        (1..).zip(text.chars()).map(id).collect()
    }

    /// The symbol of an id, if it has one.
    pub fn symbol(&self, id: u32) -> Option<&str> {
        self.itos.get(id as usize).map(String::as_str).filter(|symbol| !symbol.is_empty())
    }

    /// Every symbol, by id; empty text for an id without one.
    pub fn symbols(&self) -> &[String] {
        &self.itos
    }
}

impl From<Table> for Chars {
    fn from(table: Table) -> Self {
        Self::from_symbols(table.itos)
    }
}

impl From<Chars> for Table {
    fn from(chars: Chars) -> Self {
        Self { itos: chars.itos }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(symbols: &[&str]) -> Chars {
        Chars::from_symbols(symbols.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn characters_are_numbered_in_sorted_order() {
        let chars = Chars::from_text("hello world");
        assert_eq!(chars.symbols().concat(), " dehlorw");
        assert_eq!(chars.encode("he").unwrap(), [3, 2]);
    }

    #[test]
    fn an_unknown_character_is_reported_with_its_position() {
        let error = Chars::from_text("añ").encode("aña\nb").unwrap_err();
        assert_eq!(error, TokenizerError::UnknownCharacter { character: '\n', position: 4 });
        let text = "the vocabulary has no `\\n`, which is character 4 of the text";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn symbols_of_several_characters_are_decoded_but_never_encoded() {
        let chars = symbols(&["the", "t", "h", "e"]);
        assert_eq!(chars.encode("the").unwrap(), [1, 2, 3]);
        assert_eq!(chars.symbol(0), Some("the"));
    }

    #[test]
    fn ids_without_a_symbol_have_none() {
        let chars = symbols(&["a", "", "b"]);
        assert_eq!(
            [0, 1, 2, 3, u32::MAX].map(|id| chars.symbol(id)),
            [Some("a"), None, Some("b"), None, None]
        );
    }

    #[test]
    fn the_later_of_two_ids_for_one_symbol_is_used() {
        assert_eq!(symbols(&["a", "b", "a"]).encode("ab").unwrap(), [2, 1]);
    }
}
