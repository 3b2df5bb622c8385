//! The output of nanoGPT's training script: its progress and its config.

use fitgpt_config::Key;

use super::squeezed::Offset;

/// The script's own lines, with their offsets, so that the last one can be determined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NanoGptOutput {
    /// `compiling the model...`
    pub(crate) compiling: Option<Offset>,
    /// The model exists: its parameters were counted or listed for the optimizer.
    pub(crate) made: Option<Offset>,
    /// `step 250: train loss …`, the last.
    pub(crate) step: Option<(u64, Offset)>,
    /// `iter 250: loss …`, the last.
    pub(crate) iter: Option<(u64, Offset)>,
    /// `Resuming training from out`.
    pub(crate) resuming: Option<Offset>,
    /// `Initializing from OpenAI GPT-2 weights: gpt2-xl`.
    pub(crate) pretrained: Option<(String, Offset)>,
    /// `Initializing a new model from scratch`.
    pub(crate) scratch: Option<Offset>,
    /// Millions of parameters as printed, in hundredths.
    pub(crate) parameters_hundredth_millions: Option<u64>,
    /// `tokens per iteration will be: 491,520`.
    pub(crate) tokens_per_iteration: Option<u64>,
    /// `found vocab_size = 65 (inside …/meta.pkl)`.
    pub(crate) vocab: Option<u32>,
    /// `using fused AdamW: True`.
    pub(crate) fused_adam: Option<bool>,
    /// `WARNING: using slow attention.`
    pub(crate) slow_attention: bool,
    /// Number of ranks on the launcher's command line.
    pub(crate) workers: u32,
    /// Config keys that the log shows, the last value of each.
    pub(crate) overrides: Vec<(&'static str, String)>,
    /// Whether the log contains output or a command line of nanoGPT.
    pub(crate) is_nanogpt: bool,
    /// A key that nanoGPT rejected.
    pub(crate) refused: Option<String>,
    in_config: bool, // inside the echo of a config file
}

/// The memory-related keys of the configs that ship with nanoGPT, for logs that show the command
/// but not the echo of the config.
const SHIPPED: &[(&str, &[(&str, &str)])] = &[
    (
        "config/finetune_shakespeare.py",
        &[("init_from", "gpt2-xl"), ("batch_size", "1"), ("gradient_accumulation_steps", "32")],
    ),
    (
        "config/train_shakespeare_char.py",
        &[
            ("batch_size", "64"),
            ("block_size", "256"),
            ("gradient_accumulation_steps", "1"),
            ("n_layer", "6"),
            ("n_head", "6"),
            ("n_embd", "384"),
            ("dropout", "0.2"),
            ("vocab_size", "65"),
        ],
    ),
    (
        "config/train_gpt2.py",
        &[("batch_size", "12"), ("block_size", "1024"), ("gradient_accumulation_steps", "40")],
    ),
];

impl NanoGptOutput {
    pub(super) fn push(&mut self, line: &str, at: Offset) {
        if self.own_line(line, at) {
            self.is_nanogpt = true;
            self.in_config = false;
        } else if line.starts_with("Overriding config with ") {
            self.is_nanogpt = true;
            self.in_config = true;
        } else if let Some(pair) = line.strip_prefix("Overriding: ") {
            self.is_nanogpt = true;
            self.assignment(pair);
        } else if line.contains("train.py") && !line.starts_with("File ") {
            self.command(line);
        } else if self.in_config {
            if line.starts_with("Traceback") {
                self.in_config = false;
            } else {
                self.assignment(line);
            }
        }
    }

    /// Parses a line of nanoGPT's output; false if it is not one.
    fn own_line(&mut self, line: &str, at: Offset) -> bool {
        if let Some((number, rest)) = counted(line, "step ") {
            if !rest.trim_start().starts_with("train loss") {
                return false;
            }
            self.step = Some((number, at));
        } else if let Some((number, rest)) = counted(line, "iter ") {
            if !rest.trim_start().starts_with("loss") {
                return false;
            }
            self.iter = Some((number, at));
        } else if line.starts_with("compiling the model") {
            self.compiling = Some(at);
        } else if let Some(rest) = line.strip_prefix("number of parameters:") {
            self.made = Some(at);
            self.parameters_hundredth_millions = hundredths(rest.trim().trim_end_matches('M'));
        } else if line.starts_with("num decayed parameter tensors")
            || line.starts_with("num non-decayed parameter tensors")
        {
            self.made = Some(at);
        } else if let Some(rest) = line.strip_prefix("using fused AdamW:") {
            self.made = Some(at);
            self.fused_adam = Some(rest.trim() == "True");
        } else if let Some(rest) = line.strip_prefix("tokens per iteration will be:") {
            self.tokens_per_iteration = rest.trim().replace(',', "").parse().ok();
        } else if line.starts_with("Resuming training from") {
            self.resuming = Some(at);
        } else if line.starts_with("Initializing a new model from scratch") {
            self.scratch = Some(at);
        } else if let Some(name) = line.strip_prefix("Initializing from OpenAI GPT-2 weights:") {
            self.pretrained = Some((name.trim().to_owned(), at));
        } else if let Some(rest) = line.strip_prefix("found vocab_size =") {
            self.vocab = rest.trim().split(' ').next().and_then(|number| number.parse().ok());
        } else if line.contains("using slow attention") {
            self.slow_attention = true;
        } else if let Some((_, key)) = line.split_once("Unknown config key:") {
            self.refused = Some(key.trim().to_owned());
        } else if line == "assert config.n_embd % config.n_head == 0" {
            self.refused = Some("n_head".to_owned());
        } else {
            return false;
        }
        true
    }

