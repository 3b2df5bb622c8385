//! What a [`ConfigError`] says.

use std::fmt::{self, Display, Write as _};

use fitgpt_say::{Lang, Say};

use super::{
    error::{ConfigError, FamilyRule, Location},
    key::{ValueKind, ValueRange},
};

fitgpt_say::messages! {
    /// The place of a command-line override.
    command_line() { en: "command line", zh: "命令行", ja: "コマンドライン", de: "Kommandozeile" }
    /// The place of a default.
    default_value() { en: "default", zh: "默认值", ja: "既定値", de: "Vorgabewert" }
    /// The place of a value from a checkpoint.
    checkpoint() { en: "the checkpoint", zh: "检查点", ja: "チェックポイント", de: "Checkpoint" }
    unknown_key(key) {
        en: "unknown key `{key}`",
        zh: "未知的配置项 `{key}`",
        ja: "設定キー `{key}` はありません",
        de: "unbekannter Schlüssel `{key}`",
    }
    unknown_key_near(key, nearest) {
        en: "unknown key `{key}`; the nearest is `{nearest}`",
        zh: "未知的配置项 `{key}`；最接近的是 `{nearest}`",
        ja: "設定キー `{key}` はありません。最も近いのは `{nearest}` です",
        de: "unbekannter Schlüssel `{key}`; am nächsten kommt `{nearest}`",
    }
    wrong_kind(key, expected, value) {
        en: "`{key}` takes {expected}, not `{value}`",
        zh: "`{key}` 需要{expected}，而不是 `{value}`",
        ja: "`{key}` の値は{expected}です。`{value}` は使えません",
        de: "`{key}` nimmt {expected}, nicht `{value}`",
    }
    out_of_range(key, range, value) {
        en: "`{key}` must be {range}, not `{value}`",
        zh: "`{key}` 必须{range}，而不是 `{value}`",
        ja: "`{key}` は{range}でなければなりません。`{value}` は使えません",
        de: "`{key}` muss {range} sein, nicht `{value}`",
    }
    not_a_choice(key, choices, value) {
        en: "`{key}` must be {choices}, not `{value}`",
        zh: "`{key}` 只能是 {choices}，而不是 `{value}`",
        ja: "`{key}` に指定できるのは {choices} です。`{value}` は使えません",
        de: "`{key}` muss {choices} sein, nicht `{value}`",
    }
    not_a_size(key, value) {
        en: "`{key}` must be a size such as `12GB` or `11.5GiB`, not `{value}`",
        zh: "`{key}` 是内存大小，例如 `12GB` 或 `11.5GiB`，而不是 `{value}`",
        ja: "`{key}` は `12GB` や `11.5GiB` のようなサイズです。`{value}` は使えません",
        de: "`{key}` muss eine Größe wie `12GB` oder `11.5GiB` sein, nicht `{value}`",
    }
    heads(n_embd, n_head, heads, widths) {
        en: "`n_embd` {n_embd} is not a multiple of `n_head` {n_head}: `n_head` could be {heads}, or `n_embd` {widths}",
        zh: "`n_embd` {n_embd} 不是 `n_head` {n_head} 的整数倍：`n_head` 可以取 {heads}，或 `n_embd` 取 {widths}",
        ja: "`n_embd` {n_embd} は `n_head` {n_head} の倍数ではありません。`n_head` を {heads} にするか、`n_embd` を {widths} にしてください",
        de: "`n_embd` {n_embd} ist kein Vielfaches von `n_head` {n_head}: möglich wäre `n_head` {heads} oder `n_embd` {widths}",
    }
    not_of_family(key, family) {
        en: "`{key}` has no effect on family `{family}`",
        zh: "`{key}` 对模型族 `{family}` 没有意义",
        ja: "`{key}` はモデルファミリー `{family}` では意味を持ちません",
        de: "`{key}` hat für die Familie `{family}` keine Bedeutung",
    }
    not_of_optimizer(key, optimizer) {
        en: "`{key}` has no effect on optimizer `{optimizer}`",
        zh: "`{key}` 对优化器 `{optimizer}` 没有意义",
        ja: "`{key}` はオプティマイザ `{optimizer}` では意味を持ちません",
        de: "`{key}` hat für den Optimierer `{optimizer}` keine Bedeutung",
    }
    kv_heads(n_kv_head, n_head) {
        en: "`n_kv_head` {n_kv_head} does not divide `n_head` {n_head}",
        zh: "`n_head` {n_head} 不是 `n_kv_head` {n_kv_head} 的整数倍",
        ja: "`n_head` {n_head} は `n_kv_head` {n_kv_head} の倍数ではありません",
        de: "`n_kv_head` {n_kv_head} teilt `n_head` {n_head} nicht",
    }
    odd_head(head_dim) {
        en: "`head_dim` {head_dim} is odd: rotary positions rotate pairs of channels",
        zh: "`head_dim` {head_dim} 是奇数：旋转位置编码按通道对旋转",
        ja: "`head_dim` {head_dim} が奇数です。回転位置埋め込みはチャネルを対で回転します",
        de: "`head_dim` {head_dim} ist ungerade: Rotary-Positionen drehen Paare von Kanälen",
    }
    eval_block(eval_block_size, block_size) {
        en: "`eval_block_size` {eval_block_size} exceeds `block_size` {block_size}",
        zh: "`eval_block_size` {eval_block_size} 超过了 `block_size` {block_size}",
        ja: "`eval_block_size` {eval_block_size} が `block_size` {block_size} を超えています",
        de: "`eval_block_size` {eval_block_size} ist größer als `block_size` {block_size}",
    }
    lanes(accumulation, lanes, works) {
        en: "`gradient_accumulation_steps` {accumulation} is not a multiple of `lanes` {lanes}; `{works}` works",
        zh: "`gradient_accumulation_steps` {accumulation} 不是 `lanes` {lanes} 的倍数；`{works}` 可行",
        ja: "`gradient_accumulation_steps` {accumulation} は `lanes` {lanes} の倍数ではありません。`{works}` なら動きます",
        de: "`gradient_accumulation_steps` {accumulation} ist kein Vielfaches von `lanes` {lanes}; mit `{works}` geht es",
    }
    too_large(product) {
        en: "{product} overflows 64 bits",
        zh: "{product} 超出 64 位",
        ja: "{product} は 64 ビットに収まりません",
        de: "{product} übersteigt 64 Bit",
    }
    /// Between the last two of a list.
    or() { en: " or ", zh: " 或 ", ja: " または ", de: " oder " }
    /// Between the others.
    comma() { en: ", ", zh: "、", ja: "、", de: ", " }
    an_int() { en: "an int", zh: "整数", ja: "整数", de: "eine ganze Zahl" }
    a_float() { en: "a float", zh: "数值", ja: "数値", de: "eine Zahl" }
    a_bool() { en: "True or False", zh: " True 或 False", ja: " True または False ", de: "True oder False" }
    a_string() { en: "a string", zh: "字符串", ja: "文字列", de: "eine Zeichenkette" }
    string_or_none() {
        en: "a string or None", zh: "字符串或 None", ja: "文字列または None ", de: "eine Zeichenkette oder None",
    }
    bool_or_string() {
        en: "True, False or a string", zh: " True、False 或字符串", ja: " True、False または文字列", de: "True, False oder eine Zeichenkette",
    }
    string_or_bytes() {
        en: "a string or a number of bytes", zh: "字符串或字节数", ja: "文字列またはバイト数", de: "eine Zeichenkette oder eine Anzahl Bytes",
    }
    anything() { en: "anything", zh: "是任意值", ja: "任意の値", de: "irgendetwas" }
    whole(min, max) {
        en: "from {min} to {max}", zh: "在 {min} 到 {max} 之间", ja: " {min} 以上 {max} 以下", de: "von {min} bis {max}",
    }
    not_negative() {
        en: "finite and 0 or more", zh: "是有限值且不小于 0", ja: "有限で 0 以上", de: "endlich und mindestens 0",
    }
    positive() {
        en: "finite and above 0", zh: "是有限值且大于 0", ja: "有限で 0 より大きい値", de: "endlich und größer als 0",
    }
    below_one() {
        en: "at least 0 and below 1", zh: "不小于 0 且小于 1", ja: " 0 以上 1 未満", de: "mindestens 0 und kleiner als 1",
    }
    share() {
        en: "above 0 and at most 1", zh: "大于 0 且不大于 1", ja: " 0 より大きく 1 以下", de: "größer als 0 und höchstens 1",
    }
    not_empty() {
        en: "a non-empty string", zh: "是非空字符串", ja: "空でない文字列", de: "eine nicht leere Zeichenkette",
    }
}

