//! Properties of every list of options, on small models; public advice is in `tests/fit_notes.rs`.

use fitgpt_config::{ConfigValue, InitFrom, Written};
use fitgpt_model::{
    Model,
    job::{self, Job},
};
use fitgpt_program::{
    Names, Op, Program,
    memory::{Limits, Target},
    units::Bytes,
};
use proptest::prelude::*;

use super::*;
use crate::torch::{overhead, torch_report};

/// A host whose kernels need no scratch, with a limit on a single allocation.
struct Host(u64);

impl Target for Host {
    fn limits(&self) -> Limits {
        Limits { max_binding: Bytes::new(self.0), ..Limits::HOST }
    }

    fn scratch(&self, _: &Program, _: &Op) -> Bytes {
        Bytes::ZERO
    }
}

const HOST: Host = Host(1 << 40);
const VOCAB: u32 = 2048;

fn config(keys: &str) -> Config {
    let small = "n_layer=4 n_head=4 n_embd=64 block_size=128 batch_size=16 compile=False \
                 eval_iters=20 gradient_accumulation_steps=6 ";
    let mut written = Written::new();
    for pair in (small.to_owned() + keys).split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap();
        written.set(key, value).unwrap();
    }
    written.resolve().unwrap()
}

const HERE: Engine<'_> =
    Engine::Fitgpt { target: &HOST, precision: Precision::Float32, staging: TokenStaging::Planned };

const BFLOAT16: Engine<'_> = Engine::Fitgpt {
    target: &HOST,
    precision: Precision::Bfloat16,
    staging: TokenStaging::Planned,
};

fn device(usable: u64) -> DeviceMemory {
    let usable_bytes = Bytes::new(usable);
    DeviceMemory { name: "card".into(), total_bytes: usable_bytes, usable_bytes }
}

fn fit_into(config: &Config, engine: Engine<'_>, usable: u64) -> Fit {
    let device = device(usable);
    let overhead = small_overhead();
    fit(&FitRequest {
        config,
        vocab: VOCAB,
        engine,
        device: &device,
        overhead,
        has_bf16: true,
        is_faster_in_bf16: false,
        share: Share::WHOLE,
    })
}

/// In proportion to the small models of these tests.
fn small_overhead() -> Overhead {
    let context_bytes = [Bytes::new(1 << 18), Bytes::new(1 << 20)];
    Overhead { context_bytes, ..Overhead::default() }
}

fn peak(config: &Config, engine: Engine<'_>) -> u64 {
    fit_into(config, engine, 1 << 40).original.arena_bytes.get()
}

fn value(option: &FitOption, key: &str) -> Option<ConfigValue> {
    option.changes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
}

fn evaluated(config: &Config) -> u64 {
    u64::from(config.eval_iters()) * u64::from(config.eval_batch_size())
}

