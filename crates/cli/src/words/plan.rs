//! Messages of `plan`, which `train` prints too before it begins.

messages! {
    /// The first line: what runs, on what, in which precision.
    heading(engine, device, precision) {
        en: "{engine} · {device} · {precision}", zh: "{engine} · {device} · {precision}", ja: "{engine} · {device} · {precision}", de: "{engine} · {device} · {precision}",
    }
    /// Of one of two engines.
    of_engine(engine, text) {
        en: "{engine}: {text}", zh: "{engine}：{text}", ja: "{engine}: {text}", de: "{engine}: {text}",
    }
    /// The last line for two engines.
    verdicts(torch, fitgpt) {
        en: "PyTorch {torch}; FitGPT {fitgpt}",
        zh: "PyTorch：{torch}；FitGPT：{fitgpt}",
        ja: "PyTorch: {torch}。FitGPT: {fitgpt}",
        de: "PyTorch {torch}; FitGPT {fitgpt}",
    }
    /// FitGPT's kernels and real cards.
    untried() {
        en: "FitGPT has never run on a real card: its figures there are planned, not measured",
        zh: "FitGPT 尚未在真实显卡上运行过：这些数字是规划值，不是实测值",
        ja: "FitGPT は実際の GPU で動かしたことがありません。この数値は計画値で、実測値ではありません",
        de: "FitGPT lief noch nie auf einer echten Karte: seine Zahlen sind geplant, nicht gemessen",
    }
    untried_cpu_build() {
        en: "FitGPT has never run on a real card: its figures there are planned, not measured; this build trains on the CPU only (`--features cuda` or `gpu` builds for cards)",
        zh: "FitGPT 尚未在真实显卡上运行过：这些数字是规划值，不是实测值；此构建只能在 CPU 上训练（用 `--features cuda` 或 `gpu` 编译可用于显卡）",
        ja: "FitGPT は実際の GPU で動かしたことがありません。この数値は計画値で、実測値ではありません。このビルドは CPU でのみ学習します（GPU 用は `--features cuda` か `gpu` でビルド）",
        de: "FitGPT lief noch nie auf einer echten Karte: seine Zahlen sind geplant, nicht gemessen; dieser Build trainiert nur auf der CPU (`--features cuda` oder `gpu` baut für Karten)",
    }
    /// The whole run on this machine's CPU.
    run_time_on_cpu(quickest, slowest) {
        en: "estimate: {quickest} to {slowest} to max_iters, from a quick measurement of this CPU",
        zh: "估计：到 max_iters 需 {quickest} 至 {slowest}（据对本机 CPU 的快速测量）",
        ja: "推定: max_iters まで {quickest} 〜 {slowest}（この CPU の簡単な測定による）",
        de: "Schätzung: {quickest} bis {slowest} bis max_iters, nach einer kurzen Messung dieser CPU",
    }
    /// How a step is split.
    split(batch, accumulation, sequences, tokens) {
        en: "micro-batch {batch} × {accumulation} = {sequences} sequences, {tokens} tokens per step",
        zh: "micro-batch {batch} × {accumulation} = 每步 {sequences} 条序列、{tokens} 个 token",
        ja: "マイクロバッチ {batch} × {accumulation} = 1 ステップあたり {sequences} 系列、{tokens} トークン",
        de: "Micro-Batch {batch} × {accumulation} = {sequences} Sequenzen, {tokens} Tokens je Schritt",
    }
    /// The total. `overhead` describes what takes `low` to `high`.
    arena(arena, low, high, overhead, budget, device) {
        en: "arena {arena}, plus {low} to {high} for {overhead} · budget {budget} of {device}",
        zh: "预分配 {arena}，另加 {low} 至 {high}（{overhead}） · 预算 {budget}（{device}）",
        ja: "アリーナ {arena}、ほかに {low} 〜 {high}（{overhead}） · 予算 {budget}（{device}）",
        de: "Arena {arena}, dazu {low} bis {high} für {overhead} · Budget {budget} auf {device}",
    }
    /// The overhead of a card.
    card_overhead() { en: "the CUDA context and libraries", zh: "CUDA 上下文与库", ja: "CUDA コンテキストとライブラリ", de: "CUDA-Kontext und Bibliotheken" }
    /// The overhead of another GPU.
    gpu_overhead() { en: "the GPU context and libraries", zh: "GPU 上下文与库", ja: "GPU コンテキストとライブラリ", de: "GPU-Kontext und Bibliotheken" }
    /// The overhead of a process on the host.
    host_overhead() { en: "the program, threads and file I/O", zh: "程序、线程与文件读写", ja: "プログラム、スレッド、ファイル入出力", de: "Programm, Threads und Dateizugriff" }
    /// The overhead of Python on the host.
    python_overhead() { en: "Python and PyTorch's libraries", zh: "Python 与 PyTorch 库", ja: "Python と PyTorch のライブラリ", de: "Python und PyTorchs Bibliotheken" }
    /// What a device's runtime takes.
    pools(list) {
        en: "measured on the device, included above: {list}",
        zh: "其中在设备上实测：{list}",
        ja: "上記に含まれ、デバイスで実測したもの: {list}",
        de: "davon auf dem Gerät gemessen: {list}",
    }
    /// The same for an engine without an arena.
    tensors(peak, low, high, overhead, budget, device) {
        en: "tensors {peak}, plus {low} to {high} for {overhead} · budget {budget} of {device}",
        zh: "张量 {peak}，另加 {low} 至 {high}（{overhead}） · 预算 {budget}（{device}）",
        ja: "テンソル {peak}、ほかに {low} 〜 {high}（{overhead}） · 予算 {budget}（{device}）",
        de: "Tensoren {peak}, dazu {low} bis {high} für {overhead} · Budget {budget} auf {device}",
    }
    /// The op of a phase's peak.
    at_op(index, op) {
        en: "at op {index} {op}",
        zh: "在第 {index} 个算子 {op}",
        ja: "演算 {index} {op} で",
        de: "bei Op {index} {op}",
    }
    /// The card lacks the type of the config.
    no_bfloat16(device) {
        en: "{device} does not support bfloat16: use `dtype = 'float16'`",
        zh: "{device} 不支持 bfloat16：请改用 `dtype = 'float16'`",
        ja: "{device} は bfloat16 に対応していません。`dtype = 'float16'` としてください",
        de: "{device} kann kein bfloat16: `dtype = 'float16'` schreiben",
    }
    /// It does not fit.
    refused(need, high, budget) {
        en: "the plan needs {need} plus up to {high} of overhead, the budget is {budget}",
        zh: "计划需要 {need}，另加最多 {high} 的开销，而预算只有 {budget}",
        ja: "計画には {need} と最大 {high} のオーバーヘッドが必要ですが、予算は {budget} です",
        de: "der Plan braucht {need} und dazu bis zu {high}, das Budget ist {budget}",
    }
    /// It fits only if the overhead is low.
    refused_tight(need, low, high, budget) {
        en: "the plan needs {need} plus {low} to {high} of overhead, the budget is {budget}: it fits only at the low end",
        zh: "计划需要 {need}，另加 {low} 至 {high} 的开销，预算为 {budget}：只有开销取低值时才放得下",
        ja: "計画には {need} と {low} 〜 {high} のオーバーヘッドが必要で、予算は {budget} です。オーバーヘッドが下限の場合にだけ収まります",
        de: "der Plan braucht {need} und dazu {low} bis {high}, das Budget ist {budget}: er passt nur im günstigsten Fall",
    }
    /// The estimated speed of a card.
    rate(low, high, slow, fast) {
        en: "estimate: {low} to {high} per step, {slow} to {fast} tokens/s",
        zh: "估计：每步 {low} 至 {high}，{slow} 至 {fast} token/s",
        ja: "見積もり: 1 ステップ {low} 〜 {high}、{slow} 〜 {fast} トークン/s",
        de: "Schätzung: {low} bis {high} je Schritt, {slow} bis {fast} Tokens/s",
    }
    /// The estimated time of the run.
    run_time(low, high, least, most) {
        en: "estimate: {low} to {high} to max_iters, at {least} to {most} % of the card's published peak",
        zh: "估计：到 max_iters 需 {low} 至 {high}（按显卡公布峰值的 {least} 至 {most} % 计）",
        ja: "見積もり: max_iters まで {low} 〜 {high}（カードの公表ピーク性能の {least} 〜 {most} % として）",
        de: "Schätzung: {low} bis {high} bis max_iters, bei {least} bis {most} % der Spitzenleistung laut Datenblatt",
    }
    /// The last line of a plan that fits.
    fits(device, spare) {
        en: "fits {device}, with at least {spare} to spare",
        zh: "{device} 放得下：至少余 {spare}",
        ja: "{device} に収まる: 少なくとも {spare} の余裕",
        de: "passt ({device}): mindestens {spare} bleiben frei",
    }
    /// The last line of a plan that fits only at the low end of the overhead.
    tight(device, left, low, high) {
        en: "tight on {device}: {left} left, and the overhead takes {low} to {high}",
        zh: "{device} 勉强：张量之外需 {low} 至 {high}，只剩 {left}",
        ja: "{device} にはぎりぎり: テンソル以外に {low} 〜 {high} 必要で、残りは {left}",
        de: "knapp ({device}): {left} bleiben frei, gebraucht werden dazu {low} bis {high}",
    }
    /// The last line of a plan that does not fit.
    does_not_fit(device, short) {
        en: "does not fit {device}: at least {short} over budget",
        zh: "{device} 放不下：至少超出 {short}",
        ja: "{device} に収まらない: 少なくとも {short} 超過",
        de: "passt nicht ({device}): mindestens {short} zu viel",
    }
    /// The op at the peak.
    peak_at(index, phase, op) {
        en: "peak at op {index} of `{phase}`, `{op}`",
        zh: "峰值在 `{phase}` 的第 {index} 个算子 `{op}`",
        ja: "ピークは `{phase}` の演算 {index}、`{op}`",
        de: "Spitze bei Op {index} von `{phase}`, `{op}`",
    }

    /// The peaks of both engines.
    ratio(torch, fitgpt, ratio) {
        en: "peak: PyTorch {torch}, FitGPT {fitgpt}; PyTorch needs {ratio} × as much",
        zh: "峰值：PyTorch {torch}，FitGPT {fitgpt}；PyTorch 是 FitGPT 的 {ratio} 倍",
        ja: "ピークは PyTorch が {torch}、FitGPT が {fitgpt} で、PyTorch は {ratio} 倍",
        de: "Spitze: PyTorch {torch}, FitGPT {fitgpt}; PyTorch braucht das {ratio}-Fache",
    }
    /// The line of one of two engines.
    engine(engine, verdict, arena) {
        en: "{engine}: {verdict} · {arena}",
        zh: "{engine}：{verdict} · {arena}",
        ja: "{engine}: {verdict} · {arena}",
        de: "{engine}: {verdict} · {arena}",
    }
    /// A picture was written.
    drawn(path) {
        en: "picture written to {path}",
        zh: "图已写入 {path}",
        ja: "図を {path} に書き出しました",
        de: "Bild geschrieben nach {path}",
    }

    /// The title of a picture.
    model(parameters, layers, channels, heads, block) {
        en: "GPT with {parameters} parameters: {layers} layers, {channels} channels, {heads} heads, {block} tokens",
        zh: "{parameters} 参数的 GPT：{layers} 层、{channels} 通道、{heads} 头、{block} token",
        ja: "パラメータ数 {parameters} の GPT: {layers} 層、{channels} チャネル、{heads} ヘッド、{block} トークン",
        de: "GPT mit {parameters} Parametern: {layers} Schichten, {channels} Kanäle, {heads} Köpfe, {block} Tokens",
    }
    torch_compiled() {
        en: "PyTorch, compiled",
        zh: "PyTorch（torch.compile 编译）",
        ja: "PyTorch（torch.compile）",
        de: "PyTorch, kompiliert",
    }
    torch_eager() {
        en: "PyTorch, eager",
        zh: "PyTorch（eager 模式）",
        ja: "PyTorch（eager 実行）",
        de: "PyTorch, eager-Modus",
    }
    /// Labels of a chart.
    budget(bytes) { en: "budget {bytes}", zh: "预算 {bytes}", ja: "予算 {bytes}", de: "Budget {bytes}" }
    peak(bytes) { en: "peak {bytes}", zh: "峰值 {bytes}", ja: "ピーク {bytes}", de: "Spitze {bytes}" }
    /// An op of a phase.
    op_of(phase, index, op) {
        en: "{phase}, op {index}: {op}",
        zh: "{phase}，第 {index} 个算子：{op}",
        ja: "{phase}、演算 {index}: {op}",
        de: "{phase}, Op {index}: {op}",
    }
    ops(count) { en: "{count} ops", zh: "{count} 个算子", ja: "演算 {count} 個", de: "{count} Ops" }
    /// The total in a legend.
    at_the_peak() {
        en: "at the peak",
        zh: "峰值合计",
        ja: "ピーク時の合計",
        de: "beim Spitzenwert",
    }
    /// The hatched strip below the budget line.
    plus_overhead(low, high) {
        en: "overhead: {low} to {high}",
        zh: "张量之外：{low} 至 {high}",
        ja: "テンソル以外: {low} 〜 {high}",
        de: "dazu: {low} bis {high}",
    }
    /// Below a picture.
    how_drawn() {
        en: "Bytes of the tensors alive at each op; if several ops share a column, the largest.",
        zh: "每个算子执行时存活张量的字节数；多个算子共用一列时取最大者。",
        ja: "各演算の実行時に生存しているテンソルのバイト数。1 列に複数の演算が重なるときは最大のものを描く。",
        de: "Bytes der Tensoren, die bei jeder Op leben; teilen sich Ops eine Spalte, die mit den meisten.",
    }
    /// Above an interactive picture.
    how_to_point() {
        en: "Point at the picture, or use ← and →, to see an op.",
        zh: "将指针移到图上，或按 ← → 键，即可查看各算子。",
        ja: "図にポインタを合わせるか ← → キーで、各演算の内訳を表示します。",
        de: "Auf das Bild zeigen oder ← und → drücken, um eine Op zu sehen.",
    }
    /// The sum of all classes.
    sum() { en: "total", zh: "合计", ja: "合計", de: "zusammen" }
    /// Column heads of a table.
    phase() { en: "phase", zh: "阶段", ja: "フェーズ", de: "Phase" }
    peak_bytes() { en: "peak", zh: "峰值", ja: "ピーク", de: "Spitze" }
    peak_op() { en: "op at the peak", zh: "峰值处的算子", ja: "ピークの演算", de: "Op beim Spitzenwert" }
}
