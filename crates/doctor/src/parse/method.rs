//! How a model is trained: all of its weights, adapters, in how many bits; and its size if a user
//! only says "a 7B model".

/// Which weights are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrainedPart {
    /// All of them.
    Whole,
    /// Adapters.
    Adapters,
}

/// Words for full training, in lower case.
const WHOLE: &[&str] = &[
    "sft_type full",
    "sft_type=full",
    "finetuning_type full",
    "finetuning_type: full",
    "finetuning_type\": \"full",
    "train_type full",
    "full finetun",
    "full fine-tun",
    "full fine tun",
    "full-parameter",
    "full parameter",
    "full_finetun",
    "without any peft",
    "without peft",
    "without lora",
    "no lora",
    "not using lora",
    "w/o lora",
    "w/o peft",
    "all parameters trainable",
    "all weights",
    "trainable%: 100",
    "全量微调",
    "全参数",
    "全量参数",
    "フルファインチューニング",
    "全パラメータ",
];

/// Words for adapters.
const ADAPTERS: &[&str] = &["lora", "peft", "adapter", "trainable%:"];

/// What the log says about the training method.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Method {
    whole: bool,
    adapters: bool,
    sizes: Vec<(u64, u32)>, // parameters in millions and how often
}

impl Method {
    /// Reads a line in lower case.
    pub(super) fn push(&mut self, lower: &str) {
        /// A longer line is output of a program.
        const LONGEST: usize = 1500;
        if lower.len() > LONGEST {
            return;
        }
        if WHOLE.iter().any(|words| lower.contains(words)) {
            self.whole = true;
        } else {
            self.adapters |= ADAPTERS.iter().any(|words| lower.contains(words));
        }
        for millions in sizes(lower) {
            let is_full = self.sizes.len() >= 16;
            match self.sizes.iter_mut().find(|(known, _)| *known == millions) {
                Some((_, count)) => *count = count.saturating_add(1),
                None if is_full => {}
                None => self.sizes.push((millions, 1)),
            }
        }
    }

    /// Which weights are trained, if the log says so.
    pub(crate) fn trained(&self) -> Option<TrainedPart> {
        match (self.whole, self.adapters) {
            (true, _) => Some(TrainedPart::Whole),
            (false, true) => Some(TrainedPart::Adapters),
            (false, false) => None,
        }
    }

    /// The size that is named most often, in millions of parameters; `None` if two are named equally
    /// often.
    pub(crate) fn size(&self) -> Option<u64> {
        let most = self.sizes.iter().map(|(_, count)| *count).max()?;
        let mut best = self.sizes.iter().filter(|(_, count)| *count == most);
        let (size, _) = best.next()?;
        best.next().is_none().then_some(*size)
    }
}

/// `7b`, `1.3B`, `8x7b`, as a word or a part of a name. The unit follows at once: `2 b` are bytes.
fn sizes(text: &str) -> impl Iterator<Item = u64> + '_ {
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '.');
    text.match_indices('b').filter_map(move |(at, _)| {
        if !is_edge(text[at + 1..].chars().next()) {
            return None;
        }
        let before = &text[..at];
        let number = before.bytes().rev().take_while(|c| c.is_ascii_digit() || *c == b'.').count();
        let (head, number) = before.split_at(before.len() - number);
        let (head, experts) = match head.strip_suffix('x') {
            Some(rest) => {
                let digits = rest.bytes().rev().take_while(u8::is_ascii_digit).count();
                let (head, experts) = rest.split_at(rest.len() - digits);
                (head, experts.parse::<f64>().ok()?)
            }
            None => (head, 1.0),
        };
        // A word, or a part of a name after `-`, `_` or `/`.
        if !is_edge(head.chars().next_back()) || number.is_empty() {
            return None;
        }
        let billions = number.parse::<f64>().ok()? * experts;
        // `4b` and `8b` after `bit` or `int` are widths of numbers.
        let is_width = head.ends_with("bit-") || head.ends_with("int");
        // Ascend chips: 310B, 910B.
        let is_width = is_width || ["310", "910"].contains(&number);
        ((0.1..=2000.0).contains(&billions) && !is_width)
            .then(|| (billions * 1000.0).round() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Method {
        let mut method = Method::default();
        text.lines().for_each(|line| method.push(&line.to_lowercase()));
        method
    }

    #[test]
    fn a_denial_of_adapters_is_not_a_sign_of_them() {
        assert_eq!(
            read("llama without any PEFT and quantization").trained(),
            Some(TrainedPart::Whole)
        );
        assert_eq!(read("--sft_type lora").trained(), Some(TrainedPart::Adapters));
        assert_eq!(read("training a model").trained(), None);
    }

    #[test]
    fn sizes_are_read_from_names_and_prose() {
        for (text, size) in [
            ("a 7B model", Some(7000)),
            ("models/chinese-alpaca-2-7b/", Some(7000)),
            ("mixtral 8x7b", Some(56_000)),
            ("gpt neo 1.3B", Some(1300)),
            ("微调7b chinese", Some(7000)),
            ("held 2 B of memory, 0b", None),
            ("a 7b and a 13b model", None),
            ("load_in_4bit", None),
            ("昇腾910B npu", None),
        ] {
            assert_eq!(read(text).size(), size, "{text}");
        }
    }
}
