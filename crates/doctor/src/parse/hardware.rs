//! Cards that a text names: `8×H100 80GB`, `a single 3090 (24 GB)`, `40G A100`.

use std::{collections::BTreeMap, sync::LazyLock};

use fitgpt_fit::device::{self, CardSpec, DeviceError, GPUS};

/// The cards of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CardNames {
    /// The card that is named first with an unambiguous size.
    pub(crate) card: Option<&'static CardSpec>,
    /// How many of them, if the text says so.
    pub(crate) count: Option<u64>,
    /// A size that the text calls a card's: `24G显存`, `a 40 GB GPU`.
    pub(crate) said_gib: Option<u64>,
    is_mixed: bool,
}

/// Words of the catalogue's names that contain a digit: `3090`, `a100`, `t4`.
static MODELS: LazyLock<BTreeMap<String, bool>> = LazyLock::new(|| {
    let words = GPUS.iter().flat_map(|card| card.name.split([' ', '-']));
    let words = words.map(str::to_ascii_lowercase).filter(|word| {
        let is_number = word.bytes().all(|c| c.is_ascii_digit());
        word.bytes().any(|c| c.is_ascii_digit()) && (!is_number || word.len() >= 4) // else a size
    });
    // Whether the word alone is enough: a bare number may be anything.
    words.map(|word| (word.clone(), word.bytes().any(|c| c.is_ascii_alphabetic()))).collect()
});

/// Words before or after a bare number that make it a card.
const CONTEXT: &[&str] = &[
    "rtx", "gtx", "geforce", "nvidia", "gpu", "gpus", "card", "cards", "ti", "super", "laptop",
    "vram", "显卡", "卡", "单张", "张", "块",
];

impl CardNames {
    /// The card, unless the text names several kinds.
    pub(crate) fn only(&self) -> Option<&'static CardSpec> {
        self.card.filter(|_| !self.is_mixed)
    }

    /// Reads a line in lower case.
    pub(super) fn push(&mut self, lower: &str) {
        /// A longer line is output of a program.
        const LONGEST: usize = 600;
        if lower.len() > LONGEST || !lower.bytes().any(|c| c.is_ascii_digit()) {
            return;
        }
        let words = words(lower);
        if let (None, Some((gib, at))) = (self.said_gib, said_size(&words)) {
            self.said_gib = Some(gib);
            self.count = self.count.or_else(|| count_before(&words, at));
        }
        self.count = self.count.or_else(|| said_count(&words));
        for (index, word) in words.iter().enumerate() {
            let Some(is_enough) = MODELS.get(*word) else { continue };
            let near = index.saturating_sub(2)..(index + 3).min(words.len());
            if !is_enough && !words[near].iter().any(|other| CONTEXT.contains(other)) {
                continue;
            }
            let Some(card) = card_at(&words, index) else { continue };
            match self.card {
                None => {
                    self.card = Some(card);
                    self.count = count_before(&words, index).or(self.count);
                }
                Some(known) if known != card => {
                    // The same card with another size, or a card that others use.
                    self.is_mixed = true;
                }
                Some(_) => self.count = self.count.or_else(|| count_before(&words, index)),
            }
        }
    }
}

/// `on 8 GPUs`, `16卡微调`: a number of cards of which the kind is not named there.
fn said_count(words: &[&str]) -> Option<u64> {
    // `A100 80G *4`
    let after = words.windows(3).find_map(|three| {
        let is_size = three[0].trim_end_matches("gb").trim_end_matches('g').len() < three[0].len();
        let is_times = ["*", "x", "×"].contains(&three[1]);
        three[2].parse().ok().filter(|count| is_size && is_times && (1..=1024).contains(count))
    });
    after.or_else(|| cards_after(words))
}

fn cards_after(words: &[&str]) -> Option<u64> {
    words.windows(2).find_map(|pair| {
        let is_cards = ["gpus", "cards"].contains(&pair[1]) || pair[1].starts_with('卡');
        pair[0].parse().ok().filter(|count| is_cards && (1..=1024).contains(count))
    })
}

