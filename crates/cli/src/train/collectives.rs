//! The order in which ranks agree and exchange messages during `train`.
//!
//! Ranks wait for each other, so all must take the same steps, also if one of them fails. Here they
//! are threads of one process. Snapshots show the sequence of each rank; in every run an agreement
//! with different partners, or of another size, stops the test.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, rc::Rc, sync::Once, thread};

use super::*;
use crate::command;

const SMALL: &[&str] = &[
    "--vocab_size=61",
    "--n_layer=1",
    "--n_head=1",
    "--n_embd=8",
    "--block_size=8",
    "--batch_size=1",
    "--gradient_accumulation_steps=6",
    "--max_iters=1",
    "--eval_interval=1",
    "--eval_iters=1",
    "--sample_interval=1",
    "--max_new_tokens=2",
    "--num_samples=1",
    "--device=cpu",
    "--threads=1",
    "--json",
];

/// How a rank ended, and what it did until then.
#[derive(Debug)]
struct RankRecord {
    end: String,
    steps: Vec<String>,
}

impl RankRecord {
    fn agreements(&self) -> usize {
        self.steps.iter().filter(|step| *step == "agree").count()
    }
}

/// Which rank fails, and after how many agreements.
#[derive(Clone, Copy)]
struct PlannedFailure {
    rank: usize,
    after: usize,
}

/// A dataset of random tokens in a new folder.
fn new_folder() -> tempfile::TempDir {
    // Only the root of a real run prints.
    static QUIET: Once = Once::new();
    QUIET.call_once(terminal::only_errors);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("tiny");
    fs::create_dir(&data).unwrap();
    let tokens: Vec<u8> = (0..4000u32).flat_map(|n| ((n * n % 61) as u16).to_le_bytes()).collect();
    for file in ["train.bin", "val.bin"] {
        fs::write(data.join(file), &tokens).unwrap();
    }
    folder
}

/// Runs `train` with as many ranks; returns the record of each.
fn train_with(
    count: usize,
    folder: &Path,
    more: &[&str],
    failure: Option<PlannedFailure>,
) -> Vec<RankRecord> {
    let dataset = format!("--dataset={}", folder.join("tiny").display());
    let out_dir = format!("--out_dir={}", folder.join("out").display());
    let own = ["fitgpt", "train", &dataset, &out_dir];
    let all: Vec<String> =
        own.iter().chain(SMALL).chain(more).map(|arg| (*arg).to_owned()).collect();
    let ranks = Ranks::connected(count).enumerate().map(|(rank, connect)| {
        let all = all.clone();
        thread::spawn(move || {
            let matches = command::command().try_get_matches_from(all).unwrap();
            let (_, matches) = matches.subcommand().unwrap();
            let ranks = Rc::new(connect());
            if let Some(failure) = failure.filter(|failure| failure.rank == rank) {
                ranks.fail_after(failure.after);
            }
            let end = match run_as(matches, OutputStyle::Json, &ranks) {
                Ok(outcome) => format!("{outcome:?}"),
                Err(_) => "failed".to_owned(),
            };
            RankRecord { end, steps: ranks.recorded() }
        })
    });
    let ranks: Vec<_> = ranks.collect();
    ranks.into_iter().map(|rank| rank.join().expect("a rank has panicked")).collect()
}

/// One line for each step, repeated ones counted.
fn text(records: &[RankRecord]) -> String {
    let mut text = String::new();
    for (rank, record) in records.iter().enumerate() {
        let _ = writeln!(text, "rank {rank}: {}", record.end);
        for same in record.steps.chunk_by(|a, b| a == b) {
            let _ = writeln!(text, "{:4} × {}", same.len(), same[0]);
        }
    }
    text
}

#[test]
fn ranks_agree_and_exchange_in_the_recorded_order() {
    for count in 1..=3 {
        let folder = new_folder();
        let fresh = train_with(count, folder.path(), &[], None);
        assert!(fresh.iter().all(|rank| rank.end == "Yes"), "{fresh:?}");
        insta::assert_snapshot!(format!("fresh_{count}"), text(&fresh));
        let resume = ["--init_from=resume", "--max_iters=2"];
        let resumed = train_with(count, folder.path(), &resume, None);
        assert!(resumed.iter().all(|rank| rank.end == "Yes"), "{resumed:?}");
        insta::assert_snapshot!(format!("resumed_{count}"), text(&resumed));
    }
}

#[test]
fn all_ranks_end_together_wherever_one_fails() {
    for count in 1..=3 {
        let folder = new_folder();
        let whole = train_with(count, folder.path(), &[], None);
        let agreements = whole[0].agreements();
        assert!(agreements > 12, "{agreements}");
        let failing: BTreeSet<_> = [0, count - 1].into();
        for (rank, after) in failing.iter().flat_map(|rank| (0..agreements).map(|n| (*rank, n))) {
            let folder = new_folder();
            let failure = PlannedFailure { rank, after };
            let records = train_with(count, folder.path(), &[], Some(failure));
            let place = format!("{count} ranks, {rank} fails after {after}: {}", text(&records));
            // An answer is no, or an error: in either case all ranks end alike.
            let ends: BTreeSet<_> = records.iter().map(|record| record.end.as_str()).collect();
            assert!(ends == ["No"].into() || ends == ["failed"].into(), "{place}");
            let agreements: BTreeSet<_> = records.iter().map(RankRecord::agreements).collect();
            assert!(agreements == [after + 1].into(), "{place}");
        }
    }
}
