//! One sentence for each rule, built from the evidence.

use fitgpt_config::ConfigError;
use fitgpt_say::{Lang, Say};

use super::{open, optional, size};
use crate::{
    cause::{Cause, GrowthSign, HostSign, RequestedTensor, Reservation},
    diagnosis::Finding,
    facts::{Certainty, ShareName, TensorName},
};

fitgpt_say::messages! {
    probably(text) { en: "probably: {text}", zh: "很可能：{text}", ja: "おそらく: {text}", de: "wahrscheinlich: {text}" }
    possibly(text) { en: "possibly: {text}", zh: "有可能：{text}", ja: "可能性あり: {text}", de: "möglich: {text}" }

    host_killed() {
        en: "host memory ran out and the system killed the process",
        zh: "主机内存耗尽：系统终止了进程",
        ja: "ホストのメモリが不足し、システムがプロセスを終了しました",
        de: "der Arbeitsspeicher ist erschöpft: das System hat den Prozess beendet",
    }
    host_worker() {
        en: "host memory ran out and the system killed a data loader worker",
        zh: "主机内存耗尽：系统终止了一个数据加载进程",
        ja: "ホストのメモリが不足し、システムがデータローダーのワーカーを終了しました",
        de: "der Arbeitsspeicher ist erschöpft: das System hat einen Worker des Data-Loaders beendet",
    }
    host_allocator(requested) {
        en: "PyTorch could not allocate {requested} of host memory (not GPU memory)",
        zh: "PyTorch 无法分配 {requested} 主机内存（不是显存）",
        ja: "PyTorch がホストのメモリ（VRAM ではありません）{requested} を確保できませんでした",
        de: "PyTorch konnte {requested} Arbeitsspeicher (nicht Grafikspeicher) nicht anfordern",
    }
    host_pinned() {
        en: "page-locked (pinned) host memory could not be allocated",
        zh: "无法分配锁页（pinned）主机内存",
        ja: "ページロックされた（pinned）ホストメモリを確保できませんでした",
        de: "seitenfixierter (pinned) Arbeitsspeicher konnte nicht angefordert werden",
    }
    host_other() {
        en: "host memory ran out", zh: "主机内存耗尽", ja: "ホストのメモリが不足しました", de: "der Arbeitsspeicher ist erschöpft",
    }
    host_held(text, held) {
        en: "{text}; it held {held}", zh: "{text}；当时占用 {held}", ja: "{text}（使用量 {held}）", de: "{text}; belegt waren {held}",
    }
    shared(required, limit) {
        en: "a kernel needs {required} bytes of shared memory and a multiprocessor has {limit}; this is not GPU memory",
        zh: "某个内核需要 {required} 字节共享内存，而一个多处理器只有 {limit}；这不是显存",
        ja: "カーネルは {required} バイトの共有メモリを必要としますが、マルチプロセッサには {limit} しかありません。これは VRAM ではありません",
        de: "ein Kernel braucht {required} Byte Shared Memory, ein Multiprozessor hat {limit}; das ist nicht der Grafikspeicher",
    }
    shared_unsized() {
        en: "a kernel needs more shared memory than a multiprocessor has",
        zh: "某个内核需要的共享内存超过了多处理器的容量",
        ja: "カーネルに必要な共有メモリが、マルチプロセッサの容量を超えています",
        de: "ein Kernel braucht mehr Shared Memory, als ein Multiprozessor hat",
    }
    invalid_config(message) {
        en: "the config cannot run: {message}", zh: "该配置无法运行：{message}", ja: "この設定では実行できません: {message}", de: "die Konfiguration ist nicht lauffähig: {message}",
    }
    refused_key(key) {
        en: "the script rejected `{key}`", zh: "脚本拒绝了 `{key}`", ja: "スクリプトが `{key}` を拒否しました", de: "das Skript wies `{key}` zurück",
    }
    hidden_by_compiler() {
        en: "the allocation failed during compilation, or is hidden inside a compiler error",
        zh: "分配在编译过程中失败，或被包在编译器的错误里",
        ja: "割り当ての失敗はコンパイラの動作中か、そのエラーの内側で起きています",
        de: "die Allokation schlug fehl, während der Compiler arbeitete, oder steckt in einem seiner Fehler",
    }
    foreign_cause(foreign, free, requested) {
        en: "other processes use {foreign}; together with the {free} free, that is enough for the requested {requested}",
        zh: "其他进程占用了 {foreign}；加上空闲的 {free}，本来放得下 {requested}",
        ja: "他のプロセスが {foreign} を使っています。空きの {free} と合わせれば {requested} は収まったはずです",
        de: "andere Prozesse belegen {foreign}; zusammen mit den freien {free} hätte das für die angeforderten {requested} gereicht",
    }
    foreign_not_cause(foreign, requested, free) {
        en: "other processes use {foreign}, but they are not the cause: {requested} requested, {free} free",
        zh: "其他进程占用了 {foreign}，但这不是原因：申请了 {requested}，空闲 {free}",
        ja: "他のプロセスが {foreign} を使っていますが、原因ではありません: 要求 {requested}、空き {free}",
        de: "andere Prozesse belegen {foreign}, aber daran liegt es nicht: angefordert {requested}, frei {free}",
    }
    free_exceeds(free, requested) {
        en: "{free} was free and only {requested} was requested: capacity is not the cause",
        zh: "空闲 {free}，只申请了 {requested}：容量不是原因",
        ja: "空きは {free}、要求は {requested} だけです。容量が原因ではありません",
        de: "{free} waren frei und nur {requested} angefordert: an der Kapazität liegt es nicht",
    }
    larger_than_card(requested, total) {
        en: "a single request of {requested} is larger than the whole card ({total})",
        zh: "单次申请 {requested} 就超过了整张显卡（{total}）",
        ja: "1 回の要求 {requested} が GPU 全体（{total}）を超えています",
        de: "eine einzige Anforderung von {requested} ist größer als die ganze Karte ({total})",
    }
    larger_than_any_card(requested) {
        en: "a single request of {requested} is larger than any card: a shape has wrong numbers",
        zh: "单次申请 {requested} 超过了任何显卡：某个形状的数值有误",
        ja: "1 回の要求 {requested} はどの GPU よりも大きく、形状の数値に誤りがあります",
        de: "eine einzige Anforderung von {requested} ist größer als jede Karte: eine Form hat falsche Zahlen",
    }
    static_state(parameters, state, copies, total) {
        en: "{parameters} parameters need {state} for weights, gradients and moments, plus {copies} for half-precision copies; the card has {total}: no batch is small enough",
        zh: "{parameters} 个参数的权重、梯度和 Adam 矩需要 {state}，半精度副本还需要 {copies}；显卡只有 {total}：再小的批也放不下",
        ja: "{parameters} 個のパラメータは重み、勾配、モーメントに {state}、半精度コピーに {copies} を必要としますが、GPU は {total} です。バッチをどれだけ小さくしても収まりません",
        de: "{parameters} Parameter brauchen {state} für Gewichte, Gradienten und Momente und {copies} für Kopien in halber Genauigkeit; die Karte hat {total}: kein Batch ist klein genug",
    }
    fragmented(unallocated, requested) {
        en: "{unallocated} was reserved but unused and {requested} was requested: there was enough, but not in one block",
        zh: "已保留但未使用的有 {unallocated}，申请的是 {requested}：总量足够，但不连续",
        ja: "確保済みで未使用の領域が {unallocated}、要求は {requested} でした。合計では足りていましたが、断片化していました",
        de: "{unallocated} waren reserviert, aber ungenutzt, {requested} angefordert: es war genug da, aber nicht am Stück",
    }
    checkpoint() {
        en: "the checkpoint was loaded onto the card, and a second copy of the weights stays there",
        zh: "检查点被加载到了显卡上，那里还留着第二份权重",
        ja: "チェックポイントが GPU に読み込まれ、重みの 2 つ目のコピーが残っています",
        de: "der Checkpoint wurde auf die Karte geladen, wo eine zweite Kopie der Gewichte bleibt",
    }
    checkpoint_sized(copy) {
        en: "the checkpoint was loaded onto the card, and a second copy of the weights stays there ({copy})",
        zh: "检查点被加载到了显卡上，那里还留着第二份权重（{copy}）",
        ja: "チェックポイントが GPU に読み込まれ、重みの 2 つ目のコピー（{copy}）が残っています",
        de: "der Checkpoint wurde auf die Karte geladen, wo eine zweite Kopie der Gewichte bleibt ({copy})",
    }
    optimizer_step() {
        en: "the optimizer step needs additional memory", zh: "优化器更新还需要额外的显存", ja: "オプティマイザの更新には追加のメモリが必要です", de: "der Schritt des Optimierers braucht zusätzlichen Speicher",
    }
    optimizer_moments(moments) {
        en: "the optimizer step needs additional memory: {moments} for the moments",
        zh: "优化器更新还需要额外的显存：Adam 矩需要 {moments}",
        ja: "オプティマイザの更新には追加のメモリが必要です: モーメントに {moments}",
        de: "der Schritt des Optimierers braucht zusätzlichen Speicher: {moments} für Momente",
    }
    /// The account of memory above it has the other parts.
    stale_logits(stale, allocated) {
        en: "the logits of the previous pass are still in memory: {stale} of the {allocated} that tensors hold",
        zh: "上一次前向的 logits 仍被占用：张量占用的 {allocated} 中有 {stale}",
        ja: "前回の順伝播の logits がまだ保持されています: テンソルの {allocated} のうち {stale}",
        de: "die Logits des vorigen Durchlaufs sind noch im Speicher: {stale} der {allocated}, die Tensoren belegen",
    }
    asked_for(requested, what, tensor, shape, dtype) {
        en: "the request of {requested} is for {what}: `{tensor}` {shape} {dtype}",
        zh: "申请了 {requested}：{what}，`{tensor}` {shape} {dtype}",
        ja: "要求は {requested}: {what}、`{tensor}` {shape} {dtype}",
        de: "angefordert wurden {requested}: {what}, `{tensor}` {shape} {dtype}",
    }
    largest_is(what, tensor, shape, dtype) {
        en: "the largest buffer of the compiled program is {what}: `{tensor}` {shape} {dtype}",
        zh: "编译后的程序中最大的缓冲区是{what}：`{tensor}` {shape} {dtype}",
        ja: "コンパイルされたプログラムの最大のバッファ: {what}、`{tensor}` {shape} {dtype}",
        de: "der größte Puffer des kompilierten Programms: {what}, `{tensor}` {shape} {dtype}",
    }
    vocabulary_scores() { en: "logits", zh: "logits", ja: "logits", de: "Logits" }
    attention_scores() { en: "attention scores", zh: "注意力分数", ja: "アテンションスコア", de: "Attention-Scores" }
    mlp_value() { en: "an MLP activation", zh: "MLP 的激活值", ja: "MLP の活性値", de: "eine MLP-Aktivierung" }
    mlp_activation() { en: "mlp activation", zh: "MLP 激活值", ja: "MLP の活性値", de: "MLP-Aktivierung" }
    residual_stream() { en: "residual stream", zh: "残差流", ja: "残差ストリーム", de: "Residualstrom" }
    feed_forward_weight() {
        en: "a weight of the feed-forward layer", zh: "前馈层的权重", ja: "フィードフォワード層の重み", de: "ein Gewicht der Feed-Forward-Schicht",
    }
    embedding() { en: "the embedding", zh: "词嵌入", ja: "埋め込み", de: "das Embedding" }
    attention_projection() {
        en: "a projection of attention", zh: "注意力的投影矩阵", ja: "アテンションの射影行列", de: "eine Projektion der Attention",
    }
    key_projection() { en: "the projection of keys", zh: "键的投影矩阵", ja: "キーの射影行列", de: "die Projektion der Keys" }
    of_generated_code() { en: "generated code's own", zh: "生成代码自己的张量", ja: "生成されたコードのテンソル", de: "ein Tensor des erzeugten Codes" }
    unnamed() { en: "unnamed", zh: "未命名", ja: "名前なし", de: "unbenannt" }
    weight_shape() { en: "a tensor with the shape of a weight", zh: "与权重同形状的张量", ja: "重みと同じ形のテンソル", de: "einen Tensor mit der Form eines Gewichts" }
    supposing(text, model, batch_size, block_size) {
        en: "{text}, if this is {model} with batch_size {batch_size} and block_size {block_size} (no config was given)",
        zh: "{text}，前提是这是 {model}、batch_size {batch_size}、block_size {block_size}（没有给出配置）",
        ja: "{text}（{model}、batch_size {batch_size}、block_size {block_size} だとした場合。設定は与えられていません）",
        de: "{text}, falls dies {model} mit batch_size {batch_size} und block_size {block_size} ist (keine Konfiguration angegeben)",
    }
    evaluation_batch(batch_size, peak, single) {
        en: "the evaluation uses the training batch size of {batch_size} and needs {peak}; one sequence at a time needs {single}",
        zh: "评估沿用了训练的批大小 {batch_size}：{peak}；每次一条序列则只需 {single}",
        ja: "評価が学習と同じバッチサイズ {batch_size} で動いています: {peak}。1 系列ずつなら {single} です",
        de: "die Evaluierung läuft mit der Batchgröße des Trainings, {batch_size}: {peak}; mit je einer Sequenz {single}",
    }
    no_shape(requested) {
        en: "{requested} is the allocator's request for any small tensor, so the number does not identify a tensor",
        zh: "{requested} 是分配器为小张量固定申请的大小：这个数字不对应具体张量",
        ja: "{requested} は、小さなテンソルのためにアロケータが常に要求する大きさです。この数字からテンソルは特定できません",
        de: "{requested} fordert der Allokator für jeden kleinen Tensor an; die Zahl bestimmt keinen Tensor",
    }
    no_match(requested) {
        en: "no tensor of this run has {requested}", zh: "这次运行中没有大小为 {requested} 的张量", ja: "この実行に {requested} のテンソルはありません", de: "kein Tensor dieses Laufs ist {requested} groß",
    }
    unknown_run(requested) {
        en: "the log does not show the model, so {requested} does not identify a tensor",
        zh: "日志没有说明是哪个模型，因此无法从 {requested} 判断是哪个张量",
        ja: "どのモデルかログに示されていないため、{requested} からテンソルは特定できません",
        de: "das Log sagt nicht, welches Modell es ist; {requested} bestimmt daher keinen Tensor",
    }
    no_match_in(requested, model) {
        en: "no known tensor of {model} has {requested}",
        zh: "{model} 中没有大小为 {requested} 的已知张量",
        ja: "{model} の既知のテンソルに {requested} のものはありません",
        de: "kein bekannter Tensor von {model} ist {requested} groß",
    }
    #[expect(clippy::too_many_arguments, reason = "one for each gap")]
    would_match(text, tensor, shape, dtype, model, batch_size, block_size) {
        en: "{text}; {tensor} {shape} {dtype} would have this size in {model} with batch_size {batch_size} and block_size {block_size}",
        zh: "{text}；但在 {model}、batch_size {batch_size}、block_size {block_size} 下，{tensor} {shape} {dtype} 正好是这个大小",
        ja: "{text}。ただし {model}、batch_size {batch_size}、block_size {block_size} なら {tensor} {shape} {dtype} がこの大きさです",
        de: "{text}; {tensor} {shape} {dtype} hätte diese Größe in {model} mit batch_size {batch_size} und block_size {block_size}",
    }

    weights() { en: "weights", zh: "权重", ja: "重み", de: "Gewichte" }
    gradients() { en: "gradients", zh: "梯度", ja: "勾配", de: "Gradienten" }
    optimizer_state() { en: "optimizer state", zh: "优化器状态", ja: "オプティマイザの状態", de: "Optimiererzustand" }
    last_logits() {
        en: "logits of the previous batch", zh: "上一批的 logits", ja: "直前のバッチの logits", de: "Logits des letzten Batches",
    }
    last_micro_logits() {
        en: "logits of the previous micro-batch", zh: "上一 micro-batch 的 logits", ja: "直前のマイクロバッチの logits", de: "Logits des letzten Micro-Batches",
    }
    adapters() { en: "adapters and their state", zh: "适配器及其状态", ja: "アダプタとその状態", de: "Adapter und ihr Zustand" }
    activations() { en: "activations", zh: "激活值", ja: "活性値", de: "Aktivierungen" }
    scratch() { en: "scratch", zh: "临时张量", ja: "一時テンソル", de: "temporäre Tensoren" }
    inputs() { en: "inputs", zh: "输入", ja: "入力", de: "Eingaben" }
    other() { en: "other", zh: "其他", ja: "その他", de: "Sonstiges" }

    unknown() { en: "unknown", zh: "未知", ja: "不明", de: "unbekannt" }

    spilled(allocated, total) {
        en: "tensors hold {allocated} and the card has {total}: the driver moved memory to the host, which is slow, until that failed too",
        zh: "张量占用 {allocated}，而显卡只有 {total}：驱动一直把内存移到主机（很慢），直到这也失败",
        ja: "テンソルは {allocated} を使い、GPU は {total} です。ドライバがメモリをホストへ移し続け（低速）、それも失敗しました",
        de: "Tensoren halten {allocated}, die Karte hat {total}: der Treiber hat Speicher auf den Rechner ausgelagert, was langsam ist, bis auch das scheiterte",
    }
    spilled_as_said() {
        en: "the program uses shared GPU memory: the card is full, and Windows lends it host memory, which is slow",
        zh: "程序在使用共享 GPU 内存：显卡已满，Windows 借用了主机内存，所以很慢",
        ja: "プログラムは共有 GPU メモリを使っています。GPU が埋まり、Windows がホストのメモリを貸しているため低速です",
        de: "das Programm nutzt gemeinsamen GPU-Speicher: die Karte ist voll, und Windows leiht ihr Arbeitsspeicher, was langsam ist",
    }
    unified(allocated, other, limit, requested) {
        en: "Metal allows this program {limit}; tensors hold {allocated}, other allocations {other}, and {requested} more was requested",
        zh: "Metal 允许本程序使用 {limit}；张量占用 {allocated}，其他分配 {other}，又申请了 {requested}",
        ja: "Metal がこのプログラムに許すのは {limit} です。テンソル {allocated}、その他 {other}、さらに {requested} が要求されました",
        de: "Metal erlaubt diesem Programm {limit}; Tensoren belegen {allocated}, andere Allokationen {other}, und weitere {requested} wurden angefordert",
    }
    unified_bare() {
        en: "Metal refused the allocation: the limit for one program or one buffer is reached",
        zh: "Metal 拒绝了分配：已达到单个程序或单个缓冲区的上限",
        ja: "Metal が割り当てを拒否しました。1 プログラムまたは 1 バッファの上限です",
        de: "Metal hat die Allokation abgelehnt: die Grenze für ein Programm oder einen Puffer ist erreicht",
    }
    paging_file_too_small() {
        en: "Windows could not commit memory because the paging file is too small; GPU memory is not the problem",
        zh: "页面文件太小，Windows 无法保留内存；问题不在显存",
        ja: "ページングファイルが小さく、Windows がメモリを確保できませんでした。VRAM の問題ではありません",
        de: "Windows konnte keinen Speicher reservieren, weil die Auslagerungsdatei zu klein ist; am Grafikspeicher liegt es nicht",
    }
    dev_shm() {
        en: "the data loader's workers filled `/dev/shm`, through which they pass batches",
        zh: "数据加载进程占满了用来传递批的 `/dev/shm`",
        ja: "データローダーのワーカーが、バッチの受け渡しに使う `/dev/shm` を使い切りました",
        de: "die Worker des Data-Loaders haben `/dev/shm` gefüllt, über das sie Batches weitergeben",
    }
    device_side_shown() {
        en: "the library error is a consequence: an assertion in an earlier GPU kernel failed, usually because of a token id or label out of range",
        zh: "库的错误只是后果：在它之前 GPU 内核中的检查失败，通常是 token id 或标签超出范围",
        ja: "ライブラリのエラーは結果にすぎません。その前に GPU カーネル内の検査が失敗しています。多くはトークン ID やラベルの範囲外です",
        de: "der Fehler der Bibliothek ist eine Folge: davor schlug eine Assertion in einem GPU-Kernel fehl, meist wegen einer Token-ID oder eines Labels außerhalb des Bereichs",
    }
    device_side() {
        en: "`CUBLAS_STATUS_ALLOC_FAILED` without numbers is either a completely full card or an earlier kernel error such as a token id out of range",
        zh: "没有数字的 `CUBLAS_STATUS_ALLOC_FAILED` 要么是显卡完全占满，要么是之前的内核错误，例如 token id 超出范围",
        ja: "数字のない `CUBLAS_STATUS_ALLOC_FAILED` は、GPU が完全に埋まっているか、トークン ID の範囲外など以前のカーネルエラーです",
        de: "`CUBLAS_STATUS_ALLOC_FAILED` ohne Zahlen ist entweder eine ganz volle Karte oder ein früherer Kernelfehler, etwa eine Token-ID außerhalb des Bereichs",
    }
    kv_cache_sized(needed, available) {
        en: "the KV cache needs {needed}, but only {available} is available",
        zh: "KV cache 需要 {needed}，可用的只有 {available}",
        ja: "KV cache に {needed} 必要ですが、使えるのは {available} です",
        de: "der KV-Cache braucht {needed}, verfügbar sind {available}",
    }
    kv_cache_needs(needed) {
        en: "the KV cache takes {needed}",
        zh: "KV cache 占用 {needed}",
        ja: "KV cache が {needed} を使います",
        de: "der KV-Cache belegt {needed}",
    }
    kv_cache() {
        en: "the KV cache does not fit",
        zh: "KV cache 放不下",
        ja: "KV cache が収まりません",
        de: "der KV-Cache passt nicht",
    }
    kv_cache_tokens(text, tokens) {
        en: "{text} (planned for {tokens} tokens)",
        zh: "{text}（按 {tokens} 个 token 规划）",
        ja: "{text}（{tokens} トークンで計画）",
        de: "{text} (geplant für {tokens} Token)",
    }
    reservation_sized(wanted, free) {
        en: "the server wants to reserve {wanted} of the card, but only {free} is free when it starts",
        zh: "服务器想占用显卡的 {wanted}，启动时空闲的只有 {free}",
        ja: "サーバーは {wanted} を確保しようとしますが、起動時の空きは {free} です",
        de: "der Server will {wanted} der Karte, und beim Start sind {free} frei",
    }
    reservation() {
        en: "the server reserves a fraction of the whole card, regardless of other processes",
        zh: "服务器按整张显卡的比例占用，不管有没有其他进程",
        ja: "サーバーは他のプロセスに関係なく、GPU 全体に対する割合を確保します",
        de: "der Server reserviert einen Anteil der ganzen Karte, gleich welche Prozesse sonst darauf laufen",
    }
    reservation_share(share) {
        en: "the server reserves {share} % of the card; the rest is too little for CUDA graphs and everything outside PyTorch",
        zh: "服务器可以占用显卡的 {share} %；剩下的不够 CUDA 图和 PyTorch 之外的部分使用",
        ja: "サーバーは GPU の {share} % を使えます。残りは CUDA グラフや PyTorch 以外には足りません",
        de: "der Server reserviert {share} % der Karte; der Rest ist zu wenig für CUDA-Graphen und alles außerhalb von PyTorch",
    }
    reservation_left() {
        en: "the server filled the card, and too little is left for CUDA graphs and everything outside PyTorch",
        zh: "服务器占满了显卡，剩下的不够 CUDA 图和 PyTorch 之外的部分使用",
        ja: "サーバーが GPU を埋め、CUDA グラフや PyTorch 以外には足りません",
        de: "der Server hat die Karte gefüllt, und für CUDA-Graphen und alles außerhalb von PyTorch bleibt zu wenig",
    }
    preallocation() {
        en: "XLA reserved most of the card at its first use",
        zh: "XLA 在第一次使用时保留了显卡的大部分",
        ja: "XLA は最初の使用時に GPU の大部分を確保します",
        de: "XLA hat beim ersten Gebrauch den größten Teil der Karte reserviert",
    }
    gathers(line) {
        en: "the evaluation keeps the predictions of all batches on the card until the end (`{line}`)",
        zh: "评估把所有批的预测都留在显卡上直到结束（`{line}`）",
        ja: "評価が全バッチの予測を最後まで GPU に保持しています（`{line}`）",
        de: "die Evaluierung behält die Vorhersagen aller Batches bis zum Ende auf der Karte (`{line}`)",
    }
    gather_on_save() {
        en: "saving gathers the whole model on every card, but it fits only in shards",
        zh: "保存时会在每张卡上汇集整个模型；它只有分片才放得下",
        ja: "保存時に各 GPU へモデル全体が集められます。分割しないと収まりません",
        de: "beim Speichern wird das ganze Modell auf jeder Karte gesammelt; es passt nur in Shards",
    }
    flat_copy_of(requested, model) {
        en: "{requested} is the size of all parameters of {model}: a flat copy for the optimizer or for sharding",
        zh: "{requested} 正好是 {model} 的全部参数连成一块：供优化器或分片使用的平铺副本",
        ja: "{requested} は {model} の全パラメータを 1 つにしたもので、オプティマイザや分割のための平坦なコピーです",
        de: "{requested} sind alle Parameter von {model} in einem Stück: eine flache Kopie für den Optimierer oder das Aufteilen",
    }
    flat_copy(requested) {
        en: "the request of {requested} is for a flat tensor of parameters or optimizer state",
        zh: "申请 {requested} 是为了把参数或优化器状态展平到一个张量里",
        ja: "{requested} は、パラメータやオプティマイザの状態を 1 つのテンソルに平坦化するための要求です",
        de: "{requested} wurden für einen flachen Tensor aus Parametern oder Optimiererzustand angefordert",
    }
    communicator() {
        en: "communication between ranks needs memory: NCCL's buffers, or a copy of all gradients in buckets",
        zh: "rank 之间的通信也需要内存：NCCL 的缓冲区，或按桶存放的全部梯度副本",
        ja: "ランク間の通信にもメモリが必要です。NCCL のバッファや、バケットに入った全勾配のコピーです",
        de: "die Kommunikation zwischen Ranks braucht Speicher: NCCLs Puffer oder eine Kopie aller Gradienten in Buckets",
    }
    weights_of(model, parameters, weights, total) {
        en: "the weights of {model} ({parameters} parameters) need about {weights}; the card has {total}",
        zh: "{model} 的权重（{parameters} 参数）约需 {weights}；显卡有 {total}",
        ja: "{model} の重み（{parameters} パラメータ）は約 {weights} 必要です。GPU は {total} です",
        de: "die Gewichte von {model} ({parameters} Parameter) brauchen etwa {weights}; die Karte hat {total}",
    }
    weights_need(weights, total) {
        en: "the weights need about {weights}; the card has {total}",
        zh: "权重约需 {weights}；显卡有 {total}",
        ja: "重みは約 {weights} 必要です。GPU は {total} です",
        de: "die Gewichte brauchen etwa {weights}; die Karte hat {total}",
    }
    weights_too_large() {
        en: "the weights of the model do not fit while loading",
        zh: "加载时模型的权重放不下",
        ja: "読み込み中にモデルの重みが収まりません",
        de: "die Gewichte des Modells passen beim Laden nicht",
    }
    batch_numbers(allocated, total, requested) {
        en: "the program's tensors hold {allocated} of {total}, and this pass requests {requested} more",
        zh: "程序自己的张量占用了 {total} 中的 {allocated}，又申请了 {requested}",
        ja: "プログラム自身のテンソルが {total} のうち {allocated} を使い、さらに {requested} を要求しています",
        de: "die Tensoren des Programms belegen {allocated} von {total}, und dieser Durchlauf fordert weitere {requested} an",
    }
    batch_shape(shape) {
        en: "one pass allocates a tensor of shape {shape} that does not fit",
        zh: "一次前向或反向要分配形状为 {shape} 的张量，已经放不下",
        ja: "1 回の処理で形状 {shape} のテンソルを作りますが、もう収まりません",
        de: "ein Durchlauf legt einen Tensor der Form {shape} an, der nicht mehr passt",
    }
    batch() {
        en: "one pass needs more memory than the card has left",
        zh: "一次前向或反向所需的显存超过了显卡剩余的",
        ja: "1 回の処理が GPU の残りより多くを必要とします",
        de: "ein Durchlauf braucht mehr, als auf der Karte übrig ist",
    }
    batch_sized(text, batch) {
        en: "{text} (batch {batch})",
        zh: "{text}（批大小 {batch}）",
        ja: "{text}（バッチ {batch}）",
        de: "{text} (Batch {batch})",
    }
    foreign_context() {
        en: "the card had no memory left even for a CUDA context or a few MiB: another process uses it",
        zh: "显卡连一个上下文或几 MiB 都没有了：被其他进程占用",
        ja: "GPU にはコンテキストや数 MiB の空きさえありません。別のプロセスが使っています",
        de: "die Karte hatte nicht einmal mehr Speicher für einen CUDA-Kontext oder einige MiB: ein anderer Prozess belegt ihn",
    }
    foreign_who(text, processes) {
        en: "{text}: {processes}",
        zh: "{text}：{processes}",
        ja: "{text}: {processes} です",
        de: "{text}: {processes}",
    }
    process(pid, size) {
        en: "process {pid} with {size}",
        zh: "进程 {pid} 占用 {size}",
        ja: "プロセス {pid} が {size}",
        de: "Prozess {pid} mit {size}",
    }
    static_of(model, parameters, state, total) {
        en: "training all {parameters} parameters of {model} needs {state} for weights, gradients and Adam's moments; the card has {total}: no batch is small enough",
        zh: "训练 {model} 的全部 {parameters} 参数，权重、梯度和 Adam 矩需要 {state}；显卡有 {total}：再小的批也放不下",
        ja: "{model} の全 {parameters} パラメータを学習するには、重み、勾配、Adam のモーメントに {state} 必要です。GPU は {total} です。バッチを小さくしても収まりません",
        de: "alle {parameters} Parameter von {model} zu trainieren braucht {state} für Gewichte, Gradienten und Adams Momente; die Karte hat {total}: kein Batch ist klein genug",
    }
    line_logits(requested, line) {
        en: "the request of {requested} comes from a line that computes logits: `{line}`",
        zh: "申请 {requested} 的这一行计算 logits：`{line}`",
        ja: "{requested} を要求した行は logits を計算します: `{line}`",
        de: "{requested} hat eine Zeile angefordert, die Logits berechnet: `{line}`",
    }
    line_attention(requested, line) {
        en: "the request of {requested} comes from a line that stores attention scores: `{line}`",
        zh: "申请 {requested} 的这一行存放注意力分数：`{line}`",
        ja: "{requested} を要求した行はアテンションスコアを保存します: `{line}`",
        de: "{requested} hat eine Zeile angefordert, die Attention-Scores speichert: `{line}`",
    }
    sized_logits(requested, shape, dtype) {
        en: "{requested} is the size of the logits {shape} in {dtype}",
        zh: "{requested} 正是 logits {shape}（{dtype}）的大小",
        ja: "{requested} は logits {shape}（{dtype}）の大きさです",
        de: "{requested} ist die Größe der Logits {shape} in {dtype}",
    }
    contradicted(allocated, planned) {
        en: "this config needs {planned} at most, but the log shows {allocated}: it was a different program (unfused attention, another optimizer, another script), so the config is not used for the diagnosis",
        zh: "该配置最多占用 {planned}，而日志中占用 {allocated}：那是另一个程序（未融合的注意力、别的优化器、别的脚本），因此诊断不使用这个配置",
        ja: "この設定の最大は {planned} ですが、ログでは {allocated} です。別のプログラム（融合されていないアテンション、別のオプティマイザ、別のスクリプト）なので、診断にこの設定は使いません",
        de: "diese Konfiguration braucht höchstens {planned}, das Log zeigt {allocated}: es war ein anderes Programm (nicht fusionierte Attention, anderer Optimierer, anderes Skript), daher wird die Konfiguration nicht verwendet",
    }
    grows_described() {
        en: "memory grows during the run: something keeps tensors of earlier steps, such as losses or outputs that are stored with their graph",
        zh: "显存在运行中不断增长：之前各步的张量被保留，例如连同计算图一起保存的损失或输出",
        ja: "実行中にメモリが増え続けています。計算グラフごと保存された損失や出力など、以前のステップのテンソルが残っています",
        de: "der Speicherverbrauch wächst im Lauf: etwas behält Tensoren früherer Schritte, etwa Losses oder Ausgaben samt ihrem Graphen",
    }
    grows_late() {
        en: "many steps fitted before one failed: either tensors of earlier steps are kept, or a later batch is larger",
        zh: "许多步都放得下，之后才失败：要么之前各步的张量被保留，要么后面某一批更大",
        ja: "多くのステップが収まった後で失敗しました。以前のステップのテンソルが残っているか、後のバッチがより大きいかです",
        de: "viele Schritte passten, bevor einer scheiterte: entweder werden Tensoren früherer Schritte behalten, oder ein späterer Batch ist größer",
    }
    measured_pieces(unallocated, requested, largest) {
        en: "{unallocated} was reserved but unused, {requested} was requested, and the largest free block was {largest}",
        zh: "已保留但未使用的有 {unallocated}，申请 {requested}，而最大的空闲块只有 {largest}",
        ja: "確保済みで未使用が {unallocated}、要求は {requested}、最大の空きブロックは {largest} でした",
        de: "{unallocated} waren reserviert, aber ungenutzt, {requested} angefordert, und der größte freie Block hatte {largest}",
    }
}

