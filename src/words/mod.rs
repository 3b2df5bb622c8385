//! What people read, in their language.
//!
//! Every sentence is in this module, in four languages side by side, one file a command or a
//! kind of error. [`messages!`] makes a function of each; a placeholder that a language lacks does
//! not compile, and a message that is English only is on a list. What programs read is the same
//! everywhere: events and nanoGPT's log lines never come from here, and with `--json` the
//! process speaks English.

/// Defines messages: functions of displayable arguments to a `String`.
///
/// ```text
/// messages! {
///     /// When it is said.
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
        pub(super) const ALL: &[(&str, [&str; 4])] =
            &[$((stringify!($name), texts!($($texts)*))),*];
    };
}

/// One message. With `en` alone it is English in every language until somebody translates it; a
/// test lists what waits.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident($($argument:ident),*) {
        en: $en:literal, zh: $zh:literal, ja: $ja:literal, de: $de:literal $(,)?
    }) => {
        $(#[$doc])*
        pub(crate) fn $name($($argument: impl std::fmt::Display),*) -> String {
            // Named arguments: one that a language does not use is an error of the compiler.
            match $crate::words::lang() {
                $crate::words::Lang::English => format!($en, $($argument = $argument),*),
                $crate::words::Lang::Chinese => format!($zh, $($argument = $argument),*),
                $crate::words::Lang::Japanese => format!($ja, $($argument = $argument),*),
                $crate::words::Lang::German => format!($de, $($argument = $argument),*),
            }
        }
    };
    ($(#[$doc:meta])* $name:ident($($argument:ident),*) { en: $en:literal $(,)? }) => {
        $(#[$doc])*
        pub(crate) fn $name($($argument: impl std::fmt::Display),*) -> String {
            format!($en, $($argument = $argument),*)
        }
    };
}

/// The texts of one message, in the order of [`Lang::ALL`].
#[cfg(test)]
macro_rules! texts {
    (en: $en:literal, zh: $zh:literal, ja: $ja:literal, de: $de:literal $(,)?) => {
        [$en, $zh, $ja, $de]
    };
    (en: $en:literal $(,)?) => {
        [$en, $en, $en, $en]
    };
}

mod lang;
mod number;
mod width;

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod errors;
pub(crate) mod fit;
pub(crate) mod hints;
pub(crate) mod names;
pub(crate) mod patch;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod sample;
pub(crate) mod train;

pub(crate) use self::{
    lang::{Lang, lang, speak},
    number::grouped,
    width::{columns, left, right},
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages that are English everywhere until somebody translates them.
    const WAITING: &[&str] = &[];

    /// Texts that read alike in two languages and are meant to.
    const ALIKE: &[&str] = &["logits", "null", "resident"];

    #[test]
    fn every_message_is_said_in_every_language() {
        let files = [
            bench::ALL,
            demo::ALL,
            devices::ALL,
            fit::ALL,
            hints::ALL,
            names::ALL,
            patch::ALL,
            plan::ALL,
            prepare::ALL,
            sample::ALL,
            train::ALL,
        ];
        let files = files.into_iter().chain(doctor::FILES).chain(errors::FILES);
        for (name, [english, others @ ..]) in files.flatten() {
            assert!(!english.trim().is_empty(), "`{name}`");
            if WAITING.contains(name) {
                assert_eq!(others, &[*english; 3], "`{name}` is translated: take it off the list");
                continue;
            }
            for other in others {
                assert!(!other.trim().is_empty(), "`{name}`");
                let has_words = words(english).chars().filter(char::is_ascii_lowercase).count() > 3;
                let is_translated = other != english || !has_words || ALIKE.contains(name);
                assert!(is_translated, "`{name}` is not translated: {other}");
                assert_eq!(edges(english), edges(other), "`{name}`: {other}");
            }
        }
    }

    /// A text without its placeholders and without what stands in backticks.
    fn words(text: &str) -> String {
        let plain = text.split('`').step_by(2).collect::<String>();
        let outside =
            plain.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
        outside.collect()
    }

    /// Line breaks and blanks at a text's ends: part of the layout, the same in all languages,
    /// but that a Chinese colon takes no blank behind it, and that one blank may part Latin
    /// letters from Chinese or Japanese ones.
    fn edges(text: &str) -> (&str, &str) {
        let start = &text[..text.len() - text.trim_start().len()];
        let start = if start == " " { "" } else { start };
        (start, &text[text.trim_end_matches('\n').len()..])
    }
}
