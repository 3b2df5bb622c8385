//! The CPU as a backend.

use std::ops::Range;

use fitgpt_program::{
    memory::VerifiedPlan,
    units::{Bytes, OpIndex, ProgramId, TensorId},
};

use super::{
    CpuTarget, Machine,
    dispatch::{self, Call},
    pool::Pool,
};
use crate::{Arguments, Backend, BackendError, Watch, arena::BeforeTouch, backend::WatchedArena};

/// Runs programs on this machine's cores.
#[derive(Debug)]
pub struct Cpu {
    host: WatchedArena,
    machine: Machine,
}

impl Cpu {
    /// A backend for the programs of `plan`, which was placed for this `target`.
    pub fn new(plan: VerifiedPlan, target: CpuTarget, watch: Watch) -> Result<Self, BackendError> {
        Self::touched(plan, target, watch, &mut |_| Ok(()))
    }

    /// Like [`Cpu::new`], but releases the arena if `before` returns an error.
    pub fn touched(
        plan: VerifiedPlan,
        target: CpuTarget,
        watch: Watch,
        before: &mut BeforeTouch<'_>,
    ) -> Result<Self, BackendError> {
        let CpuTarget { threads, isa, products, limits } = target;
        let pool = Pool::new(threads)
            .map_err(|error| BackendError::Threads { asked: threads, kind: error.kind() })?;
        let host = WatchedArena::new(plan, limits, watch, before)?;
        Ok(Self { host, machine: Machine { pool, isa, products } })
    }

    fn run_ops(
        &mut self,
        program: ProgramId,
        ops: Range<usize>,
        arguments: &Arguments,
        ended: &mut dyn FnMut(OpIndex),
    ) {
        let Self { host, machine } = self;
        host.run(program, ops, ended, |program, op, operands| {
            let mut call = Call { machine: &mut *machine, program, arguments, operands };
            dispatch::run(&mut call, op);
        });
    }
}

impl Backend for Cpu {
    fn plan(&self) -> &VerifiedPlan {
        self.host.plan()
    }

    fn run_part(
        &mut self,
        program: ProgramId,
        ops: Range<usize>,
        arguments: &Arguments,
    ) -> Result<(), BackendError> {
        self.run_ops(program, ops, arguments, &mut |_| {});
        Ok(())
    }

    fn run_op_by_op(
        &mut self,
        program: ProgramId,
        arguments: &Arguments,
        ended: &mut dyn FnMut(OpIndex),
    ) -> Result<(), BackendError> {
        self.run_ops(program, self.host.all_ops(program), arguments, ended);
        Ok(())
    }

    fn write(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &[u8],
    ) -> Result<(), BackendError> {
        self.host.write(program, tensor, start, values);
        Ok(())
    }

    fn read(
        &mut self,
        program: ProgramId,
        tensor: TensorId,
        start: Bytes,
        values: &mut [u8],
    ) -> Result<(), BackendError> {
        self.host.read(program, tensor, start, values);
        Ok(())
    }
}
