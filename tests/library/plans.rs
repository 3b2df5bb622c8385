//! Snapshots of the plans of known models, which show every change of planned memory.

use std::fmt::Write as _;

use fitgpt_config::{Config, MachineFacts, Precision, Written};
use fitgpt_exec::cpu::{CpuTarget, isa::Isa};
use fitgpt_model::{
    job::{self, Job},
    report::PhaseReport,
};
use fitgpt_program::{Names, TensorClass, units::Bytes};

/// A target that is the same on every machine.
fn target() -> CpuTarget {
    CpuTarget::new(2, Isa::named("portable").unwrap())
}

fn config(text: &str, changes: &[(&str, &str)]) -> Config {
    let facts =
        MachineFacts { now_seconds: 0.0, cuda_is_available: false, bf16_is_supported: false };
    let mut written = Written::new();
    written.read_python("test", text, &facts).unwrap();
    for (key, value) in changes {
        written.set(key, value).unwrap();
    }
    written.resolve().unwrap()
}

/// Every phase by class in bytes, the arena, and how near it is to the bound.
fn described(config: &Config, vocab: u32) -> String {
    let job = Job::new(config, vocab, Precision::Float32, &target(), Bytes::ZERO);
    let programs = job.training_programs(Names::Kept);
    let mut text = String::new();
    let mut bound = Bytes::ZERO;
    let mut phases: Vec<_> =
        programs.all().map(|p| PhaseReport::of(p.name(), [p], &target())).collect();
    for phase in &phases {
        bound = bound.max(phase.peak_bytes);
    }
    phases.push(PhaseReport::of("sample", job.sampling_programs().both(), &target()));
    for phase in phases {
        let PhaseReport { name, peak_bytes, at, classes } = phase;
        let _ = writeln!(text, "{name}: {} at op {} {}", peak_bytes.get(), at.index, at.op);
        for (class, bytes) in TensorClass::ALL.into_iter().zip(classes) {
            let _ = writeln!(text, "  {:<12}{:>14}", class.name(), bytes.get());
        }
    }
    let ops: Vec<_> = programs.all().map(|p| p.ops().len()).collect();
    let plan = job::plan(programs, &target()).unwrap();
    let arena = plan.plan().arena_bytes();
    assert!(arena.get() <= bound.get() / 50 * 51, "{arena} is more than 2 % above {bound}");
    let _ = writeln!(text, "arena: {}; ops: {ops:?}", arena.get());
    text
}

#[test]
fn the_stories_model() {
    let config = config(include_str!("../../config/stories.py"), &[]);
    insta::assert_snapshot!(described(&config, 59));
}

#[test]
fn gpt2_with_four_sequences() {
    let four = [("batch_size", "4"), ("gradient_accumulation_steps", "1")];
    insta::assert_snapshot!(described(&config("", &four), 50304));
}

#[test]
fn gpt2_with_four_sequences_recomputing() {
    let four =
        [("batch_size", "4"), ("gradient_accumulation_steps", "1"), ("grad_checkpoint", "True")];
    insta::assert_snapshot!(described(&config("", &four), 50304));
}
