//! Why a run cannot be planned, set up or continued.

use fitgpt_checkpoint::events::EventError;
use fitgpt_exec::{ArenaRefused, BackendError, MemoryRefused};
use fitgpt_fit::device::DeviceError;
use fitgpt_program::memory::PlanError;

use super::{Translate, io};
use crate::run::{
    device::{self, Unavailable},
    error::RunError,
    setup::SetupError,
};

messages! {
    event(path, source) {
        en: "an event cannot be written to `{path}`: {source}",
        zh: "无法把事件写入 `{path}`：{source}",
        ja: "イベントを `{path}` に書き込めません: {source}",
        de: "ein Ereignis lässt sich nicht in `{path}` schreiben: {source}",
    }
    folder_lost(path, step, saved_in) {
        en: "`{path}` is no longer the folder of this run: it was moved, deleted or replaced; step {step} is saved in `{saved_in}`",
        zh: "`{path}` 已不再是本次训练的文件夹：它被移动、删除或替换了；第 {step} 步已保存到 `{saved_in}`",
        ja: "`{path}` はもうこの実行のフォルダではありません: 移動、削除、または置き換えられました。ステップ {step} は `{saved_in}` に保存されています",
        de: "`{path}` ist nicht mehr der Ordner dieses Laufs: er wurde verschoben, gelöscht oder ersetzt; Schritt {step} ist in `{saved_in}` gespeichert",
    }
    folder_lost_unsaved(path, source) {
        en: "`{path}` is no longer the folder of this run: it was moved, deleted or replaced; the state was not saved: {source}",
        zh: "`{path}` 已不再是本次训练的文件夹：它被移动、删除或替换了；状态未能保存：{source}",
        ja: "`{path}` はもうこの実行のフォルダではありません: 移動、削除、または置き換えられました。状態は保存されていません: {source}",
        de: "`{path}` ist nicht mehr der Ordner dieses Laufs: er wurde verschoben, gelöscht oder ersetzt; der Zustand wurde nicht gespeichert: {source}",
    }
    /// How to continue a run whose folder was moved.
    resume_there(saved_in) {
        en: "`fitgpt train --init_from=resume --out_dir={saved_in}` continues the run",
        zh: "`fitgpt train --init_from=resume --out_dir={saved_in}` 继续该训练",
        ja: "`fitgpt train --init_from=resume --out_dir={saved_in}` で学習を続けます",
        de: "`fitgpt train --init_from=resume --out_dir={saved_in}` setzt den Lauf fort",
    }
    no_such_device(device) {
        en: "this build runs on the CPU only, but the config asks for `device = '{device}'`",
        zh: "此版本只能在 CPU 上运行，而配置要求 `device = '{device}'`",
        ja: "このビルドは CPU でしか動きませんが、設定は `device = '{device}'` を求めています",
        de: "dieser Build läuft nur auf der CPU, die Konfiguration verlangt `device = '{device}'`",
    }
    /// The only device here is a driver that runs kernels on the CPU.
    run_in_software(device) {
        en: "add `--device=cpu` to run it here, or `--device=vulkan` for {device}, which is slower",
        zh: "加上 `--device=cpu` 即可在这里运行；`--device=vulkan` 则使用较慢的 {device}",
        ja: "`--device=cpu` を付けるとここで実行できます。`--device=vulkan` なら {device} を使いますが、より遅くなります",
        de: "mit `--device=cpu` läuft es hier, mit `--device=vulkan` auf {device}, das langsamer ist",
    }
    run_on_cpu() {
        en: "add `--device=cpu` to run it here",
        zh: "加上 `--device=cpu` 即可在这里运行",
        ja: "`--device=cpu` を付けるとここで実行できます",
        de: "mit `--device=cpu` läuft es hier",
    }
    build_with_gpu() {
        en: "`cargo build --release --features gpu` builds one that runs on GPUs; `--device=cpu` runs it here",
        zh: "用 `cargo build --release --features gpu` 可编译出支持 GPU 的版本；加上 `--device=cpu` 即可在这里运行",
        ja: "`cargo build --release --features gpu` で GPU 対応のビルドができます。`--device=cpu` を付けるとここで実行できます",
        de: "`cargo build --release --features gpu` baut ein Programm, das auf GPUs läuft; mit `--device=cpu` läuft es hier",
    }
    not_here(device, found) {
        en: "`device = '{device}'` is not available; found: {found}",
        zh: "这里没有 `device = '{device}'`；找到的有：{found}",
        ja: "`device = '{device}'` はここにありません。見つかったもの: {found}",
        de: "`device = '{device}'` gibt es hier nicht; gefunden: {found}",
    }
    no_type(device, dtype) {
        en: "`{device}` does not support {dtype}",
        zh: "`{device}` 不支持 {dtype}",
        ja: "`{device}` は {dtype} に対応していません",
        de: "`{device}` kann kein {dtype}",
    }
    another_type() {
        en: "use `--dtype=float16` or `--dtype=float32`",
        zh: "请改用 `--dtype=float16` 或 `--dtype=float32`",
        ja: "`--dtype=float16` か `--dtype=float32` を指定してください",
        de: "`--dtype=float16` oder `--dtype=float32` schreiben",
    }
    unsuitable(device, why) {
        en: "`{device}` cannot run this model: {why}",
        zh: "`{device}` 无法运行此模型：{why}",
        ja: "`{device}` ではこのモデルを実行できません: {why}",
        de: "`{device}` kann dieses Modell nicht ausführen: {why}",
    }
    unknown_memory(device) {
        en: "the driver of `{device}` does not report how much memory it has",
        zh: "`{device}` 的驱动没有报告显存大小",
        ja: "`{device}` のドライバが VRAM の容量を報告しません",
        de: "der Treiber von `{device}` meldet nicht, wie viel Grafikspeicher es gibt",
    }
    name_a_budget() {
        en: "set a limit, such as `--memory_budget=8GiB`",
        zh: "请写明可用多少，例如 `--memory_budget=8GiB`",
        ja: "使ってよい量を `--memory_budget=8GiB` のように指定してください",
        de: "eine Grenze setzen, etwa `--memory_budget=8GiB`",
    }
    device_failed(device, message) {
        en: "the device `{device}` failed: {message}",
        zh: "设备 `{device}` 出错：{message}",
        ja: "デバイス `{device}` でエラーが発生しました: {message}",
        de: "das Gerät `{device}` ist ausgefallen: {message}",
    }
    memory_refused(device, asked, free) {
        en: "the device `{device}` refused the arena of {asked}; {free} is free",
        zh: "设备 `{device}` 拒绝预分配 {asked}；空闲 {free}",
        ja: "デバイス `{device}` が {asked} のアリーナの確保を拒否しました。空きは {free} です",
        de: "das Gerät `{device}` hat die Arena von {asked} verweigert; frei sind {free}",
    }
    memory_refused_unsized(device, asked) {
        en: "the device `{device}` refused the arena of {asked}",
        zh: "设备 `{device}` 拒绝预分配 {asked}",
        ja: "デバイス `{device}` が {asked} のアリーナの確保を拒否しました",
        de: "das Gerät `{device}` hat die Arena von {asked} verweigert",
    }
    resume_elsewhere() {
        en: "`--init_from=resume` continues from the last checkpoint; with `--device=cpu` it needs no GPU",
        zh: "`--init_from=resume` 从最后的检查点继续；加上 `--device=cpu` 则不需要 GPU",
        ja: "`--init_from=resume` で最後のチェックポイントから再開できます。`--device=cpu` を付ければ GPU は不要です",
        de: "`--init_from=resume` setzt beim letzten Checkpoint fort; mit `--device=cpu` ohne GPU",
    }
    too_large_for_one_piece(tensor, need, have) {
        en: "`{tensor}` needs one allocation of {need}, the device allows {have}",
        zh: "`{tensor}` 需要一次分配 {need}，设备单次最多分配 {have}",
        ja: "`{tensor}` は連続した {need} を必要としますが、デバイスが一度に確保できるのは {have} です",
        de: "`{tensor}` braucht eine Allokation von {need}, das Gerät erlaubt {have}",
    }
    ambiguous(name, candidates) {
        en: "`{name}` is ambiguous: {candidates}", zh: "`{name}` 不明确：{candidates}", ja: "`{name}` は曖昧です: {candidates}", de: "`{name}` ist nicht eindeutig: {candidates}",
    }
    no_rates(name, known) {
        en: "the peak rates of `{name}` are not known; cards with known rates: {known}",
        zh: "没有 `{name}` 的峰值速率数据；已有数据的显卡：{known}",
        ja: "`{name}` のピーク性能は不明です。分かっているカード: {known}",
        de: "die Spitzenraten von `{name}` sind nicht bekannt; Karten mit bekannten Raten: {known}",
    }
    unknown_device(name, nearest) {
        en: "unknown device `{name}`; the nearest names are {nearest}",
        zh: "没有名为 `{name}` 的设备；最接近的有 {nearest}",
        ja: "`{name}` というデバイスはありません。近いのは {nearest} です",
        de: "kein Gerät heißt `{name}`; am nächsten kommen {nearest}",
    }
    arena_refused(asked) {
        en: "the system refused the arena of {asked}",
        zh: "系统拒绝预分配 {asked}",
        ja: "システムが {asked} のアリーナの確保を拒否しました",
        de: "das System hat die Arena von {asked} verweigert",
    }
    arena_taken(asked, left) {
        en: "the arena of {asked} was released again: only {left} is left, because another process took memory at the same time",
        zh: "已释放预分配的 {asked}：另一个进程同时占用了内存，只剩 {left}",
        ja: "{asked} のアリーナの確保を中止しました: 別のプロセスが同時にメモリを使い、残りは {left} です",
        de: "die Arena von {asked} wurde wieder freigegeben: nur {left} sind übrig, weil ein anderer Prozess gleichzeitig Speicher belegt hat",
    }
    /// A command that saves nothing was interrupted.
    stopped_early() {
        en: "stopped before the end",
        zh: "在完成之前停止了",
        ja: "完了前に停止しました",
        de: "vor dem Ende angehalten",
    }
    threads_refused(asked, kind) {
        en: "the system refused {asked} threads: {kind}",
        zh: "系统拒绝创建 {asked} 个线程：{kind}",
        ja: "システムが {asked} 個のスレッドの作成を拒否しました: {kind}",
        de: "das System hat {asked} Threads verweigert: {kind}",
    }
    diverged(step, loss, grad_norm, saved) {
        en: "step {step} ended with a loss of {loss} and a gradient norm of {grad_norm}; the last checkpoint is from step {saved}",
        zh: "第 {step} 步结束时损失为 {loss}、梯度范数为 {grad_norm}；最后的检查点是第 {saved} 步的",
        ja: "ステップ {step} の終わりで損失が {loss}、勾配ノルムが {grad_norm} になりました。最後のチェックポイントはステップ {saved} のものです",
        de: "Schritt {step} endete mit einem Loss von {loss} und einer Gradientennorm von {grad_norm}; der letzte Checkpoint ist von Schritt {saved}",
    }
    diverged_unsaved(step, loss, grad_norm) {
        en: "step {step} ended with a loss of {loss} and a gradient norm of {grad_norm}; there is no checkpoint yet",
        zh: "第 {step} 步结束时损失为 {loss}、梯度范数为 {grad_norm}；还没有检查点",
        ja: "ステップ {step} の終わりで損失が {loss}、勾配ノルムが {grad_norm} になりました。チェックポイントはまだありません",
        de: "Schritt {step} endete mit einem Loss von {loss} und einer Gradientennorm von {grad_norm}; es gibt noch keinen Checkpoint",
    }
    state_not_finite(tensor, saved) {
        en: "`{tensor}` is not finite, so it is not saved; the last checkpoint is from step {saved}",
        zh: "`{tensor}` 中有非有限值，因此不保存；最后的检查点是第 {saved} 步的",
        ja: "`{tensor}` に有限でない値があるため保存しません。最後のチェックポイントはステップ {saved} のものです",
        de: "`{tensor}` ist nicht endlich und wird nicht gespeichert; der letzte Checkpoint ist von Schritt {saved}",
    }
    state_not_finite_unsaved(tensor) {
        en: "`{tensor}` is not finite, so it is not saved; there is no checkpoint yet",
        zh: "`{tensor}` 中有非有限值，因此不保存；还没有检查点",
        ja: "`{tensor}` に有限でない値があるため保存しません。チェックポイントはまだありません",
        de: "`{tensor}` ist nicht endlich und wird nicht gespeichert; es gibt noch keinen Checkpoint",
    }
    keep_finite() {
        en: "to keep the loss finite, lower `--learning_rate`, raise `--warmup_iters` or use `--dtype=float32`; `--init_from=resume` continues from the last checkpoint",
        zh: "降低 `--learning_rate`、加大 `--warmup_iters` 或使用 `--dtype=float32` 可以让损失保持有限；`--init_from=resume` 从最后的检查点继续",
        ja: "`--learning_rate` を下げる、`--warmup_iters` を長くする、または `--dtype=float32` にすると損失の発散を防げます。`--init_from=resume` で最後のチェックポイントから再開できます",
        de: "eine kleinere `--learning_rate`, längere `--warmup_iters` oder `--dtype=float32` halten den Loss endlich; `--init_from=resume` setzt beim letzten Checkpoint fort",
    }
}

