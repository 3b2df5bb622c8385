//! What can be said in any language.

use std::{error::Error, fmt, io};

use super::Lang;

/// A fact that has a sentence in every language.
pub trait Say {
    /// The sentence in `lang`.
    fn say(&self, lang: Lang) -> String;
}

/// The operating system's own texts are not translated.
impl Say for io::Error {
    fn say(&self, _: Lang) -> String {
        self.to_string()
    }
}

/// An error with a sentence.
pub trait SayError: Error + Say + Send + Sync + 'static {}

impl<E: Error + Say + Send + Sync + 'static> SayError for E {}

/// Makes `Display` the English sentence.
#[macro_export]
macro_rules! displays_english {
    ($($fact:ty),+ $(,)?) => {
        $(impl ::std::fmt::Display for $fact {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&$crate::Say::say(self, $crate::Lang::English))
            }
        })+
    };
}

/// A finished sentence, in every language: for a message that outlives the fact that it is about.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentence(Box<[String; 4]>);

impl Sentence {
    /// What `write` writes in each language.
    pub fn of(write: impl Fn(Lang) -> String) -> Self {
        Self(Box::new(Lang::ALL.map(write)))
    }

    /// What `fact` says.
    pub fn about(fact: &impl Say) -> Self {
        Self::of(|lang| fact.say(lang))
    }

    /// A text that is the same in every language.
    pub fn literal(text: impl fmt::Display) -> Self {
        Self::of(|_| text.to_string())
    }
}

impl Say for Sentence {
    fn say(&self, lang: Lang) -> String {
        self.0[lang as usize].clone()
    }
}

impl From<String> for Sentence {
    /// A text in the language of its reader.
    fn from(text: String) -> Self {
        Self::literal(text)
    }
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        Self::literal(text)
    }
}

/// What may stand in a gap of a [`Sentence`]: another one, or a value that is the same in every
/// language.
pub trait Phrase {
    /// Its text in `lang`.
    fn phrase(&self, lang: Lang) -> String;
}

impl<T: fmt::Display> Phrase for T {
    fn phrase(&self, _: Lang) -> String {
        self.to_string()
    }
}

impl Phrase for Sentence {
    fn phrase(&self, lang: Lang) -> String {
        self.say(lang)
    }
}

impl fmt::Debug for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[Lang::English as usize].fmt(f)
    }
}

/// Defines messages that are said later, in any language: functions of displayable arguments, or of
/// other sentences, to a [`Sentence`](crate::Sentence). Texts are written as in [`messages!`](crate::messages).
#[macro_export]
macro_rules! sentences {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) { $($texts:tt)* })*) => {
        $(
            $(#[$doc])*
            #[allow(unreachable_pub, missing_docs, reason = "private in most files")]
            pub fn $name($($argument: impl $crate::Phrase),*) -> $crate::Sentence {
                const MESSAGE: $crate::Message = $crate::message!([$($argument)*] $($texts)*);
                $crate::Sentence::of(|lang| MESSAGE.fill(lang, &[$(&$argument.phrase(lang)),*]))
            }
        )*

        $crate::layout_test! { $($name($($argument),*) { $($texts)* })* }
    };
}
