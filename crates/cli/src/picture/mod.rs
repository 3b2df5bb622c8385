//! Pictures: memory bars, live meters and loss curves as characters; loss curves and the live bytes
//! of a plan as SVG and HTML.
//!
//! They return text; [`crate::terminal`] prints it or a command writes it to a file. Readable
//! without colour. Coordinates are whole tenths of a unit, so that the same plan gives the same
//! picture, byte for byte, on every machine.
//!
//! Promise: a chart shows the peaks of the report, and `docs/plan.svg` is what its command draws.
//! Test: `crates/cli/src/picture/tests.rs`, `tests/runs/pictures.rs`.

pub(crate) mod bars;
pub(crate) mod curve;
pub(crate) mod curve_svg;
pub(crate) mod meter;
pub(crate) mod scale;
pub(crate) mod chart;
mod layout;
pub(crate) mod svg;
pub(crate) mod html;
#[cfg(test)]
mod tests;
