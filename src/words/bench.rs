//! What `bench` says.

messages! {
    /// The machine.
    machine(threads, isa, gflops, gbytes) {
        en: "this machine: {threads} threads, {isa}; {gflops} GFLOP/s of fused multiply-adds, {gbytes} GB/s of copying",
        zh: "本机：{threads} 个线程，{isa}；乘加峰值 {gflops} GFLOP/s，内存复制 {gbytes} GB/s",
        ja: "このマシン: {threads} スレッド、{isa}。積和演算 {gflops} GFLOP/s、メモリコピー {gbytes} GB/s",
        de: "diese Maschine: {threads} Threads, {isa}; {gflops} GFLOP/s Multiplikation mit Addition, {gbytes} GB/s beim Kopieren",
    }
    /// The job.
    job(name, millions, batch, block, dtype) {
        en: "{name}: {millions}M parameters, micro-batch {batch} × {block}, {dtype}",
        zh: "{name}：{millions}M 参数，微批 {batch} × {block}，{dtype}",
        ja: "{name}: パラメータ {millions}M、マイクロバッチ {batch} × {block}、{dtype}",
        de: "{name}: {millions}M Parameter, Mikro-Batch {batch} × {block}, {dtype}",
    }
    /// Memory as planned.
    arena(planned) {
        en: "memory: planned {planned}",
        zh: "内存：计划 {planned}",
        ja: "メモリ: 計画 {planned}",
        de: "Speicher: geplant {planned}",
    }
    /// Memory as the system saw it.
    resident(planned, resident) {
        en: "memory: planned {planned}, resident {resident}",
        zh: "内存：计划 {planned}，常驻 {resident}",
        ja: "メモリ: 計画 {planned}、常駐 {resident}",
        de: "Speicher: geplant {planned}, resident {resident}",
    }
    /// One program that takes tokens.
    program(name, ms, tokens, gflops, share, runs) {
        en: "{name}: {ms} ms, {tokens} tokens/s, {gflops} GFLOP/s, {share} of the machine; best of {runs}",
        zh: "{name}：{ms} ms，{tokens} token/s，{gflops} GFLOP/s，达到本机峰值的 {share}；{runs} 次中最快",
        ja: "{name}: {ms} ms、{tokens} トークン/s、{gflops} GFLOP/s、マシン性能の {share}。{runs} 回中の最速",
        de: "{name}: {ms} ms, {tokens} Tokens/s, {gflops} GFLOP/s, {share} der Maschine; das beste von {runs}",
    }
    /// One program that takes none: the optimizer's step.
    program_without_tokens(name, ms, runs) {
        en: "{name}: {ms} ms; best of {runs}",
        zh: "{name}：{ms} ms；{runs} 次中最快",
        ja: "{name}: {ms} ms。{runs} 回中の最速",
        de: "{name}: {ms} ms; das beste von {runs}",
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
    /// A column: of what the machine can do.
    of_machine() { en: "of the machine", zh: "占本机峰值", ja: "マシン性能比", de: "der Maschine" }
    /// While it runs.
    measuring(what) {
        en: "measuring {what} …",
        zh: "正在测量 {what} …",
        ja: "{what} を測定中 …",
        de: "misst {what} …",
    }
    /// The job does not fit.
    too_large(need, have) {
        en: "the job needs {need}, this machine has {have}",
        zh: "此任务需要 {need}，本机只有 {have}",
        ja: "このジョブには {need} が必要ですが、このマシンには {have} しかありません",
        de: "der Auftrag braucht {need}, diese Maschine hat {have}",
    }
}
