//! What `doctor` says: the diagnosis, the ways out, and what to send where it cannot tell.

mod findings;
mod notes;

use fitgpt_doctor::{Certainty, Kind, Next, Phase, PhaseName, Tensor, size};

pub(crate) use self::{findings::finding, notes::note};

messages! {
    gpu_memory() {
        en: "the card's memory ran out", zh: "显存不足", ja: "VRAM が不足しました", de: "der Grafikspeicher ist erschöpft",
    }
    host_memory() {
        en: "the machine's own memory ran out, not the card's",
        zh: "耗尽的是主机内存，而不是显存",
        ja: "不足したのは VRAM ではなくホストのメモリです",
        de: "der Arbeitsspeicher des Rechners ist erschöpft, nicht der Grafikspeicher",
    }
    shared_memory() {
        en: "a kernel asked for more shared memory than a multiprocessor has",
        zh: "某个内核申请的共享内存超过了一个多处理器所拥有的",
        ja: "カーネルがマルチプロセッサの持つ以上の共有メモリを要求しました",
        de: "ein Kernel verlangte mehr Shared Memory, als ein Multiprozessor hat",
    }
    no_failure() {
        en: "the log shows no failure of memory", zh: "日志中没有内存不足的错误", ja: "ログにメモリ不足のエラーはありません", de: "das Log zeigt keinen Speicherfehler",
    }
    some_memory() {
        en: "memory ran out; the log does not say which",
        zh: "内存不足；日志没有说明是哪一种内存",
        ja: "メモリが不足しましたが、どのメモリかはログからは分かりません",
        de: "ein Speicher ist erschöpft; das Log sagt nicht, welcher",
    }

    train_forward() {
        en: "the forward of a training step", zh: "训练步的前向传播", ja: "学習ステップの順伝播", de: "der Vorwärtslauf eines Trainingsschritts",
    }
    train_backward() {
        en: "the backward of a training step", zh: "训练步的反向传播", ja: "学習ステップの逆伝播", de: "der Rückwärtslauf eines Trainingsschritts",
    }
    update() { en: "the optimizer's step", zh: "优化器更新", ja: "オプティマイザの更新", de: "der Schritt des Optimierers" }
    evaluate() {
        en: "an evaluation (`estimate_loss`)", zh: "评估（`estimate_loss`）", ja: "評価（`estimate_loss`）", de: "eine Auswertung (`estimate_loss`)",
    }
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

    /// Before a finding that explains the failure.
    cause() { en: "cause", zh: "原因", ja: "原因", de: "Ursache" }
    /// Before a finding that was seen and does not.
    seen() { en: "seen", zh: "另见", ja: "観察", de: "gesehen" }
    /// Before a line of the log that is harmless.
    harmless() { en: "note", zh: "说明", ja: "補足", de: "Hinweis" }

    next_failure(phase, peak, usable) {
        en: "once that is mended, {phase} does not fit either: {peak} of tensors, {usable} for them",
        zh: "解决之后，{phase}同样放不下：张量需要 {peak}，可用的只有 {usable}",
        ja: "それを直しても、次は{phase}が収まりません: テンソルに {peak} 必要ですが、使えるのは {usable} です",
        de: "ist das behoben, passt auch {phase} nicht: {peak} an Tensoren, {usable} dafür",
    }

    /// Before tensors that all print like the request.
    ties() {
        en: "what was asked for may be any of these, best first:",
        zh: "所申请的可能是下列任意一个张量，最可能的在前：",
        ja: "要求されたのは次のいずれかと考えられます（可能性の高い順）:",
        de: "angefordert wurde womöglich einer dieser Tensoren, der wahrscheinlichste zuerst:",
    }
    supposing(tensor, model, batch_size, block_size) {
        en: "{tensor}, supposing {model} with batch_size {batch_size} and block_size {block_size}",
        zh: "{tensor}，假设为 {model}、batch_size {batch_size}、block_size {block_size}",
        ja: "{tensor}（{model}、batch_size {batch_size}、block_size {block_size} と仮定）",
        de: "{tensor}, angenommen {model} mit batch_size {batch_size} und block_size {block_size}",
    }
    more(count) { en: "and {count} more", zh: "以及另外 {count} 个", ja: "ほか {count} 件", de: "und {count} weitere" }

    ways_out() {
        en: "\nways out, each computed:\n",
        zh: "\n解决办法，每一条都经过计算：\n",
        ja: "\n対処法（いずれも計算済み）:\n",
        de: "\nAuswege, jeder berechnet:\n",
    }
    way_out(verdict, peak, training) {
        en: "{verdict}, peak {peak}, {training}", zh: "{verdict}，峰值 {peak}，{training}", ja: "{verdict}、ピーク {peak}、{training}", de: "{verdict}, Spitze {peak}, {training}",
    }
    same_training() { en: "the same training", zh: "训练不变", ja: "学習は同じ", de: "dasselbe Training" }
    another_training() { en: "another training", zh: "训练会改变", ja: "学習が変わる", de: "ein anderes Training" }

    /// It cannot tell; what would help.
    abstains() {
        en: "\nthis is not enough to name the cause; what would help:\n",
        zh: "\n仅凭这些还不能确定原因；以下信息会有帮助：\n",
        ja: "\nこれだけでは原因を特定できません。次の情報があると役立ちます:\n",
        de: "\ndas reicht nicht, um die Ursache zu nennen; hilfreich wäre:\n",
    }
    send_gpu() { en: "the card", zh: "显卡", ja: "GPU", de: "die Karte" }
    send_version() { en: "PyTorch's version", zh: "PyTorch 版本", ja: "PyTorch のバージョン", de: "die Version von PyTorch" }
    send_log() { en: "the whole log", zh: "完整的日志", ja: "ログ全体", de: "das ganze Log" }
    send_config() {
        en: "the config, with the keys of the command line",
        zh: "配置文件以及命令行上的参数",
        ja: "設定ファイルとコマンドラインで指定したキー",
        de: "die Konfiguration mit den Schlüsseln der Kommandozeile",
    }

    /// What to try where there is nothing to read.
    examples() {
        en: "fitgpt doctor reads a log from a file or from stdin:\n",
        zh: "fitgpt doctor 从文件或标准输入读取日志：\n",
        ja: "fitgpt doctor はファイルまたは標準入力からログを読みます:\n",
        de: "fitgpt doctor liest ein Log aus einer Datei oder von der Standardeingabe:\n",
    }
    no_page(topic) {
        en: "there is no page `{topic}`", zh: "没有 `{topic}` 这一页", ja: "`{topic}` というページはありません", de: "es gibt keine Seite `{topic}`",
    }
    pages(topics) { en: "pages: {topics}", zh: "可用的页面：{topics}", ja: "ページ一覧: {topics}", de: "Seiten: {topics}" }
}

