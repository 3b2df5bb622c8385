//! The planner on small and random programs.

use proptest::prelude::*;

use super::*;
use crate::{
    Access, Life, Operand, ProgramKind, Tensor, TensorClass, TensorRole,
    units::{DType, OpIndex, TensorId},
};

/// A device with given limits; an op named `s<n>` needs n bytes of scratch.
#[derive(Debug)]
struct TestTarget(Limits);

const HOST: TestTarget = TestTarget(Limits::HOST);

impl Target for TestTarget {
    fn limits(&self) -> Limits {
        self.0
    }

    fn scratch(&self, _: &Program, op: &Op) -> Bytes {
        Bytes::new(op.name().strip_prefix('s').and_then(|n| n.parse().ok()).unwrap_or(0))
    }
}

/// Reads programs such as `"a=100; b = a; c, ~b = a b"`: `name=bytes` is an input, the last
/// statement's results are outputs, every other tensor has 64 bytes.
fn program(text: &str) -> Program {
    let mut program = Program::new(ProgramKind::Other("test"), Vec::new());
    let statements: Vec<_> = text.split(';').map(str::trim).collect();
    let tensor = |name: &str, bytes: u64, life| Tensor {
        name: name.into(),
        shape: vec![bytes],
        dtype: DType::U8,
        class: TensorClass::Activation,
        life,
        role: TensorRole::General,
    };
    for (index, statement) in statements.iter().enumerate() {
        let (left, right) = statement.split_once('=').unwrap();
        if let Ok(bytes) = right.trim().parse() {
            program.tensor(tensor(left.trim(), bytes, Life::Input));
            continue;
        }
        let is_last = index + 1 == statements.len();
        let life = if is_last { Life::Output } else { Life::Inner };
        let mut operands = Vec::new();
        for name in right.split_whitespace() {
            let tensor = program.find(name).unwrap();
            operands.push(Operand { tensor, access: Access::Reads });
        }
        for name in left.split(',').map(str::trim) {
            let operand = match name.strip_prefix('~') {
                Some(name) => {
                    Operand { tensor: program.find(name).unwrap(), access: Access::Updates }
                }
                None => Operand {
                    tensor: program.tensor(tensor(name, 64, life)),
                    access: Access::Writes,
                },
            };
            operands.push(operand);
        }
        program.op(Op::Named { name: "op", operands });
    }
    program
}

fn slot_of(plan: &Plan, name: &str) -> Slot {
    let planned = &plan.programs[0];
    planned.slots[planned.program.find(name).unwrap().index()]
}

#[test]
fn a_slot_is_reused_after_the_last_read() {
    let plan = place(vec![program("a=64; b = a; c = b; d = c")], &HOST).unwrap();
    assert_eq!(slot_of(&plan, "a"), slot_of(&plan, "c"));
    assert_eq!(slot_of(&plan, "b"), slot_of(&plan, "d"));
    assert_eq!(plan.arena_bytes(), Bytes::new(128));
}

#[test]
fn in_place_work_keeps_its_slot_alive() {
    let text = "a=64; b = a; c = b; ~b = c; d = b";
    let plan = place(vec![program(text)], &HOST).unwrap();
    assert_ne!(slot_of(&plan, "b"), slot_of(&plan, "c"));
    assert!(verify(plan, &HOST).is_ok());
}

#[test]
fn two_programs_share_one_workspace() {
    let (small, large) = (program("a=64; b = a"), program("a=640; b = a"));
    let plan = place(vec![small, large], &HOST).unwrap();
    assert_eq!(plan.arena_bytes(), Bytes::new(704));
}

#[test]
fn the_checker_names_tensors_that_overlap_while_both_are_alive() {
    let mut plan = place(vec![program("a=64; b = a; c = a b")], &HOST).unwrap();
    let a = slot_of(&plan, "a");
    plan.programs[0].slots[1] = a;
    let fault = verify(plan, &HOST).unwrap_err();
    let (first, second) = ("a".into(), "b".into());
    assert_eq!(fault, PlanFault::Overlap { program: "test", at: OpIndex(0), first, second });
}

#[test]
fn the_checker_refuses_a_read_before_the_first_write() {
    let mut program = program("a=64; b = a");
    let b = TensorId(1);
    let operands = vec![Operand { tensor: b, access: Access::Updates }];
    let mut early = Program::new(ProgramKind::Other("test"), Vec::new());
    for tensor in program.tensors() {
        early.tensor(tensor.clone());
    }
    early.op(Op::Named { name: "op", operands });
    std::mem::swap(&mut program, &mut early);
    let fault = verify(place(vec![program], &HOST).unwrap(), &HOST).unwrap_err();
    assert!(matches!(fault, PlanFault::ReadBeforeWrite { .. }), "{fault}");
}

