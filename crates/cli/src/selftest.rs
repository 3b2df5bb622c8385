//! `fitgpt devices --selftest`: compares every op on a device with the reference and times it.

use std::fmt::Write as _;

use clap::ArgMatches;
use fitgpt_commands::{Failure, plan};
use fitgpt_config::{Config, Written};
use fitgpt_run::{
    device::Runner,
    selftest::{SelfTest, TestedOp, selftest},
};
use serde_json::json;

use super::{Outcome, OutputStyle, args};
use crate::{
    terminal,
    words::{self, bench, names, percent, selftest as text_of},
};

/// The job whose ops are timed: nanoGPT's 124M on a card, a small model if kernels run on the CPU.
const ON_A_CARD: [(&str, &str); 2] = [("batch_size", "4"), ("block_size", "1024")];
const ON_A_CPU: [(&str, &str); 6] = [
    ("n_layer", "2"),
    ("n_head", "4"),
    ("n_embd", "128"),
    ("block_size", "64"),
    ("batch_size", "4"),
    ("vocab_size", "256"),
];

/// The most wrong tensors that are listed.
const LISTED: usize = 20;

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let asked = args::written(matches, None)?;
    let runner = Runner::of(&asked.clone().resolve()?)?;
    let mut written = Written::new();
    let keys = if runner.is_card() { &ON_A_CARD[..] } else { &ON_A_CPU };
    for (key, value) in keys {
        written.set(key, value)?;
    }
    written.merge(asked);
    let config = written.resolve()?;
    let test = selftest(&runner, &config, plan::vocab(&config)?, &mut |op| {
        if terminal::is_watched() {
            terminal::progress(&text_of::testing(op));
        }
    });
    if terminal::is_watched() {
        terminal::clear_progress();
    }
    match style {
        OutputStyle::Json => {
            let (name, interface) = runner.gpu().unwrap_or(("CPU", "host"));
            let answer = json!({
                "version": env!("CARGO_PKG_VERSION"),
                "device": { "name": name, "interface": interface, "driver": runner.driver() },
                "passed": test.is_passed(),
                "selftest": test,
            });
            terminal::json(&answer);
        }
        OutputStyle::Text => terminal::out(&text(&runner, &config, &test)),
    }
    Ok(if test.is_passed() { Outcome::Yes } else { Outcome::No })
}

/// The report.
fn text(runner: &Runner, config: &Config, test: &SelfTest) -> String {
    let mut text = format!("{}\n", text_of::title(env!("CARGO_PKG_VERSION")));
    let mut line = |label: String, content: &str| {
        let _ = writeln!(text, "{} {content}", words::left(&label, 10));
    };
    match runner.gpu() {
        None => line(text_of::label_device(), "CPU"),
        Some((name, interface)) => line(text_of::label_device(), &format!("{name} · {interface}")),
    }
    if let Some(driver) = runner.driver() {
        line(text_of::label_driver(), driver);
    }
    if test.ops.iter().any(|op| op.time.is_some()) {
        let (batch, block) = (config.batch_size(), config.block_size());
        let precision = runner.precision(config).name();
        let timed = text_of::timed(batch, block, precision, config.n_layer(), config.n_embd());
        line(text_of::label_timed(), &timed);
    }
    let columns = [
        words::left(&bench::op(), 28),
        words::left(&text_of::types(), 28),
        words::right(&text_of::tensors(), 9),
        words::right(&text_of::error(), 9),
        words::right(&text_of::result(), 12),
        words::right(&bench::time(), 13),
        words::right(&text_of::at_best(), 13),
        words::right(&bench::of_bound(), 16),
    ];
    let _ = writeln!(text, "\n{}", columns.concat());
    for op in &test.ops {
        let _ = writeln!(text, "{}", row(op));
    }
    let _ = writeln!(text, "{}\n", text_of::legend());
    let failures: Vec<_> = test.ops.iter().flat_map(|op| &op.failures).collect();
    for failure in failures.iter().take(LISTED) {
        let _ = writeln!(text, "{failure}");
    }
    let seconds = format!("{:.0}", test.seconds);
    if test.is_passed() {
        let _ = writeln!(text, "{}", text_of::all_passed(test.tensors(), seconds));
        let _ =
            writeln!(text, "{}", names::next(format!("fitgpt bench --device={}", device(runner))));
        return text;
    }
    let ended = match &test.error {
        Some(error) => text_of::ended(error),
        None => text_of::failed(failures.len(), test.tensors(), seconds),
    };
    let _ = writeln!(text, "{ended}");
    let _ = writeln!(text, "{}{}", names::hint(), text_of::instead(instead(runner)));
    text
}

/// The value of `--device` that names the device.
fn device(runner: &Runner) -> &'static str {
    match runner.gpu() {
        None => "cpu",
        Some((_, "CUDA")) => "cuda",
        Some((_, "Vulkan")) => "vulkan",
        Some(_) => "gpu",
    }
}

/// The device to use instead of one that failed.
fn instead(runner: &Runner) -> &'static str {
    if device(runner) == "cuda" { "vulkan" } else { "cpu" }
}

/// One op.
fn row(op: &TestedOp) -> String {
    let types: Vec<_> = op.types.iter().copied().collect();
    let error = op.worst.map_or_else(|| "∞".to_owned(), percent);
    let result = match op.failures.len() {
        0 => text_of::passed(),
        count => text_of::wrong(count),
    };
    let ms = |ms: f64| format!("{ms:.3} ms");
    let time = op.time.map_or_else(String::new, |time| ms(time.ms));
    let bound = op.time.and_then(|time| time.bound_ms);
    let share = op.time.and_then(|time| Some(percent(time.bound_ms? / time.ms)));
    let columns = [
        words::left(op.op, 28),
        words::left(&types.join(" "), 28),
        words::right(&op.tensors.to_string(), 9),
        words::right(&error, 9),
        words::right(&result, 12),
        words::right(&time, 13),
        words::right(&bound.map_or_else(String::new, ms), 13),
        words::right(&share.unwrap_or_default(), 16),
    ];
    columns.concat().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn report(failures: &[&str], error: Option<&str>) -> (bool, String) {
        let config = Written::new().resolve().unwrap();
        let op = TestedOp {
            op: "attention",
            types: BTreeSet::from(["float32"]),
            tensors: 12,
            worst: None,
            failures: failures.iter().map(ToString::to_string).collect(),
            time: None,
        };
        let error = error.map(str::to_owned);
        let test = SelfTest { ops: vec![op], error, seconds: 3.0 };
        (test.is_passed(), text(&Runner::cpu(&config), &config, &test))
    }

    #[test]
    fn a_wrong_op_fails_the_test_and_is_listed() {
        let (is_passed, text) = report(&["`out`[3] is NaN, expected 1"], None);
        assert!(!is_passed);
        for part in ["`out`[3] is NaN", "1 wrong", "1 of 12 tensors are wrong", "--device=cpu"] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }

    #[test]
    fn a_device_that_fails_ends_the_test_with_its_error() {
        let error = "the device `a card` failed: `cuLaunchKernel` failed: CUDA_ERROR_LAUNCH_FAILED";
        let (is_passed, text) = report(&[], Some(error));
        assert!(!is_passed && text.contains(error) && text.contains("issue"), "{text}");
    }
}
