//! What `prepare` prints while it reads and when it is done.

use fitgpt_data::tokenizer::EndOfTextOrigin;
use fitgpt_prepare::{Pass, SkipReason};

messages! {
    keeping() { en: "copying the input", zh: "缓存中", ja: "入力をコピー中", de: "Zwischenspeichern" }
    reading() { en: "reading", zh: "读取中", ja: "読み取り中", de: "Lesen" }
    encoding() { en: "encoding", zh: "编码中", ja: "エンコード中", de: "Kodieren" }
    /// The progress line if the size of the input is known. Counts are labelled, so that no
    /// language needs a plural.
    progress_of(pass, megabytes, total, documents, tokens) {
        en: "{pass} {megabytes} of {total} MB  documents: {documents}  tokens: {tokens}",
        zh: "{pass} {megabytes} / {total} MB  {documents} 篇文档  {tokens} 个 token",
        ja: "{pass} {megabytes} / {total} MB  {documents} 文書  {tokens} トークン",
        de: "{pass} {megabytes} von {total} MB  Dokumente: {documents}  Tokens: {tokens}",
    }
    /// The progress line if the size of the input is not known.
    progress(pass, megabytes, documents, tokens) {
        en: "{pass} {megabytes} MB  documents: {documents}  tokens: {tokens}",
        zh: "{pass} {megabytes} MB  {documents} 篇文档  {tokens} 个 token",
        ja: "{pass} {megabytes} MB  {documents} 文書  {tokens} トークン",
        de: "{pass} {megabytes} MB  Dokumente: {documents}  Tokens: {tokens}",
    }
    read(documents, characters, vocab_size) {
        en: "documents: {documents} · characters: {characters} · vocabulary: {vocab_size}\n",
        zh: "{documents} 篇文档，{characters} 个字符，词表大小 {vocab_size}\n",
        ja: "{documents} 文書、{characters} 文字、語彙数 {vocab_size}\n",
        de: "Dokumente: {documents} · Zeichen: {characters} · Vokabular: {vocab_size}\n",
    }
    split(train_tokens, val_tokens) {
        en: "tokens: {train_tokens} in train.bin, {val_tokens} in val.bin\n",
        zh: "token 数：train.bin {train_tokens}，val.bin {val_tokens}\n",
        ja: "トークン数: train.bin {train_tokens}、val.bin {val_tokens}\n",
        de: "Tokens: {train_tokens} in train.bin, {val_tokens} in val.bin\n",
    }
    shards(n) {
        en: "shards: {n} for training, from train_000001.bin\n",
        zh: "分片：训练 {n} 个，从 train_000001.bin 开始\n",
        ja: "シャード: 学習用 {n} 個、train_000001.bin から\n",
        de: "Shards: {n} zum Trainieren, ab train_000001.bin\n",
    }
    shards_and_bin() {
        en: "`--format shards` and `--output bin` contradict each other",
        zh: "`--format shards` 与 `--output bin` 相互矛盾",
        ja: "`--format shards` と `--output bin` は矛盾しています",
        de: "`--format shards` und `--output bin` widersprechen sich",
    }
    needs_shards() {
        en: "`--shard_tokens` needs `--output shards`",
        zh: "`--shard_tokens` 需要 `--output shards`",
        ja: "`--shard_tokens` には `--output shards` が必要です",
        de: "`--shard_tokens` braucht `--output shards`",
    }
    /// It resumed a `prepare` that was stopped or killed.
    resumed(tokens) {
        en: "resumed an interrupted prepare after {tokens} tokens\n",
        zh: "从上次中断处继续：此前已有 {tokens} 个 token\n",
        ja: "中断した prepare の {tokens} トークンの続きから再開しました\n",
        de: "unterbrochenes prepare nach {tokens} Tokens fortgesetzt\n",
    }
    /// The token between documents, and what determined it.
    end_of_text(token, id, origin) {
        en: "end of text: `{token}`, id {id} ({origin})\n",
        zh: "文本结束：`{token}`，id {id}（{origin}）\n",
        ja: "テキストの終わり: `{token}`、id {id}（{origin}）\n",
        de: "Textende: `{token}`, Id {id} ({origin})\n",
    }
    usual_name() { en: "a common name; `--eot_token` sets another", zh: "常用名称；可用 `--eot_token` 另行指定", ja: "よくある名前。`--eot_token` で変更できます", de: "ein üblicher Name; `--eot_token` setzt ein anderes" }
    from_file(name) { en: "from {name}", zh: "来自 {name}", ja: "{name} による", de: "aus {name}" }
    memory(peak, limit) {
        en: "memory: {peak} MB at the peak, limit {limit} MB for any amount of text\n",
        zh: "内存：峰值 {peak} MB，上限 {limit} MB，与文本量无关\n",
        ja: "メモリ: 最大 {peak} MB、上限 {limit} MB（テキストの量によりません）\n",
        de: "Speicher: höchstens {peak} MB belegt, Grenze {limit} MB für beliebig viel Text\n",
    }
    rate(bytes_per_token, seconds) {
        en: "{bytes_per_token} bytes per token, {seconds} s\n",
        zh: "每个 token {bytes_per_token} 字节，用时 {seconds} 秒\n",
        ja: "1 トークンあたり {bytes_per_token} バイト、{seconds} 秒\n",
        de: "{bytes_per_token} Bytes je Token, {seconds} s\n",
    }
    /// Positions at which a document was cut although tokens may cross them.
    forced_cuts(n) {
        en: "long texts were cut where a token may cross: {n} times; tokens there may differ from those of the whole\n",
        zh: "长文本在可能有 token 跨越的位置被切分：{n} 次；这些位置的 token 可能与整篇文本的不同\n",
        ja: "長いテキストを、token がまたぐかもしれない位置で区切りました: {n} 回。そこの token はテキスト全体の場合と異なることがあります\n",
        de: "lange Texte wurden geschnitten, wo ein Token liegen kann: {n}-mal; Tokens dort können von denen des Ganzen abweichen\n",
    }
    /// A file in a folder that was not read.
    skipped(path, reason) {
        en: "skipped {path}: {reason}\n", zh: "跳过 {path}：{reason}\n", ja: "{path} を飛ばしました: {reason}\n", de: "{path} übergangen: {reason}\n",
    }
    more_skipped(n) {
        en: "skipped {n} more; `--json` lists all\n", zh: "另外跳过 {n} 个；`--json` 列出全部\n", ja: "ほかに {n} 件を飛ばしました。`--json` で全部を表示します\n", de: "{n} weitere übergangen; `--json` nennt alle\n",
    }
    hidden() { en: "hidden", zh: "隐藏文件", ja: "隠しファイル", de: "versteckt" }
    unknown_extension() { en: "unknown extension", zh: "扩展名未知", ja: "未知の拡張子", de: "unbekannte Endung" }
    no_shard_header() {
        en: "no header of an llm.c token file", zh: "没有 llm.c token 文件的文件头", ja: "llm.c のトークンファイルのヘッダーがありません", de: "kein Kopf einer Token-Datei von llm.c",
    }
    linked_folder() { en: "link to a folder", zh: "指向文件夹的链接", ja: "フォルダへのリンク", de: "Verweis auf einen Ordner" }
    not_a_file() { en: "not a file", zh: "不是文件", ja: "ファイルではありません", de: "keine Datei" }
    train_on_it(folder) {
        en: "next: fitgpt train --dataset={folder}\n",
        zh: "下一步：fitgpt train --dataset={folder}\n",
        ja: "次に: fitgpt train --dataset={folder}\n",
        de: "als Nächstes: fitgpt train --dataset={folder}\n",
    }
}

