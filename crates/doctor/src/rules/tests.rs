//! Every rule on a log that it sees, and on one that it must leave alone.

use proptest::prelude::*;

use super::RULES;
use crate::{Case, Diagnosis, diagnose, no_fixes, parse::Log};

const SMALL: &str = "batch_size = 4\ncompile = False\ndtype = 'bfloat16'";

fn diagnosis(log: &str, config: &str) -> Diagnosis {
    let mut case = Case::new();
    if !config.is_empty() {
        case.read_config("config.py", config, &fitgpt_plan::config::Facts::default());
    }
    diagnose(&Log::read(log.as_bytes()), &case, &no_fixes)
}

/// PyTorch's message with these numbers.
fn message(asked: &str, total: &str, free: &str, process: &str, held: &str, rest: &str) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of \
         {total} of which {free} is free. Including non-PyTorch memory, this process has {process} memory in use. \
         Of the allocated memory {held} is allocated by PyTorch, and {rest} is reserved by PyTorch but unallocated."
    )
}

/// Full to the brim, and nobody else there.
fn full(asked: &str) -> String {
    message(asked, "11.69 GiB", "100.00 MiB", "11.50 GiB", "11.10 GiB", "10.00 MiB")
}

fn at(code: &str, message: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"train.py\", line 300, in <module>\n    {code}\n{message}\n"
    )
}

const FORWARD: &str = "logits, loss = model(X, Y)";

/// Rule; log and config where it fires; log and config where it does not.
fn table() -> Vec<(&'static str, String, &'static str, String, &'static str)> {
    let stale = message("6.14 GiB", "11.69 GiB", "2.68 GiB", "7.04 GiB", "6.78 GiB", "61.24 MiB");
    let fresh = message("6.14 GiB", "7.79 GiB", "6.04 GiB", "0.96 GiB", "0.64 GiB", "61.24 MiB");
    let large = "batch_size = 64\ndtype = 'bfloat16'";
    let evaluation = |message: &str| at("losses = estimate_loss()", message);
    let unfused = "batch_size = 8\ncompile = False\ndtype = 'float32'";
    let slow = "WARNING: using slow attention. Flash Attention requires PyTorch >= 2.0\n";
    let xl = "init_from = 'gpt2-xl'\nbatch_size = 1\ncompile = False";
    let killed = "writing train.bin:  63%\nKilled".to_owned();
    let triton = "out of resource: shared memory, Required: 98304, Hardware limit: 65536.";
    let foreign = |free: &str, process: &str| {
        message("786.00 MiB", "11.69 GiB", free, process, "2.90 GiB", "10.00 MiB")
    };
    vec![
        ("host-memory", killed, "", full("786.00 MiB"), SMALL),
        ("shared-memory", triton.into(), "", format!("{triton}\n{}", full("786.00 MiB")), SMALL),
        ("invalid-config", full("786.00 MiB"), "n_embd = 512", full("786.00 MiB"), "n_embd = 576"),
        (
            "hidden-by-compiler",
            format!(
                "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n{}",
                full("6.14 GiB")
            ),
            large,
            full("6.14 GiB"),
            large,
        ),
        (
            "foreign-memory",
            at(FORWARD, &foreign("300.00 MiB", "3.20 GiB")),
            SMALL,
            at(FORWARD, &full("786.00 MiB")),
            SMALL,
        ),
        ("free-exceeds-request", foreign("1.00 GiB", "3.20 GiB"), SMALL, full("786.00 MiB"), SMALL),
        ("request-larger-than-card", full("12.28 GiB"), "", full("6.14 GiB"), ""),
        ("static-state-too-large", full("100.00 MiB"), xl, full("786.00 MiB"), SMALL),
        (
            "fragmentation",
            message(
                "786.00 MiB",
                "11.69 GiB",
                "100.00 MiB",
                "11.50 GiB",
                "10.20 GiB",
                "910.00 MiB",
            ),
            SMALL,
            message(
                "786.00 MiB",
                "11.69 GiB",
                "100.00 MiB",
                "11.50 GiB",
                "10.90 GiB",
                "224.90 MiB",
            ),
            SMALL,
        ),
        (
            "checkpoint-on-device",
            at("checkpoint = torch.load(ckpt_path, map_location=device)", &full("148.00 MiB")),
            SMALL,
            at("model.to(device)", &full("148.00 MiB")),
            SMALL,
        ),
        (
            "optimizer-temporaries",
            at("optimizer.step()", &full("148.00 MiB")),
            SMALL,
            at("loss.backward()", &full("148.00 MiB")),
            SMALL,
        ),
        ("stale-logits", evaluation(&stale), large, evaluation(&fresh), large),
        ("logits-at-the-peak", full("786.00 MiB"), SMALL, full("48.00 MiB"), SMALL),
        (
            "evaluation-uses-training-batch",
            evaluation(&stale),
            large,
            evaluation(&stale),
            "batch_size = 64\neval_batch_size = 4\ndtype = 'bfloat16'",
        ),
        (
            "attention-scores",
            format!("{slow}{}", full("384.00 MiB")),
            unfused,
            full("786.00 MiB"),
            SMALL,
        ),
        ("mlp-activation", full("24.00 MiB"), SMALL, full("786.00 MiB"), SMALL),
        ("weight-shaped", full("148.00 MiB"), SMALL, full("786.00 MiB"), SMALL),
        ("no-shape-in-request", full("20.00 MiB"), SMALL, full("22.00 MiB"), SMALL),
        ("no-match", full("777.00 MiB"), SMALL, full("786.00 MiB"), SMALL),
    ]
}

