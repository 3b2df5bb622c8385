//! Traceback frames as printed by Python, by notebooks and by `rich`.

use std::collections::VecDeque;

use super::squeezed::Offset;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) at: Offset,
    pub(crate) rank: Option<u32>,
    /// As printed; empty if none was.
    pub file: String,
    /// Counted from 1; 0 if none was printed.
    pub line: u32,
    /// Empty if none was printed.
    pub function: String,
    /// The source line; empty if none was printed.
    pub code: String,
}

impl Frame {
    /// A frame of a memory snapshot.
    pub(crate) fn of_snapshot(file: String, line: u32, function: String) -> Self {
        Self { at: 0, rank: None, file, line, function, code: String::new() }
    }

    /// Function and code without white space, so that a wrapped name is whole again.
    pub(crate) fn squeezed(&self) -> String {
        self.function.chars().chain(self.code.chars()).filter(|c| !c.is_whitespace()).collect()
    }

    /// Whether the path of its file ends with `path`.
    pub(crate) fn is_in(&self, path: &str) -> bool {
        self.file.replace('\\', "/").ends_with(path)
    }
}

/// The last frames of the log.
#[derive(Debug, Default)]
pub(super) struct Frames {
    list: VecDeque<Frame>,
    /// Offsets at which tracebacks begin.
    starts: VecDeque<(Offset, Option<u32>)>,
    /// Offsets of the last lines of tracebacks that are not about memory.
    others: VecDeque<Offset>,
    last_other: Option<String>,
    open: Option<(String, u8)>, // a `File "…` that continues on the next line, and lines since
    wants_code: bool,
}

/// Maximum number of frames to keep; Python itself stops at a thousand.
const MOST: usize = 1024;

impl Frames {
    pub(super) fn push(&mut self, line: &str, at: Offset, rank: Option<u32>) {
        if let Some((open, lines)) = self.open.take() {
            let joined = open + line;
            match python(&joined) {
                Some(parts) => return self.add(parts, at, rank),
                None if lines < 3 && joined.len() < 2000 => {
                    self.open = Some((joined, lines + 1));
                    return;
                }
                None => {}
            }
        }
        if line.starts_with("RuntimeError: ") && !is_about_memory(line) {
            self.last_other = Some(line.chars().filter(|c| !c.is_control()).take(200).collect());
        }
        if is_start(line) {
            self.starts.push_back((at, rank));
            if self.starts.len() > MOST {
                self.starts.pop_front();
            }
            self.wants_code = false;
        } else if is_other_error(line) {
            self.others.push_back(at);
            self.last_other = Some(line.chars().filter(|c| !c.is_control()).take(200).collect());
            if self.others.len() > MOST {
                self.others.pop_front();
            }
            self.wants_code = false;
        } else if let Some(parts) = python(line) {
            self.add(parts, at, rank);
        } else if line.starts_with("File \"") {
            self.open = Some((line.to_owned(), 0));
        } else if let Some(parts) = ipython(line).or_else(|| boxed(line)) {
            self.add(parts, at, rank);
            self.wants_code = false; // several source lines follow; an arrow marks the current one
        } else if let Some(code) = arrow(line) {
            let lacks_code = self.list.back().is_some_and(|frame| frame.code.is_empty());
            if !lacks_code {
                self.add((String::new(), 0, String::new()), at, rank);
            }
            if let Some(frame) = self.list.back_mut() {
                code.clone_into(&mut frame.code);
            }
            self.wants_code = false;
        } else if self.wants_code && !line.starts_with('^') && !line.starts_with('~') {
            self.wants_code = false;
            if let Some(frame) = self.list.back_mut() {
                line.clone_into(&mut frame.code);
            }
        }
    }

    fn add(
        &mut self,
        (file, line, function): (String, u32, String),
        at: Offset,
        rank: Option<u32>,
    ) {
        self.list.push_back(Frame { at, rank, file, line, function, code: String::new() });
        if self.list.len() > MOST {
            self.list.pop_front();
        }
        self.wants_code = true;
    }

    /// The last line of the last traceback that is not about memory.
    pub(super) fn last_error(&self) -> Option<String> {
        let has_traceback = !self.starts.is_empty();
        self.last_other.clone().filter(|_| has_traceback)
    }

    /// The frames of the last traceback before `at`, written by the same rank. If there is none,
    /// the message was quoted first, and the frames of the next traceback are returned.
    pub(super) fn around(&self, at: Offset, rank: Option<u32>) -> Vec<Frame> {
        let start = self.starts.iter().rev().find(|(start, r)| *start <= at && *r == rank);
        let from = start.map_or(0, |(start, _)| *start);
        let is_own = |f: &&Frame| f.at >= from && f.at <= at && f.rank == rank;
        let own: Vec<Frame> = self.list.iter().filter(is_own).cloned().collect();
        if own.is_empty() { self.after(at) } else { own }
    }

