//! Kernels: one file a family, written once for every device.
//!
//! A kernel sees buffers and sizes; which tensor is bound where is `dispatch`'s business. All
//! arithmetic is float32; `E` is how activations are stored.
#![expect(
    clippy::duplicate_underscore_argument,
    clippy::let_and_return,
    clippy::needless_pass_by_value,
    clippy::used_underscore_binding,
    reason = "`#[cube]` takes types as arguments, owns its arguments and wants `let` before a match"
)]

pub(crate) mod attention;
pub(crate) mod cross_entropy;
pub(crate) mod elementwise;
pub(crate) mod embed;
pub(crate) mod linear;
pub(crate) mod mask;
pub(crate) mod math;
pub(crate) mod muon;
pub(crate) mod norm;
pub(crate) mod product;
pub(crate) mod rotary;
pub(crate) mod update;
pub(crate) mod update_8bit;
