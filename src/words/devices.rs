//! What `devices` says, and its watch.

use crate::budget::HostLimit;

messages! {
    label_memory() { en: "memory", zh: "内存", ja: "メモリ", de: "Speicher" }
    label_limits() { en: "limits", zh: "限制", ja: "制限", de: "Grenzen" }
    label_budget() { en: "budget", zh: "预算", ja: "予算", de: "Budget" }
    label_cpu() { en: "CPU", zh: "CPU", ja: "CPU", de: "CPU" }
    label_cards() { en: "cards", zh: "显卡", ja: "GPU", de: "Karten" }
    label_card(index) {
        en: "card {index}", zh: "显卡 {index}", ja: "GPU {index}", de: "Karte {index}",
    }
    label_gpu(index) {
        en: "GPU {index}", zh: "GPU {index}", ja: "GPU {index}", de: "GPU {index}",
    }
    label_machine() { en: "this machine", zh: "本机", ja: "このマシン", de: "dieser Rechner" }

    memory(total, available) {
        en: "{total} in all, {available} available",
        zh: "共 {total}，可用 {available}",
        ja: "合計 {total}、利用可能 {available}",
        de: "{total} insgesamt, {available} verfügbar",
    }
    available() {
        en: "available memory",
        zh: "可用内存",
        ja: "利用可能なメモリ",
        de: "verfügbarer Speicher",
    }
    control_group() {
        en: "control group (container, service)",
        zh: "控制组 cgroup（容器、服务）",
        ja: "cgroup（コンテナ、サービス）",
        de: "Control Group (Container, Dienst)",
    }
    data_segment() {
        en: "data segment (`ulimit -d`)",
        zh: "数据段（`ulimit -d`）",
        ja: "データセグメント（`ulimit -d`）",
        de: "Datensegment (`ulimit -d`)",
    }
    address_space() {
        en: "address space (`ulimit -v`)",
        zh: "地址空间（`ulimit -v`）",
        ja: "アドレス空間（`ulimit -v`）",
        de: "Adressraum (`ulimit -v`)",
    }
    no_limit() { en: "no limit", zh: "无限制", ja: "制限なし", de: "keine Grenze" }
    /// Behind the limit that decides.
    least() { en: "<- the least", zh: "<- 最小", ja: "<- 最小", de: "<- die engste" }
    /// What a run may take where nothing is written.
    budget(budget) {
        en: "a run may take {budget}: the least of these, less one part in 64",
        zh: "一次运行最多可用 {budget}：取以上最小值，再留出 1/64",
        ja: "1 回の実行で使えるのは {budget}（上のうち最小の値から 1/64 を引いたもの）",
        de: "ein Lauf darf {budget} nehmen: die engste Grenze, abzüglich eines Vierundsechzigstels",
    }
    /// What a run may take where a budget is written.
    budget_written(budget) {
        en: "a run may take {budget}, as written",
        zh: "一次运行最多可用 {budget}（按所写的预算）",
        ja: "1 回の実行で使えるのは {budget}（指定された予算）",
        de: "ein Lauf darf {budget} nehmen, wie geschrieben",
    }
    cpu(threads, simd) {
        en: "threads: {threads} · kernels: {simd}",
        zh: "线程：{threads} · 指令集：{simd}",
        ja: "スレッド: {threads} · 命令セット: {simd}",
        de: "Threads: {threads} · Befehlssatz: {simd}",
    }
    /// This build has no GPU backend.
    cpu_only() {
        en: "this build trains on the CPU only, one of `cargo build --release --features gpu` on GPUs; it plans for cards, here or not: `fitgpt plan --gpu \"RTX 4070\"`",
        zh: "此版本只在 CPU 上训练，用 `cargo build --release --features gpu` 编译的版本可用 GPU；但可为任何显卡做规划，不论本机有无：`fitgpt plan --gpu \"RTX 4070\"`",
        ja: "このビルドの学習は CPU のみです（GPU で学習するには `cargo build --release --features gpu`）。GPU 向けの計画は、その GPU がなくても作れます: `fitgpt plan --gpu \"RTX 4070\"`",
        de: "diese Version trainiert nur auf der CPU, eine mit `cargo build --release --features gpu` gebaute auf GPUs; sie plant für Karten, ob vorhanden oder nicht: `fitgpt plan --gpu \"RTX 4070\"`",
    }
    /// Why nothing is reached through Vulkan.
    no_vulkan(reason) {
        en: "none: {reason}", zh: "无：{reason}", ja: "なし: {reason}", de: "keines: {reason}",
    }
    /// What a run may take of a GPU.
    gpu_budget(budget) {
        en: "a run may take {budget}: what is free, less one part in 64",
        zh: "一次运行最多可用 {budget}：空闲显存再留出 1/64",
        ja: "1 回の実行で使えるのは {budget}（空きから 1/64 を引いたもの）",
        de: "ein Lauf darf {budget} nehmen: was frei ist, abzüglich eines Vierundsechzigstels",
    }
    gpu_limits(allocation, binding, shared) {
        en: "one allocation up to {allocation}, one binding up to {binding}, {shared} shared by a workgroup",
        zh: "单次分配最多 {allocation}，单个绑定最多 {binding}，每个工作组共享内存 {shared}",
        ja: "1 回の確保は最大 {allocation}、1 バインディングは最大 {binding}、ワークグループの共有メモリは {shared}",
        de: "eine Allokation bis {allocation}, eine Bindung bis {binding}, {shared} gemeinsam je Workgroup",
    }
    gpu_types(types, subgroup) {
        en: "types: {types} · subgroups of {subgroup}",
        zh: "数据类型：{types} · 子组大小 {subgroup}",
        ja: "データ型: {types} · サブグループ {subgroup}",
        de: "Datentypen: {types} · Subgroups von {subgroup}",
    }
    /// Of a driver that runs kernels on the CPU.
    software() {
        en: "a software driver: used only when asked for, as in `--device=vulkan`",
        zh: "软件驱动：只有明确指定时才使用，例如 `--device=vulkan`",
        ja: "ソフトウェアドライバ: `--device=vulkan` のように指定したときだけ使います",
        de: "ein Software-Treiber: nur auf Verlangen, etwa mit `--device=vulkan`",
    }
    no_library(library) {
        en: "none: the library of NVIDIA's driver, `{library}`, was not found",
        zh: "无：找不到 NVIDIA 驱动的库 `{library}`",
        ja: "なし: NVIDIA ドライバのライブラリ `{library}` が見つかりません",
        de: "keine: die Bibliothek des NVIDIA-Treibers, `{library}`, wurde nicht gefunden",
    }
    not_running() {
        en: "none: NVIDIA's driver is installed but not running",
        zh: "无：NVIDIA 驱动已安装，但没有运行",
        ja: "なし: NVIDIA ドライバは入っていますが、動いていません",
        de: "keine: der NVIDIA-Treiber ist installiert, läuft aber nicht",
    }
    refused(reason) {
        en: "none: NVIDIA's driver says: {reason}",
        zh: "无：NVIDIA 驱动返回：{reason}",
        ja: "なし: NVIDIA ドライバの応答: {reason}",
        de: "keine: der NVIDIA-Treiber meldet: {reason}",
    }
    no_cards() {
        en: "none that the driver knows",
        zh: "驱动没有找到显卡",
        ja: "ドライバが認識している GPU はありません",
        de: "keine, die der Treiber kennt",
    }
    /// Cards that the bus shows and no driver serves.
    on_the_bus(count) {
        en: "NVIDIA cards on the PCI bus without a working driver: {count}",
        zh: "PCI 总线上有 NVIDIA 显卡但没有可用的驱动：{count} 块",
        ja: "PCI バスにあるがドライバが動いていない NVIDIA GPU: {count}",
        de: "NVIDIA-Karten am PCI-Bus ohne laufenden Treiber: {count}",
    }
    driver(driver, cuda) {
        en: "driver {driver}, CUDA {cuda}",
        zh: "驱动 {driver}，CUDA {cuda}",
        ja: "ドライバ {driver}、CUDA {cuda}",
        de: "Treiber {driver}, CUDA {cuda}",
    }
    capability(capability, bf16) {
        en: "compute capability {capability}, bfloat16: {bf16}",
        zh: "计算能力 {capability}，bfloat16：{bf16}",
        ja: "Compute Capability {capability}、bfloat16: {bf16}",
        de: "Compute Capability {capability}, bfloat16: {bf16}",
    }
    yes() { en: "yes", zh: "支持", ja: "対応", de: "ja" }
    no() { en: "no", zh: "不支持", ja: "非対応", de: "nein" }
    unknown() { en: "unknown", zh: "未知", ja: "不明", de: "unbekannt" }
    /// The card's memory; the rest is the driver's own.
    card_memory(used, free, total) {
        en: "{used} used, {free} free of {total}",
        zh: "已用显存 {used}，空闲 {free}，共 {total}",
        ja: "VRAM 使用中 {used}、空き {free}、合計 {total}",
        de: "VRAM: {used} belegt, {free} frei von {total}",
    }
    held_by(holders) {
        en: "held by {holders}",
        zh: "占用者：{holders}",
        ja: "使用プロセス: {holders}",
        de: "gehalten von {holders}",
    }
    others(holders) {
        en: "others: {holders}",
        zh: "其他进程：{holders}",
        ja: "ほかのプロセス: {holders}",
        de: "andere: {holders}",
    }

    no_such_process(pid) {
        en: "there is no process {pid}",
        zh: "没有进程 {pid}",
        ja: "プロセス {pid} はありません",
        de: "es gibt keinen Prozess {pid}",
    }
    resident(bytes) {
        en: "{bytes} resident", zh: "{bytes} 常驻内存", ja: "{bytes} 常駐", de: "{bytes} resident",
    }
    used(bytes) {
        en: "{bytes} used", zh: "{bytes} 已用", ja: "{bytes} 使用中", de: "{bytes} belegt",
    }
    own(bytes) {
        en: "its own {bytes}", zh: "本进程 {bytes}", ja: "このプロセス {bytes}", de: "eigene {bytes}",
    }
    /// What the plan's line in a meter stands for.
    mark(most) {
        en: "plan ┃ {most}", zh: "计划 ┃ {most}", ja: "計画 ┃ {most}", de: "Plan ┃ {most}",
    }
    seconds(seconds) {
        en: "{seconds} s; Ctrl-C ends the watch",
        zh: "{seconds} 秒；按 Ctrl-C 结束监视",
        ja: "{seconds} 秒（Ctrl-C で監視を終了）",
        de: "{seconds} s; Strg-C beendet die Beobachtung",
    }
    watched(samples, seconds, peak) {
        en: "{samples} samples in {seconds} s, peak {peak}",
        zh: "{seconds} 秒内采样 {samples} 次，峰值 {peak}",
        ja: "{seconds} 秒間に {samples} 回測定、ピーク {peak}",
        de: "{samples} Messungen in {seconds} s, Spitze {peak}",
    }
    /// The plan that the peak is compared with.
    planned(arena, low, high) {
        en: "plan: arena {arena}, beside it {low} to {high}",
        zh: "计划：预分配 {arena}，此外 {low} 至 {high}",
        ja: "計画: アリーナ {arena}、そのほかに {low} 〜 {high}",
        de: "Plan: Arena {arena}, daneben {low} bis {high}",
    }
    more_than_arena(difference) {
        en: "difference: {difference} more than the arena",
        zh: "差值：比预分配多 {difference}",
        ja: "差: アリーナより {difference} 多い",
        de: "Unterschied: {difference} mehr als die Arena",
    }
    less_than_arena(difference) {
        en: "difference: {difference} less than the arena",
        zh: "差值：比预分配少 {difference}",
        ja: "差: アリーナより {difference} 少ない",
        de: "Unterschied: {difference} weniger als die Arena",
    }
    within_plan() {
        en: "within the plan", zh: "在计划之内", ja: "計画の範囲内", de: "im Rahmen des Plans",
    }
    over_plan() {
        en: "over the plan", zh: "超出计划", ja: "計画を超過", de: "über dem Plan",
    }
}

/// A limit by its name.
pub(crate) fn limit(limit: HostLimit) -> String {
    match limit {
        HostLimit::Available => available(),
        HostLimit::ControlGroup => control_group(),
        HostLimit::AddressSpace => address_space(),
        HostLimit::DataSegment => data_segment(),
    }
}