    /// Several workers write at the same time: a traceback that is cut off by another one continues
    /// in that one.
    fn after(&self, at: Offset) -> Vec<Frame> {
        const CUT: usize = 3;
        let Some(first) = self.list.iter().find(|f| f.at > at) else { return Vec::new() };
        let own = |end: Offset| {
            let is_own = move |f: &&Frame| f.at > at && f.at < end && f.rank == first.rank;
            self.list.iter().filter(is_own)
        };
        let later = self.starts.iter().filter(|(start, r)| *start > first.at && *r == first.rank);
        let ends = later.map(|(start, _)| *start).chain([Offset::MAX]);
        let end = ends.take(CUT).find(|end| own(*end).nth(CUT - 1).is_some());
        let end = end.unwrap_or(Offset::MAX);
        // The traceback of a later failure, such as a file that was never written, says nothing.
        let is_other = self.others.iter().any(|other| (first.at..end).contains(other));
        if is_other { Vec::new() } else { own(end).cloned().collect() }
    }
}

/// The first line of a traceback. The "Original Traceback" of a data loader or a replica
/// continues the traceback around it.
fn is_start(line: &str) -> bool {
    line.contains("Traceback (most recent call last)") && !line.starts_with("Original")
        || line.starts_with("Traceback (most")
}

fn is_about_memory(line: &str) -> bool {
    let words =
        ["memory", "Memory", "alloc", "ALLOC", "OOM", "CUDA", "NCCL", "HIP", "cuDNN", "RESOURCE"];
    words.iter().any(|word| line.contains(word))
}

/// The last line of a traceback that is not about memory: `FileNotFoundError: …`, `AssertionError`.
fn is_other_error(line: &str) -> bool {
    let (name, text) =
        line.split_once(": ").map_or((line, None), |(name, text)| (name, Some(text)));
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    let is_memory = is_about_memory(line);
    is_name && name.ends_with("Error") && name != "RuntimeError" && text != Some("") && !is_memory
}

type FrameParts = (String, u32, String);

/// `File "train.py", line 264, in <module>`, with any spacing.
fn python(line: &str) -> Option<FrameParts> {
    let (file, rest) = line.strip_prefix("File \"")?.split_once('"')?;
    let rest: String = rest.chars().filter(|c| !c.is_whitespace()).collect();
    let rest = rest.strip_prefix(",line")?;
    let (number, function) = rest.split_once(",in")?;
    Some((file.to_owned(), number.parse().ok()?, function.to_owned()))
}

/// `File ~/train.py:264, in estimate_loss()` and `Cell In[5], line 12`.
fn ipython(line: &str) -> Option<FrameParts> {
    if let Some(rest) = line.strip_prefix("File ") {
        let (place, function) = rest.split_once(", in ")?;
        let (file, number) = place.rsplit_once(':')?;
        let function = function.split('(').next().unwrap_or_default();
        return Some((file.to_owned(), number.parse().ok()?, function.to_owned()));
    }
    let rest = line.strip_prefix("Cell In").or_else(|| line.strip_prefix("Input In"))?;
    let (cell, rest) = rest.split_once(']')?;
    let number =
        rest.split_once("line").map(|(_, n)| n.trim_matches(|c: char| !c.is_ascii_digit()));
    let number = number.and_then(|n| n.parse().ok()).unwrap_or(0);
    Some((format!("In{}]", cell.trim_start()), number, String::new()))
}

/// `/home/me/train.py:264 in <module>` as `rich` prints it, and the form of older notebooks:
/// `/home/me/train.py in step(self)` and `<ipython-input-5-d3b07384d113> in <module>`.
fn boxed(line: &str) -> Option<FrameParts> {
    let (place, function) = line.split_once(" in ")?;
    let numbered = place.rsplit_once(':').and_then(|(file, n)| Some((file, n.parse().ok()?)));
    let (file, number) = numbered.unwrap_or((place, 0));
    let is_script = file.rsplit_once('.').is_some_and(|(_, end)| end == "py");
    let is_path = is_script || file.starts_with("<ipython-input");
    let function = function.split('(').next().unwrap_or_default().trim();
    (is_path && !file.contains(' ')).then(|| (file.to_owned(), number, function.to_owned()))
}

