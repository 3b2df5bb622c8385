//! Every rule on a log that it applies to and on one that it does not.

use proptest::prelude::*;

use super::RULES;
use crate::{Cause, Context, Diagnosis, Domain, diagnose, parse::Log};

const SMALL: &str = "batch_size = 4\ncompile = False\ndtype = 'bfloat16'";

fn diagnosis(log: &str, config: &str) -> Diagnosis {
    let mut case = Context::new();
    if !config.is_empty() {
        case.read_config("config.py", config, &fitgpt_config::MachineFacts::default());
    }
    diagnose(&Log::read(log.as_bytes()), &case)
}

/// PyTorch's message with these numbers.
fn message(asked: &str, total: &str, free: &str, process: &str, held: &str, rest: &str) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of \
         {total} of which {free} is free. Including non-PyTorch memory, this process has {process} memory in use. \
         Of the allocated memory {held} is allocated by PyTorch, and {rest} is reserved by PyTorch but unallocated."
    )
}

/// A full card without other processes.
fn full(asked: &str) -> String {
    message(asked, "11.69 GiB", "100.00 MiB", "11.50 GiB", "10.70 GiB", "10.00 MiB")
}

fn at(code: &str, message: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"train.py\", line 300, in <module>\n    {code}\n{message}\n"
    )
}

const FORWARD: &str = "logits, loss = model(X, Y)";

