//! What a [`PickleError`] says.

use fitgpt_say::{Lang, Say};

use super::PickleError;

fitgpt_say::messages! {
    code(opcode, offset) {
        en: "it would run code, which is not allowed (opcode `{opcode}` at byte {offset})",
        zh: "它会执行代码，这里不允许（第 {offset} 字节的操作码 `{opcode}`）",
        ja: "コードを実行しようとしますが、許可されていません（バイト {offset} のオペコード `{opcode}`）",
        de: "sie würde Code ausführen, was nicht erlaubt ist (Opcode `{opcode}` bei Byte {offset})",
    }
    global(global, offset) {
        en: "it refers to `{global}`, which is not allowed (at byte {offset})",
        zh: "它引用了 `{global}`，这里不允许（第 {offset} 字节处）",
        ja: "`{global}` を参照していますが、許可されていません（バイト {offset}）",
        de: "sie verweist auf `{global}`, was nicht erlaubt ist (bei Byte {offset})",
    }
    unknown_opcode(byte, offset) {
        en: "it is not a supported pickle (byte {byte} at {offset} is not an opcode)",
        zh: "它不是可读取的 pickle（位置 {offset} 的字节 {byte} 不是操作码）",
        ja: "読み取れる pickle ではありません（位置 {offset} のバイト {byte} はオペコードではありません）",
        de: "sie ist kein lesbares Pickle (Byte {byte} bei {offset} ist kein Opcode)",
    }
    cut_off(length) {
        en: "it is cut off: it ends after {length} bytes, before its end mark",
        zh: "它不完整：在结束标记之前，{length} 字节处就中断了",
        ja: "途中で切れています。終端記号の前、{length} バイトで終わっています",
        de: "sie ist abgeschnitten: sie endet nach {length} Byte, vor ihrer Endmarke",
    }
    no_operand(offset) {
        en: "it is not a valid pickle (the opcode at byte {offset} lacks its operand)",
        zh: "它不是有效的 pickle（第 {offset} 字节的操作码缺少操作数）",
        ja: "有効な pickle ではありません（バイト {offset} のオペコードにオペランドがありません）",
        de: "sie ist kein gültiges Pickle (dem Opcode bei Byte {offset} fehlt sein Operand)",
    }
    bad_value(offset) {
        en: "it is not a valid pickle (the value at byte {offset} cannot be decoded)",
        zh: "它不是有效的 pickle（第 {offset} 字节的值无法解码）",
        ja: "有効な pickle ではありません（バイト {offset} の値をデコードできません）",
        de: "sie ist kein gültiges Pickle (der Wert bei Byte {offset} ist nicht zu dekodieren)",
    }
    too_large(offset) {
        en: "it has more values than are supported (at byte {offset})",
        zh: "其中的值超出了可读取的数量（第 {offset} 字节处）",
        ja: "値が多すぎて読み取れません（バイト {offset}）",
        de: "sie enthält zu viele Werte (bei Byte {offset})",
    }
    cannot_read(error) {
        en: "it cannot be read: {error}", zh: "无法读取：{error}", ja: "読み取れません: {error}", de: "sie ist nicht lesbar: {error}",
    }
    trailing(extra) {
        en: "it has {extra} bytes after its end mark",
        zh: "结束标记之后还有 {extra} 字节",
        ja: "終端記号の後にさらに {extra} バイト続いています",
        de: "nach ihrer Endmarke folgen noch {extra} Byte",
    }
}

impl Say for PickleError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Code { opcode, offset } => code(lang, opcode, offset),
            Self::Global { global: name, offset } => global(lang, name, offset),
            Self::UnknownOpcode { byte, offset } => {
                unknown_opcode(lang, format!("{byte:#04x}"), offset)
            }
            Self::CutOff { length } => cut_off(lang, length),
            Self::NoOperand { offset } => no_operand(lang, offset),
            Self::BadValue { offset } => bad_value(lang, offset),
            Self::TooLarge { offset } => too_large(lang, offset),
            Self::Trailing { extra } => trailing(lang, extra),
            Self::Io(error) => cannot_read(lang, error),
        }
    }
}

fitgpt_say::displays_english!(PickleError);
