//! Messages about downloads from the hub.

messages! {
    /// Printed before anything is downloaded. Sizes include their units.
    selected(name, sample, repo, revision, files, total) {
        en: "{name} ({sample}) is {repo} at {revision}; files: {files}, {total}\n",
        zh: "{name}（{sample}）即 {repo} 的 {revision}：{files} 个文件，{total}\n",
        ja: "{name}（{sample}）は {repo} の {revision}: {files} ファイル、{total}\n",
        de: "{name} ({sample}) ist {repo} in Version {revision}; Dateien: {files}, {total}\n",
    }
    /// The space that it takes.
    needs(download, cache, dataset, folder) {
        en: "  to download: {download}, kept in {cache}\n  temporary: nothing else\n  dataset: about {dataset}, in {folder}\n",
        zh: "  需下载：{download}，保存在 {cache}\n  临时空间：无\n  数据集：约 {dataset}，位于 {folder}\n",
        ja: "  ダウンロード: {download}、保存先 {cache}\n  一時領域: なし\n  データセット: 約 {dataset}、{folder} に作成\n",
        de: "  herunterzuladen: {download}, bleibt in {cache}\n  vorübergehend: nichts weiter\n  Datensatz: etwa {dataset}, in {folder}\n",
    }
    /// The progress line of a download.
    downloading(file, files, path, bytes, total, rate) {
        en: "downloading {file}/{files} {path}  {bytes} of {total}  {rate}/s",
        zh: "下载中 {file}/{files} {path}  {bytes} / {total}  {rate}/秒",
        ja: "ダウンロード中 {file}/{files} {path}  {bytes} / {total}  {rate}/秒",
        de: "Herunterladen {file}/{files} {path}  {bytes} von {total}  {rate}/s",
    }
    /// A progress line with the time that is left.
    with_eta(line, eta) {
        en: "{line}  {eta} left", zh: "{line}  剩余 {eta}", ja: "{line}  残り {eta}", de: "{line}  noch {eta}",
    }
    /// A path and a dataset have the same name.
    path_wins(name) {
        en: "`{name}` exists as a path, which is read; the dataset of that name is not downloaded",
        zh: "此处存在路径 `{name}`，读取该路径；不下载同名数据集",
        ja: "`{name}` はここにあるパスなので、それを読みます。同名のデータセットはダウンロードしません",
        de: "`{name}` ist hier ein Pfad und wird gelesen; der Datensatz dieses Namens wird nicht heruntergeladen",
    }
}

/// A size with its unit, in powers of ten as disks are sold.
pub(crate) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        _ if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        _ if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} kB", bytes / 1e3),
    }
}

/// Hours, minutes and seconds: `2:03:04`, `3:04`.
pub(crate) fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}
