//! How many cubes and units a kernel is launched with.

use cubecl::prelude::{CubeCount, CubeDim};

use super::math::UNITS;

/// The largest number of cubes along one axis.
const MOST_CUBES: usize = 65_535;

/// At least `count` cubes, numbered by `CUBE_POS`.
pub(crate) fn cubes(count: usize) -> CubeCount {
    let y = count.div_ceil(MOST_CUBES).max(1);
    CubeCount::Static(count.div_ceil(y).max(1) as u32, y as u32, 1)
}

/// Cubes of one [`line`] each, with one unit for each element.
pub(crate) fn elements(count: usize) -> CubeCount {
    cubes(count.div_ceil(UNITS as usize))
}

/// One line of units.
pub(crate) fn line() -> CubeDim {
    CubeDim::new_1d(UNITS)
}
