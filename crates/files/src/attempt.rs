//! The operation on a file that failed.

use std::{fmt::Display, path::Path};

use fitgpt_say::Lang;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Open.
    Open,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Create a file or a folder.
    Create,
    /// List a folder.
    List,
    /// Remove.
    Remove,
    /// Rename.
    Rename,
    /// Wait until it is on the disk.
    Sync,
    /// Lock.
    Lock,
    /// Remove the end.
    Truncate,
    /// Copy before a change.
    BackUp,
}

fitgpt_say::messages! {
    open(path, source) {
        en: "cannot open `{path}`: {source}", zh: "无法打开 `{path}`：{source}", ja: "`{path}` を開けません: {source}", de: "`{path}` lässt sich nicht öffnen: {source}",
    }
    read(path, source) {
        en: "cannot read `{path}`: {source}", zh: "无法读取 `{path}`：{source}", ja: "`{path}` を読めません: {source}", de: "`{path}` lässt sich nicht lesen: {source}",
    }
    write(path, source) {
        en: "cannot write `{path}`: {source}", zh: "无法写入 `{path}`：{source}", ja: "`{path}` に書き込めません: {source}", de: "`{path}` lässt sich nicht schreiben: {source}",
    }
    create(path, source) {
        en: "cannot create `{path}`: {source}", zh: "无法创建 `{path}`：{source}", ja: "`{path}` を作成できません: {source}", de: "`{path}` lässt sich nicht anlegen: {source}",
    }
    list(path, source) {
        en: "cannot list `{path}`: {source}", zh: "无法列出 `{path}` 的内容：{source}", ja: "`{path}` の内容を一覧できません: {source}", de: "der Inhalt von `{path}` lässt sich nicht auflisten: {source}",
    }
    remove(path, source) {
        en: "cannot remove `{path}`: {source}", zh: "无法删除 `{path}`：{source}", ja: "`{path}` を削除できません: {source}", de: "`{path}` lässt sich nicht entfernen: {source}",
    }
    rename(path, source) {
        en: "cannot rename `{path}`: {source}", zh: "无法重命名 `{path}`：{source}", ja: "`{path}` の名前を変更できません: {source}", de: "`{path}` lässt sich nicht umbenennen: {source}",
    }
    sync(path, source) {
        en: "cannot sync `{path}`: {source}", zh: "无法将 `{path}` 同步到磁盘：{source}", ja: "`{path}` をディスクに同期できません: {source}", de: "`{path}` lässt sich nicht auf den Datenträger schreiben: {source}",
    }
    lock(path, source) {
        en: "cannot lock `{path}`: {source}", zh: "无法锁定 `{path}`：{source}", ja: "`{path}` をロックできません: {source}", de: "`{path}` lässt sich nicht sperren: {source}",
    }
    cut_back(path, source) {
        en: "cannot truncate `{path}`: {source}", zh: "无法截短 `{path}`：{source}", ja: "`{path}` を切り詰められません: {source}", de: "`{path}` lässt sich nicht kürzen: {source}",
    }
    back_up(path, source) {
        en: "cannot back up `{path}`: {source}", zh: "无法备份 `{path}`：{source}", ja: "`{path}` をバックアップできません: {source}", de: "`{path}` lässt sich nicht sichern: {source}",
    }
}

impl Attempt {
    /// It failed on `path`.
    pub fn failed(self, lang: Lang, path: &Path, source: impl Display) -> String {
        let path = path.display();
        match self {
            Self::Open => open(lang, path, source),
            Self::Read => read(lang, path, source),
            Self::Write => write(lang, path, source),
            Self::Create => create(lang, path, source),
            Self::List => list(lang, path, source),
            Self::Remove => remove(lang, path, source),
            Self::Rename => rename(lang, path, source),
            Self::Sync => sync(lang, path, source),
            Self::Lock => lock(lang, path, source),
            Self::Truncate => cut_back(lang, path, source),
            Self::BackUp => back_up(lang, path, source),
        }
    }
}
