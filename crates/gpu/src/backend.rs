//! A GPU as a backend.

use cubecl::MemoryScope;
use fitgpt_exec::{Arguments, Backend, BackendError, Watch};
use fitgpt_plan::{
    memory::{Slot, VerifiedPlan},
    units::{Bytes, OpIndex, TensorId},
};

use crate::{
    arena::{Arena, sync},
    device::Device,
    dispatch::Call,
};

/// Runs programs on one device.
#[derive(Debug)]
pub struct Gpu {
    device: Device,
    plan: VerifiedPlan,
    arena: Arena,
    watch: Watch,
    guard: Bytes,
}

/// All ones is a NaN in every float type that we store.
const POISON: u8 = 0xff;
const GUARD: u8 = 0xa5;

/// Memory that a device holds for a run, as its runtime reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Allocations of their own: the arena.
    pub arena: Bytes,
    /// Pools, by name: where the runtime puts arguments of kernels and copies to the host.
    pub pools: Vec<(String, Bytes)>,
}

impl Gpu {
    /// A backend for the programs of `plan`, which was placed for this device's target with
    /// `guard` bytes behind each slot.
    pub fn new(
        device: Device,
        plan: VerifiedPlan,
        watch: Watch,
        guard: Bytes,
    ) -> Result<Self, BackendError> {
        let fill = if watch == Watch::Poison { POISON } else { 0 };
        let arena = Arena::new(&device, &plan, fill)?;
        Ok(Self { device, plan, arena, watch, guard })
    }

    /// What the runtime reports for the stream of this thread.
    pub fn held(&self) -> Result<Held, BackendError> {
        let report = self.device.guard(|| {
            sync(&self.device.client)?;
            Ok(self.device.client.memory_report(MemoryScope::CurrentStream))
        })?;
        let mut held = Held { arena: Bytes::ZERO, pools: Vec::new() };
        for stream in report.streams {
            held.arena = held.arena + Bytes::new(stream.pools.dedicated.usage.bytes_reserved);
            let dynamic = stream.pools.dynamic.iter().chain([&stream.pools.persistent]);
            let dynamic = dynamic.map(|pool| pool.usage.bytes_reserved).sum();
            held.pools.push(("pools".to_owned(), Bytes::new(dynamic)));
            for memory in stream.auxiliary {
                let bytes = Bytes::new(memory.pools.usage().bytes_reserved);
                held.pools.push((memory.name, bytes));
            }
        }
        Ok(held)
    }

    fn launch_all(
        &self,
        program: usize,
        arguments: &Arguments,
        mut after: impl FnMut(OpIndex) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let count = self.plan.program(program).ops().len();
        for at in (0..count as u32).map(OpIndex) {
            if self.watch == Watch::Poison {
                self.set_guards(program, at)?;
            }
            let call = Call::new(&self.device, &self.arena, &self.plan, (program, at), arguments);
            self.device.guard(|| {
                call.run();
                Ok(())
            })?;
            if self.watch == Watch::Poison {
                self.check_guards(program, at)?;
            }
            after(at)?;
        }
        Ok(())
    }

    fn slots(&self, program: usize, at: OpIndex) -> Vec<Slot> {
        let operands = self.plan.operands(program, at).iter().map(|operand| operand.slot);
        operands.chain(self.plan.scratch(program, at)).collect()
    }

    fn set_guards(&self, program: usize, at: OpIndex) -> Result<(), BackendError> {
        if let Some(scratch) = self.plan.scratch(program, at) {
            self.arena.fill(&self.device, scratch, POISON)?;
        }
        for slot in self.slots(program, at) {
            self.arena.fill(&self.device, Arena::behind(slot, self.guard), GUARD)?;
        }
        Ok(())
    }

    fn check_guards(&self, program: usize, at: OpIndex) -> Result<(), BackendError> {
        let slots = self.slots(program, at).into_iter();
        let guards: Vec<_> = slots.map(|slot| Arena::behind(slot, self.guard)).collect();
        for bytes in self.arena.read_all(&self.device, &guards)? {
            let name = self.plan.program(program).ops()[at.index()].name();
            assert!(bytes.iter().all(|byte| *byte == GUARD), "`{name}` wrote behind a slot");
        }
        for operand in self.plan.operands(program, at) {
            if operand.dies {
                self.arena.fill(&self.device, operand.slot, POISON)?;
            }
        }
        Ok(())
    }
}

impl Backend for Gpu {
    fn plan(&self) -> &VerifiedPlan {
        &self.plan
    }

    fn run(&mut self, program: usize, arguments: &Arguments) -> Result<(), BackendError> {
        self.launch_all(program, arguments, |_| Ok(()))?;
        self.device.guard(|| self.device.client.flush().map_err(|error| error.to_string()))
    }

    fn run_op_by_op(
        &mut self,
        program: usize,
        arguments: &Arguments,
        ended: &mut dyn FnMut(OpIndex),
    ) -> Result<(), BackendError> {
        self.launch_all(program, arguments, |at| {
            // An op is done when the device is, not when it was told.
            self.device.guard(|| sync(&self.device.client))?;
            ended(at);
            Ok(())
        })
    }

    fn write(
        &mut self,
        program: usize,
        tensor: TensorId,
        start: Bytes,
        values: &[u8],
    ) -> Result<(), BackendError> {
        self.arena.write(&self.device, self.plan.slot(program, tensor), start, values)
    }

    fn read(
        &mut self,
        program: usize,
        tensor: TensorId,
        start: Bytes,
        values: &mut [u8],
    ) -> Result<(), BackendError> {
        self.arena.read(&self.device, self.plan.slot(program, tensor), start, values)
    }
}
