//! What the errors of a run say.

use fitgpt_say::{Lang, Say};

use super::{
    device::{self, Unavailable},
    error::RunError,
    setup::SetupError,
};

fitgpt_say::messages! {
    folder(path, source) {
        en: "cannot make the folder `{path}`: {source}", zh: "无法创建文件夹 `{path}`：{source}", ja: "フォルダ `{path}` を作成できません: {source}", de: "der Ordner `{path}` lässt sich nicht anlegen: {source}",
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
    no_such_device(device) {
        en: "this build runs on the CPU only, but the config asks for `device = '{device}'`",
        zh: "此版本只能在 CPU 上运行，而配置要求 `device = '{device}'`",
        ja: "このビルドは CPU でしか動きませんが、設定は `device = '{device}'` を求めています",
        de: "dieser Build läuft nur auf der CPU, die Konfiguration verlangt `device = '{device}'`",
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
}

impl Say for SetupError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Device(error) => error.say(lang),
            Self::Plan(error) => error.say(lang),
        }
    }
}

impl Say for Unavailable {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NotInThisBuild { device } => no_such_device(lang, device),
            Self::NoSuchDevice { device, found, .. } => not_here(lang, device, device::list(found)),
            Self::NoType { device, dtype } => no_type(lang, device, dtype.name()),
            Self::Unsuitable { device, why } => unsuitable(lang, device, why),
            Self::UnknownMemory { device } => unknown_memory(lang, device),
            Self::Backend(error) => error.say(lang),
        }
    }
}

impl Say for RunError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Data(error) => error.say(lang),
            Self::Checkpoint(error) => error.say(lang),
            Self::Event(error) => error.say(lang),
            Self::Backend(error) => error.say(lang),
            Self::Diverged { step, loss, grad_norm, saved: Some(saved) } => {
                diverged(lang, step, loss, grad_norm, saved)
            }
            Self::Diverged { step, loss, grad_norm, saved: None } => {
                diverged_unsaved(lang, step, loss, grad_norm)
            }
            Self::NotFinite { tensor, saved: Some(saved) } => state_not_finite(lang, tensor, saved),
            Self::NotFinite { tensor, saved: None } => state_not_finite_unsaved(lang, tensor),
            Self::Folder { path, source } => folder(lang, path.display(), source),
            Self::FolderLost { path, step, saved_in } => {
                folder_lost(lang, path.display(), step, saved_in.display())
            }
            Self::FolderLostUnsaved { path, source } => {
                folder_lost_unsaved(lang, path.display(), source.say(lang))
            }
        }
    }
}

fitgpt_say::displays_english!(SetupError, Unavailable, RunError);
