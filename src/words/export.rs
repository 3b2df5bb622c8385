//! What `export` prints.

messages! {
    exported(path, tensors, megabytes) {
        en: "wrote {path}: tensors: {tensors}, {megabytes} MB",
        zh: "已写入 {path}：{tensors} 个张量，{megabytes} MB",
        ja: "{path} を書き込みました: テンソル {tensors} 個、{megabytes} MB",
        de: "{path} geschrieben: Tensoren: {tensors}, {megabytes} MB",
    }
    exact_gelu() {
        en: "the model was trained with exact GELU; llama.cpp computes the tanh approximation, so logits differ slightly (`--gelu=tanh` trains with it)",
        zh: "模型用精确 GELU 训练；llama.cpp 用 tanh 近似，logits 会略有差异（`--gelu=tanh` 可用近似训练）",
        ja: "モデルは厳密な GELU で学習されています。llama.cpp は tanh 近似を使うため、logits がわずかに異なります（`--gelu=tanh` なら近似で学習します）",
        de: "das Modell wurde mit exaktem GELU trainiert; llama.cpp rechnet die tanh-Näherung, daher weichen die Logits leicht ab (`--gelu=tanh` trainiert mit ihr)",
    }
}
