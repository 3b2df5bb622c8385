//! Verdicts that people act on: what `plan` answers for configs and cards of which a wrong answer once
//! misled somebody. Each case has the engine, the verdict, the bytes and the sentence.

use std::fs;

use crate::program::TestFolder;

/// A 77M model, 16 × 32 sequences, compiled, in float16: the run of the field notes.
pub(crate) const NOTES: &str = "n_layer = 12\nn_head = 12\nn_embd = 576\nbatch_size = 16\n\
    gradient_accumulation_steps = 32\ndtype = 'float16'\ncompile = True\n";

/// nanoGPT's `eval_gpt2_xl.py`.
const EVALUATE_XL: &str = "batch_size = 8\neval_iters = 500\neval_only = True\nwandb_log = False\n\
    init_from = 'gpt2-xl'\n";

/// The arguments of `plan`, the engine of `--json`, its verdict, its peak in MiB, and a part of what is
/// printed without `--json`.
type Case = (&'static str, &'static str, &'static str, u64, &'static str);

const CASES: &[Case] = &[
    // Without `--engine`, PyTorch's verdict comes first, and FitGPT says that it was never tried.
    (
        "notes.py --gpu 4070",
        "fitgpt",
        "fits",
        3943,
        "\nPyTorch fits GeForce RTX 4070, with at least 29.0 MiB to spare; FitGPT fits",
    ),
    ("notes.py --gpu 4070", "fitgpt", "fits", 3943, "FitGPT has never run on a real card"),
    ("notes.py --gpu 4070", "fitgpt", "fits", 3943, "next: python train.py notes.py\nnext: fitgpt"),
    (
        "notes.py --engine torch --gpu 4070",
        "torch",
        "fits",
        9996,
        "PyTorch, compiled · GeForce RTX",
    ),
    (
        "notes.py --gpu 4070 --eval_batch_size=4",
        "fitgpt",
        "fits",
        3943,
        "nanoGPT has no `eval_batch_size`, so this is FitGPT's plan alone",
    ),
    // The phases that run decide.
    (
        "xl.py --engine torch --gpu 4070",
        "torch",
        "fits",
        7691,
        "fits GeForce RTX 4070, with at least",
    ),
    // Cards without Triton run eagerly.
    ("notes.py --engine torch --gpu 1080Ti", "torch", "no", 14713, "Triton needs capability 7.0"),
    (
        "notes.py --engine torch --gpu P100",
        "torch",
        "fits",
        14713,
        "next: python train.py notes.py --compile=False\nfits Tesla P100, with at least 636 MiB",
    ),
    ("notes.py --engine torch --gpu P100", "torch", "fits", 14713, "whl/cu126`; 2.14 is the last"),
    ("notes.py --engine torch --gpu V100-32GB", "torch", "fits", 9996, "from PyTorch 2.11 on only"),
    // On a CPU nanoGPT computes in float32.
    (
        "notes.py --engine torch --device=cpu --budget 64GB",
        "torch",
        "fits",
        17608,
        "nanoGPT computes in float32 on a CPU, whatever `dtype` says",
    ),
    // Advice that makes it worse.
    (
        "notes.py --engine torch --gpu 4070 --compile=False",
        "torch",
        "no",
        14713,
        "compiled, the peak is 9996 MiB instead of 14713 MiB, and it fits with at least 29.0 MiB",
    ),
    (
        "notes.py --engine torch --gpu 4070 --eval_batch_size=4",
        "torch",
        "fits",
        9996,
        "the peak is in training: this key does not lower it",
    ),
    (
        "notes.py --engine torch --gpu 4070 --compile=False --grad_checkpoint=True",
        "torch",
        "tight",
        11154,
        "it lowers the peak from 14713 MiB to 11154 MiB",
    ),
    (
        "notes.py --engine torch --gpu 4070 --ranks 2",
        "torch",
        "tight",
        10291,
        "DDP's buckets of gradients add 295 MiB to each",
    ),
    // The rows that `fitgpt patch` proposes, as the patched code runs them.
    (
        "--engine torch --gpu 4090 --dtype=bfloat16 --compile=False --loss_chunk_rows=512",
        "torch",
        "fits",
        6531,
        "it lowers the peak from 13159 MiB to 6531 MiB",
    ),
    (
        "--engine torch --gpu 4090 --dtype=bfloat16 --compile=False --loss_chunk_rows=64",
        "torch",
        "fits",
        6472,
        "fitgpt patch . --apply --only chunked-loss",
    ),
    // The next command has only what was given.
    (
        "--init_from=gpt2 --engine torch --gpu 4070",
        "torch",
        "fits",
        9619,
        "next: python train.py --init_from=gpt2\n",
    ),
    (
        "--init_from=Qwen/Qwen3-0.6B --gpu 4090",
        "fitgpt",
        "fits",
        22142,
        "next: fitgpt train config/nanogpt.py --init_from=Qwen/Qwen3-0.6B\n",
    ),
];