/// The sentence of a finding. `refused` is why the config is invalid.
pub fn finding(lang: Lang, finding: &Finding, refused: Option<&ConfigError>) -> String {
    let text = sentence(lang, finding, refused);
    match finding.certainty {
        Certainty::Certain => text,
        Certainty::Likely => probably(lang, text),
        Certainty::Unknown => possibly(lang, text),
    }
}

fn sentence(lang: Lang, finding: &Finding, refused: Option<&ConfigError>) -> String {
    match &finding.cause {
        Cause::HostMemory { sign, requested_bytes, held_bytes } => {
            let text = match sign {
                HostSign::Killed => host_killed(lang),
                HostSign::WorkerKilled => host_worker(lang),
                HostSign::HostAllocator => host_allocator(lang, optional(lang, *requested_bytes)),
                HostSign::PageLocked => host_pinned(lang),
                HostSign::Grows => open::host_grows(lang),
                HostSign::Other => host_other(lang),
            };
            match held_bytes {
                Some(held) => host_held(lang, text, size(lang, *held)),
                None => text,
            }
        }
        Cause::SharedMemory { required_bytes: Some(required), limit_bytes: Some(limit) } => {
            shared(lang, required, limit)
        }
        Cause::SharedMemory { .. } => shared_unsized(lang),
        Cause::InvalidConfig { message, key, .. } => match (refused, message, key) {
            (Some(error), _, _) => invalid_config(lang, error.say(lang)),
            (None, Some(message), _) => invalid_config(lang, message),
            (None, None, key) => refused_key(lang, key.clone().unwrap_or_else(|| unknown(lang))),
        },
        Cause::HiddenByCompiler { .. } => hidden_by_compiler(lang),
        Cause::ForeignMemory { .. } => foreign(lang, finding),
        Cause::FreeExceedsRequest { free_bytes, requested_bytes, .. } => {
            free_exceeds(lang, size(lang, *free_bytes), size(lang, *requested_bytes))
        }
        Cause::RequestLargerThanCard { requested_bytes, total_bytes } => match total_bytes {
            Some(total) => larger_than_card(lang, size(lang, *requested_bytes), size(lang, *total)),
            None => larger_than_any_card(lang, size(lang, *requested_bytes)),
        },
        Cause::StaticStateTooLarge {
            model,
            parameter_count,
            state_bytes,
            half_copies_bytes,
            total_bytes,
        } => {
            let (state, total) = (size(lang, *state_bytes), size(lang, *total_bytes));
            match model {
                Some(model) => static_of(lang, model, count(lang, *parameter_count), state, total),
                None => static_state(
                    lang,
                    count(lang, *parameter_count),
                    state,
                    size(lang, *half_copies_bytes),
                    total,
                ),
            }
        }
        Cause::Fragmentation { unallocated_bytes, requested_bytes, largest_piece_bytes } => {
            let (unused, requested) =
                (size(lang, *unallocated_bytes), size(lang, *requested_bytes));
            match largest_piece_bytes {
                Some(largest) => measured_pieces(lang, unused, requested, size(lang, *largest)),
                None => fragmented(lang, unused, requested),
            }
        }
        Cause::CheckpointOnDevice { second_copy_bytes, .. } => match second_copy_bytes {
            Some(bytes) => checkpoint_sized(lang, size(lang, *bytes)),
            None => checkpoint(lang),
        },
        Cause::OptimizerTemporaries { moments_bytes, .. } => match moments_bytes {
            Some(bytes) => optimizer_moments(lang, size(lang, *bytes)),
            None => optimizer_step(lang),
        },
        other => of_tensors(lang, other),
    }
}

