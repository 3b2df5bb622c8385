//! What a [`PatchError`] says.

use fitgpt_say::{Lang, Say};

use super::{PatchError, SyntaxFault};

fitgpt_say::messages! {
    not_python(file, line, what) {
        en: "`{file}` cannot be read as Python: line {line} has {what}",
        zh: "`{file}` 无法作为 Python 读取：第 {line} 行有{what}",
        ja: "`{file}` を Python として読めません: {line} 行目に{what}があります",
        de: "`{file}` ist nicht als Python lesbar: Zeile {line} hat {what}",
    }
    open_bracket() {
        en: "an unclosed bracket", zh: "未闭合的括号", ja: "閉じられていない括弧", de: "eine nicht geschlossene Klammer",
    }
    stray_bracket() {
        en: "an unmatched closing bracket", zh: "多余的右括号", ja: "対応する開き括弧のない括弧", de: "eine überzählige schließende Klammer",
    }
    open_string() {
        en: "an unclosed string", zh: "未闭合的字符串", ja: "閉じられていない文字列", de: "eine nicht geschlossene Zeichenkette",
    }
    no_such_patch(name) {
        en: "there is no patch `{name}`", zh: "没有名为 `{name}` 的补丁", ja: "`{name}` というパッチはありません", de: "es gibt keinen Patch `{name}`",
    }
}

impl Say for PatchError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NotPython { file, line, what } => {
                let what = match what {
                    SyntaxFault::OpenBracket => open_bracket(lang),
                    SyntaxFault::StrayBracket => stray_bracket(lang),
                    SyntaxFault::OpenString => open_string(lang),
                };
                not_python(lang, file, line, what)
            }
            Self::NoSuchPatch { name } => no_such_patch(lang, name),
            Self::File { doing, path, source } => doing.failed(lang, path, source),
        }
    }
}

fitgpt_say::displays_english!(PatchError);
