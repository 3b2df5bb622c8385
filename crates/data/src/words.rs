//! What an error of this crate says.

use fitgpt_say::{Lang, Say};

use super::{
    error::{DataError, MetaError},
    prepare_line,
    tokenizer::TokenizerError,
};

fitgpt_say::messages! {
    no_dataset(dataset, folders, prepare) {
        en: "there is no dataset `{dataset}`: no folder {folders}; make it with `{prepare}`",
        zh: "找不到数据集 `{dataset}`：没有文件夹 {folders}；可以用 `{prepare}` 生成",
        ja: "データセット `{dataset}` が見つかりません。フォルダ {folders} がありません。`{prepare}` で作成できます",
        de: "es gibt keinen Datensatz `{dataset}`: kein Ordner {folders}; `{prepare}` legt ihn an",
    }
    /// Below `no_dataset`.
    prepare_reads() {
        en: "`prepare` reads text, JSONL, Parquet, folders and stdin; the comments of the presets in `config/` say where their text comes from",
        zh: "`prepare` 可读取文本、JSONL、Parquet、文件夹和标准输入；`config/` 中各预设的注释说明了文本的来源",
        ja: "`prepare` はテキスト、JSONL、Parquet、フォルダ、標準入力を読めます。`config/` の各プリセットのコメントにテキストの入手先があります",
        de: "`prepare` liest Text, JSONL, Parquet, Ordner und die Standardeingabe; woher der Text kommt, steht in den Kommentaren der Vorlagen in `config/`",
    }
    try_stories() {
        en: "to try this config without data, add `--dataset=stories`: built-in text",
        zh: "没有数据也想试用此配置，可加上 `--dataset=stories`：内置文本",
        ja: "データなしで試すには `--dataset=stories`（内蔵テキスト）を付けてください",
        de: "ohne Daten lässt sich die Konfiguration mit `--dataset=stories` ausprobieren: eingebauter Text",
    }
    /// Between two folders that do not exist.
    nor_folder() { en: ", no folder ", zh: "，也没有文件夹 ", ja: "、", de: ", kein Ordner " }
    missing(path) {
        en: "`{path}` does not exist", zh: "`{path}` 不存在", ja: "`{path}` がありません", de: "`{path}` gibt es nicht",
    }
    not_a_file(path) {
        en: "`{path}` is not a file", zh: "`{path}` 不是文件", ja: "`{path}` はファイルではありません", de: "`{path}` ist keine Datei",
    }
    empty(path) {
        en: "`{path}` holds no tokens", zh: "`{path}` 中没有 token", ja: "`{path}` にトークンがありません", de: "`{path}` enthält keine Tokens",
    }
    lfs_pointer(path) {
        en: "`{path}` is a pointer of Git LFS and not the file itself; `git lfs pull` fetches it",
        zh: "`{path}` 是 Git LFS 的指针，而不是文件本身；`git lfs pull` 会下载它",
        ja: "`{path}` はファイルそのものではなく Git LFS のポインタです。`git lfs pull` で取得できます",
        de: "`{path}` ist ein Zeiger von Git LFS und nicht die Datei selbst; `git lfs pull` holt sie",
    }
    odd_length(path, bytes, width) {
        en: "`{path}` ends inside a token: its {bytes} bytes are not a multiple of {width}",
        zh: "`{path}` 在一个 token 中间结束：{bytes} 字节不是 {width} 的整数倍",
        ja: "`{path}` はトークンの途中で終わっています: {bytes} バイトは {width} の倍数ではありません",
        de: "`{path}` endet mitten in einem Token: {bytes} Byte sind kein Vielfaches von {width}",
    }
    wrong_count(path, announced, held) {
        en: "the header of `{path}` announces {announced} tokens, the file holds {held}",
        zh: "`{path}` 的文件头声明有 {announced} 个 token，文件实际有 {held} 个",
        ja: "`{path}` のヘッダには {announced} トークンとありますが、実際には {held} トークンです",
        de: "der Header von `{path}` kündigt {announced} Tokens an, die Datei enthält {held}",
    }
    header_cut(path, bytes) {
        en: "`{path}` ends inside its header of 1024 bytes, after {bytes}",
        zh: "`{path}` 在 1024 字节的文件头内就结束了，只有 {bytes} 字节",
        ja: "`{path}` は 1024 バイトのヘッダの途中、{bytes} バイトで終わっています",
        de: "`{path}` endet innerhalb des Headers von 1024 Byte, nach {bytes}",
    }
    shard_version(path, magic, version) {
        en: "`{path}` is a shard with magic number {magic}, version {version}; only 20240520 version 1 (16-bit tokens) and 20240801 version 7 (32-bit) are supported",
        zh: "`{path}` 是魔数为 {magic}、版本为 {version} 的分片；只能读取魔数 20240520、版本 1（16 位 token）和魔数 20240801、版本 7（32 位）",
        ja: "`{path}` はマジックナンバー {magic}、バージョン {version} のシャードです。読めるのは 20240520 のバージョン 1（16 ビットトークン）と 20240801 のバージョン 7（32 ビット）だけです",
        de: "`{path}` ist ein Shard mit Magic {magic} in Version {version}; lesbar sind nur 20240520 in Version 1 (16-Bit-Tokens) und 20240801 in Version 7 (32 Bit)",
    }
    too_short(path, tokens, block_size, need) {
        en: "`{path}` holds {tokens} tokens, a sequence of `block_size` {block_size} needs {need}",
        zh: "`{path}` 只有 {tokens} 个 token，`block_size` 为 {block_size} 的序列需要 {need} 个",
        ja: "`{path}` は {tokens} トークンしかありません。`block_size` {block_size} の系列には {need} トークン必要です",
        de: "`{path}` enthält {tokens} Tokens, eine Sequenz mit `block_size` {block_size} braucht {need}",
    }
    outside_vocabulary(token, position, path, vocab_size) {
        en: "token {token} at position {position} of `{path}` is outside the vocabulary of {vocab_size}",
        zh: "`{path}` 第 {position} 个位置的 token {token} 超出了大小为 {vocab_size} 的词表",
        ja: "`{path}` の位置 {position} のトークン {token} は、サイズ {vocab_size} の語彙の範囲外です",
        de: "Token {token} an Position {position} von `{path}` liegt außerhalb des Vokabulars von {vocab_size}",
    }
    shrank(path, tokens, end) {
        en: "`{path}` had {tokens} tokens when it was opened and now ends before token {end}",
        zh: "`{path}` 打开时有 {tokens} 个 token，现在在第 {end} 个之前就结束了",
        ja: "`{path}` は開いたときは {tokens} トークンでしたが、今はトークン {end} より前で終わっています",
        de: "`{path}` hatte beim Öffnen {tokens} Tokens und endet jetzt vor Token {end}",
    }
    meta_too_large(path, bytes, limit) {
        en: "`{path}` has {bytes} bytes; a vocabulary needs at most {limit}",
        zh: "`{path}` 有 {bytes} 字节，超过了词表最多需要的 {limit} 字节",
        ja: "`{path}` は {bytes} バイトあり、語彙に必要な上限 {limit} バイトを超えています",
        de: "`{path}` hat {bytes} Byte, mehr als die {limit}, die ein Vokabular brauchen kann",
    }
    unreadable(path, reason) {
        en: "cannot read `{path}`: {reason}", zh: "无法读取 `{path}`：{reason}", ja: "`{path}` を読めません: {reason}", de: "`{path}` ist nicht lesbar: {reason}",
    }
    not_a_vocabulary(path, reason) {
        en: "`{path}` is not a dataset's vocabulary: {reason}",
        zh: "`{path}` 不是数据集的词表：{reason}",
        ja: "`{path}` はデータセットの語彙ではありません: {reason}",
        de: "`{path}` ist nicht das Vokabular eines Datensatzes: {reason}",
    }
    not_a_dict(found) {
        en: "it is a pickled `{found}`, not a `dict`",
        zh: "其中存的是 `{found}`，而不是 `dict`",
        ja: "中身は `dict` ではなく `{found}` です",
        de: "sie enthält ein `{found}`, kein `dict`",
    }
    no_key(key) {
        en: "it has no `{key}`", zh: "缺少 `{key}`", ja: "`{key}` がありません", de: "`{key}` fehlt",
    }
    wrong_type(place, expected, found) {
        en: "`{place}` should be `{expected}`, but holds `{found}`",
        zh: "`{place}` 应为 `{expected}`，实际是 `{found}`",
        ja: "`{place}` は `{expected}` のはずですが、`{found}` です",
        de: "`{place}` sollte `{expected}` sein, enthält aber `{found}`",
    }
    vocab_size(vocab_size, limit) {
        en: "`vocab_size` should be from 1 to {limit}: {vocab_size}",
        zh: "`vocab_size` 应在 1 到 {limit} 之间：{vocab_size}",
        ja: "`vocab_size` は 1 以上 {limit} 以下のはずです: {vocab_size}",
        de: "`vocab_size` sollte von 1 bis {limit} sein: {vocab_size}",
    }
    id_outside(place, id, vocab_size) {
        en: "`{place}` has the id {id}, outside the vocabulary of {vocab_size}",
        zh: "`{place}` 中的 id {id} 超出了大小为 {vocab_size} 的词表",
        ja: "`{place}` の id {id} は、サイズ {vocab_size} の語彙の範囲外です",
        de: "`{place}` enthält die ID {id} außerhalb des Vokabulars von {vocab_size}",
    }
    disagree(id, symbol) {
        en: "`itos` and `stoi` disagree about the id {id} and the symbol `{symbol}`",
        zh: "`itos` 与 `stoi` 对 id {id} 和符号 `{symbol}` 的记录不一致",
        ja: "id {id} と記号 `{symbol}` について `itos` と `stoi` が食い違っています",
        de: "`itos` und `stoi` sind sich über die ID {id} und das Zeichen `{symbol}` nicht einig",
    }
    unknown_character(character, position) {
        en: "the vocabulary has no `{character}`, which is character {position} of the text",
        zh: "词表中没有 `{character}`，它是文本的第 {position} 个字符",
        ja: "語彙に `{character}` がありません（テキストの {position} 文字目）",
        de: "das Vokabular hat kein `{character}` (Zeichen {position} des Textes)",
    }
    not_an_id(word) {
        en: "the vocabulary is unknown, so text must be given as token ids, and `{word}` is not one",
        zh: "词表未知，因此文本要写成 token id，而 `{word}` 不是 id",
        ja: "語彙が不明なため、テキストはトークン id で指定しますが、`{word}` は id ではありません",
        de: "das Vokabular ist unbekannt, Text wird daher als Token-IDs angegeben, und `{word}` ist keine",
    }
    tokenizer_file(path, reason) {
        en: "`{path}` is not a tokenizer: {reason}", zh: "`{path}` 不是分词器：{reason}", ja: "`{path}` はトークナイザではありません: {reason}", de: "`{path}` ist kein Tokenizer: {reason}",
    }
    no_token(path, token) {
        en: "`{path}` has no token `{token}`", zh: "`{path}` 中没有 token `{token}`", ja: "`{path}` にトークン `{token}` がありません", de: "`{path}` hat kein Token `{token}`",
    }
    not_split(reason) {
        en: "the text cannot be split into words: {reason}",
        zh: "无法将文本切分成词：{reason}",
        ja: "テキストを単語に分割できません: {reason}",
        de: "der Text lässt sich nicht in Wörter zerlegen: {reason}",
    }
}

