//! What a log leaves open: the explanations that remain, in a few words each.

use fitgpt_say::Lang;

use super::{optional, size, sum};
use crate::{
    budget::Budget,
    cause::{Cause, OtherFailure},
};

fitgpt_say::messages! {
    open_between(list) {
        en: "the log does not show the cause; it may be: {list}",
        zh: "日志没有显示原因；可能是：{list}",
        ja: "原因はログに示されていません。考えられるもの: {list}",
        de: "das Log zeigt die Ursache nicht; möglich sind: {list}",
    }
    open_with_numbers(held, total, requested, list) {
        en: "PyTorch held {held} of {total} when {requested} were requested; the log does not show what fills the card. It may be: {list}",
        zh: "申请 {requested} 时，PyTorch 占用了 {total} 中的 {held}；日志没有显示显存被什么占满。可能是：{list}",
        ja: "{requested} を要求した時点で PyTorch は {total} のうち {held} を保持していました。何が占めているかはログに示されていません。考えられるもの: {list}",
        de: "PyTorch hielt {held} von {total}, als {requested} angefordert wurden; das Log zeigt nicht, was die Karte füllt. Möglich sind: {list}",
    }
    pass() { en: "the activations of a pass", zh: "一次传播的激活值", ja: "1 回の計算の活性値", de: "die Aktivierungen eines Durchlaufs" }
    state() {
        en: "weights, gradients and optimizer state",
        zh: "权重、梯度和优化器状态",
        ja: "重み、勾配、オプティマイザの状態",
        de: "Gewichte, Gradienten und Zustand des Optimierers",
    }
    the_weights() { en: "the weights alone", zh: "仅权重", ja: "重みだけ", de: "die Gewichte allein" }
    others() { en: "other processes on the card", zh: "显卡上的其他进程", ja: "GPU 上の他のプロセス", de: "andere Prozesse auf der Karte" }
    the_host() { en: "host memory", zh: "主机内存", ja: "ホストのメモリ", de: "der Arbeitsspeicher" }
    the_cache() { en: "the KV cache", zh: "KV 缓存", ja: "KV キャッシュ", de: "der KV-Cache" }
    a_save() { en: "weights gathered for a save", zh: "为保存而聚合的权重", ja: "保存のために集められた重み", de: "für das Speichern gesammelte Gewichte" }
    a_checkpoint() { en: "a checkpoint loaded onto the card", zh: "加载到显卡上的检查点", ja: "GPU に読み込まれたチェックポイント", de: "ein auf die Karte geladener Checkpoint" }
    safe_mark(text) { en: "{text} (safe whatever the cause is)", zh: "{text}（无论原因为何都无妨）", ja: "{text}（原因が何であっても無害）", de: "{text} (unschädlich, was auch die Ursache ist)" }

    budget_is(model, sum, total, usable) {
        en: "arithmetic: {model} needs {sum} = {total} before any activation; the card has {usable}",
        zh: "算术：{model} 在任何激活值之前就需要 {sum} = {total}；显卡有 {usable}",
        ja: "計算: {model} は活性値の前に {sum} = {total} を必要とします。GPU は {usable} です",
        de: "Rechnung: {model} braucht vor jeder Aktivierung {sum} = {total}; die Karte hat {usable}",
    }
    host_grows() {
        en: "the process's host memory grows from step to step",
        zh: "进程占用的主机内存随步数不断增长",
        ja: "プロセスのホストメモリがステップごとに増えています",
        de: "der Arbeitsspeicher des Prozesses wächst von Schritt zu Schritt",
    }
    not_memory_assert() {
        en: "this is not a memory error: an assertion in a GPU kernel failed, usually because of a token id or label out of range",
        zh: "这不是内存问题：GPU 内核中的检查失败，通常是 token id 或标签超出范围",
        ja: "メモリ不足ではありません。GPU カーネル内のアサーションが失敗しました。多くはトークン ID やラベルの範囲外です",
        de: "das ist kein Speicherfehler: eine Assertion in einem GPU-Kernel schlug fehl, meist wegen einer Token-ID oder eines Labels außerhalb des Bereichs",
    }
    not_memory_access() {
        en: "this is not a memory shortage: a GPU kernel accessed an illegal address",
        zh: "这不是内存问题：GPU 内核访问了非法地址",
        ja: "メモリ不足ではありません。GPU カーネルが不正なアドレスにアクセスしました",
        de: "das ist kein Speichermangel: ein GPU-Kernel griff auf eine unzulässige Adresse zu",
    }
    not_memory_watchdog() {
        en: "this is not a memory error: the system stopped the GPU because it computed for too long without a pause for the display",
        zh: "这不是内存问题：GPU 连续计算太久、没有为显示留出时间，被系统终止",
        ja: "メモリ不足ではありません。GPU が画面表示のための間を置かずに長く計算したため、システムが停止しました",
        de: "das ist kein Speicherfehler: das System hat die GPU angehalten, weil sie zu lange ohne Pause für die Anzeige rechnete",
    }
    not_memory_worker() {
        en: "this is not a memory error: a data loader worker crashed",
        zh: "这不是内存问题：一个数据加载进程崩溃了",
        ja: "メモリ不足ではありません。データローダーのワーカーがクラッシュしました",
        de: "das ist kein Speicherfehler: ein Worker des Data-Loaders ist abgestürzt",
    }
    not_memory_nccl() {
        en: "this is not a memory error: a collective operation failed or timed out",
        zh: "这不是内存问题：集合通信失败或超时",
        ja: "メモリ不足ではありません。集団通信が失敗したか、タイムアウトしました",
        de: "das ist kein Speicherfehler: eine kollektive Operation schlug fehl oder dauerte zu lange",
    }
    not_memory_error(line) {
        en: "this is not a memory error: the program ended with `{line}`",
        zh: "这不是内存问题：程序以 `{line}` 结束",
        ja: "メモリ不足ではありません。プログラムは `{line}` で終了しました",
        de: "das ist kein Speicherfehler: das Programm endete mit `{line}`",
    }
    gathers_as_said() {
        en: "the predictions of the whole evaluation are kept on the card until its end",
        zh: "整个评估的预测结果都留在显卡上，直到结束",
        ja: "評価全体の予測が、終わるまで GPU 上に保持されています",
        de: "die Vorhersagen der ganzen Evaluierung bleiben bis zu ihrem Ende auf der Karte",
    }
}

