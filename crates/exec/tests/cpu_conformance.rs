//! Compares the CPU with the reference: every op and small models, on every instruction set of this
//! machine, with one, two and three threads.

use fitgpt_conformance::{WATCHED, judge, judge_model, same_bits};
use fitgpt_exec::{
    Backend, BackendError, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_program::memory::VerifiedPlan;

fn target(threads: usize, isa: Isa) -> CpuTarget {
    CpuTarget { limits: WATCHED, ..CpuTarget::new(threads, isa) }
}

fn watched(
    target: CpuTarget,
) -> impl FnMut(VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
    move |plan| Ok(Box::new(Cpu::new(plan, target, Watch::Poison)?))
}

#[test]
fn every_op_is_within_its_tolerance() {
    for isa in Isa::all() {
        for threads in [1, 2, 3] {
            let target = target(threads, isa);
            let verdict = judge(&target, &mut watched(target)).unwrap();
            assert!(verdict.is_clean(), "{} with {threads} threads\n{verdict}", isa.name());
        }
    }
}

#[test]
fn small_models_train_and_sample_like_the_reference() {
    for isa in Isa::all() {
        for threads in [1, 2, 3] {
            let target = target(threads, isa);
            let verdict = judge_model(&target, &mut watched(target)).unwrap();
            assert!(verdict.is_clean(), "{} with {threads} threads\n{verdict}", isa.name());
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for isa in Isa::all() {
        let three = target(3, isa);
        for threads in [1, 2] {
            let fewer = target(threads, isa);
            let verdict =
                same_bits(&three, &mut watched(three), &fewer, &mut watched(fewer)).unwrap();
            assert!(verdict.is_clean(), "{} with {threads} threads\n{verdict}", isa.name());
        }
    }
}
