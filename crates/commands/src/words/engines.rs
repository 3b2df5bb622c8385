//! Why a plan is FitGPT's alone.

fitgpt_say::sentences! {
    /// Another model than nanoGPT's.
    other_family(family) {
        en: "nanoGPT has no family `{family}`: this is FitGPT's plan alone",
        zh: "nanoGPT 没有模型族 `{family}`：这里只有 FitGPT 的规划",
        ja: "nanoGPT にモデルファミリー `{family}` はありません。FitGPT の計画だけを示します",
        de: "nanoGPT hat keine Familie `{family}`: dies ist nur FitGPTs Plan",
    }
    /// Another optimizer than nanoGPT's.
    other_optimizer(optimizer) {
        en: "nanoGPT has no `optimizer = '{optimizer}'`: this is FitGPT's plan alone",
        zh: "nanoGPT 没有 `optimizer = '{optimizer}'`：这里只有 FitGPT 的规划",
        ja: "nanoGPT に `optimizer = '{optimizer}'` はありません。FitGPT の計画だけを示します",
        de: "nanoGPT hat kein `optimizer = '{optimizer}'`: dies ist nur FitGPTs Plan",
    }
    /// Weights that nanoGPT does not load.
    other_weights(name) {
        en: "nanoGPT does not start from `{name}`: this is FitGPT's plan alone",
        zh: "nanoGPT 不能从 `{name}` 开始：这里只有 FitGPT 的规划",
        ja: "nanoGPT は `{name}` から始められません。FitGPT の計画だけを示します",
        de: "nanoGPT beginnt nicht mit `{name}`: dies ist nur FitGPTs Plan",
    }
    /// A key that a patch adds to nanoGPT.
    patched_key(key, patches) {
        en: "nanoGPT has no `{key}`, so this is FitGPT's plan alone: `fitgpt patch . --apply --only {patches}` adds it, and `--engine torch` plans the patched nanoGPT",
        zh: "nanoGPT 没有 `{key}`，这里只有 FitGPT 的规划：`fitgpt patch . --apply --only {patches}` 可以加上它，`--engine torch` 规划打过补丁的 nanoGPT",
        ja: "nanoGPT に `{key}` はないので、FitGPT の計画だけを示します。`fitgpt patch . --apply --only {patches}` で追加でき、`--engine torch` ならパッチ済みの nanoGPT を計画します",
        de: "nanoGPT hat kein `{key}`, deshalb ist dies nur FitGPTs Plan: `fitgpt patch . --apply --only {patches}` ergänzt es, und `--engine torch` plant das gepatchte nanoGPT",
    }
    /// A key of FitGPT alone.
    unknown_key(key) {
        en: "nanoGPT has no `{key}`: this is FitGPT's plan alone; `--engine torch` plans nanoGPT without it",
        zh: "nanoGPT 没有 `{key}`：这里只有 FitGPT 的规划；`--engine torch` 规划不含它的 nanoGPT",
        ja: "nanoGPT に `{key}` はありません。FitGPT の計画だけを示します。`--engine torch` ならこれを除いて nanoGPT を計画します",
        de: "nanoGPT hat kein `{key}`: dies ist nur FitGPTs Plan; `--engine torch` plant nanoGPT ohne es",
    }
}
