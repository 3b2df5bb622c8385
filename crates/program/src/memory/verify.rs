//! The checker: whether a plan can be run. It shares no code with the placer.
//!
//! Simple on purpose: it recomputes lifetimes with a backward scan for last uses and a forward
//! scan for first uses, and sweeps the slots in address order. It uses no function of `place.rs`
//! or `liveness.rs`, so it does not share their mistakes.
//!
//! Promise: two tensors that are alive at the same op never share a byte; the checker shares no
//! code with the placement. Test: random programs in `crates/program/src/memory/tests.rs`, and
//! every plan before it runs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use super::{Plan, Slot, Target};
use crate::{
    Access, Life, Program,
    units::{Bytes, DType, OpIndex, ProgramId, TensorId},
};

/// What is wrong with a plan. Each of these is a bug in the planner, not a user error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// Two tensors (or scratch) alive at the same op share a byte.
    #[error("`{first}` and `{second}` share bytes at op {} of `{program}`", at.0)]
    Overlap {
        /// In which program.
        program: &'static str,
        /// The first op at which both are alive.
        at: OpIndex,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A slot leaves its chunk, or is misaligned, or too large for a binding.
    #[error("the slot of `{tensor}` in `{program}` breaks the device's limits")]
    BeyondLimits {
        /// In which program.
        program: &'static str,
        /// The tensor.
        tensor: String,
    },
    /// A slot is not as large as its tensor, or scratch is not as large as its op needs.
    #[error("the slot of `{tensor}` in `{program}` has {have}, it needs {need}")]
    WrongSize {
        /// In which program.
        program: &'static str,
        /// The tensor.
        tensor: String,
        /// The slot's size.
        have: Bytes,
        /// The required size.
        need: Bytes,
    },
    /// An op reads a tensor before it is written.
    #[error("op {} of `{program}` reads `{tensor}` before it is written", at.0)]
    ReadBeforeWrite {
        /// In which program.
        program: &'static str,
        /// Which op.
        at: OpIndex,
        /// The tensor.
        tensor: String,
    },
    /// An op names one tensor twice and changes it.
    #[error("op {} of `{program}` names `{tensor}` twice and changes it", at.0)]
    Aliased {
        /// In which program.
        program: &'static str,
        /// Which op.
        at: OpIndex,
        /// The tensor.
        tensor: String,
    },
    /// State is not the same in every program.
    #[error("`{program}` does not share the state of the first program")]
    StateDiffers {
        /// Which program.
        program: &'static str,
    },
}

/// One operand with its slot, ready for a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedOperand {
    /// Which tensor.
    pub tensor: TensorId,
    /// How the op touches it.
    pub access: Access,
    /// How its elements are stored.
    pub dtype: DType,
    /// Its slot.
    pub slot: Slot,
    /// Whether this op is the last to use it.
    pub dies: bool,
}

/// A plan that has been checked. [`verify`] is the only way to make one.
#[derive(Clone, Debug)]
pub struct VerifiedPlan {
    plan: Plan,
    operands: Vec<Vec<Vec<PlacedOperand>>>, // by program, by op
}

impl VerifiedPlan {
    /// The plan itself.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Every program, in the order given to the placer.
    pub fn ids(&self) -> impl Iterator<Item = ProgramId> + use<> {
        (0..self.plan.programs.len() as u32).map(ProgramId)
    }

    /// One of the programs.
    pub fn program(&self, program: ProgramId) -> &Program {
        &self.plan.programs[program.index()].program
    }

    /// The operands of one op, in the order of [`crate::Op::operands`].
    pub fn operands(&self, program: ProgramId, op: OpIndex) -> &[PlacedOperand] {
        &self.operands[program.index()][op.index()]
    }

    /// The scratch of one op.
    pub fn scratch(&self, program: ProgramId, op: OpIndex) -> Option<Slot> {
        self.plan.programs[program.index()].scratch[op.index()]
    }

    /// A tensor's slot.
    pub fn slot(&self, program: ProgramId, tensor: TensorId) -> Slot {
        self.plan.programs[program.index()].slots[tensor.index()]
    }
}

