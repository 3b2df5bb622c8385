"""The texts of reports: English, Chinese, Japanese, German. Gaps have names."""

# A kind of tensor, a phase and a stage are looked up with a prefix; a user's own phases are not here.
MESSAGES = {
    "kind parameters": ("parameters", "参数", "パラメータ", "Parameter"),
    "kind gradients": ("gradients", "梯度", "勾配", "Gradienten"),
    "kind optimizer state": ("optimizer state", "优化器状态", "オプティマイザの状態", "Optimiererzustand"),
    "kind activations": ("activations", "激活值", "活性値", "Aktivierungen"),
    "kind logits": ("logits", "logits", "logits", "Logits"),
    "kind scratch": ("scratch", "临时", "作業領域", "Hilfsspeicher"),
    "kind inputs": ("inputs", "输入", "入力", "Eingaben"),
    "kind buffers": ("buffers", "缓冲区", "バッファ", "Puffer"),
    "phase load": ("load", "加载", "読み込み", "Laden"),
    "phase train": ("train", "训练", "学習", "Training"),
    "phase update": ("update", "参数更新", "更新", "Update"),
    "phase evaluate": ("evaluate", "评估", "評価", "Evaluierung"),
    "phase save": ("save", "保存", "保存", "Speichern"),
    "stage forward": ("forward", "前向", "順伝播", "vorwärts"),
    "stage backward": ("backward", "反向", "逆伝播", "rückwärts"),
    "stage update": ("update", "参数更新", "更新", "Update"),
    "stage outside": ("outside", "其他", "その他", "außerhalb"),
    # Reports of `pretend`.
    "at-op": ("at {op}", "位于 {op}", "{op} の時点", "bei {op}"),
    "at-its-start": ("at its start", "位于开头", "開始時", "zu Beginn"),
    "nothing-allocated": (
        "nothing was allocated on {device}", "{device} 上没有分配任何内存", "{device} には何も確保されませんでした",
        "auf {device} wurde nichts belegt",
    ),
    "outside-phases": (
        "outside any phase {size}, at {op}", "不属于任何阶段：{size}，位于 {op}", "どの段階にも属さない: {size}、{op} の時点",
        "außerhalb aller Phasen {size}, bei {op}",
    ),
    "alive-at-peak": (
        "alive at the peak of {size}:", "峰值 {size} 时存在的张量：", "ピーク {size} の時点で存在するもの:",
        "belegt am Höchststand von {size}:",
    ),
    "more-groups": ("{count} more groups", "其他 {count} 组", "ほか {count} グループ", "{count} weitere Gruppen"),
    "outside-of-modules": ("outside of modules", "模块之外", "モジュールの外", "außerhalb der Module"),
    "made-by": ("by {op} ({stage})", "由 {op} 产生（{stage}）", "{op} による（{stage}）", "durch {op} ({stage})"),
    "note": ("note: {text}", "注意：{text}", "注: {text}", "Hinweis: {text}"),
    "fragmentation": (
        "fragmentation: {reserved} reserved; with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {expandable}",
        "碎片：保留 {reserved}；设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True 后为 {expandable}",
        "断片化: 予約 {reserved}。PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True では {expandable}",
        "Fragmentierung: {reserved} reserviert; mit PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {expandable}",
    ),
    "fits": ("fits", "放得下", "収まります", "passt"),
    "tight": ("tight", "勉强放得下", "ぎりぎりです", "knapp"),
    "no": ("does not fit", "放不下", "収まりません", "passt nicht"),
    "verdict": (
        "{verdict}: {tensors} of tensors, {reserved} reserved by PyTorch's allocator, plus {low} to {high} for the "
        "CUDA context, on {card} with {usable}",
        "{verdict}：张量 {tensors}，PyTorch 分配器保留 {reserved}，另加 CUDA 上下文 {low} 至 {high}；{card} 有 {usable}",
        "{verdict}: テンソル {tensors}、PyTorch のアロケータの予約 {reserved}、CUDA コンテキスト {low}〜{high}。"
        "{card} の容量は {usable}",
        "{verdict}: {tensors} Tensoren, {reserved} von PyTorchs Allokator reserviert, dazu {low} bis {high} für den "
        "CUDA-Kontext, auf {card} mit {usable}",
    ),
    "on-card": ("on {card}:", "在 {card} 上：", "{card} では:", "auf {card}:"),
    "nothing-fits-on": (
        "nothing fits on {card}:", "{card} 上什么都放不下：", "{card} に収まるものはありません:",
        "nichts passt auf {card}:",
    ),
    "option-peak": ("{verdict}, peak {size}: {settings}", "{verdict}，峰值 {size}：{settings}",
                    "{verdict}、ピーク {size}: {settings}", "{verdict}, Höchststand {size}: {settings}"),
    "changes-training": ("(changes the training)", "（会改变训练）", "（学習が変わります）", "(ändert das Training)"),
    "next": ("next: {text}", "下一步：{text}", "次に: {text}", "als Nächstes: {text}"),
    "as-it-is": ("as it is", "保持不变", "そのまま", "wie es ist"),
    "no-options": (
        "no option of the script for the batch or the accumulation was found: change them in the script",
        "没有找到脚本用于批次或累积的选项：请在脚本中修改", "バッチや累積のためのスクリプトのオプションが見つかりません。スクリプト内で変えてください",
        "das Skript hat keine Option für Stapel oder Akkumulation: ändern Sie sie im Skript",
    ),
    # The page.
    "page-title": ("Peak {size} on {device}", "{device} 上的峰值 {size}", "{device} でのピーク {size}",
                   "Höchststand {size} auf {device}"),
    "page-hint": (
        "Point at the picture, or use ← and →, to see an op.", "指向图片，或用 ← 和 → 查看各个操作。",
        "図を指すか、← と → で各演算を見られます。", "Zeigen Sie auf das Bild, oder benutzen Sie ← und →, um eine Operation zu sehen.",
    ),
    "page-sum": ("sum", "合计", "合計", "Summe"),
    "page-columns": (
        "kind|bytes|count|module|made by|tensor", "类别|字节|数量|模块|产生者|张量", "種類|バイト|個数|モジュール|作成元|テンソル",
        "Art|Bytes|Anzahl|Modul|erzeugt durch|Tensor",
    ),
    "page-no-phase": (
        "there is no phase to draw: wrap a part of the run in `m.phase(name)`",
        "没有可以绘制的阶段：请把运行的一部分放进 `m.phase(name)`", "描く段階がありません。実行の一部を `m.phase(name)` で囲んでください",
        "es gibt keine Phase zu zeichnen: umgeben Sie einen Teil des Laufs mit `m.phase(name)`",
    ),
    # What is not counted exactly.
    "bound": (
        "counted as eager code, which needs more: an upper bound", "按 eager 代码计数，它需要更多：这是上界",
        "eager のコードとして数えました。必要量はより多いので上界です", "als Eager-Code gezählt, der mehr braucht: eine obere Schranke",
    ),
    "bound-because": ("{reason}: {bound}", "{reason}：{bound}", "{reason}: {bound}", "{reason}: {bound}"),
    "unknown-pytorch": (
        "compiled code of PyTorch {version} is not known", "不了解 PyTorch {version} 的编译代码",
        "PyTorch {version} のコンパイル済みコードには対応していません", "kompilierter Code von PyTorch {version} ist nicht bekannt",
    ),
    "old-card": (
        "`torch.compile` needs capability 7.0, the card has {capability}", "`torch.compile` 需要计算能力 7.0，该卡为 {capability}",
        "`torch.compile` には compute capability 7.0 が必要ですが、カードは {capability} です",
        "`torch.compile` braucht Compute Capability 7.0, die Karte hat {capability}",
    ),
    "cudagraphs-backend": (
        "their pools are not counted: a card needs more", "未计入其内存池：显卡需要更多", "プールは数えていません。カードではより多く必要です",
        "ihre Pools sind nicht gezählt: eine Karte braucht mehr",
    ),
    "cudagraphs": (
        "their private pools and copies of inputs are not counted: a card needs up to {size} more",
        "未计入其私有内存池和输入的副本：显卡最多还需要 {size}", "専用プールと入力のコピーは数えていません。カードでは最大 {size} 多く必要です",
        "ihre eigenen Pools und Kopien der Eingaben sind nicht gezählt: eine Karte braucht bis zu {size} mehr",
    ),
    "max-autotune": (
        "counted with library kernels; while the first call compiles, its benchmarks need up to {size} more for their "
        "inputs and results",
        "按库内核计数；首次调用编译期间，其基准测试的输入和结果最多还需要 {size}",
        "ライブラリのカーネルで数えました。初回のコンパイル中は、計測の入力と結果に最大 {size} 多く必要です",
        "mit Bibliothekskernen gezählt; während der erste Aufruf kompiliert, brauchen die Messungen bis zu {size} mehr für "
        "Eingaben und Ergebnisse",
    ),
    "padding": (
        "Inductor measures on the card whether to pad matrices whose sizes are not multiples of 8: counted without; "
        "padded copies would take a little more memory",
        "Inductor 会在显卡上测量是否填充大小不是 8 的倍数的矩阵：按不填充计数；填充的副本会多占一点内存",
        "Inductor は大きさが 8 の倍数でない行列を埋めるかをカード上で計測します。埋めないものとして数えました。埋めた場合は少し増えます",
        "Inductor misst auf der Karte, ob sich das Auffüllen von Matrizen lohnt, deren Größe kein Vielfaches von 8 ist: ohne "
        "gezählt; aufgefüllte Kopien brauchten etwas mehr",
    ),
    "cudnn-rnn": (
        "cuDNN's own copies and buffers are not counted", "未计入 cuDNN 自己的副本和缓冲区", "cuDNN 自身のコピーとバッファは数えていません",
        "cuDNNs eigene Kopien und Puffer sind nicht gezählt",
    ),
    "triton-kernels": (
        "the program's own kernels did not run; what they allocate outside of PyTorch is not counted",
        "程序自己的内核没有运行；它们在 PyTorch 之外分配的内存未计入", "プログラム自身のカーネルは実行していません。PyTorch の外での確保は数えていません",
        "eigene Kernel des Programms liefen nicht; was sie außerhalb von PyTorch belegen, ist nicht gezählt",
    ),
    "nothing-written": ("nothing was written", "没有写入任何内容", "何も書き込んでいません", "es wurde nichts geschrieben"),
    "lbfgs": (
        "values decide how often it evaluates and how many directions it keeps, up to {count} pairs of the size of all "
        "parameters; they are not counted",
        "求值次数和保留的方向数取决于数值，最多 {count} 对与全部参数同样大小的张量；未计入",
        "評価の回数と保持する方向の数は値によります。最大で全パラメータと同じ大きさの組が {count} 個あり、数えていません",
        "Werte entscheiden, wie oft es auswertet und wie viele Richtungen es behält, bis zu {count} Paare von der Größe aller "
        "Parameter; sie sind nicht gezählt",
    ),
    "sparse": (
        "not counted, nor is what is computed from them", "未计入，由它们计算得到的张量也未计入", "これらと、これらから計算されたものは数えていません",
        "nicht gezählt, ebenso wenig, was daraus berechnet wird",
    ),
    "allocator-setting": ("not simulated", "未模拟", "模擬していません", "nicht simuliert"),
    "old-graph": (
        "a graph recorded before `pretend` is kept, with what it saved", "保留了 `pretend` 之前记录的计算图及其保存的内容",
        "`pretend` の前に記録されたグラフを、保存されたものとともに保持しました",
        "ein vor `pretend` aufgezeichneter Graph wird behalten, mit allem, was er gespeichert hat",
    ),
    "value-read": (
        "a value was read from a tensor without values: counted as zero", "从没有数值的张量读取了一个值：按零计",
        "値を持たないテンソルから値が読まれました。ゼロとして数えました", "aus einem Tensor ohne Werte wurde ein Wert gelesen: als null gezählt",
    ),
    "values-compared": (
        "tensors without values were compared: counted as different", "比较了没有数值的张量：按不同计",
        "値を持たないテンソルが比較されました。異なるものとして数えました", "Tensoren ohne Werte wurden verglichen: als verschieden gezählt",
    ),
    "check-passed": (
        "a check of values, as in `torch.distributions`: counted as passed", "对数值的检查（如 `torch.distributions`）：按通过计",
        "`torch.distributions` などの値の検査は、合格として数えました",
        "eine Prüfung von Werten, wie in `torch.distributions`: als bestanden gezählt",
    ),
    "largest-shape": (
        "its shape depends on values: counted with the largest possible shape", "其形状取决于数值：按可能的最大形状计",
        "形が値によるため、可能な最大の形で数えました", "seine Form hängt von Werten ab: mit der größtmöglichen gezählt",
    ),
    "longest-lengths": (
        "lengths are not known: counted with the longest", "长度未知：按最长计", "長さが不明のため、最長で数えました",
        "Längen sind nicht bekannt: mit der größten gezählt",
    ),
    "mask-selects-all": (
        "a mask's values are not known: counted as selecting everything", "掩码的数值未知：按全部选中计",
        "マスクの値が不明のため、すべてを選ぶものとして数えました", "die Werte einer Maske sind nicht bekannt: als wähle sie alles aus",
    ),
    "array-of-zeros": (
        "an array was made from a tensor without values: it contains zeros", "用没有数值的张量创建了数组：其内容为零",
        "値を持たないテンソルから配列が作られました。中身はゼロです", "aus einem Tensor ohne Werte wurde ein Feld erzeugt: es enthält Nullen",
    ),
    "snapshot-written": (
        "memory snapshot: {path} (opens in PyTorch's memory viewer)", "内存快照：{path}（可用 PyTorch 的内存查看器打开）",
        "メモリのスナップショット: {path}（PyTorch のメモリビューアで開けます）",
        "Speicher-Snapshot: {path} (öffnet sich in PyTorchs Memory Viewer)",
    ),
    "no-diagnosis": ("no diagnosis: {reason}", "无法诊断：{reason}", "診断できません: {reason}", "keine Diagnose: {reason}"),
    # Scripts.
    "script-head": (
        "{script}, PyTorch {version}: {steps} optimizer steps of {micro_batches} micro-batches, products in {precision}",
        "{script}，PyTorch {version}：{steps} 个优化步，每步 {micro_batches} 个微批次，矩阵乘法用 {precision}",
        "{script}、PyTorch {version}: オプティマイザの {steps} ステップ、各 {micro_batches} マイクロバッチ、行列積は {precision}",
        "{script}, PyTorch {version}: {steps} Optimiererschritte zu {micro_batches} Mikrostapeln, Produkte in {precision}",
    ),
    "script-nothing": (
        "{script} allocated nothing on the card: does it train on the CPU? Ask it for `cuda`.",
        "{script} 没有在显卡上分配任何内存：它是在 CPU 上训练吗？请让它使用 `cuda`。",
        "{script} はカードに何も確保しませんでした。CPU で学習していませんか。`cuda` を指定してください。",
        "{script} hat auf der Karte nichts belegt: trainiert es auf der CPU? Verlangen Sie `cuda`.",
    ),
    "script-no-step": (
        "no optimizer step was made: training is not counted", "没有执行优化步：未计入训练", "オプティマイザのステップがないため、学習は数えていません",
        "es gab keinen Optimiererschritt: das Training ist nicht gezählt",
    ),
    "script-no-evaluation": (
        "no evaluation ran within these steps: it is not counted", "这些步内没有评估：未计入", "この範囲では評価が行われなかったため、数えていません",
        "in diesen Schritten gab es keine Evaluierung: sie ist nicht gezählt",
    ),
    "script-repeated": (
        "{count} calls of the model with the shapes of earlier ones were counted like these, without running",
        "{count} 次模型调用的形状与之前相同，按之前的计数，没有执行", "以前と同じ形のモデル呼び出し {count} 回は、実行せずに同じものとして数えました",
        "{count} Modellaufrufe mit den Formen früherer wurden wie diese gezählt, ohne zu laufen",
    ),
    "script-exit": (
        "the script ended with exit code {code}", "脚本以退出码 {code} 结束", "スクリプトは終了コード {code} で終わりました",
        "das Skript endete mit Exit-Code {code}",
    ),
    "script-failed": (
        "the script failed; what it did before is counted:", "脚本失败；之前执行的部分已计数：", "スクリプトは失敗しました。それまでの分を数えました:",
        "das Skript ist gescheitert; was es davor tat, ist gezählt:",
    ),
    "script-failed-early": (
        "the script failed before its first optimizer step", "脚本在第一个优化步之前失败", "スクリプトは最初のオプティマイザのステップの前に失敗しました",
        "das Skript ist vor seinem ersten Optimiererschritt gescheitert",
    ),
    "hint": ("hint: {text}", "提示：{text}", "ヒント: {text}", "Tipp: {text}"),
    "hint-data": (
        "the script reads this file itself, and it is not there: prepare the data as for a real run, or name a small dataset",
        "脚本自己读取该文件，但文件不存在：请像真实运行那样准备数据，或指定一个小数据集",
        "スクリプト自身がこのファイルを読みますが、存在しません。実際の実行と同じようにデータを用意するか、小さなデータセットを指定してください",
        "das Skript liest diese Datei selbst, und es gibt sie nicht: bereiten Sie die Daten wie für einen echten Lauf vor, oder "
        "nennen Sie einen kleinen Datensatz",
    ),
    "hint-cards": (
        "`fitgpt plan --gpu list` prints the cards that are known by name", "`fitgpt plan --gpu list` 列出所有已知名称的显卡",
        "`fitgpt plan --gpu list` は名前のわかるカードを表示します", "`fitgpt plan --gpu list` gibt die Karten aus, deren Name bekannt ist",
    ),
    "hint-module": (
        "install it into this Python ({python}), as for a real run", "请像真实运行那样把它安装到此 Python（{python}）",
        "実際の実行と同じように、この Python（{python}）にインストールしてください", "installieren Sie es in dieses Python ({python}), wie für einen echten Lauf",
    ),
    "hint-network": (
        "weights and data come from the script's own downloads: run it where these are cached, or reach the network",
        "权重和数据来自脚本自己的下载：请在有缓存的地方运行，或连接网络", "重みとデータはスクリプト自身がダウンロードします。キャッシュがある場所で実行するか、ネットワークに接続してください",
        "Gewichte und Daten lädt das Skript selbst: starten Sie es dort, wo sie im Cache sind, oder mit Netz",
    ),
    "hint-value": (
        "tensors have shapes and no values here: a script that decides by a loss or a prediction may fail",
        "这里的张量有形状而没有数值：依据损失或预测做决定的脚本可能失败", "ここではテンソルに形はあっても値がありません。損失や予測で判断するスクリプトは失敗することがあります",
        "Tensoren haben hier Formen und keine Werte: ein Skript, das nach einem Verlust oder einer Vorhersage entscheidet, kann scheitern",
    ),
    "progress-step": (
        "step {step} of {steps}, peak {peak} so far", "第 {step} 步，共 {steps} 步，目前峰值 {peak}", "{steps} ステップ中 {step} ステップ目、ここまでのピーク {peak}",
        "Schritt {step} von {steps}, Höchststand bisher {peak}",
    ),
    "progress-compile": (
        "compiling graph {count} for the card", "正在为显卡编译第 {count} 个图", "カード用に {count} 個目のグラフをコンパイル中",
        "kompiliere Graph {count} für die Karte",
    ),
    "progress-option": ("counting {option}", "正在计数 {option}", "{option} を計数中", "zähle {option}"),
    "one-rank": (
        "rank 0 of {ranks} is counted alone: DDP's buckets, FSDP's shards and what collectives hold are, NCCL's own buffers are not",
        "只计 {ranks} 个 rank 中的 rank 0：计入 DDP 的桶、FSDP 的分片和集合通信占住的张量，未计入 NCCL 自己的缓冲区",
        "{ranks} ランクのうちランク 0 だけを数えました。DDP のバケット、FSDP のシャード、集団通信が保持するテンソルは含み、NCCL 自身のバッファは含みません",
        "Rang 0 von {ranks} ist allein gezählt: mit DDPs Behältern, FSDPs Anteilen und dem, was kollektive Operationen festhalten, ohne NCCLs eigene Puffer",
    ),
    # Changes that remove the largest tensors.
    "changes-head": (
        "what would help most:", "最有帮助的改动：", "最も効果のある変更:", "was am meisten hilft:",
    ),
    "change-line": ("{size} in {what}: {how}", "{what}占 {size}：{how}", "{what} {size}: {how}", "{size} {what}: {how}"),
    "change loss-alone": (
        "a zero gradient for returned logits", "返回的 logits 的零梯度", "返された logits のゼロ勾配", "Nullgradient für zurückgegebene Logits",
    ),
    "change chunked-loss": (
        "logits and copies of them", "logits 及其副本", "logits とそのコピー", "Logits und Kopien davon",
    ),
    "change fused-attention": ("attention scores", "注意力分数", "注意のスコア", "Attention-Scores"),
    "change checkpointing": (
        "activations kept for the backward pass", "为反向传播保留的激活值", "逆伝播のために保持する活性値", "Aktivierungen für den Rückwärtslauf",
    ),
    "change stacked-update": (
        "stacked gradients of the optimizer", "优化器中堆叠的梯度", "オプティマイザが積み重ねた勾配", "gestapelte Gradienten des Optimierers",
    ),
    "change foreach-update": (
        "temporaries of the optimizer", "优化器的临时张量", "オプティマイザの一時テンソル", "Zwischenwerte des Optimierers",
    ),
    "change smaller-optimizer": ("optimizer state", "优化器状态", "オプティマイザの状態", "Optimiererzustand"),
    "change predictions": (
        "predictions that the evaluation keeps", "评估保留的预测", "評価が保持する予測", "Vorhersagen, die die Evaluierung behält",
    ),
    "how loss-alone": (
        "return the loss alone while training", "训练时只返回损失", "学習中は損失だけを返す", "im Training nur den Verlust zurückgeben",
    ),
    "how loss-alone nanogpt": (
        "return the loss alone while training: `fitgpt patch . --apply --only loss-alone`",
        "训练时只返回损失：`fitgpt patch . --apply --only loss-alone`", "学習中は損失だけを返す: `fitgpt patch . --apply --only loss-alone`",
        "im Training nur den Verlust zurückgeben: `fitgpt patch . --apply --only loss-alone`",
    ),
    "how chunked-loss": (
        "compute head and loss for a thousand rows at a time, each chunk in `torch.utils.checkpoint`",
        "每次对一千行计算输出层和损失，每块放进 `torch.utils.checkpoint`",
        "出力層と損失を千行ずつ計算し、各部分を `torch.utils.checkpoint` に入れる",
        "Ausgabeschicht und Verlust für je tausend Zeilen rechnen, jeden Teil in `torch.utils.checkpoint`",
    ),
    "how chunked-loss torch linear_cross_entropy": (
        "`torch.nn.functional.linear_cross_entropy` computes head and loss in chunks",
        "`torch.nn.functional.linear_cross_entropy` 分块计算输出层和损失",
        "`torch.nn.functional.linear_cross_entropy` は出力層と損失を分割して計算します",
        "`torch.nn.functional.linear_cross_entropy` rechnet Ausgabeschicht und Verlust in Teilen",
    ),
    "how chunked-loss lightning linear_cross_entropy": (
        "`torch.nn.functional.linear_cross_entropy` in `training_step` computes head and loss in chunks",
        "在 `training_step` 中用 `torch.nn.functional.linear_cross_entropy` 分块计算输出层和损失",
        "`training_step` の `torch.nn.functional.linear_cross_entropy` は出力層と損失を分割して計算します",
        "`torch.nn.functional.linear_cross_entropy` in `training_step` rechnet Ausgabeschicht und Verlust in Teilen",
    ),
    "how chunked-loss nanogpt": (
        "compute logits and loss in chunks: `fitgpt patch . --apply --only chunked-loss`, then `--loss_chunk_rows=1024`",
        "分块计算 logits 和损失：`fitgpt patch . --apply --only chunked-loss`，然后 `--loss_chunk_rows=1024`",
        "logits と損失を分割して計算する: `fitgpt patch . --apply --only chunked-loss`、次に `--loss_chunk_rows=1024`",
        "Logits und Verlust in Teilen rechnen: `fitgpt patch . --apply --only chunked-loss`, dann `--loss_chunk_rows=1024`",
    ),
    "how chunked-loss transformers": (
        "`TrainingArguments(use_liger_kernel=True)` (`pip install liger-kernel`) never makes them whole",
        "`TrainingArguments(use_liger_kernel=True)`（`pip install liger-kernel`）不会生成完整的 logits",
        "`TrainingArguments(use_liger_kernel=True)`（`pip install liger-kernel`）は全体を作りません",
        "`TrainingArguments(use_liger_kernel=True)` (`pip install liger-kernel`) bildet sie nie ganz",
    ),
    "how fused-attention": (
        "`torch.nn.functional.scaled_dot_product_attention` never stores them",
        "`torch.nn.functional.scaled_dot_product_attention` 不存储它们",
        "`torch.nn.functional.scaled_dot_product_attention` は保存しません",
        "`torch.nn.functional.scaled_dot_product_attention` speichert sie nie",
    ),
    "how fused-attention transformers": (
        "`from_pretrained(…, attn_implementation=\"sdpa\")` never stores them",
        "`from_pretrained(…, attn_implementation=\"sdpa\")` 不存储它们",
        "`from_pretrained(…, attn_implementation=\"sdpa\")` は保存しません",
        "`from_pretrained(…, attn_implementation=\"sdpa\")` speichert sie nie",
    ),
    "how checkpointing": (
        "`torch.utils.checkpoint` around each block keeps its input alone; or a smaller micro-batch with more accumulation",
        "对每个块使用 `torch.utils.checkpoint` 只保留其输入；或减小微批次并增加累积",
        "各ブロックを `torch.utils.checkpoint` で囲むと入力だけを保持します。またはマイクロバッチを小さくし、累積を増やす",
        "`torch.utils.checkpoint` um jeden Block behält nur dessen Eingabe; oder ein kleinerer Mikrostapel mit mehr Akkumulation",
    ),
    "how checkpointing transformers": (
        "`TrainingArguments(gradient_checkpointing=True)`; or a smaller `per_device_train_batch_size` with more "
        "`gradient_accumulation_steps`",
        "`TrainingArguments(gradient_checkpointing=True)`；或减小 `per_device_train_batch_size` 并增加 `gradient_accumulation_steps`",
        "`TrainingArguments(gradient_checkpointing=True)`。または `per_device_train_batch_size` を小さく、"
        "`gradient_accumulation_steps` を大きく",
        "`TrainingArguments(gradient_checkpointing=True)`; oder ein kleineres `per_device_train_batch_size` mit mehr "
        "`gradient_accumulation_steps`",
    ),
    "how checkpointing nanogpt": (
        "a smaller `--batch_size` with more `--gradient_accumulation_steps`; or "
        "`fitgpt patch . --apply --only checkpoint-blocks`, then `--grad_checkpoint=True`",
        "减小 `--batch_size` 并增加 `--gradient_accumulation_steps`；或 "
        "`fitgpt patch . --apply --only checkpoint-blocks`，然后 `--grad_checkpoint=True`",
        "`--batch_size` を小さく、`--gradient_accumulation_steps` を大きく。または "
        "`fitgpt patch . --apply --only checkpoint-blocks`、次に `--grad_checkpoint=True`",
        "ein kleineres `--batch_size` mit mehr `--gradient_accumulation_steps`; oder "
        "`fitgpt patch . --apply --only checkpoint-blocks`, dann `--grad_checkpoint=True`",
    ),
    "how stacked-update": (
        "update one matrix at a time instead of a stack of all", "逐个矩阵更新，而不是把所有矩阵堆叠",
        "すべてを積み重ねず、行列を一つずつ更新する", "eine Matrix nach der anderen aktualisieren statt aller gestapelt",
    ),
    "how foreach-update": (
        "`fused=True`, or `foreach=False`, updates without copies of all parameters",
        "`fused=True` 或 `foreach=False` 更新时不复制所有参数", "`fused=True` または `foreach=False` なら全パラメータのコピーなしに更新します",
        "`fused=True` oder `foreach=False` aktualisiert ohne Kopien aller Parameter",
    ),
    "how smaller-optimizer": (
        "an 8-bit optimizer keeps a quarter of float32 states (it changes the training); LoRA trains, and keeps, few",
        "8 位优化器只保留 float32 状态的四分之一（会改变训练）；LoRA 只训练并保留很少",
        "8 ビットのオプティマイザは float32 の状態の 4 分の 1 を保持します（学習は変わります）。LoRA は少しだけを学習し保持します",
        "ein 8-Bit-Optimierer behält ein Viertel von float32-Zuständen (das ändert das Training); LoRA trainiert und behält wenige",
    ),
    "how smaller-optimizer transformers": (
        "`TrainingArguments(optim=\"adamw_8bit\")` keeps a quarter of float32 states (it changes the training); `peft`'s LoRA "
        "trains, and keeps, few",
        "`TrainingArguments(optim=\"adamw_8bit\")` 只保留 float32 状态的四分之一（会改变训练）；`peft` 的 LoRA 只训练并保留很少",
        "`TrainingArguments(optim=\"adamw_8bit\")` は float32 の状態の 4 分の 1 を保持します（学習は変わります）。`peft` の LoRA は"
        "少しだけを学習し保持します",
        "`TrainingArguments(optim=\"adamw_8bit\")` behält ein Viertel von float32-Zuständen (das ändert das Training); LoRA mit "
        "`peft` trainiert und behält wenige",
    ),
    "how predictions": (
        "move them to the host after each batch, or keep less than the logits", "每个批次后移到主机，或保留比 logits 更少的内容",
        "バッチごとにホストへ移すか、logits より小さなものだけを保持する", "nach jedem Stapel zum Host verschieben, oder weniger als die Logits behalten",
    ),
    "how predictions transformers": (
        "`eval_accumulation_steps=1`, or `preprocess_logits_for_metrics` that returns the argmax",
        "`eval_accumulation_steps=1`，或返回 argmax 的 `preprocess_logits_for_metrics`",
        "`eval_accumulation_steps=1`、または argmax を返す `preprocess_logits_for_metrics`",
        "`eval_accumulation_steps=1`, oder `preprocess_logits_for_metrics`, das den Argmax zurückgibt",
    ),
    # The command.
    "error": ("error: {text}", "错误：{text}", "エラー: {text}", "Fehler: {text}"),
    "no-script": (
        "there is no file `{script}`", "没有文件 `{script}`", "ファイル `{script}` がありません", "es gibt keine Datei `{script}`",
    ),
    "no-script-named": (
        "name a script, or `-m` and a module", "请指定脚本，或 `-m` 和模块", "スクリプト、または `-m` とモジュールを指定してください",
        "nennen Sie ein Skript, oder `-m` und ein Modul",
    ),
    "advise-needs-card": (
        "`--advise` needs a `--card`", "`--advise` 需要 `--card`", "`--advise` には `--card` が必要です", "`--advise` braucht eine `--card`",
    ),
    "at-least-one": (
        "`--steps` and `--ranks` are at least 1", "`--steps` 和 `--ranks` 至少为 1", "`--steps` と `--ranks` は 1 以上です",
        "`--steps` und `--ranks` sind mindestens 1",
    ),
    "help-script": (
        "Counts the memory of a training script, unchanged, on a card that is not there. Nothing is written.\n"
        "Our options come before the script's own arguments; --card and --advise may be anywhere before `--`.\n"
        "Exit codes: 0 fits, or no card named; 1 does not fit; 2 something failed.",
        "在并不存在的显卡上计算未经修改的训练脚本的内存。不写入任何内容。\n"
        "我们的选项放在脚本自己的参数之前；--card 和 --advise 可以在 `--` 之前的任何位置。\n"
        "退出码：0 放得下或未指定显卡；1 放不下；2 出错。",
        "手元にないカードでの学習スクリプトのメモリを、スクリプトを変えずに数えます。何も書き込みません。\n"
        "こちらのオプションはスクリプトの引数の前に置きます。--card と --advise は `--` より前ならどこでもかまいません。\n"
        "終了コード: 0 収まる、またはカードの指定なし、1 収まらない、2 失敗。",
        "Zählt den Speicher eines Trainingsskripts, unverändert, auf einer Karte, die nicht da ist. Nichts wird geschrieben.\n"
        "Unsere Optionen stehen vor denen des Skripts; --card und --advise dürfen überall vor `--` stehen.\n"
        "Exit-Codes: 0 passt, oder keine Karte genannt; 1 passt nicht; 2 etwas ist gescheitert.",
    ),
    "help-module": (
        "run a module, like `python -m`", "像 `python -m` 那样运行模块", "`python -m` のようにモジュールを実行する",
        "ein Modul ausführen, wie `python -m`",
    ),
    "help-card": (
        "the card, such as \"RTX 4070\"", "显卡，例如 \"RTX 4070\"", "カード。例: \"RTX 4070\"", "die Karte, etwa \"RTX 4070\"",
    ),
    "help-advise": (
        "count ways to make it fit, and print the command of the best", "计算使其放得下的办法，并打印最佳命令",
        "収める方法を数え、最良のコマンドを表示する", "Wege zählen, damit es passt, und den besten Befehl nennen",
    ),
    "help-set": (
        "set an argument of a `transformers` Trainer that the script does not offer", "设置脚本未提供的 `transformers` Trainer 参数",
        "スクリプトにない `transformers` Trainer の引数を設定する", "ein Argument eines Trainers von `transformers` setzen, das das Skript nicht anbietet",
    ),
    "help-steps": (
        "optimizer steps (default 2)", "优化步数（默认 2）", "オプティマイザのステップ数（既定 2）", "Optimiererschritte (Vorgabe 2)",
    ),
    "help-ranks": (
        "be one rank of N, as under torchrun", "作为 N 个 rank 之一，如同 torchrun", "torchrun のように N ランクの一つになる",
        "ein Rang von N sein, wie unter torchrun",
    ),
    "help-eager": (
        "count compiled code as eager code: a quick upper bound", "把编译的代码按 eager 代码计数：快速的上界",
        "コンパイルするコードを eager として数える。速い上界です", "kompilierten Code als Eager-Code zählen: eine schnelle obere Schranke",
    ),
    "help-html": (
        "also write a page with a picture", "同时写一个带图的网页", "図のあるページも書く", "auch eine Seite mit einem Bild schreiben",
    ),
    "help-json": ("print JSON", "打印 JSON", "JSON を表示する", "JSON ausgeben"),
    "help-quiet": (
        "hide what the script prints", "不显示脚本的输出", "スクリプトの出力を隠す", "die Ausgaben des Skripts nicht zeigen",
    ),
    "help-lang": ("language of the report", "报告的语言", "レポートの言語", "Sprache des Berichts"),
    "help-help": ("show this and exit", "显示此帮助并退出", "これを表示して終了する", "das hier zeigen und enden"),
    "first-batch": (
        "counted with the first batch of the data: {shapes}", "按数据的第一个批次计数：{shapes}", "データの最初のバッチで数えました: {shapes}",
        "mit dem ersten Stapel der Daten gezählt: {shapes}",
    ),
}  # fmt: skip
