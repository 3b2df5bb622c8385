//! Training with several processes.

messages! {
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
