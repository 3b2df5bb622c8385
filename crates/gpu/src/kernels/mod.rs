//! The kernels, one file for each group of ops, written once for every device.
//!
//! A kernel gets buffers and sizes; `dispatch` decides which tensors are bound. All arithmetic is
//! float32, except that tensor cores multiply factors of 16 bits. `E` is the storage type of
//! activations.
#![expect(
    clippy::duplicate_underscore_argument,
    clippy::let_and_return,
    clippy::manual_is_multiple_of,
    clippy::needless_pass_by_value,
    clippy::used_underscore_binding,
    reason = "`#[cube]` needs type parameters, owned arguments, `let` before a match and plain \
              operators"
)]
#![expect(clippy::too_many_lines, reason = "a kernel stays in one piece")]

pub(crate) mod mask;
pub(crate) mod elementwise;
pub(crate) mod embed;
pub(crate) mod math;
pub(crate) mod grid;
pub(crate) mod attention;
pub(crate) mod cross_entropy;
pub(crate) mod norm;
pub(crate) mod product;
pub(crate) mod linear;
pub(crate) mod rotary;
pub(crate) mod tensor_attention;
pub(crate) mod update;
pub(crate) mod muon;
pub(crate) mod update_8bit;
