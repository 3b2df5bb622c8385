//! Diagnoses generated logs for a number of seconds.
//!
//!     cargo run --release -p fitgpt-doctor --example fuzz -- 60
//!
//! Input `n` is the same on every machine: a panic prints its number, and a second argument starts
//! there.

#[path = "../tests/inputs/mod.rs"]
mod inputs;

use std::{
    env, fs,
    io::{self, Write as _},
    panic,
    time::{Duration, Instant},
};

use inputs::{Numbers, examine, log};

fn main() -> io::Result<()> {
    let argument = |index: usize| env::args().nth(index).and_then(|word| word.parse::<u64>().ok());
    let limit = Duration::from_secs(argument(1).unwrap_or(10));
    let first = argument(2).unwrap_or(0);
    let mut examples = Vec::new();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))? {
        let path = file?.path();
        if path.extension().is_some_and(|end| end == "log") {
            examples.push((path.clone(), fs::read(path)?));
        }
    }
    examples.sort(); // by name: a folder has no order
    let examples: Vec<_> = examples.into_iter().map(|(_, bytes)| bytes).collect();

    let begin = Instant::now();
    let (mut number, mut bytes) = (first, 0_u64);
    let mut worst = (Duration::ZERO, 0, 0);
    let mut out = io::stdout().lock();
    while begin.elapsed() < limit {
        let mut numbers = Numbers::new(number);
        let input = log(&mut numbers, &examples);
        let start = Instant::now();
        let answer = panic::catch_unwind(move || {
            let diagnosis = examine(&mut numbers, &input);
            serde_json::to_string(&diagnosis).map(|_| input.len())
        });
        let Ok(Ok(length)) = answer else {
            writeln!(out, "input {number} has no answer")?;
            std::process::exit(1);
        };
        worst = worst.max((start.elapsed(), length, number));
        bytes += length as u64;
        number += 1;
    }
    let (time, length, at) = worst;
    let (count, seconds) = (number - first, begin.elapsed().as_secs());
    writeln!(out, "{count} inputs, {bytes} bytes, {seconds} s")?;
    writeln!(out, "slowest: input {at}, {length} bytes, {} ms", time.as_millis())
}
