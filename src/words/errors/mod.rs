//! Errors, in the language of the process.
//!
//! An error's `Display` is English, for logs and other programs. Here every variant has a message;
//! a variant without one does not compile.

pub(crate) mod family;
pub(crate) mod io;
pub(crate) mod checkpoint;
pub(crate) mod data;
pub(crate) mod output;
pub(crate) mod export;
pub(crate) mod hub;
pub(crate) mod patch;
pub(crate) mod prepare;
pub(crate) mod python;
pub(crate) mod config;
pub(crate) mod pytorch;
pub(crate) mod run;
#[cfg(test)]
mod tests;

/// An error with a translated message.
pub(crate) trait Translate {
    /// The message, without the place, which is shown separately.
    fn translate(&self) -> String;
}

/// Every message about an error.
#[cfg(test)]
pub(super) const FILES: [&[super::Texts]; 13] = [
    checkpoint::ALL,
    config::ALL,
    data::ALL,
    export::ALL,
    family::ALL,
    hub::ALL,
    io::ALL,
    output::ALL,
    patch::ALL,
    prepare::ALL,
    python::ALL,
    pytorch::ALL,
    run::ALL,
];
