//! `demo` and `completions`.

use std::{fs, process::Command};

use serde_json::Value;

use crate::program::TestFolder;

#[test]
fn every_step_of_the_demo_passes_and_its_folder_can_be_kept() {
    let place = TestFolder::new();
    let ran = place.run(&["demo", "--json", "--keep=kept"]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let report = ran.json();
    let steps = report["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["doctor", "fit", "plan", "limit", "split", "resume"]);
    for step in steps {
        // Only Linux enforces a limit of the address space.
        let is_shown = step["name"] != "limit" || cfg!(target_os = "linux");
        assert_eq!(step["passed"], is_shown, "{step}");
    }
    // Commands are printed as a user would type them.
    for typed in [
        "$ fitgpt doctor oom.log --config oom.py\n",
        "$ fitgpt plan oom.py --engine torch --gpu 4070\n",
        "$ fitgpt train small.py --batch_size=4 --gradient_accumulation_steps=4 --out_dir=4x4\n",
        "$ fitgpt train --init_from=resume --out_dir=killed\n",
    ] {
        assert!(ran.stderr.contains(typed), "{typed}{}", ran.stderr);
    }
    assert!(place.path("kept/killed/model.safetensors").exists());
    // The screen has a page, the folder the rest.
    let lines = ran.stderr.lines().count();
    assert!(lines < 70, "{lines} lines:\n{}", ran.stderr);
    let output = fs::read_to_string(place.path("kept/output.txt")).unwrap();
    assert!(
        output.contains("$ fitgpt doctor oom.log --config oom.py\n") && output.contains("iter 10:")
    );

    // A folder that is not empty is refused.
    let ran = place.run(&["demo", "--keep=kept"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stdout);
    assert!(ran.stderr.contains("`kept`"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn a_failing_step_of_the_demo_is_named_and_nothing_is_left() {
    let place = TestFolder::new();
    let temporary = place.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let program = place.command(&["demo"]);
    let mut command = Command::new("/bin/sh");
    // With a file-size limit of zero, the first step cannot write its log.
    command.args(["-c", "ulimit -f 0 && exec \"$@\"", "sh"]).arg(program.get_program());
    command.arg("demo").env("LC_ALL", "C").env("TMPDIR", &temporary);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: step 1 of the demo, "), "{stderr}");
    assert!(stderr.contains("oom.log"), "{stderr}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn known_shells_get_completions_and_others_an_error() {
    let place = TestFolder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!(ran.code, Some(0), "{shell}: {}", ran.stderr);
        assert!(ran.stdout.contains("gradient_accumulation_steps"), "{shell}");
        let has_cards = ran.stdout.contains("RTX-4070-Ti");
        assert_eq!(has_cards, ["bash", "zsh", "fish"].contains(&shell), "{shell}");
    }
    let ran = place.run(&["completions", "csh", "--json"]);
    assert_eq!(ran.code, Some(2), "`--json` is no flag of it either: {}", ran.stdout);
    let error: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
}

#[cfg(target_os = "linux")]
#[test]
fn bash_completes_commands_and_keys() {
    let place = TestFolder::new();
    fs::write(place.path("fitgpt.bash"), place.run(&["completions", "bash"]).stdout).unwrap();
    let bash = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["--norc", "-c", script]).current_dir(place.path("."));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    bash("bash -n fitgpt.bash");
    let complete = |words: &str, last: &str| {
        bash(&format!(
            "source ./fitgpt.bash; COMP_WORDS=({words} {last}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _fitgpt fitgpt '{last}' ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        ))
    };
    assert_eq!(complete("fitgpt train", "--batch_s"), "--batch_size\n");
    assert_eq!(complete("fitgpt", "dev"), "devices\n");
    let cards = bash(
        "source ./fitgpt.bash; COMP_WORDS=(fitgpt plan --gpu RTX-407); COMP_CWORD=3; \
         _fitgpt fitgpt RTX-407 --gpu; printf '%s\\n' \"${COMPREPLY[@]}\"",
    );
    assert!(cards.contains("RTX-4070\n") && cards.contains("RTX-4070-Ti\n"), "{cards}");
}
