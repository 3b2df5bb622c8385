//! Pictures: bars of memory, meters that are read while a run goes on, the curve of a loss; in
//! characters and as SVG.
//!
//! Pure: they return text, [`crate::terminal`] prints it. Readable without colour.

pub mod bars;
pub mod curve;
pub mod curve_svg;
pub mod meter;