impl Translate for EventError {
    fn translate(&self) -> String {
        match self {
            Self::Io { action, path, source } => io::failed(*action, path, source),
            Self::Folder(error) => error.translate(),
            Self::Json { path, source } => event(path.display(), source),
        }
    }
}

impl Translate for SetupError {
    fn translate(&self) -> String {
        match self {
            Self::Device(error) => error.translate(),
            Self::Plan(error) => error.translate(),
        }
    }
}

impl Translate for Unavailable {
    fn translate(&self) -> String {
        match self {
            Self::NotInThisBuild { device } => no_such_device(device),
            Self::NoSuchDevice { device, found, .. } => not_here(device, device::list(found)),
            Self::NoType { device, dtype } => no_type(device, dtype.name()),
            Self::Unsuitable { device, why } => unsuitable(device, why),
            Self::UnknownMemory { device } => unknown_memory(device),
            Self::Backend(error) => error.translate(),
        }
    }
}

impl Translate for PlanError {
    fn translate(&self) -> String {
        match self {
            Self::TooLargeForOnePiece { tensor, need, have } => {
                too_large_for_one_piece(tensor, need, have)
            }
        }
    }
}

impl Translate for DeviceError {
    fn translate(&self) -> String {
        match self {
            Self::Ambiguous { name, candidates } => ambiguous(name, list(candidates)),
            Self::Unknown { name, nearest } => unknown_device(name, list(nearest)),
            Self::NoRates { name, known } => no_rates(name, list(known)),
        }
    }
}

