//! A GPU as a planning target: its limits, and the scratch of each op.

use fitgpt_program::{
    Op, Program,
    memory::{Limits, Target},
    units::{Bytes, DType, TensorId},
};

use crate::{
    adapter::{ALIGNMENT, GpuProperties},
    kernels::{attention::AttentionTiles, norm::BLOCK_ROWS, update},
};

/// A GPU as a planner sees it.
#[derive(Clone, Copy, Debug)]
pub struct GpuTarget {
    /// The device's capabilities.
    pub properties: GpuProperties,
    /// Bytes left free after every slot; tests write a pattern there.
    pub guard: Bytes,
}

/// Why a device cannot run a program, regardless of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuRefusal {
    /// The device's kernels cannot load and store this type.
    #[error("the device has no {dtype}")]
    NoType {
        /// The type of the activations.
        dtype: DType,
    },
    /// No tile of such a head fits into a cube's shared memory.
    #[error("a head of {channels} channels is too wide for {shared_bytes} bytes of shared memory")]
    WideHead {
        /// Channels of one head.
        channels: u64,
        /// The device's shared memory.
        shared_bytes: usize,
    },
    /// The device has kernels for narrower heads only.
    #[error(
        "a head of {channels} channels is wider than {widest}, the widest that CUDA kernels are stored \
         for; `--device=vulkan` takes wider ones"
    )]
    NoKernelForHead {
        /// Channels of one head.
        channels: u64,
        /// The widest head with kernels.
        widest: usize,
    },
    /// A weight exceeds the device's binding limit.
    #[error("`{tensor}` has {need}, more than the device's binding limit of {have}")]
    LargeWeight {
        /// The weight.
        tensor: String,
        /// Its size.
        need: Bytes,
        /// The device's limit.
        have: Bytes,
    },
}

impl GpuTarget {
    /// A target for runs.
    pub fn new(properties: GpuProperties) -> Self {
        Self { properties, guard: Bytes::ZERO }
    }

