//! What `bench` prints.

messages! {
    /// The machine.
    machine(threads, isa, gflops, gbytes) {
        en: "this machine: threads: {threads}, {isa}; fused multiply-add {gflops} GFLOP/s, memory copy {gbytes} GB/s",
        zh: "本机：{threads} 个线程，{isa}；乘加峰值 {gflops} GFLOP/s，内存复制 {gbytes} GB/s",
        ja: "このマシン: {threads} スレッド、{isa}。積和演算 {gflops} GFLOP/s、メモリコピー {gbytes} GB/s",
        de: "dieser Rechner: Threads: {threads}, {isa}; Fused Multiply-Add {gflops} GFLOP/s, Speicherkopie {gbytes} GB/s",
    }
    /// The machine, for a job with bfloat16 products.
    machine_of_pairs(threads, isa, gflops, gbytes) {
        en: "this machine: threads: {threads}, {isa}; bfloat16 products {gflops} GFLOP/s, memory copy {gbytes} GB/s",
        zh: "本机：{threads} 个线程，{isa}；bfloat16 乘积峰值 {gflops} GFLOP/s，内存复制 {gbytes} GB/s",
        ja: "このマシン: {threads} スレッド、{isa}。bfloat16 の積 {gflops} GFLOP/s、メモリコピー {gbytes} GB/s",
        de: "dieser Rechner: Threads: {threads}, {isa}; bfloat16-Produkte {gflops} GFLOP/s, Speicherkopie {gbytes} GB/s",
    }
    /// The job.
    job(name, millions, batch, block, dtype) {
        en: "{name}: {millions}M parameters, micro-batch of {batch} sequences of {block} tokens, {dtype}",
        zh: "{name}：{millions}M 参数，micro-batch 为 {batch} 条序列、每条 {block} 个 token，{dtype}",
        ja: "{name}: パラメータ {millions}M、マイクロバッチ {batch} 系列 × {block} トークン、{dtype}",
        de: "{name}: {millions}M Parameter, Micro-Batch aus {batch} Sequenzen mit {block} Tokens, {dtype}",
    }
    /// Memory as planned.
    arena(planned) {
        en: "memory: planned {planned}",
        zh: "内存：计划 {planned}",
        ja: "メモリ: 計画 {planned}",
        de: "Speicher: geplant {planned}",
    }
    /// Memory as planned and as the system reports it.
    resident(planned, resident) {
        en: "memory: planned {planned}, resident {resident}",
        zh: "内存：计划 {planned}，常驻 {resident}",
        ja: "メモリ: 計画 {planned}、常駐 {resident}",
        de: "Speicher: geplant {planned}, resident {resident}",
    }
    /// One program with tokens.
    program(name, ms, tokens, gflops, share, runs) {
        en: "{name}: {ms} ms, {tokens} tokens/s, {gflops} GFLOP/s, {share} of the machine's peak; best of {runs}",
        zh: "{name}：{ms} ms，{tokens} token/s，{gflops} GFLOP/s，达到本机峰值的 {share}；{runs} 次中最快",
        ja: "{name}: {ms} ms、{tokens} トークン/s、{gflops} GFLOP/s、マシンのピーク性能の {share}。{runs} 回中の最速",
        de: "{name}: {ms} ms, {tokens} Tokens/s, {gflops} GFLOP/s, {share} der Spitzenleistung; schnellster von {runs} Läufen",
    }
    /// One program without tokens: the optimizer's step.
    program_without_tokens(name, ms, runs) {
        en: "{name}: {ms} ms; best of {runs}",
        zh: "{name}：{ms} ms；{runs} 次中最快",
        ja: "{name}: {ms} ms。{runs} 回中の最速",
        de: "{name}: {ms} ms; schnellster von {runs} Läufen",
    }
    /// A column.
    op() { en: "op", zh: "算子", ja: "演算", de: "Op" }
    /// A column.
    count() { en: "count", zh: "次数", ja: "回数", de: "Anzahl" }
    /// A column.
    time() { en: "time", zh: "耗时", ja: "時間", de: "Zeit" }
    /// A column.
    share() { en: "share", zh: "占比", ja: "割合", de: "Anteil" }
    /// A column.
    rate() { en: "rate", zh: "速率", ja: "速度", de: "Rate" }
    /// A column: share of the machine's peak.
    of_machine() { en: "of the machine", zh: "占本机峰值", ja: "マシン性能比", de: "des Rechners" }
    /// While it runs.
    measuring(what) {
        en: "measuring {what} …",
        zh: "正在测量 {what} …",
        ja: "{what} を測定中 …",
        de: "{what} wird gemessen …",
    }
    /// The job does not fit.
    too_large(need, have) {
        en: "the job needs {need}, this machine has {have}",
        zh: "此任务需要 {need}，本机只有 {have}",
        ja: "このジョブには {need} が必要ですが、このマシンには {have} しかありません",
        de: "der Auftrag braucht {need}, dieser Rechner hat {have}",
    }
    /// The job does not fit the card of an estimate.
    too_large_for_card(need, card, have) {
        en: "the job needs {need}, the {card} has {have}",
        zh: "此任务需要 {need}，{card} 只有 {have}",
        ja: "このジョブには {need} が必要ですが、{card} には {have} しかありません",
        de: "der Auftrag braucht {need}, die {card} hat {have}",
    }
    /// The measured GPU and its API.
    gpu(name, interface) {
        en: "on {name} through {interface}",
        zh: "运行于 {name}（{interface}）",
        ja: "{name}（{interface} 経由）で実行",
        de: "auf {name} über {interface}",
    }
    /// A GPU that is not in the catalogue.
    no_figures(name) {
        en: "no bounds: the peak rates of {name} are not known",
        zh: "不列出下限：没有 {name} 的峰值速率数据",
        ja: "下限は示しません: {name} のピーク性能が不明です",
        de: "keine Schranken: die Spitzenraten von {name} sind nicht bekannt",
    }
    /// A card's peak rates from its data sheet.
    card(name, gbytes, tflops, half) {
        en: "peak rates of the {name}: {gbytes} GB/s; {tflops} TFLOP/s in float32, {half} TFLOP/s in half precision on tensor cores with float32 accumulation",
        zh: "{name} 的峰值速率：{gbytes} GB/s；float32 为 {tflops} TFLOP/s，半精度在张量核心上以 float32 累加为 {half} TFLOP/s",
        ja: "{name} のピーク性能: {gbytes} GB/s、float32 で {tflops} TFLOP/s、半精度は Tensor コア（float32 で累算）で {half} TFLOP/s",
        de: "Spitzenraten der {name}: {gbytes} GB/s; {tflops} TFLOP/s in float32, {half} TFLOP/s in halber Genauigkeit auf Tensor-Cores mit Akkumulation in float32",
    }
    /// The bound of a program.
    at_least(name, ms) {
        en: "{name}: at least {ms} ms",
        zh: "{name}：至少 {ms} ms",
        ja: "{name}: 最短でも {ms} ms",
        de: "{name}: mindestens {ms} ms",
    }
    /// The bound of a program and its measured time.
    at_least_and_measured(name, ms, measured, share, runs) {
        en: "{name}: at least {ms} ms, measured {measured} ms ({share} of the card's peak); best of {runs}",
        zh: "{name}：至少 {ms} ms，实测 {measured} ms（达到显卡峰值的 {share}）；{runs} 次中最快",
        ja: "{name}: 最短でも {ms} ms、実測 {measured} ms（カードのピーク性能の {share}）。{runs} 回中の最速",
        de: "{name}: mindestens {ms} ms, gemessen {measured} ms ({share} der Spitzenleistung der Karte); schnellster von {runs} Läufen",
    }
    /// The bound of a whole step.
    step(time, tokens) {
        en: "a step with all its micro-batches: at least {time}, at most {tokens} tokens/s",
        zh: "含全部 micro-batch 的一步：至少 {time}，至多 {tokens} token/s",
        ja: "全マイクロバッチを含む 1 ステップ: 最短でも {time}、最大 {tokens} トークン/s",
        de: "ein Schritt mit allen Micro-Batches: mindestens {time}, höchstens {tokens} Tokens/s",
    }
    /// The heading of an estimate for PyTorch with `torch.compile`.
    pytorch_compiled() {
        en: "PyTorch, compiled",
        zh: "PyTorch（torch.compile）",
        ja: "PyTorch（torch.compile）",
        de: "PyTorch, kompiliert",
    }
    /// The heading of an estimate for PyTorch without `torch.compile`.
    pytorch_eager() {
        en: "PyTorch, eager",
        zh: "PyTorch（eager）",
        ja: "PyTorch（eager）",
        de: "PyTorch, eager",
    }
    /// One program with tokens, on a GPU whose peak rates are not known.
    program_alone(name, ms, tokens, gflops, runs) {
        en: "{name}: {ms} ms, {tokens} tokens/s, {gflops} GFLOP/s; best of {runs}",
        zh: "{name}：{ms} ms，{tokens} token/s，{gflops} GFLOP/s；{runs} 次中最快",
        ja: "{name}: {ms} ms、{tokens} トークン/s、{gflops} GFLOP/s。{runs} 回中の最速",
        de: "{name}: {ms} ms, {tokens} Tokens/s, {gflops} GFLOP/s; schnellster von {runs} Läufen",
    }
    /// A column: the least time for the arithmetic.
    by_flops() { en: "by FLOPs", zh: "按计算量", ja: "演算量から", de: "nach FLOPs" }
    /// A column: the least time for the bytes.
    by_bytes() { en: "by bytes", zh: "按数据量", ja: "転送量から", de: "nach Bytes" }
    /// A column: which of the two is larger.
    bound() { en: "bound by", zh: "瓶颈", ja: "律速", de: "begrenzt" }
    /// Arithmetic is the limit.
    flops() { en: "FLOPs", zh: "计算", ja: "演算", de: "FLOPs" }
    /// Memory bandwidth is the limit.
    bytes() { en: "bytes", zh: "带宽", ja: "帯域", de: "Bandbreite" }
    /// A column.
    measured() { en: "measured", zh: "实测", ja: "実測", de: "gemessen" }
    /// In brackets after `fitgpt bench --estimate`.
    estimates() {
        en: "the best that a card could do",
        zh: "显卡的理论最快速度",
        ja: "GPU の理論上の最速",
        de: "was eine Karte bestenfalls schafft",
    }
    /// In brackets after `fitgpt plan`.
    plans() {
        en: "the memory of the same run",
        zh: "同一次运行的内存",
        ja: "同じ実行のメモリ",
        de: "der Speicher desselben Laufs",
    }
    /// A column: how close to the bound.
    of_bound() { en: "of the card", zh: "占显卡上限", ja: "カード上限比", de: "der Karte" }
}