/// Checks the promises that every list makes.
fn check(config: &Config, engine: Engine<'_>, usable: u64) -> Fit {
    let found = fit_into(config, engine, usable);
    assert!(found.options.len() <= LISTED_IN_ALL);
    let without = |overhead: Overhead| usable - overhead.range()[1].get();
    for option in &found.options {
        let changed = config.with("fit", option.changes.iter().cloned()).unwrap();
        // The numbers are those of planning the changed config.
        let (peak_bytes, arena_bytes, limit) = match engine {
            Engine::Torch { precision, .. } => {
                let precision = changed.precision_or(precision);
                let overhead = small_overhead();
                let options = TorchOptions::from_config(&changed, precision);
                let report = torch_report(&changed, VOCAB, &options, device(usable), overhead);
                (report.peak_bytes, report.arena_bytes, without(overhead))
            }
            Engine::Fitgpt { target, precision, staging } => {
                let precision = changed.precision_or(precision);
                let least = job::least_staging_bytes(&changed);
                let left = Bytes::new(without(small_overhead().with_staging(staging, least)));
                let job = Job::new(&changed, VOCAB, precision, &target, left);
                let programs = job.training_programs(Names::Kept);
                let peak = programs.all().map(|p| job::peak_bytes(p, &target)).max().unwrap();
                let arena = job::plan(programs, &target).unwrap().plan().arena_bytes();
                let overhead = small_overhead().with_staging(staging, job.staging_bytes());
                (peak, arena, without(overhead))
            }
        };
        assert_eq!((option.peak_bytes, option.arena_bytes), (peak_bytes, arena_bytes));
        if value(option, "compile").is_none() {
            assert_eq!(option.fits, arena_bytes.get() <= limit, "{option:?}");
        }
        assert_eq!(option.fits, option.verdict == Verdict::Fits);
        assert_eq!(option.effective_batch, changed.effective_batch());
        assert!(option.extra_compute >= 0.0);
        if option.keeps_training {
            assert_eq!(changed.effective_batch(), config.effective_batch(), "{option:?}");
            assert_eq!(evaluated(&changed), evaluated(config), "{option:?}");
            assert!(config.batch_size().is_multiple_of(changed.batch_size()));
            for key in ["n_layer", "n_head", "n_embd", "block_size", "dtype", "max_iters"] {
                assert_eq!(value(option, key), None);
            }
        } else {
            assert_eq!(option.effect, Effect::ChangesRun);
        }
    }
    let keeping: Vec<_> = found.options.iter().filter(|o| o.fits && o.keeps_training).collect();
    assert_eq!(found.recommended, (!keeping.is_empty()).then_some(0));
    if let Some(safest) = found.safest {
        let least_arena = keeping.iter().map(|o| o.arena_bytes).min();
        assert_eq!(Some(found.options[safest].arena_bytes), least_arena);
    }
    for (index, option) in keeping.iter().enumerate() {
        for (other_index, other) in keeping.iter().enumerate() {
            // With a smaller micro-batch the budget may ask for less work.
            let is_more = |o: &FitOption| {
                o.changes.iter().all(|change| option.changes.contains(change))
                    && o.extra_compute <= option.extra_compute
            };
            assert!(index == other_index || !is_more(other), "{option:?} is more than {other:?}");
        }
    }
    found
}

#[test]
fn a_config_that_fits_is_the_only_option() {
    for engine in [HERE, Engine::torch(Precision::Bfloat16)] {
        let found = check(&config(""), engine, 1 << 40);
        assert_eq!(found.options.len(), 1);
        assert_eq!(found.options[0].changes, []);
        assert_eq!((found.recommended, found.safest), (Some(0), Some(0)));
        assert_eq!(found.options[0].saved_bytes, Bytes::ZERO);
    }
}

#[test]
fn a_run_that_draws_samples_is_fitted_with_their_programs() {
    let sampling = config("sample_interval=10 num_samples=4");
    assert!(!check(&sampling, HERE, 1 << 40).options.is_empty());
    assert!(check(&sampling, HERE, peak(&sampling, HERE) * 2 / 3).recommended.is_some());
}

#[test]
fn the_largest_micro_batch_that_fits_is_taken_and_the_evaluation_kept() {
    let config = config("");
    let usable = peak(&config, HERE) * 2 / 3;
    let found = check(&config, HERE, usable);
    let best = &found.options[found.recommended.unwrap()];
    let changes: Vec<Change> = vec![
        ("batch_size", ConfigValue::Int(8)),
        ("gradient_accumulation_steps", ConfigValue::Int(12)),
        ("eval_batch_size", ConfigValue::Int(16)),
    ];
    assert_eq!(best.changes, changes);
    assert_eq!(best.effect, Effect::MicroBatch);

    // nanoGPT evaluates with its training batch: more iterations of the smaller one.
    let torch = Engine::torch(Precision::Bfloat16);
    let found = check(&config, torch, peak(&config, torch) * 2 / 3);
    let plain = &found.options[found.without_patches.unwrap()];
    assert_eq!(value(plain, "batch_size"), Some(ConfigValue::Int(8)));
    assert_eq!(value(plain, "eval_iters"), Some(ConfigValue::Int(40)));
    assert_eq!(plain.patches, []);
}

