//! The logs of `examples/`: the expected diagnosis of each, and its JSON.

use fitgpt_config::MachineFacts;
use fitgpt_doctor::{
    Cause, Certainty, Context, Diagnosis, MemoryKind, PhaseName, TensorName, diagnose,
    parse::{HarmlessLine, Log},
    size,
};
use serde_json::{Value, json};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

fn read(name: &str) -> (Log, Context) {
    let log = std::fs::read(format!("{EXAMPLES}/{name}.log")).unwrap();
    let mut case = Context::new();
    if let Ok(text) = std::fs::read_to_string(format!("{EXAMPLES}/{name}.py")) {
        case.read_config(&format!("{name}.py"), &text, &MachineFacts::default());
    }
    (Log::read(&log), case)
}

fn diagnosis(name: &str) -> Diagnosis {
    let (log, case) = read(name);
    diagnose(&log, &case)
}

fn causes(diagnosis: &Diagnosis) -> Vec<&'static str> {
    diagnosis.findings.iter().filter(|f| f.is_cause).map(fitgpt_doctor::Finding::rule).collect()
}

/// Name; kind; phase and its certainty; shape and dtype of the best tensor; causes.
type ExampleCase = (
    &'static str,
    MemoryKind,
    (PhaseName, Certainty),
    Option<(&'static [u64], &'static str)>,
    &'static [&'static str],
);

#[test]
fn the_split_of_a_step_is_read_from_the_logits_and_the_tokens() {
    let (log, _) = read("estimate-loss-batch-64");
    let diagnosis = diagnose(&log, &Context::new());
    assert_eq!(causes(&diagnosis)[0], "stale-logits");
    let config = diagnosis.config.unwrap();
    assert_eq!((config.batch_size(), config.gradient_accumulation_steps()), (64, 8));
    assert!(diagnosis.fixes.iter().any(|fix| fix.keeps_training && fix.fits));
}

#[test]
fn every_example_is_diagnosed() {
    use Certainty::{Certain, Likely, Unknown};
    use MemoryKind::{GpuMemory, HostMemory, SharedMemory};
    use PhaseName::{Compile, Evaluate, Resume, TrainBackward, TrainForward, Update};
    let rows: &[ExampleCase] = &[
        ("calm", MemoryKind::None, (PhaseName::Unknown, Unknown), None, &[]),
        (
            "early-era-attention",
            GpuMemory,
            (TrainForward, Certain),
            Some((&[8, 12, 1024, 1024], "float32")),
            &["attention-scores"],
        ),
        (
            "estimate-loss-batch-64",
            GpuMemory,
            (Evaluate, Certain),
            Some((&[65536, 50304], "bfloat16")),
            &["stale-logits", "logits-at-the-peak", "evaluation-uses-training-batch"],
        ),
        (
            "exact-bytes",
            GpuMemory,
            (TrainForward, Certain),
            Some((&[12288, 50304], "float32")),
            &["logits-at-the-peak"],
        ),
        (
            "foreign-process",
            GpuMemory,
            (TrainForward, Certain),
            Some((&[4096, 50304], "float32")),
            &["foreign-memory"],
        ),
        (
            "gpt2-xl-finetune",
            GpuMemory,
            (TrainForward, Likely),
            Some((&[1024, 50257], "bfloat16")),
            &["static-state-too-large"],
        ),
        ("host-killed", HostMemory, (PhaseName::Unknown, Unknown), None, &["host-memory"]),
        (
            "no-traceback-batch-32",
            GpuMemory,
            (Evaluate, Likely),
            Some((&[32768, 50304], "float32")),
            &["logits-at-the-peak", "evaluation-uses-training-batch"],
        ),
        (
            "optimizer-step",
            GpuMemory,
            (Update, Certain),
            Some((&[5120, 1280], "float32")),
            &["optimizer-temporaries", "weight-shaped"],
        ),
        (
            "rank-backward-rocm",
            GpuMemory,
            (TrainBackward, Certain),
            Some((&[16384, 50304], "float32")),
            &["logits-at-the-peak"],
        ),
        (
            "resume-8gb",
            GpuMemory,
            (Resume, Certain),
            Some((&[50304, 1024], "float32")),
            &["checkpoint-on-device", "weight-shaped"],
        ),
        ("shared-memory", SharedMemory, (Compile, Certain), None, &["shared-memory"]),
        (
            "two-workers-free-memory",
            GpuMemory,
            (Evaluate, Certain),
            Some((&[2048, 50304], "float32")),
            &["free-exceeds-request"],
        ),
    ];
    for (name, kind, phase, tensor, expected) in rows {
        let diagnosis = diagnosis(name);
        assert_eq!(diagnosis.kind, *kind, "{name}");
        assert_eq!((diagnosis.phase.name, diagnosis.phase.certainty), *phase, "{name}");
        let best = diagnosis.tensors.first().map(|t| (t.shape.as_slice(), t.dtype));
        assert_eq!(best, *tensor, "{name}");
        assert_eq!(causes(&diagnosis), *expected, "{name}: {diagnosis:#?}");
    }
    let logs = std::fs::read_dir(EXAMPLES).unwrap().map(|file| file.unwrap().path());
    let logs = logs.filter(|path| path.extension().is_some_and(|e| e == "log")).count();
    assert_eq!(logs, rows.len(), "an example without a row");
}

