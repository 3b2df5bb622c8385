//! Options for a plan that does not fit, one line each.

fitgpt_say::sentences! {
    /// An option that fits. `changes` are command-line overrides.
    fits(changes, peak) {
        en: "`{changes}` lowers the peak to {peak} and fits",
        zh: "`{changes}` 把峰值降到 {peak}，放得下",
        ja: "`{changes}` でピークが {peak} に下がり、収まります",
        de: "`{changes}` senkt die Spitze auf {peak} und passt",
    }
    /// An option that fits through smaller micro-batches.
    fits_same_step(changes, sequences, peak) {
        en: "`{changes}` keeps the {sequences}-sequence step and fits, with a peak of {peak}",
        zh: "`{changes}` 每步仍是 {sequences} 条序列，峰值 {peak}，放得下",
        ja: "`{changes}` なら 1 ステップ {sequences} 系列のまま、ピーク {peak} で収まります",
        de: "`{changes}` behält den Schritt von {sequences} Sequenzen und passt, mit einer Spitze von {peak}",
    }
    /// An option that fits and costs compute.
    fits_for_work(changes, peak, percent) {
        en: "`{changes}` lowers the peak to {peak} and fits, with {percent} % more compute",
        zh: "`{changes}` 把峰值降到 {peak}，放得下，计算量增加 {percent} %",
        ja: "`{changes}` でピークが {peak} に下がって収まります（計算量は {percent} % 増）",
        de: "`{changes}` senkt die Spitze auf {peak} und passt, mit {percent} % mehr Rechenaufwand",
    }
    /// An option that fits only if the overhead is small.
    tight(changes, peak) {
        en: "`{changes}` lowers the peak to {peak}, which fits only if the overhead is small",
        zh: "`{changes}` 把峰值降到 {peak}，只有其他开销很小时才放得下",
        ja: "`{changes}` でピークが {peak} に下がりますが、そのほかのオーバーヘッドが小さいときにしか収まりません",
        de: "`{changes}` senkt die Spitze auf {peak}; das passt nur, wenn der sonstige Bedarf klein ist",
    }
    /// An option that fits and changes the training.
    another_training(changes, peak) {
        en: "`{changes}` fits with a peak of {peak}, but changes the training run",
        zh: "`{changes}` 峰值 {peak}，放得下，但会改变训练",
        ja: "`{changes}` ならピーク {peak} で収まりますが、学習が変わります",
        de: "`{changes}` passt mit einer Spitze von {peak}, ändert aber das Training",
    }
    /// An option that helps but is not enough.
    not_enough(changes, peak) {
        en: "`{changes}` lowers the peak to {peak}, which is not enough",
        zh: "`{changes}` 把峰值降到 {peak}，仍然不够",
        ja: "`{changes}` でピークは {peak} に下がりますが、まだ足りません",
        de: "`{changes}` senkt die Spitze auf {peak}; das reicht nicht",
    }
    /// After an option for PyTorch that needs patches.
    after_patches(hint, patches) {
        en: "{hint}; apply `fitgpt patch` first: {patches}",
        zh: "{hint}；需要先用 `fitgpt patch` 打上 {patches}",
        ja: "{hint}。先に `fitgpt patch` で {patches} を当ててください",
        de: "{hint}; zuerst `fitgpt patch` anwenden: {patches}",
    }
    /// No option keeps the training.
    nothing_keeps() {
        en: "no option that keeps the training fits",
        zh: "没有既不改变训练又放得下的办法",
        ja: "学習を変えずに収める方法はありません",
        de: "keine Option, die das Training beibehält, passt",
    }
    /// Why options change `eval_iters`.
    same_evaluation(sequences) {
        en: "`eval_iters` follows the batch, so that {sequences} sequences are evaluated as before",
        zh: "`eval_iters` 随批大小变化，评估的仍是 {sequences} 条序列",
        ja: "`eval_iters` はバッチに合わせて変わり、評価する系列数は {sequences} のままです",
        de: "`eval_iters` folgt dem Batch, damit wie bisher {sequences} Sequenzen ausgewertet werden",
    }
    /// `train --fit` applies the best option.
    train_does_it() {
        en: "`fitgpt train … --fit` does this for you",
        zh: "`fitgpt train … --fit` 会自动完成",
        ja: "`fitgpt train … --fit` なら自動で行います",
        de: "`fitgpt train … --fit` macht das von selbst",
    }
    /// The command that lists the others.
    fit_lists_all() {
        en: "`fitgpt fit` with the same arguments lists every option",
        zh: "用同样的参数运行 `fitgpt fit` 可列出所有办法",
        ja: "同じ引数で `fitgpt fit` を実行すると、すべての方法が表示されます",
        de: "`fitgpt fit` mit denselben Argumenten zeigt alle Optionen",
    }
}
