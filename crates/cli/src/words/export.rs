//! What `export` prints.

messages! {
    exported(path, tensors, megabytes) {
        en: "wrote {path}: tensors: {tensors}, {megabytes} MB",
        zh: "已写入 {path}：{tensors} 个张量，{megabytes} MB",
        ja: "{path} を書き込みました: テンソル {tensors} 個、{megabytes} MB",
        de: "{path} geschrieben: Tensoren: {tensors}, {megabytes} MB",
    }
    tanh_gelu() {
        en: "the model was trained with the tanh approximation of GELU; nanoGPT computes the exact one, so logits differ slightly",
        zh: "模型用 GELU 的 tanh 近似训练；nanoGPT 用精确 GELU，logits 会略有差异",
        ja: "モデルは GELU の tanh 近似で学習されています。nanoGPT は厳密な GELU を使うため、logits がわずかに異なります",
        de: "das Modell wurde mit der tanh-Näherung von GELU trainiert; nanoGPT rechnet exakt, daher weichen die Logits leicht ab",
    }
    type_is_ggufs() {
        en: "`--type` is for `--to gguf`", zh: "`--type` 仅用于 `--to gguf`", ja: "`--type` は `--to gguf` 用です", de: "`--type` gehört zu `--to gguf`",
    }
    exact_gelu() {
        en: "the model was trained with exact GELU; llama.cpp computes the tanh approximation, so logits differ slightly (`--gelu=tanh` trains with it)",
        zh: "模型用精确 GELU 训练；llama.cpp 用 tanh 近似，logits 会略有差异（`--gelu=tanh` 可用近似训练）",
        ja: "モデルは厳密な GELU で学習されています。llama.cpp は tanh 近似を使うため、logits がわずかに異なります（`--gelu=tanh` なら近似で学習します）",
        de: "das Modell wurde mit exaktem GELU trainiert; llama.cpp rechnet die tanh-Näherung, daher weichen die Logits leicht ab (`--gelu=tanh` trainiert mit ihr)",
    }
}
