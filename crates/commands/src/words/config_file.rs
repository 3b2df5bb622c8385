//! What is wrong with a config file on the command line.

fitgpt_say::sentences! {
    /// Below the path of a config that does not exist.
    presets_are(presets) {
        en: "built-in presets: {presets}",
        zh: "内置预设：{presets}",
        ja: "組み込みのプリセット: {presets}",
        de: "eingebaute Vorlagen: {presets}",
    }
    not_utf8() { en: "it is not UTF-8", zh: "不是 UTF-8 文本", ja: "UTF-8 ではありません", de: "es ist kein UTF-8" }
}
