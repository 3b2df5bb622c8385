//! Changes values in a config file's text and keeps the rest: comments, order and other keys.

use std::collections::BTreeSet;

use super::{
    error::{ConfigError, Location},
    key::Key,
    python::{self, PythonError},
    value::ConfigValue,
};

/// The text of a config file with some keys changed. `source` names it in errors.
///
/// A value is changed in place, with three exceptions: another expression reads the key and would
/// change too; the old expression is the only use of a name that the file defines; the file does
/// not have the key. Then an assignment is added at the end under `heading`, which overrides
/// earlier ones.
pub fn rewrite(
    source: &str,
    text: &str,
    heading: &str,
    changes: &[(&'static str, ConfigValue)],
) -> Result<String, ConfigError> {
    let assignments = python::parse_file(text).map_err(|PythonError { position, reason }| {
        let (line, column) = (Some(position.line), Some(position.column));
        ConfigError::Python { place: Location { source: source.to_owned(), line, column }, reason }
    })?;
    let mut read = BTreeSet::new();
    for assignment in &assignments {
        assignment.value.for_each_name(&mut |name| {
            read.insert(name);
        });
    }

    let mut edits = Vec::new(); // a range of bytes and what to put there
    let mut added = Vec::new();
    for (key, value) in changes {
        let written: Vec<_> =
            assignments.iter().filter(|a| a.targets.iter().any(|(name, _)| name == key)).collect();
        let can_change = |assignment: &&python::Assignment| {
            let mut reads_keys_only = true;
            let mut check = |name: &str| reads_keys_only &= Key::find(name).is_some();
            assignment.value.for_each_name(&mut check);
            assignment.targets.len() == 1 && reads_keys_only
        };
        if written.is_empty() || read.contains(key) || !written.iter().all(can_change) {
            added.push((key, value));
            continue;
        }
        for assignment in written {
            let [start, end] = assignment.bytes_after.map(|behind| text.len() - behind);
            // Keeps white space before the value, but not a line continuation.
            let blanks = text[start..end].bytes().take_while(|b| matches!(b, b' ' | b'\t'));
            edits.push((start + blanks.count()..end, value));
        }
    }

    let mut result = text.to_owned();
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, value) in edits {
        result.replace_range(range, &value.to_string());
    }
    if !added.is_empty() {
        let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        if !result.is_empty() && !result.ends_with(['\n', '\r']) {
            result.push_str(end);
        }
        if !result.is_empty() {
            result.push_str(end);
        }
        result.extend(["# ", heading, end]);
        for (key, value) in added {
            result.extend([key, " = ", &value.to_string(), end]);
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Config, MachineFacts, Written};

    const HEADING: &str = "added";

    fn read(text: &str) -> Config {
        let mut written = Written::new();
        written.read_python("t.py", text, &MachineFacts::default()).unwrap();
        written.resolve().unwrap()
    }

    fn rewritten(text: &str, changes: &[(&'static str, ConfigValue)]) -> String {
        let result = rewrite("t.py", text, HEADING, changes).unwrap();
        let expected = read(text).with("changes", changes.iter().cloned()).unwrap();
        assert_eq!(read(&result), expected, "{result}");
        result
    }

    #[test]
    fn a_value_changes_and_its_comment_stays() {
        let table = [
            ("batch_size = 12 # mine\n", "batch_size = 8 # mine\n"),
            ("batch_size=12#mine", "batch_size=8#mine"),
            ("a = 1; batch_size = a; \n", "a = 1; batch_size = a; \n\n# added\nbatch_size = 8\n"),
            ("n_layer = 2; batch_size = (4 *\n 3) # c\n", "n_layer = 2; batch_size = 8 # c\n"),
            ("batch_size = \\\n  12\n", "batch_size = 8\n"),
            ("batch_size = 3\nbatch_size = 4\n", "batch_size = 8\nbatch_size = 8\n"),
            ("\u{feff}batch_size = 3 # é\r\n", "\u{feff}batch_size = 8 # é\r\n"),
            (
                "out_dir = '# batch_size = 1'\n",
                "out_dir = '# batch_size = 1'\n\n# added\nbatch_size = 8\n",
            ),
            ("n_layer = 2 # no end", "n_layer = 2 # no end\n\n# added\nbatch_size = 8\n"),
            ("n_layer = 2\r\n", "n_layer = 2\r\n\r\n# added\r\nbatch_size = 8\r\n"),
            ("", "# added\nbatch_size = 8\n"),
        ];
        for (text, expected) in table {
            assert_eq!(rewritten(text, &[("batch_size", ConfigValue::Int(8))]), expected);
        }
    }

    #[test]
    fn a_key_that_other_expressions_read_is_overridden_at_the_end() {
        let table = [
            "batch_size = 12\ngradient_accumulation_steps = 480 // batch_size\n",
            "batch_size = 12\nbatch_size *= 2\n",
            "batch_size = n_layer = 12\n",
            "width = 6\nbatch_size = 2 * width\n",
        ];
        for text in table {
            let added = format!("{text}\n# added\nbatch_size = 8\n");
            assert_eq!(rewritten(text, &[("batch_size", ConfigValue::Int(8))]), added);
        }
        let text = "batch_size = 12\ngradient_accumulation_steps = 480 // batch_size # all\n";
        let changes = [
            ("batch_size", ConfigValue::Int(6)),
            ("gradient_accumulation_steps", ConfigValue::Int(80)),
        ];
        assert_eq!(
            rewritten(text, &changes),
            "batch_size = 12\ngradient_accumulation_steps = 80 # all\n\n# added\nbatch_size = 6\n"
        );
    }

    #[test]
    fn a_text_that_is_not_a_config_is_refused_with_its_location() {
        let error = rewrite("t.py", "\nbatch_size = [1]\n", HEADING, &[]).unwrap_err();
        assert!(error.to_string().starts_with("t.py:2:14"), "{error}");
    }

    /// One line of a user's file.
    fn line() -> impl Strategy<Value = String> {
        let number = prop_oneof![
            (1_u32..64).prop_map(|n| n.to_string()),
            (1_u32..9, 1_u32..9).prop_map(|(a, b)| format!("({a} *\n  {b})")),
            (1_u32..9).prop_map(|a| format!("{a} + batch_size")),
            (1_u32..9).prop_map(|a| format!("\\\n {a}")),
        ];
        let key = prop_oneof![
            Just("batch_size"),
            Just("gradient_accumulation_steps"),
            Just("eval_iters"),
            Just("n_layer"),
            Just("batch_size = n_layer"),
        ];
        let comment = prop_oneof![Just(""), Just(" # batch_size = 3"), Just("  ;"), Just("#'é")];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n")];
        let assigned = (key, number, comment).prop_map(|(k, n, c)| format!("{k} = {n}{c}"));
        let other = prop_oneof![
            Just("# a comment".to_owned()),
            Just("import time".to_owned()),
            Just("out_dir = \"x # y\"".to_owned()),
            Just("batch_size += 1".to_owned()),
            Just("local = 3\nn_head = 4 * local".to_owned()),
            Just("'''batch_size = 7\n'''".to_owned()),
        ];
        (prop_oneof![3 => assigned, 1 => other], end).prop_map(|(line, end)| line + end)
    }

    fn change() -> impl Strategy<Value = (&'static str, ConfigValue)> {
        prop_oneof![
            (1_i64..64).prop_map(|n| ("batch_size", ConfigValue::Int(n))),
            (1_i64..64).prop_map(|n| ("gradient_accumulation_steps", ConfigValue::Int(n))),
            (1_i64..64).prop_map(|n| ("eval_iters", ConfigValue::Int(n))),
            (1_i64..64).prop_map(|n| ("eval_batch_size", ConfigValue::Int(n))),
            (0..2).prop_map(|n| ("compile", ConfigValue::Bool(n == 0))),
            Just(("n_head", ConfigValue::Int(6))),
            Just(("dtype", ConfigValue::from("float16"))),
        ]
    }

    proptest! {
        #[test]
        fn a_rewritten_text_reads_as_the_changed_config(
            lines in prop::collection::vec(line(), 0..12),
            changes in prop::collection::vec(change(), 0..5),
        ) {
            let mut changes = changes;
            changes.sort_by_key(|(key, _)| *key);
            changes.dedup_by_key(|(key, _)| *key);
            let text = lines.concat();
            let mut comments = text.lines().filter(|line| line.starts_with("# a comment"));
            let result = rewritten(&text, &changes);
            prop_assert!(comments.all(|line| result.contains(line)));
        }
    }
}
