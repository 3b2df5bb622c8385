//! A message: one sentence with gaps, in every language.

use std::fmt::{Display, Write as _};

use super::{Lang, localized};

/// A text for each of [`Lang::ALL`], with the same gaps in each. [`messages!`](crate::messages)
/// makes them.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    names: &'static [&'static str],
    texts: [&'static str; 4],
}

impl Message {
    /// A message with gaps of these names. Its languages are those of [`Lang::ALL`]; an empty text
    /// stands for English.
    ///
    /// Evaluated while compiling: a text that lacks a gap, or has another one, does not compile.
    pub const fn new(names: &'static [&'static str], mut texts: [&'static str; 4]) -> Self {
        let mut lang = 0;
        while lang < texts.len() {
            if texts[lang].is_empty() {
                texts[lang] = texts[0];
            }
            assert!(has_gaps(texts[lang], names), "a text does not have the gaps of its message");
            lang += 1;
        }
        Self { names, texts }
    }

    /// The sentence in `lang`, with `values` in its gaps.
    pub fn fill(&self, lang: Lang, values: &[&dyn Display]) -> String {
        let mut rest = self.texts[lang as usize];
        let mut filled = String::with_capacity(rest.len() + 16 * values.len());
        while let Some(open) = rest.find('{') {
            filled.push_str(&rest[..open]);
            let (name, after) = rest[open + 1..].split_once('}').expect("checked when compiled");
            let gap = self.names.iter().position(|known| *known == name);
            let value = gap.and_then(|gap| values.get(gap)).expect("checked when compiled");
            let _ = write!(filled, "{value}");
            rest = after;
        }
        filled.push_str(rest);
        localized(lang, filled)
    }

    /// All four texts, for tests.
    pub const fn texts(&self) -> &[&'static str; 4] {
        &self.texts
    }
}

/// Whether `text` has a gap for each of `names`, and no other brace.
const fn has_gaps(text: &str, names: &[&str]) -> bool {
    let text = text.as_bytes();
    let mut gap = 0;
    while gap < names.len() {
        if !has_gap(text, names[gap].as_bytes()) {
            return false;
        }
        gap += 1;
    }
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'{' => match gap_at(text, at, names) {
                Some(gap) => at += names[gap].len() + 2,
                None => return false,
            },
            b'}' => return false,
            _ => at += 1,
        }
    }
    true
}

const fn has_gap(text: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        if is_gap(text, at, name) {
            return true;
        }
        at += 1;
    }
    false
}

/// Which of `names` the gap at `at` has.
const fn gap_at(text: &[u8], at: usize, names: &[&str]) -> Option<usize> {
    let mut gap = 0;
    while gap < names.len() {
        if is_gap(text, at, names[gap].as_bytes()) {
            return Some(gap);
        }
        gap += 1;
    }
    None
}

/// Whether `{name}` is at `at`.
const fn is_gap(text: &[u8], at: usize, name: &[u8]) -> bool {
    if at + name.len() + 2 > text.len() || text[at] != b'{' {
        return false;
    }
    let mut index = 0;
    while index < name.len() {
        if text[at + 1 + index] != name[index] {
            return false;
        }
        index += 1;
    }
    text[at + 1 + name.len()] == b'}'
}

/// Defines messages: functions of a language and displayable arguments to a `String`.
///
/// ```text
/// messages! {
///     /// When it is printed.
///     saved(folder) {
///         en: "saved in {folder}",
///         zh: "已保存到 {folder}",
///         ja: "{folder} に保存しました",
///         de: "gespeichert in {folder}",
///     }
/// }
/// ```
///
/// English is required, the others are not: a language without a text prints English. A file has
/// one such list; its test checks that the translations keep the layout.
#[macro_export]
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) { $($texts:tt)* })*) => {
        $(
            $(#[$doc])*
            #[allow(unreachable_pub, missing_docs, reason = "private in most files")]
            pub fn $name(lang: $crate::Lang, $($argument: impl ::std::fmt::Display),*) -> String {
                const MESSAGE: $crate::Message = $crate::message!([$($argument)*] $($texts)*);
                MESSAGE.fill(lang, &[$(&$argument),*])
            }
        )*

        $crate::layout_test! { $($name($($argument),*) { $($texts)* })* }
    };
}

/// One message as a constant: the names of its gaps, then its texts.
#[doc(hidden)]
#[macro_export]
macro_rules! message {
    ([$($argument:ident)*] en: $en:literal $(, zh: $zh:literal)? $(, ja: $ja:literal)?
        $(, de: $de:literal)? $(,)?) => {
        $crate::Message::new(
            &[$(stringify!($argument)),*],
            [$en, concat!($($zh)?), concat!($($ja)?), concat!($($de)?)],
        )
    };
}

/// A test of a file's messages.
#[doc(hidden)]
#[macro_export]
macro_rules! layout_test {
    ($($name:ident($($argument:ident),*) { $($texts:tt)* })*) => {
        #[cfg(test)]
        #[test]
        fn translations_keep_the_layout() {
            $($crate::assert_layout(
                stringify!($name),
                &$crate::message!([$($argument)*] $($texts)*),
            );)*
        }
    };
}

/// Panics if a translation of the message `name` has other line breaks or spaces at its ends than
/// the English text. Two exceptions: a Chinese colon takes no space after it, and one space may
/// separate Latin letters from Chinese or Japanese ones.
#[doc(hidden)]
pub fn assert_layout(name: &str, message: &Message) {
    let [english, translations @ ..] = message.texts();
    assert!(!english.trim().is_empty(), "`{name}`");
    for text in translations {
        assert!(!text.trim().is_empty(), "`{name}`");
        assert_eq!(edges(english), edges(text), "`{name}`: {text}");
    }
}

fn edges(text: &str) -> (&str, &str) {
    let start = &text[..text.len() - text.trim_start().len()];
    let start = if start == " " { "" } else { start };
    (start, &text[text.trim_end_matches('\n').len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    messages! {
        english_only(name) { en: "only {name}" }
        without_chinese() { en: "two", de: "zwei" }
        turned(left, right) { en: "{left}, {right}", ja: "{right}と{left}", de: "{right} {left} {right}" }
    }

    #[test]
    fn a_language_without_a_text_prints_english() {
        assert_eq!(english_only(Lang::Chinese, "this"), "only this");
        assert_eq!(without_chinese(Lang::Chinese), "two");
        assert_eq!(without_chinese(Lang::German), "zwei");
    }

    #[test]
    fn gaps_are_filled_by_name_and_a_value_may_look_like_a_gap() {
        assert_eq!(turned(Lang::English, "{right}", 2), "{right}, 2");
        assert_eq!(turned(Lang::Japanese, "a", "b"), "bとa");
        assert_eq!(turned(Lang::German, 1, 2), "2 1 2");
    }

    #[test]
    fn a_text_with_other_gaps_is_refused() {
        assert!(has_gaps("{a} and {b}", &["a", "b"]));
        assert!(has_gaps("", &[]));
        for (text, names) in [
            ("{a}", ["a", "b"].as_slice()),
            ("{a} {c}", &["a"]),
            ("{ab}", &["a"]),
            ("{a", &["a"]),
            ("a}", &[]),
            ("{a:?}", &["a"]),
        ] {
            assert!(!has_gaps(text, names), "{text}");
        }
    }
}
