//! The command line's contracts: output, exit codes, and errors for bad input.

use std::fs;

use crate::program::{TINY, TestFolder};

#[test]
fn plan_answers_in_json_with_classes_that_sum_to_the_peak() {
    let place = TestFolder::new();
    let ran = place.run(&[
        "plan",
        "--batch_size=4",
        "--gradient_accumulation_steps=128",
        "--budget=12GB",
        "--json",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json();
    assert_eq!(report["engine"], "fitgpt");
    assert_eq!(report["device"]["usable_bytes"], 12_000_000_000u64);
    assert_eq!(report["effective_batch"]["sequences"], 512);
    assert_eq!(report["effective_batch"]["tokens"], 524_288);
    assert_eq!(report["verdict"], "fits");
    assert_eq!(report["config"]["n_layer"], 12);
    let names: Vec<_> = report["phases"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["train", "update", "evaluate", "sample"]);
    for phase in report["phases"].as_array().unwrap() {
        let classes = phase["classes"].as_object().unwrap();
        let sum: u64 = classes.values().map(|v| v.as_u64().unwrap()).sum();
        assert_eq!(sum, phase["peak_bytes"].as_u64().unwrap(), "{}", phase["name"]);
    }
}

#[test]
fn a_plan_that_does_not_fit_exits_with_one_and_names_its_largest_terms() {
    let place = TestFolder::new();
    let ran = place.run(&["plan", "--budget=1GB"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with("error: the plan needs "), "{}", ran.stderr);
    assert!(ran.stderr.contains("activations"), "{}", ran.stderr);
    let ran = place.run(&["plan", "--budget=1GB", "--json"]);
    assert_eq!((ran.code, &ran.json()["fits"]), (Some(1), &false.into()));
}

#[test]
fn train_refuses_what_does_not_fit_before_it_touches_anything() {
    let place = TestFolder::new();
    let ran = place.run(&[&["train", "--budget=1MB", "--out_dir=out"], TINY].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: the plan needs"), "{}", ran.stderr);
    assert!(!place.path("out").exists());
}

#[test]
fn log_lines_have_nanogpts_format() {
    let place = TestFolder::new();
    let ran = place.train(&["--max_iters=2", "--eval_interval=2", "--out_dir=out"]);
    let starts = [
        "tokens per iteration will be: 96\n",
        "number of parameters: 0.03M\n",
        "num decayed parameter tensors: 10, with ",
        "step 0: train loss 4.",
        "iter 0: loss 4.",
        "saving checkpoint to out\n",
    ];
    for start in starts {
        let found = ran.stdout.starts_with(start) || ran.stdout.contains(&format!("\n{start}"));
        assert!(found, "no line {start:?} in\n{}", ran.stdout);
    }
    let line = ran.stdout.lines().find(|l| l.starts_with("iter 2: ")).unwrap();
    let (_, rest) = line.split_once(", time ").unwrap();
    assert!(rest.contains("ms, mfu ") && rest.ends_with('%'), "{line}");
}

#[test]
fn a_preset_without_its_data_names_the_commands_that_help() {
    let place = TestFolder::new();
    let ran = place.run(&["train", "config/train_gpt2.py", "--device=cpu"]);
    assert_eq!(ran.code, Some(2));
    let prepare = "`fitgpt prepare openwebtext`";
    assert!(ran.stderr.contains(prepare), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: ") && ran.stderr.contains("`--dataset=stories`"));
}

/// Arguments, and what the error must name.
const BAD: &[(&[&str], &[&str])] = &[
    (&["plan", "--n_embd=512", "--n_head=12"], &["512", "12", "n_head"]),
    (&["plan", "--batch_sise=3"], &["batch_sise", "batch_size"]),
    (&["plan", "no/such/config.py"], &["no/such/config.py"]),
    (&["plan", "--dropout=2"], &["dropout", "2"]),
    (&["plan", "--memory_budget=much"], &["memory_budget", "much"]),
    (&["plan", "--batch_size=0"], &["batch_size", "0"]),
    (&["plan", "--batch_size=999999999999"], &["batch_size"]),
    (&["plan", "--eval_block_size=2048"], &["eval_block_size", "2048", "1024"]),
    (&["train", "--device=cuda"], &["cuda", "--device=cpu"]),
    (&["train", "--dataset=nowhere"], &["nowhere", "data/nowhere"]),
    (&["train", "--init_from=resume", "--out_dir=empty"], &["empty"]),
    (&["train", "--init_from=gpt2", "--dataset=tiny"], &["gpt2"]),
    (&["sample", "--out_dir=nothing"], &["nothing"]),
    (&["frobnicate"], &["frobnicate"]),
];

#[test]
fn bad_input_is_exit_code_two_and_names_the_thing() {
    let place = TestFolder::new();
    for (args, names) in BAD {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        for name in *names {
            assert!(ran.stderr.contains(name), "{args:?} does not name {name}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("panicked"), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn errors_are_json_with_the_json_flag() {
    let place = TestFolder::new();
    for (args, _) in BAD {
        let ran = place.run(&[args, &["--json"][..]].concat());
        assert_eq!(ran.code, Some(2), "{args:?}");
        let error = &ran.json()["error"];
        assert!(error["kind"].is_string() && error["message"].is_string(), "{args:?}: {error}");
    }
}

#[test]
fn a_document_is_json_whatever_a_name_contains() {
    let place = TestFolder::new();
    let name = "a\u{9b}b\u{7f}c\u{202b}.py";
    let commands: [&[&str]; 6] = [
        &["plan", name],
        &["train", name],
        &["prepare", name, "--out", "data/new"],
        &["export", name, "--to", "hf", "--out", "new"],
        &["doctor", name],
        &["patch", name],
    ];
    for args in commands {
        let ran = place.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, Some(2), "{args:?}");
        let message = ran.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(name), "{args:?}: {message}");
        assert!(!ran.stdout.contains(['\u{9b}', '\u{7f}', '\u{202b}']), "{args:?}");
    }
}

#[test]
fn a_config_outside_the_subset_is_refused_with_its_line() {
    let place = TestFolder::new();
    fs::write(place.path("c.py"), "batch_size = 4\nfor x in range(3):\n    pass\n").unwrap();
    let ran = place.run(&["plan", "c.py"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("c.py:2"), "{}", ran.stderr);
}

#[test]
fn broken_data_is_named_with_its_file() {
    let place = TestFolder::new();
    let train = place.path("data/tiny/train.bin");
    let whole = fs::read(&train).unwrap();
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("odd length", whole[..1001].to_vec(), "train.bin"),
        ("empty", Vec::new(), "train.bin"),
        ("shorter than a block", whole[..20].to_vec(), "train.bin"),
        ("token out of vocabulary", [255u8; 4000].to_vec(), "65535"),
    ];
    for (what, bytes, name) in cases {
        fs::write(&train, bytes).unwrap();
        let ran = place.run(&[&["train", "--max_iters=3", "--out_dir=out"], TINY].concat());
        assert_eq!(ran.code, Some(2), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(name), "{what}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
    }
}

#[test]
fn a_checkpoint_of_another_shape_or_a_damaged_one_is_refused() {
    let place = TestFolder::new();
    place.train(&["--max_iters=2", "--eval_interval=2", "--out_dir=out"]);
    let resume = ["train", "--init_from=resume", "--out_dir=out"];
    let ran = place.run(&[&resume[..], &["--n_layer=3"]].concat());
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("n_layer"), "{}", ran.stderr);

    let model = place.path("out/model.safetensors");
    let whole = fs::read(&model).unwrap();
    fs::write(&model, &whole[..whole.len() / 2]).unwrap();
    let ran = place.run(&resume);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("model.safetensors"), "{}", ran.stderr);
    fs::write(&model, b"not a checkpoint").unwrap();
    let ran = place.run(&resume);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("model.safetensors"), "{}", ran.stderr);
}

#[test]
fn an_ignored_key_is_mentioned_once() {
    let place = TestFolder::new();
    let ran = place.train(&["--max_iters=0", "--wandb_log=True", "--out_dir=out"]);
    assert_eq!(ran.stderr.matches("`wandb_log`").count(), 1, "{}", ran.stderr);
}

#[test]
fn the_short_help_fits_on_a_screen_and_the_long_one_has_every_key_that_matters() {
    let place = TestFolder::new();
    let commands = [
        "plan", "fit", "doctor", "prepare", "train", "sample", "patch", "bench", "devices", "demo",
    ];
    for command in commands {
        let short = place.run(&[command, "-h"]).stdout;
        assert!(short.lines().count() <= 45, "{command}:\n{short}");
        assert!(short.lines().all(|line| line.chars().count() <= 100), "{command}:\n{short}");
        assert!(short.contains("Examples:"), "{command}");
    }
    let plan = place.run(&["plan", "--help"]).stdout;
    for (key, is_shown) in [("--ffn_dim", true), ("--temperature", false), ("--wandb_log", false)] {
        assert_eq!(plan.contains(key), is_shown, "{key}");
    }
    // What is not shown is still accepted: a config may set it.
    assert_eq!(place.run(&["plan", "--temperature=0.5", "--gpu=4090"]).code, Some(0));
    let nothing = place.run(&[]);
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.stderr.contains("Start here:\n  fitgpt train "), "{}", nothing.stderr);
}

#[test]
fn samples_are_printed_like_nanogpts_and_do_not_depend_on_the_batch() {
    let place = TestFolder::new();
    place.train(&["--max_iters=5", "--out_dir=out"]);
    let sample = |more: &[&str]| {
        let ran = place.run(
            &[&["sample", "--out_dir=out", "--max_new_tokens=60", "--start=1 2 3"], more].concat(),
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran
    };
    let text = sample(&["--num_samples=3"]).stdout;
    assert_eq!(text.matches("---------------\n").count(), 3, "{text}");
    // 63 tokens exceed a block of 24: the cache is refilled, which is reported.
    let ran = sample(&["--num_samples=3", "--json"]);
    assert!(ran.json()["refills"].as_u64().unwrap() > 0);
    let three = ran.json()["samples"].clone();
    let one = sample(&["--num_samples=1", "--json"]).json()["samples"].clone();
    assert_eq!(three[0]["tokens"], one[0]["tokens"]);
    assert_eq!(one[0]["tokens"].as_array().unwrap().len(), 63);
    // Inside the block, the cache and recomputing everything choose the same tokens.
    let short = ["--num_samples=2", "--json", "--max_new_tokens=20"];
    let cached = sample(&short).json()["samples"].clone();
    let exact = sample(&[&short[..], &["--exact"]].concat()).json()["samples"].clone();
    assert_eq!(cached, exact);
}

#[test]
fn help_and_usage_errors_that_are_piped_have_no_colour() {
    let place = TestFolder::new();
    let help = place.run(&["train", "--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("--fit") && !help.stdout.contains('\u{1b}'), "{}", help.stdout);
    let wrong = place.run(&["train", "--no-such-flag"]);
    assert_eq!(wrong.code, Some(2));
    assert!(!wrong.stderr.contains('\u{1b}'), "{}", wrong.stderr);
}

/// Runs the program so that it finds no NVIDIA driver, even on a machine with one.
#[cfg(target_os = "linux")]
fn without_a_card(place: &TestFolder, args: &[&str]) -> std::process::Output {
    let folder = place.path("no driver");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("libnvidia-ml.so.1"), "").unwrap();
    place.command(args).env("LD_LIBRARY_PATH", &folder).output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_plan_for_pytorch_on_cuda_asks_for_a_card_if_there_is_none() {
    let place = TestFolder::new();
    for device in [&[][..], &["--device=cuda"]] {
        let ran = without_a_card(&place, &[&["plan", "--engine=torch"], device].concat());
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("--gpu NAME"), "{stderr}");
    }
    let named = ["plan", "--engine=torch", "--device=cuda", "--budget=900GB"];
    assert_eq!(without_a_card(&place, &named).status.code(), Some(0));
}

#[test]
fn pytorch_is_planned_by_the_rules_of_its_device() {
    let place = TestFolder::new();
    let peak = |more: &[&str]| {
        let plan = ["plan", "--engine=torch", "--budget=900GB", "--compile=False", "--json"];
        let ran = place.run(&[&plan[..], &["--dtype=bfloat16"], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.json()["peak_bytes"].as_u64().unwrap()
    };
    let (cuda, cpu) = (peak(&["--device=cuda"]), peak(&["--device=cpu"]));
    // nanoGPT has no autocast on a CPU, whatever `dtype` says.
    assert_eq!(cpu, peak(&["--device=cpu", "--dtype=float32"]));
    assert!(cpu > cuda + cuda / 4, "{cpu} {cuda}");
    assert_eq!(cuda, peak(&["--gpu=A100 80GB"]));
}

#[test]
fn a_plan_ends_with_its_verdict_after_the_next_command_if_it_fits() {
    let place = TestFolder::new();
    let ends_with = |args: &[&str], next: Option<&str>, verdict: &str| {
        let ran = place.run(&[&["plan", "--gpu=RTX 4070"], args].concat());
        let mut lines = ran.stdout.lines().rev();
        assert!(lines.next().unwrap().starts_with(verdict), "{}", ran.stdout);
        let command = lines.next().and_then(|line| line.strip_prefix("next: "));
        assert_eq!(command, next, "{}", ran.stdout);
    };
    let fits = "fits GeForce RTX 4070, with at least ";
    let train = "fitgpt train config/nanogpt.py --batch_size=4";
    ends_with(&["--engine=fitgpt", "--batch_size=4"], Some(train), fits);
    let both = format!("PyTorch {fits}");
    ends_with(&["--batch_size=4"], Some(train), &both);
    ends_with(&["--engine=both", "--batch_size=4"], Some(train), &both);
    let torch = "--engine=torch";
    ends_with(&[torch, "--batch_size=4"], Some("python train.py --batch_size=4"), fits);
    ends_with(&[torch, "--batch_size=64"], None, "does not fit ");
    let tight = [torch, "--batch_size=16", "--gradient_accumulation_steps=32", "--n_layer=9"];
    ends_with(&tight, None, "tight on ");
}

#[test]
fn fit_prints_commands_and_writes_the_config_that_it_recommends() {
    let place = TestFolder::new();
    fs::write(place.path("my.py"), "batch_size = 16\ngradient_accumulation_steps = 32\n").unwrap();
    let fit = ["fit", "my.py", "--engine=torch", "--gpu=RTX 4070", "--compile=False"];
    let ran = place.run(&[&fit[..], &["--json"]].concat());
    let options = &ran.json()["options"];
    assert_eq!(
        options[0]["command"],
        "python train.py my.py --compile=False --batch_size=8 --gradient_accumulation_steps=64 \
         --eval_iters=400"
    );
    let patched =
        options.as_array().unwrap().iter().find(|o| o["patches"] != serde_json::json!([]));
    let command = patched.unwrap()["command"].as_str().unwrap();
    assert!(command.starts_with("fitgpt patch . --apply --only "), "{command}");

    let ran = place.run(&[&fit[..], &["--write=fitted.py"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("<- recommended"), "{}", ran.stdout);
    assert!(fs::read_to_string(place.path("fitted.py")).unwrap().contains("batch_size = 8"));

    // A config that fits gets no recommendation, only how much is left.
    let ran = place.run(&["fit", "--gpu=RTX 4070", "--batch_size=4"]);
    assert_eq!(ran.stdout.matches("\nfits unchanged: ").count(), 2, "{}", ran.stdout);
    assert!(!ran.stdout.contains("recommended"), "{}", ran.stdout);

    // No batch is small enough.
    let large =
        ["fit", "--gpu=RTX 4070", "--init_from=gpt2-xl", "--engine=fitgpt", "--write=none.py"];
    let ran = place.run(&large);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stdout.contains("\nno option that keeps the training fits\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("none.py was not written"), "{}", ran.stdout);
    assert!(!place.path("none.py").exists());
    // With `--json` there is the unchanged config, too.
    let config = place.run(&[&large[..4], &["--json"]].concat()).json()["config"].clone();
    assert!(config.as_str().unwrap().contains("init_from = 'gpt2-xl'"), "{config}");
}

#[test]
fn a_model_beyond_the_limits_is_refused_before_it_is_planned() {
    let ran = TestFolder::new().run(&["plan", "--n_layer=1000000"]);
    assert_eq!(ran.code, Some(2));
    let error = "`n_layer` must be from 1 to 1024, not `1000000`";
    assert!(ran.stderr.contains(error), "{}", ran.stderr);
}

#[test]
fn reserved_memory_is_not_used() {
    let place = TestFolder::new();
    let usable = |more: &[&str]| {
        let ran = place.run(&[&["plan", "--gpu=RTX 4070", "--json"], more].concat());
        ran.json()["device"]["usable_bytes"].as_u64().unwrap()
    };
    assert_eq!(usable(&[]) - usable(&["--reserve=1GB"]), 1_000_000_000);
    let ran = place.run(&["plan", "--gpu=RTX 4070", "--reserve=some"]);
    assert_eq!(ran.code, Some(2));
}

#[test]
fn a_plan_for_a_card_does_not_depend_on_the_threads_of_this_machine() {
    let place = TestFolder::new();
    let arena = |threads: &str| {
        let ran = place.run(&["plan", "--gpu=RTX 4070", "--json", threads]);
        ran.json()["arena_bytes"].as_u64().unwrap()
    };
    assert_eq!(arena("--threads=1"), arena("--threads=64"));
}

#[test]
fn an_estimate_has_the_batch_of_a_plan() {
    let place = TestFolder::new();
    let batch = |args: &[&str]| {
        let ran = place.run(&[args, &["--gpu=RTX 4070", "--json"]].concat());
        let json = ran.json();
        assert!(json["time"]["run_s"][0].as_f64().unwrap() > 0.0);
        (json["config"]["batch_size"].clone(), json["time"].clone())
    };
    assert_eq!(batch(&["bench", "--estimate"]), batch(&["plan"]));
}
