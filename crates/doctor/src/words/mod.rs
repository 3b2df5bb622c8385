//! The sentences of a diagnosis, each next to its kind of fact: verdict, account, causes,
//! recommendations, next command.

mod advice;
mod claims;
mod notes;
mod open;
mod findings;
mod text;

use std::cell::Cell;

use fitgpt_say::{Lang, Say};

pub use self::{
    findings::finding,
    text::{plain, step_text, text},
};
use crate::{
    diagnosis::{Account, Finding, Fix, NextFailure},
    facts::{AccountShare, CandidateTensor, Certainty, FailurePhase, MemoryKind, PhaseName},
    parse::SnapshotError,
};

fitgpt_say::messages! {
    gpu_memory() {
        en: "GPU memory ran out", zh: "显存不足", ja: "VRAM が不足しました", de: "der Grafikspeicher ist erschöpft",
    }
    host_memory() {
        en: "host memory (RAM) ran out, not GPU memory",
        zh: "耗尽的是主机内存，而不是显存",
        ja: "不足したのは VRAM ではなくホストのメモリです",
        de: "der Arbeitsspeicher des Rechners ist erschöpft, nicht der Grafikspeicher",
    }
    shared_memory() {
        en: "a kernel needs more shared memory than a multiprocessor has",
        zh: "某个内核需要的共享内存超过了多处理器的容量",
        ja: "カーネルに必要な共有メモリが、マルチプロセッサの容量を超えています",
        de: "ein Kernel verlangte mehr Shared Memory, als ein Multiprozessor hat",
    }
    no_failure() {
        en: "the log shows no memory error", zh: "日志中没有内存不足的错误", ja: "ログにメモリ不足のエラーはありません", de: "das Log zeigt keinen Speicherfehler",
    }
    some_memory() {
        en: "memory ran out, but the log does not say which",
        zh: "内存不足；日志没有说明是哪一种内存",
        ja: "メモリが不足しましたが、どのメモリかはログからは分かりません",
        de: "ein Speicher ist erschöpft; das Log sagt nicht, welcher",
    }

    train_forward() {
        en: "the forward pass of a training step", zh: "训练步的前向传播", ja: "学習ステップの順伝播", de: "der Vorwärtslauf eines Trainingsschritts",
    }
    train_backward() {
        en: "the backward pass of a training step", zh: "训练步的反向传播", ja: "学習ステップの逆伝播", de: "der Rückwärtslauf eines Trainingsschritts",
    }
    update() { en: "the optimizer step", zh: "优化器更新", ja: "オプティマイザの更新", de: "der Schritt des Optimierers" }
    evaluate() { en: "an evaluation", zh: "评估", ja: "評価", de: "eine Evaluierung" }
    save() { en: "saving a checkpoint", zh: "保存检查点", ja: "チェックポイントの保存", de: "das Speichern eines Checkpoints" }
    sample() { en: "generating", zh: "生成", ja: "生成", de: "das Generieren" }
    serve() { en: "serving a request", zh: "处理请求", ja: "リクエストの処理", de: "das Beantworten einer Anfrage" }
    start() { en: "starting up", zh: "启动", ja: "起動", de: "der Start" }
    load() { en: "loading the model", zh: "加载模型", ja: "モデルの読み込み", de: "das Laden des Modells" }
    resume() { en: "loading a checkpoint", zh: "加载检查点", ja: "チェックポイントの読み込み", de: "das Laden eines Checkpoints" }
    compile() { en: "compiling the model", zh: "编译模型", ja: "モデルのコンパイル", de: "das Kompilieren des Modells" }
    prepare() { en: "preparing data", zh: "准备数据", ja: "データの準備", de: "das Vorbereiten der Daten" }
    unknown_phase() { en: "an unknown phase", zh: "未知阶段", ja: "不明な段階", de: "eine unbekannte Phase" }

    in_phase(phase) { en: "in {phase}", zh: "发生在{phase}时", ja: "発生した段階: {phase}", de: "Phase: {phase}" }
    probably_in_phase(phase) {
        en: "probably in {phase}", zh: "很可能发生在{phase}时", ja: "発生した段階: おそらく{phase}", de: "Phase: wahrscheinlich {phase}",
    }
    phase_not_shown() {
        en: "the log does not show in which phase", zh: "日志没有显示发生在哪个阶段", ja: "どの段階かはログに示されていません", de: "das Log zeigt nicht, in welcher Phase",
    }

    /// Label of a finding that explains the failure.
    cause() { en: "cause", zh: "原因", ja: "原因", de: "Ursache" }
    /// Label of a finding that does not.
    seen() { en: "also", zh: "另外观察到", ja: "観察", de: "außerdem" }
    /// Label of a harmless line of the log.
    harmless() { en: "note", zh: "说明", ja: "補足", de: "Hinweis" }

    next_failure(phase, peak, usable) {
        en: "after that fix, {phase} does not fit either: it needs {peak}, and {usable} is available",
        zh: "解决之后，{phase}同样放不下：张量需要 {peak}，可用的只有 {usable}",
        ja: "それを直しても、次は{phase}が収まりません: テンソルに {peak} 必要ですが、使えるのは {usable} です",
        de: "ist das behoben, passt auch {phase} nicht: nötig sind {peak}, verfügbar {usable}",
    }

    /// Before the list of tensors with the requested size.
    ties() {
        en: "the request may have been for any of these tensors, most likely first:",
        zh: "所申请的可能是下列任意一个张量，最可能的在前：",
        ja: "要求されたのは次のいずれかと考えられます（可能性の高い順）:",
        de: "angefordert wurde womöglich einer dieser Tensoren, der wahrscheinlichste zuerst:",
    }
    supposing(tensor, model, batch_size, block_size) {
        en: "{tensor}, assuming {model} with batch_size {batch_size} and block_size {block_size}",
        zh: "{tensor}，假设为 {model}、batch_size {batch_size}、block_size {block_size}",
        ja: "{tensor}（{model}、batch_size {batch_size}、block_size {block_size} と仮定）",
        de: "{tensor}, angenommen {model} mit batch_size {batch_size} und block_size {block_size}",
    }
    more(count) { en: "and {count} more", zh: "以及另外 {count} 个", ja: "ほか {count} 件", de: "und {count} weitere" }

    fix_line(verdict, peak, training) {
        en: "computed: {verdict}, peak {peak}, {training}",
        zh: "经过计算：{verdict}，峰值 {peak}，{training}",
        ja: "計算済み: {verdict}、ピーク {peak}、{training}",
        de: "berechnet: {verdict}, Spitze {peak}, {training}",
    }
    same_training() { en: "the same training", zh: "训练不变", ja: "学習は同じ", de: "dasselbe Training" }
    different_training() { en: "changes the training run", zh: "训练会改变", ja: "学習が変わる", de: "verändert das Training" }
    account_is(sum, explained, held) {
        en: "memory held: {sum} = {explained}; the log says {held}",
        zh: "占用构成：{sum} = {explained}；日志中为 {held}",
        ja: "内訳: {sum} = {explained}（ログでは {held}）",
        de: "Belegung: {sum} = {explained}; laut Log {held}",
    }
    /// From a snapshot, which has every byte.
    account_of_snapshot(sum, held) {
        en: "memory held: {sum} = {held}", zh: "占用构成：{sum} = {held}", ja: "内訳: {sum} = {held}", de: "Belegung: {sum} = {held}",
    }
    what_to_do() {
        en: "\nwhat to do, in this order:\n", zh: "\n建议依次尝试：\n", ja: "\n次の順に試してください:\n", de: "\nempfohlen, in dieser Reihenfolge:\n",
    }
    now(command) { en: "next: {command}", zh: "下一步：{command}", ja: "次に実行: {command}", de: "als Nächstes: {command}" }
    would_help(question) {
        en: "to narrow it down: {question}",
        zh: "为进一步判断：{question}",
        ja: "さらに絞り込むには: {question}",
        de: "um es einzugrenzen: {question}",
    }
    more_on(rule) {
        en: "details: fitgpt doctor --explain {rule}", zh: "详情：fitgpt doctor --explain {rule}", ja: "詳細: fitgpt doctor --explain {rule}", de: "Einzelheiten: fitgpt doctor --explain {rule}",
    }

    config_helps() {
        en: "with a nanoGPT config (--config CONFIG.py) the doctor also computes config changes that fit",
        zh: "给出 nanoGPT 的配置（--config CONFIG.py），doctor 还会算出放得下的配置修改",
        ja: "nanoGPT の設定（--config CONFIG.py）を渡すと、収まる設定変更も計算します",
        de: "mit einer nanoGPT-Konfiguration (--config CONFIG.py) berechnet der Doktor auch Änderungen, die passen",
    }
    /// The next step if nothing failed.
    before_a_run() {
        en: "next: to check a run before it starts, fitgpt plan CONFIG.py --engine torch --gpu \"RTX 4070\"",
        zh: "下一步：要在运行之前检查，fitgpt plan CONFIG.py --engine torch --gpu \"RTX 4070\"",
        ja: "次に: 実行前に確認するには、fitgpt plan CONFIG.py --engine torch --gpu \"RTX 4070\"",
        de: "als Nächstes: um einen Lauf vorher zu prüfen, fitgpt plan CONFIG.py --engine torch --gpu \"RTX 4070\"",
    }

    unknown_size() { en: "an unknown size", zh: "未知大小", ja: "不明なサイズ", de: "eine unbekannte Größe" }

    not_a_snapshot() {
        en: "it is a pickle without memory segments", zh: "其中没有内存段", ja: "メモリセグメントのない pickle です", de: "ein Pickle ohne Speichersegmente",
    }
}

