//! `docs/advice.md`: every command of its table prints what the table says.

use std::fs;

use crate::{program::TestFolder, verdicts::NOTES};

const TABLE: &str = include_str!("../../docs/advice.md");

/// Advice as people write it.
const NOTE: &str = "# How to fix CUDA out of memory\n\n\
    **Recommended solution:** set `eval_batch_size=4`; nanoGPT knows it.\n\
    **Option 2, also recommended:** `compile=False` saves 1 to 2 GB.\n\
    **Option 3:** go from 16 x 32 to `batch_size=8` and `gradient_accumulation_steps=64`.\n\n\
    The KV cache takes 1.6 GB, and fewer `eval_iters` save memory.\n";

/// Texts in backticks, in order.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_piece_of_advice_is_answered_as_the_table_says() {
    let place = TestFolder::new();
    fs::write(place.path("notes.py"), NOTES).unwrap();
    fs::write(place.path("note.txt"), NOTE).unwrap();
    let rows: Vec<Vec<&str>> = TABLE
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| #"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut numbers: Vec<u32> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    numbers.dedup();
    assert_eq!(numbers, (1..=22).collect::<Vec<_>>());
    for row in &rows {
        let [_, advice, command, answer, verdict] = row[..] else { panic!("{row:?}") };
        let command = quoted(command)[0].strip_prefix("fitgpt ").unwrap();
        let args: Vec<_> = command.split(' ').collect();
        let ran = place.run(&args);
        let printed = format!("{}{}", ran.stderr, ran.stdout);
        // Pages are wrapped.
        let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
        let answers = quoted(answer);
        assert!(!answers.is_empty(), "{advice}");
        for text in answers {
            assert!(printed.contains(text), "{advice}: no `{text}` in\n{printed}");
        }
        let is_known = ["yes", "no", "only if"].iter().any(|word| verdict.starts_with(word));
        assert!(is_known, "{advice}: {verdict}");
    }
}