/// Causes that are tensors, and requests that no tensor explains.
fn of_tensors(lang: Lang, cause: &Cause) -> String {
    match cause {
        Cause::StaleLogits { stale_bytes, allocated_bytes, .. } => {
            stale_logits(lang, size(lang, *stale_bytes), size(lang, *allocated_bytes))
        }
        Cause::LogitsAtThePeak { asked } => match (&asked.line, &asked.supposing) {
            (Some(line), _) => line_logits(lang, optional(lang, asked.requested_bytes), line),
            (None, None) if asked.tensor == Some(TensorName::Logits) => {
                let dtype = asked.dtype.unwrap_or_default();
                sized_logits(
                    lang,
                    optional(lang, asked.requested_bytes),
                    shape(asked.shape.as_deref()),
                    dtype,
                )
            }
            _ => tensor(lang, asked, vocabulary_scores(lang)),
        },
        Cause::AttentionScores { asked } => match &asked.line {
            Some(line) => line_attention(lang, optional(lang, asked.requested_bytes), line),
            None => tensor(lang, asked, attention_scores(lang)),
        },
        Cause::MlpActivation { asked } => tensor(lang, asked, mlp_value(lang)),
        Cause::WeightShaped { asked } => tensor(lang, asked, weight_shape(lang)),
        Cause::EvaluationUsesTrainingBatch {
            batch_size,
            peak_bytes,
            peak_with_one_sequence_bytes,
        } => evaluation_batch(
            lang,
            batch_size,
            size(lang, *peak_bytes),
            size(lang, *peak_with_one_sequence_bytes),
        ),
        Cause::NoShapeInRequest { requested_bytes } => no_shape(lang, size(lang, *requested_bytes)),
        Cause::NoMatch {
            requested_bytes,
            has_config,
            model,
            would_match,
            planned_bytes,
            allocated_bytes,
        } => {
            if let (Some(planned), Some(allocated)) = (planned_bytes, allocated_bytes) {
                return contradicted(lang, size(lang, *allocated), size(lang, *planned));
            }
            let requested = size(lang, *requested_bytes);
            let text = match model {
                _ if *has_config => no_match(lang, requested),
                Some(model) => no_match_in(lang, requested, model),
                None => unknown_run(lang, requested),
            };
            match would_match {
                Some(asked) => would(lang, text, asked),
                None => text,
            }
        }
        other => of_any_stack(lang, other),
    }
}

