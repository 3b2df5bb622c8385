//! What `sample` prints in addition to what it generates.

messages! {
    nothing_fits() {
        en: "not even one sample fits the budget", zh: "预算内连一个样本都放不下", ja: "予算には 1 サンプルも収まりません", de: "nicht einmal ein Sample passt ins Budget",
    }
    refilled(block, times) {
        en: "past {block} tokens, the cache was refilled from the last half block {times} times; `--exact` recomputes the whole window as nanoGPT does",
        zh: "超过 {block} 个 token 后，缓存从最后半个块重新开始了 {times} 次；`--exact` 会像 nanoGPT 那样重新计算",
        ja: "{block} トークンを超えた後、キャッシュは最後の半ブロックから {times} 回作り直されました。`--exact` なら nanoGPT と同じように再計算します",
        de: "nach {block} Tokens begann der Cache {times}-mal neu mit dem letzten halben Block; `--exact` rechnet wie nanoGPT neu",
    }
    /// In brackets, after the next command.
    continues() { en: "continues your text", zh: "续写你的文本", ja: "入力した文章の続きを生成", de: "setzt eigenen Text fort" }
    exports() { en: "a file for llama.cpp", zh: "供 llama.cpp 使用的文件", ja: "llama.cpp 用のファイル", de: "eine Datei für llama.cpp" }
    unknown_token(token, vocab) {
        en: "the prompt has token {token}, but the model has only {vocab} tokens",
        zh: "提示中有 token {token}，而模型只认识 {vocab} 个 token",
        ja: "プロンプトにトークン {token} がありますが、モデルが扱えるのは {vocab} トークンです",
        de: "der Prompt hat Token {token}, das Modell kennt {vocab} Tokens",
    }
}