/// `24 GB GPU`, `24g显存`, `80g a800`: a size right before or after a word for a card, and the place
/// of the first of them.
fn said_size(words: &[&str]) -> Option<(u64, usize)> {
    const CARDS: &[&str] = &[
        "gpu", "gpus", "card", "vram", "显存", "显卡", "a800", "h800", "h20", "l20", "v100s",
        "910b",
    ];
    words.iter().enumerate().find_map(|(at, word)| {
        let number = word.trim_end_matches("gib").trim_end_matches("gb").trim_end_matches('g');
        let (is_united, next) = if number.len() < word.len() {
            (true, at + 1)
        } else {
            (words.get(at + 1).is_some_and(|w| ["g", "gb", "gib"].contains(w)), at + 2)
        };
        let is_card = |at: Option<usize>| {
            at.and_then(|at| words.get(at))
                .is_some_and(|w| CARDS.contains(w) || w.starts_with("显存"))
        };
        let is_before = is_card(at.checked_sub(1));
        let next = if words.get(next) == Some(&"of") { next + 1 } else { next };
        let near = is_card(Some(next)) || is_before;
        let gib: u64 = number.parse().ok().filter(|_| is_united && near)?;
        (2..=512).contains(&gib).then_some((gib, at - usize::from(is_before)))
    })
}

/// Words and numbers; letters of other scripts and units are words of their own: `2张4090` is three.
fn words(text: &str) -> Vec<&str> {
    const MOST: usize = 128;
    let kind = |c: char| match c {
        'a'..='z' | '0'..='9' | '.' => 1,
        _ if c.is_alphanumeric() => 2,
        '×' | '*' => 3,
        _ => 0,
    };
    let mut list: Vec<&str> = Vec::new();
    let mut start = 0;
    let mut last = 0;
    for (at, c) in text.char_indices() {
        if kind(c) != last {
            if last != 0 && list.len() < MOST {
                list.push(text[start..at].trim_matches('.'));
            }
            (start, last) = (at, kind(c));
        }
    }
    if last != 0 {
        list.push(text[start..].trim_matches('.'));
    }
    // `8xA10G`: a number and a name.
    let split = |word: &'_ str| -> Option<usize> {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let rest = word[digits..].strip_prefix('x')?;
        (digits > 0 && rest.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(digits + 1)
    };
    let parts = list.into_iter().flat_map(|word| match split(word) {
        Some(at) => [&word[..at], &word[at..]],
        None => [word, ""],
    });
    parts.filter(|word| !word.is_empty()).collect()
}

/// The card whose model is the word at `index`, with the words after it and the size near it.
fn card_at(words: &[&str], index: usize) -> Option<&'static CardSpec> {
    let suffixes = ["ti", "super", "laptop", "d", "pro", "max-q"];
    let after: Vec<&str> =
        words[index + 1..].iter().take(2).copied().take_while(|w| suffixes.contains(w)).collect();
    let prefix = index
        .checked_sub(1)
        .map(|i| words[i])
        .filter(|w| ["rtx", "gtx", "rx", "titan"].contains(w));
    let base = [prefix.unwrap_or_default(), words[index]].join(" ");
    let name = [base.as_str(), &after.join(" ")].join(" ");
    let near = index.saturating_sub(3)..(index + 6).min(words.len());
    let mut sizes = words[near.clone()].iter().enumerate().filter_map(|(at, word)| {
        let number = word.trim_end_matches("gib").trim_end_matches("gb").trim_end_matches('g');
        let is_united = number.len() < word.len()
            || words.get(near.start + at + 1).is_some_and(|w| ["g", "gb", "gib"].contains(w));
        number.parse::<u64>().ok().filter(|_| is_united)
    });
    match device::find(&name) {
        Ok(card) => Some(card),
        Err(DeviceError::Ambiguous { .. }) => {
            sizes.find_map(|gib| device::find(&format!("{name} {gib} GB")).ok())
        }
        Err(_) => None,
    }
}