/// Above this, PyTorch prints GiB.
const GIB: u64 = 1 << 30;

thread_local! {
    /// Whether sizes are written in GiB.
    static IN_GIB: Cell<bool> = const { Cell::new(false) };
    /// The largest size of the text.
    static LARGEST: Cell<u64> = const { Cell::new(0) };
}

/// A text whose sizes all have one unit: GiB if the largest is that large, otherwise MiB. The
/// largest size is known only after the text is written once.
pub fn in_one_unit<T>(write: impl Fn() -> T) -> T {
    LARGEST.set(0);
    let text = write();
    if LARGEST.get() <= GIB {
        return text;
    }
    IN_GIB.set(true);
    let text = write();
    IN_GIB.set(false);
    text
}

/// A size in PyTorch's format, with the language's decimal separator and word for bytes.
fn size(lang: Lang, bytes: u64) -> String {
    LARGEST.set(LARGEST.get().max(bytes));
    let text = if IN_GIB.get() { in_gib(bytes) } else { crate::size(bytes) };
    match lang {
        Lang::English => text,
        Lang::Chinese => text.replace("bytes", "字节"),
        Lang::Japanese => text.replace("bytes", "バイト"),
        Lang::German => text.replace('.', ",").replace("bytes", "Byte"),
    }
}