    /// `python train.py config/a.py --batch_size=32 --compile=False`. Many projects have a
    /// `train.py`: it is nanoGPT's only if a nanoGPT key or config follows, and nothing that
    /// nanoGPT would reject.
    fn command(&mut self, line: &str) {
        let (before, after) = line.split_once("train.py").unwrap_or((line, ""));
        let is_command = ["python", "torchrun", "$", "./"].iter().any(|word| before.contains(word));
        if !is_command {
            return;
        }
        let trimmed = |word: &'_ str| word.trim_matches(['`', '"', '\'', ',', '.', ')']).to_owned();
        let mut keys: Vec<(String, String)> = Vec::new();
        let mut shipped = None;
        for word in after.split_whitespace() {
            let config = trimmed(word);
            shipped = shipped.or_else(|| SHIPPED.iter().find(|(name, _)| config.ends_with(name)));
            let Some(pair) = word.strip_prefix("--") else { continue };
            match pair.split_once('=') {
                Some((key, value)) if Key::find(key).is_some() => {
                    keys.push((key.to_owned(), trimmed(value)));
                }
                _ => return, // another script's
            }
        }
        if keys.is_empty() && shipped.is_none() {
            return;
        }
        self.is_nanogpt = true;
        for word in before.split_whitespace() {
            let count =
                word.strip_prefix("--nproc_per_node=").or(word.strip_prefix("--nproc-per-node="));
            self.workers = count.and_then(|n| n.parse().ok()).unwrap_or(self.workers).min(1024);
        }
        for (key, value) in shipped.map_or(&[][..], |(_, pairs)| pairs) {
            if !self.overrides.iter().any(|(other, _)| other == key) {
                self.set(key, value);
            }
        }
        for (key, value) in keys {
            self.set(&key, &value);
        }
    }

    /// `batch_size = 12 # a comment`, a line of an echoed config file.
    fn assignment(&mut self, line: &str) {
        let Some((key, value)) = line.split_once('=') else { return };
        let value = value.split('#').next().unwrap_or_default();
        self.set(key.trim(), value.trim());
    }

    fn set(&mut self, key: &str, value: &str) {
        const LONGEST: usize = 200;
        let Some(key) = Key::find(key) else { return };
        if value.is_empty() || value.len() > LONGEST {
            return;
        }
        self.overrides.retain(|(other, _)| *other != key.name);
        self.overrides.push((key.name, value.to_owned()));
    }
}

/// `step 250: …` → 250 and the rest.
fn counted<'a>(line: &'a str, word: &str) -> Option<(u64, &'a str)> {
    let (number, rest) = line.strip_prefix(word)?.split_once(':')?;
    Some((number.trim().parse().ok()?, rest))
}

/// `123.59` → 12359.
fn hundredths(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.')?;
    let fraction: u64 = fraction.get(..2)?.parse().ok()?;
    whole.replace(',', "").parse::<u64>().ok()?.checked_mul(100)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(log: &str) -> NanoGptOutput {
        let mut progress = NanoGptOutput::default();
        for (at, line) in (0..).zip(log.lines()) {
            progress.push(line.trim(), at);
        }
        progress
    }

    #[test]
    fn an_echoed_config_is_read_up_to_the_next_line_of_the_script() {
        let progress = read(
            "Overriding config with config/a.py:\n\
             # batch_size = 99 in a comment\n\
             batch_size = 64 # sequences\n\
             learning_rate = 6e-4\n\
             unheard_of = 3\n\
             Overriding: n_embd = 576\n\
             tokens per iteration will be: 65,536\n\
             batch_size = 1\n",
        );
        let expected = [("batch_size", "64"), ("learning_rate", "6e-4"), ("n_embd", "576")];
        let found: Vec<_> = progress.overrides.iter().map(|(k, v)| (*k, v.as_str())).collect();
        assert_eq!(found, expected);
        assert_eq!(progress.tokens_per_iteration, Some(65_536));
    }

    #[test]
    fn a_command_line_is_read_but_a_frame_is_not() {
        let progress = read("`python train.py --batch_size=32 --compile=False`");
        assert_eq!(progress.overrides, [("batch_size", "32".into()), ("compile", "False".into())]);
        assert!(!read("File \"train.py\", line 3, in <module>").is_nanogpt);
        assert!(!read("I changed train.py --batch_size=3").is_nanogpt);
    }

    #[test]
    fn train_py_is_nanogpt_only_with_its_keys_or_configs() {
        for other in [
            "$ python train.py",
            "python train.py --epochs=3 --batch_size=8",
            "python train.py --batch_size 8",
        ] {
            assert!(!read(other).is_nanogpt, "{other}");
        }
        let progress = read("$ python train.py config/finetune_shakespeare.py --batch_size=2");
        let pairs: Vec<_> = progress.overrides.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let expected =
            [("init_from", "gpt2-xl"), ("gradient_accumulation_steps", "32"), ("batch_size", "2")];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn the_last_step_and_iteration_are_kept() {
        let progress =
            read("step 0: train loss 10.9, val loss 10.9\niter 0: loss 10.9, time 1ms\nstep 3: up");
        assert_eq!(progress.step, Some((0, 0)));
        assert_eq!(progress.iter, Some((0, 1)));
        assert_eq!(
            read("number of parameters: 123.59M").parameters_hundredth_millions,
            Some(12359)
        );
    }
}
