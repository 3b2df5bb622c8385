//! What a [`PrepareError`] says.

use std::path::Path;

use fitgpt_say::{Lang, Say};

use super::{
    EXTENSIONS,
    encoding::is_of_tokens,
    error::{HeldOut, JsonKind, PrepareError, file_name},
    need::DiskNeed,
};

fitgpt_say::messages! {
    no_input() {
        en: "no input: give files, folders, or `-` for standard input",
        zh: "没有指定文本：请给出文件、文件夹，或用 `-` 表示标准输入",
        ja: "テキストが指定されていません。ファイル、フォルダ、または標準入力を表す `-` を指定してください",
        de: "kein Text angegeben: Dateien, Ordner oder `-` für die Standardeingabe nennen",
    }
    stdin_twice() {
        en: "standard input is given twice", zh: "标准输入被指定了两次", ja: "標準入力が 2 回指定されています", de: "die Standardeingabe ist zweimal genannt",
    }
    no_match(pattern) {
        en: "no file matches `{pattern}`", zh: "没有文件匹配 `{pattern}`", ja: "`{pattern}` に一致するファイルがありません", de: "keine Datei passt zu `{pattern}`",
    }
    no_texts(folder, endings) {
        en: "`{folder}` has no files ending in {endings}",
        zh: "`{folder}` 中没有以 {endings} 结尾的文件",
        ja: "`{folder}` に {endings} で終わるファイルがありません",
        de: "`{folder}` enthält keine Dateien mit der Endung {endings}",
    }
    share_outside(val_fraction) {
        en: "`--val_fraction` must be between 0 and 1: {val_fraction}",
        zh: "`--val_fraction` 必须在 0 和 1 之间：{val_fraction}",
        ja: "`--val_fraction` は 0 と 1 の間でなければなりません: {val_fraction}",
        de: "`--val_fraction` muss zwischen 0 und 1 liegen: {val_fraction}",
    }
    in_use(folder) {
        en: "`{folder}` is in use by another process", zh: "`{folder}` 正被另一个进程使用", ja: "`{folder}` は別のプロセスが使用中です", de: "`{folder}` wird von einem anderen Prozess benutzt",
    }
    in_use_by(folder, pid) {
        en: "`{folder}` is in use by another process, {pid}", zh: "`{folder}` 正被另一个进程 {pid} 使用", ja: "`{folder}` は別のプロセス {pid} が使用中です", de: "`{folder}` wird von einem anderen Prozess benutzt, {pid}",
    }
    exists(path) {
        en: "`{path}` exists; `--overwrite` replaces it",
        zh: "`{path}` 已存在；用 `--overwrite` 覆盖",
        ja: "`{path}` は既に存在します。`--overwrite` で上書きできます",
        de: "`{path}` gibt es schon; `--overwrite` ersetzt es",
    }
    disk_full(path, written_bytes) {
        en: "the disk is full: {written_bytes} bytes of `{path}` were written",
        zh: "磁盘已满：`{path}` 只写入了 {written_bytes} 字节",
        ja: "ディスクがいっぱいです: `{path}` は {written_bytes} バイトまで書き込まれました",
        de: "die Platte ist voll: {written_bytes} Bytes von `{path}` wurden geschrieben",
    }
    too_little_disk(need, free_bytes) {
        en: "the dataset needs {need}, the disk has {free_bytes} bytes free",
        zh: "数据集需要 {need}，磁盘只剩 {free_bytes} 字节",
        ja: "データセットには {need} 必要ですが、ディスクの空きは {free_bytes} バイトです",
        de: "der Datensatz braucht {need}, auf der Platte sind {free_bytes} Bytes frei",
    }
    need_bytes(bytes) { en: "{bytes} bytes", zh: "{bytes} 字节", ja: "{bytes} バイト", de: "{bytes} Bytes" }
    need_range(usual, most) {
        en: "about {usual} and at most {most} bytes", zh: "约 {usual}、最多 {most} 字节", ja: "約 {usual}、最大 {most} バイト", de: "etwa {usual} und höchstens {most} Bytes",
    }
    not_utf8(path, offset) {
        en: "`{path}` is not valid UTF-8 at byte {offset}; `--lossy` replaces invalid bytes",
        zh: "`{path}` 不是 UTF-8 文本：第 {offset} 字节；`--lossy` 会替换这类字节",
        ja: "`{path}` は UTF-8 テキストではありません: バイト {offset}。`--lossy` でそのようなバイトを置き換えられます",
        de: "`{path}` ist kein UTF-8-Text: Byte {offset}; `--lossy` ersetzt solche Bytes",
    }
    /// A file of tokens.
    file_of_tokens(path, folder) {
        en: "`{path}` is not text: it has the name of a file of tokens, and nothing is left to prepare; `--dataset={folder}` trains on its folder",
        zh: "`{path}` 不是文本：从文件名看它是 token 文件，无需再准备；`--dataset={folder}` 可直接用其文件夹训练",
        ja: "`{path}` はテキストではありません。名前からするとトークンのファイルで、準備は済んでいます。`--dataset={folder}` でそのフォルダを使って学習できます",
        de: "`{path}` ist kein Text: dem Namen nach ist es eine Datei mit Tokens, und es bleibt nichts vorzubereiten; `--dataset={folder}` trainiert mit ihrem Ordner",
    }
    /// The whole text has another encoding.
    other_encoding(path, encoding, command) {
        en: "`{path}` is not UTF-8, it looks like {encoding}: `{command}` converts it",
        zh: "`{path}` 不是 UTF-8，看起来是 {encoding}：可用 `{command}` 转换",
        ja: "`{path}` は UTF-8 ではなく {encoding} のようです。`{command}` で変換できます",
        de: "`{path}` ist nicht UTF-8, es sieht nach {encoding} aus: `{command}` wandelt es um",
    }
    row_not_utf8(path, row) {
        en: "row {row} of `{path}` is not valid UTF-8; `--lossy` replaces invalid bytes",
        zh: "`{path}` 第 {row} 行不是 UTF-8 文本；`--lossy` 会替换这类字节",
        ja: "`{path}` の {row} 行目は UTF-8 テキストではありません。`--lossy` でそのようなバイトを置き換えられます",
        de: "Zeile {row} von `{path}` ist kein UTF-8-Text; `--lossy` ersetzt solche Bytes",
    }
    parquet(path, reason) {
        en: "cannot read `{path}`: {reason}", zh: "无法读取 `{path}`：{reason}", ja: "`{path}` を読み取れません: {reason}", de: "`{path}` kann nicht gelesen werden: {reason}",
    }
    shard_in_other(path, flag) {
        en: "`{path}` contains GPT-2 tokens, not text: leave out `{flag}`",
        zh: "`{path}` 存的是 GPT-2 的 token，不是文本：请去掉 `{flag}`",
        ja: "`{path}` は GPT-2 のトークンで、テキストではありません。`{flag}` を外してください",
        de: "`{path}` enthält GPT-2s Tokens, keinen Text: `{flag}` weglassen",
    }
    no_end_of_text(path) {
        en: "`{path}` defines no end-of-text token: set one with `--eot_token`, or use `--eot none`",
        zh: "`{path}` 没有说明哪个 token 表示文本结束：请用 `--eot_token` 指定，或用 `--eot none`",
        ja: "`{path}` からはテキストの終わりのトークンが分かりません。`--eot_token` で指定するか、`--eot none` を使ってください",
        de: "`{path}` legt kein Textende-Token fest: mit `--eot_token` nennen oder `--eot none` verwenden",
    }
    not_json(path, line, reason, column) {
        en: "`{path}` line {line} is not JSON: {reason}, column {column}",
        zh: "`{path}` 第 {line} 行不是 JSON：{reason}，第 {column} 列",
        ja: "`{path}` の {line} 行目は JSON ではありません: {reason}、{column} 列目",
        de: "`{path}`, Zeile {line} ist kein JSON: {reason}, Spalte {column}",
    }
    no_field(path, line, field) {
        en: "`{path}` line {line} has no field `{field}`",
        zh: "`{path}` 第 {line} 行没有字段 `{field}`",
        ja: "`{path}` の {line} 行目にフィールド `{field}` がありません",
        de: "`{path}`, Zeile {line} hat kein Feld `{field}`",
    }
    other_fields(fields) {
        en: "; choose one of {fields} with `--field`",
        zh: "；现有的字段是 {fields}：可用 `--field` 指定",
        ja: "。あるのは {fields} です。`--field` で指定できます",
        de: "; ihre Felder sind {fields}: `--field` nennt ein anderes",
    }
    not_text(path, line, field, found) {
        en: "`{path}` line {line}: the field `{field}` should be text, but is {found}",
        zh: "`{path}` 第 {line} 行：字段 `{field}` 应为文本，实际是{found}",
        ja: "`{path}` の {line} 行目: フィールド `{field}` はテキストのはずですが、{found}です",
        de: "`{path}`, Zeile {line}: das Feld `{field}` sollte Text sein, ist aber {found}",
    }
    a_boolean() { en: "a boolean", zh: "布尔值", ja: "真偽値", de: "ein Wahrheitswert" }
    a_number() { en: "a number", zh: "数字", ja: "数値", de: "eine Zahl" }
    null() { en: "null", zh: " null", ja: " null ", de: "null" }
    an_array() { en: "an array", zh: "数组", ja: "配列", de: "ein Array" }
    an_object() { en: "an object", zh: "对象", ja: "オブジェクト", de: "ein Objekt" }
    line_too_long(path, line, limit_bytes) {
        en: "`{path}` line {line} is longer than {limit_bytes} bytes",
        zh: "`{path}` 第 {line} 行超过 {limit_bytes} 字节",
        ja: "`{path}` の {line} 行目は {limit_bytes} バイトを超えています",
        de: "`{path}`, Zeile {line} ist länger als {limit_bytes} Bytes",
    }
    too_many_symbols(symbols, limit) {
        en: "the text has {symbols} different characters, but 16-bit tokens can represent only {limit}; leave out `--chars` for GPT-2's tokens, which have no such limit",
        zh: "文本有 {symbols} 种不同字符，而 16 位 token 只能区分 {limit} 种；去掉 `--chars` 即用 GPT-2 的 token，没有这个限制",
        ja: "テキストには {symbols} 種類の文字がありますが、16 ビットのトークンで区別できるのは {limit} 種類です。`--chars` を外すと、この制限のない GPT-2 のトークンになります",
        de: "der Text hat {symbols} verschiedene Zeichen, ein Token mit 16 Bit kann aber nur {limit} unterscheiden; ohne `--chars` gelten GPT-2s Tokens, die diese Grenze nicht kennen",
    }
    changed() {
        en: "the input changed while it was being read", zh: "输入在读取过程中发生了变化", ja: "読み取り中に入力が変わりました", de: "die Eingabe hat sich beim Lesen geändert",
    }
    empty() { en: "the input has no text", zh: "输入中没有文本", ja: "入力にテキストがありません", de: "die Eingabe enthält keinen Text" }
    empty_split(file, val_fraction, documents, characters) {
        en: "`{file}` would be empty: `--val_fraction={val_fraction}` splits {documents} documents with {characters} characters",
        zh: "`{file}` 会是空的：{documents} 篇文档（{characters} 个字符）中按 {val_fraction} 的比例留作验证",
        ja: "`{file}` が空になります: {documents} 件の文書（{characters} 文字）のうち {val_fraction} の割合を検証用に取り分けています",
        de: "`{file}` wäre leer: `--val_fraction={val_fraction}` teilt {documents} Dokumente mit {characters} Zeichen auf",
    }
    empty_split_of_one(file, val_fraction, characters) {
        en: "`{file}` would be empty: `--val_fraction={val_fraction}` splits 1 document with {characters} characters",
        zh: "`{file}` 会是空的：1 篇文档（{characters} 个字符）中按 {val_fraction} 的比例留作验证",
        ja: "`{file}` が空になります: 1 件の文書（{characters} 文字）のうち {val_fraction} の割合を検証用に取り分けています",
        de: "`{file}` wäre leer: `--val_fraction={val_fraction}` teilt 1 Dokument mit {characters} Zeichen auf",
    }
    better_share(val_fraction, documents) {
        en: "; `--val_fraction={val_fraction}` works (documents held out: {documents})",
        zh: "；`--val_fraction={val_fraction}` 可留出 {documents} 篇文档",
        ja: "。`--val_fraction={val_fraction}` なら {documents} 件の文書を取り分けられます",
        de: "; mit `--val_fraction={val_fraction}` geht es (Dokumente zur Validierung: {documents})",
    }
    paused() {
        en: "stopped; run the same command again to continue", zh: "已停止；再次运行同一命令即可继续", ja: "停止しました。同じコマンドで続きから再開します", de: "angehalten; derselbe Befehl setzt die Arbeit fort",
    }
    stopped() {
        en: "stopped; nothing was written", zh: "已停止；没有写入任何内容", ja: "停止しました。何も書き込まれていません", de: "angehalten; nichts wurde geschrieben",
    }
}