/// Causes that do not depend on a config.
fn of_any_stack(lang: Lang, cause: &Cause) -> String {
    match cause {
        Cause::SpilledToHost { allocated_bytes: Some(held), total_bytes: Some(total) } => {
            spilled(lang, size(lang, *held), size(lang, *total))
        }
        Cause::SpilledToHost { .. } => spilled_as_said(lang),
        Cause::UnifiedMemoryLimit {
            allocated_bytes,
            other_bytes,
            limit_bytes: Some(limit),
            requested_bytes,
        } => unified(
            lang,
            optional(lang, *allocated_bytes),
            optional(lang, *other_bytes),
            size(lang, *limit),
            optional(lang, *requested_bytes),
        ),
        Cause::UnifiedMemoryLimit { .. } => unified_bare(lang),
        Cause::PagingFile {} => paging_file_too_small(lang),
        Cause::DevShm {} => dev_shm(lang),
        Cause::NotMemory { failure, line } => open::not_memory(lang, *failure, line.as_deref()),
        Cause::Undecided { .. } => open::undecided(lang, cause),
        Cause::DeviceSideError { is_shown: true } => device_side_shown(lang),
        Cause::DeviceSideError { .. } => device_side(lang),
        Cause::KvCache { needed_bytes, available_bytes, tokens } => {
            let text = match (needed_bytes, available_bytes) {
                (Some(needed), Some(available)) => {
                    kv_cache_sized(lang, size(lang, *needed), size(lang, *available))
                }
                (Some(needed), None) => kv_cache_needs(lang, size(lang, *needed)),
                _ => kv_cache(lang),
            };
            match tokens {
                Some(tokens) => kv_cache_tokens(lang, text, tokens),
                None => text,
            }
        }
        Cause::ServerReservation {
            reservation: kind,
            wanted_bytes,
            free_bytes,
            share_thousandths,
        } => match (kind, wanted_bytes, free_bytes, share_thousandths) {
            (Reservation::Share, Some(wanted), Some(free), _) => {
                reservation_sized(lang, size(lang, *wanted), size(lang, *free))
            }
            (Reservation::Share, ..) => reservation(lang),
            (Reservation::NothingLeft, _, _, Some(share)) => reservation_share(lang, share / 10),
            (Reservation::NothingLeft, ..) => reservation_left(lang),
            (Reservation::Preallocation, ..) => preallocation(lang),
        },
        Cause::EvaluationGathersPredictions { line, .. } if line.is_empty() => {
            open::gathers_as_said(lang)
        }
        Cause::EvaluationGathersPredictions { line, .. } => gathers(lang, line),
        Cause::MemoryGrows { sign: GrowthSign::Described } => grows_described(lang),
        Cause::MemoryGrows { sign: GrowthSign::FailsLate } => grows_late(lang),
        Cause::GatherOnSave { .. } => gather_on_save(lang),
        Cause::FlatCopy { requested_bytes, elements, model } => match (elements, model) {
            (Some(_), Some(model)) => flat_copy_of(lang, optional(lang, *requested_bytes), model),
            _ => flat_copy(lang, optional(lang, *requested_bytes)),
        },
        Cause::CommunicatorBuffers { .. } => communicator(lang),
        Cause::WeightsTooLarge { model, parameter_count, weights_bytes, total_bytes } => {
            match (model, parameter_count, weights_bytes, total_bytes) {
                (Some(model), Some(parameters), Some(bytes), Some(total)) => weights_of(
                    lang,
                    model,
                    count(lang, *parameters),
                    size(lang, *bytes),
                    size(lang, *total),
                ),
                (_, _, Some(bytes), Some(total)) => {
                    weights_need(lang, size(lang, *bytes), size(lang, *total))
                }
                _ => weights_too_large(lang),
            }
        }
        Cause::BatchTooLarge { .. } => of_pass(lang, cause),
        other => other.rule().to_owned(),
    }
}