fn folder() -> TestFolder {
    let place = TestFolder::new();
    fs::write(place.path("notes.py"), NOTES).unwrap();
    fs::write(place.path("xl.py"), EVALUATE_XL).unwrap();
    place
}

#[test]
fn every_verdict_has_its_engine_its_bytes_and_its_sentence() {
    let place = folder();
    for (command, engine, verdict, peak_mib, sentence) in CASES {
        let args: Vec<_> = ["plan"].into_iter().chain(command.split(' ')).collect();
        let plan = place.run(&[&args[..], &["--json"]].concat()).json();
        let peak = plan["peak_bytes"].as_u64().unwrap() as f64 / f64::from(1 << 20);
        let found = (plan["engine"].as_str(), plan["verdict"].as_str(), peak.round() as u64);
        assert_eq!(found, (Some(*engine), Some(*verdict), *peak_mib), "plan {command}");
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(i32::from(*verdict != "fits")), "plan {command}");
        let printed = format!("{}{}", ran.stderr, ran.stdout);
        assert!(printed.contains(sentence), "plan {command}:\n{printed}");
    }
}

#[test]
fn a_card_and_the_cpu_together_are_refused() {
    let place = folder();
    for command in ["plan", "fit"] {
        let ran = place.run(&[command, "notes.py", "--device=cpu", "--gpu=4070"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
        assert!(ran.stderr.contains("names a card, and `device = 'cpu'`"), "{}", ran.stderr);
    }
}

#[test]
fn a_run_of_more_than_a_week_is_a_warning_also_on_a_cpu() {
    let place = folder();
    let cpu = ["plan", "--max_iters=20000", "--device=cpu", "--budget=64GB"];
    for args in [&cpu[..], &["plan", "notes.py", "--engine=torch", "--gpu=4070"]] {
        let ran = place.run(args);
        assert!(ran.stderr.contains("note: even at best this run takes "), "{}", ran.stderr);
        assert!(ran.stdout.contains("estimate: "), "{}", ran.stdout);
    }
    let short = place.run(&[&cpu[..], &["--n_layer=1", "--n_embd=24", "--max_iters=1"]].concat());
    assert!(!short.stderr.contains("even at best"), "{}", short.stderr);
    assert!(short.stdout.contains("a quick measurement of this CPU"), "{}", short.stdout);
}

#[test]
fn fit_shows_both_engines_and_writes_the_config_of_the_one_that_is_named() {
    let place = folder();
    let fit = ["fit", "notes.py", "--gpu=3060", "--batch_size=32"];
    let ran = place.run(&fit);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let torch = ran.stdout.find("PyTorch, compiled · GeForce RTX 3060 · float16").unwrap();
    let fitgpt = ran.stdout.find("FitGPT · GeForce RTX 3060 · float16").unwrap();
    assert!(torch < fitgpt);
    assert!(ran.stdout.contains("--eval_iters=400: the same 6400 evaluated sequences"));
    let next: Vec<_> = ran.stdout.lines().filter(|line| line.starts_with("next: ")).collect();
    assert!(next[0].starts_with("next: python train.py notes.py"), "{next:?}");
    assert!(next[1].starts_with("next: fitgpt train notes.py"), "{next:?}");

    let ran = place.run(&[&fit[..], &["--write=fitted.py"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stderr.contains("`--engine torch`") && ran.stderr.contains("`--engine fitgpt`"));
    assert!(!place.path("fitted.py").exists());
    let ran = place.run(&[&fit[..], &["--write=fitted.py", "--engine=torch"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(fs::read_to_string(place.path("fitted.py")).unwrap().contains("batch_size = 16"));
}

#[test]
fn a_key_that_contradicts_the_weights_is_refused() {
    let place = folder();
    let plan = |key| place.run(&["plan", "--init_from=gpt2", "--gpu=4070", key]);
    let ran = plan("--n_layer=6");
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    let said = "`n_layer = 6` contradicts the weights in `gpt2`, which have `n_layer = 12`";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    for key in ["--n_layer=12", "--dropout=0.1", "--block_size=512"] {
        assert_eq!(plan(key).code, Some(0), "{key}");
    }
    // As in nanoGPT, weights override the sizes of a config file.
    fs::write(place.path("sizes.py"), "n_layer = 6\ninit_from = 'gpt2'\n").unwrap();
    assert_eq!(place.run(&["plan", "sizes.py", "--gpu=4070"]).code, Some(0));
}
