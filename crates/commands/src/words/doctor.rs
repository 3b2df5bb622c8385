//! What is wrong with the input of the doctor; the diagnosis has its sentences in its own crate.

fitgpt_say::sentences! {
    bad_snapshot(path, why) {
        en: "`{path}` is not a memory snapshot: {why}", zh: "`{path}` 不是内存快照：{why}", ja: "`{path}` はメモリスナップショットではありません: {why}", de: "`{path}` ist kein Speicher-Snapshot: {why}",
    }
    bad_model(path, error) {
        en: "`{path}` is not a config.json: {error}", zh: "`{path}` 不是有效的 config.json：{error}", ja: "`{path}` は config.json ではありません: {error}", de: "`{path}` ist keine config.json: {error}",
    }
    model_lacks(path, key) {
        en: "`{path}` has no usable `{key}`", zh: "`{path}` 中没有可用的 `{key}`", ja: "`{path}` に使える `{key}` がありません", de: "`{path}` hat kein brauchbares `{key}`",
    }
    no_page(topic) {
        en: "no page is named `{topic}`", zh: "没有名为 `{topic}` 的页面", ja: "`{topic}` というページはありません", de: "es gibt keine Seite `{topic}`",
    }
    nearest_page(name) {
        en: "the nearest page: fitgpt doctor --explain {name}; without a name, `--explain` lists all pages",
        zh: "最接近的页面：fitgpt doctor --explain {name}；不带名称的 `--explain` 列出所有页面",
        ja: "最も近いページ: fitgpt doctor --explain {name}。名前なしの `--explain` は全ページを一覧します",
        de: "die ähnlichste Seite: fitgpt doctor --explain {name}; ohne Namen listet `--explain` alle Seiten",
    }
    pages(topics) { en: "pages: {topics}", zh: "可用的页面：{topics}", ja: "ページ一覧: {topics}", de: "Seiten: {topics}" }
}