/// The state of a model against its card.
pub(super) fn budget(lang: Lang, budget: &Budget) -> String {
    let (total, usable) = (size(lang, budget.usual_bytes), size(lang, budget.usable_bytes));
    budget_is(lang, budget.model.clone(), sum(lang, &budget.parts), total, usable)
}

/// The explanations that remain, with the certain numbers.
pub(super) fn undecided(lang: Lang, cause: &Cause) -> String {
    let Cause::Undecided { explanations, allocated_bytes, total_bytes, requested_bytes } = cause
    else {
        return String::new();
    };
    let list: Vec<String> = explanations.iter().map(|name| explanation(lang, name)).collect();
    let list =
        list.join(if lang == Lang::Chinese || lang == Lang::Japanese { "、" } else { "; " });
    match (allocated_bytes, total_bytes) {
        (Some(held), Some(total)) => open_with_numbers(
            lang,
            size(lang, *held),
            size(lang, *total),
            optional(lang, *requested_bytes),
            list,
        ),
        _ => open_between(lang, list),
    }
}

fn explanation(lang: Lang, rule: &str) -> String {
    match rule {
        "batch-too-large" => pass(lang),
        "static-state-too-large" => state(lang),
        "weights-too-large" => the_weights(lang),
        "foreign-memory" => others(lang),
        "host-memory" => the_host(lang),
        "kv-cache" => the_cache(lang),
        "gather-on-save" => a_save(lang),
        "checkpoint-on-device" => a_checkpoint(lang),
        other => other.to_owned(),
    }
}

/// A failure that is not about memory.
pub(super) fn not_memory(lang: Lang, failure: OtherFailure, line: Option<&str>) -> String {
    match failure {
        OtherFailure::DeviceAssert => not_memory_assert(lang),
        OtherFailure::IllegalAccess => not_memory_access(lang),
        OtherFailure::Watchdog => not_memory_watchdog(lang),
        OtherFailure::WorkerCrashed => not_memory_worker(lang),
        OtherFailure::Communicator => not_memory_nccl(lang),
        OtherFailure::Exception => not_memory_error(lang, line.unwrap_or_default()),
    }
}
