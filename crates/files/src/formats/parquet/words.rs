//! What a [`ParquetError`] says.

use fitgpt_say::{Lang, Say};

use super::ParquetError;

fitgpt_say::messages! {
    parquet_io(reason, offset) {
        en: "{reason} at byte {offset}", zh: "{reason}（第 {offset} 字节）", ja: "{reason}（バイト {offset}）", de: "{reason} bei Byte {offset}",
    }
    not_parquet() {
        en: "it is not a Parquet file", zh: "它不是 Parquet 文件", ja: "Parquet ファイルではありません", de: "sie ist keine Parquet-Datei",
    }
    encrypted() { en: "it is encrypted", zh: "文件已加密", ja: "暗号化されています", de: "sie ist verschlüsselt" }
    damaged(offset) {
        en: "it is damaged at byte {offset}", zh: "第 {offset} 字节处已损坏", ja: "バイト {offset} で破損しています", de: "sie ist bei Byte {offset} beschädigt",
    }
    no_column(column, columns) {
        en: "it has no column `{column}`; choose one of {columns} with `--column`",
        zh: "没有列 `{column}`；现有的列是 {columns}：可用 `--column` 指定",
        ja: "列 `{column}` がありません。あるのは {columns} です。`--column` で指定できます",
        de: "sie hat keine Spalte `{column}`; ihre Spalten sind {columns}: `--column` nennt eine andere",
    }
    column_not_text(column) {
        en: "its column `{column}` does not have one string per row",
        zh: "列 `{column}` 并非每行一段文本",
        ja: "列 `{column}` は 1 行に 1 つのテキストではありません",
        de: "ihre Spalte `{column}` enthält nicht einen Text je Zeile",
    }
    ambiguous(column) {
        en: "it has several columns `{column}`; rename all but one",
        zh: "有多个名为 `{column}` 的列；请只保留一个，其余改名",
        ja: "列 `{column}` が複数あります。1 つを残して名前を変えてください",
        de: "sie hat mehrere Spalten `{column}`; benennen Sie alle bis auf eine um",
    }
    column_not_supported(column, what, code) {
        en: "its column `{column}` has {what} {code}, which is not supported",
        zh: "列 `{column}` 的 {what} {code} 不受支持",
        ja: "列 `{column}` の {what} {code} には対応していません",
        de: "ihre Spalte `{column}` hat {what} {code}, was nicht unterstützt wird",
    }
    part_too_large(bytes, offset, limit) {
        en: "it has a block of {bytes} bytes at byte {offset}, more than the limit of {limit}",
        zh: "第 {offset} 字节处的一段有 {bytes} 字节，超过可读取的 {limit}",
        ja: "バイト {offset} の部分は {bytes} バイトで、読み取れる {limit} を超えています",
        de: "sie hat bei Byte {offset} einen Teil von {bytes} Bytes, mehr als die {limit}, die gelesen werden",
    }
}

impl Say for ParquetError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Io { offset, source } => parquet_io(lang, source, offset),
            Self::NotParquet => not_parquet(lang),
            Self::Encrypted => encrypted(lang),
            Self::Damaged { offset } => damaged(lang, offset),
            Self::NoColumn { column, columns } => {
                no_column(lang, column, format!("`{}`", columns.join("`, `")))
            }
            Self::NotText { column } => column_not_text(lang, column),
            Self::Ambiguous { column } => ambiguous(lang, column),
            Self::NotSupported { column, what, code } => {
                column_not_supported(lang, column, what, code)
            }
            Self::TooLarge { offset, bytes, limit } => part_too_large(lang, bytes, offset, limit),
        }
    }
}

fitgpt_say::displays_english!(ParquetError);
