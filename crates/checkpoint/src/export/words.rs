//! What an [`ExportError`] says.

use fitgpt_say::{Lang, Say};

use super::{ExportError, TokenizerGap};

fitgpt_say::messages! {
    no_tokenizer(folder, kind) {
        en: "GGUF cannot express the tokenizer of `{folder}`: {kind}",
        zh: "GGUF 无法表示 `{folder}` 的分词器：{kind}",
        ja: "GGUF では `{folder}` のトークナイザーを表せません: {kind}",
        de: "GGUF kann den Tokenizer von `{folder}` nicht ausdrücken: {kind}",
    }
    characters() {
        en: "its characters are not all ASCII", zh: "其字符并非全是 ASCII", ja: "文字がすべて ASCII ではありません", de: "seine Zeichen sind nicht alle ASCII",
    }
    json() {
        en: "its `tokenizer.json` is not byte-level BPE with the rules of GPT-2, Llama 3, Qwen 2 or SmolLM",
        zh: "其 `tokenizer.json` 不是采用 GPT-2、Llama 3、Qwen 2 或 SmolLM 规则的字节级 BPE",
        ja: "`tokenizer.json` が GPT-2、Llama 3、Qwen 2、SmolLM の規則によるバイト単位の BPE ではありません",
        de: "seine `tokenizer.json` ist kein BPE über Bytes mit den Regeln von GPT-2, Llama 3, Qwen 2 oder SmolLM",
    }
    too_large() {
        en: "it has more tokens than the model", zh: "其 token 数超过模型", ja: "トークンがモデルより多くあります", de: "er hat mehr Tokens als das Modell",
    }
    family(family) {
        en: "nanoGPT has no model of the family `{family}`", zh: "nanoGPT 没有 `{family}` 系列的模型", ja: "nanoGPT に `{family}` 系のモデルはありません", de: "nanoGPT hat kein Modell der Familie `{family}`",
    }
    optimizer(name) {
        en: "nanoGPT cannot hold the state of the optimizer `{name}`",
        zh: "nanoGPT 无法保存优化器 `{name}` 的状态",
        ja: "nanoGPT はオプティマイザ `{name}` の状態を保持できません",
        de: "nanoGPT kann den Zustand des Optimierers `{name}` nicht halten",
    }
    rope_scaling() {
        en: "GGUF supports `rope_scaling` of type `llama3` only for the families `llama` and `mistral`",
        zh: "GGUF 只对 `llama` 和 `mistral` 系列支持 `llama3` 类型的 `rope_scaling`",
        ja: "GGUF が `llama3` 型の `rope_scaling` に対応するのは `llama` 系と `mistral` 系だけです",
        de: "GGUF kennt `rope_scaling` der Art `llama3` nur für die Familien `llama` und `mistral`",
    }
}

impl Say for ExportError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Checkpoint { source } => source.say(lang),
            Self::Output(source) => source.say(lang),
            Self::Io { action, path, source } => action.failed(lang, path, source),
            Self::NoTokenizer { folder, kind } => {
                let kind = match kind {
                    TokenizerGap::Characters => characters(lang),
                    TokenizerGap::Json => json(lang),
                    TokenizerGap::TooLarge => too_large(lang),
                };
                no_tokenizer(lang, folder.display(), kind)
            }
            Self::Family { family: name } => family(lang, name),
            Self::Optimizer { name } => optimizer(lang, name),
            Self::Config(source) => source.say(lang),
            Self::RopeScaling => rope_scaling(lang),
        }
    }
}

fitgpt_say::displays_english!(ExportError);