#[test]
fn recomputation_is_a_mix_that_costs_less_than_every_block() {
    let config = config("batch_size=1 gradient_accumulation_steps=96 block_size=512");
    let every = config.with("", [("grad_checkpoint", true.into())]).unwrap();
    let (keeping, recomputing) = (peak(&config, HERE), peak(&every, HERE));
    let found = check(&config, HERE, (keeping + 3 * recomputing) / 4 + (1 << 20));
    let by = |value_of: ConfigValue| {
        let is = |o: &&FitOption| value(o, "grad_checkpoint") == Some(value_of.clone());
        found.options.iter().find(is).unwrap()
    };
    let (auto, every) = (by("auto".into()), by(true.into()));
    assert!(auto.fits && every.fits && auto.effect == Effect::Recompute);
    assert!(0.0 < auto.extra_compute && auto.extra_compute < every.extra_compute);
    assert!(every.peak_bytes < auto.peak_bytes);
}

#[test]
fn an_evaluation_that_is_larger_than_training_gets_a_separate_batch() {
    let torch = Engine::torch(Precision::Bfloat16);
    let config = config("batch_size=2 eval_batch_size=32");
    let small = config.with("", [("eval_batch_size", ConfigValue::Int(2))]).unwrap();
    let found = check(&config, torch, peak(&small, torch) + (2 << 20));
    let best = &found.options[found.recommended.unwrap()];
    assert_eq!(best.effect, Effect::ChangesNothing);
    let eval_batch = value(best, "eval_batch_size").unwrap();
    assert!(matches!(eval_batch, ConfigValue::Int(2..32)), "{eval_batch}");
    assert_eq!(best.patches, [Patch::EvalBatchSize]);
}

#[test]
fn fusing_kernels_is_an_option() {
    let kernels = TorchOptions { fused_attention: false, ..TorchOptions::default() };
    let engine = Engine::Torch { precision: Precision::Bfloat16, kernels };
    let config = config("block_size=1024 batch_size=4 n_head=16");
    let fused = peak(&config, Engine::torch(Precision::Bfloat16));
    assert!(fused * 2 < peak(&config, engine));
    let found = fit_into(&config, engine, fused + (1 << 20));
    let best = &found.options[found.recommended.unwrap()];
    assert_eq!((&*best.changes, &*best.patches), (&[][..], &[][..]));
    assert_eq!(best.upgrades, [Upgrade::FusedAttention]);
    assert_eq!(best.peak_bytes.get(), fused);
}

#[test]
fn state_that_exceeds_the_device_is_noted() {
    for engine in [HERE, Engine::torch(Precision::Bfloat16)] {
        let config = config("n_embd=512 n_head=8 n_layer=8 batch_size=2");
        let found = check(&config, engine, 16 * 20_000_000);
        assert!(matches!(found.notes[..], [FitNote::StaticStateTooLarge { .. }]));
        assert_eq!(found.recommended, None);
        assert!(!found.options.is_empty());
        for option in &found.options {
            assert!(option.fits && !option.keeps_training, "{option:?}");
            assert_eq!(value(option, "batch_size"), None);
            assert_eq!(value(option, "gradient_accumulation_steps"), None);
        }
    }
}

#[test]
fn smaller_optimizers_are_options_that_change_the_training() {
    let config = config("n_embd=512 n_head=8 n_layer=8 batch_size=2 dtype=bfloat16");
    let adamw = peak(&config, HERE);
    let parameters = Model::new(&config, VOCAB).parameter_count() as f64;
    for (optimizer, bytes_a_parameter) in [("adamw8bit", 5.9), ("muon", 3.5)] {
        let changed = config.with("test", [("optimizer", optimizer.into())]).unwrap();
        let needed = peak(&changed, HERE);
        let saved = (adamw - needed) as f64 / parameters;
        assert!(saved > bytes_a_parameter, "{optimizer} saves {saved} bytes a parameter");
        // Enough for it, and not for AdamW.
        let found = check(&config, HERE, needed + (2 << 20));
        let is_it = |o: &&FitOption| value(o, "optimizer") == Some(optimizer.into());
        let option = found.options.iter().find(is_it);
        let option = option.unwrap_or_else(|| panic!("{optimizer} is not listed"));
        assert!(option.fits && !option.keeps_training && option.effect == Effect::ChangesRun);
        let before = found.original.peak_bytes;
        assert_eq!(option.saved_bytes, before.saturating_sub(option.peak_bytes));
    }
    let torch = fit_into(&config, Engine::torch(Precision::Bfloat16), 1 << 29);
    assert!(torch.options.iter().all(|o| value(o, "optimizer").is_none()), "nanoGPT has one");
}

