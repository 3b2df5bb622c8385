//! Why there is nothing to continue.

fitgpt_say::sentences! {
    unknown_token(token, vocab) {
        en: "the prompt has token {token}, but the model has only {vocab} tokens",
        zh: "提示中有 token {token}，而模型只有 {vocab} 个 token",
        ja: "プロンプトにトークン {token} がありますが、モデルの語彙は {vocab} トークンです",
        de: "der Prompt hat Token {token}, das Modell hat aber nur {vocab} Tokens",
    }
}
