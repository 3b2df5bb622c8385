//! Harmless lines of a log that are often mistaken for the cause.

use fitgpt_say::{Lang, Say};

use crate::parse::HarmlessLine;

fitgpt_say::messages! {
    few_multiprocessors() {
        en: "`Not enough SMs` is harmless: it disables one autotuner",
        zh: "`Not enough SMs` 无害：只是关闭了一种自动调优",
        ja: "`Not enough SMs` は無害です。自動チューニングの 1 つが無効になるだけです",
        de: "`Not enough SMs` ist harmlos: ein Autotuner wird abgeschaltet",
    }
    grad_scaler() {
        en: "the `GradScaler` warning is about a renamed function",
        zh: "`GradScaler` 的警告只是名称变更",
        ja: "`GradScaler` の警告は名前の変更についてのものです",
        de: "die `GradScaler`-Warnung betrifft eine umbenannte Funktion",
    }
    autocast() {
        en: "the `autocast` warning is about a renamed function",
        zh: "`autocast` 的警告只是名称变更",
        ja: "`autocast` の警告は名前の変更についてのものです",
        de: "die `autocast`-Warnung betrifft eine umbenannte Funktion",
    }
    weights_only() {
        en: "the `weights_only` warning is about safety, not memory",
        zh: "`weights_only` 的警告涉及安全，与显存无关",
        ja: "`weights_only` の警告は安全性についてで、メモリとは無関係です",
        de: "die `weights_only`-Warnung betrifft die Sicherheit, nicht den Speicher",
    }
    fragmentation_hint() {
        en: "PyTorch prints the hint about fragmentation in every such message; it does not apply here",
        zh: "PyTorch 在每条此类报错里都附带碎片化的提示；这里并不适用",
        ja: "断片化についてのヒントは、この種のメッセージに必ず付きます。ここでは当てはまりません",
        de: "den Hinweis zur Fragmentierung druckt PyTorch in jeder solchen Meldung; hier trifft er nicht zu",
    }
    matmul_precision() {
        en: "the TensorFloat32 warning is about speed", zh: "TensorFloat32 的警告只关乎速度", ja: "TensorFloat32 の警告は速度についてのものです", de: "die TensorFloat32-Warnung betrifft die Geschwindigkeit",
    }
    omp_threads() {
        en: "the `OMP_NUM_THREADS` warning is about CPU threads", zh: "`OMP_NUM_THREADS` 只关乎主机的线程数", ja: "`OMP_NUM_THREADS` はホスト側のスレッド数の話です", de: "`OMP_NUM_THREADS` betrifft die Threads des Rechners",
    }
    process_group() {
        en: "the process group warning is a consequence of the failure",
        zh: "进程组的警告是失败的后果",
        ja: "プロセスグループの警告は失敗の結果として出たものです",
        de: "die Warnung der Prozessgruppe ist eine Folge des Fehlers",
    }
    slow_attention() {
        en: "this PyTorch has no fused attention, so attention scores are stored in memory",
        zh: "这个版本的 PyTorch 没有融合注意力：注意力分数会完整写入显存",
        ja: "この PyTorch には融合アテンションがなく、スコアがすべてメモリに書き出されます",
        de: "dieses PyTorch hat keine fusionierte Attention: die Attention-Scores liegen im Speicher",
    }
    asynchronous() {
        en: "the traceback may point to a later op than the one that failed",
        zh: "回溯所指的位置可能在真正失败的算子之后",
        ja: "トレースバックは失敗した演算より後を指していることがあります",
        de: "der Traceback kann auf eine spätere Operation zeigen als die, die fehlschlug",
    }
    scheduler_order() {
        en: "the scheduler's warning is about the learning rate", zh: "调度器的警告只关乎学习率", ja: "スケジューラの警告は学習率についてのものです", de: "die Warnung des Schedulers betrifft die Lernrate",
    }
    choice_skipped() {
        en: "Triton's `out of resource` lines are configurations that the autotuner skipped",
        zh: "Triton 的 `out of resource` 行是调优时跳过的候选配置",
        ja: "Triton の `out of resource` の行は、自動チューニングが飛ばした候補です",
        de: "Tritons `out of resource`-Zeilen sind Varianten, die der Autotuner übersprang",
    }
}

impl Say for HarmlessLine {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::FewMultiprocessors => few_multiprocessors(lang),
            Self::GradScalerDeprecated => grad_scaler(lang),
            Self::AutocastDeprecated => autocast(lang),
            Self::LoadWeightsOnly => weights_only(lang),
            Self::FragmentationHint => fragmentation_hint(lang),
            Self::MatmulPrecision => matmul_precision(lang),
            Self::OmpThreads => omp_threads(lang),
            Self::ProcessGroupNotDestroyed => process_group(lang),
            Self::SlowAttention => slow_attention(lang),
            Self::AsynchronousReport => asynchronous(lang),
            Self::LrSchedulerOrder => scheduler_order(lang),
            Self::KernelChoiceSkipped => choice_skipped(lang),
        }
    }
}