/// Every message of the doctor's.
#[cfg(test)]
pub(super) const FILES: [&[(&str, [&str; 4])]; 3] = [ALL, findings::ALL, notes::ALL];

/// Something that the doctor would have to know.
pub(crate) fn want(name: &str) -> String {
    match name {
        "log" => send_log(),
        "config" => send_config(),
        "gpu" => send_gpu(),
        "torch-version" => send_version(),
        other => other.to_owned(),
    }
}

/// Which memory.
pub(crate) fn kind(kind: Kind) -> String {
    match kind {
        Kind::GpuMemory => gpu_memory(),
        Kind::HostMemory => host_memory(),
        Kind::SharedMemory => shared_memory(),
        Kind::None => no_failure(),
        Kind::Unknown => some_memory(),
    }
}

fn phase_name(name: PhaseName) -> String {
    match name {
        PhaseName::TrainForward => train_forward(),
        PhaseName::TrainBackward => train_backward(),
        PhaseName::Update => update(),
        PhaseName::Evaluate => evaluate(),
        PhaseName::Load => load(),
        PhaseName::Resume => resume(),
        PhaseName::Compile => compile(),
        PhaseName::Prepare => prepare(),
        PhaseName::Unknown => unknown_phase(),
    }
}

/// When it failed.
pub(crate) fn phase(phase: Phase) -> String {
    match phase.certainty {
        Certainty::Certain => in_phase(phase_name(phase.name)),
        Certainty::Likely => probably_in_phase(phase_name(phase.name)),
        Certainty::Unknown => phase_not_shown(),
    }
}

/// What fails next.
pub(crate) fn next(next: Next) -> String {
    next_failure(phase_name(next.phase), size(next.peak_bytes), size(next.usable_bytes))
}

/// One candidate.
pub(crate) fn tensor(tensor: &Tensor) -> String {
    let shape: Vec<_> = tensor.shape.iter().map(u64::to_string).collect();
    let (name, shape, dtype) = (&tensor.name, shape.join(", "), tensor.dtype);
    let text = format!("`{name}` ({shape}) {dtype}, {}", size(tensor.bytes));
    match tensor.supposing {
        Some(run) => supposing(text, run.model, run.batch_size, run.block_size),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_doctor::{Evidence, Finding, parse::NOTES, rules};

    use super::*;

    #[test]
    fn every_rule_and_every_note_has_a_sentence() {
        for rule in rules() {
            let found = Finding {
                rule,
                certainty: Certainty::Certain,
                is_cause: true,
                evidence: Evidence::new(),
            };
            assert_ne!(finding(&found, None), rule);
        }
        let names = NOTES.iter().map(|note| note.name).chain(["kernel-choice-skipped"]);
        for name in names {
            assert_ne!(note(name), note("no such note"), "{name}");
        }
    }
}