/// A pass that is too large.
fn of_pass(lang: Lang, cause: &Cause) -> String {
    let Cause::BatchTooLarge {
        allocated_bytes,
        requested_bytes,
        total_bytes,
        batch_size,
        shape: axes,
    } = cause
    else {
        return String::new();
    };
    let text = match (allocated_bytes, total_bytes, requested_bytes, axes) {
        (_, _, _, Some(axes)) => batch_shape(lang, shape(Some(axes))),
        (Some(held), Some(total), Some(requested), _) => {
            batch_numbers(lang, size(lang, *held), size(lang, *total), size(lang, *requested))
        }
        _ => batch(lang),
    };
    match batch_size {
        Some(count) => batch_sized(lang, text, count),
        None => text,
    }
}

/// Other processes on the card.
fn foreign(lang: Lang, finding: &Finding) -> String {
    let Cause::ForeignMemory { foreign_bytes, free_bytes, requested_bytes, processes } =
        &finding.cause
    else {
        return String::new();
    };
    let (free, requested) = (optional(lang, *free_bytes), optional(lang, *requested_bytes));
    let text = match (foreign_bytes, finding.is_cause) {
        (None, _) => foreign_context(lang),
        (Some(bytes), true) => foreign_cause(lang, size(lang, *bytes), free, requested),
        (Some(bytes), false) => foreign_not_cause(lang, size(lang, *bytes), requested, free),
    };
    if processes.is_empty() {
        return text;
    }
    let list = processes.iter().take(4).map(|p| process(lang, p.pid, size(lang, p.bytes)));
    foreign_who(lang, text, list.collect::<Vec<_>>().join(", "))
}