#[test]
fn every_rule_fires_where_it_should_and_only_there() {
    let table = table();
    for (rule, log, config, other, other_config) in &table {
        let fires = |log: &str, config: &str| {
            diagnosis(log, config).findings.iter().any(|finding| finding.rule == *rule)
        };
        assert!(fires(log, config), "{rule} does not see its log: {:#?}", diagnosis(log, config));
        assert!(!fires(other, other_config), "{rule} fires beside its case");
    }
    for rule in &RULES {
        assert!(table.iter().any(|(name, ..)| *name == rule.name), "{} has no log", rule.name);
    }
}

#[test]
fn foreign_memory_is_the_cause_only_if_it_would_have_held_the_request() {
    let of = |log: &str, config: &str| {
        let found = diagnosis(log, config);
        let finding = found.findings.into_iter().find(|f| f.rule == "foreign-memory");
        finding.map(|finding| finding.is_cause)
    };
    let small =
        message("786.00 MiB", "11.69 GiB", "300.00 MiB", "3.20 GiB", "2.90 GiB", "10.00 MiB");
    assert_eq!(of(&at(FORWARD, &small), SMALL), Some(true));
    let large = message("6.14 GiB", "11.69 GiB", "2.68 GiB", "7.04 GiB", "6.78 GiB", "61.24 MiB");
    assert_eq!(of(&large, "batch_size = 64"), Some(false)); // 1.97 + 2.68 < 6.14
    // A step that is too large for the whole card.
    assert_eq!(of(&at(FORWARD, &small), "batch_size = 32\ncompile = False"), Some(false));
}

#[test]
fn ties_are_listed_and_not_guessed() {
    // GPT-2 medium: logits of one sequence are as large as `wte`.
    let config = "n_layer = 24\nn_head = 16\nn_embd = 1024\nbatch_size = 1\ncompile = False";
    let diagnosis = diagnosis(&full("198.00 MiB"), config);
    let rules: Vec<_> = diagnosis.findings.iter().map(|finding| finding.rule).collect();
    assert!(rules.contains(&"logits-at-the-peak") && rules.contains(&"weight-shaped"), "{rules:?}");
    assert!(diagnosis.tensors.iter().any(|tensor| tensor.name == "wte.weight"));
}

#[test]
fn without_a_config_a_common_run_is_supposed_and_said_so() {
    let diagnosis = diagnosis(&full("6.14 GiB"), "");
    let best = &diagnosis.tensors[0];
    assert_eq!((best.name.as_str(), best.shape.as_slice()), ("logits", &[32768, 50304][..]));
    assert!(diagnosis.tensors.iter().any(|t| t.shape == [65536, 50304] && t.dtype == "bfloat16"));
    assert!(diagnosis.tensors.iter().all(|tensor| tensor.supposing.is_some()));
    assert_eq!(diagnosis.findings[0].rule, "logits-at-the-peak");
    assert_eq!(diagnosis.findings[0].certainty, crate::Certainty::Unknown);
}

proptest! {
    /// Numbers that no card has and configs that no machine runs: an answer all the same.
    #[test]
    fn any_numbers_and_any_config_end_in_a_diagnosis(
        sizes in proptest::collection::vec((0_u64..1 << 40, 0_u32..100, 0_usize..5), 6),
        keys in proptest::collection::vec((0_usize..7, any::<u32>(), 0_u32..32), 0..5),
        code in 0_usize..6,
    ) {
        let size = |i: usize| {
            let (whole, hundredths, unit) = sizes[i];
            format!("{whole}.{hundredths:02} {}", ["GiB", "MiB", "KiB", "bytes", "GB"][unit])
        };
        let message = message(&size(0), &size(1), &size(2), &size(3), &size(4), &size(5));
        let code = [FORWARD, "estimate_loss()", "loss.backward()", "optimizer.step()", "torch.load(f)", ""][code];
        let names = ["batch_size", "block_size", "n_layer", "n_head", "n_embd", "vocab_size", "gradient_accumulation_steps"];
        let mut log = String::new();
        for (name, value, shift) in keys {
            log.extend(["Overriding: ", names[name], " = ", &(value >> shift).to_string(), "\n"]);
        }
        log.push_str(&at(code, &message));
        let diagnosis = diagnosis(&log, "");
        prop_assert!(serde_json::to_string(&diagnosis).is_ok());
    }

    #[test]
    fn any_cut_of_a_real_log_ends_in_a_diagnosis(from in 0_usize..4000, length in 0_usize..4000) {
        let log = include_str!("../../../../examples/estimate-loss-batch-64.log");
        let text: String = log.chars().skip(from).take(length).collect();
        let diagnosis = diagnosis(&text, "batch_size = 64");
        prop_assert!(serde_json::to_string(&diagnosis).is_ok());
    }
}
