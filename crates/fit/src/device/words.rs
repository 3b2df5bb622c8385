//! What a [`DeviceError`] says.

use fitgpt_say::{Lang, Say};

use super::find::DeviceError;

fitgpt_say::messages! {
    ambiguous(name, candidates) {
        en: "`{name}` is ambiguous: {candidates}", zh: "`{name}` 不明确：{candidates}", ja: "`{name}` は曖昧です: {candidates}", de: "`{name}` ist nicht eindeutig: {candidates}",
    }
    no_rates(name, known) {
        en: "the peak rates of `{name}` are not known; cards with known rates: {known}",
        zh: "没有 `{name}` 的峰值速率数据；已有数据的显卡：{known}",
        ja: "`{name}` のピーク性能は不明です。分かっているカード: {known}",
        de: "die Spitzenraten von `{name}` sind nicht bekannt; Karten mit bekannten Raten: {known}",
    }
    unknown_alone(name) {
        en: "unknown card `{name}`",
        zh: "没有名为 `{name}` 的显卡",
        ja: "`{name}` というカードはありません",
        de: "keine Karte heißt `{name}`",
    }
    unknown_device(name, nearest) {
        en: "unknown device `{name}`; the nearest names are {nearest}",
        zh: "没有名为 `{name}` 的设备；最接近的有 {nearest}",
        ja: "`{name}` というデバイスはありません。近いのは {nearest} です",
        de: "kein Gerät heißt `{name}`; am nächsten kommen {nearest}",
    }
}

impl Say for DeviceError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Ambiguous { name, candidates } => ambiguous(lang, name, list(candidates)),
            Self::Unknown { name, nearest } if nearest.is_empty() => unknown_alone(lang, name),
            Self::Unknown { name, nearest } => unknown_device(lang, name, list(nearest)),
            Self::NoRates { name, known } => no_rates(lang, name, list(known)),
        }
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fitgpt_say::displays_english!(DeviceError);
