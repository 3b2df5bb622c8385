//! Why a nanoGPT folder could not be patched.

use super::{Translate, io};
use crate::patch::{PatchError, SyntaxFault};

messages! {
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
    /// The folder has no such files.
    which_folder() {
        en: "name the folder of your nanoGPT: the one with `train.py` and `model.py`",
        zh: "请指定你的 nanoGPT 文件夹，即含有 `train.py` 和 `model.py` 的文件夹",
        ja: "nanoGPT のフォルダ（`train.py` と `model.py` があるフォルダ）を指定してください",
        de: "den Ordner Ihres nanoGPT angeben: den mit `train.py` und `model.py`",
    }
    /// Before the names of all.
    there_are(names) { en: "available: {names}", zh: "可用的有 {names}", ja: "使えるのは {names} です", de: "es gibt {names}" }
}

impl Translate for PatchError {
    fn translate(&self) -> String {
        match self {
            Self::NotPython { file, line, what } => {
                let what = match what {
                    SyntaxFault::OpenBracket => open_bracket(),
                    SyntaxFault::StrayBracket => stray_bracket(),
                    SyntaxFault::OpenString => open_string(),
                };
                not_python(file, line, what)
            }
            Self::NoSuchPatch { name } => no_such_patch(name),
            Self::File { doing, path, source } => io::failed(*doing, path, source),
        }
    }
}