/// Which tensor was asked for.
fn tensor(lang: Lang, asked: &RequestedTensor, what: String) -> String {
    let name = asked.tensor.as_ref().map_or_else(|| unknown(lang), |name| name.say(lang));
    let dtype = asked.dtype.unwrap_or_default();
    let axes = shape(asked.shape.as_deref());
    let text = match asked.requested_bytes {
        Some(requested) => asked_for(lang, size(lang, requested), what, name, axes, dtype),
        None => largest_is(lang, what, name, axes, dtype),
    };
    match asked.supposing {
        Some(run) => supposing(lang, text, run.model, run.batch_size, run.block_size),
        None => text,
    }
}

/// A common run with a tensor of the requested size.
fn would(lang: Lang, text: String, asked: &RequestedTensor) -> String {
    let Some(run) = asked.supposing else { return text };
    let name = asked.tensor.as_ref().map_or_else(|| unknown(lang), |name| name.say(lang));
    let (axes, dtype) = (shape(asked.shape.as_deref()), asked.dtype.unwrap_or_default());
    would_match(lang, text, name, axes, dtype, run.model, run.batch_size, run.block_size)
}

/// Names of a program's tensors are not translated.
impl Say for TensorName {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::AttentionScores => attention_scores(lang),
            Self::MlpActivation => mlp_activation(lang),
            Self::ResidualStream => residual_stream(lang),
            Self::FeedForwardWeight => feed_forward_weight(lang),
            Self::Embedding => embedding(lang),
            Self::AttentionProjection => attention_projection(lang),
            Self::KeyProjection => key_projection(lang),
            Self::OfGeneratedCode => of_generated_code(lang),
            Self::Unnamed => unnamed(lang),
            Self::Logits | Self::OfProgram(_) => self.as_str().to_owned(),
        }
    }
}

