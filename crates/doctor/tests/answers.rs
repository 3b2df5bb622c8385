//! What an answer consists of: evidence before causes, one list of steps, and commands that run the
//! user's own config. The logs are invented.

use fitgpt_config::MachineFacts;
use fitgpt_doctor::{
    Certainty, ClaimVerdict, Context, Diagnosis, MemoryKind, PhaseName, Remedy, StepName, diagnose,
    parse::Log,
};

fn of(log: &str) -> Diagnosis {
    diagnose(&Log::read(log.as_bytes()), &Context::new())
}

fn causes(diagnosis: &Diagnosis) -> Vec<(&'static str, Certainty)> {
    let causes = diagnosis.findings.iter().filter(|finding| finding.is_cause);
    causes.map(|finding| (finding.rule(), finding.certainty)).collect()
}

#[test]
fn out_of_memory_alone_is_no_evidence_of_a_large_batch() {
    for log in [
        "python train.py --epochs 10\nRuntimeError: CUDA out of memory.",
        "I fine-tune with the Trainer and get CUDA out of memory. What can I do?",
        "微调时显存不足怎么办？",
    ] {
        let diagnosis = of(log);
        assert_eq!(causes(&diagnosis), [], "{log}");
        assert_eq!(diagnosis.findings[0].rule(), "undecided", "{log}");
        assert_eq!(diagnosis.steps[0].id, StepName::Remedy(Remedy::RecordSnapshot), "{log}");
        assert!(diagnosis.do_next.question.is_some(), "{log}");
        assert!(diagnosis.steps.iter().any(|step| step.is_safe), "{log}");
    }
}

#[test]
fn the_state_of_a_known_model_is_reckoned_against_the_card() {
    let log = |method: &str, card: &str| {
        format!(
            "python tune.py --model models/Llama-2-7b-hf {method} on one {card}\nTraceback (most recent call last):\n  \
             File \"tune.py\", line 9, in train\n    optimizer.step()\ntorch.OutOfMemoryError: CUDA out of memory."
        )
    };
    let full = of(&log("--finetuning_type full", "A100 80GB"));
    assert_eq!(causes(&full)[0], ("static-state-too-large", Certainty::Likely));
    let budget = full.budget.unwrap();
    assert_eq!(budget.usual_bytes / budget.parameters, 16);
    assert!(budget.usual_bytes > budget.usable_bytes && budget.is_stated);
    // Adapters fit, and a card of 192 GB holds the state.
    let adapters = of(&log("--finetuning_type lora", "A100 80GB"));
    assert!(causes(&adapters).iter().all(|(rule, _)| *rule != "static-state-too-large"));
    let large = of(&log("--finetuning_type full", "MI300X"));
    assert!(causes(&large).iter().all(|(rule, _)| *rule != "static-state-too-large"));
}

#[test]
fn what_the_user_was_doing_is_a_phase_and_evidence() {
    for (log, phase, cause) in [
        ("FSDP: CUDA out of memory when saving the checkpoint", PhaseName::Save, "gather-on-save"),
        (
            "It trains, but resuming from a checkpoint gives CUDA out of memory",
            PhaseName::Resume,
            "checkpoint-on-device",
        ),
        (
            "Trainer: CUDA OOM during evaluation, only if compute_metrics is set",
            PhaseName::Evaluate,
            "evaluation-gathers-predictions",
        ),
    ] {
        let diagnosis = of(log);
        assert_eq!(diagnosis.phase.name, phase, "{log}");
        assert_eq!(causes(&diagnosis)[0].0, cause, "{log}");
    }
}

#[test]
fn growth_is_of_the_memory_that_is_named() {
    let gpu = of("During training the GPU memory keeps increasing until CUDA out of memory");
    assert_eq!((gpu.kind, causes(&gpu)[0].0), (MemoryKind::GpuMemory, "memory-grows"));
    let host = of("The RAM usage goes up constantly during training until it crashes");
    assert_eq!((host.kind, causes(&host)[0].0), (MemoryKind::HostMemory, "host-memory"));
}

#[test]
fn restated_numbers_count_and_contradictions_do_not() {
    let diagnosis =
        of("CUDA OOM\n- total: 24 GiB\n- free: 12 MiB\n- requested: 128 MiB\n- allocated: 22 GiB");
    let mib = |size: Option<fitgpt_doctor::parse::PrintedSize>| size.map(|size| size.bytes >> 20);
    let facts = diagnosis.facts;
    assert_eq!(
        [mib(facts.total), mib(facts.free), mib(facts.requested), mib(facts.allocated)],
        [Some(24 << 10), Some(12), Some(128), Some(22 << 10)]
    );
    // A total that was written as free must not become "capacity is not the cause".
    let wrong = of("CUDA OOM\n- total: 8 GiB\n- free: 24 GiB\n- requested: 128 MiB");
    assert_eq!(wrong.facts.free, None);
    assert!(causes(&wrong).iter().all(|(rule, _)| *rule != "free-exceeds-request"));
}

