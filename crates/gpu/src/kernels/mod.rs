//! The kernels, one file for each group of ops, written once for every device.
//!
//! A kernel gets buffers and sizes; `dispatch` decides which tensors are bound. All arithmetic is
//! float32, except that tensor cores multiply factors of 16 bits. `E` is the storage type of
//! activations.
//!
//! CubeCL compiles them through WGSL for Vulkan, Metal and DirectX 12. An op is one or a few
//! launches over slots of the arena; nothing is allocated, and the host waits only when it reads.
//! `d_wte` is summed along chains of equal tokens, never with atomics. Keys of masks are mixed on
//! the device from pairs of 32-bit words.
//!
//! No kernel assumes how many units run in lockstep (8 on software Vulkan, 32 on NVIDIA cards). A
//! sum or a maximum over a workgroup reads the size at run time, combines within each subgroup, and
//! then the subgroups in order, with two barriers. Without subgroups, or if their size varies
//! (AMD's and Intel's may), it is a tree in shared memory with nine. Heads that are normalised
//! separately are too short for a workgroup and get one subgroup each. The order is fixed on one
//! device; it may differ between devices.
//!
//! One function multiplies for every linear layer; both kinds of attention share the dropout factor
//! and the sizes of a launch. What is repeated is a loop around the arithmetic of a kernel:
//! attention's loops over tiles, and the loop over a unit's results in `linear.rs` and `muon.rs`.
//! CubeCL inlines functions, but to pass the body of a loop to one, its expansion into instructions
//! has to be written by hand, and `#[cube]` does not expand macros of ours; a few repeated lines
//! are easier to read than that.
//!
//! Promise: kernels read the subgroup size, and work without subgroups. Test:
//! `crates/gpu/tests/training.rs`, `crates/gpu/tests/conformance.rs`.
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