#[test]
fn the_checker_refuses_an_op_that_changes_a_tensor_it_also_reads() {
    let mut program = program("a=64; b = a");
    let both = [Access::Reads, Access::Updates];
    let operands = both.map(|access| Operand { tensor: TensorId(1), access });
    program.op(Op::Named { name: "op", operands: operands.to_vec() });
    let fault = verify(place(vec![program], &HOST).unwrap(), &HOST).unwrap_err();
    assert!(matches!(fault, PlanFault::Aliased { .. }), "{fault}");
}

#[test]
fn the_checker_refuses_slots_outside_the_device_limits() {
    let plan = place(vec![program("a=640; b = a")], &HOST).unwrap();
    let tight = Limits { max_binding: Bytes::new(320), ..Limits::HOST };
    assert!(matches!(verify(plan, &TestTarget(tight)), Err(PlanFault::BeyondLimits { .. })));
}

#[test]
fn a_tensor_larger_than_a_chunk_is_named() {
    let tight = Limits { max_chunk: Bytes::new(320), ..Limits::HOST };
    let error = place(vec![program("a=640; b = a")], &TestTarget(tight)).unwrap_err();
    let (need, have) = (Bytes::new(640), Bytes::new(320));
    assert_eq!(error, PlanError::TooLargeForOnePiece { tensor: "a".into(), need, have });
}

/// Any program whose ops read what was written before.
fn any_program() -> impl Strategy<Value = Program> {
    let op = (
        prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4),
        prop::collection::vec(1u64..5000, 1..4),
        prop::sample::select(vec!["op", "s64", "s1000"]),
        any::<bool>(),
    );
    (prop::collection::vec(1u64..3000, 1..4), prop::collection::vec(op, 1..40)).prop_map(
        |(inputs, ops)| {
            let mut program = Program::new(ProgramKind::Other("random"), Vec::new());
            let tensor = |n: usize, bytes, life| Tensor {
                name: format!("t{n}"),
                shape: vec![bytes],
                dtype: DType::U8,
                class: TensorClass::Activation,
                life,
                role: TensorRole::General,
            };
            for bytes in inputs {
                let n = program.tensors().len();
                program.tensor(tensor(n, bytes, Life::Input));
            }
            for (sources, results, name, is_output) in ops {
                let known = program.tensors().len();
                let mut operands: Vec<Operand> = Vec::new();
                for (source, in_place) in sources {
                    let id = TensorId(source.index(known) as u32);
                    if operands.iter().all(|o| o.tensor != id) {
                        let access = if in_place { Access::Updates } else { Access::Reads };
                        operands.push(Operand { tensor: id, access });
                    }
                }
                for bytes in results {
                    let n = program.tensors().len();
                    let life = if is_output { Life::Output } else { Life::Inner };
                    let id = program.tensor(tensor(n, bytes, life));
                    operands.push(Operand { tensor: id, access: Access::Writes });
                }
                program.op(Op::Named { name, operands });
            }
            program
        },
    )
}

fn any_limits() -> impl Strategy<Value = TestTarget> {
    (prop::sample::select(vec![1u64, 64, 256]), 8u64..64, 0u64..100).prop_map(
        |(alignment, kilobytes, guard)| {
            let max_chunk = Bytes::new(kilobytes * 1024);
            let guard = Bytes::new(guard);
            TestTarget(Limits { alignment, max_chunk, guard, ..Limits::HOST })
        },
    )
}

proptest! {
    #[test]
    fn every_plan_passes_the_checker(first in any_program(), second in any_program()) {
        let bound = [&first, &second].map(|p| profile(p, &HOST).peak().unwrap().bytes);
        let plan = place(vec![first, second], &HOST).unwrap();
        prop_assert!(plan.arena_bytes() >= bound[0].max(bound[1]));
        prop_assert!(verify(plan, &HOST).is_ok());
    }

    #[test]
    fn chunks_and_guards_are_kept(program in any_program(), device in any_limits()) {
        let plan = place(vec![program], &device).unwrap();
        prop_assert!(plan.chunks.iter().all(|c| *c <= device.limits().max_chunk));
        prop_assert_eq!(verify(plan, &device).err(), None);
    }

    #[test]
    fn a_check_says_what_the_plan_takes(program in any_program(), device in any_limits()) {
        let check = FitCheck::new(&program, &device);
        let plan = place(vec![program], &device).unwrap();
        let bytes = plan.arena_bytes().get();
        prop_assert!(check.live_bytes().unwrap().get() <= bytes);
        prop_assert!(check.is_placed_in(Bytes::new(bytes)));
        prop_assert!(!check.is_placed_in(Bytes::new(bytes - 1)));
    }

    #[test]
    fn planning_twice_gives_the_same_plan(program in any_program()) {
        prop_assert_eq!(place(vec![program.clone()], &HOST), place(vec![program], &HOST));
    }
}