/// `---> 12 loss.backward()` and `❱ 264 │   losses = estimate_loss()`.
fn arrow(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix('❱') {
        Some(rest) => rest,
        None => line.trim_start_matches('-').strip_prefix('>').filter(|_| line.starts_with('-'))?,
    };
    let rest = rest.trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && rest[digits..].starts_with([' ', '│', '|']))
        .then(|| rest[digits..].trim_start_matches([' ', '│', '|']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(lines: &[&str]) -> Vec<(String, u32, String, String)> {
        let mut frames = Frames::default();
        for (at, line) in (0..).zip(lines) {
            frames.push(line, at, None);
        }
        let list = frames.around(u64::MAX, None).into_iter();
        list.map(|f| (f.file, f.line, f.function, f.code)).collect()
    }

    fn frame(file: &str, line: u32, function: &str, code: &str) -> (String, u32, String, String) {
        (file.into(), line, function.into(), code.into())
    }

    #[test]
    fn python_frames_are_read_whole_and_wrapped() {
        let lines = [
            "Traceback (most recent call last):",
            "File \"train.py\", line 264, in <module>",
            "losses = estimate_loss()",
            "^^^^^^^^^^^^^^^",
            "File \"/opt/conda/lib/python3.11/site-packages/torch/autograd/gra",
            "ph.py\", line",
            "769, in _engine_run_backward",
            "return run()",
        ];
        let path = "/opt/conda/lib/python3.11/site-packages/torch/autograd/graph.py";
        let expected = [
            frame("train.py", 264, "<module>", "losses = estimate_loss()"),
            frame(path, 769, "_engine_run_backward", "return run()"),
        ];
        assert_eq!(frames(&lines), expected);
    }

    #[test]
    fn frames_of_notebooks_and_rich_are_read() {
        let lines = [
            "File ~/gpt/train.py:220, in estimate_loss()",
            "--> 220 logits, loss = model(X, Y)",
            "/home/me/train.py:264 in <module>",
            "❱ 264 │   losses = estimate_loss()",
            "Cell In[5], line 12",
            "---> 12 loss.backward()",
        ];
        let expected = [
            frame("~/gpt/train.py", 220, "estimate_loss", "logits, loss = model(X, Y)"),
            frame("/home/me/train.py", 264, "<module>", "losses = estimate_loss()"),
            frame("In[5]", 12, "", "loss.backward()"),
        ];
        assert_eq!(frames(&lines), expected);
    }

    #[test]
    fn only_the_last_traceback_before_the_message_counts() {
        let mut list = Frames::default();
        let lines = ["Traceback (most", "File \"a.py\", line 1, in a", "Traceback (most"];
        for (at, line) in (0..).zip(lines) {
            list.push(line, at, None);
        }
        list.push("File \"b.py\", line 2, in b", 3, None);
        list.push("File \"c.py\", line 2, in c", 4, Some(1));
        let names: Vec<_> = list.around(9, None).into_iter().map(|f| f.file).collect();
        assert_eq!(names, ["b.py"]);
    }

    #[test]
    fn a_message_above_its_traceback_has_the_frames_below_it() {
        let mut list = Frames::default();
        let lines = ["Traceback (most", "File \"a.py\", line 1, in a", "Traceback (most"];
        for (at, line) in (5..).zip(lines) {
            list.push(line, at, Some(2));
        }
        list.push("File \"b.py\", line 2, in b", 9, Some(2));
        let names: Vec<_> = list.around(3, None).into_iter().map(|f| f.file).collect();
        assert_eq!(names, ["a.py", "b.py"]); // one frame alone is not a traceback
        for at in 20..23 {
            list.push("File \"c.py\", line 2, in c", at, Some(2));
        }
        list.push("Traceback (most", 23, Some(2));
        list.push("File \"d.py\", line 2, in d", 24, Some(2));
        assert_eq!(list.around(3, None).len(), 5);
        assert!(list.around(25, None).is_empty());
    }

    #[test]
    fn the_traceback_of_a_later_failure_is_not_the_messages() {
        let mut list = Frames::default();
        for (at, line) in (5..).zip(["Traceback (most", "File \"a.py\", line 1, in load"]) {
            list.push(line, at, None);
        }
        assert_eq!(list.around(3, None).len(), 1);
        list.push("FileNotFoundError: [Errno 2] No such file: 'best.pt'", 8, None);
        assert!(list.around(3, None).is_empty());
    }

    #[test]
    fn a_traceback_behind_a_progress_bar_and_an_original_traceback_are_read() {
        let lines = [
            "File \"old.py\", line 1, in old",
            "0%|          | 0/21 [00:00<?, ?it/s]Traceback (most recent call last):",
            "File \"a.py\", line 1, in train",
            "loss = model(x)",
            "Original Traceback (most recent call last):",
            "File \"b.py\", line 2, in _worker",
            "output = module(*input)",
        ];
        let expected = [
            frame("a.py", 1, "train", "loss = model(x)"),
            frame("b.py", 2, "_worker", "output = module(*input)"),
        ];
        assert_eq!(frames(&lines), expected);
    }

    #[test]
    fn frames_of_older_notebooks_are_read() {
        let lines = [
            "<ipython-input-7-0f0f0f> in train(model, data)",
            "     11     model.train()",
            "---> 12     loss.backward()",
            "     13 ",
            "~/lib/python3.7/site-packages/torch/tensor.py in backward(self, gradient)",
            "    219         \"\"\"",
            "--> 221         torch.autograd.backward(self, gradient)",
        ];
        let expected = [
            frame("<ipython-input-7-0f0f0f>", 0, "train", "loss.backward()"),
            frame(
                "~/lib/python3.7/site-packages/torch/tensor.py",
                0,
                "backward",
                "torch.autograd.backward(self, gradient)",
            ),
        ];
        assert_eq!(frames(&lines), expected);
    }
}
