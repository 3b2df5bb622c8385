//! What a [`SavedError`] says.

use fitgpt_say::{Lang, Say};

use super::error::{OptimizerFault, SavedError, TensorFault, ZipFault};

fitgpt_say::messages! {
    io(source) {
        en: "it cannot be read: {source}", zh: "无法读取：{source}", ja: "読み取れません: {source}", de: "sie ist nicht lesbar: {source}",
    }
    not_an_archive() {
        en: "it is not a zip archive", zh: "它不是 zip 归档", ja: "zip アーカイブではありません", de: "sie ist kein Zip-Archiv",
    }
    old_format() {
        en: "it has the format of PyTorch before version 1.6",
        zh: "它是 PyTorch 1.6 之前的格式",
        ja: "PyTorch 1.6 より前の形式です",
        de: "sie hat das Format von PyTorch vor Version 1.6",
    }
    zip(fault, offset) {
        en: "its archive is damaged or not PyTorch's: {fault} (at byte {offset})",
        zh: "它的归档已损坏或不是 PyTorch 写的：{fault}（第 {offset} 字节处）",
        ja: "アーカイブが壊れているか、PyTorch のものではありません: {fault}（バイト {offset}）",
        de: "ihr Archiv ist beschädigt oder nicht von PyTorch: {fault} (bei Byte {offset})",
    }
    no_entry(entry) {
        en: "its archive has no `{entry}`", zh: "它的归档中没有 `{entry}`", ja: "アーカイブに `{entry}` がありません", de: "ihr Archiv hat kein `{entry}`",
    }
    big_endian() {
        en: "its values are big-endian", zh: "它的数值是大端序", ja: "値がビッグエンディアンです", de: "ihre Werte sind big-endian",
    }
    pickle(source) {
        en: "its `data.pkl`: {source}", zh: "其中的 `data.pkl`：{source}", ja: "`data.pkl`: {source}", de: "ihre `data.pkl`: {source}",
    }
    tensor(tensor, fault) {
        en: "its tensor `{tensor}`: {fault}", zh: "其中的张量 `{tensor}`：{fault}", ja: "テンソル `{tensor}`: {fault}", de: "ihr Tensor `{tensor}`: {fault}",
    }
    no_key(key) { en: "it has no `{key}`", zh: "其中没有 `{key}`", ja: "`{key}` がありません", de: "sie hat kein `{key}`" }
    wrong_type(key, expected) { en: "its `{key}` should be {expected}" }
    optimizer(fault) { en: "its optimizer is not nanoGPT's AdamW: {fault}" }
    signature() { en: "a record has the wrong signature" }
    bounds() { en: "an entry extends past the end of the file" }
    compressed() { en: "an entry is compressed or encrypted" }
    name() { en: "a name is not UTF-8" }
    too_many() { en: "it has too many entries" }
    form() { en: "it is not stored in a known form" }
    unknown_type(name) { en: "the type `{name}` is not supported" }
    outside() { en: "it extends outside of its storage" }
    strides() { en: "it is not contiguous" }
    groups(found, expected) { en: "its groups have {found} parameters, expected {expected}" }
    state(name) { en: "it has a state `{name}`" }
    steps() { en: "its parameters were not updated equally often" }
}

impl Say for SavedError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Io(source) => io(lang, source),
            Self::NotAnArchive => not_an_archive(lang),
            Self::OldFormat => old_format(lang),
            Self::Zip { fault, offset } => zip(lang, fault.say(lang), offset),
            Self::NoEntry { entry } => no_entry(lang, entry),
            Self::BigEndian => big_endian(lang),
            Self::Pickle(source) => pickle(lang, source.say(lang)),
            Self::Tensor { tensor: name, fault } => tensor(lang, name, fault.say(lang)),
            Self::NoKey { key } => no_key(lang, key),
            Self::WrongType { key, expected } => wrong_type(lang, key, expected),
            Self::Optimizer(fault) => optimizer(lang, fault.say(lang)),
        }
    }
}

impl Say for ZipFault {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Signature => signature(lang),
            Self::Bounds => bounds(lang),
            Self::Compressed => compressed(lang),
            Self::Name => name(lang),
            Self::TooMany => too_many(lang),
        }
    }
}

impl Say for TensorFault {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Form => form(lang),
            Self::Type(name) => unknown_type(lang, name),
            Self::Bounds => outside(lang),
            Self::Strides => strides(lang),
        }
    }
}

impl Say for OptimizerFault {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Groups { expected, found } => {
                groups(lang, format!("{found:?}"), format!("{expected:?}"))
            }
            Self::State { name } => state(lang, name),
            Self::Steps => steps(lang),
        }
    }
}

fitgpt_say::displays_english!(SavedError, ZipFault, TensorFault, OptimizerFault);
