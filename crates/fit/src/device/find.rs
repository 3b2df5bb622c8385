//! Finds a card by a name as users write it.
//!
//! A name is split into words: `RTX4070 laptop`, `4070 Laptop GPU` and `NVIDIA GeForce RTX 4070
//! Laptop GPU` all become `4070` and `laptop`. A card matches if it has exactly these words: `4070`
//! never matches a `4070 Ti`.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{CardSpec, GPUS};

/// Why a name does not identify a card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Several cards have this name, with different memory.
    Ambiguous {
        /// As written.
        name: String,
        /// Their names.
        candidates: Vec<&'static str>,
    },
    /// No card has this name.
    Unknown {
        /// As written.
        name: String,
        /// The most similar names, best first.
        nearest: Vec<&'static str>,
    },
    /// The card is known, its rates are not.
    NoRates {
        /// The card's name in the catalogue.
        name: &'static str,
        /// Cards whose rates are known.
        known: Vec<&'static str>,
    },
}

/// The card that `name` means.
pub fn find(name: &str) -> Result<&'static CardSpec, DeviceError> {
    let asked = CardName::read(name);
    let vocabulary: BTreeSet<String> =
        GPUS.iter().flat_map(|gpu| CardName::read(gpu.name).words).collect();
    // Board makers add other words, which are ignored; but a number may mean another model.
    let is_meant = |word: &&String| vocabulary.contains(*word) || has_digit(word);
    let words: BTreeSet<_> = asked.words.iter().filter(is_meant).cloned().collect();
    let matching: Vec<_> = GPUS
        .iter()
        .filter(|gpu| {
            let own = CardName::read(gpu.name);
            own.words == words
                && (asked.families.is_empty() || asked.families == own.families)
                && asked.gib.is_none_or(|gib| gib == gpu.nominal_gib)
        })
        .collect();
    // The table omits the size in the name of the most common variant.
    let plain = matching.iter().find(|gpu| CardName::read(gpu.name).gib.is_none());
    match (matching.as_slice(), plain) {
        ([only], _) => Ok(only),
        (_, Some(plain)) => Ok(plain),
        ([], None) => {
            Err(DeviceError::Unknown { name: name.into(), nearest: nearest(name, &asked) })
        }
        (several, None) => {
            let candidates = several.iter().map(|gpu| gpu.name).collect();
            Err(DeviceError::Ambiguous { name: name.into(), candidates })
        }
    }
}

/// A parsed name.
#[derive(Debug)]
struct CardName {
    /// The model and what follows it, such as `4070`, `ti`, `laptop`.
    words: BTreeSet<String>,
    /// `rtx`, `gtx` and `rx` before a number: they may be left out.
    families: BTreeSet<String>,
    /// `16 GB`, `16gb`, `16G`.
    gib: Option<u64>,
}

/// Words that do not distinguish cards.
const NOISE: &[&str] = &[
    "nvidia",
    "geforce",
    "amd",
    "radeon",
    "instinct",
    "tesla",
    "quadro",
    "apple",
    "gpu",
    "graphics",
    "design",
    "with",
    "generation",
    "blackwell",
    "edition",
    "workstation",
    "server",
    "gb",
    "gib",
    "pcie",
    "sxm",
    "sxm2",
    "sxm3",
    "sxm4",
    "sxm5",
    "hbm2",
    "hbm2e",
    "hbm3",
    "hbm3e",
];
const FAMILIES: [&str; 3] = ["rtx", "gtx", "rx"];
const SUFFIXES: [&str; 12] =
    ["ti", "super", "xtx", "xt", "gre", "laptop", "pro", "max", "ultra", "gib", "gb", "g"];

impl CardName {
    fn read(name: &str) -> Self {
        let mut lower = name.to_lowercase();
        for (written, meant) in [("max-q", "laptop"), ("mobile", "laptop"), ("macbook pro", "")] {
            lower = lower.replace(written, meant);
        }
        let mut parts: Vec<String> = Vec::new();
        for word in lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
            split_word(word, &mut parts);
        }
        let mut gib = None;
        let mut words = BTreeSet::new();
        for (index, part) in parts.iter().enumerate() {
            let is_size = parts.get(index + 1).is_some_and(|next| is_unit(next));
            match part.parse() {
                Ok(count) if is_size => gib = Some(count),
                _ if NOISE.contains(&part.as_str()) || (part == "g" && gib.is_some()) => {}
                _ => {
                    words.insert(part.clone());
                }
            }
        }
        let is_family = |word: &String| FAMILIES.contains(&word.as_str());
        let mut families = BTreeSet::new();
        if words.iter().any(|word| has_digit(word)) {
            families = words.iter().filter(|w| is_family(w)).cloned().collect();
            words.retain(|word| !is_family(word));
        }
        Self { words, families, gib }
    }
}

