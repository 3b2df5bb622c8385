//! What ranks say of each other.

use fitgpt_say::{Lang, Say};

use super::{
    Silent,
    agree::{Mismatch, RankName},
    launcher::LaunchError,
};

fitgpt_say::messages! {
    /// A rank, before its error or in a sentence.
    name(rank, host) {
        en: "[rank {rank}, host {host}]", zh: "[rank {rank}, 主机 {host}]", ja: "[rank {rank}, ホスト {host}]", de: "[Rank {rank}, Host {host}]",
    }
    /// A rank that has died or hangs.
    silent(rank, seconds) {
        en: "{rank} has not answered for {seconds} s; the run ends, and the last checkpoint is kept",
        zh: "{rank} 已有 {seconds} 秒没有应答；运行结束，最近的检查点保持不变",
        ja: "{rank} から {seconds} 秒間応答がありません。実行を終了します。最後のチェックポイントは残ります",
        de: "{rank} antwortet seit {seconds} s nicht; der Lauf endet, der letzte Checkpoint bleibt",
    }
    not_in_this_build(variable, count) {
        en: "a launcher started {count} processes (`{variable}`), but this build has no MPI",
        zh: "启动器开启了 {count} 个进程（`{variable}`），而此版本不含 MPI",
        ja: "ランチャーが {count} 個のプロセスを起動しましたが（`{variable}`）、このビルドには MPI がありません",
        de: "ein Launcher hat {count} Prozesse gestartet (`{variable}`), aber dieser Build hat kein MPI",
    }
    not_started() {
        en: "MPI cannot be started in this process",
        zh: "无法在此进程中启动 MPI",
        ja: "このプロセスで MPI を開始できません",
        de: "MPI lässt sich in diesem Prozess nicht starten",
    }
    differ(what, other, root) {
        en: "{what} of {other} and {root} differ",
    }
}

impl Say for RankName {
    fn say(&self, lang: Lang) -> String {
        name(lang, self.rank, &self.host)
    }
}

impl Say for Silent {
    fn say(&self, lang: Lang) -> String {
        silent(lang, self.rank.say(lang), self.seconds)
    }
}

impl Say for LaunchError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NotInThisBuild { variable, count } => not_in_this_build(lang, variable, count),
            Self::NotStarted => not_started(lang),
        }
    }
}

impl Say for Mismatch {
    fn say(&self, lang: Lang) -> String {
        differ(lang, self.what, self.other.say(lang), self.root.say(lang))
    }
}

fitgpt_say::displays_english!(LaunchError, Mismatch, RankName, Silent);