/// Replays the operands and looks for tensors that overlap while both are alive.
pub fn verify(plan: Plan, target: &impl Target) -> Result<VerifiedPlan, PlanFault> {
    let mut operands = Vec::with_capacity(plan.programs.len());
    for (index, planned) in plan.programs.iter().enumerate() {
        let program = &planned.program;
        let first = &plan.programs[0];
        let shares_state = program.state() == first.program.state()
            && planned.slots[..program.state().len()] == first.slots[..program.state().len()];
        if index > 0 && !shares_state {
            return Err(PlanFault::StateDiffers { program: program.name() });
        }
        let uses = uses(program)?;
        check_slots(&plan, index, target)?;
        check_overlap(&plan, index, &uses)?;
        let located = (0..).zip(program.ops()).map(|(at, op)| {
            let locate = |o: crate::Operand| PlacedOperand {
                tensor: o.tensor,
                access: o.access,
                dtype: program.get(o.tensor).dtype,
                slot: planned.slots[o.tensor.index()],
                dies: uses[o.tensor.index()].is_some_and(|(_, last)| last == at)
                    && matches!(program.get(o.tensor).life, Life::Inner | Life::Input),
            };
            op.operands().into_iter().map(locate).collect()
        });
        operands.push(located.collect());
    }
    Ok(VerifiedPlan { plan, operands })
}

/// First and last op that use a tensor's bytes; `None` if no op touches it.
fn uses(program: &Program) -> Result<Vec<Option<(u32, u32)>>, PlanFault> {
    let count = program.tensors().len();
    let last_op = (program.ops().len() as u32).saturating_sub(1);
    let mut last: Vec<Option<u32>> = vec![None; count];
    for (at, op) in program.ops().iter().enumerate().rev() {
        for operand in op.operands() {
            last[operand.tensor.index()].get_or_insert(at as u32);
        }
    }
    let mut first: Vec<Option<u32>> = vec![None; count];
    for (tensor, (first, last)) in program.tensors().iter().zip(first.iter_mut().zip(&mut last)) {
        match tensor.life {
            Life::Always => (*first, *last) = (Some(0), Some(last_op)),
            Life::Input => (*first, *last) = (Some(0), Some(last.unwrap_or(0))),
            Life::Output => *last = last.map(|_| last_op),
            Life::Inner => {}
        }
    }
    for (at, op) in (0..).zip(program.ops()) {
        let operands = op.operands();
        for (position, operand) in operands.iter().enumerate() {
            let tensor = || program.get(operand.tensor).name.clone();
            let twice = operands[..position].iter().any(|other| {
                other.tensor == operand.tensor
                    && (other.access != Access::Reads || operand.access != Access::Reads)
            });
            if twice {
                let (program, at) = (program.name(), OpIndex(at));
                return Err(PlanFault::Aliased { program, at, tensor: tensor() });
            }
            let first = &mut first[operand.tensor.index()];
            if first.is_none() && operand.access != Access::Writes {
                let (program, at) = (program.name(), OpIndex(at));
                return Err(PlanFault::ReadBeforeWrite { program, at, tensor: tensor() });
            }
            first.get_or_insert(at);
        }
    }
    Ok(first.into_iter().zip(last).map(|(f, l)| f.zip(l)).collect())
}

