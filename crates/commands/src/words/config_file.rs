//! What is wrong with a config file on the command line.

fitgpt_say::sentences! {
    /// A text where a config file is expected.
    not_a_config(path) {
        en: "`{path}` is not a config, it looks like a text to train on",
        zh: "`{path}` 不是配置文件，看起来是用来训练的文本",
        ja: "`{path}` は設定ファイルではなく、学習用のテキストのようです",
        de: "`{path}` ist keine Konfiguration, es sieht nach einem Text zum Trainieren aus",
    }
    prepare_it(path) {
        en: "`fitgpt prepare {path}` makes a dataset of it, and prints the command that trains on it",
        zh: "`fitgpt prepare {path}` 把它做成数据集，并打印用它训练的命令",
        ja: "`fitgpt prepare {path}` でデータセットにすると、それで学習するコマンドが表示されます",
        de: "`fitgpt prepare {path}` macht daraus einen Datensatz und nennt den Befehl, der damit trainiert",
    }
    /// Below the path of a config that does not exist.
    presets_are(presets) {
        en: "built-in presets: {presets}",
        zh: "内置预设：{presets}",
        ja: "組み込みのプリセット: {presets}",
        de: "eingebaute Vorlagen: {presets}",
    }
    not_utf8() { en: "it is not UTF-8", zh: "不是 UTF-8 文本", ja: "UTF-8 ではありません", de: "es ist kein UTF-8" }
}
