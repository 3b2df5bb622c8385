//! What a number of a packed panel is: a float32 factor, or a pair of bfloat16 factors.
//!
//! Both take 32 bits, so a product of pairs is split and packed like a float32 product of half the
//! depth. Only the packing and the innermost loop differ.

/// A slot is one float32 factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Singles;

/// A slot is two bfloat16 factors, neighbours along the depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs;
