//! The outputs of a run in addition to its checkpoint: its folder's name, a model card, event
//! files.

use std::fs;

use crate::program::{TINY, TestFolder, events};

#[test]
fn the_built_in_presets_folder_follows_the_dataset() {
    let place = TestFolder::new();
    let small = ["--vocab_size=61", "--n_layer=1", "--n_head=1", "--n_embd=8", "--block_size=8"];
    let rest = ["--batch_size=1", "--max_iters=1", "--eval_iters=1", "--device=cpu", "--json"];
    let few = [&small[..], &rest].concat();
    for dataset in ["--dataset=tiny", "--dataset=data/tiny", "--dataset=data/tiny/"] {
        let ran = place.run(&[&["train", dataset, "--overwrite"], &few[..]].concat());
        assert_eq!(ran.code, Some(0), "{dataset}: {}", ran.stdout);
        assert!(place.path("out-tiny/model.safetensors").is_file());
        assert!(!place.path("out-stories").exists());
        fs::remove_dir_all(place.path("out-tiny/checkpoints")).ok();
    }
    let ran = place.run(&["sample", "--dataset=tiny", "--start=1 2", "--json", "--num_samples=1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    // An explicit folder is kept, and so is nanoGPT's in a config.
    let ran = place.run(&[&["train", "--dataset=tiny", "--out_dir=mine"], &few[..]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert!(place.path("mine/model.safetensors").is_file());
    fs::write(place.path("c.py"), "dataset = 'tiny'\n").unwrap();
    let ran = place.run(&[&["train", "c.py"], &few[..]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert!(place.path("out/model.safetensors").is_file());
    // Weights are found by the folder's bare name.
    let begin = ["train", "--init_from=out-tiny", "--dataset=tiny", "--out_dir=second"];
    let ran = place.run(&[&begin[..], &rest].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
}

#[test]
fn a_config_names_its_folder_with_an_f_string() {
    let place = TestFolder::new();
    let config = "import time, socket\n\
        dataset = 'tiny'\n\
        n_layer = 2\n\
        wandb_log = True\n\
        wandb_run_name = 'run-' + time.strftime('%Y') % (1, [2])\n\
        out_dir = f'out-{dataset}-{n_layer:02d}'\n";
    fs::write(place.path("c.py"), config).unwrap();
    let train = [&["train", "c.py"], TINY, &["--max_iters=1", "--eval_iters=1"]].concat();
    let ran = place.run(&train);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(place.path("out-tiny-02/model.safetensors").is_file());
    assert!(ran.stderr.contains("nothing is sent to W&B; `--tensorboard`"), "{}", ran.stderr);

    let config = config.replace("f'out-{dataset}-{n_layer:02d}'", "'out-' + socket.gethostname()");
    fs::write(place.path("c.py"), config).unwrap();
    let ran = place.run(&train);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = "c.py:6:1: `out_dir` is not known without running the file";
    assert!(
        ran.stderr.contains(expected) && ran.stderr.contains("so `out` is used"),
        "{}",
        ran.stderr
    );
    assert!(place.path("out/model.safetensors").is_file());
}

#[test]
fn a_run_writes_a_model_card_and_keeps_an_edited_one() {
    let place = TestFolder::new();
    place.train(&["--max_iters=4", "--eval_interval=2", "--out_dir=out"]);
    let card = place.path("out/README.md");
    let text = fs::read_to_string(&card).unwrap();
    let evaluation = events(&place.path("out"), "evaluation").pop().unwrap();
    let val_loss = evaluation["val_loss"].as_f64().unwrap();
    for stated in [
        "pipeline_tag: text-generation",
        "`tiny`: 20000 tokens for training, 4000 for validation",
        "| steps | 5, each of 4 sequences (96 tokens) |",
        &format!("| loss at step 4 | training {:.4}", evaluation["train_loss"].as_f64().unwrap()),
        &format!("validation {val_loss:.4} |"),
        "fitgpt train --dataset=tiny",
        "--eval_interval=2 --out_dir=out\n",
        "n_embd = 32",
    ] {
        assert!(text.contains(stated), "{stated}: {text}");
    }
    // It follows the run, and is not part of the checkpoint.
    let resume = |max_iters| {
        let more = format!("--max_iters={max_iters}");
        let ran = place.run(&["train", "--init_from=resume", "--out_dir=out", &more]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        fs::read_to_string(&card).unwrap()
    };
    assert!(resume(6).contains("| steps | 7,"));
    let edited = text.replace("# out\n", "# My model\n");
    assert_ne!(edited, text);
    fs::write(&card, &edited).unwrap();
    assert_eq!(resume(8), edited);
}

#[test]
fn event_files_for_tensorboard_are_written_again_on_resume() {
    let place = TestFolder::new();
    let count = || {
        let files = fs::read_dir(place.path("out/tensorboard")).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let bytes = fs::read(&files[0]).unwrap();
        bytes.windows(9).filter(|window| window == b"step/loss").count()
    };
    place.train(&["--max_iters=5", "--eval_interval=3", "--out_dir=out", "--tensorboard"]);
    assert_eq!(count(), 6);
    let resume = ["train", "--init_from=resume", "--out_dir=out"];
    let ran = place.run(&[&resume[..], &["--max_iters=8", "--tensorboard"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(count(), 9);
    // Steps of a part without the flag are in the log, and so in the next file.
    for (more, expected) in
        [(&["--max_iters=9"][..], 9), (&["--max_iters=10", "--tensorboard"], 11)]
    {
        let ran = place.run(&[&resume[..], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(count(), expected);
    }
}