/// What determined the end-of-text token.
pub(crate) fn end_of_text_origin(origin: EndOfTextOrigin) -> String {
    match origin {
        EndOfTextOrigin::Gpt2 => "GPT-2".to_owned(),
        EndOfTextOrigin::Option => "--eot_token".to_owned(),
        EndOfTextOrigin::TokenizerConfig => from_file("tokenizer_config.json"),
        EndOfTextOrigin::SpecialTokensMap => from_file("special_tokens_map.json"),
        EndOfTextOrigin::GenerationConfig => from_file("generation_config.json"),
        EndOfTextOrigin::ModelConfig => from_file("config.json"),
        EndOfTextOrigin::UsualName => usual_name(),
    }
}

/// Why a file was not read.
pub(crate) fn skip_reason(reason: SkipReason) -> String {
    match reason {
        SkipReason::Hidden => hidden(),
        SkipReason::Extension => unknown_extension(),
        SkipReason::NoShardHeader => no_shard_header(),
        SkipReason::LinkedFolder => linked_folder(),
        SkipReason::NotAFile => not_a_file(),
    }
}

/// What is being done.
pub(crate) fn pass(pass: Pass) -> String {
    match pass {
        Pass::Keep => keeping(),
        Pass::Scan => reading(),
        Pass::Encode => encoding(),
    }
}