#[test]
fn sizes_of_a_checkpoint_are_not_changed() {
    for from in ["resume", "gpt2"] {
        let config =
            config(&format!("n_embd=512 n_head=8 n_layer=8 batch_size=2 init_from={from}"));
        let found = check(&config, HERE, 16 * 20_000_000);
        for key in ["n_layer", "n_embd", "n_head"] {
            assert!(found.options.iter().all(|o| value(o, key).is_none()));
        }
        let is_resumed = *config.init_from() == InitFrom::Resume;
        let shorter = found.options.iter().any(|o| value(o, "block_size").is_some());
        assert!(!(is_resumed && shorter));
    }
}

#[test]
fn a_card_without_bfloat16_is_offered_float16() {
    let ask = |dtype: &str, has_bf16| {
        let config = config(&format!("dtype={dtype}"));
        let usable = device(peak(&config, HERE) * 7 / 8);
        let precision = config.precision_or(Precision::Float32);
        let engine = Engine::Fitgpt { target: &HOST, precision, staging: TokenStaging::Planned };
        let overhead = small_overhead();
        fit(&FitRequest {
            config: &config,
            vocab: VOCAB,
            engine,
            device: &usable,
            overhead,
            has_bf16,
            is_faster_in_bf16: false,
            share: Share::WHOLE,
        })
    };
    let dtypes = |found: &Fit| -> Vec<_> {
        found.options.iter().filter_map(|option| value(option, "dtype")).collect()
    };
    assert_eq!(dtypes(&ask("float32", true)), [ConfigValue::from("bfloat16")]);
    assert_eq!(dtypes(&ask("float32", false)), [ConfigValue::from("float16")]);
    assert!(!ask("float32", false).notes.contains(&FitNote::NoBf16 { instead: "float16" }));
    assert!(ask("bfloat16", false).notes.contains(&FitNote::NoBf16 { instead: "float16" }));
    assert!(!ask("bfloat16", true).notes.contains(&FitNote::NoBf16 { instead: "float16" }));
    assert_eq!(dtypes(&ask("bfloat16", false)), []);
}

#[test]
fn a_cpu_that_is_faster_in_bfloat16_is_told_so_once() {
    let ask = |dtype: &str, is_faster_in_bf16, share_of_peak: f64| {
        let config = config(&format!("dtype={dtype}"));
        let usable = device((peak(&config, HERE) as f64 * share_of_peak) as u64);
        let precision = config.precision_or(Precision::Float32);
        let found = fit(&FitRequest {
            config: &config,
            vocab: VOCAB,
            engine: Engine::Fitgpt { target: &HOST, precision, staging: TokenStaging::Planned },
            device: &usable,
            overhead: small_overhead(),
            has_bf16: true,
            is_faster_in_bf16,
            share: Share::WHOLE,
        });
        let is_note = |note: &&FitNote| matches!(note, FitNote::FasterInBf16 { .. });
        (found.notes.iter().find(is_note).cloned(), found)
    };
    let half = peak(&config("dtype=bfloat16"), BFLOAT16);
    let (note, found) = ask("float32", true, 2.0);
    let Some(FitNote::FasterInBf16 { peak_bytes, saved_bytes }) = note else {
        panic!("{:?}", found.notes)
    };
    assert_eq!(peak_bytes + saved_bytes, found.original.peak_bytes);
    assert!(peak_bytes.get() <= half && half < found.original.arena_bytes.get());
    assert_eq!(ask("float32", false, 2.0).0, None);
    assert_eq!(ask("bfloat16", true, 2.0).0, None);
    // The options name the type already.
    let (note, found) = ask("float32", true, 0.875);
    assert!(found.options.iter().any(|option| value(option, "dtype").is_some()));
    assert_eq!(note, None);
}

#[test]
fn a_batch_without_divisors_names_another_split_of_the_same_step() {
    let config = config("batch_size=13 gradient_accumulation_steps=24");
    let found = check(&config, HERE, peak(&config, HERE) * 25 / 26 + (1 << 20));
    let note = found.notes.iter().find_map(|note| match note {
        FitNote::OtherSplit { batch_size, gradient_accumulation_steps, .. } => {
            Some((*batch_size, *gradient_accumulation_steps))
        }
        _ => None,
    });
    assert_eq!(note, Some((12, 26)));
}