/// In GiB, with a third decimal if two would leave one digit. A few bytes stay bytes.
fn in_gib(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    const FEW: u64 = MIB / 100;
    let gib = bytes as f64 / GIB as f64;
    match bytes {
        0..FEW => crate::size(bytes),
        FEW..MIB => "< 0.001 GiB".to_owned(),
        _ if gib < 0.1 => format!("{gib:.3} GiB"),
        _ => format!("{gib:.2} GiB"),
    }
}

/// `0.46 GiB weights + 6.14 GiB logits of the last batch`.
fn sum(lang: Lang, parts: &[AccountShare]) -> String {
    let part = |part: &AccountShare| format!("{} {}", size(lang, part.bytes), part.name.say(lang));
    parts.iter().map(part).collect::<Vec<_>>().join(" + ")
}

fn optional(lang: Lang, bytes: Option<u64>) -> String {
    bytes.map_or_else(|| unknown_size(lang), |bytes| size(lang, bytes))
}

impl Say for Account {
    fn say(&self, lang: Lang) -> String {
        let sum = sum(lang, &self.parts);
        if self.explained_bytes == self.held_bytes {
            return account_of_snapshot(lang, sum, size(lang, self.held_bytes));
        }
        account_is(lang, sum, size(lang, self.explained_bytes), size(lang, self.held_bytes))
    }
}

