//! What `demo` prints between the commands.

messages! {
    doctor() {
        en: "the doctor explains an out-of-memory log",
        zh: "doctor 解释一份显存不足的日志",
        ja: "doctor がメモリ不足のログを説明する",
        de: "der Doktor erklärt ein Log mit Speichermangel",
    }
    fit() {
        en: "`fit` makes that run fit its card under PyTorch",
        zh: "`fit` 让这次 PyTorch 运行放得进它的显卡",
        ja: "`fit` がその PyTorch の実行を GPU に収める",
        de: "`fit` passt diesen PyTorch-Lauf an seine Karte an",
    }
    plan() {
        en: "the memory of a training run, before anything is allocated",
        zh: "在分配任何内存之前，算出一次训练的内存",
        ja: "何も確保しないうちに、学習に必要なメモリを求める",
        de: "der Speicher eines Trainings, bevor etwas belegt wird",
    }
    limit() {
        en: "the same run under a hard limit just above its plan",
        zh: "在略高于计划的硬性内存上限下运行它",
        ja: "計画をわずかに上回るハードリミットのもとで実行する",
        de: "derselbe Lauf unter einer harten Grenze knapp über seinem Plan",
    }
    split() {
        en: "16 × 1 and 4 × 4 are the same training",
        zh: "16 × 1 与 4 × 4 是同一次训练",
        ja: "16 × 1 と 4 × 4 は同じ学習になる",
        de: "16 × 1 und 4 × 4 sind dasselbe Training",
    }
    resume() {
        en: "a killed run resumes with the same bits",
        zh: "被强制终止的运行恢复后，结果逐位相同",
        ja: "強制終了しても、再開すればビット単位で同じ結果になる",
        de: "ein abgebrochener Lauf geht bitgenau weiter",
    }

    passed(verdict) {
        en: "passed: {verdict}", zh: "通过：{verdict}", ja: "合格: {verdict}", de: "bestanden: {verdict}",
    }
    skipped(reason) {
        en: "skipped: {reason}", zh: "跳过：{reason}", ja: "スキップ: {reason}", de: "übersprungen: {reason}",
    }
    doctor_passed(rule) {
        en: "log and config give the phase, the tensor and the cause (`{rule}`)",
        zh: "由日志和配置得出阶段、张量和原因（`{rule}`）",
        ja: "ログと設定からフェーズ、テンソル、原因が分かる（`{rule}`）",
        de: "aus Log und Konfiguration folgen Phase, Tensor und Ursache (`{rule}`)",
    }
    fit_passed(sequences) {
        en: "the original does not fit, the fitted config does; both have {sequences} sequences a step",
        zh: "原配置放不下，调整后放得下，每步同为 {sequences} 条序列",
        ja: "元の設定は収まらず、調整後は収まる。1 ステップはどちらも {sequences} 系列",
        de: "das Original passt nicht, die angepasste Konfiguration passt; beide mit {sequences} Sequenzen je Schritt",
    }
    plan_passed(arena) {
        en: "the arena will be {arena}",
        zh: "将预分配 {arena}",
        ja: "アリーナは {arena} になる",
        de: "die Arena wird {arena} groß sein",
    }
    limit_passed(arena, limit) {
        en: "arena {arena}; the run finished with {limit} of address space and was refused in time with less",
        zh: "预分配 {arena}；地址空间为 {limit} 时运行完成，更少时在开始前就拒绝",
        ja: "アリーナ {arena}。アドレス空間 {limit} で完走し、足りないときは開始前に拒否",
        de: "Arena {arena}; mit {limit} Adressraum lief es durch, mit weniger wurde es vor dem Start abgelehnt",
    }
    no_limit_here() {
        en: "this system cannot enforce a limit on a process's memory",
        zh: "本系统没有能真正限制进程内存的机制",
        ja: "このシステムにはプロセスのメモリを確実に制限する手段がない",
        de: "dieses System kann den Speicher eines Prozesses nicht verlässlich begrenzen",
    }
    split_passed(steps, difference) {
        en: "in {steps} steps the losses differ by at most {difference}",
        zh: "共 {steps} 步，任一步的 loss 最多相差 {difference}",
        ja: "{steps} ステップのどこでも loss の差は最大 {difference}",
        de: "in {steps} Schritten unterscheidet sich der Loss um höchstens {difference}",
    }
    resume_passed(steps) {
        en: "all {steps} losses equal those of the run that was not killed, bit for bit",
        zh: "全部 {steps} 步的 loss 与未被终止的运行逐位相同",
        ja: "{steps} ステップすべての loss が、終了させなかった実行とビット単位で一致",
        de: "der Loss aller {steps} Schritte gleicht dem des nicht abgebrochenen Laufs, Bit für Bit",
    }
    done(passed, all, seconds) {
        en: "{passed} of {all} steps passed, {seconds} s",
        zh: "{all} 项中有 {passed} 项通过，{seconds} 秒",
        ja: "{all} 項目中 {passed} 項目が合格、{seconds} 秒",
        de: "{passed} von {all} Schritten bestanden, {seconds} s",
    }
    kept(folder) {
        en: "all files are in {folder}; `output.txt` has the full output of every command",
        zh: "所有文件都在 {folder}；每条命令的完整输出在 `output.txt`",
        ja: "すべてのファイルは {folder} にあります。各コマンドの全出力は `output.txt` です",
        de: "alle Dateien liegen in {folder}; die ganze Ausgabe jedes Befehls steht in `output.txt`",
    }
    /// What `--keep` is for.
    keep() {
        en: "the same, with the full output kept",
        zh: "同样的演示，并保留完整输出",
        ja: "同じデモで、全出力を残す",
        de: "dasselbe, und die ganze Ausgabe bleibt erhalten",
    }
    /// What `train` without a config does.
    train() {
        en: "a small model from built-in text",
        zh: "用内置文本训练一个小模型",
        ja: "内蔵テキストで小さなモデルを学習",
        de: "ein kleines Modell aus eingebautem Text",
    }

    failed(index, title, reason) {
        en: "step {index} of the demo, \"{title}\": {reason}",
        zh: "演示第 {index} 项“{title}”：{reason}",
        ja: "デモの {index} 番目「{title}」: {reason}",
        de: "Schritt {index} der Vorführung, „{title}“: {reason}",
    }
    cannot_run(command, error) {
        en: "`{command}` cannot be run: {error}",
        zh: "无法运行 `{command}`：{error}",
        ja: "`{command}` を実行できません: {error}",
        de: "`{command}` lässt sich nicht ausführen: {error}",
    }
    ended(command, status, code) {
        en: "`{command}` ended with {status}, {code} was expected",
        zh: "`{command}` 以 {status} 结束，应为 {code}",
        ja: "`{command}` は {status} で終了しました（期待値 {code}）",
        de: "`{command}` endete mit {status}, erwartet war {code}",
    }
    not_killed(command) {
        en: "`{command}` ended before it could be killed",
        zh: "`{command}` 在被终止之前就已结束",
        ja: "`{command}` は強制終了する前に終わりました",
        de: "`{command}` war zu Ende, bevor es abgebrochen werden konnte",
    }
    not_found(what) {
        en: "the output has no `{what}`",
        zh: "输出中没有 `{what}`",
        ja: "出力に `{what}` がありません",
        de: "in der Ausgabe fehlt `{what}`",
    }
    file(path, error) {
        en: "`{path}` cannot be used: {error}",
        zh: "无法使用 `{path}`：{error}",
        ja: "`{path}` を使えません: {error}",
        de: "`{path}` lässt sich nicht verwenden: {error}",
    }
    other_batch(before, after) {
        en: "a step had {before} sequences and has {after} now",
        zh: "每步原有 {before} 条序列，现在为 {after} 条",
        ja: "1 ステップの系列数が {before} から {after} に変わりました",
        de: "ein Schritt hatte {before} Sequenzen und hat jetzt {after}",
    }
    other_steps(a, b) {
        en: "one run has {a} steps, the other {b}",
        zh: "一次运行有 {a} 步，另一次有 {b} 步",
        ja: "一方は {a} ステップ、もう一方は {b} ステップです",
        de: "ein Lauf hat {a} Schritte, der andere {b}",
    }
    losses_differ(difference) {
        en: "the losses differ by {difference}",
        zh: "loss 相差 {difference}",
        ja: "loss の差が {difference} あります",
        de: "der Loss unterscheidet sich um {difference}",
    }
}