#[test]
fn a_tensor_too_large_for_one_allocation_is_named_and_made_smaller() {
    // The MLP's inner activation: 16 · 128 rows of 4 · 64 in float32.
    let target = Host(16 * 128 * 256 * 4 - 1);
    let engine = Engine::Fitgpt {
        target: &target,
        precision: Precision::Float32,
        staging: TokenStaging::Planned,
    };
    // Logits of 2,048 rows would be larger still.
    let config = config("loss_chunk_rows=64");
    let found = fit_into(&config, engine, 1 << 40);
    assert_eq!(found.original.verdict, Verdict::No);
    assert!(matches!(&found.notes[0], FitNote::TooLargeForOnePiece { .. }));
    let best = &found.options[found.recommended.unwrap()];
    assert_eq!(value(best, "batch_size"), Some(ConfigValue::Int(8)));
}

#[test]
fn options_are_serialised_as_scripts_expect_them() {
    let config = config("");
    let found = check(&config, HERE, peak(&config, HERE) * 2 / 3);
    let json = serde_json::to_value(&found).unwrap();
    let option = &json["options"][0];
    assert_eq!(option["changes"]["batch_size"], 8);
    assert_eq!(option["changes"]["gradient_accumulation_steps"], 12);
    assert_eq!(option["fits"], true);
    assert_eq!(option["verdict"], "fits");
    assert_eq!(option["keeps_training"], true);
    assert_eq!(option["effect"], "micro-batch");
    assert_eq!(option["effective_batch"]["sequences"], 96);
    assert_eq!(option["extra_compute"], 0.0);
    for key in ["peak_bytes", "arena_bytes", "saved_bytes"] {
        assert!(option[key].as_u64().unwrap() > 0);
    }
    assert_eq!(option["peak_phase"], "train");
    assert_eq!(json["recommended"], 0);
}

#[test]
fn overrides_have_the_types_that_nanogpt_requires() {
    let changes: Vec<Change> = vec![
        ("learning_rate", 6e-4.into()),
        ("compile", false.into()),
        ("batch_size", 8_i64.into()),
        ("dtype", "float16".into()),
        ("grad_checkpoint", "auto".into()),
        ("start", "it's".into()),
        ("min_lr", 6e-5.into()),
    ];
    assert_eq!(
        command_line(&changes),
        r"--learning_rate=0.0006 --compile=False --batch_size=8 --dtype=float16 --grad_checkpoint=auto --start='it'\''s' --min_lr=6e-05"
    );
}

#[test]
fn an_option_is_a_line_that_can_be_pasted() {
    let mut written = Written::new();
    let text = "batch_size = 16\nn_layer = 4\n";
    written.read_python("config/my run.py", text, &fitgpt_config::MachineFacts::default()).unwrap();
    for (key, value) in [("n_layer", "6"), ("memory_budget", "12GB"), ("compile", "False")] {
        written.set(key, value).unwrap();
    }
    let files = ["config/my run.py".to_owned()];
    let split: Vec<Change> = vec![
        ("batch_size", ConfigValue::Int(8)),
        ("gradient_accumulation_steps", ConfigValue::Int(80)),
    ];
    // nanoGPT refuses keys that it does not know, such as `memory_budget`.
    assert_eq!(
        nanogpt_commands(&files, &written, &split, &[]),
        ["python train.py 'config/my run.py' --n_layer=6 --compile=False --batch_size=8 \
          --gradient_accumulation_steps=80"]
    );
    assert_eq!(
        fitgpt_command(&[], &Written::new(), &split),
        "fitgpt train --batch_size=8 --gradient_accumulation_steps=80"
    );
    let patched: Vec<Change> =
        vec![("drop_stale_logits", true.into()), ("loss_chunk_rows", ConfigValue::Int(512))];
    let patches = [Patch::DropStaleLogits, Patch::ChunkedLoss];
    assert_eq!(
        nanogpt_commands(&[], &Written::new(), &patched, &patches),
        [
            "fitgpt patch . --apply --only drop-stale-logits chunked-loss",
            "python train.py --loss_chunk_rows=512",
        ]
    );
}

