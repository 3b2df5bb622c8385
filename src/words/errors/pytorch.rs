//! Why a file saved by PyTorch was not read.

use fitgpt_files::pytorch::{OptimizerFault, SavedError, TensorFault, ZipFault};

use super::Translate;

messages! {
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

impl Translate for SavedError {
    fn translate(&self) -> String {
        match self {
            Self::Io(source) => io(source),
            Self::NotAnArchive => not_an_archive(),
            Self::OldFormat => old_format(),
            Self::Zip { fault, offset } => zip(fault.translate(), offset),
            Self::NoEntry { entry } => no_entry(entry),
            Self::BigEndian => big_endian(),
            Self::Pickle(source) => pickle(source.translate()),
            Self::Tensor { tensor: name, fault } => tensor(name, fault.translate()),
            Self::NoKey { key } => no_key(key),
            Self::WrongType { key, expected } => wrong_type(key, expected),
            Self::Optimizer(fault) => optimizer(fault.translate()),
        }
    }
}

impl Translate for ZipFault {
    fn translate(&self) -> String {
        match self {
            Self::Signature => signature(),
            Self::Bounds => bounds(),
            Self::Compressed => compressed(),
            Self::Name => name(),
            Self::TooMany => too_many(),
        }
    }
}

impl Translate for TensorFault {
    fn translate(&self) -> String {
        match self {
            Self::Form => form(),
            Self::Type(name) => unknown_type(name),
            Self::Bounds => outside(),
            Self::Strides => strides(),
        }
    }
}

impl Translate for OptimizerFault {
    fn translate(&self) -> String {
        match self {
            Self::Groups { expected, found } => {
                groups(format!("{found:?}"), format!("{expected:?}"))
            }
            Self::State { name } => state(name),
            Self::Steps => steps(),
        }
    }
}
