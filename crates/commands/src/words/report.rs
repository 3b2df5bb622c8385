//! Lines of a report: what is changed so that a run fits, and what it starts from.

fitgpt_say::messages! {
    /// Before the changes that `--fit` makes.
    adapted(need, high, budget) {
        en: "--fit: as written it needs {need} and up to {high} more, the budget is {budget}; changed:",
        zh: "--fit：原配置需要 {need}，此外最多 {high}，而预算为 {budget}；改动如下：",
        ja: "--fit: 元の設定には {need} と、そのほかに最大 {high} が必要で、予算は {budget} です。変更点:",
        de: "--fit: wie geschrieben braucht es {need} und dazu bis zu {high}, das Budget ist {budget}; geändert:",
    }
    /// After the changes.
    adapted_sum(before, after, percent, sequences) {
        en: "peak {before} → {after}, {percent} % more work; each step still trains on {sequences} sequences, and the losses stay the same up to rounding",
        zh: "峰值 {before} → {after}，计算量增加 {percent} %；每步仍训练 {sequences} 条序列，损失除舍入误差外不变",
        ja: "ピーク {before} → {after}、計算量 {percent} % 増。1 ステップは {sequences} 系列のままで、損失は丸め誤差を除いて変わりません",
        de: "Spitze {before} → {after}, {percent} % mehr Rechenarbeit; jeder Schritt trainiert weiter mit {sequences} Sequenzen, und der Loss bleibt bis auf Rundung gleich",
    }
    /// After the changes of a resumed run.
    adapted_resume(before, after, percent) {
        en: "peak {before} → {after}, {percent} % more work; the run continues bit for bit",
        zh: "峰值 {before} → {after}，计算量增加 {percent} %；训练逐位相同地继续",
        ja: "ピーク {before} → {after}、計算量 {percent} % 増。学習はビット単位で同じまま続きます",
        de: "Spitze {before} → {after}, {percent} % mehr Rechenarbeit; der Lauf geht Bit für Bit gleich weiter",
    }
    /// A run that continues from nanoGPT's `ckpt.pt`.
    continues_nanogpt(step, updates) {
        en: "continues nanoGPT's run at step {step}, with the moments of {updates} updates",
        zh: "从第 {step} 步继续 nanoGPT 的训练，带有 {updates} 次更新的 Adam 矩",
        ja: "nanoGPT の学習をステップ {step} から、{updates} 回の更新のモーメントとともに続けます",
        de: "setzt den Lauf von nanoGPT bei Schritt {step} fort, mit den Momenten von {updates} Updates",
    }
    /// Where the first weights come from.
    begins_from(folder, layers, heads, channels, vocab) {
        en: "starts from the weights in {folder}: {layers} layers, {heads} heads, {channels} channels, {vocab} tokens",
        zh: "从 {folder} 中的权重开始：{layers} 层、{heads} 头、{channels} 通道、{vocab} 个 token",
        ja: "{folder} の重みから始めます: {layers} 層、{heads} ヘッド、{channels} チャネル、{vocab} トークン",
        de: "beginnt mit den Gewichten in {folder}: {layers} Schichten, {heads} Köpfe, {channels} Kanäle, {vocab} Tokens",
    }
    /// Fewer positions than the weights have.
    cropped(block, had) {
        en: "`block_size` {block}: the first {block} of {had} positions are used",
        zh: "`block_size` {block}：只取 {had} 个位置中的前 {block} 个",
        ja: "`block_size` {block}: {had} 個の位置のうち最初の {block} 個を使います",
        de: "`block_size` {block}: die ersten {block} von {had} Positionen werden genommen",
    }
}
