//! What a number of a packed panel is: a float32 factor, or a pair of bfloat16 factors.
//!
//! Both take 32 bits, so a product of pairs is split and packed like a float32 product of half the
//! depth. Only the packing and the innermost loop differ.

use super::{
    pack::{PanelPacking, pack_pairs, pack_singles},
    tile::{PanelProduct, multiply_pairs, multiply_singles},
};
use crate::cpu::{element::Element, isa::Simd};

/// The contents of a panel's slots.
pub(super) trait Slots: Copy + Send + Sync + 'static {
    /// Whether a view can be used without packing.
    const IN_PLACE: bool;

    /// Packs panels of `width` rows. Mark it `#[inline(always)]`.
    fn pack<S: Simd, E: Element>(self, simd: S, packing: PanelPacking<'_, E, Self>, width: usize);

    /// One register tile. Mark it `#[inline(always)]`.
    fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(
        self,
        simd: S,
        tile: PanelProduct<'_, Self>,
    );
}

/// A slot is one float32 factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Singles;

impl Slots for Singles {
    const IN_PLACE: bool = true;

    #[inline(always)]
    fn pack<S: Simd, E: Element>(self, simd: S, packing: PanelPacking<'_, E, Self>, width: usize) {
        pack_singles(simd, packing, width);
    }

    #[inline(always)]
    fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(
        self,
        simd: S,
        tile: PanelProduct<'_, Self>,
    ) {
        multiply_singles::<S, ROWS, VECTORS>(simd, tile);
    }
}

/// A slot is two bfloat16 factors, neighbours along the depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs;

impl Slots for Pairs {
    const IN_PLACE: bool = false;

    #[inline(always)]
    fn pack<S: Simd, E: Element>(self, simd: S, packing: PanelPacking<'_, E, Self>, width: usize) {
        pack_pairs(simd, packing, width);
    }

    #[inline(always)]
    fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(
        self,
        simd: S,
        tile: PanelProduct<'_, Self>,
    ) {
        multiply_pairs::<S, ROWS, VECTORS>(simd, tile);
    }
}
