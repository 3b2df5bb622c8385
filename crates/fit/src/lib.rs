//! What fits on a card: the catalogue of cards, nanoGPT as PyTorch runs it, and the options that
//! make a config fit.
#![forbid(unsafe_code)]

pub mod device;
pub mod torch;
pub mod fit;
pub mod patch;