    /// Whether the device can run `program`.
    pub fn check(&self, program: &Program) -> Result<(), GpuRefusal> {
        for tensor in program.tensors() {
            if !self.properties.stores(tensor.dtype) {
                return Err(GpuRefusal::NoType { dtype: tensor.dtype });
            }
        }
        for op in program.ops() {
            match *op {
                Op::Attention { heads, .. }
                | Op::AttentionBackward { heads, .. }
                | Op::CachedAttention { heads, .. } => {
                    let channels = u64::from(heads.channels);
                    let GpuProperties { shared_bytes, widest_head: widest, .. } = self.properties;
                    if channels as usize > widest {
                        return Err(GpuRefusal::NoKernelForHead { channels, widest });
                    }
                    if AttentionTiles::new(channels as usize, shared_bytes).is_none() {
                        return Err(GpuRefusal::WideHead { channels, shared_bytes });
                    }
                }
                // Only the vocabulary's table can be split.
                Op::Muon { parameter: weight, .. }
                | Op::LinearGelu { weight, .. }
                | Op::LinearSwiGlu { weight, .. }
                | Op::LinearResidual { weight, .. }
                | Op::LinearBackwardInput { weight, .. }
                | Op::LinearBackwardInputAdd { weight, .. }
                | Op::LinearBackwardGelu { weight, .. }
                | Op::LinearBackwardSwiGlu { weight, .. } => {
                    let tensor = program.get(weight);
                    let (need, have) = (tensor.bytes(), self.properties.max_binding);
                    if need > have {
                        let tensor = tensor.name.clone();
                        return Err(GpuRefusal::LargeWeight { tensor, need, have });
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Target for GpuTarget {
    fn limits(&self) -> Limits {
        Limits {
            alignment: ALIGNMENT,
            max_chunk: self.properties.max_chunk,
            // `dispatch` splits larger tensors.
            max_binding: self.properties.max_chunk,
            guard: self.guard,
        }
    }

    fn scratch(&self, program: &Program, op: &Op) -> Bytes {
        ScratchParts::of(program, op, &self.properties).bytes()
    }
}

/// The offsets of Muon's matrices in the first part of its scratch, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MuonScratch {
    /// The current matrix and the next one.
    pub(crate) matrices: [u64; 2],
    /// The Gram matrix and its polynomial.
    pub(crate) squares: [u64; 2],
    /// The norm, one number.
    pub(crate) length: u64,
    /// Total 4-byte words.
    pub(crate) words: u64,
}

impl MuonScratch {
    pub(crate) fn new(out: u64, inputs: u64) -> Self {
        let short = out.min(inputs);
        let matrix = (4 * out * inputs).next_multiple_of(ALIGNMENT);
        let square = (4 * short * short).next_multiple_of(ALIGNMENT);
        let squares = 2 * matrix;
        let length = squares + 2 * square;
        Self {
            matrices: [0, matrix],
            squares: [squares, squares + square],
            length,
            words: length / 4 + 1,
        }
    }
}

/// The scratch of an op: two parts of 4-byte words, each aligned for binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScratchParts {
    /// The keys of masks, the links of tokens, or Muon's matrices.
    pub(crate) words: u64,
    /// Partial sums.
    pub(crate) floats: u64,
}

impl ScratchParts {
    pub(crate) fn of(program: &Program, op: &Op, properties: &GpuProperties) -> Self {
        let get = |id: TensorId| program.get(id);
        let keys = |dropped: bool, id: TensorId| if dropped { 2 * get(id).shape[0] } else { 0 };
        let blocks = |id: TensorId| get(id).rows().div_ceil(BLOCK_ROWS as u64);
        match *op {
            Op::Embed { out, dropout, .. }
            | Op::LinearResidual { out, dropout, .. }
            | Op::Attention { out, dropout, .. } => {
                Self { words: keys(dropout.is_some(), out), floats: 0 }
            }
            Op::Dropout { out, .. } => Self { words: keys(true, out), floats: 0 },
            Op::AttentionBackward { out, lse, dropout, .. } => {
                Self { words: keys(dropout.is_some(), out), floats: get(lse).count() }
            }
            Op::NormBackward { x, weight, .. } | Op::NormBackwardAdd { x, weight, .. } => {
                Self { words: 0, floats: blocks(x) * 2 * get(weight).columns() }
            }
            Op::LinearBackwardWeight { d_out, d_bias, .. } => {
                let floats = d_bias.map_or(0, |_| blocks(d_out) * get(d_out).columns());
                Self { words: 0, floats }
            }
            Op::CrossEntropy { x, .. } => Self { words: 0, floats: get(x).rows() },
            Op::CrossEntropyBackward { x, weight, logits, .. } => {
                let is_cut = get(weight).bytes() > properties.max_binding;
                let sums = if is_cut { get(logits).rows() * get(x).columns() } else { 0 };
                Self { words: sums, floats: get(x).rows() }
            }
            Op::EmbedBackward { tokens, d_x, dropout, .. } => {
                Self { words: 2 * get(tokens).count(), floats: keys(dropout.is_some(), d_x) }
            }
            Op::GradientNorm { ref gradients, .. } => {
                let blocks = |id: &TensorId| get(*id).count().div_ceil(update::BLOCK as u64);
                // One more sum for each binding that a tensor is split into.
                let cuts =
                    |id: &TensorId| get(*id).bytes().get().div_ceil(properties.max_binding.get());
                let floats = gradients.iter().map(|id| blocks(id) + cuts(id)).sum();
                Self { words: 0, floats }
            }
            Op::Muon { parameter, .. } => {
                let parameter = get(parameter);
                let words = MuonScratch::new(parameter.rows(), parameter.columns()).words;
                Self { words, floats: parameter.count().div_ceil(update::BLOCK as u64) }
            }
            Op::Norm { .. }
            | Op::NormAgain { .. }
            | Op::Rotary { .. }
            | Op::Linear { .. }
            | Op::LinearGelu { .. }
            | Op::LinearSwiGlu { .. }
            | Op::LinearBackwardInput { .. }
            | Op::LinearBackwardInputAdd { .. }
            | Op::LinearBackwardGelu { .. }
            | Op::LinearBackwardSwiGlu { .. }
            | Op::Update { .. }
            | Op::AdamW8bit { .. }
            | Op::StoreCache { .. }
            | Op::CachedAttention { .. }
            | Op::LastRow { .. }
            | Op::Named { .. } => Self::default(),
        }
    }

    /// The offset of the second part.
    pub(crate) fn second(self) -> u64 {
        (self.words * 4).next_multiple_of(ALIGNMENT)
    }

    fn bytes(self) -> Bytes {
        let words = Bytes::new(self.words * 4);
        if self.floats == 0 { words } else { Bytes::new(self.second() + self.floats * 4) }
    }
}
