//! A memory error: its form and its numbers.

use fitgpt_program::units::DType;

use super::{size::PrintedSize, squeezed::Offset};
use crate::facts::MemoryKind;

/// The form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// `Tried to allocate … (GPU 0; … total capacity; … already allocated; …)`, up to PyTorch 2.0.
    Torch1,
    /// `… has a total capacity of … of which … is free`, since PyTorch 2.1.
    Torch2,
    /// `memory allocation failed with OOM on device …`, which PyTorch 2.9 prints first.
    TorchExact,
    /// `Tried to allocate …` without further numbers.
    TorchBare,
    /// `Allocation on device … would exceed allowed memory`, from `cudaMallocAsync`.
    TorchAsync,
    /// `MPS backend out of memory`.
    Mps,
    /// Apple's driver, as reported by MLX.
    Metal,
    /// llama.cpp: `allocating … MiB on device 0: cudaMalloc failed`.
    Ggml,
    /// A server that checks sizes before it allocates: vLLM and SGLang.
    Server,
    /// `CUDA error: out of memory` and similar, without numbers.
    NoNumbers,
    /// cuBLAS or cuDNN could not allocate its workspace.
    Cublas,
    /// JAX.
    Jax,
    /// TensorFlow, which prints the shape.
    TensorFlow,
    /// Habana.
    Habana,
    /// `PaddlePaddle`: `Cannot allocate … memory on GPU 0, … and available memory is only …`.
    Paddle,
    /// ONNX Runtime: `Failed to allocate memory for requested buffer of size …`.
    OnnxRuntime,
    /// PyTorch's CPU allocator.
    CpuAllocator,
    /// The operating system killed the process.
    Killed,
    /// The Windows paging file is too small.
    PagingFile,
    /// `/dev/shm`, through which data loader workers pass batches.
    DevShm,
    /// Signal 7, without an explanation.
    BusError,
    /// Page-locked host memory could not be allocated.
    PageLocked,
    /// A data loader worker ended without saying why.
    WorkerDied,
    /// Any other failed host allocation.
    HostOther,
    /// A Triton kernel needs more shared memory than a multiprocessor has.
    Triton,
    /// A user's description of memory that grows.
    Grows,
    /// A user's words for a process that the system killed.
    SaidKilled,
    /// "OOM" or "out of memory" and nothing else.
    Word,
}

/// One message and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) at: Offset,
    /// Its form.
    pub wording: Wording,
    /// Which memory ran out.
    pub(crate) memory: MemoryKind,
    /// Size of the failed request.
    pub requested: Option<PrintedSize>,
    /// Capacity of the card.
    pub total: Option<PrintedSize>,
    /// Free memory.
    pub free: Option<PrintedSize>,
    /// Memory held by tensors.
    pub allocated: Option<PrintedSize>,
    /// Memory that PyTorch had reserved from the driver.
    pub reserved: Option<PrintedSize>,
    /// Reserved memory that held no tensor.
    pub unallocated: Option<PrintedSize>,
    /// Total memory of this process.
    pub process: Option<PrintedSize>,
    /// Process ids and their memory; one of them may be this process.
    pub processes: Vec<(u64, PrintedSize)>,
    /// What a user says that other processes hold.
    pub(crate) theirs: Option<PrintedSize>,
    /// Metal's allocations outside of tensors.
    pub other: Option<PrintedSize>,
    /// What a server wants to reserve, or what its KV cache needs.
    pub wanted: Option<PrintedSize>,
    /// What is available for it.
    pub available: Option<PrintedSize>,
    /// Tokens that the KV cache was planned for.
    pub tokens: Option<u64>,
    /// Private pools of CUDA graphs.
    pub pools: Option<PrintedSize>,
    /// A limit set on this process.
    pub allowed: Option<PrintedSize>,
    /// Triton's two numbers: required and available.
    pub shared: Option<[u64; 2]>,
    /// The shape that the message prints.
    pub shape: Option<PrintedShape>,
}

/// A type of elements as a log prints it, known to our programs or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// PyTorch's name.
    pub name: &'static str,
    /// Bytes of one.
    pub bytes: u64,
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        Self { name: dtype.name(), bytes: dtype.size() }
    }
}

/// A tensor's shape as a log prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedShape {
    /// Outermost first.
    pub axes: Vec<u64>,
    /// How an element is stored.
    pub dtype: Element,
    /// The op that the log names next to it, in lower case and without white space; or nothing.
    pub op: String,
    /// It is the largest buffer of a compiled program, not the request itself.
    pub is_part: bool,
}

impl PrintedShape {
    /// Its size; `None` if it overflows.
    pub fn bytes(&self) -> Option<u64> {
        let count = self.axes.iter().try_fold(1_u64, |n, axis| n.checked_mul(*axis))?;
        count.checked_mul(self.dtype.bytes)
    }
}

impl Message {
    pub(super) fn new(at: Offset, wording: Wording, memory: MemoryKind) -> Self {
        Self {
            at,
            wording,
            memory,
            requested: None,
            total: None,
            free: None,
            allocated: None,
            reserved: None,
            unallocated: None,
            process: None,
            processes: Vec::new(),
            theirs: None,
            other: None,
            wanted: None,
            available: None,
            tokens: None,
            pools: None,
            allowed: None,
            shared: None,
            shape: None,
        }
    }

    /// The message that corresponds to a memory snapshot.
    pub(crate) fn of_snapshot(requested_bytes: u64) -> Self {
        let mut message = Self::new(0, Wording::Torch2, MemoryKind::GpuMemory);
        message.requested = Some(PrintedSize::exact(requested_bytes));
        message
    }

    /// How informative it is: of several messages the most informative is the failure, and of
    /// equals the last. Triton's autotuner reports configurations that it merely tried, and
    /// torchrun kills the other ranks, so both count less than a failed allocation.
    pub(crate) fn weight(&self) -> u8 {
        match self.wording {
            Wording::Torch1
            | Wording::Torch2
            | Wording::TorchExact
            | Wording::TorchBare
            | Wording::TorchAsync
            | Wording::Mps
            | Wording::Ggml
            | Wording::Server
            | Wording::Jax
            | Wording::TensorFlow
            | Wording::Habana
            | Wording::Paddle
            | Wording::OnnxRuntime => 5,
            Wording::NoNumbers
            | Wording::Cublas
            | Wording::Metal
            | Wording::CpuAllocator
            | Wording::HostOther
            | Wording::PageLocked
            | Wording::PagingFile
            | Wording::DevShm => 4,
            Wording::Killed | Wording::BusError | Wording::Triton => 3,
            // Users of a killed process suspect the card.
            Wording::WorkerDied | Wording::SaidKilled => 2,
            Wording::Word | Wording::Grows => 1,
        }
    }

    /// Whether the requested size is the allocator's rounded size, not the tensor's.
    pub(crate) fn is_rounded(&self) -> bool {
        matches!(
            self.wording,
            Wording::Torch1 | Wording::Torch2 | Wording::TorchExact | Wording::TorchBare
        )
    }
}
