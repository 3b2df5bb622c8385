//! Kernels: one file a family, written once for every device.
//!
//! A kernel sees buffers and sizes; which tensor is bound where is `dispatch`'s business. All
//! arithmetic is float32; `E` is how activations are stored.
#![expect(
    clippy::too_many_arguments,
    reason = "a kernel takes buffers and sizes one by one, as the device does"
)]

pub(crate) mod attention;
pub(crate) mod cross_entropy;
pub(crate) mod elementwise;
pub(crate) mod embed;
pub(crate) mod layer_norm;
pub(crate) mod linear;
pub(crate) mod mask;
pub(crate) mod math;
pub(crate) mod product;
pub(crate) mod update;
