//! What keys do to the memory of nanoGPT under PyTorch.

use fitgpt_say::Sentence;

fitgpt_say::sentences! {
    /// `compile = False`; the compiled run fits.
    compiled_fits(peak, than, spare) {
        en: "`compile = False` costs memory: compiled, the peak is {peak} instead of {than}, and it fits with at least {spare} to spare",
        zh: "`compile = False` 更费显存：编译后峰值是 {peak} 而不是 {than}，放得下，至少余 {spare}",
        ja: "`compile = False` はメモリを増やします。コンパイルすればピークは {than} ではなく {peak} で、少なくとも {spare} の余裕で収まります",
        de: "`compile = False` kostet Speicher: kompiliert ist die Spitze {peak} statt {than}, und es passt, mindestens {spare} bleiben frei",
    }
    /// The compiled run fits only at the low end of the overhead.
    compiled_is_tight(peak, than) {
        en: "`compile = False` costs memory: compiled, the peak is {peak} instead of {than}, which fits only if the overhead is small",
        zh: "`compile = False` 更费显存：编译后峰值是 {peak} 而不是 {than}，只有其他开销很小时才放得下",
        ja: "`compile = False` はメモリを増やします。コンパイルすればピークは {than} ではなく {peak} で、そのほかのオーバーヘッドが小さければ収まります",
        de: "`compile = False` kostet Speicher: kompiliert ist die Spitze {peak} statt {than}; das passt nur, wenn der sonstige Bedarf klein ist",
    }
    /// The compiled run needs less, and does not fit.
    compiled_needs_less(peak, than) {
        en: "`compile = False` costs memory: compiled, the peak is {peak} instead of {than}, which does not fit either",
        zh: "`compile = False` 更费显存：编译后峰值是 {peak} 而不是 {than}，但也放不下",
        ja: "`compile = False` はメモリを増やします。コンパイルすればピークは {than} ではなく {peak} ですが、それでも収まりません",
        de: "`compile = False` kostet Speicher: kompiliert ist die Spitze {peak} statt {than}; auch das passt nicht",
    }
    /// A key of a patch that lowers the peak.
    patched_lowers(key, patch, before, after) {
        en: "nanoGPT has no `{key}`: `fitgpt patch . --apply --only {patch}` adds it; it lowers the peak from {before} to {after}",
        zh: "nanoGPT 没有 `{key}`：`fitgpt patch . --apply --only {patch}` 可以加上它；它把峰值从 {before} 降到 {after}",
        ja: "nanoGPT に `{key}` はありません。`fitgpt patch . --apply --only {patch}` で追加でき、ピークは {before} から {after} に下がります",
        de: "nanoGPT hat kein `{key}`: `fitgpt patch . --apply --only {patch}` ergänzt es; es senkt die Spitze von {before} auf {after}",
    }
    /// A key of a patch that raises the peak.
    patched_raises(key, patch, before, after) {
        en: "nanoGPT has no `{key}`: `fitgpt patch . --apply --only {patch}` adds it; it raises the peak from {before} to {after}",
        zh: "nanoGPT 没有 `{key}`：`fitgpt patch . --apply --only {patch}` 可以加上它；它把峰值从 {before} 升到 {after}",
        ja: "nanoGPT に `{key}` はありません。`fitgpt patch . --apply --only {patch}` で追加できますが、ピークは {before} から {after} に上がります",
        de: "nanoGPT hat kein `{key}`: `fitgpt patch . --apply --only {patch}` ergänzt es; es hebt die Spitze von {before} auf {after}",
    }
    /// A key of a patch that does not change the peak.
    patched_is_idle(key, patch, phase) {
        en: "nanoGPT has no `{key}`: `fitgpt patch . --apply --only {patch}` adds it; the peak is in {phase}: this key does not lower it",
        zh: "nanoGPT 没有 `{key}`：`fitgpt patch . --apply --only {patch}` 可以加上它；峰值在{phase}，这个配置项降不了它",
        ja: "nanoGPT に `{key}` はありません。`fitgpt patch . --apply --only {patch}` で追加できますが、ピークは{phase}にあり、このキーでは下がりません",
        de: "nanoGPT hat kein `{key}`: `fitgpt patch . --apply --only {patch}` ergänzt es; die Spitze liegt {phase}: dieser Schlüssel senkt sie nicht",
    }
    in_resume() { en: "resuming", zh: "恢复阶段", ja: "再開", de: "beim Fortsetzen" }
    in_evaluation() { en: "the evaluation", zh: "评估阶段", ja: "評価", de: "in der Evaluierung" }
    in_training() { en: "training", zh: "训练阶段", ja: "学習", de: "im Training" }
    in_update() { en: "the update", zh: "参数更新阶段", ja: "更新", de: "im Update" }
    /// Shorter sequences in evaluations.
    another_loss(here, there) {
        en: "a loss over {here} tokens of context is another measure than one over {there}: do not compare them",
        zh: "{here} 个 token 上下文的损失与 {there} 个的不是同一个量：不要比较",
        ja: "{here} トークンの文脈での損失は {there} トークンのものとは別の量です。比べないでください",
        de: "ein Loss über {here} Tokens Kontext ist ein anderes Maß als einer über {there}: nicht vergleichen",
    }
    /// A key that changes no memory.
    time_alone(key) {
        en: "`{key}` changes how long evaluations take, and their noise: not the memory",
        zh: "`{key}` 只改变评估的耗时与噪声，不改变显存",
        ja: "`{key}` が変えるのは評価の時間と誤差だけで、メモリは変わりません",
        de: "`{key}` ändert, wie lange Evaluierungen dauern und wie sehr sie rauschen, nicht den Speicher",
    }
    /// An optimizer whose updates are larger than AdamW's.
    rate_of_adamw(written, optimizer, own) {
        en: "`learning_rate = {written}` is a rate for AdamW: {optimizer} usually needs a third to a tenth of AdamW's, such as {own}, and as many times its `weight_decay`",
        zh: "`learning_rate = {written}` 是 AdamW 的学习率：{optimizer} 通常只需 AdamW 的三分之一到十分之一（例如 {own}），`weight_decay` 则相应放大",
        ja: "`learning_rate = {written}` は AdamW 向けの値です。{optimizer} の学習率は普通 AdamW の 3 分の 1 から 10 分の 1（例えば {own}）で、`weight_decay` はその分大きくします",
        de: "`learning_rate = {written}` ist eine Rate für AdamW: {optimizer} braucht meist ein Drittel bis ein Zehntel davon, etwa {own}, und entsprechend mehr `weight_decay`",
    }
    /// The time of a run on the best estimate.
    more_than_a_week(days, iters) {
        en: "even at best this run takes {days} days; a week is enough for `--max_iters={iters}`",
        zh: "即使最快，这次训练也要 {days} 天；一周够跑 `--max_iters={iters}`",
        ja: "この学習は最速でも {days} 日かかります。1 週間で終わるのは `--max_iters={iters}` までです",
        de: "selbst im besten Fall dauert dieser Lauf {days} Tage; eine Woche reicht für `--max_iters={iters}`",
    }
    /// Data-parallel workers.
    buckets(more) {
        en: "more cards do not lower the memory of one: DDP's buckets of gradients add {more} to each",
        zh: "增加显卡不会降低单卡显存：DDP 的梯度桶使每张卡多占 {more}",
        ja: "カードを増やしても 1 枚のメモリは減りません。DDP の勾配バケットで 1 枚あたり {more} 増えます",
        de: "mehr Karten senken nicht den Speicher einer Karte: DDPs Gradienten-Buckets kosten auf jeder {more} mehr",
    }
    cards_do_not_help() {
        en: "more cards do not lower the memory of one",
        zh: "增加显卡不会降低单卡显存",
        ja: "カードを増やしても 1 枚のメモリは減りません",
        de: "mehr Karten senken nicht den Speicher einer Karte",
    }
}

/// The phase with the peak, in a sentence.
pub(crate) fn phase(name: &str) -> Sentence {
    match name {
        "resume" => in_resume(),
        "update" => in_update(),
        "evaluate" | "evaluate_first" => in_evaluation(),
        _ => in_training(),
    }
}
