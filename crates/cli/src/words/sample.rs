//! What `sample` prints in addition to what it generates.

messages! {
    nothing_fits() {
        en: "not even one sample fits the budget", zh: "预算内连一个样本都放不下", ja: "予算には 1 サンプルも収まりません", de: "nicht einmal ein Sample passt ins Budget",
    }
    refilled(block, times) {
        en: "past {block} tokens, the KV cache was refilled from the last half block (refills: {times}); `--exact` recomputes the whole window for every token, as nanoGPT does",
        zh: "超过 {block} 个 token 后，KV 缓存从最后半个块重新填充了 {times} 次；`--exact` 会像 nanoGPT 那样为每个 token 重新计算整个窗口",
        ja: "{block} トークンを超えた後、KV キャッシュは最後の半ブロックから {times} 回作り直されました。`--exact` なら nanoGPT と同じように、トークンごとに全体を再計算します",
        de: "nach {block} Tokens wurde der KV-Cache {times}-mal aus dem letzten halben Block neu gefüllt; `--exact` berechnet wie nanoGPT das ganze Fenster für jedes Token neu",
    }
    /// In brackets, after the next command.
    continues() { en: "continues your text", zh: "续写你的文本", ja: "入力した文章の続きを生成", de: "setzt eigenen Text fort" }
    exports() { en: "a file for llama.cpp", zh: "供 llama.cpp 使用的文件", ja: "llama.cpp 用のファイル", de: "eine Datei für llama.cpp" }
}
