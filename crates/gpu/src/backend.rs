//! A GPU as a backend.
//!
//! Promise: a run on a GPU equals the CPU's within rounding, and a run can move between them. Test:
//! `tests/gpu/main.rs`.

use std::{ops::Range, sync::Arc};

use fitgpt_exec::{Arguments, Backend, BackendError, GUARD, POISON, Watch};
use fitgpt_program::{
    memory::{Slot, VerifiedPlan},
    units::{Bytes, OpIndex, ProgramId, TensorId},
};

use crate::{
    arena::DeviceArena,
    device::GpuDevice,
    dispatch::OpLaunch,
    pools::{clean, sync},
};

/// Runs programs on one device. The device's thread does the work; this type sends it requests and
/// waits for the answers.
#[derive(Debug)]
pub struct Gpu {
    device: GpuDevice,
    plan: Arc<VerifiedPlan>,
    work: Option<Arc<Work>>, // `None` only while being dropped
}

/// A plan with its arena on a device.
#[derive(Debug)]
struct Work {
    device: GpuDevice,
    plan: Arc<VerifiedPlan>,
    arena: DeviceArena,
    watch: Watch,
    guard: Bytes,
}

impl Gpu {
    /// A backend for the programs of `plan`, which was placed for this device's target with
    /// `guard` bytes after each slot.
    pub fn new(
        device: GpuDevice,
        plan: VerifiedPlan,
        watch: Watch,
        guard: Bytes,
    ) -> Result<Self, BackendError> {
        let plan = Arc::new(plan);
        let (of, planned) = (device.clone(), Arc::clone(&plan));
        let work = device.health.ask(move || {
            let is_run = watch == Watch::Off;
            let arena = DeviceArena::new(&of, &planned, if is_run { 0 } else { POISON }, is_run)?;
            let work = Work { device: of, plan: planned, arena, watch, guard };
            work.fill_constants()?;
            Ok(Arc::new(work))
        })?;
        Ok(Self { device, plan, work: Some(work) })
    }

    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Work) -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        let of = self.work();
        self.device.health.ask(move || work(&of))
    }

    fn work(&self) -> Arc<Work> {
        Arc::clone(self.work.as_ref().expect("taken only when dropped"))
    }
}

impl Drop for Gpu {
    /// Frees the arena before anything else is allocated.
    fn drop(&mut self) {
        let (work, device) = (self.work.take(), self.device.clone());
        // A failed device gets no more requests.
        let _ = self.device.health.ask(move || {
            drop(work);
            device.health.guard(|| clean(&device.client))
        });
    }
}

impl Work {
    /// All programs share the state, so the first program that names a constant fills it.
    fn fill_constants(&self) -> Result<(), BackendError> {
        let mut filled = Vec::new();
        for program in self.plan.ids() {
            for constant in self.plan.program(program).constants() {
                if filled.contains(&constant.tensor) {
                    continue;
                }
                filled.push(constant.tensor);
                let slot = self.plan.slot(program, constant.tensor);
                let values: Vec<f32> = constant.rows().flatten().collect();
                let bytes = bytemuck::cast_slice(&values);
                self.arena.write(&self.device, slot, Bytes::ZERO, bytes)?;
            }
        }
        Ok(())
    }

    fn launch(
        &self,
        program: ProgramId,
        ops: Range<usize>,
        arguments: &Arguments,
        mut after: impl FnMut(OpIndex) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        for at in ops.map(|at| OpIndex(at as u32)) {
            if self.watch == Watch::Poison {
                self.set_guards(program, at)?;
            }
            let call =
                OpLaunch::new(&self.device, &self.arena, &self.plan, (program, at), arguments);
            self.device.health.guard(|| {
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

    fn slots(&self, program: ProgramId, at: OpIndex) -> Vec<Slot> {
        let operands = self.plan.operands(program, at).iter().map(|operand| operand.slot);
        operands.chain(self.plan.scratch(program, at)).collect()
    }

    fn set_guards(&self, program: ProgramId, at: OpIndex) -> Result<(), BackendError> {
        if let Some(scratch) = self.plan.scratch(program, at) {
            self.arena.fill(&self.device, scratch, POISON)?;
        }
        for slot in self.slots(program, at) {
            self.arena.fill(&self.device, DeviceArena::behind(slot, self.guard), GUARD)?;
        }
        Ok(())
    }

    fn check_guards(&self, program: ProgramId, at: OpIndex) -> Result<(), BackendError> {
        let slots = self.slots(program, at).into_iter();
        let guards: Vec<_> = slots.map(|slot| DeviceArena::behind(slot, self.guard)).collect();
        for bytes in self.arena.read_all(&self.device, &guards)? {
            let name = self.plan.program(program).ops()[at.index()].name();
            assert!(
                bytes.iter().all(|byte| *byte == GUARD),
                "`{name}` wrote past the end of a slot"
            );
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

    fn run_part(
        &mut self,
        program: ProgramId,
        ops: Range<usize>,
        arguments: &Arguments,
    ) -> Result<(), BackendError> {
        let arguments = *arguments;
        self.ask(move |work| {
            work.launch(program, ops, &arguments, |_| Ok(()))?;
            let client = &work.device.client;
            work.device.health.guard(|| client.flush().map_err(|error| error.to_string()))
        })
    }

    fn run_op_by_op(
        &mut self,
        program: ProgramId,
        arguments: &Arguments,
        ended: &mut dyn FnMut(OpIndex),
    ) -> Result<(), BackendError> {
        let (work, arguments) = (self.work(), *arguments);
        let all = 0..self.plan.program(program).ops().len();
        let launch = move |report: &dyn Fn(OpIndex)| {
            work.launch(program, all, &arguments, |at| {
                // An op has ended when the device has finished it, not when it was launched.
                work.device.health.guard(|| sync(&work.device.client))?;
                report(at);
                Ok(())
            })
        };
        self.device.health.ask_with_progress(launch, ended)
    }

    fn write(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &[u8],
    ) -> Result<(), BackendError> {
        let (slot, values) = (self.plan.slot(program, tensor), values.to_vec());
        self.ask(move |work| work.arena.write(&work.device, slot, start, &values))
    }

    fn read(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &mut [u8],
    ) -> Result<(), BackendError> {
        let (slot, mut read) = (self.plan.slot(program, tensor), vec![0; values.len()]);
        let read = self.ask(move |work| {
            work.arena.read(&work.device, slot, start, &mut read)?;
            Ok(read)
        })?;
        values.copy_from_slice(&read);
        Ok(())
    }

    fn read_scalars(
        &mut self,
        of: &[(ProgramId, TensorId)],
        values: &mut [f32],
    ) -> Result<(), BackendError> {
        let slots: Vec<_> = of.iter().map(|of| self.plan.slot(of.0, of.1)).collect();
        let read = self.ask(move |work| work.arena.read_scalars(&work.device, &slots))?;
        values.copy_from_slice(&read);
        Ok(())
    }
}
