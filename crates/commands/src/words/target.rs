//! Why there is no plan for an engine or a device.

fitgpt_say::sentences! {
    /// `--engine torch` supports only nanoGPT's model.
    torch_family(family) {
        en: "`--engine torch` plans nanoGPT's GPT-2, not family `{family}`",
        zh: "`--engine torch` 只能规划 nanoGPT 的 GPT-2，不能规划模型族 `{family}`",
        ja: "`--engine torch` が計画できるのは nanoGPT の GPT-2 で、モデルファミリー `{family}` は計画できません",
        de: "`--engine torch` plant nanoGPTs GPT-2, nicht die Familie `{family}`",
    }
    /// How to count other models under PyTorch.
    torch_pretend() {
        en: "`fitgpt.torch.pretend` of the Python package counts the memory of any PyTorch code; without `--engine torch` the plan is for FitGPT",
        zh: "Python 包中的 `fitgpt.torch.pretend` 可以统计任意 PyTorch 代码的内存；不加 `--engine torch` 时规划的是 FitGPT",
        ja: "Python パッケージの `fitgpt.torch.pretend` は任意の PyTorch コードのメモリを数えます。`--engine torch` なしなら FitGPT の計画です",
        de: "`fitgpt.torch.pretend` des Python-Pakets zählt den Speicher von beliebigem PyTorch-Code; ohne `--engine torch` gilt der Plan für FitGPT",
    }
    /// `--engine torch` supports only nanoGPT's optimizer.
    nanogpt_has_adamw(optimizer) {
        en: "nanoGPT trains with AdamW: `--engine torch` has no plan for `optimizer = {optimizer}`",
        zh: "nanoGPT 使用 AdamW 训练：`--engine torch` 没有 `optimizer = {optimizer}` 的规划",
        ja: "nanoGPT は AdamW で学習します。`--engine torch` には `optimizer = {optimizer}` の計画がありません",
        de: "nanoGPT trainiert mit AdamW: `--engine torch` hat keinen Plan für `optimizer = {optimizer}`",
    }
    /// This machine has no card, and none was named.
    no_card() {
        en: "no card to plan for: none was named, and this machine has none",
        zh: "没有可供规划的显卡：未指定显卡，本机也没有",
        ja: "計画の対象となるカードがありません。名前の指定がなく、このマシンにもありません",
        de: "keine Karte, für die geplant werden könnte: keine ist genannt, und dieser Rechner hat keine",
    }
    name_a_card() {
        en: "add `--gpu NAME`, such as `--gpu \"RTX 4070\"`, or `--budget 12GB`; `--device=cpu` plans for this machine's memory",
        zh: "请加上 `--gpu 名称`，例如 `--gpu \"RTX 4070\"`，或 `--budget 12GB`；`--device=cpu` 按本机内存规划",
        ja: "`--gpu 名前`（例: `--gpu \"RTX 4070\"`）か `--budget 12GB` を付けてください。`--device=cpu` ならこのマシンのメモリで計画します",
        de: "`--gpu NAME` angeben, etwa `--gpu \"RTX 4070\"`, oder `--budget 12GB`; `--device=cpu` plant für den Speicher dieses Rechners",
    }
    /// Two devices are named.
    cpu_and_card(card) {
        en: "`--gpu \"{card}\"` names a card, and `device = 'cpu'` says that none is used",
        zh: "`--gpu \"{card}\"` 指定了显卡，而 `device = 'cpu'` 表示不用显卡",
        ja: "`--gpu \"{card}\"` はカードを指定していますが、`device = 'cpu'` はカードを使わないという意味です",
        de: "`--gpu \"{card}\"` nennt eine Karte, und `device = 'cpu'` sagt, dass keine benutzt wird",
    }
    one_device() {
        en: "leave out `--gpu` to plan for this machine's memory, or add `--device=cuda` to plan for the card",
        zh: "去掉 `--gpu` 即按本机内存规划；加上 `--device=cuda` 即按显卡规划",
        ja: "`--gpu` を外せばこのマシンのメモリで、`--device=cuda` を付ければカードで計画します",
        de: "ohne `--gpu` gilt der Plan für den Arbeitsspeicher dieses Rechners, mit `--device=cuda` für die Karte",
    }
    /// nanoGPT's autocast is for cards only.
    float32_on_a_cpu() {
        en: "nanoGPT computes in float32 on a CPU, whatever `dtype` says",
        zh: "在 CPU 上，无论 `dtype` 写什么，nanoGPT 都用 float32 计算",
        ja: "CPU では `dtype` が何であっても nanoGPT は float32 で計算します",
        de: "auf einer CPU rechnet nanoGPT in float32, was immer `dtype` sagt",
    }
    /// `torch.compile` stops with an error there.
    no_triton(card) {
        en: "`compile = True` stops with an error on {card}: Triton needs capability 7.0; planned with `--compile=False`",
        zh: "`compile = True` 在 {card} 上会报错停止：Triton 需要计算能力 7.0；这里按 `--compile=False` 规划",
        ja: "`compile = True` は {card} ではエラーで止まります。Triton には計算能力 7.0 が必要です。`--compile=False` として計画しました",
        de: "`compile = True` bricht auf {card} mit einem Fehler ab: Triton braucht Capability 7.0; geplant ist `--compile=False`",
    }
    /// New builds of PyTorch have no kernels for the card.
    legacy_builds(card, since, cuda, last, index) {
        en: "from PyTorch {since} on only the builds for CUDA {cuda} support {card}: `pip install torch --index-url https://download.pytorch.org/whl/{index}`; {last} is the last release that has them",
        zh: "从 PyTorch {since} 起，只有 CUDA {cuda} 版支持 {card}：`pip install torch --index-url https://download.pytorch.org/whl/{index}`；最后一个提供该版的版本是 {last}",
        ja: "PyTorch {since} 以降で {card} に対応するのは CUDA {cuda} 版だけです: `pip install torch --index-url https://download.pytorch.org/whl/{index}`。その版がある最後のリリースは {last} です",
        de: "ab PyTorch {since} unterstützen nur die Builds für CUDA {cuda} die {card}: `pip install torch --index-url https://download.pytorch.org/whl/{index}`; zuletzt gibt es sie für {last}",
    }
    /// A flag's value is not a size.
    no_size(flag, text) {
        en: "`{flag} {text}` is not a size",
        zh: "`{flag} {text}` 不是容量",
        ja: "`{flag} {text}` は容量ではありません",
        de: "`{flag} {text}` ist keine Größe",
    }
    sizes() {
        en: "use a size such as `1GB`, `11.5GiB` or `800MB`",
        zh: "容量的写法如 `1GB`、`11.5GiB` 或 `800MB`",
        ja: "容量は `1GB`、`11.5GiB`、`800MB` のように書きます",
        de: "Größen schreibt man als `1GB`, `11.5GiB` oder `800MB`",
    }
}