impl Translate for BackendError {
    fn translate(&self) -> String {
        match self {
            Self::Refused(ArenaRefused::BySystem { asked }) => arena_refused(asked),
            Self::Refused(ArenaRefused::Taken { asked, left }) => arena_taken(asked, left),
            Self::Threads { asked, kind } => threads_refused(asked, kind),
            Self::Memory(MemoryRefused { device, asked, free: Some(free) }) => {
                memory_refused(device, asked, free)
            }
            Self::Memory(MemoryRefused { device, asked, free: None }) => {
                memory_refused_unsized(device, asked)
            }
            Self::Device(fault) => device_failed(&fault.device, &fault.message),
        }
    }
}

impl Translate for RunError {
    fn translate(&self) -> String {
        match self {
            Self::Data(error) => error.translate(),
            Self::Checkpoint(error) => error.translate(),
            Self::Event(error) => error.translate(),
            Self::Backend(error) => error.translate(),
            Self::Diverged { step, loss, grad_norm, saved: Some(saved) } => {
                diverged(step, loss, grad_norm, saved)
            }
            Self::Diverged { step, loss, grad_norm, saved: None } => {
                diverged_unsaved(step, loss, grad_norm)
            }
            Self::NotFinite { tensor, saved: Some(saved) } => state_not_finite(tensor, saved),
            Self::NotFinite { tensor, saved: None } => state_not_finite_unsaved(tensor),
            Self::Folder { path, source } => io::folder(path.display(), source),
            Self::FolderLost { path, step, saved_in } => {
                folder_lost(path.display(), step, saved_in.display())
            }
            Self::FolderLostUnsaved { path, source } => {
                folder_lost_unsaved(path.display(), source.translate())
            }
        }
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
