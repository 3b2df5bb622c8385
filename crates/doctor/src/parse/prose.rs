//! Sentences of users: "not enough memory", "running out of VRAM", in several languages.
//!
//! They say less than an error message, so every message of a program outweighs them.

use std::sync::LazyLock;

use super::{
    message::{Message, Wording},
    phrases::Phrases,
    squeezed::{Occurrence, Passage, first_of, last_of},
};
use crate::facts::MemoryKind;

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
const BETWEEN: [(&str, MemoryKind); 25] = [
    ("edthe", MemoryKind::Unknown),
    ("the", MemoryKind::Unknown),
    ("my", MemoryKind::Unknown),
    ("all", MemoryKind::Unknown),
    ("available", MemoryKind::Unknown),
    ("free", MemoryKind::Unknown),
    ("total", MemoryKind::Unknown),
    ("of", MemoryKind::Unknown),
    ("on", MemoryKind::Unknown),
    ("gpu's", MemoryKind::GpuMemory),
    ("gpu", MemoryKind::GpuMemory),
    ("cuda", MemoryKind::GpuMemory),
    ("video", MemoryKind::GpuMemory),
    ("graphicscard", MemoryKind::GpuMemory),
    ("graphics", MemoryKind::GpuMemory),
    ("graphic", MemoryKind::GpuMemory),
    ("device", MemoryKind::GpuMemory),
    ("card", MemoryKind::GpuMemory),
    ("hbm", MemoryKind::GpuMemory),
    ("system", MemoryKind::HostMemory),
    ("host", MemoryKind::HostMemory),
    ("cpu", MemoryKind::HostMemory),
    ("main", MemoryKind::HostMemory),
    ("physical", MemoryKind::HostMemory),
    ("virtual", MemoryKind::HostMemory),
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

/// Where the name of the memory is.
#[derive(Clone, Copy)]
enum ProsePhrase {
    /// After the phrase: `not enough GPU memory`.
    NounAfter,
    /// In the phrase or before it: `GPU memory is full`.
    NounBefore,
}

static PHRASES: LazyLock<Phrases<ProsePhrase>> = LazyLock::new(|| {
    let after = SHORTAGES.map(|words| (words, ProsePhrase::NounAfter));
    let before = AFTERWARDS.into_iter().chain(FOREIGN);
    Phrases::new(after.into_iter().chain(before.map(|words| (words, ProsePhrase::NounBefore))))
});

/// Every such sentence that begins in `passage`.
pub(super) fn messages(passage: Passage<'_>, found: &mut impl FnMut(Message)) {
    for (words, phrase, place) in PHRASES.find(passage) {
        let memory = match phrase {
            ProsePhrase::NounAfter => memory_after(words, &place),
            ProsePhrase::NounBefore => Some(memory_before(words, &place)),
        };
        if let Some(memory) = memory {
            found(Message::new(place.at, Wording::Word, memory));
        }
    }
}

/// The memory that is short; `None` if the words are about something else.
fn memory_after(words: &str, place: &Occurrence<'_>) -> Option<MemoryKind> {
    // `out of memory` itself is read elsewhere.
    let is_read = words.ends_with("outof") && place.after.starts_with("memory");
    let is_harmless = first_of(place.after, 600).contains("thisisnotafailure");
    noun(place.after).filter(|_| !is_read && !is_harmless)
}

fn memory_before(words: &str, place: &Occurrence<'_>) -> MemoryKind {
    let before = last_of(place.before, 24);
    let owners = ["arbeits", "cpu", "host", "system", "node", "main"];
    let is_host =
        names_host(before) == Some(true) || owners.iter().any(|owner| before.ends_with(owner));
    match () {
        () if is_host => MemoryKind::HostMemory,
        () if CARDS.iter().any(|name| before.contains(name) || words.contains(name)) => {
            MemoryKind::GpuMemory
        }
        () => MemoryKind::Unknown,
    }
}

/// The memory that a text begins with, after up to four words about it.
fn noun(text: &str) -> Option<MemoryKind> {
    let mut rest = first_of(text, 60);
    let mut memory = MemoryKind::Unknown;
    for _ in 0..4 {
        let Some((word, kind)) = BETWEEN.iter().find(|(word, _)| rest.starts_with(word)) else {
            break;
        };
        rest = &rest[word.len()..];
        if *kind != MemoryKind::Unknown {
            memory = *kind;
        }
    }
    match () {
        () if rest.starts_with("vram") => Some(MemoryKind::GpuMemory),
        () if rest.starts_with("ram") => Some(MemoryKind::HostMemory),
        () if rest.starts_with("memory") => Some(memory),
        () => None,
    }
}

/// Verbs of growth, without their endings.
const GROWTH: [&str; 11] = [
    "increas",
    "grow",
    "climb",
    "creep",
    "accumulat",
    "rising",
    "rises",
    "rise",
    "gradually",
    "goes-up",
    "more-and-more",
];

/// The trouble that growth ends in. Without it, growth may be normal.
const ENDINGS: [&str; 29] = [
    "leak",
    "crash",
    "error",
    "full",
    "oom",
    "out of",
    "exhaust",
    "kill",
    "until",
    "keeps",
    "keep ",
    "continu",
    "constantly",
    "steadily",
    "over time",
    "gradually",
    "not be released",
    "explod",
    "爆",
    "占完",
    "占满",
    "报错",
    "卡死",
    "泄",
    "越来越",
    "一直",
    "リーク",
    "落ち",
    "leck",
];

/// A user's description of memory use that grows: `GPU memory keeps increasing`, and which memory.
/// The noun comes first: `increase the memory` is advice.
pub(super) fn grows(lower: &str) -> Option<MemoryKind> {
    let nouns = ["memory", "vram", "ram", "consumption", "memory-usage"];
    let of = |before: &[&str], noun: &str| {
        let is_host = |w: &&str| matches!(*w, "cpu" | "host" | "system" | "main" | "ram");
        match () {
            () if noun == "ram" || before.iter().any(is_host) => MemoryKind::HostMemory,
            () if noun == "vram"
                || before.iter().any(|w| matches!(*w, "gpu" | "cuda" | "video")) =>
            {
                MemoryKind::GpuMemory
            }
            () => MemoryKind::Unknown,
        }
    };
    let joined;
    let lower = if lower.contains("goes up")
        || lower.contains("more and more")
        || lower.contains("going up")
    {
        let text = lower.replace("more and more", "more-and-more").replace("going up", "goes-up");
        joined = text.replace("goes up", "goes-up");
        joined.as_str()
    } else {
        lower
    };
    if ENDINGS.iter().all(|word| !lower.contains(word)) {
        return None;
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
    for (at, word) in words.iter().enumerate() {
        if !nouns.contains(word) {
            continue;
        }
        let near = &words[at.saturating_sub(3)..at];
        let next = words.get(at + 1).copied().unwrap_or_default();
        if *word == "memory" && next.starts_with("leak") {
            return Some(of(near, word));
        }
        let has_verb = words[at + 1..].iter().take(5).any(|word| is_growth(word));
        // `becomes gradually more` may follow a figure.
        let turns = words[at + 1..].iter().take(16).any(|word| *word == "gradually");
        let before = &words[at.saturating_sub(4)..at];
        let is_increase_of = before.windows(2).any(|pair| is_growth(pair[0]) && pair[1] == "of");
        // `out of memory as the cache grows`
        if before.last() == Some(&"of") && !is_increase_of {
            continue;
        }
        if has_verb
            || turns
            || is_increase_of
            || (at > 0 && words[at - 1] == "leaks")
            || before.contains(&"more-and-more")
        {
            return Some(of(near, word));
        }
    }
    grows_in_other_languages(lower)
}

fn grows_in_other_languages(lower: &str) -> Option<MemoryKind> {
    let pairs: [(&str, MemoryKind, &[&str]); 6] = [
        ("显存", MemoryKind::GpuMemory, &["增", "涨", "上升", "越来越", "泄"]),
        ("内存", MemoryKind::Unknown, &["增", "涨", "上升", "越来越", "泄"]),
        ("vram", MemoryKind::GpuMemory, &["増え", "増加", "リーク"]),
        ("メモリ", MemoryKind::Unknown, &["増え", "増加", "リーク"]),
        ("speicher", MemoryKind::Unknown, &["wächst", "steigt", "leck"]),
        ("speicherverbrauch", MemoryKind::Unknown, &["zunimmt", "nimmt zu"]),
    ];
    pairs.iter().find_map(|(noun, memory, verbs)| {
        let is_near = lower.match_indices(noun).any(|(at, _)| {
            let after: String = lower[at + noun.len()..].chars().take(14).collect();
            verbs.iter().any(|verb| after.contains(verb))
        });
        // `服务器的内存` is the machine's.
        let is_host = *noun == "内存"
            && ["服务器", "机器", "系统", "主机", "cpu"].iter().any(|w| lower.contains(w));
        is_near.then_some(if is_host { MemoryKind::HostMemory } else { *memory })
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
