//! What `demo` says between the commands.

messages! {
    doctor() {
        en: "the doctor explains an out-of-memory log",
        zh: "doctor 解释一份显存不足的日志",
        ja: "doctor がメモリ不足のログを説明する",
        de: "der Doktor erklärt ein Protokoll mit Speichermangel",
    }
    fit() {
        en: "its config is fitted to its card, for PyTorch",
        zh: "把它的配置调整到放得进那块显卡（PyTorch）",
        ja: "その設定を GPU に収まるように調整する（PyTorch）",
        de: "seine Konfiguration wird für PyTorch an die Karte angepasst",
    }
    plan() {
        en: "the memory of a training run, before anything is allocated",
        zh: "在分配任何内存之前，算出一次训练的内存",
        ja: "何も確保しないうちに、学習に必要なメモリを求める",
        de: "der Speicher eines Trainings, bevor etwas belegt wird",
    }
    limit() {
        en: "that run, under a hard limit just above its plan",
        zh: "在略高于计划的硬性内存上限下运行它",
        ja: "計画をわずかに上回るハードリミットのもとで実行する",
        de: "dieses Training unter einer harten Grenze knapp über seinem Plan",
    }
    split() {
        en: "16 × 1 and 4 × 4 are the same training",
        zh: "16 × 1 与 4 × 4 是同一次训练",
        ja: "16 × 1 と 4 × 4 は同じ学習になる",
        de: "16 × 1 und 4 × 4 sind dasselbe Training",
    }
    resume() {
        en: "a kill and a resume leave no trace",
        zh: "强制终止后恢复，结果毫无差别",
        ja: "強制終了して再開しても結果は変わらない",
        de: "Abbruch und Fortsetzen hinterlassen keine Spur",
    }

    passed(verdict) {
        en: "passed: {verdict}", zh: "通过：{verdict}", ja: "合格: {verdict}", de: "bestanden: {verdict}",
    }
    left_out(reason) {
        en: "left out: {reason}", zh: "略过：{reason}", ja: "省略: {reason}", de: "ausgelassen: {reason}",
    }
    doctor_passed(rule) {
        en: "the log alone tells the phase, the tensor and the cause (`{rule}`)",
        zh: "仅凭日志就能判断阶段、张量和原因（`{rule}`）",
        ja: "ログだけでフェーズ、テンソル、原因が分かる（`{rule}`）",
        de: "aus dem Protokoll allein folgen Phase, Tensor und Ursache (`{rule}`)",
    }
    fit_passed(sequences) {
        en: "as it was it does not fit, as it was fitted it does, both with {sequences} sequences a step",
        zh: "原配置放不下，调整后放得下，每步同为 {sequences} 条序列",
        ja: "元の設定は収まらず、調整後は収まる。1 ステップはどちらも {sequences} 系列",
        de: "vorher passt sie nicht, angepasst passt sie, beide Male mit {sequences} Sequenzen je Schritt",
    }
    plan_passed(arena) {
        en: "the arena will be {arena}",
        zh: "将预分配 {arena}",
        ja: "アリーナは {arena} になる",
        de: "die Arena wird {arena} groß sein",
    }
    limit_passed(arena, limit) {
        en: "arena {arena}, all address space {limit}; with less it said no before it began",
        zh: "预分配 {arena}，全部地址空间 {limit}；更少时在开始前就拒绝",
        ja: "アリーナ {arena}、アドレス空間全体 {limit}。足りないときは開始前に断る",
        de: "Arena {arena}, gesamter Adressraum {limit}; mit weniger sagte es vor dem Beginn nein",
    }
    no_limit_here() {
        en: "this system has no limit on a process's memory that holds",
        zh: "本系统没有能真正限制进程内存的机制",
        ja: "このシステムにはプロセスのメモリを確実に制限する手段がない",
        de: "dieses System kann den Speicher eines Prozesses nicht verlässlich begrenzen",
    }
    split_passed(steps, apart) {
        en: "{steps} steps, the losses are at most {apart} apart at any of them",
        zh: "共 {steps} 步，任一步的损失最多相差 {apart}",
        ja: "{steps} ステップのどこでも損失の差は最大 {apart}",
        de: "{steps} Schritte, die Verluste liegen bei keinem mehr als {apart} auseinander",
    }
    resume_passed(steps) {
        en: "all {steps} losses equal those of the undisturbed run, bit for bit",
        zh: "全部 {steps} 步的损失与未中断的运行逐位相同",
        ja: "{steps} ステップすべての損失が、中断しなかった実行とビット単位で一致",
        de: "alle {steps} Verluste gleichen denen des ungestörten Laufs, Bit für Bit",
    }
    done(passed, all, seconds) {
        en: "{passed} of {all} steps passed, {seconds} s",
        zh: "{all} 项中有 {passed} 项通过，{seconds} 秒",
        ja: "{all} 項目中 {passed} 項目が合格、{seconds} 秒",
        de: "{passed} von {all} Schritten bestanden, {seconds} s",
    }
    kept(folder) {
        en: "everything is in {folder}",
        zh: "所有文件都在 {folder}",
        ja: "すべてのファイルは {folder} にあります",
        de: "alles liegt in {folder}",
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
        en: "the answer lacks `{what}`",
        zh: "回答中没有 `{what}`",
        ja: "出力に `{what}` がありません",
        de: "in der Antwort fehlt `{what}`",
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
    losses_differ(apart) {
        en: "the losses are {apart} apart",
        zh: "损失相差 {apart}",
        ja: "損失の差が {apart} あります",
        de: "die Verluste liegen {apart} auseinander",
    }
}