/// `rtx4070ti` → `rtx`, `4070`, `ti`; `a100` and `mi300x` stay whole.
fn split_word(word: &str, parts: &mut Vec<String>) {
    let starts_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    for family in FAMILIES {
        if let Some(rest) = word.strip_prefix(family).filter(|rest| starts_number(rest)) {
            parts.push(family.to_owned());
            return split_word(rest, parts);
        }
    }
    let mut suffixes = Vec::new();
    let mut model = word;
    // `a10g` is a card, `24g` a size: `g` is a unit only after a plain number.
    while let Some((rest, suffix)) = SUFFIXES.iter().find_map(|suffix| {
        let rest = model.strip_suffix(suffix).filter(|rest| has_digit(rest))?;
        let is_number = rest.bytes().all(|c| c.is_ascii_digit());
        (*suffix != "g" || is_number).then_some((rest, *suffix))
    }) {
        suffixes.push(suffix.to_owned());
        model = rest;
    }
    parts.push(model.to_owned());
    parts.extend(suffixes.into_iter().rev());
}

fn is_unit(word: &str) -> bool {
    matches!(word, "gb" | "gib" | "g")
}

fn has_digit(word: &str) -> bool {
    word.bytes().any(|c| c.is_ascii_digit())
}

/// Who makes a card.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    Nvidia,
    Amd,
    Apple,
    Other,
}

impl Maker {
    /// The maker that a name states.
    fn of(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if has(&["intel", "arc", "gaudi", "huawei", "ascend", "tpu", "moore"]) {
            Some(Self::Other)
        } else if has(&["apple", "macbook"]) {
            Some(Self::Apple)
        } else if has(&["nvidia", "geforce", "rtx", "gtx", "tesla", "quadro", "titan"]) {
            Some(Self::Nvidia)
        } else if has(&["amd", "radeon", "instinct", "rx"]) {
            Some(Self::Amd)
        } else {
            None
        }
    }

    /// The maker of a card of the catalogue; most are NVIDIA's.
    fn of_card(name: &str) -> Self {
        Self::of(name).unwrap_or(Self::Nvidia)
    }
}

/// A name that shares less of its number with the requested one, in percent, is not similar.
const LEAST_SIMILARITY: u64 = 50;

/// Up to five names of the same maker that are similar to the requested one, best first.
fn nearest(name: &str, asked: &CardName) -> Vec<&'static str> {
    let maker = Maker::of(name);
    let is_similar = |gpu: &&CardSpec| {
        let own = CardName::read(gpu.name);
        let mut numbers = asked.words.iter().filter(|word| has_digit(word));
        let is_near = |word: &String| {
            own.words.iter().any(|other| similarity(word, other) >= LEAST_SIMILARITY)
        };
        maker.is_none_or(|maker| maker == Maker::of_card(gpu.name)) && numbers.any(is_near)
    };
    let mut ranked: Vec<(u64, &'static str)> = GPUS
        .iter()
        .filter(is_similar)
        .map(|gpu| {
            let own = CardName::read(gpu.name);
            let mut score = 0;
            for word in &asked.words {
                // Similar numbers score by their similarity.
                let best = own.words.iter().map(|other| similarity(word, other)).max();
                score += best.unwrap_or(0) * if has_digit(word) { 4 } else { 1 };
            }
            score += 20 * asked.families.intersection(&own.families).count() as u64;
            let extra = own.words.difference(&asked.words).count() as u64;
            (score.saturating_sub(10 * extra), gpu.name)
        })
        .collect();
    ranked.sort_by_key(|(score, _)| Reverse(*score)); // stable: equal scores keep the table's order
    ranked.into_iter().take(5).map(|(_, name)| name).collect()
}

/// The share of the common prefix, in percent.
fn similarity(one: &str, other: &str) -> u64 {
    let shared = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    (100 * shared / one.len().max(other.len()).max(1)) as u64
}
