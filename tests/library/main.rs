//! What the library promises: plans, the bits of training, agreement with PyTorch and other
//! programs, readers that withstand any bytes, downloads.
//!
//! One executable: each contains the whole program, and takes seconds to link.

#[cfg(target_os = "linux")]
mod gpt2_bits;
#[cfg(feature = "hub")]
mod hub;
mod optimizers;
mod plans;
mod pytorch;
mod readers;
