//! Unified diffs for `patch -p1` and `git apply`.

use std::ops::Range;

/// Lines around a change.
const CONTEXT: usize = 3;

/// The changes of one file; empty if there are none.
pub fn unified_diff(name: &str, before: &str, after: &str) -> String {
    let old: Vec<_> = before.split_inclusive('\n').collect();
    let new: Vec<_> = after.split_inclusive('\n').collect();
    let mut text = String::new();
    for hunk in hunks(&changes(&old, &new)) {
        if text.is_empty() {
            text = format!("--- a/{name}\n+++ b/{name}\n");
        }
        let (first, last) = (&hunk[0], &hunk[hunk.len() - 1]);
        let lead = first.old.start.min(CONTEXT);
        let tail = (old.len() - last.old.end).min(CONTEXT);
        let old_lines = first.old.start - lead..last.old.end + tail;
        let new_lines = first.new.start - lead..last.new.end + tail;
        text.extend(["@@ -", &place(&old_lines), " +", &place(&new_lines), " @@\n"]);
        let mut at = old_lines.start;
        for change in hunk {
            push(&mut text, ' ', &old[at..change.old.start]);
            push(&mut text, '-', &old[change.old.clone()]);
            push(&mut text, '+', &new[change.new.clone()]);
            at = change.old.end;
        }
        push(&mut text, ' ', &old[at..old_lines.end]);
    }
    text
}

/// Removed lines, and the lines that replace them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LineChange {
    old: Range<usize>,
    new: Range<usize>,
}

/// The shortest edit script from `old` to `new`, after Myers (1986): `furthest[k]` is how far
/// diagonal `k` reaches in `old` with the current number of insertions and deletions. A patch
/// changes few lines, so few rows are kept for the walk back.
fn changes(old: &[&str], new: &[&str]) -> Vec<LineChange> {
    let (n, m) = (old.len() as isize, new.len() as isize);
    let mut rows: Vec<Vec<isize>> = Vec::new();
    let mut furthest = vec![0; 2];
    'search: for d in 0..=n + m {
        // Row `d` holds diagonals -d-1 to d+1; its middle is index d + 1.
        let mut row = vec![-1; 2 * d as usize + 3];
        for k in (-d..=d).step_by(2) {
            let from = |k: isize| furthest.get((k + d) as usize).copied().unwrap_or(-1);
            let down = k == -d || (k != d && from(k - 1) < from(k + 1));
            let mut x = if d == 0 {
                0
            } else if down {
                from(k + 1)
            } else {
                from(k - 1) + 1
            };
            while x < n && x - k < m && old[x as usize] == new[(x - k) as usize] {
                x += 1;
            }
            row[(k + d + 1) as usize] = x;
            if x >= n && x - k >= m {
                rows.push(row);
                break 'search;
            }
        }
        furthest.clone_from(&row);
        rows.push(row);
    }
    walk_back(&rows, n, m)
}

fn walk_back(rows: &[Vec<isize>], n: isize, m: isize) -> Vec<LineChange> {
    let (mut x, mut y) = (n, m);
    let mut changes: Vec<LineChange> = Vec::new();
    for d in (1..rows.len() as isize).rev() {
        let k = x - y;
        let from = |k: isize| rows[d as usize - 1].get((k + d) as usize).copied().unwrap_or(-1);
        let down = k == -d || (k != d && from(k - 1) < from(k + 1));
        let before = if down { k + 1 } else { k - 1 };
        (x, y) = (from(before), from(before) - before);
        let (old, new) = (x as usize, y as usize);
        let step =
            LineChange { old: old..old + usize::from(!down), new: new..new + usize::from(down) };
        match changes.last_mut() {
            Some(next) if next.old.start == step.old.end && next.new.start == step.new.end => {
                (next.old.start, next.new.start) = (step.old.start, step.new.start);
            }
            _ => changes.push(step),
        }
    }
    changes.reverse();
    changes
}

/// Changes whose contexts touch.
fn hunks(changes: &[LineChange]) -> impl Iterator<Item = &[LineChange]> {
    changes.chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT)
}

/// `first,count`, counted from 1; an empty range names the line before it.
fn place(lines: &Range<usize>) -> String {
    let first = if lines.is_empty() { lines.start } else { lines.start + 1 };
    format!("{first},{}", lines.len())
}

fn push(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        text.push(mark);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(unified_diff("a", "x\ny\n", "x\ny\n"), "");
        assert_eq!(unified_diff("a", "", ""), "");
    }

    #[test]
    fn a_change_has_three_lines_around_it() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace("5\n", "five\n");
        let diff = unified_diff("a.py", before, &after);
        let expected =
            "--- a/a.py\n+++ b/a.py\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        assert_eq!(diff, expected);
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let lines: Vec<_> = (0..30).map(|n| format!("{n}\n")).collect();
        let before = lines.concat();
        let near = before.replace("\n5\n", "\nx\n").replace("\n12\n", "\ny\n");
        assert_eq!(unified_diff("a", &before, &near).matches("@@ -").count(), 1);
        let far = before.replace("\n5\n", "\nx\n").replace("\n13\n", "\ny\n");
        assert_eq!(unified_diff("a", &before, &far).matches("@@ -").count(), 2);
    }

    #[test]
    fn a_missing_last_line_feed_is_marked() {
        let diff = unified_diff("a", "1\n2", "1\n2\n");
        assert!(diff.ends_with(" 1\n-2\n\\ No newline at end of file\n+2\n"), "{diff}");
    }

    #[test]
    fn an_empty_side_is_line_zero() {
        assert!(unified_diff("a", "", "1\n").contains("@@ -0,0 +1,1 @@\n+1\n"));
        assert!(unified_diff("a", "1\n", "").contains("@@ -1,1 +0,0 @@\n-1\n"));
    }

    /// Reads a diff as `patch` does, and applies it.
    fn patched(before: &str, diff: &str) -> String {
        let old: Vec<_> = before.split_inclusive('\n').collect();
        let (mut result, mut at) = (String::new(), 0);
        for line in diff.lines().skip(2) {
            if let Some(hunk) = line.strip_prefix("@@ -") {
                let (first, rest) = hunk.split_once(',').unwrap();
                let is_empty = rest.starts_with("0 ");
                let first = first.parse::<usize>().unwrap() - usize::from(!is_empty);
                result.push_str(&old[at..first].concat());
                at = first;
            } else if let Some(new) = line.strip_prefix('+') {
                result.extend([new, "\n"]);
            } else {
                assert_eq!(format!("{}\n", &line[1..]), old[at]);
                if line.starts_with(' ') {
                    result.push_str(old[at]);
                }
                at += 1;
            }
        }
        result + &old[at..].concat()
    }

    proptest::proptest! {
        #[test]
        fn applying_a_diff_gives_the_other_text(
            before in "([a-d]\n){0,30}",
            after in "([a-d]\n){0,30}",
        ) {
            let diff = unified_diff("a", &before, &after);
            assert_eq!(patched(&before, &diff), after, "{diff}");
        }
    }
}