/// Rule; log and config to which it applies; log and config to which it does not.
#[expect(clippy::too_many_lines, reason = "a table: two logs for every rule")]
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
    let server = "vLLM ValueError: Free memory on device (67.24/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, 71.33 GiB).";
    let saving = |stack: &str| {
        let message = full("786.00 MiB");
        format!(
            "{stack}Traceback (most recent call last):\n  File \"t.py\", line 3, in save_checkpoint\n    state = model.state_dict()\n{message}"
        )
    };
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
                "10.00 GiB",
                "1.25 GiB",
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
        (
            "paging-file",
            "OSError: [WinError 1455] The paging file is too small".into(),
            "",
            "OSError: [WinError 126] The module could not be found. Killed".into(),
            "",
        ),
        (
            "dev-shm",
            "RuntimeError: worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.".into(),
            "",
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.".into(),
            "",
        ),
        (
            "not-memory",
            "RuntimeError: CUDA error: device-side assert triggered".into(),
            "",
            format!("device-side assert triggered\n{}", full("786.00 MiB")),
            "",
        ),
        (
            "device-side-error",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`".into(),
            "",
            full("786.00 MiB"),
            "",
        ),
        (
            "unified-memory-limit",
            "MPS backend out of memory (MPS allocated: 7.43 GB, other allocations: 4.46 GB, max allowed: 12.00 GB). Tried to allocate 129.21 MB on private pool.".into(),
            "",
            full("130.00 MiB"),
            "",
        ),
        (
            "kv-cache",
            "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, which is larger than the available KV cache memory (2.50 GiB). vllm".into(),
            "",
            server.into(),
            "",
        ),
        ("server-reservation", server.into(), "", format!("vllm\n{}", full("786.00 MiB")), ""),
        (
            "spilled-to-host",
            message("786.00 MiB", "8.00 GiB", "0 bytes", "11.50 GiB", "11.10 GiB", "10.00 MiB"),
            "",
            full("786.00 MiB"),
            "",
        ),
        (
            "evaluation-gathers-predictions",
            at("preds_host = nested_concat(preds_host, logits)", &full("786.00 MiB")),
            "",
            at("logits = model(inputs)", &full("786.00 MiB")),
            "",
        ),
        ("gather-on-save", saving("FSDP\n"), "", at("loss.backward()", &full("786.00 MiB")), ""),
        (
            "flat-copy",
            format!("fine-tuning llama-7b\n{}", message("25.10 GiB", "79.15 GiB", "15.26 GiB", "63.00 GiB", "62.79 GiB", "1.00 MiB")),
            "",
            format!("fine-tuning llama-7b\n{}", message("24.10 GiB", "79.15 GiB", "15.26 GiB", "63.00 GiB", "62.79 GiB", "1.00 MiB")),
            "",
        ),
        (
            "communicator-buffers",
            at("model = DistributedDataParallel(model)", &full("786.00 MiB")),
            "",
            at("loss.backward()", &full("786.00 MiB")),
            "",
        ),
        (
            "weights-too-large",
            at("model = AutoModel.from_pretrained(name).cuda()", &full("86.00 MiB")),
            "",
            at("loss.backward()", &full("86.00 MiB")),
            "",
        ),
        (
            "memory-grows",
            "while it trains, memory keeps growing: CUDA out of memory".to_owned(),
            "",
            "while it trains: CUDA out of memory".to_owned(),
            "",
        ),
        (
            "undecided",
            "python train.py --epochs 3: CUDA out of memory".to_owned(),
            "",
            at("loss.backward()", &full("86.00 MiB")),
            "",
        ),
        (
            "batch-too-large",
            format!("yolo\n{}", at("loss.backward()", &full("86.00 MiB"))),
            "",
            at("model = AutoModel.from_pretrained(name).cuda()", &full("86.00 MiB")),
            "",
        ),
    ]
}

#[test]
fn every_rule_applies_only_where_it_should() {
    let table = table();
    for (rule, log, config, other, other_config) in &table {
        let fires = |log: &str, config: &str| {
            diagnosis(log, config).findings.iter().any(|finding| finding.rule() == *rule)
        };
        assert!(fires(log, config), "{rule} does not see its log: {:#?}", diagnosis(log, config));
        assert!(!fires(other, other_config), "{rule} fires on another case");
    }
    for rule in &RULES {
        assert!(table.iter().any(|(name, ..)| *name == rule.name), "{} has no log", rule.name);
    }
}

#[test]
fn foreign_memory_is_the_cause_only_if_the_request_would_have_fit() {
    let of = |log: &str, config: &str| {
        let found = diagnosis(log, config);
        let finding = found.findings.into_iter().find(|f| f.rule() == "foreign-memory");
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
fn all_tensors_of_the_requested_size_are_listed() {
    // GPT-2 medium: logits of one sequence are as large as `wte`.
    let config = "n_layer = 24\nn_head = 16\nn_embd = 1024\nbatch_size = 1\ncompile = False";
    let diagnosis = diagnosis(&full("198.00 MiB"), config);
    let rules: Vec<_> = diagnosis.findings.iter().map(crate::Finding::rule).collect();
    assert!(rules.contains(&"logits-at-the-peak") && rules.contains(&"weight-shaped"), "{rules:?}");
    assert!(diagnosis.tensors.iter().any(|tensor| tensor.name.as_str() == "wte.weight"));
}

#[test]
fn without_a_config_a_common_run_is_assumed_and_marked_as_such() {
    let diagnosis = diagnosis(&format!("gpt2\n{}", full("6.14 GiB")), "");
    let best = &diagnosis.tensors[0];
    assert_eq!((best.name.as_str(), best.shape.as_slice()), ("logits", &[32768, 50304][..]));
    assert!(diagnosis.tensors.iter().any(|t| t.shape == [65536, 50304] && t.dtype == "bfloat16"));
    assert!(diagnosis.tensors.iter().all(|tensor| tensor.supposing.is_some()));
    assert_eq!(diagnosis.findings[0].rule(), "logits-at-the-peak");
    assert_eq!(diagnosis.findings[0].certainty, crate::Certainty::Unknown);
}

#[test]
fn no_gpt2_tensor_is_named_for_another_model() {
    let listed = |log: &str| !diagnosis(log, "").tensors.is_empty();
    let asked = full("6.14 GiB");
    // Without any mention of GPT-2, a number identifies no tensor.
    assert!(!listed(&asked));
    assert!(listed(&format!("GPT-2\n{asked}")));
    for other in ["Stable Diffusion on my laptop", "vllm serve gpt2", "yolo train.py", "ComfyUI"] {
        assert!(!listed(&format!("{other}\n{asked}")), "{other}");
    }
    let stranger = at("y = net(x)", &asked);
    assert!(!listed(&stranger));
    assert!(listed(&format!("GPT-2\n{stranger}")));
}

#[test]
fn assumed_tensors_other_than_logits_have_their_own_rule() {
    let diagnosis = diagnosis(&format!("fine-tuning gpt2\n{}", full("384.00 MiB")), "");
    let finding = &diagnosis.findings[0];
    assert!(finding.is_cause);
    let is_attention = |f: &&crate::Finding| f.rule() == "attention-scores";
    let finding = diagnosis.findings.iter().find(is_attention).unwrap();
    assert_eq!(finding.certainty, crate::Certainty::Unknown);
    let Cause::AttentionScores { asked } = &finding.cause else { panic!("{finding:?}") };
    assert_eq!(asked.supposing.unwrap().model, "gpt2");
}

#[test]
fn a_host_request_is_not_matched_with_gpu_tensors() {
    let log =
        "gpt2: DefaultCPUAllocator: can't allocate memory: you tried to allocate 268435456 bytes.";
    assert_eq!(diagnosis(log, "").tensors, []);
}

#[test]
fn a_shape_that_the_message_prints_needs_no_config() {
    let of = |shape: &str, node: &str| {
        diagnosis(
            &format!(
                "OOM when allocating tensor with shape[{shape}] and type float on device:GPU:0\n\
                 [[node {node} (defined at net.py:7)]]"
            ),
            "",
        )
    };
    let scores = of("2,16,1024,1024", "encoder/layer_3/attention/Softmax");
    assert_eq!(scores.tensors[0].shape, [2, 16, 1024, 1024]);
    for (shape, node, rule) in [
        ("2,16,1024,1024", "encoder/layer_3/attention/Softmax", "attention-scores"),
        // An image has the same form.
        ("2,16,1024,1024", "up1/add", "batch-too-large"),
        ("64,2016,9,9", "cell_12/AvgPool", "batch-too-large"),
        ("2048,50257", "add", "logits-at-the-peak"),
        ("25000,30522", "embeddings/one_hot", "batch-too-large"),
        ("50257,768", "add", "weight-shaped"),
        ("900,512", "embeddings/Adam/Initializer/zeros", "weight-shaped"),
        ("3200,3072", "layer_1/intermediate/dense/MatMul", "mlp-activation"),
        ("2048,4096", "gradients/lstm/MatMul_grad/MatMul_1", "weight-shaped"),
        ("4096,4096", "gradients/rnn/gates/MatMul/Enter_grad/Add", "weight-shaped"),
        ("512,90001", "decoder/output_projection/MatMul", "logits-at-the-peak"),
        ("77,13", "add", "batch-too-large"),
    ] {
        let first = &of(shape, node).findings[0];
        assert_eq!(first.rule(), rule, "{shape} {node}");
        let is_named = rule != "batch-too-large";
        assert_eq!(first.certainty == crate::Certainty::Certain, is_named, "{shape} {node}");
    }
    // Patches and a class token; and a kernel of a convolution. Their form is all there is.
    for (shape, node, rule) in [
        ("8,12,577,577", "x", "attention-scores"),
        ("5,5,256,512", "x", "weight-shaped"),
        ("64,32,3,3", "conv_2/convolution", "weight-shaped"),
        ("768,768", "bert/x", "weight-shaped"),
    ] {
        let first = &of(shape, node).findings[0];
        assert_eq!((first.rule(), first.certainty), (rule, crate::Certainty::Likely), "{shape}");
    }
}

#[test]
fn a_shape_of_generated_code_is_compared_with_the_named_model() {
    use crate::Role;
    let of = |shape: &str, setup: &str| {
        let axes: Vec<u64> = shape.split(", ").map(|axis| axis.parse().unwrap()).collect();
        let mib = (axes.iter().product::<u64>() * 2) >> 20;
        let log = format!(
            "{setup}\n  File \"/tmp/torchinductor_a/b/c.py\", line 5, in call\n    buf1 = \
             empty_strided_cuda(({shape}), (1, 1), torch.bfloat16)\n\
             torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {mib}.00 MiB."
        );
        let found = diagnosis(&log, "");
        (found.tensors[0].role, found.findings[0].rule())
    };
    let llama = "training meta-llama/Llama-3.1-8B";
    assert_eq!(of("4, 4096, 14336", llama), (Role::Mlp, "mlp-activation"));
    assert_eq!(of("8192, 128256", llama), (Role::Logits, "logits-at-the-peak"));
    assert_eq!(of("14336, 4096", llama), (Role::Weight, "weight-shaped"));
    let nanochat = "torchrun -m scripts.base_train -- --depth=20 --device-batch-size=16";
    assert_eq!(of("32768, 65536", nanochat), (Role::Logits, "logits-at-the-peak"));
    let printed = format!("{nanochat}\nVocab size: 65,536\nnum_layers: 20\nmodel_dim: 1280");
    assert_eq!(of("32768, 5120", &printed), (Role::Mlp, "mlp-activation"));
    assert_eq!(of("65536, 1280", &printed), (Role::Weight, "weight-shaped"));
}

#[test]
fn the_largest_buffer_of_a_compiled_program_is_named_as_such() {
    let log = "trainer.train(state)\nRESOURCE_EXHAUSTED: Out of memory while trying to allocate 9460300800 bytes.\n\
        Peak buffers:\n\tBuffer 1:\n\t\tSize: 256.00MiB\n\t\tOperator: op_name=\"pjit(step)/encoder/attention/bqhd,bkhd->bhqk/dot\"\n\
        \t\tShape: bf16[64,8,512,512]\n\t\t==========\n\tBuffer 2:\n\t\tShape: f32[64,512,64]";
    let found = diagnosis(log, "");
    assert_eq!(found.tensors[0].shape, [64, 8, 512, 512]);
    let Cause::AttentionScores { asked } = &found.findings[0].cause else { panic!("{found:?}") };
    assert_eq!(asked.requested_bytes, None);
    assert_eq!(found.findings[0].certainty, crate::Certainty::Likely);
}

#[test]
fn assumed_defaults_are_marked_as_such() {
    let forward = at(FORWARD, &full("2.30 GiB")); // 12 x 1024 x 50304 float32
    let silent = diagnosis(&format!("step 0: train loss 10.9, val loss 10.9\n{forward}"), "");
    let supposing = silent.supposing.unwrap();
    assert_eq!((supposing.model, supposing.batch_size), ("nanoGPT's defaults", 12));
    assert!(silent.tensors.iter().all(|tensor| tensor.supposing.is_some()));
    let logits = silent.findings.iter().find(|f| f.rule() == "logits-at-the-peak").unwrap();
    assert_eq!(logits.certainty, crate::Certainty::Unknown);
    assert_eq!(silent.do_next.question, Some(crate::Question::Config));

    let lines = "tokens per iteration will be: 491,520\nnumber of parameters: 123.59M\n";
    let with_lines = diagnosis(&format!("{lines}{forward}"), "");
    assert_eq!(with_lines.supposing, None);
    assert!(with_lines.tensors.iter().all(|tensor| tensor.supposing.is_none()));

    // The output of the script contradicts the defaults.
    let other = diagnosis(&format!("number of parameters: 10.65M\n{forward}"), "");
    assert_eq!(other.supposing, None);
    assert!(other.tensors.iter().all(|tensor| tensor.supposing.is_some()));
}

#[test]
fn what_looks_like_a_memory_error_and_is_none_is_named() {
    use crate::OtherFailure;
    let failure = |log: &str| {
        let found = diagnosis(log, "");
        assert_eq!(found.kind, crate::MemoryKind::None, "{log}");
        assert!(!found.advice.is_empty(), "{log}");
        match &found.findings[0].cause {
            Cause::NotMemory { failure, .. } => *failure,
            other => panic!("{log}: {other:?}"),
        }
    };
    let metal =
        "Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)";
    assert_eq!(failure(metal), OtherFailure::Watchdog);
    let worker = "DataLoader worker (pid 7) is killed by signal: Segmentation fault.";
    assert_eq!(failure(worker), OtherFailure::WorkerCrashed);
}

#[test]
fn a_request_that_no_card_can_hold_needs_no_card() {
    let causes = |asked: &str| -> Vec<_> {
        let log = format!("trainer.fit(model)\nIt tried to allocate {asked} on the GPU");
        let found = diagnosis(&log, "").findings.into_iter();
        found.filter(|f| f.is_cause).map(|f| f.rule()).collect()
    };
    assert_eq!(causes("90210.55 GiB")[0], "request-larger-than-card");
    assert!(!causes("90.55 GiB").contains(&"request-larger-than-card"));
}

#[test]
fn host_memory_is_recognized_in_prose() {
    use crate::MemoryKind::{HostMemory, None};
    let kind = |log: &str| diagnosis(log, "").kind;
    assert_eq!(kind("the notebook ran out of RAM while reading the file"), HostMemory);
    assert_eq!(kind("RAM crashed again, OOM"), HostMemory);
    assert_ne!(kind("my program is full of parameters"), HostMemory);
    assert_eq!(kind("I have 64 GB of RAM and it works"), None);
    // VRAM is the card's.
    assert_ne!(kind("it runs out of VRAM: OOM"), HostMemory);
}

#[test]
fn a_square_image_is_not_attention() {
    let log = |words: &str| {
        format!(
            "{words} epoch 1\nOOM when allocating tensor with shape[250,64,128,128] and type float on device:GPU:0"
        )
    };
    let first = |words: &str| diagnosis(&log(words), "").findings[0].rule();
    assert_eq!(first("[[node batch_normalization/FusedBatchNorm]] model.fit("), "batch-too-large");
    assert_eq!(first("gpt-2 model.fit("), "attention-scores");
}

#[test]
fn a_question_is_asked_only_if_a_fact_is_missing() {
    use crate::Question;
    let asked = |log: &str, config: &str| diagnosis(log, config).do_next.question;
    assert_eq!(asked("CUDA out of memory.", ""), Some(Question::WhichProgram));
    assert_eq!(asked("Killed", ""), Some(Question::KernelLog));
    assert_eq!(asked("[WinError 1455] The paging file is too small", ""), None);
    assert_eq!(asked(&at(FORWARD, &full("786.00 MiB")), SMALL), None);
}

#[test]
fn every_failure_ends_in_advice_and_a_next_step() {
    for (rule, log, config, ..) in table() {
        let diagnosis = diagnosis(&log, config);
        if rule == "not-memory" || diagnosis.kind != crate::MemoryKind::None {
            let next = &diagnosis.do_next;
            assert!(next.command.is_some() || next.question.is_some(), "{rule}");
            assert!(!diagnosis.advice.is_empty() || !diagnosis.fixes.is_empty(), "{rule}");
        }
        assert!(diagnosis.fixes.iter().all(|fix| !fix.changes.is_empty()), "{rule}");
    }
}

#[test]
fn compiled_nanogpt_is_first_told_to_return_the_loss_alone() {
    let log = at("scaler.scale(loss).backward()", &full("1.53 GiB"));
    let of = |config: &str| diagnosis(&log, config);
    let compiled = of("batch_size = 16\ngradient_accumulation_steps = 32");
    assert_eq!(compiled.advice[0].id, crate::Remedy::LossAlone, "{:?}", compiled.advice);
    // nanoGPT has no key for it and refuses unknown keys.
    let command = "fitgpt patch . --apply --only loss-alone && python train.py config.py";
    assert_eq!(compiled.do_next.command.as_deref(), Some(command));
    for config in ["compile = False", "loss_alone = True", "loss_chunk_rows = 512"] {
        let other = of(&format!("batch_size = 16\n{config}"));
        assert!(other.advice.iter().all(|a| a.id != crate::Remedy::LossAlone), "{config}");
    }
}

#[test]
fn a_run_that_holds_more_than_its_plan_is_a_different_run() {
    // 12 x 1024 of GPT-2 hold 13 GiB at most; the log holds 41.
    let log =
        message("786.00 MiB", "44.35 GiB", "100.00 MiB", "44.00 GiB", "41.74 GiB", "10.00 MiB");
    let diagnosis = diagnosis(&at(FORWARD, &log), "batch_size = 12");
    assert_eq!(diagnosis.fixes, []);
    let found = diagnosis.findings.iter().find(|f| f.rule() == "no-match").unwrap();
    let Cause::NoMatch { planned_bytes, .. } = found.cause else { panic!("{found:?}") };
    assert!(planned_bytes.is_some_and(|bytes| bytes < 35 << 30));
}

#[test]
fn a_request_that_matches_no_tensor_of_a_named_model_is_reported_with_its_name() {
    let model_in = |log: String| {
        let diagnosis = diagnosis(&log, "");
        let found = diagnosis.findings.into_iter().find(|f| f.rule() == "no-match").unwrap();
        let Cause::NoMatch { model, has_config: false, .. } = found.cause else { panic!() };
        model
    };
    let trainer = "trainer.train()\nper_device_train_batch_size=8\n";
    let named = format!("{trainer}from_pretrained(\"Qwen/Qwen2.5-0.5B\")\n{}", full("1.96 GiB"));
    assert_eq!(model_in(named).as_deref(), Some("Qwen2.5-0.5B"));
    assert_eq!(model_in(format!("{trainer}{}", full("1.96 GiB"))), None);
}

#[test]
fn the_domain_is_recognized() {
    let of = |log: &str| diagnosis(&format!("{log}\n{}", full("786.00 MiB")), "").domain;
    assert_eq!(
        of("number of parameters: 123.59M\nstep 0: train loss 1.0, val loss 1.0"),
        Domain::NanoGpt
    );
    assert_eq!(of("python run_clm.py --model_name_or_path gpt2"), Domain::DecoderTraining);
    assert_eq!(of("python train.py --data coco.data --cfg yolov3.cfg"), Domain::OtherTraining);
    assert_eq!(of("vllm serve mistral-7b"), Domain::Serving);
    assert_eq!(of("output = llama.generate(prompt)"), Domain::Inference);
    assert_eq!(of("it stopped"), Domain::Unknown);
    assert_eq!(diagnosis("all is well", "").domain, Domain::None);
}

#[test]
fn fixes_are_computed_for_the_run_that_was_diagnosed() {
    // Unfused attention of an old PyTorch: only it allocates these scores.
    let slow = "WARNING: using slow attention. Flash Attention requires PyTorch >= 2.0\n";
    let config =
        "batch_size = 16\ncompile = False\ndtype = 'float32'\ngradient_accumulation_steps = 4";
    let log = format!("{slow}{}", at(FORWARD, &full("768.00 MiB")));
    let found = diagnosis(&log, config);
    let fix = found.fixes.iter().find(|fix| fix.fits).unwrap();
    assert!(fix.command.contains("python train.py config.py --"), "{}", fix.command);
    for fix in &found.fixes {
        assert_eq!(fix.command.contains("fitgpt patch"), !fix.patches.is_empty());
    }
    // The fused kernel would allow a larger micro-batch.
    let fused = diagnosis(&at(FORWARD, &full("768.00 MiB")), config);
    assert_ne!(found.fixes, fused.fixes);
}

#[test]
fn a_card_on_which_a_minimal_request_failed_is_full_not_fragmented() {
    let log = |asked| message(asked, "7.79 GiB", "10.00 MiB", "7.60 GiB", "6.40 GiB", "820.00 MiB");
    let cause = |asked| {
        let found = diagnosis(&log(asked), "").findings.into_iter();
        found.filter(|f| f.rule() == "fragmentation").map(|f| f.is_cause).next()
    };
    assert_eq!(cause("20.00 MiB"), Some(false));
    assert_eq!(cause("58.00 MiB"), Some(true));
}

#[test]
fn huge_numbers_do_not_overflow() {
    for lines in [
        "number of parameters: 18446744073709551.61M",
        "number of parameters: 184467440737095516.15M",
        "tokens per iteration will be: 18446744073709551615",
        "iter 18446744073709551615: loss 1.0\nstep 18446744073709551615: train loss 1.0",
        "found vocab_size = 4294967295",
    ] {
        let diagnosis = diagnosis(&format!("gpt2\n{lines}\n{}", full("6.14 GiB")), "");
        assert_eq!(diagnosis.kind, crate::MemoryKind::GpuMemory, "{lines}");
    }
}

#[test]
fn the_last_free_pages_do_not_count_as_free() {
    let log = |free: &str| {
        format!(
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.75 GiB total capacity; 2.40 GiB already \
             allocated; {free} MiB free; 2.75 GiB reserved in total by PyTorch)"
        )
    };
    let first = |free: &str| diagnosis(&log(free), "").findings[0].rule();
    assert_eq!(first("26.00"), "foreign-memory");
    assert_eq!(first("126.00"), "foreign-memory");
    assert_eq!(first("1126.00"), "free-exceeds-request");
}

#[test]
fn inferred_processes_are_not_blamed_if_unused_memory_explains_more() {
    let log = |reserved: &str| {
        format!(
            "CUDA out of memory. Tried to allocate 144.00 MiB (GPU 0; 23.69 GiB total capacity; 14.01 GiB already \
             allocated; 77.00 MiB free; {reserved} GiB reserved in total by PyTorch)"
        )
    };
    let causes = |log: &str| -> Vec<_> {
        let found = diagnosis(log, "").findings.into_iter();
        found.filter(|f| f.is_cause).map(|f| f.rule()).collect()
    };
    assert_eq!(causes(&log("20.03")), ["fragmentation"]);
    assert_eq!(causes(&log("14.03")), ["foreign-memory"]);
}

proptest! {
    /// Even impossible numbers and configs get an answer.
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
