//! The command line that a user quotes: `torchrun --nproc_per_node 8 train.py \` with its
//! continuation lines.

/// Words that a training or serving command begins with, after its environment variables.
const PROGRAMS: &[&str] = &[
    "python",
    "python3",
    "torchrun",
    "accelerate",
    "deepspeed",
    "swift",
    "llamafactory-cli",
    "axolotl",
    "tune",
    "vllm",
    "mlx_lm.lora",
];
/// The longest command to keep, in bytes.
const LONGEST: usize = 2000;

/// Collects a command over its lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QuotedCommand {
    words: Vec<String>,
    is_open: bool,
    done: Option<Vec<String>>,
}

impl QuotedCommand {
    /// Reads a line. The last command counts.
    pub(super) fn push(&mut self, line: &str) {
        let (text, continues) = match line.strip_suffix('\\') {
            Some(text) => (text.trim_end(), true),
            None => (line, false),
        };
        if self.is_open {
            self.words.extend(text.split_whitespace().map(str::to_owned));
        } else {
            let text = text.trim_start_matches(['$', '!', '#', '`', '%', '>']).trim_start();
            let mut words = text.split_whitespace().skip_while(is_variable).peekable();
            let is_program = words.peek().is_some_and(|word| PROGRAMS.contains(word));
            // `python is great` is no command: a script or a flag follows.
            let is_script = |w: &str| w.rsplit_once('.').is_some_and(|(_, end)| end == "py");
            let rest = words.skip(1).take(6).any(|w| is_script(w) || w.starts_with('-'));
            let runs = ["train", "chat", "sft", "rlhf", "launch", "run"];
            let is_kit = text.split_whitespace().any(|word| runs.contains(&word));
            if !is_program || !(rest || is_kit && continues) {
                return;
            }
            self.words = text.split_whitespace().map(str::to_owned).collect();
        }
        let length: usize = self.words.iter().map(|word| word.len() + 1).sum();
        self.is_open = continues && length < LONGEST;
        if !self.is_open {
            let is_whole = length < LONGEST
                && self.words.iter().all(|word| word.chars().all(|c| !c.is_control()));
            let words = std::mem::take(&mut self.words);
            if is_whole && words.len() > 1 {
                self.done = Some(words);
            }
        }
    }

    /// The command, without Markdown's marks.
    fn command(&self) -> Option<Vec<&str>> {
        let words = self.done.as_ref()?;
        Some(
            words.iter().map(|word| word.trim_end_matches('`')).filter(|w| !w.is_empty()).collect(),
        )
    }

    /// The command with some flags set to other values, whatever form they have in it.
    pub(crate) fn with_flags(&self, flags: &[(&str, &str)]) -> Option<String> {
        let mut words: Vec<String> = self.command()?.iter().map(|w| (*w).to_owned()).collect();
        for (flag, value) in flags {
            let spellings = [flag.replace('-', "_"), flag.replace('_', "-")];
            let is_it = |word: &str| {
                let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
                word.starts_with("--") && spellings.iter().any(|s| s == name)
            };
            match words.iter().position(|word| is_it(word)) {
                Some(at) if words[at].contains('=') => {
                    let name = words[at].split('=').next().unwrap_or_default().to_owned();
                    words[at] = format!("{name}={value}");
                }
                Some(at) if words.get(at + 1).is_some_and(|next| !next.starts_with("--")) => {
                    (*value).clone_into(&mut words[at + 1]);
                }
                Some(at) => words.insert(at + 1, (*value).to_owned()),
                None => words.extend([format!("--{flag}"), (*value).to_owned()]),
            }
        }
        Some(words.join(" "))
    }
}

/// `CUDA_VISIBLE_DEVICES=0`
fn is_variable(word: &&str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> QuotedCommand {
        let mut command = QuotedCommand::default();
        text.lines().for_each(|line| command.push(line.trim()));
        command
    }

    #[test]
    fn a_command_is_joined_and_its_flags_are_replaced() {
        let command = read(
            "I run\n$ CUDA_VISIBLE_DEVICES=0 python tune.py \\\n  --model m \\\n  --per_device_train_batch_size 8 --bf16=True\nand it fails",
        );
        assert_eq!(
            command.with_flags(&[("per_device_train_batch_size", "4"), ("bf16", "False"), ("optim", "x")]),
            Some("CUDA_VISIBLE_DEVICES=0 python tune.py --model m --per_device_train_batch_size 4 --bf16=False --optim x".to_owned())
        );
        assert_eq!(read("python is great\npython 3.10 was used").with_flags(&[]), None);
    }
}
