//! Messages of `fit`: the unchanged config, the options, and remarks.

use fitgpt_fit::fit::{Effect, FitNote};

messages! {
    as_it_is(peak, phase, verdict, device, usable) {
        en: "unchanged: peak {peak} ({phase}), {verdict} on {device} with {usable}",
        zh: "保持原样：峰值 {peak}（{phase}），{device}（{usable}）{verdict}",
        ja: "そのままの場合: ピーク {peak}（{phase}）、{device}（{usable}）には{verdict}",
        de: "unverändert: Spitze {peak} ({phase}); {device} mit {usable}: {verdict}",
    }
    fits_as_it_is(peak, phase, device, spare) {
        en: "fits unchanged: peak {peak} ({phase}), at least {spare} of {device} to spare",
        zh: "保持原样即可放下：峰值 {peak}（{phase}），{device} 至少余 {spare}",
        ja: "そのままで収まる: ピーク {peak}（{phase}）、{device} に少なくとも {spare} の余裕",
        de: "passt unverändert: Spitze {peak} ({phase}); {device}: mindestens {spare} bleiben frei",
    }
    nothing_fits() {
        en: "\nno option makes it fit\n", zh: "\n没有办法让它放得下\n", ja: "\n収める方法はありません\n", de: "\nes lässt sich nicht passend machen\n",
    }
    /// In brackets, after the next command.
    other_card() {
        en: "another card, or a smaller model", zh: "换一张显卡，或更小的模型", ja: "別の GPU、またはより小さいモデル", de: "eine andere Karte oder ein kleineres Modell",
    }
    recommended() { en: "recommended", zh: "推荐", ja: "推奨", de: "empfohlen" }
    safest() { en: "safest", zh: "最稳妥", ja: "最も安全", de: "am sichersten" }

    verdict() { en: "verdict", zh: "结论", ja: "判定", de: "Urteil" }
    peak() { en: "peak", zh: "峰值", ja: "ピーク", de: "Spitze" }
    phase() { en: "phase", zh: "阶段", ja: "フェーズ", de: "Phase" }
    saved() { en: "saved", zh: "节省", ja: "削減", de: "gespart" }
    work() { en: "work", zh: "计算量", ja: "計算量", de: "Arbeit" }
    sequences() { en: "sequences", zh: "序列数", ja: "系列数", de: "Sequenzen" }
    training() { en: "training", zh: "训练", ja: "学習", de: "Training" }

    changes_nothing() { en: "changes nothing", zh: "不改变任何东西", ja: "何も変わらない", de: "ändert nichts" }
    same_mathematics() { en: "same mathematics", zh: "数学上等价", ja: "数学的に同じ", de: "dieselbe Mathematik" }
    micro_batch() {
        en: "same training, smaller micro-batches", zh: "训练不变，micro-batch 更小", ja: "学習は同じ、マイクロバッチが小さい", de: "dasselbe Training in kleineren Micro-Batches",
    }
    recompute() {
        en: "same training, some values recomputed", zh: "训练不变，部分值重新计算", ja: "学習は同じ、一部を再計算", de: "dasselbe Training, manches neu berechnet",
    }
    changes_run() { en: "changes the training run", zh: "训练会改变", ja: "学習が変わる", de: "ändert das Training" }

    upgrade() {
        en: "needs PyTorch 2 or later", zh: "需要 PyTorch 2 或更高版本", ja: "PyTorch 2 以降が必要", de: "braucht PyTorch 2 oder neuer",
    }
    /// `--write` without `--engine`, for two engines.
    whose_config() {
        en: "`--write` writes one config, and both engines were planned",
        zh: "`--write` 只写一个配置，而这里规划了两个引擎",
        ja: "`--write` が書くのは一つの設定ですが、二つのエンジンを計画しています",
        de: "`--write` schreibt eine Konfiguration, geplant sind aber beide Engines",
    }
    name_the_engine() {
        en: "add `--engine torch` for nanoGPT's config, or `--engine fitgpt` for FitGPT's",
        zh: "加上 `--engine torch` 得到 nanoGPT 的配置，或 `--engine fitgpt` 得到 FitGPT 的配置",
        ja: "nanoGPT の設定なら `--engine torch`、FitGPT の設定なら `--engine fitgpt` を付けてください",
        de: "`--engine torch` für nanoGPTs Konfiguration angeben oder `--engine fitgpt` für FitGPTs",
    }
    /// Below a command that changes `eval_iters`.
    same_evaluation(iters, sequences) {
        en: "--eval_iters={iters}: the same {sequences} evaluated sequences",
        zh: "--eval_iters={iters}：评估的序列数仍是 {sequences}",
        ja: "--eval_iters={iters}: 評価する系列数は {sequences} のまま",
        de: "--eval_iters={iters}: dieselben {sequences} ausgewerteten Sequenzen",
    }
    not_written(path) {
        en: "\n{path} was not written: no option that keeps the training fits",
        zh: "\n未写入 {path}：没有既不改变训练又放得下的办法",
        ja: "\n{path} は書き込みません。学習を変えずに収める方法がありません",
        de: "\n{path} wird nicht geschrieben: nichts, was das Training beibehält, passt",
    }
    written_to(path) { en: "\nwritten to {path}", zh: "\n已写入 {path}", ja: "\n{path} に書き込みました", de: "\ngeschrieben nach {path}" }

    no_bf16(instead) {
        en: "this device does not support bfloat16: use `dtype = '{instead}'`",
        zh: "该设备不支持 bfloat16：请改用 `dtype = '{instead}'`",
        ja: "このデバイスは bfloat16 に対応していません。`dtype = '{instead}'` としてください",
        de: "dieses Gerät kann kein bfloat16: `dtype = '{instead}'` schreiben",
    }
    static_state(state, usable) {
        en: "weights, gradients and optimizer state alone need {state}, the device has {usable}: no batch size fits",
        zh: "仅权重、梯度和优化器状态就需要 {state}，设备只有 {usable}：再小的批也放不下",
        ja: "重み、勾配、オプティマイザの状態だけで {state} 必要ですが、デバイスは {usable} です。バッチをどれだけ小さくしても収まりません",
        de: "Gewichte, Gradienten und Optimiererzustand allein brauchen {state}, das Gerät hat {usable}: keine Batchgröße passt",
    }
    one_piece(tensor, need, have) {
        en: "`{tensor}` needs one allocation of {need}, the device allows {have}",
        zh: "`{tensor}` 需要一次分配 {need}，设备单次最多分配 {have}",
        ja: "`{tensor}` は連続した {need} を必要としますが、デバイスが一度に確保できるのは {have} です",
        de: "`{tensor}` braucht eine Allokation von {need}, das Gerät erlaubt {have}",
    }
    faster_in_bf16(peak, saved) {
        en: "`--dtype=bfloat16` is faster on this CPU, which has an instruction for it, and its peak is {peak}, {saved} less; it changes rounding",
        zh: "此 CPU 有 bfloat16 指令：`--dtype=bfloat16` 更快，峰值为 {peak}，少 {saved}；但会改变舍入",
        ja: "この CPU には bfloat16 の命令があるため、`--dtype=bfloat16` のほうが高速です。ピークは {peak}（{saved} 減）になりますが、丸めが変わります",
        de: "`--dtype=bfloat16` ist auf dieser CPU, die einen Befehl dafür hat, schneller, und die Spitze ist {peak}, {saved} weniger; es rundet anders",
    }
    other_split(batch, accumulation, peak) {
        en: "{batch} × {accumulation} gives the same step, with a peak of {peak}",
        zh: "{batch} × {accumulation} 也是同样的一步，峰值为 {peak}",
        ja: "{batch} × {accumulation} でも同じステップになり、ピークは {peak} です",
        de: "{batch} × {accumulation} ergibt denselben Schritt, mit einer Spitze von {peak}",
    }
}

/// What an option does to the training.
pub(crate) fn effect(effect: Effect) -> String {
    match effect {
        Effect::ChangesNothing => changes_nothing(),
        Effect::SameMathematics => same_mathematics(),
        Effect::MicroBatch => micro_batch(),
        Effect::Recompute => recompute(),
        Effect::ChangesRun => changes_run(),
    }
}

/// The text of a remark.
pub(crate) fn note(note: &FitNote) -> String {
    match note {
        FitNote::NoBf16 { instead } => no_bf16(instead),
        FitNote::StaticStateTooLarge { state_bytes, usable_bytes } => {
            static_state(state_bytes, usable_bytes)
        }
        FitNote::TooLargeForOnePiece { tensor, need_bytes, have_bytes } => {
            one_piece(tensor, need_bytes, have_bytes)
        }
        FitNote::FasterInBf16 { peak_bytes, saved_bytes } => {
            faster_in_bf16(peak_bytes, saved_bytes)
        }
        FitNote::OtherSplit { batch_size, gradient_accumulation_steps, peak_bytes } => {
            other_split(batch_size, gradient_accumulation_steps, peak_bytes)
        }
    }
}