/// GiB with three decimals.
fn gib(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / f64::from(1 << 30))
}

#[test]
fn the_evaluation_at_batch_64_is_accounted_for_to_a_hundredth() {
    let diagnosis = diagnosis("estimate-loss-batch-64");
    let stale = diagnosis.findings.iter().find(|f| f.rule() == "stale-logits").unwrap();
    let Cause::StaleLogits { parts, held_bytes, .. } = &stale.cause else { panic!("{stale:?}") };
    let parts: Vec<_> = parts.iter().map(|part| (part.name.as_str(), gib(part.bytes))).collect();
    let expected = [
        ("weights", "0.463"),
        ("logits of the last batch", "6.141"),
        ("ln_f", "0.094"),
        ("wte.weight (bfloat16)", "0.072"),
        ("other", "0.002"),
    ];
    assert_eq!(parts, expected.map(|(name, gib)| (name, gib.to_owned())));
    assert_eq!(size(*held_bytes), "6.77 GiB");
    assert_eq!(size(diagnosis.facts.allocated.unwrap().bytes), "6.78 GiB");

    let foreign = diagnosis.findings.iter().find(|f| f.rule() == "foreign-memory").unwrap();
    assert!(!foreign.is_cause);
    let Cause::ForeignMemory { foreign_bytes, .. } = foreign.cause else { panic!("{foreign:?}") };
    assert_eq!(size(foreign_bytes.unwrap()), "1.97 GiB");

    let next = diagnosis.next.unwrap();
    assert_eq!(next.phase, PhaseName::TrainForward);
    assert!(next.peak_bytes > 30 << 30);
    assert_eq!(diagnosis.tensors[0].name, TensorName::Logits);
    assert_eq!(
        diagnosis.notes,
        [
            HarmlessLine::FewMultiprocessors,
            HarmlessLine::GradScalerDeprecated,
            HarmlessLine::FragmentationHint
        ]
    );
}

#[test]
fn the_same_failure_is_recognized_with_a_different_reserved_number() {
    let log = std::fs::read_to_string(format!("{EXAMPLES}/estimate-loss-batch-64.log")).unwrap();
    let log = log.replace("Process 2208 has 224.90 MiB memory in use. ", "");
    let log = log.replace("61.24 MiB is reserved", "224.90 MiB is reserved");
    let (_, case) = read("estimate-loss-batch-64");
    let diagnosis = diagnose(&Log::read(log.as_bytes()), &case);
    assert_eq!(causes(&diagnosis)[0], "stale-logits");
    assert_eq!(size(diagnosis.facts.foreign.unwrap().bytes), "1.97 GiB");
}

