//! What a [`BackendError`] says.

use fitgpt_say::{Lang, Say};

use super::{
    arena::ArenaRefused,
    backend::{BackendError, DeviceFault, MemoryRefused},
};

fitgpt_say::messages! {
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
    threads_refused(asked, kind) {
        en: "the system refused {asked} threads: {kind}",
        zh: "系统拒绝创建 {asked} 个线程：{kind}",
        ja: "システムが {asked} 個のスレッドの作成を拒否しました: {kind}",
        de: "das System hat {asked} Threads verweigert: {kind}",
    }
}

impl Say for BackendError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Refused(refused) => refused.say(lang),
            Self::Threads { asked, kind } => threads_refused(lang, asked, kind),
            Self::Memory(refused) => refused.say(lang),
            Self::Device(fault) => fault.say(lang),
        }
    }
}

impl Say for ArenaRefused {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::BySystem { asked } => arena_refused(lang, asked),
            Self::Taken { asked, left } => arena_taken(lang, asked, left),
        }
    }
}

impl Say for MemoryRefused {
    fn say(&self, lang: Lang) -> String {
        let Self { device, asked, free } = self;
        match free {
            Some(free) => memory_refused(lang, device, asked, free),
            None => memory_refused_unsized(lang, device, asked),
        }
    }
}

impl Say for DeviceFault {
    fn say(&self, lang: Lang) -> String {
        device_failed(lang, &self.device, &self.message)
    }
}

fitgpt_say::displays_english!(ArenaRefused, BackendError, DeviceFault, MemoryRefused);