/// Sizes, bounds, alignment, chunk and binding limits of every slot.
fn check_slots(plan: &Plan, index: usize, target: &impl Target) -> Result<(), PlanFault> {
    let planned = &plan.programs[index];
    let program = &planned.program;
    let limits = target.limits();
    let check = |name: &dyn Fn() -> String, slot: &Slot, need: Bytes, guard: Bytes| {
        if slot.end < slot.start || slot.end.get() - slot.start.get() != need.get() {
            let (program, have) = (program.name(), slot.bytes());
            return Err(PlanFault::WrongSize { program, tensor: name(), have, need });
        }
        let inside = plan
            .chunks
            .get(slot.chunk as usize)
            .is_some_and(|c| slot.end + guard <= *c && *c <= limits.max_chunk);
        let aligned = slot.start.get().is_multiple_of(limits.alignment);
        if need > Bytes::ZERO && !(inside && aligned && need <= limits.max_binding) {
            return Err(PlanFault::BeyondLimits { program: program.name(), tensor: name() });
        }
        Ok(())
    };
    for (tensor, slot) in program.tensors().iter().zip(&planned.slots) {
        let untouched = slot.bytes() == Bytes::ZERO;
        let need = if untouched { Bytes::ZERO } else { tensor.bytes() };
        check(&|| tensor.name.clone(), slot, need, limits.guard)?;
    }
    for (at, (op, slot)) in program.ops().iter().zip(&planned.scratch).enumerate() {
        let need = target.scratch(program, op);
        let name = || format!("scratch of {}", op.name());
        match slot {
            Some(slot) => check(&name, slot, need, limits.guard)?,
            None if need > Bytes::ZERO => {
                let (program, have) = (program.name(), Bytes::ZERO);
                let tensor = format!("{} at op {at}", name());
                return Err(PlanFault::WrongSize { program, tensor, have, need });
            }
            None => {}
        }
        for operand in op.operands() {
            let tensor = program.get(operand.tensor);
            let have = planned.slots[operand.tensor.index()].bytes();
            if have != tensor.bytes() {
                let (program, need) = (program.name(), tensor.bytes());
                return Err(PlanFault::WrongSize {
                    program,
                    tensor: tensor.name.clone(),
                    have,
                    need,
                });
            }
        }
    }
    Ok(())
}

/// Sweeps slots in address order and compares the lifetimes of those that overlap.
///
/// The open slots, those that reach past the current address, have disjoint lifetimes, because any
/// two that overlap are reported as a fault. So a new slot is compared with only one neighbour in
/// time; comparing it with all of them took a quarter of the time to plan a deep model.
fn check_overlap(plan: &Plan, index: usize, uses: &[Option<(u32, u32)>]) -> Result<(), PlanFault> {
    let planned = &plan.programs[index];
    let program = &planned.program;
    // (slot, first op, last op, tensor or op whose scratch it is)
    let mut spans: Vec<(Slot, u32, u32, Result<usize, usize>)> = Vec::new();
    for (tensor, (slot, span)) in planned.slots.iter().zip(uses).enumerate() {
        if let Some((first, last)) = *span {
            spans.push((*slot, first, last, Ok(tensor)));
        }
    }
    for (at, slot) in planned.scratch.iter().enumerate() {
        spans.extend(slot.map(|slot| (slot, at as u32, at as u32, Err(at))));
    }
    spans.retain(|(slot, ..)| slot.bytes() > Bytes::ZERO);
    spans.sort_by_key(|(slot, ..)| (slot.chunk, slot.start));

    let name = |owner: Result<usize, usize>| match owner {
        Ok(tensor) => program.tensors()[tensor].name.clone(),
        Err(op) => format!("scratch of {}", program.ops()[op].name()),
    };
    // Open slots by first op, and the same by the address at which they end.
    let mut open: BTreeMap<u32, (u32, Result<usize, usize>)> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<(u32, Bytes, u32)>> = BinaryHeap::new();
    for (slot, first, last, owner) in spans {
        while let Some(&Reverse((chunk, end, closed))) = ends.peek()
            && (chunk < slot.chunk || end <= slot.start)
        {
            ends.pop();
            open.remove(&closed);
        }
        // The latest slot that starts no later than `last`; all earlier ones end before it starts.
        if let Some((&other_first, &(other_last, other_owner))) = open.range(..=last).next_back()
            && other_last >= first
        {
            return Err(PlanFault::Overlap {
                program: program.name(),
                at: OpIndex(first.max(other_first)),
                first: name(other_owner),
                second: name(owner),
            });
        }
        open.insert(first, (last, owner));
        ends.push(Reverse((slot.chunk, slot.end, first)));
    }
    Ok(())
}
