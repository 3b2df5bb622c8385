//! Pictures: bars of memory, meters that are read while a run goes on and the curve of a loss in
//! characters; that curve and live bytes as SVG, and HTML.
//!
//! Pure: they return text, [`crate::terminal`] prints it or a command writes it to a file.
//! Readable without colour. Coordinates are whole tenths of a unit, so that the same plan is the
//! same picture, byte for byte, on every machine.

pub mod bars;
pub(crate) mod chart;
pub mod curve;
pub mod curve_svg;
pub(crate) mod html;
mod layout;
pub mod meter;
mod scale;
pub(crate) mod svg;
#[cfg(test)]
mod tests;