impl Say for PrepareError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NoInput => no_input(lang),
            Self::StdinTwice => stdin_twice(lang),
            Self::NoMatch { pattern } => no_match(lang, pattern.display()),
            Self::NoTexts { folder } => {
                let endings = format!("`{}`", EXTENSIONS.join("`, `"));
                no_texts(lang, folder.display(), endings)
            }
            Self::ValFraction { val_fraction } => share_outside(lang, val_fraction),
            Self::Exists { path } => exists(lang, path.display()),
            Self::InUse { folder, pid: Some(pid) } => in_use_by(lang, folder.display(), pid),
            Self::InUse { folder, pid: None } => in_use(lang, folder.display()),
            Self::Io { action, path, source } => action.failed(lang, path, source),
            Self::DiskFull { path, written_bytes } => {
                disk_full(lang, path.display(), written_bytes)
            }
            Self::TooLittleDisk { need: DiskNeed { usual_bytes, most_bytes }, free_bytes } => {
                let need = if usual_bytes == most_bytes {
                    need_bytes(lang, most_bytes)
                } else {
                    need_range(lang, usual_bytes, most_bytes)
                };
                too_little_disk(lang, need, free_bytes)
            }
            Self::NotUtf8 { path, .. } if is_of_tokens(path) => {
                let folder = path.parent().unwrap_or(Path::new("."));
                file_of_tokens(lang, path.display(), folder.display())
            }
            Self::NotUtf8 { path, offset, encoding: None } => {
                not_utf8(lang, path.display(), offset)
            }
            Self::NotUtf8 { path, encoding: Some(encoding), .. } => {
                other_encoding(lang, path.display(), encoding, iconv(path, encoding))
            }
            Self::RowNotUtf8 { path, row } => row_not_utf8(lang, path.display(), row),
            Self::Parquet { path, source } => parquet(lang, path.display(), source.say(lang)),
            Self::Shard { source } => source.say(lang),
            Self::ShardInOther { path, flag } => shard_in_other(lang, path.display(), flag),
            Self::NoEndOfText { path } => no_end_of_text(lang, path.display()),
            Self::NotJson { path, line, column, reason } => {
                not_json(lang, path.display(), line, reason, column)
            }
            Self::NoField { path, line, field, fields } => {
                let message = no_field(lang, path.display(), line, field);
                if fields.is_empty() {
                    return message;
                }
                message + &other_fields(lang, format!("`{}`", fields.join("`, `")))
            }
            Self::NotText { path, line, field, found } => {
                not_text(lang, path.display(), line, field, kind(lang, *found))
            }
            Self::LineTooLong { path, line, limit_bytes } => {
                line_too_long(lang, path.display(), line, limit_bytes)
            }
            Self::TooManySymbols { symbols, limit } => too_many_symbols(lang, symbols, limit),
            Self::Changed => changed(lang),
            Self::Encode { source } => source.say(lang),
            Self::Empty => empty(lang),
            Self::EmptySplit { split, documents, characters, val_fraction, computed } => {
                let file = file_name(*split);
                let message = match documents {
                    1 => empty_split_of_one(lang, file, val_fraction, characters),
                    _ => empty_split(lang, file, val_fraction, documents, characters),
                };
                let better = computed.map_or_else(String::new, |share| {
                    let HeldOut { val_fraction, documents } = share;
                    better_share(lang, val_fraction, documents)
                });
                message + &better
            }
            Self::Stopped => stopped(lang),
            Self::Paused => paused(lang),
        }
    }
}

/// The command that converts a text, to a new file next to it.
fn iconv(path: &Path, encoding: &str) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+,@%".contains(c);
    if !text.chars().all(is_plain) || text.starts_with('-') {
        return format!("iconv -f {encoding} -t UTF-8 OLD > NEW.txt");
    }
    let new = path.with_extension("utf8.txt");
    format!("iconv -f {encoding} -t UTF-8 {text} > {}", new.display())
}

fn kind(lang: Lang, kind: JsonKind) -> String {
    match kind {
        JsonKind::Boolean => a_boolean(lang),
        JsonKind::Number => a_number(lang),
        JsonKind::Null => null(lang),
        JsonKind::Array => an_array(lang),
        JsonKind::Object => an_object(lang),
    }
}

fitgpt_say::displays_english!(PrepareError);
