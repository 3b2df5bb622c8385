//! What `plan` says, and `train` before it begins.

messages! {
    /// How a step is split.
    split(batch, accumulation, sequences, tokens) {
        en: "micro-batch {batch} × {accumulation} = {sequences} sequences, {tokens} tokens a step",
        zh: "微批 {batch} × {accumulation} = 每步 {sequences} 条序列、{tokens} 个 token",
        ja: "マイクロバッチ {batch} × {accumulation} = 1 ステップあたり {sequences} 系列、{tokens} トークン",
        de: "Mikro-Batch {batch} × {accumulation} = {sequences} Sequenzen, {tokens} Tokens je Schritt",
    }
    /// The sum.
    arena(arena, low, high, budget, device) {
        en: "arena {arena} · beside it {low} to {high} · budget {budget} of {device}",
        zh: "预分配 {arena} · 此外还需 {low} 至 {high} · 预算 {budget}（{device}）",
        ja: "アリーナ {arena} · そのほかに {low} 〜 {high} · 予算 {budget}（{device}）",
        de: "Arena {arena} · daneben {low} bis {high} · Budget {budget} auf {device}",
    }
    /// The op of a phase's peak.
    at_op(index, op) {
        en: "at op {index} {op}",
        zh: "在第 {index} 个算子 {op}",
        ja: "演算 {index} {op} で",
        de: "bei Op {index} {op}",
    }
    /// The card cannot do what the config asks for.
    no_bfloat16(device) {
        en: "{device} has no bfloat16: write `dtype = 'float16'`",
        zh: "{device} 不支持 bfloat16：请改用 `dtype = 'float16'`",
        ja: "{device} は bfloat16 に対応していません。`dtype = 'float16'` としてください",
        de: "{device} kann kein bfloat16: `dtype = 'float16'` schreiben",
    }
    /// It does not fit.
    refused(need, high, budget) {
        en: "the plan needs {need} and up to {high} beside it, the budget is {budget}",
        zh: "计划需要 {need}，此外最多还需 {high}，而预算只有 {budget}",
        ja: "計画には {need} と、そのほかに最大 {high} が必要ですが、予算は {budget} です",
        de: "der Plan braucht {need} und daneben bis zu {high}, das Budget ist {budget}",
    }
    /// It fits only with luck.
    refused_tight(need, low, high, budget) {
        en: "the plan needs {need}; it fits only if no more than {low} are needed beside it, and {high} can be, the budget is {budget}",
        zh: "计划需要 {need}；只有在此外的开销不超过 {low} 时才放得下，而它可能达到 {high}，预算为 {budget}",
        ja: "計画には {need} が必要です。そのほかの使用量が {low} 以下なら収まりますが、{high} に達することもあり、予算は {budget} です",
        de: "der Plan braucht {need}; er passt nur, wenn daneben nicht mehr als {low} nötig sind, und es können {high} sein, das Budget ist {budget}",
    }
    /// Where the peak is.
    peak_at(index, phase, op) {
        en: "peak at op {index} of `{phase}`, `{op}`",
        zh: "峰值在 `{phase}` 的第 {index} 个算子 `{op}`",
        ja: "ピークは `{phase}` の演算 {index}、`{op}`",
        de: "Spitze bei Op {index} von `{phase}`, `{op}`",
    }
}