#[test]
fn the_log_without_a_traceback_is_the_first_evaluation() {
    let diagnosis = diagnosis("no-traceback-batch-32");
    assert!(diagnosis.tensors[0].name.as_str().contains("softmax"));
    assert!(diagnosis.tensors.iter().any(|tensor| tensor.name.as_str() == "logits (float32)"));
    // No stale logits yet: it is the first batch of the first evaluation.
    assert!(diagnosis.findings.iter().all(|finding| finding.rule() != "stale-logits"));
}

#[test]
fn the_failing_line_of_code_names_its_tensor() {
    assert!(diagnosis("optimizer-step").tensors[0].name.as_str().starts_with("exp_avg_sq."));
    assert_eq!(diagnosis("early-era-attention").tensors[0].name.as_str(), "h.*.attn.softmax");
}

#[test]
fn without_the_other_processes_the_rest_of_the_run_fits() {
    assert_eq!(diagnosis("foreign-process").next, None);
}

#[test]
fn the_json_has_the_documented_fields() {
    let (log, case) = read("estimate-loss-batch-64");
    let json = serde_json::to_value(diagnose(&log, &case)).unwrap();
    assert_eq!(json["kind"], "gpu-memory");
    assert_eq!(json["phase"], json!({"name": "evaluate", "certainty": "certain"}));
    for key in [
        "requested_bytes",
        "total_bytes",
        "free_bytes",
        "allocated_bytes",
        "reserved_bytes",
        "process_bytes",
        "foreign_bytes",
    ] {
        assert!(json["facts"][key].is_u64(), "{key}");
    }
    let tensor = &json["tensors"][0];
    assert_eq!(tensor["shape"], json!([65536, 50304]));
    assert_eq!(tensor["bytes"], 6_593_445_888_u64);
    assert_eq!((&tensor["name"], &tensor["dtype"]), (&json!("logits"), &json!("bfloat16")));
    assert_eq!(json["findings"][0]["rule"], "stale-logits");
    assert_eq!(json["findings"][0]["certainty"], "likely");
    assert!(json["findings"][0]["evidence"]["stale_bytes"].is_u64());
    assert!(json["findings"][0]["is_cause"].as_bool().unwrap());
    let fix = &json["fixes"][0];
    assert_eq!(fix["engine"], "torch");
    assert!(fix["changes"].as_object().is_some_and(|changes| !changes.is_empty()));
    assert!(fix["patches"].is_array());
    assert!(
        fix["command"].as_str().unwrap().contains("python train.py estimate-loss-batch-64.py ")
    );
    assert_eq!(json["domain"], "nanogpt");
    assert_eq!(json["account"]["held_bytes"], json["facts"]["allocated_bytes"]);
    assert!(json["advice"][0]["id"].is_string());
    assert!(json["do_next"]["command"].is_string());

    let calm = serde_json::to_value(diagnosis("calm")).unwrap();
    assert_eq!(calm["kind"], "none");
    assert_eq!(calm["facts"]["requested_bytes"], Value::Null);
    assert_eq!(calm["tensors"], json!([]));
}

#[test]
fn an_out_of_memory_word_alone_is_unknown() {
    let log = Log::read(b"my run went OOM again");
    let diagnosis = diagnose(&log, &Context::new());
    assert_eq!(diagnosis.kind, MemoryKind::Unknown);
    assert_eq!(causes(&diagnosis), [""; 0]);
    assert_eq!(diagnosis.findings[0].rule(), "undecided");
}

#[test]
fn a_question_is_asked_if_no_finding_is_conclusive() {
    let log = Log::read(b"my run went OOM again");
    assert!(diagnose(&log, &Context::new()).do_next.question.is_some());
    // Without a config, it is only an assumption that the number is logits.
    let (log, _) = read("rank-backward-rocm");
    assert!(diagnose(&log, &Context::new()).do_next.question.is_some());
    for name in ["calm", "shared-memory", "estimate-loss-batch-64"] {
        assert_eq!(diagnosis(name).do_next.question, None, "{name}");
    }
}
