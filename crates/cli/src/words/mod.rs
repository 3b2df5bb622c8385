//! Sentences that commands print, in the user's language.
//!
//! One file per command. [`messages!`] makes a function of each sentence; the sentences of facts
//! from other crates are next to those facts. `--help` and usage errors come from `clap` and are
//! English, as are events, nanoGPT's log lines, model cards and everything printed with `--json`.

/// As [`fitgpt_say::messages!`], in the language of the process or of the request.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) { $($texts:tt)* })*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name($($argument: impl std::fmt::Display),*) -> String {
                const MESSAGE: fitgpt_say::Message =
                    fitgpt_say::message!([$($argument)*] $($texts)*);
                MESSAGE.fill($crate::words::lang(), &[$(&$argument),*])
            }
        )*

        fitgpt_say::layout_test! { $($name($($argument),*) { $($texts)* })* }
    };
}

mod lang;
pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fit;
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

pub(crate) use fitgpt_say::{Lang, Say, columns, left, right};

pub(crate) use self::lang::{lang, of_locale, set_lang, with_lang};

/// `524,288` in the user's language.
pub(crate) fn grouped(n: u64) -> String {
    fitgpt_say::grouped(lang(), n)
}

/// `text` with the decimal marks of the user's language.
pub(crate) fn localized(text: String) -> String {
    fitgpt_say::localized(lang(), text)
}

/// `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