/// `(65536, 50304)`, as PyTorch prints it.
fn shape(axes: Option<&[u64]>) -> String {
    let axes: Vec<_> = axes.unwrap_or_default().iter().map(u64::to_string).collect();
    format!("({})", axes.join(", "))
}

/// Names of tensors are not translated.
impl Say for ShareName {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Weights => weights(lang),
            Self::Gradients => gradients(lang),
            Self::OptimizerState => optimizer_state(lang),
            Self::Activations => activations(lang),
            Self::Adapters => adapters(lang),
            Self::LastLogits => last_logits(lang),
            Self::LastMicroLogits => last_micro_logits(lang),
            Self::Scratch => scratch(lang),
            Self::Inputs => inputs(lang),
            Self::Other => other(lang),
            Self::Logits | Self::Tensor(_) => self.as_str().to_owned(),
        }
    }
}

/// `6.74B`, `124.4M` or the number itself, with the language's decimal separator.
fn count(lang: Lang, number: u64) -> String {
    let text = match number {
        1_000_000_000.. => format!("{:.2}B", number as f64 / 1e9),
        1_000_000.. => format!("{:.1}M", number as f64 / 1e6),
        _ => number.to_string(),
    };
    if lang == Lang::German { text.replace('.', ",") } else { text }
}
