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

    passed() { en: "passed", zh: "通过", ja: "合格", de: "bestanden" }
    no_limit_here() {
        en: "skipped: this system cannot enforce a limit on a process's memory",
        zh: "跳过：本系统没有能真正限制进程内存的机制",
        ja: "スキップ: このシステムにはプロセスのメモリを確実に制限する手段がない",
        de: "übersprungen: dieses System kann den Speicher eines Prozesses nicht verlässlich begrenzen",
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
    ended(command, status) {
        en: "`{command}` ended with {status}, which was not expected",
        zh: "`{command}` 以 {status} 结束，与预期不符",
        ja: "`{command}` は {status} で終了しました。これは想定外です",
        de: "`{command}` endete mit {status}; das war nicht erwartet",
    }
    shows_nothing(command) {
        en: "`{command}` did not print what it should",
        zh: "`{command}` 没有打印应有的内容",
        ja: "`{command}` は表示すべき内容を表示しませんでした",
        de: "`{command}` hat nicht ausgegeben, was es soll",
    }
    file(path, error) {
        en: "`{path}` cannot be used: {error}",
        zh: "无法使用 `{path}`：{error}",
        ja: "`{path}` を使えません: {error}",
        de: "`{path}` lässt sich nicht verwenden: {error}",
    }
    losses_differ(a, b, difference) {
        en: "{a} and {b}: the losses of all steps differ by at most {difference}",
        zh: "{a} 与 {b}：各步的 loss 最多相差 {difference}",
        ja: "{a} と {b}: どのステップでも loss の差は最大 {difference}",
        de: "{a} und {b}: der Loss aller Schritte unterscheidet sich um höchstens {difference}",
    }
}
