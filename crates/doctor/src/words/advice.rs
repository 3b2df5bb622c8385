//! Recommendations and questions: one sentence each.

use fitgpt_say::{Lang, Say};

use crate::remedy::{Question, Remedy};

fitgpt_say::messages! {
    smaller_micro_batch() {
        en: "use a smaller micro-batch and accumulate gradients over more of them: the step stays the same",
        zh: "减小 micro-batch 并增加梯度累积：每一步的训练不变",
        ja: "マイクロバッチを小さくし、勾配累積を増やす。ステップの内容は変わりません",
        de: "kleinere Micro-Batches mit mehr Gradientenakkumulation: der Schritt bleibt derselbe",
    }
    gradient_checkpointing() {
        en: "recompute activations in the backward pass instead of keeping them; costs about a third more compute",
        zh: "反向传播时重新计算激活值而不保存；计算量约增加三分之一",
        ja: "活性値を保持せず逆伝播で再計算する。計算量は約 3 分の 1 増えます",
        de: "Aktivierungen im Rückwärtslauf neu berechnen statt behalten; kostet etwa ein Drittel mehr Rechenzeit",
    }
    shorter_sequences() {
        en: "shorten the sequences: activations and logits grow with every token",
        zh: "缩短序列：激活值和 logits 随每个 token 增长",
        ja: "系列を短くする。活性値と logits はトークンごとに増えます",
        de: "kürzere Sequenzen: Aktivierungen und Logits wachsen mit jedem Token",
    }
    smaller_input() {
        en: "use smaller images, crops or inputs: activations grow with their area",
        zh: "使用更小的图像、裁剪或输入：激活值随面积增长",
        ja: "画像や入力を小さくする。活性値は面積とともに増えます",
        de: "kleinere Bilder, Ausschnitte oder Eingaben: Aktivierungen wachsen mit deren Fläche",
    }
    half_precision() {
        en: "compute in bfloat16 or float16: activations need half the memory",
        zh: "用 bfloat16 或 float16 计算：激活值只需一半内存",
        ja: "bfloat16 か float16 で計算する。活性値のメモリが半分になります",
        de: "in bfloat16 oder float16 rechnen: Aktivierungen brauchen die Hälfte",
    }
    lora() {
        en: "train adapters (LoRA) instead of all weights: gradients and moments shrink to a few percent",
        zh: "只训练适配器（LoRA）而不是全部权重：梯度和 Adam 矩缩小到百分之几",
        ja: "全重みの代わりにアダプタ（LoRA）だけを学習する。勾配とモーメントは数パーセントになります",
        de: "Adapter (LoRA) statt aller Gewichte trainieren: Gradienten und Momente schrumpfen auf wenige Prozent",
    }
    eight_bit_adam() {
        en: "use an 8-bit Adam: its moments need 2 bytes per parameter instead of 8",
        zh: "使用 8 位 Adam：每个参数的矩从 8 字节降到 2 字节",
        ja: "8 ビットの Adam を使う。モーメントは 1 パラメータ 8 バイトから 2 バイトになります",
        de: "8-Bit-Adam verwenden: Momente brauchen 2 statt 8 Byte je Parameter",
    }
    fused_adam() {
        en: "use the fused AdamW, which needs no temporary tensors",
        zh: "使用融合的 AdamW（fused），它不需要临时张量",
        ja: "一時テンソルを作らない fused AdamW を使う",
        de: "das fusionierte AdamW verwenden, das keine temporären Tensoren anlegt",
    }
    zero_offload() {
        en: "keep the optimizer state in host memory",
        zh: "把优化器状态放在主机内存中",
        ja: "オプティマイザの状態をホストのメモリに置く",
        de: "den Optimiererzustand im Arbeitsspeicher halten",
    }
    zero_stage_3() {
        en: "shard weights, gradients and moments over the cards (ZeRO-3), and offload to the host if that is not enough",
        zh: "在多张卡之间切分权重、梯度和 Adam 矩（ZeRO-3），不够时再卸载到主机",
        ja: "重み、勾配、モーメントを GPU 間で分割し（ZeRO-3）、足りなければホストに退避する",
        de: "Gewichte, Gradienten und Momente auf die Karten verteilen (ZeRO-3), notfalls mit Auslagerung auf den Rechner",
    }
    fsdp() {
        en: "shard the model over several cards",
        zh: "把模型切分到多张卡上",
        ja: "モデルを複数の GPU に分割する",
        de: "das Modell auf mehrere Karten aufteilen",
    }
    loss_alone() {
        en: "return only the loss from `forward` while training: compiled, that saves up to two tensors as large as the logits and changes no number",
        zh: "训练时让 `forward` 只返回损失：编译后最多少占两个与 logits 一样大的张量，且不改变任何数值",
        ja: "学習中は `forward` が損失だけを返すようにする。コンパイル時は logits と同じ大きさのテンソルが最大 2 つ減り、数値は変わりません",
        de: "`forward` im Training nur den Loss zurückgeben lassen: kompiliert spart das bis zu zwei Tensoren von der Größe der Logits und ändert keine Zahl",
    }
    chunked_loss() {
        en: "compute logits and loss in chunks, so that the full logits are never stored",
        zh: "分块计算 logits 和损失，避免存放完整的 logits",
        ja: "logits と損失を分割して計算し、logits 全体を作らない",
        de: "Logits und Loss stückweise berechnen, sodass die vollen Logits nie gespeichert werden",
    }
    keep_numbers() {
        en: "keep numbers, not tensors: a stored loss or output keeps all activations of its step alive",
        zh: "保存数值而不是张量：被保存的损失或输出会让该步的所有激活值一直存活",
        ja: "テンソルではなく数値を残す。保存した損失や出力は、そのステップの活性値をすべて残します",
        de: "Zahlen statt Tensoren behalten: ein gespeicherter Loss oder eine Ausgabe hält alle Aktivierungen ihres Schritts",
    }
    drop_stale_logits() {
        en: "do not keep the logits of the previous batch in a variable",
        zh: "不要让上一批的 logits 继续被变量引用",
        ja: "前のバッチの logits を変数に残さない",
        de: "die Logits des vorigen Batches nicht in einer Variablen behalten",
    }
    fused_attention() {
        en: "use fused attention (SDPA, FlashAttention, xFormers), which never stores the scores",
        zh: "使用融合注意力（SDPA、FlashAttention、xFormers），它不会存放注意力分数",
        ja: "スコアをメモリに保存しない融合アテンション（SDPA、FlashAttention、xFormers）を使う",
        de: "fusionierte Attention verwenden (SDPA, FlashAttention, xFormers), die die Scores nie speichert",
    }
    eval_batch() {
        en: "use a smaller batch for evaluation than for training",
        zh: "评估时使用比训练更小的批",
        ja: "評価では学習より小さいバッチを使う",
        de: "für die Evaluierung einen kleineren Batch als für das Training verwenden",
    }
    eval_accumulation() {
        en: "move predictions to the host during the evaluation, or keep only the argmax",
        zh: "评估过程中把预测移到主机，或只保留 argmax",
        ja: "評価の途中で予測をホストに移すか、argmax だけを残す",
        de: "Vorhersagen während der Evaluierung in den Arbeitsspeicher verschieben oder nur das Argmax behalten",
    }
    no_grad() {
        en: "run without an autograd graph: under `torch.inference_mode()`, nothing is kept for a backward pass",
        zh: "不建立计算图：在 `torch.inference_mode()` 下不会为反向传播保留任何东西",
        ja: "計算グラフなしで実行する。`torch.inference_mode()` では逆伝播用に何も保持されません",
        de: "ohne Graph rechnen: unter `torch.inference_mode()` wird nichts für einen Rückwärtslauf behalten",
    }
    load_to_cpu() {
        en: "load the checkpoint into host memory first",
        zh: "先把检查点加载到主机内存",
        ja: "チェックポイントをまずホストのメモリに読み込む",
        de: "den Checkpoint zuerst in den Arbeitsspeicher laden",
    }
    full_state_offload() {
        en: "gather the full state dict on the host, on rank 0 only",
        zh: "在主机上、仅由 rank 0 汇集完整的 state dict",
        ja: "完全な state dict はホスト上で、rank 0 だけで集める",
        de: "das vollständige State-Dict im Arbeitsspeicher sammeln, nur auf Rank 0",
    }
    sharded_state_dict() {
        en: "save shards instead of one full checkpoint",
        zh: "保存分片，而不是一个完整的检查点",
        ja: "1 つの完全なチェックポイントではなく分割して保存する",
        de: "Shards speichern statt eines vollständigen Checkpoints",
    }
    quantize_weights() {
        en: "load the weights in 4 or 8 bits",
        zh: "以 4 位或 8 位加载权重",
        ja: "重みを 4 ビットか 8 ビットで読み込む",
        de: "die Gewichte in 4 oder 8 Bit laden",
    }
    device_map() {
        en: "spread the layers over several cards and host memory",
        zh: "把各层分布到多张卡和主机内存",
        ja: "層を複数の GPU とホストのメモリに分散する",
        de: "die Schichten auf mehrere Karten und den Arbeitsspeicher verteilen",
    }
    tensor_parallel() {
        en: "serve the model on several cards",
        zh: "用多张卡提供服务",
        ja: "複数の GPU でモデルを提供する",
        de: "das Modell auf mehreren Karten bereitstellen",
    }
    smaller_model() {
        en: "use a smaller model",
        zh: "使用更小的模型",
        ja: "より小さいモデルを使う",
        de: "ein kleineres Modell verwenden",
    }
    gpu_memory_utilization() {
        en: "set the server's fraction of the card to what is actually free",
        zh: "把服务器占用的显存比例设为实际空闲的大小",
        ja: "サーバーの占有率を実際の空きに合わせる",
        de: "den Anteil des Servers an der Karte auf das setzen, was wirklich frei ist",
    }
    max_model_len() {
        en: "limit the context length: the server plans for the longest that the model supports",
        zh: "限制上下文长度：服务器按模型允许的最大长度规划",
        ja: "コンテキスト長を制限する。サーバーはモデルの最大長で計画します",
        de: "die Kontextlänge begrenzen: der Server plant mit der längsten, die das Modell erlaubt",
    }
    enforce_eager() {
        en: "serve without CUDA graphs",
        zh: "不使用 CUDA 图提供服务",
        ja: "CUDA グラフなしで提供する",
        de: "ohne CUDA-Graphen betreiben",
    }
    smaller_context() {
        en: "limit the context length",
        zh: "限制上下文长度",
        ja: "コンテキスト長を制限する",
        de: "die Kontextlänge begrenzen",
    }
    quantized_kv() {
        en: "store keys and values in 8 bits",
        zh: "以 8 位存储键和值",
        ja: "キーとバリューを 8 ビットで保存する",
        de: "Keys und Values in 8 Bit speichern",
    }
    fewer_gpu_layers() {
        en: "put fewer layers on the card; the rest runs on the CPU",
        zh: "减少放到显卡上的层数；其余在 CPU 上运行",
        ja: "GPU に置く層を減らす。残りは CPU で動きます",
        de: "weniger Schichten auf die Karte legen; der Rest läuft auf der CPU",
    }
    lowvram() {
        en: "use the low-VRAM mode of the program",
        zh: "使用程序的低显存模式",
        ja: "プログラムの低 VRAM モードを使う",
        de: "den Low-VRAM-Modus des Programms verwenden",
    }
    tiled_vae() {
        en: "decode the image in tiles (in ComfyUI the node `VAE Decode (Tiled)` with a smaller tile)",
        zh: "分块解码图像（在 ComfyUI 中用节点 `VAE Decode (Tiled)` 并减小分块）",
        ja: "画像をタイルに分けてデコードする（ComfyUI では `VAE Decode (Tiled)` ノードで小さいタイル）",
        de: "das Bild in Kacheln dekodieren (in ComfyUI der Knoten `VAE Decode (Tiled)` mit kleineren Kacheln)",
    }
    smaller_image() {
        en: "generate smaller images or fewer at once, and upscale afterwards",
        zh: "生成更小或更少的图像，之后再放大",
        ja: "小さい画像を少数ずつ生成し、後で拡大する",
        de: "kleinere Bilder oder weniger auf einmal erzeugen und danach vergrößern",
    }
    cpu_offload() {
        en: "keep the parts of the pipeline in host memory until they run",
        zh: "让流水线的各部分在运行前留在主机内存中",
        ja: "パイプラインの各部を実行時までホストのメモリに置く",
        de: "die Teile der Pipeline im Arbeitsspeicher halten, bis sie laufen",
    }
    sysmem_fallback() {
        en: "in the NVIDIA Control Panel, set `CUDA - Sysmem Fallback Policy` to `Prefer No Sysmem Fallback`: the run then fails at once instead of slowing down",
        zh: "在 NVIDIA 控制面板中把 `CUDA - Sysmem Fallback Policy` 设为 `Prefer No Sysmem Fallback`：运行会立即失败，而不是变慢",
        ja: "NVIDIA コントロールパネルで `CUDA - Sysmem Fallback Policy` を `Prefer No Sysmem Fallback` にする。遅くなる代わりにすぐ失敗します",
        de: "in NVIDIAs Systemsteuerung `CUDA - Sysmem Fallback Policy` auf `Prefer No Sysmem Fallback` setzen: der Lauf scheitert dann sofort, statt langsam zu werden",
    }
    free_the_card() {
        en: "list the processes on the card and end those that should not be there, including notebooks and earlier runs",
        zh: "查看谁在使用显卡，结束不该在那里的进程，包括 notebook 和之前的运行",
        ja: "GPU の使用者を調べ、ノートブックや以前の実行を含め不要なものを終了する",
        de: "die Prozesse auf der Karte auflisten und beenden, was dort nicht hingehört, auch Notebooks und frühere Läufe",
    }
    one_rank_per_card() {
        en: "check that every rank uses its own card and that nothing limits this process",
        zh: "确认每个 rank 使用自己的显卡，且没有限制这个进程",
        ja: "各ランクが自分の GPU を使い、このプロセスに制限がないことを確認する",
        de: "prüfen, dass jeder Rank seine eigene Karte benutzt und nichts diesen Prozess begrenzt",
    }
    expandable_segments() {
        en: "use expandable segments, so that unused blocks can be merged",
        zh: "使用可扩展的段（expandable segments），这样未用的碎片可以合并",
        ja: "拡張可能なセグメント（expandable segments）を使い、未使用の断片をつなげる",
        de: "erweiterbare Segmente (expandable segments) verwenden, damit ungenutzte Blöcke verschmelzen",
    }
    find_the_shape() {
        en: "find the operation that requests so much and print its shapes; a wrong reshape or broadcast is likely",
        zh: "找出申请这么大的操作并打印形状；很可能是 reshape 或广播写错了",
        ja: "これほど大きな要求をする演算を探す。形状を表示してください。reshape やブロードキャストの誤りが疑われます",
        de: "die Operation finden, die so viel anfordert, und ihre Shapes ausgeben; wahrscheinlich ist ein Reshape oder Broadcast falsch",
    }
    leave_memory_for_compiler() {
        en: "leave free memory for the compiler's first call",
        zh: "为编译器的第一次调用留出空闲内存",
        ja: "コンパイラの最初の呼び出しのために空きを残す",
        de: "für den ersten Aufruf des Compilers Speicher frei lassen",
    }
    xla_preallocate() {
        en: "let JAX allocate memory on demand, and check that no other process uses the card",
        zh: "让 JAX 按需占用显存，并确认没有其他进程占用显卡",
        ja: "JAX に必要な分だけ確保させ、他のプロセスが GPU を使っていないか確認する",
        de: "JAX Speicher nach Bedarf anfordern lassen und prüfen, dass kein anderer Prozess die Karte benutzt",
    }
    tf_memory_growth() {
        en: "let TensorFlow allocate memory on demand",
        zh: "让 TensorFlow 按需占用显存",
        ja: "TensorFlow に必要な分だけ確保させる",
        de: "TensorFlow Speicher nach Bedarf anfordern lassen",
    }
    mps_watermark() {
        en: "as a last resort lift PyTorch's own limit on Metal; the machine may start to swap",
        zh: "万不得已时取消 PyTorch 对 Metal 的限制；机器可能开始换页",
        ja: "最後の手段として Metal での PyTorch の制限を外す。スワップが始まることがあります",
        de: "als letztes Mittel PyTorchs Grenze für Metal aufheben; der Rechner kann anfangen auszulagern",
    }
    close_apps() {
        en: "close other programs: they share this memory",
        zh: "关闭其他程序：它们共享这块内存",
        ja: "他のプログラムを閉じる。同じメモリを共有しています",
        de: "andere Programme schließen: sie teilen sich diesen Speicher",
    }
    more_ram() {
        en: "give the machine or container more memory or swap, and check what used it",
        zh: "给机器或容器更多内存或交换空间，并查看是谁用掉的",
        ja: "マシンやコンテナのメモリかスワップを増やし、何が使ったかを調べる",
        de: "dem Rechner oder Container mehr Speicher oder Swap geben und nachsehen, wer ihn belegt",
    }
    fewer_workers() {
        en: "use fewer data loader workers: each holds a copy of what it reads",
        zh: "减少数据加载进程：每个进程都保留自己的一份数据",
        ja: "データローダーのワーカーを減らす。それぞれが自分のコピーを持ちます",
        de: "weniger Worker des Data-Loaders: jeder hält seine eigene Kopie",
    }
    stream_data() {
        en: "stream the data instead of reading all of it into memory",
        zh: "以流的方式读取数据，而不是一次全部读入",
        ja: "データを一括でなくストリームで読む",
        de: "Daten als Stream lesen statt im Ganzen",
    }
    shm_size() {
        en: "give the container a larger `/dev/shm`",
        zh: "给容器更大的 `/dev/shm`",
        ja: "コンテナの `/dev/shm` を大きくする",
        de: "dem Container ein größeres `/dev/shm` geben",
    }
    paging_file() {
        en: "let Windows manage the paging file, or make it larger (Advanced, Virtual memory), then restart",
        zh: "让 Windows 管理页面文件，或将其调大（高级，虚拟内存），然后重启",
        ja: "ページングファイルを Windows に管理させるか大きくし（詳細設定、仮想メモリ）、再起動する",
        de: "Windows die Auslagerungsdatei verwalten lassen oder sie vergrößern (Erweitert, Virtueller Arbeitsspeicher), dann neu starten",
    }
    launch_blocking() {
        en: "run once with synchronous kernel launches: the traceback then points to the operation that failed",
        zh: "用同步内核运行一次：回溯就会指向真正失败的操作",
        ja: "カーネルを同期で 1 回実行する。トレースバックが失敗した演算を指します",
        de: "einmal mit synchronen Kernels laufen lassen: der Traceback zeigt dann auf die Operation, die fehlschlug",
    }
    load_in_main_process() {
        en: "load the data in the main process once: the traceback then shows the real error",
        zh: "让主进程加载一次数据：回溯就会显示真正的错误",
        ja: "一度メインプロセスでデータを読み込む。トレースバックに本当のエラーが出ます",
        de: "die Daten einmal im Hauptprozess laden: der Traceback zeigt dann den eigentlichen Fehler",
    }
    check_ids() {
        en: "check that every token id is below the vocabulary size and every label is in range",
        zh: "检查每个 token id 都小于词表大小，每个标签都在范围内",
        ja: "すべてのトークン ID が語彙数未満で、ラベルが範囲内か確認する",
        de: "prüfen, dass jede Token-ID kleiner als das Vokabular und jedes Label im Bereich ist",
    }
    nccl_debug() {
        en: "let NCCL print what failed: its own lines name the call and the rank",
        zh: "让 NCCL 打印失败的原因：它自己的日志会指出调用和 rank",
        ja: "NCCL に失敗の内容を出力させる。呼び出しと rank が分かります",
        de: "NCCL ausgeben lassen, was fehlschlug: seine Zeilen nennen den Aufruf und den Rang",
    }
    smaller_tiles() {
        en: "use smaller tiles or fewer stages in that kernel, or another version of Triton; a smaller batch does not help",
        zh: "减小该内核的分块或级数，或换一个 Triton 版本；减小批没有用",
        ja: "そのカーネルのタイルや段数を減らすか、別の版の Triton を使う。バッチを小さくしても効果はありません",
        de: "kleinere Kacheln oder weniger Stufen in diesem Kernel, oder eine andere Version von Triton; ein kleinerer Batch hilft nicht",
    }
    fix_the_error() {
        en: "fix the error that the last line of the traceback names: settings of memory do not change it",
        zh: "修复 traceback 最后一行指出的错误：调整显存设置没有用",
        ja: "トレースバックの最後の行が示すエラーを直す。メモリの設定では変わりません",
        de: "den Fehler beheben, den die letzte Zeile des Tracebacks nennt: Einstellungen zum Speicher ändern daran nichts",
    }
    fix_config() {
        en: "fix the config: it is invalid",
        zh: "修正配置：该配置无效",
        ja: "設定を修正する。この設定は無効です",
        de: "die Konfiguration berichtigen: sie ist ungültig",
    }
    ort_arena() {
        en: "let ONNX Runtime's arena grow by what is requested, up to a limit, instead of doubling",
        zh: "让 ONNX Runtime 的内存池按实际请求增长并设上限，而不是翻倍",
        ja: "ONNX Runtime のメモリプールを倍増ではなく必要な分だけ、上限付きで増やす",
        de: "die Arena von ONNX Runtime um das Angeforderte wachsen lassen, bis zu einer Grenze, statt sie zu verdoppeln",
    }
    trt_workspace() {
        en: "limit the builder's workspace, and build for smaller maximum shapes or in half precision",
        zh: "限制构建器的工作空间，并用更小的最大形状或半精度构建",
        ja: "ビルダーのワークスペースを制限し、より小さい最大形状か半精度でビルドする",
        de: "den Arbeitsbereich des Builders begrenzen und für kleinere maximale Formen oder in halber Genauigkeit bauen",
    }
    record_snapshot() {
        en: "record a memory snapshot, which shows what allocated every byte, and pass it to `fitgpt doctor`",
        zh: "记录一份内存快照（它显示每个字节由谁分配），再交给 `fitgpt doctor`",
        ja: "どのコードがどのメモリを確保したか分かるメモリスナップショットを記録し、`fitgpt doctor` に渡す",
        de: "einen Speicher-Snapshot aufzeichnen, der zeigt, wer jedes Byte angefordert hat, und ihn an `fitgpt doctor` übergeben",
    }

    which_program() {
        en: "which program is it: which framework, training or inference, which model?",
        zh: "这是什么程序：哪个框架，训练还是推理，哪个模型？",
        ja: "どのプログラムですか。フレームワーク、学習か推論か、どのモデルか",
        de: "was ist das für ein Programm: welches Framework, Training oder Inferenz, welches Modell?",
    }
    which_memory() {
        en: "which memory ran out? Pass the complete error: does it name the GPU, or was the process killed?",
        zh: "耗尽的是哪种内存？请提供完整的报错：其中提到 GPU，还是进程被系统终止？",
        ja: "どのメモリが不足しましたか。エラー全体を渡してください。GPU の名前がありますか、それともプロセスが強制終了されましたか",
        de: "welcher Speicher ist erschöpft? Bitte die vollständige Meldung übergeben: nennt sie die GPU, oder wurde der Prozess beendet?",
    }
    traceback() {
        en: "where did it fail? Pass the complete traceback",
        zh: "在哪里失败的？请提供完整的回溯（traceback）",
        ja: "どこで失敗しましたか。トレースバック全体を渡してください",
        de: "wo ist es gescheitert? Bitte den vollständigen Traceback übergeben",
    }
    which_model() {
        en: "which model is it (how many parameters), and are all weights trained or only adapters?",
        zh: "是哪个模型（多少参数），训练全部权重还是只训练适配器？",
        ja: "どのモデル（パラメータ数）で、全重みを学習するのか、アダプタだけか",
        de: "welches Modell ist es (wie viele Parameter), und werden alle Gewichte trainiert oder nur Adapter?",
    }
    batch_and_length() {
        en: "how large are the batch and the sequences or images?",
        zh: "批和序列或图像有多大？",
        ja: "バッチと系列または画像の大きさは？",
        de: "wie groß sind Batch und Sequenzen oder Bilder?",
    }
    config_used() {
        en: "which config was used? With `--config FILE.py` and the overrides, the doctor computes changes that fit",
        zh: "用的是哪个配置？给出 `--config FILE.py` 和命令行上的覆盖，doctor 就能算出放得下的修改",
        ja: "どの設定を使いましたか。`--config FILE.py` と上書きを渡すと、収まる変更を計算します",
        de: "welche Konfiguration wurde benutzt? Mit `--config FILE.py` und den Angaben der Kommandozeile berechnet der Doktor Änderungen, die passen",
    }
    another_config() {
        en: "is this the config that ran, with its overrides, and is the script nanoGPT's? The log shows more memory than it needs",
        zh: "运行的是这份配置（连同命令行覆盖）吗？脚本是 nanoGPT 的吗？日志显示的占用超过它的需要",
        ja: "実行されたのはこの設定（上書きを含む）で、スクリプトは nanoGPT のものですか。ログの使用量がこの設定の必要量を超えています",
        de: "ist das die Konfiguration, die lief, mit ihren Überschreibungen, und ist das Skript das von nanoGPT? Das Log zeigt mehr Speicher, als sie braucht",
    }
    which_card() {
        en: "which card is it, and what does `nvidia-smi` show while the program runs?",
        zh: "是哪张显卡，程序运行时 `nvidia-smi` 显示什么？",
        ja: "どの GPU で、実行中の `nvidia-smi` は何を示しますか",
        de: "welche Karte ist es, und was zeigt `nvidia-smi`, während das Programm läuft?",
    }
    who_else() {
        en: "does another process or rank use the same card, or is a limit set for this one?",
        zh: "是否有其他进程或 rank 使用同一张卡，或对本进程设有限制？",
        ja: "別のプロセスやランクが同じ GPU を使っているか、このプロセスに制限がありますか",
        de: "benutzt ein anderer Prozess oder Rank dieselbe Karte, oder ist für diesen eine Grenze gesetzt?",
    }
    kernel_log() {
        en: "does the kernel log (`dmesg -T`) show `Killed process` for it, and how much memory does the machine have?",
        zh: "内核日志（`dmesg -T`）中是否有它的 `Killed process`，机器有多少内存？",
        ja: "カーネルのログ（`dmesg -T`）に `Killed process` がありますか。マシンのメモリはどれだけですか",
        de: "zeigt das Kernel-Log (`dmesg -T`) dafür `Killed process`, und wie viel Speicher hat der Rechner?",
    }
    ids_in_range() {
        en: "does the same batch run on the CPU? `index out of range` there means a bad token id, not memory",
        zh: "同一批在 CPU 上能运行吗？那里的 `index out of range` 表示 token id 有误，而不是内存",
        ja: "同じバッチは CPU で動きますか。`index out of range` ならメモリではなくトークン ID の誤りです",
        de: "läuft derselbe Batch auf der CPU? `index out of range` bedeutet dort eine falsche Token-ID, nicht Speicher",
    }
    snapshot() {
        en: "which tensors fill the card? A memory snapshot shows it",
        zh: "哪些张量占满了显卡？内存快照会显示",
        ja: "どのテンソルが GPU を埋めていますか。メモリスナップショットで分かります",
        de: "welche Tensoren füllen die Karte? Ein Speicher-Snapshot zeigt es",
    }
}