/// `8 × H100`, `4 NVIDIA A100`, `two 3090`, `2张 4090`.
fn count_before(words: &[&str], index: usize) -> Option<u64> {
    let numbers = [
        ("two", 2),
        ("three", 3),
        ("four", 4),
        ("eight", 8),
        ("single", 1),
        ("one", 1),
        ("单", 1),
        ("单张", 1),
    ];
    let fillers = [
        "x", "×", "*", "nvidia", "rtx", "gtx", "geforce", "tesla", "张", "块", "枚", "卡", "of",
        "the",
    ];
    // `我有七张A800`: a numeral and the word for one of several flat things.
    let numerals = ['一', '二', '三', '四', '五', '六', '七', '八', '九'];
    let mut at = index;
    while at > 0 && index - at < 4 {
        at -= 1;
        let word = words[at];
        if let Some((_, count)) = numbers.iter().find(|(name, _)| *name == word) {
            return Some(*count);
        }
        let counted = word.trim_end_matches(['张', '块', '枚', '卡']);
        if counted.len() < word.len()
            && let Some(last) = counted.chars().next_back()
            && let Some(place) = numerals.iter().position(|numeral| *numeral == last)
        {
            return Some(place as u64 + 1);
        }
        if counted.len() < word.len() && counted.ends_with('单') {
            return Some(1);
        }
        let number = word.trim_end_matches('x');
        if let Ok(count) = number.parse::<u64>() {
            return (1..=1024).contains(&count).then_some(count);
        }
        // `40g` in `4 x 40G A100`
        let is_size = word.trim_end_matches("gb").trim_end_matches('g').parse::<u64>().is_ok();
        if !is_size && !fillers.contains(&word) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<&'static str>, Option<u64>) {
        let mut cards = CardNames::default();
        text.lines().for_each(|line| cards.push(&line.to_lowercase()));
        (cards.only().map(|card| card.name), cards.count)
    }

    #[test]
    fn cards_are_found_with_their_size_and_number() {
        for (text, name, count) in [
            ("gpu NVIDIA A100-SXM4-80GB", Some("A100 80 GB"), None),
            ("on 8×H100 80GB HBM3", Some("H100 80 GB"), Some(8)),
            ("4 x 40G A100 gpus", Some("A100 40 GB"), Some(4)),
            ("I use a single RTX 3090", Some("GeForce RTX 3090"), None),
            ("2张4090显卡", Some("GeForce RTX 4090"), Some(2)),
            ("目前在单张 A100 80G 上", Some("A100 80 GB"), Some(1)),
            ("a 4xV100 32GB machine", Some("V100 32 GB"), Some(4)),
            ("8卡V100 32G", Some("V100 32 GB"), Some(8)),
            ("after 3090 steps", None, None),
            ("it fits a 3090 card but not a 2080 Ti card", None, None),
        ] {
            let (found, number) = read(text);
            let is_it = match (found, name) {
                (Some(found), Some(name)) => {
                    let wanted: Vec<_> = name.split(' ').collect();
                    wanted.iter().all(|word| found.contains(word))
                }
                (found, name) => found == name,
            };
            assert!(is_it, "{text}: {found:?}");
            assert_eq!(number.filter(|_| count.is_some()), count, "{text}");
        }
    }

    #[test]
    fn a_number_of_cards_is_read_without_their_kind() {
        for (text, count, gib) in [
            ("我七张a800 80g，怎么会", Some(7), Some(80)),
            ("fails when loading 70B on 16 GPUs", Some(16), None),
            ("A800 80G *4 sft", Some(4), Some(80)),
            ("after 3 steps on my gpu", None, None),
        ] {
            let mut cards = CardNames::default();
            cards.push(&text.to_lowercase());
            assert_eq!((cards.count, cards.said_gib), (count, gib), "{text}");
        }
    }
}
