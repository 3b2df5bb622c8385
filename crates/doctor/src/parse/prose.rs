//! Sentences of users: "not enough memory", "running out of VRAM", in several languages.
//!
//! They say less than an error message, so every message of a program outweighs them.

use super::{
    message::{Memory, Message, Wording, first_of, last_of},
    squeezed::Passage,
};

/// Verbs of a shortage, without white space; the name of a memory follows.
const SHORTAGES: [&str; 14] = [
    "notenough",
    "insufficient",
    "runoutof",
    "runsoutof",
    "ranoutof",
    "runningoutof",
    "runningof", // a common typo
    "runningout",
    "ranout",
    "lackof",
    "toolittle",
    "exhaust",
    "exceeds",
    "exceeded",
];

/// Words between the verb and the noun, and the memory that they name.
const BETWEEN: [(&str, Memory); 25] = [
    ("edthe", Memory::Unknown),
    ("the", Memory::Unknown),
    ("my", Memory::Unknown),
    ("all", Memory::Unknown),
    ("available", Memory::Unknown),
    ("free", Memory::Unknown),
    ("total", Memory::Unknown),
    ("of", Memory::Unknown),
    ("on", Memory::Unknown),
    ("gpu's", Memory::Gpu),
    ("gpu", Memory::Gpu),
    ("cuda", Memory::Gpu),
    ("video", Memory::Gpu),
    ("graphicscard", Memory::Gpu),
    ("graphics", Memory::Gpu),
    ("graphic", Memory::Gpu),
    ("device", Memory::Gpu),
    ("card", Memory::Gpu),
    ("hbm", Memory::Gpu),
    ("system", Memory::Host),
    ("host", Memory::Host),
    ("cpu", Memory::Host),
    ("main", Memory::Host),
    ("physical", Memory::Host),
    ("virtual", Memory::Host),
];

/// What follows the name of a memory in a sentence about a shortage.
const AFTERWARDS: [&str; 12] = [
    "memoryisnotenough",
    "memorynotenough",
    "memoryisinsufficient",
    "memoryinsufficient",
    "memoryexhaust",
    "memoryoverflow",
    "memoryisfull",
    "memoryshortage",
    "memoryleak",
    "memorylimitexceeded",
    "memoryoverload",
    "memoryblowup",
];

/// Shortages in other languages. Only ASCII letters are in lower case here, so that words that may
/// begin a sentence are without their first letter.
const FOREIGN: [&str; 23] = [
    "内存不足",
    "内存溢出",
    "内存不够",
    "爆内存",
    "内存爆",
    "記憶體不足",
    "メモリ不足",
    "メモリが不足",
    "メモリー不足",
    "メモリが足り",
    "vramが足り",
    "vram不足",
    "speicherreichtnicht",
    "speichernichtausreich",
    "nichtgenügendspeicher",
    "nichtgenugspeicher",
    "nichtgenügendgrafikspeicher",
    "zuwenigspeicher",
    "메모리부족",
    "едостаточнопамяти",
    "ехваткапамяти",
    "émoireinsuffisante",
    "memoriainsuficiente",
];

/// Names of GPU memory near a sentence.
const CARDS: [&str; 9] =
    ["gpu", "cuda", "vram", "grafik", "显卡", "显存", "video", "グラフィック", "그래픽"];

/// Names of host memory right before or after "out of memory".
const HOSTS: [&str; 8] = [
    "systemram",
    "systemmemory",
    "hostram",
    "hostmemory",
    "cpuram",
    "cpumemory",
    "mainmemory",
    "arbeitsspeicher",
];

/// Every such sentence that begins in `passage`.
pub(super) fn messages(passage: Passage<'_>, found: &mut impl FnMut(Message)) {
    for words in SHORTAGES {
        for place in passage.find(words) {
            // `out of memory` itself is read elsewhere.
            let is_read = words.ends_with("outof") && place.after.starts_with("memory");
            let is_harmless = first_of(place.after, 600).contains("thisisnotafailure");
            if let Some(memory) = noun(place.after).filter(|_| !is_read && !is_harmless) {
                found(Message::new(place.at, Wording::Word, memory));
            }
        }
    }
    for words in AFTERWARDS.iter().chain(&FOREIGN) {
        for place in passage.find(words) {
            let before = last_of(place.before, 24);
            let near = [before, words];
            let owners = ["arbeits", "cpu", "host", "system", "node", "main"];
            let is_host = names_host(before) == Some(true)
                || owners.iter().any(|owner| before.ends_with(owner));
            let memory = match () {
                () if is_host => Memory::Host,
                () if near.iter().any(|text| CARDS.iter().any(|n| text.contains(n))) => Memory::Gpu,
                () => Memory::Unknown,
            };
            found(Message::new(place.at, Wording::Word, memory));
        }
    }
}

