//! Training with several processes.

messages! {
    build_with_mpi() {
        en: "each process would train the whole model by itself; build with `cargo build --release --features mpi` (needs an MPI and libclang), or start a single process",
        zh: "每个进程都会各自训练整个模型；请用 `cargo build --release --features mpi` 编译（需要 MPI 和 libclang），或只启动一个进程",
        ja: "それぞれのプロセスが別々にモデル全体を学習してしまいます。`cargo build --release --features mpi` でビルドするか（MPI と libclang が必要）、プロセスを一つだけ起動してください",
        de: "jeder Prozess würde das ganze Modell für sich trainieren; mit `cargo build --release --features mpi` bauen (braucht ein MPI und libclang) oder nur einen Prozess starten",
    }
    make_equal() {
        en: "give every machine the same program, the same command line and config, and the same data",
        zh: "请让每台机器使用相同的程序、相同的命令行与配置，以及相同的数据",
        ja: "すべてのマシンで同じプログラム、同じコマンドラインと設定、同じデータを使ってください",
        de: "jede Maschine braucht dasselbe Programm, dieselbe Befehlszeile und Konfiguration und dieselben Daten",
    }
    /// The lanes cannot be divided evenly among the ranks.
    lanes_and_ranks(lanes, ranks) {
        en: "`lanes` {lanes} is not a multiple of the {ranks} ranks",
        zh: "`lanes` {lanes} 不是 {ranks} 个 rank 的倍数",
        ja: "`lanes` {lanes} は rank 数 {ranks} の倍数ではありません",
        de: "`lanes` {lanes} ist kein Vielfaches der {ranks} Ranks",
    }
    /// The micro-batches of a step cannot be divided evenly among the ranks.
    steps_and_ranks(accumulation, ranks) {
        en: "`gradient_accumulation_steps` {accumulation} is not a multiple of the {ranks} ranks",
        zh: "`gradient_accumulation_steps` {accumulation} 不是 {ranks} 个 rank 的倍数",
        ja: "`gradient_accumulation_steps` {accumulation} は rank 数 {ranks} の倍数ではありません",
        de: "`gradient_accumulation_steps` {accumulation} ist kein Vielfaches der {ranks} Ranks",
    }
    works(arguments) {
        en: "`{arguments}` works", zh: "`{arguments}` 可行", ja: "`{arguments}` なら動きます", de: "mit `{arguments}` geht es",
    }
    works_with_processes(count) {
        en: "`mpirun -np {count} …` works", zh: "`mpirun -np {count} …` 可行", ja: "`mpirun -np {count} …` なら動きます", de: "mit `mpirun -np {count} …` geht es",
    }
    lanes_of_checkpoint(there, here) {
        en: "the checkpoint was trained with `lanes` {there}, which is kept; `lanes` {here} is ignored",
        zh: "检查点是用 `lanes` {there} 训练的，将继续使用它；忽略 `lanes` {here}",
        ja: "チェックポイントは `lanes` {there} で学習されたのでそれを使います。`lanes` {here} は無視されます",
        de: "der Checkpoint wurde mit `lanes` {there} trainiert, dabei bleibt es; `lanes` {here} zählt nicht",
    }
    /// `--ranks` with `--engine torch`.
    ranks_of_fitgpt() {
        en: "`--ranks` plans ranks of FitGPT, not of PyTorch",
        zh: "`--ranks` 规划的是 FitGPT 的 rank，而不是 PyTorch 的",
        ja: "`--ranks` は FitGPT の rank の計画で、PyTorch のものではありません",
        de: "`--ranks` plant Ranks von FitGPT, nicht von PyTorch",
    }
    /// One rank of several, in a plan.
    share(ranks, lanes, rank, low, high, messages) {
        en: "{ranks} ranks, {lanes} lanes: the plan is for rank {rank}, which needs most; optimizer states of a rank {low} to {high}, messages {messages} (in the overhead)",
        zh: "{ranks} 个 rank，{lanes} 条 lane：计划针对需要最多的 rank {rank}；每个 rank 的优化器状态 {low} 至 {high}，消息缓冲 {messages}（计入开销）",
        ja: "{ranks} 個の rank、{lanes} 個の lane。計画は最も多く使う rank {rank} のもの。rank ごとのオプティマイザの状態 {low} 〜 {high}、メッセージ {messages}（オーバーヘッドに含む）",
        de: "{ranks} Ranks, {lanes} Lanes: der Plan gilt für Rank {rank}, der am meisten braucht; Optimierer-Zustände je Rank {low} bis {high}, Nachrichten {messages} (im Overhead)",
    }
    /// `--network`.
    traffic(bytes, seconds) {
        en: "network: each rank sends {bytes} a step, which takes {seconds} s",
        zh: "网络：每个 rank 每步发送 {bytes}，耗时 {seconds} 秒",
        ja: "ネットワーク: rank ごとに 1 ステップ {bytes} を送信し、{seconds} 秒かかる",
        de: "Netz: jeder Rank sendet {bytes} je Schritt, das dauert {seconds} s",
    }
    /// After `traffic`, if the card's rates are known.
    efficiency(least, most, low, high) {
        en: ", {least} to {most} s of it not overlapped with computation; computation takes {low} % to {high} % of a step",
        zh: "，其中 {least} 至 {most} 秒未与计算重叠；计算占每步时间的 {low} % 至 {high} %",
        ja: "。そのうち {least} 〜 {most} 秒は計算と重ならない。計算はステップの {low} % 〜 {high} %",
        de: ", davon {least} bis {most} s nicht von Rechnung überdeckt; die Rechnung nimmt {low} % bis {high} % eines Schritts ein",
    }
    one_host() { en: "1 machine", zh: "1 台机器", ja: "1 台のマシン", de: "1 Rechner" }
    several_hosts(count) {
        en: "{count} machines", zh: "{count} 台机器", ja: "{count} 台のマシン", de: "{count} Rechnern",
    }
    /// Printed before the plan.
    together(ranks, hosts, lanes) {
        en: "{ranks} ranks on {hosts}, {lanes} lanes; the plan is for rank 0",
        zh: "{ranks} 个 rank，位于 {hosts}，{lanes} 条 lane；以下是 rank 0 的计划",
        ja: "{hosts} 上の {ranks} 個の rank、{lanes} 個の lane。計画は rank 0 のもの",
        de: "{ranks} Ranks auf {hosts}, {lanes} Lanes; der Plan gilt für Rank 0",
    }
    /// After that, on several machines with Open MPI's default.
    more_connections() {
        en: "on Ethernet, `mpirun --mca btl_tcp_links 2` sends up to twice as fast",
        zh: "在以太网上，`mpirun --mca btl_tcp_links 2` 的传输速度最多可提高一倍",
        ja: "イーサネットでは `mpirun --mca btl_tcp_links 2` により送信が最大 2 倍速くなります",
        de: "über Ethernet sendet `mpirun --mca btl_tcp_links 2` bis zu doppelt so schnell",
    }
}

/// How many machines.
pub(crate) fn hosts(count: usize) -> String {
    if count == 1 { one_host() } else { several_hosts(count) }
}
