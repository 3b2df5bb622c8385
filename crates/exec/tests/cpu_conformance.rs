//! Compares the CPU with the reference: every op and small models, on every instruction set of this
//! machine, with one, two and three threads, with float32 and with bfloat16 factors.

use fitgpt_conformance::{
    Factors, WATCHED, judge, judge_model, judge_model_stored, judge_stored, same_bits,
    stored_matrices_change_no_bit,
};
use fitgpt_exec::{
    Backend, BackendError, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_program::{Products, memory::VerifiedPlan, units::DType};

fn target(threads: usize, isa: Isa) -> CpuTarget {
    CpuTarget { limits: WATCHED, ..CpuTarget::new(threads, isa) }
}

/// With bfloat16 factors.
fn pairs(threads: usize, isa: Isa) -> CpuTarget {
    target(threads, isa).with_products(Products::Bfloat16)
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

#[test]
fn every_op_with_bfloat16_factors_is_within_its_tolerance() {
    for isa in Isa::all() {
        for threads in [1, 3] {
            let target = pairs(threads, isa);
            let dtypes = [DType::Bf16];
            let verdict =
                judge_stored(&dtypes, Factors::Rounded, &target, &mut watched(target)).unwrap();
            assert!(verdict.is_clean(), "{} with {threads} threads\n{verdict}", isa.name());
        }
    }
}

#[test]
fn small_models_with_bfloat16_factors_train_and_sample_like_the_reference() {
    for isa in Isa::all() {
        let target = pairs(2, isa);
        let dtypes = [DType::Bf16];
        let verdict =
            judge_model_stored(&dtypes, Factors::Rounded, &target, &mut watched(target)).unwrap();
        assert!(verdict.is_clean(), "{}\n{verdict}", isa.name());
    }
}

#[test]
fn the_number_of_threads_changes_no_bit_of_bfloat16_factors() {
    for isa in Isa::all() {
        let (three, one) = (pairs(3, isa), pairs(1, isa));
        let verdict = same_bits(&three, &mut watched(three), &one, &mut watched(one)).unwrap();
        assert!(verdict.is_clean(), "{}\n{verdict}", isa.name());
    }
}

#[test]
fn matrices_stored_in_bfloat16_change_no_bit_of_bfloat16_factors() {
    for isa in Isa::all() {
        let target = pairs(2, isa);
        let verdict =
            stored_matrices_change_no_bit(DType::Bf16, &target, &mut watched(target)).unwrap();
        assert!(verdict.is_clean() && verdict.compared > 100, "{}\n{verdict}", isa.name());
    }
}

#[test]
fn emulated_products_have_the_bits_of_the_instruction() {
    for isa in Isa::all().filter(|isa| isa.has_pairs()) {
        let (real, emulated) = (pairs(2, isa), pairs(2, isa.without_pairs()));
        let verdict =
            same_bits(&real, &mut watched(real), &emulated, &mut watched(emulated)).unwrap();
        assert!(verdict.is_clean(), "{}\n{verdict}", isa.name());
    }
}
