//! Decodes text token by token, as it is generated.

use super::{Json, Tokenizer};

/// Joins tokens to text and holds back bytes of an incomplete character.
#[derive(Debug)]
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    pending: Vec<u8>, // after `push`: at most the first three bytes of a character
    window: DecodeWindow,
}

/// The last tokens, for a tokenizer that decodes a token by those before it.
#[derive(Debug, Default)]
struct DecodeWindow {
    ids: Vec<u32>,
    /// How many of them have been printed.
    shown: usize,
}

impl DecodeWindow {
    /// Appends the text that is final after one more token: the text of the window without that of
    /// the tokens already printed, once it ends with a complete character.
    fn push(&mut self, json: &Json, id: u32, text: &mut String) {
        self.ids.push(id);
        let all = json.decode(&self.ids);
        if !all.ends_with(char::REPLACEMENT_CHARACTER) {
            self.show(json, &all, text);
        }
    }

    fn show(&mut self, json: &Json, all: &str, text: &mut String) {
        let before = json.decode(&self.ids[..self.shown]);
        text.push_str(all.get(before.len()..).unwrap_or_default());
        // Keep the last tokens: they decide about spaces in the next ones.
        self.ids.drain(..self.shown);
        self.shown = self.ids.len();
    }
}

impl<'a> Stream<'a> {
    /// A stream at the start of a text.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, pending: Vec::new(), window: DecodeWindow::default() }
    }

    /// Appends to `text` what is final after one more token.
    pub fn push(&mut self, id: u32, text: &mut String) {
        if let Tokenizer::Json(json) = self.tokenizer {
            return self.window.push(json, id, text);
        }
        self.tokenizer.decode_into(id, &mut self.pending);
        let kept = complete(&self.pending, text);
        self.pending.drain(..self.pending.len() - kept);
    }

    /// Ends the text: an incomplete character becomes U+FFFD.
    pub fn finish(&mut self, text: &mut String) {
        if let Tokenizer::Json(json) = self.tokenizer {
            let all = json.decode(&self.window.ids);
            return self.window.show(json, &all, text);
        }
        if !self.pending.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            self.pending.clear();
        }
    }
}

/// Appends the characters of `bytes`, U+FFFD for each invalid part; returns how many bytes
/// at the end are the beginning of a character.
fn complete(bytes: &[u8], text: &mut String) -> usize {
    let mut rest = bytes;
    loop {
        let error = match str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return 0;
            }
            Err(error) => error,
        };
        let (valid, after) = rest.split_at(error.valid_up_to());
        text.push_str(str::from_utf8(valid).unwrap_or_default()); // valid, according to the error
        let Some(invalid) = error.error_len() else { return after.len() };
        text.push(char::REPLACEMENT_CHARACTER);
        rest = &after[invalid..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds bytes one at a time, the worst case of any tokenizer.
    fn fed(bytes: &[u8]) -> Vec<String> {
        let tokenizer = Tokenizer::Ids;
        let mut stream = Stream::new(&tokenizer);
        let mut parts = Vec::new();
        for &byte in bytes {
            let mut part = String::new();
            stream.pending.push(byte);
            let kept = complete(&stream.pending, &mut part);
            stream.pending.drain(..stream.pending.len() - kept);
            parts.push(part);
        }
        let mut part = String::new();
        stream.finish(&mut part);
        parts.push(part);
        parts
    }

    #[test]
    fn a_character_appears_with_its_last_byte() {
        assert_eq!(fed("a😀b".as_bytes()), ["a", "", "", "", "😀", "b", ""]);
    }

    #[test]
    fn an_incomplete_character_at_the_end_is_replaced() {
        assert_eq!(fed(&"é".as_bytes()[..1]), ["", "\u{fffd}"]);
    }

    #[test]
    fn an_incomplete_character_in_the_middle_is_replaced() {
        assert_eq!(fed(b"\xe6\x97x").concat(), "\u{fffd}x");
    }

    #[test]
    fn any_bytes_give_what_the_standard_library_gives() {
        for seed in 0..2_000 {
            let bytes = (0..12)
                .map(|i| {
                    let draw = crate::counter::draw([seed, i]);
                    [b'a', 0xc3, 0xa9, 0xe6, 0x97, 0xa5, 0xf0, 0x9f, 0x98, 0x80, 0xff, 0xed]
                        [draw as usize % 12]
                })
                .collect::<Vec<_>>();
            assert_eq!(fed(&bytes).concat(), String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn a_character_split_over_gpt2_tokens_appears_once() {
        let gpt2 = Tokenizer::Gpt2;
        let ids = gpt2.encode("日本語😀").unwrap();
        assert!(ids.len() > 4, "the example should split a character: {ids:?}");
        let mut stream = Stream::new(&gpt2);
        let mut text = String::new();
        for id in ids {
            let before = text.len();
            stream.push(id, &mut text);
            assert!(!text[before..].contains('\u{fffd}'));
        }
        stream.finish(&mut text);
        assert_eq!(text, "日本語😀");
    }
}