#[test]
fn keys_alone_come_before_patches_and_before_more_work() {
    let torch = Engine::torch(Precision::Bfloat16);
    let config = config("");
    let found = check(&config, torch, peak(&config, torch) * 7 / 8);
    let first = &found.options[0];
    assert_eq!((&*first.patches, first.extra_compute), (&[][..], 0.0));
    assert_eq!((found.recommended, found.without_patches), (Some(0), Some(0)));
    assert!(found.options.iter().any(|o| o.fits && o.keeps_training && !o.patches.is_empty()));
}

#[test]
fn returning_the_loss_alone_comes_first_if_the_run_is_compiled() {
    let torch = Engine::torch(Precision::Bfloat16);
    for compile in ["True", "False"] {
        // As large a vocabulary as the model is small, so that the logits are the peak.
        let config = config(&format!("n_embd=16 compile={compile}"));
        let found = check(&config, torch, peak(&config, torch) * 7 / 8);
        let is_first = found.options[0].patches == [Patch::LossAlone];
        assert_eq!(is_first, compile == "True", "{:?}", found.options[0]);
        assert!(found.options[found.without_patches.unwrap()].patches.is_empty());
    }
}

#[test]
fn what_was_written_elsewhere_is_written_down_with_the_changes() {
    let text = "# mine\nbatch_size = 16 # fits nowhere\nn_layer = 4\n";
    let mut written = Written::new();
    written.read_python("mine.py", text, &fitgpt_config::MachineFacts::default()).unwrap();
    written.set("n_layer", "6").unwrap();
    written.set("max_iters", "10").unwrap();
    let changes = [("batch_size", ConfigValue::Int(8)), ("eval_batch_size", ConfigValue::Int(16))];
    assert_eq!(
        write(Some(("mine.py", text)), &written, &changes).unwrap(),
        "# mine\nbatch_size = 8 # fits nowhere\nn_layer = 6\n\n# so that it fits\n\
         max_iters = 10\neval_batch_size = 16\n"
    );
    let alone = write(None, &written, &changes).unwrap();
    let mut read = Written::new();
    read.read_python("new.py", &alone, &fitgpt_config::MachineFacts::default()).unwrap();
    let expected = written.resolve().unwrap().with("fit", changes).unwrap();
    assert_eq!(read.resolve().unwrap(), expected);
}

#[test]
fn pytorch_on_a_card_takes_memory_in_addition_to_its_tensors() {
    let gib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 30);
    let [low, high] = overhead(&config("compile=False")).range();
    assert!((gib(low) - 0.25).abs() < 1e-6 && (gib(high) - 0.9).abs() < 1e-6);
    let [low, high] = overhead(&config("compile=True")).range();
    assert!((gib(low) - 0.25).abs() < 1e-6 && (gib(high) - 1.9).abs() < 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any model, batch and budget, either engine.
    #[test]
    fn every_option_is_the_plan_of_its_config(
        batch in 1_u32..40,
        accumulation in 1_u32..9,
        eval_batch in prop_oneof![Just(0_u32), 1_u32..48],
        layers in 1_u32..5,
        heads in 1_u32..5,
        share in 10_u64..130,
        flags in 0_u32..64,
    ) {
        let is = |bit: u32| flags & (1 << bit) != 0;
        let python = |on: bool| if on { "True" } else { "False" };
        let checkpoint = ["False", "True", "auto"][flags as usize % 3];
        let config = config(&format!(
            "batch_size={batch} gradient_accumulation_steps={accumulation} n_layer={layers} \
             n_head={heads} n_embd={} eval_batch_size={eval_batch} grad_checkpoint={checkpoint} \
             compile={} bias={} dropout={}",
            heads * 16, python(is(2)), python(is(3)), if is(4) { "0.1" } else { "0.0" },
        ));
        let engine = if is(5) { HERE } else { Engine::torch(Precision::Bfloat16) };
        let usable = peak(&config, engine) * share / 100 + (1 << 20);
        check(&config, engine, usable);
    }
}
