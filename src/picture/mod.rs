//! Pictures in characters: bars of memory, the curve of a loss.
//!
//! Pure: they return text, [`crate::terminal`] prints it. Readable without colour.

pub mod bars;
pub mod curve;
