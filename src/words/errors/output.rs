//! Why a path is not written to.

use super::Translate;
use crate::output::OutputError;

messages! {
    input(path) {
        en: "`{path}` is read by this command and is not replaced",
        zh: "本命令正在读取 `{path}`，不会替换它",
        ja: "`{path}` はこのコマンドが読み込むため、置き換えません",
        de: "`{path}` wird von diesem Befehl gelesen und nicht ersetzt",
    }
    not_a_file(path) {
        en: "`{path}` is not a regular file and is not replaced",
        zh: "`{path}` 不是普通文件，不会被替换",
        ja: "`{path}` は通常のファイルではないため、置き換えません",
        de: "`{path}` ist keine gewöhnliche Datei und wird nicht ersetzt",
    }
    not_a_folder(path) {
        en: "`{path}` is not a folder", zh: "`{path}` 不是文件夹", ja: "`{path}` はフォルダではありません", de: "`{path}` ist kein Ordner",
    }
    of_run(path) {
        en: "`{path}` belongs to a training run and is not replaced",
        zh: "`{path}` 属于一次训练，不会被替换",
        ja: "`{path}` は学習の実行に属するため、置き換えません",
        de: "`{path}` gehört zu einem Lauf und wird nicht ersetzt",
    }
    foreign(path) {
        en: "`{path}` was not written by fitgpt and is not replaced",
        zh: "`{path}` 不是 fitgpt 写的，不会被替换",
        ja: "`{path}` は fitgpt が書いたものではないため、置き換えません",
        de: "`{path}` wurde nicht von fitgpt geschrieben und wird nicht ersetzt",
    }
    exists(path) {
        en: "`{path}` exists; `--overwrite` replaces it",
        zh: "`{path}` 已存在；用 `--overwrite` 覆盖",
        ja: "`{path}` は既に存在します。`--overwrite` で上書きできます",
        de: "`{path}` gibt es schon; `--overwrite` ersetzt es",
    }
    /// What to do about a path that is never written to.
    another_path() {
        en: "write to another path",
        zh: "请写到别的路径",
        ja: "別のパスに書き出してください",
        de: "an einen anderen Ort schreiben",
    }
}

impl Translate for OutputError {
    fn translate(&self) -> String {
        match self {
            Self::Input { path } => input(path.display()),
            Self::NotAFile { path } => not_a_file(path.display()),
            Self::NotAFolder { path } => not_a_folder(path.display()),
            Self::OfRun { path } => of_run(path.display()),
            Self::Foreign { path } => foreign(path.display()),
            Self::Exists { path } => exists(path.display()),
        }
    }
}
