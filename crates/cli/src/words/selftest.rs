//! What `devices --selftest` prints.

messages! {
    /// The first line.
    title(version) {
        en: "fitgpt {version}, self-test",
        zh: "fitgpt {version}，自检",
        ja: "fitgpt {version}、セルフテスト",
        de: "fitgpt {version}, Selbsttest",
    }
    label_device() { en: "device", zh: "设备", ja: "デバイス", de: "Gerät" }
    label_driver() { en: "driver", zh: "驱动", ja: "ドライバ", de: "Treiber" }
    label_timed() { en: "timed", zh: "计时", ja: "計測", de: "gemessen" }
    /// The job whose ops are timed.
    timed(batch, block, dtype, layers, channels) {
        en: "one micro-batch of {batch} sequences of {block} tokens and one update; {layers} layers of {channels} channels, {dtype}",
        zh: "一个 micro-batch（{batch} 条序列、每条 {block} 个 token）和一次更新；{layers} 层，{channels} 通道，{dtype}",
        ja: "マイクロバッチ 1 回（{batch} 系列 × {block} トークン）と更新 1 回。{layers} 層、{channels} チャネル、{dtype}",
        de: "ein Micro-Batch aus {batch} Sequenzen mit {block} Tokens und ein Update; {layers} Schichten mit {channels} Kanälen, {dtype}",
    }
    /// A column: storage types.
    types() { en: "types", zh: "类型", ja: "型", de: "Typen" }
    /// A column: tensors compared.
    tensors() { en: "tensors", zh: "张量数", ja: "テンソル数", de: "Tensoren" }
    /// A column: the largest error, as a fraction of what is allowed.
    error() { en: "error", zh: "误差", ja: "誤差", de: "Fehler" }
    /// A column: the least time, by the card's data sheet.
    at_best() { en: "at best", zh: "理论下限", ja: "理論下限", de: "bestenfalls" }
    /// A column.
    result() { en: "result", zh: "结果", ja: "結果", de: "Ergebnis" }
    passed() { en: "passed", zh: "通过", ja: "合格", de: "bestanden" }
    wrong(count) { en: "{count} wrong", zh: "{count} 个错误", ja: "{count} 件の誤り", de: "{count} falsch" }
    /// Below the table.
    legend() {
        en: "error: the largest difference from the reference, as a fraction of what rounding allows",
        zh: "误差：与参考实现的最大差异，占舍入允许量的比例",
        ja: "誤差: 参照実装との最大の差（丸めで許される量に対する割合）",
        de: "Fehler: die größte Abweichung von der Referenz, als Anteil dessen, was Rundung erlaubt",
    }
    all_passed(tensors, seconds) {
        en: "passed: {tensors} tensors compared, none wrong, {seconds} s",
        zh: "通过：比较了 {tensors} 个张量，没有错误，{seconds} 秒",
        ja: "合格: {tensors} 個のテンソルを比較し、誤りなし、{seconds} 秒",
        de: "bestanden: {tensors} Tensoren verglichen, keiner falsch, {seconds} s",
    }
    failed(wrong, tensors, seconds) {
        en: "FAILED: {wrong} of {tensors} tensors are wrong, {seconds} s",
        zh: "失败：{tensors} 个张量中有 {wrong} 个错误，{seconds} 秒",
        ja: "不合格: {tensors} 個のテンソルのうち {wrong} 個が誤り、{seconds} 秒",
        de: "FEHLGESCHLAGEN: {wrong} von {tensors} Tensoren sind falsch, {seconds} s",
    }
    /// The device failed before the end.
    ended(error) {
        en: "FAILED: the test ended early: {error}",
        zh: "失败：测试提前结束：{error}",
        ja: "不合格: テストが途中で終了しました: {error}",
        de: "FEHLGESCHLAGEN: der Test endete vorzeitig: {error}",
    }
    /// What to do if it failed.
    instead(device) {
        en: "until this is fixed, train with `--device={device}`; please open an issue with this whole report",
        zh: "在修复之前，请用 `--device={device}` 训练；请提交 issue 并附上完整报告",
        ja: "修正されるまでは `--device={device}` で学習してください。このレポート全体を添えて issue を作成してください",
        de: "bis das behoben ist, mit `--device={device}` trainieren; bitte ein Issue mit diesem ganzen Bericht anlegen",
    }
    testing(op) { en: "testing {op} …", zh: "正在测试 {op} …", ja: "{op} をテスト中 …", de: "prüfe {op} …" }
}