const MESSAGE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB. GPU 0 has a total capacity of 11.69 GiB \
    of which 300.00 MiB is free. Including non-PyTorch memory, this process has 11.30 GiB memory in use. Of the allocated memory \
    11.00 GiB is allocated by PyTorch, and 61.24 MiB is reserved by PyTorch but unallocated.";

fn nanogpt(frames: &str) -> String {
    format!(
        "number of parameters: 76.69M\nusing fused AdamW: True\nstep 0: train loss 10.9, val loss 10.9\n\
         Traceback (most recent call last):\n{frames}{MESSAGE}"
    )
}

/// Five logs of one nanoGPT run, as users paste them.
fn pasted() -> [String; 5] {
    [
        nanogpt("  File \"train.py\", line 301, in <module>\n    logits, loss = model(X, Y)\n"),
        nanogpt("  File \"train.py\", line 307, in <module>\n    scaler.scale(loss).backward()\n"),
        nanogpt("  File \"train.py\", line 270, in <module>\n    losses = estimate_loss()\n"),
        nanogpt("  File \"train.py\", line 312, in <module>\n    optimizer.step()\n"),
        format!("python train.py my_run.py\ncompiling the model...\n{MESSAGE}"),
    ]
}

#[test]
fn every_command_runs_the_users_config_and_next_is_the_first_step() {
    let mut context = Context::new();
    let config =
        "n_embd = 576\nbatch_size = 16\ngradient_accumulation_steps = 32\ndtype = 'float16'\n";
    context.read_config("config/my_run.py", config, &MachineFacts::default());
    for log in pasted() {
        let diagnosis = diagnose(&Log::read(log.as_bytes()), &context);
        let first = diagnosis.steps.first().unwrap();
        assert_eq!(diagnosis.do_next.command, first.command, "{log}");
        assert!(first.command.is_some(), "{log}");
        for step in &diagnosis.steps {
            let is_own = step.command.as_ref().is_none_or(|line| line.contains("config/my_run.py"));
            assert!(is_own, "{step:?}");
        }
    }
}

#[test]
fn flags_complete_the_command_that_the_log_quotes() {
    let diagnosis = of(
        "python tune.py --model gpt2 --per_device_train_batch_size 8\nTraceback (most recent call last):\n  \
         File \"/lib/transformers/trainer.py\", line 2001, in training_step\n    loss.backward()\n\
         torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB (GPU 0; 10.00 GiB total capacity; 9.50 GiB \
         already allocated; 10.00 MiB free; 9.60 GiB reserved in total by PyTorch)",
    );
    let command = diagnosis.steps[0].command.as_deref().unwrap();
    assert!(
        command.starts_with("python tune.py --model gpt2 --per_device_train_batch_size 4"),
        "{command}"
    );
}

#[test]
fn advice_is_checked_claim_by_claim_with_the_plans_figures() {
    let note = "# How to fix the OOM\n**Option 1 (recommended)**\neval_batch_size = 4\n**Option 2**\ncompile = False is a quick fix\n\
        eval_iters = 50 is another solution\nThe KV cache takes 1.6 GB.\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    let mut context = Context::new();
    context.read_config("run.py", "batch_size = 16\nn_embd = 576\n", &MachineFacts::default());
    let diagnosis = diagnose(&Log::read(note.as_bytes()), &context);
    assert_eq!(diagnosis.kind, MemoryKind::None);
    let verdict = |id: &str| {
        let claim = diagnosis.claims.iter().find(|checked| checked.claim.id() == id);
        claim.map(|checked| checked.verdict)
    };
    assert_eq!(verdict("eval_iters"), Some(ClaimVerdict::False));
    assert_eq!(verdict("kv_cache"), Some(ClaimVerdict::False));
    assert_eq!(verdict("expandable_segments"), Some(ClaimVerdict::OnlyIf));
    let evaluation = diagnosis.claims.iter().find(|c| c.claim.id() == "eval_batch_size").unwrap();
    assert!(evaluation.after_bytes.unwrap() * 3 < evaluation.before_bytes.unwrap());
}

#[test]
fn nanochats_loss_is_not_shifted_again() {
    let diagnosis = of(
        "python -m scripts.base_train --depth=8 --device-batch-size=8\nVocab size: 65,536\n\
         buf5 = empty_strided_cuda((16384, 65536), (65536, 1), torch.float32)\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which \
         2.77 GiB is free.",
    );
    assert_eq!(causes(&diagnosis)[0].0, "logits-at-the-peak");
    let lines: Vec<&String> = diagnosis.advice.iter().flat_map(|advice| &advice.commands).collect();
    assert!(lines.iter().any(|line| line.contains("linear_cross_entropy")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("shift=1")), "{lines:?}");
    let smaller =
        diagnosis.steps.iter().find(|s| s.id == StepName::Remedy(Remedy::SmallerMicroBatch));
    let command = smaller.unwrap().command.as_deref().unwrap();
    assert!(command.contains("--device-batch-size=4"), "{command}");
}
