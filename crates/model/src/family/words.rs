//! What a [`FamilyError`] says.

use fitgpt_config::Family;
use fitgpt_say::{Lang, Say};

use super::json::{FamilyError, Requirement};

fitgpt_say::messages! {
    not_an_object() { en: "it should be a JSON object", zh: "它应是一个 JSON 对象", ja: "JSON オブジェクトではありません", de: "es sollte ein JSON-Objekt sein" }
    model_type(found, supported) {
        en: "`model_type` `{found}` is not supported: it can be {supported}",
        zh: "不支持 `model_type` `{found}`：可以是 {supported}",
        ja: "`model_type` `{found}` には対応していません。対応しているのは {supported} です",
        de: "`model_type` `{found}` wird nicht unterstützt: möglich sind {supported}",
    }
    missing(key) { en: "`{key}` is missing", zh: "缺少 `{key}`", ja: "`{key}` がありません", de: "`{key}` fehlt" }
    unfit(key, expected, found) {
        en: "`{key}` should be {expected}, found {found}",
        zh: "`{key}` 应为 {expected}，实际为 {found}",
        ja: "`{key}` は {expected} のはずですが、{found} です",
        de: "`{key}` sollte {expected} sein, gefunden: {found}",
    }
    either(first, second) {
        en: "{first} or {second}", zh: "{first} 或 {second}", ja: "{first} または {second}", de: "{first} oder {second}",
    }
    within(least, most) {
        en: "from {least} to {most}", zh: "{least} 到 {most} 之间", ja: "{least} 以上 {most} 以下", de: "von {least} bis {most}",
    }
    divides(key) { en: "a divisor of `{key}`", zh: "`{key}` 的约数", ja: "`{key}` の約数", de: "ein Teiler von `{key}`" }
    even() { en: "an even number", zh: "偶数", ja: "偶数", de: "eine gerade Zahl" }
    positive() { en: "a number above 0", zh: "大于 0 的数", ja: "0 より大きい数", de: "eine Zahl über 0" }
    rope_type() { en: "`default`, `linear` or `llama3`", zh: "`default`、`linear` 或 `llama3`", ja: "`default`、`linear`、`llama3` のいずれか", de: "`default`, `linear` oder `llama3`" }
    at_least_block(block) { en: "at least `block_size` {block}", zh: "至少为 `block_size` {block}", ja: "`block_size` {block} 以上", de: "mindestens `block_size` {block}" }
}

impl Say for FamilyError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NotAnObject => not_an_object(lang),
            Self::ModelType { found } => {
                model_type(lang, found, Family::ALL.map(Family::name).join(", "))
            }
            Self::Missing { key } => missing(lang, key),
            Self::UnsupportedValue { key, expected, found } => {
                unfit(lang, key, claim(lang, *expected), found)
            }
        }
    }
}

fn claim(lang: Lang, claim: Requirement) -> String {
    match claim {
        Requirement::Is(value) | Requirement::Kind(value) => value.to_owned(),
        Requirement::Either(first, second) => either(lang, first, second),
        Requirement::Within(least, most) => within(lang, least, most),
        Requirement::UpTo(most) => within(lang, "1", most),
        Requirement::Divides(key) => divides(lang, key),
        Requirement::Even => even(lang),
        Requirement::Positive => positive(lang),
        Requirement::RopeType => rope_type(lang),
        Requirement::AtLeastBlock(block) => at_least_block(lang, block),
    }
}

fitgpt_say::displays_english!(FamilyError);