impl Say for Location {
    /// `train.py:3:1`, or a word if it is not a file.
    fn say(&self, lang: Lang) -> String {
        let source = match self.source.as_str() {
            "command line" => command_line(lang),
            "default" => default_value(lang),
            "the checkpoint" => checkpoint(lang),
            other => match other.strip_prefix("command line, ") {
                Some(key) => format!("{}, {key}", command_line(lang)),
                None => other.to_owned(), // a file
            },
        };
        Self { source, ..self.clone() }.to_string()
    }
}

impl Say for ConfigError {
    /// Without the place, which is shown separately.
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Python { reason, .. } => reason.say(lang),
            Self::UnknownKey { key, nearest: Some(near), .. } => unknown_key_near(lang, key, near),
            Self::UnknownKey { key, nearest: None, .. } => unknown_key(lang, key),
            Self::WrongKind { key, value, expected, .. } => {
                wrong_kind(lang, key, kind(lang, *expected), value)
            }
            Self::OutOfRange { key, value, range, .. } => {
                out_of_range(lang, key, within(lang, *range), value)
            }
            Self::NotAChoice { key, value, choices, .. } => {
                not_a_choice(lang, key, one_of(lang, choices), value)
            }
            Self::NotASize { key, value, .. } => not_a_size(lang, key, value),
            Self::HeadsDoNotDivide { n_embd, n_head, heads: divisors, widths, .. } => {
                heads(lang, n_embd, n_head, one_of(lang, divisors), one_of(lang, widths))
            }
            Self::NotOfFamily { key, family, .. } => not_of_family(lang, key, family),
            Self::NotOfOptimizer { key, optimizer, .. } => not_of_optimizer(lang, key, optimizer),
            Self::BreaksFamilyRule { rule, .. } => match *rule {
                FamilyRule::KeyValueHeads { n_head, n_kv_head } => {
                    kv_heads(lang, n_kv_head, n_head)
                }
                FamilyRule::OddHead { head_dim } => odd_head(lang, head_dim),
            },
            Self::EvalBlockTooLong { eval_block_size, block_size, .. } => {
                eval_block(lang, eval_block_size, block_size)
            }
            Self::LanesDoNotDivide { lanes: n, accumulation, works, .. } => {
                lanes(lang, accumulation, n, works.arguments())
            }
            Self::TooLarge { product, .. } => {
                let factors: Vec<_> = product.iter().map(|factor| format!("`{factor}`")).collect();
                too_large(lang, factors.join(" × "))
            }
        }
    }
}

fn kind(lang: Lang, kind: ValueKind) -> String {
    match kind {
        ValueKind::Int => an_int(lang),
        ValueKind::Float => a_float(lang),
        ValueKind::Bool => a_bool(lang),
        ValueKind::Text | ValueKind::Choice(_) | ValueKind::Device(_) => a_string(lang),
        ValueKind::ChoiceOrNone(_) => string_or_none(lang),
        ValueKind::BoolOr(_) => bool_or_string(lang),
        ValueKind::Size => string_or_bytes(lang),
    }
}

fn within(lang: Lang, range: ValueRange) -> String {
    match range {
        ValueRange::Any => anything(lang),
        ValueRange::Whole { min, max } => whole(lang, min, max),
        ValueRange::NotNegative => not_negative(lang),
        ValueRange::Positive => positive(lang),
        ValueRange::BelowOne => below_one(lang),
        ValueRange::Share => share(lang),
        ValueRange::NotEmpty => not_empty(lang),
    }
}

/// `a`, `b` or `c`.
fn one_of(lang: Lang, items: &[impl Display]) -> String {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text += &if index + 1 == items.len() { or(lang) } else { comma(lang) };
        }
        let _ = write!(text, "`{item}`");
    }
    text
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.say(Lang::English))
    }
}
