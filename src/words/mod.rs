//! User-visible text, in the user's language.
//!
//! Every sentence is in this module, its languages side by side, one file per command or kind of
//! error. [`messages!`] makes a function of each. English is required, the others are not: a
//! language without a text prints the English one. A translation that lacks a placeholder does not
//! compile. `--help` and usage errors come from `clap` and are English, as are events, nanoGPT's
//! log lines, model cards and everything printed with `--json`.

/// Defines messages: functions of displayable arguments to a `String`.
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
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) { $($texts:tt)* })*) => {
        $(message! { $(#[$doc])* $name($($argument),*) { $($texts)* } })*

        /// Every message of this file, for the tests of this module.
        #[cfg(test)]
        pub(super) const ALL: &[$crate::words::Texts] =
            &[$((stringify!($name), texts!($($texts)*))),*];
    };
}

/// A message's name, its English text and its translations as (language, text).
#[cfg(test)]
pub(crate) type Texts = (&'static str, (&'static str, &'static [(&'static str, &'static str)]));

/// One message. A language without a text prints English.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident($($argument:ident),*) {
        en: $en:literal
        $(, zh: $zh:literal)? $(, ja: $ja:literal)? $(, de: $de:literal)? $(,)?
    }) => {
        $(#[$doc])*
        pub(crate) fn $name($($argument: impl std::fmt::Display),*) -> String {
            // Named arguments: a text that leaves one out does not compile.
            match $crate::words::lang() {
                $crate::words::Lang::English => format!($en, $($argument = $argument),*),
                $crate::words::Lang::Chinese => {
                    format!(last!($en $(, $zh)?), $($argument = $argument),*)
                }
                $crate::words::Lang::Japanese => {
                    format!(last!($en $(, $ja)?), $($argument = $argument),*)
                }
                $crate::words::Lang::German => {
                    let text = format!(last!($en $(, $de)?), $($argument = $argument),*);
                    $crate::words::localized(text)
                }
            }
        }
    };
}

/// A translation, or English if there is none.
macro_rules! last {
    ($english:literal) => {
        $english
    };
    ($english:literal, $translation:literal) => {
        $translation
    };
}

/// The texts of one message.
#[cfg(test)]
macro_rules! texts {
    (en: $en:literal $(, $lang:ident: $text:literal)* $(,)?) => {
        ($en, &[$((stringify!($lang), $text)),*])
    };
}

mod lang;
mod number;
mod width;
pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod errors;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fit;
pub(crate) mod hints;
pub(crate) mod hub;
pub(crate) mod names;
pub(crate) mod patch;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod ranks;
pub(crate) mod sample;
pub(crate) mod selftest;
pub(crate) mod serve;
pub(crate) mod train;

pub(crate) use self::{
    lang::{Lang, lang, set_lang, with_lang},
    number::{grouped, localized},
    width::{columns, left, right},
};

#[cfg(test)]
mod tests {
    use super::*;

    // A second `messages!` would define a second `ALL` in this module.
    message! { english_only(name) { en: "only {name}" } }
    message! { without_chinese() { en: "two", de: "zwei" } }

    #[test]
    fn a_language_without_a_text_prints_english() {
        assert_eq!(english_only("this"), "only this");
        assert_eq!(without_chinese(), "two");
        assert_eq!(texts!(en: "two", de: "zwei"), ("two", &[("de", "zwei")]));
    }

    #[test]
    fn translations_keep_the_layout() {
        let files = [
            bench::ALL,
            demo::ALL,
            devices::ALL,
            export::ALL,
            fit::ALL,
            hints::ALL,
            hub::ALL,
            names::ALL,
            patch::ALL,
            plan::ALL,
            prepare::ALL,
            ranks::ALL,
            sample::ALL,
            selftest::ALL,
            serve::ALL,
            train::ALL,
        ];
        let files =
            files.into_iter().chain(doctor::FILES).chain(errors::FILES).chain([serve::PAGE]);
        for (name, (english, translations)) in files.flatten() {
            assert!(!english.trim().is_empty(), "`{name}`");
            for (_, text) in *translations {
                assert!(!text.trim().is_empty(), "`{name}`");
                assert_eq!(edges(english), edges(text), "`{name}`: {text}");
            }
        }
    }

    /// Line breaks and spaces at a text's ends are layout, the same in all languages. Two
    /// exceptions: a Chinese colon takes no space after it, and one space may separate Latin
    /// letters from Chinese or Japanese ones.
    fn edges(text: &str) -> (&str, &str) {
        let start = &text[..text.len() - text.trim_start().len()];
        let start = if start == " " { "" } else { start };
        (start, &text[text.trim_end_matches('\n').len()..])
    }
}