impl DataError {
    /// What to do about it.
    pub fn hints(&self, lang: Lang) -> Vec<String> {
        match self {
            Self::NoDataset { .. } => vec![prepare_reads(lang), try_stories(lang)],
            _ => Vec::new(),
        }
    }
}

impl Say for DataError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NoDataset { dataset, looked_at } => {
                let folder = |path: &std::path::PathBuf| format!("`{}`", path.display());
                let mut folders: Vec<_> = looked_at.iter().map(folder).collect();
                folders.dedup();
                let prepare = prepare_line(dataset);
                no_dataset(lang, dataset, folders.join(&nor_folder(lang)), prepare)
            }
            Self::Missing { path } => missing(lang, path.display()),
            Self::NotAFile { path } => not_a_file(lang, path.display()),
            Self::Io { action, path, source } => action.failed(lang, path, source),
            Self::Empty { path } => empty(lang, path.display()),
            Self::LfsPointer { path } => lfs_pointer(lang, path.display()),
            Self::OddLength { path, bytes, width } => {
                odd_length(lang, path.display(), bytes, width)
            }
            Self::WrongCount { path, announced, held } => {
                wrong_count(lang, path.display(), announced, held)
            }
            Self::HeaderCut { path, bytes } => header_cut(lang, path.display(), bytes),
            Self::ShardVersion { path, magic, version } => {
                shard_version(lang, path.display(), magic, version)
            }
            Self::TooShort { path, tokens, block_size } => {
                too_short(lang, path.display(), tokens, block_size, block_size + 1)
            }
            Self::OutsideVocabulary { path, position, token, vocab_size } => {
                outside_vocabulary(lang, token, position, path.display(), vocab_size)
            }
            Self::Shrank { path, tokens, end } => shrank(lang, path.display(), tokens, end),
            Self::MetaTooLarge { path, bytes, limit } => {
                meta_too_large(lang, path.display(), bytes, limit)
            }
            Self::Pickle { path, source } => unreadable(lang, path.display(), source.say(lang)),
            Self::Meta { path, source } => not_a_vocabulary(lang, path.display(), source.say(lang)),
        }
    }
}

impl Say for MetaError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NotADict { found } => not_a_dict(lang, found),
            Self::NoKey { key } => no_key(lang, key),
            Self::WrongType { place, expected, found } => wrong_type(lang, place, expected, found),
            Self::VocabSize { vocab_size: size, limit } => vocab_size(lang, size, limit),
            Self::IdOutside { place, id, vocab_size } => id_outside(lang, place, id, vocab_size),
            Self::Disagree { id, symbol } => disagree(lang, id, symbol),
        }
    }
}

impl Say for TokenizerError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::UnknownCharacter { character, position } => {
                unknown_character(lang, character.escape_debug(), position)
            }
            Self::NotAnId { word } => not_an_id(lang, word),
            Self::NoToken { path, token } => no_token(lang, path.display(), token),
            Self::NotSplit { reason } => not_split(lang, reason),
            Self::File { path, reason } => tokenizer_file(lang, path.display(), reason),
        }
    }
}

fitgpt_say::displays_english!(DataError, MetaError, TokenizerError);