impl Say for Remedy {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::SmallerMicroBatch => smaller_micro_batch(lang),
            Self::GradientCheckpointing => gradient_checkpointing(lang),
            Self::ShorterSequences => shorter_sequences(lang),
            Self::SmallerInput => smaller_input(lang),
            Self::HalfPrecision => half_precision(lang),
            Self::Lora => lora(lang),
            Self::EightBitAdam => eight_bit_adam(lang),
            Self::FusedAdam => fused_adam(lang),
            Self::ZeroOffload => zero_offload(lang),
            Self::ZeroStage3 => zero_stage_3(lang),
            Self::Fsdp => fsdp(lang),
            Self::LossAlone => loss_alone(lang),
            Self::ChunkedLoss => chunked_loss(lang),
            Self::KeepNumbers => keep_numbers(lang),
            Self::DropLogits => drop_stale_logits(lang),
            Self::FusedAttention => fused_attention(lang),
            Self::EvalBatch => eval_batch(lang),
            Self::EvalAccumulation => eval_accumulation(lang),
            Self::NoGrad => no_grad(lang),
            Self::LoadToCpu => load_to_cpu(lang),
            Self::FullStateOffload => full_state_offload(lang),
            Self::ShardedStateDict => sharded_state_dict(lang),
            Self::QuantizeWeights => quantize_weights(lang),
            Self::DeviceMap => device_map(lang),
            Self::TensorParallel => tensor_parallel(lang),
            Self::SmallerModel => smaller_model(lang),
            Self::GpuMemoryUtilization => gpu_memory_utilization(lang),
            Self::MaxModelLen => max_model_len(lang),
            Self::EnforceEager => enforce_eager(lang),
            Self::SmallerContext => smaller_context(lang),
            Self::QuantizedKv => quantized_kv(lang),
            Self::FewerGpuLayers => fewer_gpu_layers(lang),
            Self::LowVram => lowvram(lang),
            Self::TiledVae => tiled_vae(lang),
            Self::SmallerImage => smaller_image(lang),
            Self::CpuOffload => cpu_offload(lang),
            Self::SysmemFallback => sysmem_fallback(lang),
            Self::FreeTheCard => free_the_card(lang),
            Self::OneRankPerCard => one_rank_per_card(lang),
            Self::ExpandableSegments => expandable_segments(lang),
            Self::FindTheShape => find_the_shape(lang),
            Self::LeaveMemoryForCompiler => leave_memory_for_compiler(lang),
            Self::XlaPreallocate => xla_preallocate(lang),
            Self::TfMemoryGrowth => tf_memory_growth(lang),
            Self::MpsWatermark => mps_watermark(lang),
            Self::CloseApps => close_apps(lang),
            Self::MoreRam => more_ram(lang),
            Self::FewerWorkers => fewer_workers(lang),
            Self::StreamData => stream_data(lang),
            Self::ShmSize => shm_size(lang),
            Self::PagingFile => paging_file(lang),
            Self::LaunchBlocking => launch_blocking(lang),
            Self::LoadInMainProcess => load_in_main_process(lang),
            Self::CheckIds => check_ids(lang),
            Self::NcclDebug => nccl_debug(lang),
            Self::SmallerTiles => smaller_tiles(lang),
            Self::FixTheError => fix_the_error(lang),
            Self::FixConfig => fix_config(lang),
            Self::OrtArena => ort_arena(lang),
            Self::TrtWorkspace => trt_workspace(lang),
            Self::RecordSnapshot => record_snapshot(lang),
        }
    }
}

impl Say for Question {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::WhichProgram => which_program(lang),
            Self::WhichMemory => which_memory(lang),
            Self::Traceback => traceback(lang),
            Self::WhichModel => which_model(lang),
            Self::BatchAndLength => batch_and_length(lang),
            Self::Config => config_used(lang),
            Self::AnotherConfig => another_config(lang),
            Self::WhichCard => which_card(lang),
            Self::WhoElse => who_else(lang),
            Self::KernelLog => kernel_log(lang),
            Self::IdsInRange => ids_in_range(lang),
            Self::Snapshot => snapshot(lang),
        }
    }
}
