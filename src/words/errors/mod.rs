//! What went wrong, in the language of the process.
//!
//! An error's own `Display` is English and stays in its room, for logs and for other programs.
//! Here every variant has a sentence in each language: a variant without one does not compile.

pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod family;
pub(crate) mod io;
pub(crate) mod patch;
pub(crate) mod prepare;
pub(crate) mod python;
pub(crate) mod run;
#[cfg(test)]
mod tests;

/// An error that can say itself to people.
pub(crate) trait Spoken {
    /// The message, without a place that is shown apart.
    fn spoken(&self) -> String;
}

/// Every message about an error.
#[cfg(test)]
pub(super) const FILES: [&[(&str, [&str; 4])]; 9] = [
    checkpoint::ALL,
    config::ALL,
    data::ALL,
    family::ALL,
    io::ALL,
    patch::ALL,
    prepare::ALL,
    python::ALL,
    run::ALL,
];
