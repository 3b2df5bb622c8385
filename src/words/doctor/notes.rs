//! Lines of a log that people take for the cause, and what they are.

messages! {
    few_multiprocessors() {
        en: "`Not enough SMs` is harmless: it disables one autotuner",
        zh: "`Not enough SMs` 只是关闭了一种自动调优",
        ja: "`Not enough SMs` はチューナーの一つが無効になるだけです",
        de: "`Not enough SMs` schaltet nur einen Tuner ab",
    }
    grad_scaler() {
        en: "the `GradScaler` warning is about a renamed function",
        zh: "`GradScaler` 的警告只是名称变更",
        ja: "`GradScaler` の警告は名前の変更についてのものです",
        de: "bei der `GradScaler`-Warnung geht es um einen Namen",
    }
    autocast() {
        en: "the `autocast` warning is about a renamed function",
        zh: "`autocast` 的警告只是名称变更",
        ja: "`autocast` の警告は名前の変更についてのものです",
        de: "bei der `autocast`-Warnung geht es um einen Namen",
    }
    weights_only() {
        en: "the `weights_only` warning is about safety, not memory",
        zh: "`weights_only` 的警告涉及安全，与显存无关",
        ja: "`weights_only` の警告は安全性についてで、メモリとは無関係です",
        de: "die `weights_only`-Warnung betrifft die Sicherheit, nicht den Speicher",
    }
    fragmentation_hint() {
        en: "PyTorch prints the advice about fragmentation in every such message",
        zh: "关于碎片的建议会出现在每一条此类错误信息里",
        ja: "断片化についての助言は、この種のメッセージには必ず付きます",
        de: "der Rat zur Fragmentierung steht in jeder solchen Meldung",
    }
    matmul_precision() {
        en: "the TensorFloat32 warning is about speed", zh: "TensorFloat32 的警告只关乎速度", ja: "TensorFloat32 の警告は速度についてのものです", de: "bei der TensorFloat32-Warnung geht es um Tempo",
    }
    omp_threads() {
        en: "`OMP_NUM_THREADS` is about the host's threads", zh: "`OMP_NUM_THREADS` 只关乎主机的线程数", ja: "`OMP_NUM_THREADS` はホスト側のスレッド数の話です", de: "`OMP_NUM_THREADS` betrifft die Threads des Rechners",
    }
    process_group() {
        en: "the process group's warning follows from the failure",
        zh: "进程组的警告是失败的后果",
        ja: "プロセスグループの警告は失敗の結果として出たものです",
        de: "die Warnung der Prozessgruppe folgt aus dem Fehler",
    }
    slow_attention() {
        en: "this PyTorch has no fused attention: scores are written out",
        zh: "这个版本的 PyTorch 没有融合注意力：注意力分数会完整写入显存",
        ja: "この PyTorch には融合アテンションがなく、スコアがすべてメモリに書き出されます",
        de: "dieses PyTorch hat keine fusionierte Attention: die Scores werden ausgeschrieben",
    }
    asynchronous() {
        en: "the traceback may point behind the op that failed",
        zh: "回溯所指的位置可能在真正失败的算子之后",
        ja: "トレースバックは失敗した演算より後を指していることがあります",
        de: "der Traceback kann hinter die Op zeigen, die fehlschlug",
    }
    scheduler_order() {
        en: "the scheduler's warning is about the learning rate", zh: "调度器的警告只关乎学习率", ja: "スケジューラの警告は学習率についてのものです", de: "bei der Warnung des Schedulers geht es um die Lernrate",
    }
    choice_skipped() {
        en: "Triton's `out of resource` lines are choices that a tuner skipped",
        zh: "Triton 的 `out of resource` 行是调优时跳过的候选配置",
        ja: "Triton の `out of resource` の行は、チューナーが飛ばした候補です",
        de: "Tritons `out of resource`-Zeilen sind Varianten, die ein Tuner übersprang",
    }
    harmless() { en: "harmless", zh: "无害", ja: "無害です", de: "harmlos" }
}

/// A harmless line of the log, by its name.
pub(crate) fn note(name: &str) -> String {
    match name {
        "few-multiprocessors" => few_multiprocessors(),
        "grad-scaler-deprecated" => grad_scaler(),
        "autocast-deprecated" => autocast(),
        "load-weights-only" => weights_only(),
        "fragmentation-hint" => fragmentation_hint(),
        "matmul-precision" => matmul_precision(),
        "omp-threads" => omp_threads(),
        "process-group-not-destroyed" => process_group(),
        "slow-attention" => slow_attention(),
        "asynchronous-report" => asynchronous(),
        "lr-scheduler-order" => scheduler_order(),
        "kernel-choice-skipped" => choice_skipped(),
        _ => harmless(),
    }
}
