//! The few calls of CUDA's driver that a run makes.
//!
//! Two implementations: the driver's library on a machine with a card, and, in tests, a process
//! that executes the same kernels on the CPU.

use std::fmt;

use cubecl::{CompilationError, CubeKernel};

/// An address in a device's memory.
pub(crate) type Address = u64;

/// A card's properties, known before anything is allocated on it.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) name: String,
    /// 89 for `sm_89`.
    pub(crate) architecture: u32,
    pub(crate) memory_bytes: u64,
    /// Shared memory that a block can ask for.
    pub(crate) shared_bytes: usize,
    pub(crate) multiprocessors: u32,
}

/// A driver call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DriverFault {
    /// The call, as CUDA names it.
    pub(crate) call: &'static str,
    /// The error's name or text.
    pub(crate) error: String,
}

impl fmt::Display for DriverFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed: {}", self.call, self.error)
    }
}

/// A kernel as CUDA C++.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The name of its function.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Shared memory of one of its blocks.
    pub(crate) shared_bytes: usize,
}

/// One launch of a loaded kernel.
#[derive(Debug)]
pub(crate) struct Launch<'l> {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Where each operand begins, and its length in bytes.
    pub(crate) operands: &'l [(Address, u64)],
    /// The kernel's last parameter, by value.
    pub(crate) constants: &'l [u64],
}

/// An open device. Calls take effect in order; only `download`, `free` and `wait` wait for earlier
/// kernels.
pub(crate) trait Driver: Sized + Send + fmt::Debug + 'static {
    /// A kernel on the device.
    type Function: Send + fmt::Debug;

    /// Opens device `index`.
    fn open(index: u16) -> Result<Self, DriverFault>;
    fn card(&self) -> Card;
    fn allocate(&mut self, bytes: u64) -> Result<Address, DriverFault>;
    fn free(&mut self, address: Address) -> Result<(), DriverFault>;
    fn upload(&mut self, to: Address, bytes: &[u8]) -> Result<(), DriverFault>;
    fn download(&mut self, from: Address, into: &mut [u8]) -> Result<(), DriverFault>;
    /// The CUDA C++ of a kernel, to be loaded.
    fn source(kernel: &dyn CubeKernel) -> Result<Source, CompilationError>;
    fn load(&mut self, source: &Source) -> Result<Self::Function, DriverFault>;
    /// # Safety
    ///
    /// The kernel stays within its operands.
    unsafe fn launch(
        &mut self,
        function: &Self::Function,
        launch: &Launch,
    ) -> Result<(), DriverFault>;
    fn wait(&mut self) -> Result<(), DriverFault>;
}

impl Card {
    /// A placeholder for a device that could not be opened: every call fails before this is read.
    pub(crate) fn unknown() -> Self {
        Self {
            name: String::new(),
            architecture: 80,
            memory_bytes: 0,
            shared_bytes: 0,
            multiprocessors: 0,
        }
    }
}
