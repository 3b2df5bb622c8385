//! What `prepare` says while it reads and when it is done.

use crate::prepare::Pass;

messages! {
    keeping() { en: "keeping", zh: "缓存中", ja: "保存中", de: "Zwischenspeichern" }
    reading() { en: "reading", zh: "读取中", ja: "読み取り中", de: "Lesen" }
    encoding() { en: "encoding", zh: "编码中", ja: "符号化中", de: "Kodieren" }
    /// The progress line where the end is known.
    progress_of(pass, megabytes, total, documents, tokens) {
        en: "{pass} {megabytes} of {total} MB  {documents} documents  {tokens} tokens",
        zh: "{pass} {megabytes} / {total} MB  {documents} 篇文档  {tokens} 个 token",
        ja: "{pass} {megabytes} / {total} MB  {documents} 文書  {tokens} トークン",
        de: "{pass} {megabytes} von {total} MB  {documents} Dokumente  {tokens} Tokens",
    }
    /// And where it is not.
    progress(pass, megabytes, documents, tokens) {
        en: "{pass} {megabytes} MB  {documents} documents  {tokens} tokens",
        zh: "{pass} {megabytes} MB  {documents} 篇文档  {tokens} 个 token",
        ja: "{pass} {megabytes} MB  {documents} 文書  {tokens} トークン",
        de: "{pass} {megabytes} MB  {documents} Dokumente  {tokens} Tokens",
    }
    read(documents, characters, vocab_size) {
        en: "{documents} documents, {characters} characters, vocabulary {vocab_size}\n",
        zh: "{documents} 篇文档，{characters} 个字符，词表大小 {vocab_size}\n",
        ja: "{documents} 文書、{characters} 文字、語彙数 {vocab_size}\n",
        de: "{documents} Dokumente, {characters} Zeichen, Vokabular {vocab_size}\n",
    }
    split(train_tokens, val_tokens) {
        en: "train has {train_tokens} tokens, val has {val_tokens}\n",
        zh: "train 有 {train_tokens} 个 token，val 有 {val_tokens} 个\n",
        ja: "train は {train_tokens} トークン、val は {val_tokens} トークン\n",
        de: "train hat {train_tokens} Tokens, val hat {val_tokens}\n",
    }
    rate(bytes_per_token, seconds) {
        en: "{bytes_per_token} bytes a token, {seconds} s\n",
        zh: "每个 token {bytes_per_token} 字节，用时 {seconds} 秒\n",
        ja: "1 トークンあたり {bytes_per_token} バイト、{seconds} 秒\n",
        de: "{bytes_per_token} Bytes je Token, {seconds} s\n",
    }
    train_on_it(folder) {
        en: "`fitgpt train --dataset={folder}` trains on it\n",
        zh: "用 `fitgpt train --dataset={folder}` 即可用它训练\n",
        ja: "`fitgpt train --dataset={folder}` でこのデータを学習できます\n",
        de: "`fitgpt train --dataset={folder}` trainiert damit\n",
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
