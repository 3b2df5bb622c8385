//! What `devices` and `devices --watch` print.

use fitgpt_run::budget::HostLimit;

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
    /// Next to the limit that decides.
    least() { en: "<- the smallest", zh: "<- 最小", ja: "<- 最小", de: "<- die engste" }
    /// What a run may use if the config sets no budget.
    budget(budget) {
        en: "a run may use {budget}: the smallest limit minus one part in 64",
        zh: "一次运行最多可用 {budget}：取以上最小值，再留出 1/64",
        ja: "1 回の実行で使えるのは {budget}（上のうち最小の値から 1/64 を引いたもの）",
        de: "ein Lauf darf {budget} nutzen: die engste Grenze abzüglich eines Vierundsechzigstels",
    }
    /// What a run may use if the config sets a budget.
    budget_written(budget) {
        en: "a run may use {budget}, as configured",
        zh: "一次运行最多可用 {budget}（按配置的预算）",
        ja: "1 回の実行で使えるのは {budget}（指定された予算）",
        de: "ein Lauf darf {budget} nutzen, wie konfiguriert",
    }
    cpu(threads, simd) {
        en: "threads: {threads} · kernels: {simd}",
        zh: "线程：{threads} · 指令集：{simd}",
        ja: "スレッド: {threads} · 命令セット: {simd}",
        de: "Threads: {threads} · Befehlssatz: {simd}",
    }
    /// This build has no GPU backend.
    cpu_only() {
        en: "this build trains on the CPU only; `cargo build --release --features gpu` makes one that trains on GPUs",
        zh: "此版本只在 CPU 上训练；用 `cargo build --release --features gpu` 编译的版本可在 GPU 上训练",
        ja: "このビルドの学習は CPU のみです。GPU で学習するには `cargo build --release --features gpu` でビルドしてください",
        de: "diese Version trainiert nur auf der CPU; `cargo build --release --features gpu` baut eine für GPUs",
    }
    /// Why there is no Vulkan.
    no_vulkan(reason) {
        en: "none: {reason}", zh: "无：{reason}", ja: "なし: {reason}", de: "keines: {reason}",
    }
    /// What a run may use of a GPU.
    gpu_budget(budget) {
        en: "a run may use {budget}: the free memory minus one part in 64",
        zh: "一次运行最多可用 {budget}：空闲显存再留出 1/64",
        ja: "1 回の実行で使えるのは {budget}（空きから 1/64 を引いたもの）",
        de: "ein Lauf darf {budget} nutzen: den freien Speicher abzüglich eines Vierundsechzigstels",
    }
    gpu_limits(allocation, binding, shared) {
        en: "one allocation up to {allocation}, one binding up to {binding}, {shared} of shared memory per workgroup",
        zh: "单次分配最多 {allocation}，单个绑定最多 {binding}，每个工作组共享内存 {shared}",
        ja: "1 回の確保は最大 {allocation}、1 バインディングは最大 {binding}、ワークグループの共有メモリは {shared}",
        de: "eine Allokation bis {allocation}, eine Bindung bis {binding}, {shared} Shared Memory je Workgroup",
    }
    gpu_types(types, subgroup) {
        en: "types: {types} · subgroups of {subgroup}",
        zh: "数据类型：{types} · 子组大小 {subgroup}",
        ja: "データ型: {types} · サブグループ {subgroup}",
        de: "Datentypen: {types} · Subgroups von {subgroup}",
    }
    /// About a driver that runs kernels on the CPU.
    software() {
        en: "a software driver: used only if named, as in `--device=vulkan`",
        zh: "软件驱动：只有明确指定时才使用，例如 `--device=vulkan`",
        ja: "ソフトウェアドライバ: `--device=vulkan` のように指定したときだけ使います",
        de: "ein Software-Treiber: nur auf Verlangen, etwa mit `--device=vulkan`",
    }
    no_library(library) {
        en: "none: NVIDIA's driver library `{library}` was not found",
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
        en: "none: NVIDIA's driver reports: {reason}",
        zh: "无：NVIDIA 驱动返回：{reason}",
        ja: "なし: NVIDIA ドライバの応答: {reason}",
        de: "keine: der NVIDIA-Treiber meldet: {reason}",
    }
    no_cards() {
        en: "the driver found none",
        zh: "驱动没有找到显卡",
        ja: "ドライバが認識している GPU はありません",
        de: "der Treiber hat keine gefunden",
    }
    /// Cards on the bus without a driver.
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
    watch_the_machine() {
        en: "`fitgpt devices --watch` without a process shows the memory of this machine",
        zh: "不带进程号的 `fitgpt devices --watch` 显示本机的内存",
        ja: "プロセスを指定しない `fitgpt devices --watch` はこのマシンのメモリを表示します",
        de: "`fitgpt devices --watch` ohne Prozess zeigt den Speicher dieses Rechners",
    }
    resident(bytes) {
        en: "{bytes} resident", zh: "{bytes} 常驻内存", ja: "{bytes} 常駐", de: "{bytes} resident",
    }
    used(bytes) {
        en: "{bytes} used", zh: "{bytes} 已用", ja: "{bytes} 使用中", de: "{bytes} belegt",
    }
    own(bytes) {
        en: "this process {bytes}", zh: "本进程 {bytes}", ja: "このプロセス {bytes}", de: "dieser Prozess {bytes}",
    }
    /// The plan's mark in a meter.
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
        en: "plan: arena {arena}, plus {low} to {high}",
        zh: "计划：预分配 {arena}，另加 {low} 至 {high}",
        ja: "計画: アリーナ {arena}、加えて {low} 〜 {high}",
        de: "Plan: Arena {arena}, dazu {low} bis {high}",
    }
    /// The same for PyTorch.
    torch_planned(tensors, low, high) {
        en: "PyTorch plan: tensors {tensors}, plus {low} to {high} for the CUDA context and libraries",
        zh: "PyTorch 计划：张量 {tensors}，另加 CUDA 上下文和库 {low} 至 {high}",
        ja: "PyTorch の計画: テンソル {tensors}、加えて CUDA コンテキストとライブラリに {low} 〜 {high}",
        de: "PyTorch-Plan: Tensoren {tensors}, dazu {low} bis {high} für CUDA-Kontext und Bibliotheken",
    }
    above_tensors(difference) {
        en: "difference: {difference} more than the planned tensors",
        zh: "差值：比计划的张量多 {difference}",
        ja: "差: 計画のテンソルより {difference} 多い",
        de: "Unterschied: {difference} mehr als die geplanten Tensoren",
    }
    below_tensors(difference) {
        en: "difference: {difference} less than the planned tensors",
        zh: "差值：比计划的张量少 {difference}",
        ja: "差: 計画のテンソルより {difference} 少ない",
        de: "Unterschied: {difference} weniger als die geplanten Tensoren",
    }
    /// The plan is for a card whose memory cannot be read here.
    not_compared(most) {
        en: "the plan is for a card (at most {most}); no card's memory can be read here, so nothing was compared",
        zh: "计划针对显卡（最多 {most}）；此处无法读取显卡内存，因此未作比较",
        ja: "計画は GPU 向け（最大 {most}）ですが、ここでは GPU のメモリを読めないため比較していません",
        de: "der Plan gilt einer Karte (höchstens {most}); hier ist kein Kartenspeicher lesbar, daher kein Vergleich",
    }
    /// In brackets after `fitgpt plan`.
    plans() {
        en: "plans for any card, present or not",
        zh: "为任何显卡做规划，不论本机有无",
        ja: "手元にない GPU 向けにも計画を作る",
        de: "plant für eine Karte, ob vorhanden oder nicht",
    }
    /// In brackets after the command that watches with a config.
    compares() {
        en: "compares the process with the plan of a config",
        zh: "将进程与配置的计划进行比较",
        ja: "プロセスを設定の計画と比較する",
        de: "vergleicht den Prozess mit dem Plan einer Konfiguration",
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