/// The memory that a text begins with, after up to four words about it.
fn noun(text: &str) -> Option<Memory> {
    let mut rest = first_of(text, 60);
    let mut memory = Memory::Unknown;
    for _ in 0..4 {
        let Some((word, kind)) = BETWEEN.iter().find(|(word, _)| rest.starts_with(word)) else {
            break;
        };
        rest = &rest[word.len()..];
        if *kind != Memory::Unknown {
            memory = *kind;
        }
    }
    match () {
        () if rest.starts_with("vram") => Some(Memory::Gpu),
        () if rest.starts_with("memory") => Some(memory),
        () => None,
    }
}

/// Verbs of growth, without their endings.
const GROWTH: [&str; 7] = ["increas", "grow", "climb", "creep", "accumulat", "rising", "rises"];

/// A user's description of memory use that grows: `GPU memory keeps increasing`. The noun comes
/// first: `increase the memory` is advice.
pub(super) fn grows(lower: &str) -> bool {
    let nouns = ["memory", "vram", "consumption", "memory-usage"];
    if lower.contains("memory leak") || lower.contains("leaks memory") {
        return true;
    }
    if !nouns.iter().any(|noun| lower.contains(noun)) {
        return grows_in_other_languages(lower);
    }
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .filter(|word| !word.is_empty())
        .take(256)
        .collect();
    let is_growth = |word: &str| {
        !word.starts_with("growth") && GROWTH.iter().any(|verb| word.starts_with(verb))
    };
    let has_verb = |at: usize| words[at + 1..].iter().take(5).any(|word| is_growth(word));
    let is_increase_of = |at: usize| {
        let before = &words[at.saturating_sub(4)..at];
        before.windows(2).any(|pair| is_growth(pair[0]) && pair[1] == "of")
    };
    words
        .iter()
        .enumerate()
        .filter(|(_, word)| nouns.contains(word))
        .any(|(at, _)| has_verb(at) || is_increase_of(at))
        || grows_in_other_languages(lower)
}

fn grows_in_other_languages(lower: &str) -> bool {
    let pairs: [(&str, &[&str]); 5] = [
        ("显存", &["增", "涨", "上升", "越来越", "泄"]),
        ("内存", &["增", "涨", "上升", "越来越", "泄"]),
        ("メモリ", &["増え", "増加", "リーク"]),
        ("speicher", &["wächst", "steigt", "leck"]),
        ("speicherverbrauch", &["zunimmt", "nimmt zu"]),
    ];
    pairs.iter().any(|(noun, verbs)| {
        lower.match_indices(noun).any(|(at, _)| {
            let after: String = lower[at + noun.len()..].chars().take(14).collect();
            verbs.iter().any(|verb| after.contains(verb))
        })
    })
}

/// A word without its punctuation.
fn letters(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

/// A user's description of a process that the system killed. `I killed it` is none.
pub(super) fn was_killed(words: &[&str]) -> bool {
    let passive = ["is", "was", "gets", "got", "get", "be", "being", "been", "are", "were"];
    let subjects = ["process", "training", "job", "kernel"];
    (1..words.len()).any(|at| {
        let before = letters(words[at - 1]);
        // The signal says whether it was memory, and is read elsewhere.
        let names_signal = words.get(at + 2).is_some_and(|word| word.starts_with("signal"));
        match letters(words[at]) {
            "killed" if names_signal => false,
            "killed" => passive.contains(&before) || subjects.contains(&before),
            "kills" => before == "kernel",
            _ => false,
        }
    })
}

/// Whether a text names host memory; `Some(false)` if it denies it.
pub(super) fn names_host(text: &str) -> Option<bool> {
    HOSTS.iter().find_map(|name| {
        let (before, _) = text.split_once(name)?;
        Some(!before.ends_with("not") && !before.ends_with("notthe"))
    })
}
