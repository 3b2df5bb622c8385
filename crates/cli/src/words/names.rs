//! Words that several commands use.

use fitgpt_commands::labels;
use fitgpt_program::TensorClass;
use fitgpt_run::budget::{A_CARD, THIS_MACHINE};

use crate::words::lang;

messages! {
    /// The last line of a command: what to run now.
    next(command) {
        en: "next: {command}", zh: "下一步：{command}", ja: "次に: {command}", de: "als Nächstes: {command}",
    }

    parameters() { en: "parameters", zh: "参数", ja: "パラメータ", de: "Parameter" }
    gradients() { en: "gradients", zh: "梯度", ja: "勾配", de: "Gradienten" }
    optimizer() { en: "optimizer", zh: "优化器", ja: "オプティマイザ", de: "Optimierer" }
    activations() { en: "activations", zh: "激活值", ja: "活性値", de: "Aktivierungen" }
    logits() { en: "logits", zh: "logits", ja: "logits", de: "Logits" }
    scratch() { en: "scratch", zh: "临时", ja: "作業領域", de: "Hilfsspeicher" }
    inputs() { en: "inputs", zh: "输入", ja: "入力", de: "Eingaben" }
    free() { en: "free", zh: "空闲", ja: "空き", de: "frei" }

    train() { en: "train", zh: "训练", ja: "学習", de: "Training" }
    update() { en: "update", zh: "参数更新", ja: "更新", de: "Update" }
    evaluate() { en: "evaluate", zh: "评估", ja: "評価", de: "Evaluierung" }
    evaluate_first() { en: "evaluate_first", zh: "首次评估", ja: "初回の評価", de: "1. Evaluierung" }
    resume() { en: "resume", zh: "恢复", ja: "再開", de: "Fortsetzen" }
    sample_in_training() {
        en: "samples", zh: "训练中采样", ja: "学習中の生成", de: "Textproben",
    }
    sample() { en: "sample", zh: "采样", ja: "生成", de: "Sampling" }

    uniforms() {
        en: "kernel arguments", zh: "内核参数", ja: "カーネルの引数", de: "Kernel-Argumente",
    }
    staging() {
        en: "copies to the host", zh: "拷回主机的缓冲", ja: "ホストへのコピー", de: "Kopien zum Host",
    }
    buffers() { en: "buffers", zh: "缓冲区", ja: "バッファ", de: "Puffer" }

    this_machine() {
        en: "this machine's memory", zh: "本机内存", ja: "このマシンのメモリ", de: "Speicher dieses Rechners",
    }

    a_card() {
        en: "a card of this size", zh: "这个容量的显卡", ja: "この容量のカード", de: "eine Karte dieser Größe",
    }
}

/// Before what went wrong.
pub(crate) fn error() -> String {
    labels::error(lang())
}

/// Before advice.
pub(crate) fn hint() -> String {
    labels::hint(lang())
}

/// Before a note that is not part of the answer.
pub(crate) fn note() -> String {
    labels::note(lang())
}

/// A device from its name in a report; a card keeps its name.
pub(crate) fn device(name: &str) -> String {
    match name {
        THIS_MACHINE => this_machine(),
        A_CARD => a_card(),
        name => name.to_owned(),
    }
}

/// A class of tensors.
pub(crate) fn class(class: TensorClass) -> String {
    match class {
        TensorClass::Parameter => parameters(),
        TensorClass::Gradient => gradients(),
        TensorClass::Optimizer => optimizer(),
        TensorClass::Activation => activations(),
        TensorClass::Logits => logits(),
        TensorClass::Scratch => scratch(),
        TensorClass::Input => inputs(),
    }
}

/// A phase from its name in a report.
pub(crate) fn phase(name: &str) -> String {
    match name {
        "train" => train(),
        "update" => update(),
        "evaluate" => evaluate(),
        "evaluate_first" => evaluate_first(),
        "resume" => resume(),
        "sample_in_training" => sample_in_training(),
        "sample" => sample(),
        other => other.to_owned(),
    }
}

/// Memory of a device's runtime, from its name in a report.
pub(crate) fn pool(name: &str) -> String {
    match name {
        "uniforms" => uniforms(),
        "staging" => staging(),
        _ => buffers(),
    }
}
