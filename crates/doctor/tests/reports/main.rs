//! Invented reports in the form of public ones, with the diagnosis an expert would make.
//!
//! `docs/doctor.md` has the results on real ones.

mod other;
mod training;

use fitgpt_doctor::{
    Certainty, Context, Diagnosis, Domain, PhaseName, Remedy, diagnose, parse::Log,
};

/// Name; log; domain; the first cause, or `undecided`; the phase; a remedy that must be among the first four.
type ReportCase = (&'static str, &'static str, Domain, &'static str, PhaseName, Remedy);

fn rows() -> impl Iterator<Item = &'static ReportCase> {
    training::ROWS.iter().chain(other::ROWS)
}

fn of(log: &str) -> Diagnosis {
    diagnose(&Log::read(log.as_bytes()), &Context::new())
}

#[test]
fn every_report_gets_the_right_cause_phase_and_remedy() {
    for (name, log, domain, cause, phase, remedy) in rows() {
        let diagnosis = of(log);
        assert_eq!(diagnosis.domain, *domain, "{name}");
        // Without evidence there is no cause, but a list of what remains.
        let first = diagnosis.findings.iter().find(|f| f.is_cause || f.rule() == "undecided");
        let first = first.map(fitgpt_doctor::Finding::rule);
        assert_eq!(first, Some(*cause), "{name}: {diagnosis:#?}");
        assert_eq!(diagnosis.phase.name, *phase, "{name}");
        let mut advice = diagnosis.advice.iter().take(4).map(|advice| advice.id);
        assert!(advice.any(|id| id == *remedy), "{name}: {:?}", diagnosis.advice);
        let next = &diagnosis.do_next;
        assert!(next.command.is_some() || next.question.is_some(), "{name}");
    }
}

#[test]
fn no_gpt2_tensor_is_named_for_another_model() {
    for (name, log, domain, ..) in rows() {
        if !matches!(domain, Domain::NanoGpt | Domain::DecoderTraining) {
            assert_eq!(
                of(log).tensors.iter().filter(|t| t.supposing.is_some()).count(),
                0,
                "{name}"
            );
        }
    }
}

#[test]
fn a_remedy_already_in_use_is_not_recommended() {
    let (_, log, ..) = training::ROWS[5];
    let advised = |log: &str| of(log).advice.iter().any(|a| a.id == Remedy::GradientCheckpointing);
    assert!(advised(log));
    assert!(!advised(&format!("gradient_checkpointing=True\n{log}")));
}

#[test]
fn a_quota_of_a_web_service_is_not_memory() {
    let quota = of("429 RESOURCE_EXHAUSTED: Quota exceeded for quota metric 'requests per minute'");
    assert_eq!((quota.domain, quota.findings), (Domain::None, Vec::new()));
}

#[test]
fn a_cause_from_numbers_alone_is_only_possible() {
    let bare = of(
        "Tried to allocate 20.00 MiB (GPU 0; 1.96 GiB total capacity; 1.24 GiB already allocated; 2.88 MiB free; 1.25 GiB \
         reserved in total by PyTorch)",
    );
    assert!(bare.findings.iter().all(|f| !f.is_cause || f.certainty == Certainty::Unknown));
    assert!(bare.do_next.question.is_some());
}

/// The account of a log, as names and whole GiB.
fn account(log: &str) -> Option<Vec<(String, u64)>> {
    let account = of(log).account?;
    let gib = |bytes: u64| (bytes + (1 << 29)) >> 30;
    Some(
        account.parts.iter().map(|part| (part.name.as_str().to_owned(), gib(part.bytes))).collect(),
    )
}

/// A failed backward pass of a trainer, with so much allocated.
fn backward(setup: &str, allocated_gib: &str) -> String {
    format!(
        "{setup}\nTraceback (most recent call last):\n  File \"/lib/transformers/trainer.py\", line 2001, in training_step\n    \
         loss.backward()\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB (GPU 0; 79.20 GiB total \
         capacity; {allocated_gib} GiB already allocated; 49.19 MiB free; 78.40 GiB reserved in total by PyTorch)"
    )
}

#[test]
fn full_training_of_a_named_model_is_accounted_for() {
    let setup =
        "--model_name_or_path models/Llama-2-7b-hf --optim adamw_torch torch_dtype=torch.bfloat16";
    let shares = account(&backward(setup, "53.10")).unwrap();
    let names: Vec<_> = shares.iter().map(|(name, gib)| (name.as_str(), *gib)).collect();
    assert_eq!(names, [("weights", 13), ("gradients", 13), ("optimizer state", 25)]);
    // Twice as much is held: this is not how it was trained.
    assert_eq!(account(&backward(setup, "77.10")), None);
    // Without an optimizer nothing is assumed.
    let setup = "--model_name_or_path models/Llama-2-7b-hf torch_dtype=torch.bfloat16";
    assert_eq!(account(&backward(setup, "53.10")), None);
}

#[test]
fn sharding_divides_the_state_by_the_ranks() {
    let setup = "torchrun --nproc_per_node=8 tune.py --model_name_or_path models/Llama-2-13b-hf --optim adamw_torch \
        --fsdp full_shard torch_dtype=torch.bfloat16";
    let shares = account(&backward(setup, "12.20")).unwrap();
    let names: Vec<_> = shares.iter().map(|(name, gib)| (name.as_str(), *gib)).collect();
    assert_eq!(names, [("weights", 3), ("gradients", 3), ("optimizer state", 6)]);
}

#[test]
fn adapters_on_four_bit_weights_are_accounted_for() {
    let setup = "qlora.py --model_name_or_path models/Llama-2-7b-hf --load_in_4bit --optim adamw_torch\n\
        trainable params: 159,907,840 || all params: 6,898,323,456 || trainable%: 2.3";
    let shares = account(&backward(setup, "6.10")).unwrap();
    let names: Vec<_> = shares.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["weights", "adapters and their state"]);
}
