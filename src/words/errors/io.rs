//! File operations that the operating system refused. Its own error texts are not translated.

use std::{fmt::Display, path::Path};

use fitgpt_files::attempt::Attempt;

messages! {
    /// Below a relative path that does not exist.
    relative_to(folder) {
        en: "paths are relative to the current folder, `{folder}`",
        zh: "路径相对于当前文件夹 `{folder}`",
        ja: "パスは現在のフォルダ `{folder}` からの相対パスです",
        de: "Pfade gelten ab dem aktuellen Ordner, `{folder}`",
    }
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
    folder(path, source) {
        en: "cannot make the folder `{path}`: {source}", zh: "无法创建文件夹 `{path}`：{source}", ja: "フォルダ `{path}` を作成できません: {source}", de: "der Ordner `{path}` lässt sich nicht anlegen: {source}",
    }
    not_utf8() { en: "it is not UTF-8", zh: "不是 UTF-8 文本", ja: "UTF-8 ではありません", de: "es ist kein UTF-8" }
    /// No handler for Ctrl-C could be installed.
    no_signals(source) {
        en: "cannot handle signals: {source}", zh: "无法监听信号：{source}", ja: "シグナルを監視できません: {source}", de: "Signale lassen sich nicht abfangen: {source}",
    }
}

/// `attempt` on `path` failed.
pub(crate) fn failed(attempt: Attempt, path: &Path, source: impl Display) -> String {
    let path = path.display();
    match attempt {
        Attempt::Open => open(path, source),
        Attempt::Read => read(path, source),
        Attempt::Write => write(path, source),
        Attempt::Create => create(path, source),
        Attempt::List => list(path, source),
        Attempt::Remove => remove(path, source),
        Attempt::Rename => rename(path, source),
        Attempt::Sync => sync(path, source),
        Attempt::Lock => lock(path, source),
        Attempt::Truncate => cut_back(path, source),
        Attempt::BackUp => back_up(path, source),
    }
}
