//! The trait of backends, which own an arena and run programs in it.

use std::ops::Range;

use fitgpt_program::{
    Op, Program,
    memory::{Limits, Slot, VerifiedPlan},
    units::{Bytes, OpIndex, ProgramId, TensorId},
};

use crate::{
    Arguments,
    arena::{Arena, BeforeTouch, Operands},
};

/// Why a backend could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// There is no memory for the arena.
    Refused(#[from] crate::arena::ArenaRefused),
    /// The system did not start the threads.
    Threads {
        /// How many, including the caller's.
        asked: usize,
        /// The system's error.
        kind: std::io::ErrorKind,
    },
    /// A device did not provide the arena.
    Memory(#[from] MemoryRefused),
    /// A device failed, and its last results are lost.
    Device(#[from] DeviceFault),
}

/// A device has less memory than its plan needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MemoryRefused {
    /// As its driver calls it.
    pub device: String,
    /// The requested bytes.
    pub asked: Bytes,
    /// Free memory, if its driver reports it.
    pub free: Option<Bytes>,
}

/// A device was lost, refused work or stopped answering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DeviceFault {
    /// As its driver calls it.
    pub device: String,
    /// What the driver reported.
    pub message: String,
}

/// Runs the programs of one plan in one arena.
pub trait Backend {
    /// The plan whose programs it runs.
    fn plan(&self) -> &VerifiedPlan;

    /// Runs program `program` of the plan once.
    fn run(&mut self, program: ProgramId, arguments: &Arguments) -> Result<(), BackendError> {
        let count = self.plan().program(program).ops().len();
        self.run_part(program, 0..count, arguments)
    }

    /// Runs consecutive ops of a program. Running all of its parts in order is one run.
    fn run_part(
        &mut self,
        program: ProgramId,
        ops: Range<usize>,
        arguments: &Arguments,
    ) -> Result<(), BackendError>;

    /// Like [`run`](Self::run), and calls `ended` after each op. On a device that runs ops
    /// asynchronously this waits for each op, so use it only for measurements.
    fn run_op_by_op(
        &mut self,
        program: ProgramId,
        arguments: &Arguments,
        ended: &mut dyn FnMut(OpIndex),
    ) -> Result<(), BackendError>;

    /// Copies `values` into a tensor, from byte `start` on.
    fn write(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &[u8],
    ) -> Result<(), BackendError>;

    /// Copies a tensor's bytes out, from byte `start` on.
    fn read(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &mut [u8],
    ) -> Result<(), BackendError>;

    /// The first number of each of these float32 tensors, given with their programs. Waits for
    /// the device only once if the backend can.
    fn read_scalars(
        &mut self,
        of: &[(ProgramId, TensorId)],
        values: &mut [f32],
    ) -> Result<(), BackendError> {
        assert_eq!(of.len(), values.len());
        for ((program, tensor), value) in of.iter().zip(values) {
            self.read(*program, *tensor, Bytes::ZERO, bytemuck::bytes_of_mut(value))?;
        }
        Ok(())
    }
}

/// Whether an arena checks its kernels' memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// No checks: a normal run.
    Off,
    /// For tests: memory starts as NaN, becomes NaN again after its last read, and the guard
    /// bytes after the slots of an op are checked when it has run.
    Poison,
}

/// An arena in host memory, with or without checks. The reference and the CPU share it.
#[derive(Debug)]
pub(crate) struct WatchedArena {
    arena: Arena,
    watch: Watch,
    guard: Bytes,
}

/// All ones is a NaN in every float type that we store.
pub const POISON: u8 = 0xff;
/// Fills the guard bytes after every slot in a checked arena.
pub const GUARD: u8 = 0xa5;

impl WatchedArena {
    pub(crate) fn new(
        plan: VerifiedPlan,
        limits: Limits,
        watch: Watch,
        before: &mut BeforeTouch<'_>,
    ) -> Result<Self, BackendError> {
        let fill = if watch == Watch::Poison { POISON } else { 0 };
        let arena = Arena::touched(plan, fill, before)?;
        let mut host = Self { arena, watch, guard: limits.guard };
        host.fill_constants();
        Ok(host)
    }

    /// All programs share the state, so it does not matter which of them fills a constant.
    fn fill_constants(&mut self) {
        for program in self.plan().ids() {
            for constant in self.plan().program(program).constants() {
                let mut start = Bytes::ZERO;
                for row in constant.rows() {
                    let bytes = bytemuck::cast_slice(&row);
                    self.write(program, constant.tensor, start, bytes);
                    start = start + Bytes::new(bytes.len() as u64);
                }
            }
        }
    }

    pub(crate) fn plan(&self) -> &VerifiedPlan {
        self.arena.plan()
    }

    pub(crate) fn all_ops(&self, program: ProgramId) -> Range<usize> {
        0..self.plan().program(program).ops().len()
    }

    /// Runs `kernel` for each of these ops in order.
    pub(crate) fn run(
        &mut self,
        program: ProgramId,
        ops: Range<usize>,
        ended: &mut dyn FnMut(OpIndex),
        mut kernel: impl FnMut(&Program, &Op, &mut Operands<'_>),
    ) {
        for at in ops.map(|at| OpIndex(at as u32)) {
            if self.watch == Watch::Poison {
                self.set_guards(program, at);
            }
            let mut operands = self.arena.operands(program, at);
            kernel(operands.program(), operands.op(), &mut operands);
            if self.watch == Watch::Poison {
                self.check_guards(program, at);
                self.poison_unused(program, at);
            }
            ended(at);
        }
    }

    /// Every slot that an op reads or writes, including its scratch.
    fn slots(&self, program: ProgramId, at: OpIndex) -> Vec<Slot> {
        let operands = self.plan().operands(program, at).iter().map(|operand| operand.slot);
        operands.chain(self.plan().scratch(program, at)).collect()
    }

    fn set_guards(&mut self, program: ProgramId, at: OpIndex) {
        self.arena.scratch_mut(program, at).fill(POISON);
        for slot in self.slots(program, at) {
            self.arena.guard_after(slot, self.guard).fill(GUARD);
        }
    }

    fn check_guards(&mut self, program: ProgramId, at: OpIndex) {
        for slot in self.slots(program, at) {
            let untouched = self.arena.guard_after(slot, self.guard).iter().all(|b| *b == GUARD);
            let name = self.plan().program(program).ops()[at.index()].name();
            assert!(untouched, "`{name}` wrote past the end of a slot");
        }
    }

    /// Poisons the tensors that no later op reads.
    fn poison_unused(&mut self, program: ProgramId, at: OpIndex) {
        let unused = self.plan().operands(program, at).iter().filter(|operand| operand.dies);
        let unused: Vec<_> = unused.map(|operand| operand.tensor).collect();
        for tensor in unused {
            self.arena.tensor_mut(program, tensor).fill(POISON);
        }
    }
}

/// Copies to and from tensors.
impl WatchedArena {
    pub(crate) fn write(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &[u8],
    ) {
        let to = self.arena.tensor_mut(program, tensor);
        to[start.index()..][..values.len()].copy_from_slice(values);
    }

    pub(crate) fn read(
        &self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &mut [u8],
    ) {
        let from = self.arena.tensor(program, tensor);
        values.copy_from_slice(&from[start.index()..][..values.len()]);
    }
}
