//! Sentences in four languages.
//!
//! A fact and its sentences live in one crate: the fact's type implements [`Say`] with
//! [`messages!`]. Which language is spoken is decided where text meets a person; nothing below
//! remembers it. English is also what `Display` prints, for logs and other programs.
//!
//! Promise: every error has a message, and its English is its `Display`; a message without a
//! translation prints English. Test: the compiler (`messages!`), `crates/say/src/message.rs`.

#![forbid(unsafe_code)]

mod lang;
mod number;
mod message;
mod sentence;
mod width;

pub use self::{
    lang::Lang,
    message::{Message, assert_layout},
    number::{grouped, localized},
    sentence::{Phrase, Say, SayError, Sentence},
    width::{columns, left, right},
};
