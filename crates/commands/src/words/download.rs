//! What is wrong with a dataset that is given by name.

fitgpt_say::sentences! {
    /// Neither a path nor a name.
    names_are(names) {
        en: "datasets that can be downloaded by name: {names}",
        zh: "可按名称下载的数据集：{names}",
        ja: "名前でダウンロードできるデータセット: {names}",
        de: "Datensätze, die sich nach Namen herunterladen lassen: {names}",
    }
    /// `--sample` or `--files` without a dataset by name.
    only_by_name(flag) {
        en: "`{flag}` needs a dataset that is given by name", zh: "`{flag}` 只用于按名称指定的数据集", ja: "`{flag}` は名前で指定するデータセット用です", de: "`{flag}` gilt für einen Datensatz nach Namen",
    }
}
