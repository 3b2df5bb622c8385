//! Output on a terminal.

use std::process::{Command, Stdio};

use crate::program::{TINY, TestFolder};

/// Everything that a command prints to its terminal, a pseudo-terminal of `script` (util-linux).
fn on_a_terminal(place: &TestFolder, args: &[&str], term: &str) -> String {
    let command = place.command(args);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let line: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line.join(" "), "/dev/null"]);
    script.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    script.env("LC_ALL", "C").env("TERM", term).env_remove("NO_COLOR");
    let output = script.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args:?}: {printed}");
    printed
}

#[test]
fn a_dumb_terminal_gets_no_escape_sequences() {
    let place = TestFolder::new();
    let train = [&["train", "--max_iters=3", "--overwrite"], TINY, &["--out_dir=out"]].concat();
    let commands: [&[&str]; 3] = [&["--help"], &["plan", "--help"], &train];
    for args in commands {
        // The check can fail: another terminal gets colours or a progress line.
        let xterm = on_a_terminal(&place, args, "xterm");
        assert!(xterm.contains('\x1b'), "{args:?}: {xterm:?}");
        let dumb = on_a_terminal(&place, args, "dumb");
        assert!(!dumb.contains('\x1b'), "{args:?}: {dumb:?}");
        assert!(dumb.len() > 100, "{args:?}: {dumb:?}");
    }
}
