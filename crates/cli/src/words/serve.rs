//! Messages of `serve`, and the texts of its page.

messages! {
    /// The page can be opened.
    ready(address) {
        en: "the page is at {address}", zh: "页面地址：{address}", ja: "ページ: {address}", de: "die Seite: {address}",
    }
    /// Which folders' runs it shows.
    watching(folders) {
        en: "it shows the runs in {folders}", zh: "显示以下文件夹中的训练：{folders}", ja: "表示する実行のフォルダ: {folders}", de: "sie zeigt die Läufe in {folders}",
    }
    how_to_stop() {
        en: "press Ctrl-C to stop", zh: "按 Ctrl-C 结束", ja: "Ctrl-C で終了します", de: "Strg-C beendet sie",
    }
    open_to_others() {
        en: "other machines can reach this address, and nothing is encrypted; anyone with the token can see your runs",
        zh: "其他机器可以访问这个地址，且通信未加密；持有令牌的人都能看到你的训练",
        ja: "ほかのマシンからこのアドレスに接続でき、通信は暗号化されません。トークンを持つ人は実行を見られます",
        de: "andere Rechner erreichen diese Adresse, und nichts ist verschlüsselt; wer das Token hat, sieht die Läufe",
    }
    no_browser(error) {
        en: "no browser could be opened: {error}", zh: "无法打开浏览器：{error}", ja: "ブラウザを開けません: {error}", de: "kein Browser ließ sich öffnen: {error}",
    }
    runs_go_on(count) {
        en: "runs started from the page that are still training: {count}; `kill -INT PID` stops one, after saving",
        zh: "从页面启动的 {count} 个训练仍在继续；`kill -INT PID` 会保存后停止",
        ja: "ページから始めた {count} 件の学習は続いています。`kill -INT PID` で保存してから止まります",
        de: "von der Seite gestartete Läufe, die weitergehen: {count}; `kill -INT PID` speichert und hält an",
    }
    no_server(address, error) {
        en: "cannot listen at {address}: {error}", zh: "无法监听 {address}：{error}", ja: "{address} で待ち受けできません: {error}", de: "auf {address} kann nicht gelauscht werden: {error}",
    }
    another_port() {
        en: "`--port 0` uses any free port", zh: "`--port 0` 使用任意空闲端口", ja: "`--port 0` なら空いているポートを使います", de: "`--port 0` nimmt irgendeinen freien Port",
    }
    no_token(error) {
        en: "the system provided no random bytes for the token: {error}", zh: "系统没有给出令牌所需的随机数：{error}", ja: "トークン用の乱数を得られません: {error}", de: "das System gab keine Zufallsbits für das Token: {error}",
    }
    no_folder(folder) {
        en: "`{folder}` is not a folder", zh: "`{folder}` 不是文件夹", ja: "`{folder}` はフォルダではありません", de: "`{folder}` ist kein Ordner",
    }
    /// `train` prints the address of the page that shows it.
    shown_at(address) {
        en: "this run is shown at {address}", zh: "此训练显示在 {address}", ja: "この実行の表示: {address}", de: "dieser Lauf wird gezeigt auf {address}",
    }

    /// A config on the page starts from weights at a path.
    no_paths(name) {
        en: "the page does not read paths: `init_from = '{name}'` needs `fitgpt plan`",
        zh: "页面不读取路径：`init_from = '{name}'` 请使用 `fitgpt plan`",
        ja: "ページはパスを読みません。`init_from = '{name}'` は `fitgpt plan` を使ってください",
        de: "die Seite liest keine Pfade: `init_from = '{name}'` braucht `fitgpt plan`",
    }
    no_dataset_paths(name) {
        en: "the page trains on datasets in `data/`: `dataset = '{name}'` needs `fitgpt train`",
        zh: "页面只用 `data/` 中的数据集训练：`dataset = '{name}'` 请使用 `fitgpt train`",
        ja: "ページは `data/` のデータセットで学習します。`dataset = '{name}'` は `fitgpt train` を使ってください",
        de: "die Seite trainiert mit Datensätzen in `data/`: `dataset = '{name}'` braucht `fitgpt train`",
    }
    no_prompt_files(start) {
        en: "the page does not read files: `start = '{start}'` needs `fitgpt train`",
        zh: "页面不读取文件：`start = '{start}'` 请使用 `fitgpt train`",
        ja: "ページはファイルを読みません。`start = '{start}'` は `fitgpt train` を使ってください",
        de: "die Seite liest keine Dateien: `start = '{start}'` braucht `fitgpt train`",
    }
    /// An answer was not ready in time.
    too_slow(seconds) {
        en: "this takes longer than {seconds} s; use `fitgpt plan` or `fitgpt fit`",
        zh: "此计算超过 {seconds} 秒；请使用 `fitgpt plan` 或 `fitgpt fit`",
        ja: "これには {seconds} 秒以上かかります。`fitgpt plan` か `fitgpt fit` を使ってください",
        de: "das dauert länger als {seconds} s; `fitgpt plan` oder `fitgpt fit` verwenden",
    }
    too_many_layers(layers, most) {
        en: "the page plans up to {most} layers, not {layers}; `fitgpt plan` plans more",
        zh: "页面最多规划 {most} 层，而不是 {layers} 层；更多请用 `fitgpt plan`",
        ja: "ページで計画できるのは {most} 層までです（指定: {layers}）。それ以上は `fitgpt plan` で計画できます",
        de: "die Seite plant bis zu {most} Schichten, nicht {layers}; `fitgpt plan` plant mehr",
    }
    too_many_ranks(ranks, most) {
        en: "the page plans up to {most} ranks, not {ranks}; `fitgpt plan --ranks` plans more",
        zh: "页面最多规划 {most} 个 rank，而不是 {ranks} 个；更多请用 `fitgpt plan --ranks`",
        ja: "ページで計画できるのは {most} rank までです（指定: {ranks}）。それ以上は `fitgpt plan --ranks` で計画できます",
        de: "die Seite plant bis zu {most} Ranks, nicht {ranks}; `fitgpt plan --ranks` plant mehr",
    }
    too_many_sequences(sequences, most) {
        en: "the page plans up to {most} sequences per step, not {sequences}; `fitgpt plan` plans more",
        zh: "页面每步最多规划 {most} 个序列，而不是 {sequences} 个；更多请用 `fitgpt plan`",
        ja: "ページで計画できるのは 1 ステップ {most} シーケンスまでです（指定: {sequences}）。それ以上は `fitgpt plan` で計画できます",
        de: "die Seite plant bis zu {most} Sequenzen je Schritt, nicht {sequences}; `fitgpt plan` plant mehr",
    }
    /// A batch size is tried for each divisor of the batch.
    too_much_work(layers, batches, most) {
        en: "this plan takes too long for the page: {layers} layers × {batches} batch sizes to try is more than {most}; choose batch sizes with fewer divisors, such as powers of two, or use `fitgpt plan` and `fitgpt fit`",
        zh: "这个规划对页面来说太耗时：{layers} 层 × {batches} 个待尝试的批量大小超过了 {most}；请选择约数更少的批量大小（例如 2 的幂），或使用 `fitgpt plan` 和 `fitgpt fit`",
        ja: "この計画はページには時間がかかりすぎます。{layers} 層 × 試すバッチサイズ {batches} 個は上限 {most} を超えます。約数の少ないバッチサイズ（2 のべき乗など）にするか、`fitgpt plan` と `fitgpt fit` を使ってください",
        de: "dieser Plan dauert für die Seite zu lange: {layers} Schichten × {batches} zu prüfende Batch-Größen sind mehr als {most}; Batch-Größen mit weniger Teilern wählen, etwa Zweierpotenzen, oder `fitgpt plan` und `fitgpt fit` verwenden",
    }
    one_process() {
        en: "the page starts runs of one process; copy the command to start several ranks",
        zh: "页面只能启动单进程的训练；要启动多个 rank，请复制命令",
        ja: "ページから始められるのは 1 プロセスの実行だけです。複数の rank はコマンドをコピーして始めてください",
        de: "die Seite startet Läufe mit einem Prozess; für mehrere Ranks den Befehl kopieren",
    }
    too_many_runs(most) {
        en: "{most} runs that were started here are still training", zh: "从这里启动的 {most} 个训练尚未结束", ja: "ここから始めた {most} 件の実行がまだ終わっていません", de: "{most} hier gestartete Läufe sind noch nicht zu Ende",
    }
    no_such_name(name) {
        en: "`{name}` is not a name for a run's folder: letters, digits, `.`, `_` and `-`",
        zh: "`{name}` 不能作为训练文件夹的名称：只能用字母、数字、`.`、`_` 和 `-`",
        ja: "`{name}` は実行のフォルダ名に使えません。英数字と `.`、`_`、`-` だけです",
        de: "`{name}` ist kein Name für den Ordner eines Laufs: Buchstaben, Ziffern, `.`, `_` und `-`",
    }
    not_started(output) {
        en: "the run did not start:\n{output}", zh: "训练没有启动：\n{output}", ja: "実行は始まりませんでした:\n{output}", de: "der Lauf hat nicht begonnen:\n{output}",
    }
    not_stopped(error) {
        en: "the run could not be stopped: {error}", zh: "无法停止训练：{error}", ja: "実行を止められません: {error}", de: "der Lauf ließ sich nicht anhalten: {error}",
    }
}