impl Say for MemoryKind {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::GpuMemory => gpu_memory(lang),
            Self::HostMemory => host_memory(lang),
            Self::SharedMemory => shared_memory(lang),
            Self::None => no_failure(lang),
            Self::Unknown => some_memory(lang),
        }
    }
}

impl Say for PhaseName {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::TrainForward => train_forward(lang),
            Self::TrainBackward => train_backward(lang),
            Self::Update => update(lang),
            Self::Evaluate => evaluate(lang),
            Self::Load => load(lang),
            Self::Resume => resume(lang),
            Self::Compile => compile(lang),
            Self::Prepare => prepare(lang),
            Self::Save => save(lang),
            Self::Sample => sample(lang),
            Self::Serve => serve(lang),
            Self::Start => start(lang),
            Self::Unknown => unknown_phase(lang),
        }
    }
}

impl Say for FailurePhase {
    fn say(&self, lang: Lang) -> String {
        match self.certainty {
            Certainty::Certain => in_phase(lang, self.name.say(lang)),
            Certainty::Likely => probably_in_phase(lang, self.name.say(lang)),
            Certainty::Unknown => phase_not_shown(lang),
        }
    }
}

impl Say for NextFailure {
    fn say(&self, lang: Lang) -> String {
        next_failure(
            lang,
            self.phase.say(lang),
            size(lang, self.peak_bytes),
            size(lang, self.usable_bytes),
        )
    }
}

impl Say for CandidateTensor {
    fn say(&self, lang: Lang) -> String {
        let shape: Vec<_> = self.shape.iter().map(u64::to_string).collect();
        let (name, shape, dtype) = (self.name.say(lang), shape.join(", "), self.dtype);
        let text = format!("`{name}` ({shape}) {dtype}, {}", size(lang, self.bytes));
        match self.supposing {
            Some(run) => supposing(lang, text, run.model, run.batch_size, run.block_size),
            None => text,
        }
    }
}

impl Say for Fix {
    fn say(&self, lang: Lang) -> String {
        let training =
            if self.keeps_training { same_training(lang) } else { different_training(lang) };
        fix_line(lang, self.verdict.say(lang), size(lang, self.peak_bytes), training)
    }
}

impl Say for SnapshotError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Pickle(error) => error.say(lang),
            Self::NotASnapshot => not_a_snapshot(lang),
        }
    }
}

/// The label of a finding: whether it is a cause.
pub fn mark(lang: Lang, finding: &Finding) -> String {
    if finding.is_cause { cause(lang) } else { seen(lang) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        parse::HarmlessLine,
        remedy::{Question, Remedy},
    };

    #[test]
    fn the_sizes_of_a_text_have_one_unit() {
        const MIB: u64 = 1 << 20;
        let of = |sizes: &'static [u64]| {
            let entry = |bytes: &u64| size(Lang::English, *bytes) + "; ";
            in_one_unit(move || sizes.iter().map(entry).collect::<String>())
        };
        assert_eq!(of(&[20 * MIB, 1000 * MIB]), "20.00 MiB; 1000.00 MiB; ");
        assert_eq!(
            of(&[20 * MIB, 474 * MIB, 6287 * MIB, 1024, MIB / 3]),
            "0.020 GiB; 0.46 GiB; 6.14 GiB; 1024 bytes; < 0.001 GiB; "
        );
        assert_eq!(of(&[20 * MIB]), "20.00 MiB; ");
    }

    #[test]
    fn no_two_remedies_questions_or_notes_have_the_same_sentence() {
        let advice = Remedy::ALL.iter().map(|remedy| remedy.say(Lang::English));
        let questions = Question::ALL.iter().map(|question| question.say(Lang::English));
        let notes = HarmlessLine::ALL.iter().map(|line| line.say(Lang::English));
        let mut all: Vec<_> = advice.chain(questions).chain(notes).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
