//! Memory that a process holds on a card in addition to its tensors, as `[low, high]`.
//!
//! The planner, the doctor and the GPU backend all use these figures.

use fitgpt_program::units::Bytes;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A CUDA context: the driver's own state and the kernels it has loaded.
pub const CUDA_CONTEXT_BYTES: [Bytes; 2] = [Bytes::new(GIB / 5), Bytes::new(GIB / 5 * 3)];

/// The largest plausible CUDA context: a card with many multiprocessors and all of PyTorch's
/// kernels loaded. Used only to distinguish a context from another process.
pub const CUDA_CONTEXT_MOST_BYTES: Bytes = Bytes::new(GIB);

/// Workspaces of matrix libraries, temporaries inside kernels and fragmentation.
pub const WORKSPACE_BYTES: [Bytes; 2] = [Bytes::new(GIB / 20), Bytes::new(GIB / 10 * 3)];

/// What `torch.compile` allocates at the first call in addition to its program.
pub const COMPILE_BYTES: [Bytes; 2] = [Bytes::ZERO, Bytes::new(GIB)];

/// A Vulkan, Metal or DirectX 12 context. Its exact size can only be measured after it was created.
pub const GRAPHICS_CONTEXT_BYTES: [Bytes; 2] = [Bytes::new(32 * MIB), Bytes::new(320 * MIB)];
