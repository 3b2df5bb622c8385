//! What `train` prints in addition to nanoGPT's log lines.

use fitgpt_run::{budget::HostLimit, device::UnusedCard};

messages! {
    /// A key of nanoGPT's that has no effect here.
    ignored(key) {
        en: "`{key}` has no effect here and is ignored",
        zh: "`{key}` 在这里没有意义，已忽略",
        ja: "`{key}` はここでは意味がないため無視します",
        de: "`{key}` hat hier keine Wirkung und wird ignoriert",
    }
    /// `wandb_log=True`.
    wandb() {
        en: "`wandb_log`: nothing is sent to W&B; `--tensorboard` writes event files, and `events.jsonl` has every number",
        zh: "`wandb_log`：不会向 W&B 发送任何内容；`--tensorboard` 写出事件文件，`events.jsonl` 含有所有数值",
        ja: "`wandb_log`: W&B には何も送りません。`--tensorboard` でイベントファイルを書き出せます。すべての数値は `events.jsonl` にあります",
        de: "`wandb_log`: an W&B wird nichts gesendet; `--tensorboard` schreibt Event-Dateien, und `events.jsonl` enthält alle Zahlen",
    }
    /// A value that only running the Python file would give; `value` is used instead.
    not_known(place, key, reason, value) {
        en: "{place}: `{key}` is not known without running the file ({reason}), so `{value}` is used; `--{key}=…` sets it",
        zh: "{place}：不运行该文件就无法得知 `{key}`（{reason}）；现为 `{value}`，可用 `--{key}=…` 设置",
        ja: "{place}: ファイルを実行しないと `{key}` は分かりません（{reason}）。`{value}` とします。`--{key}=…` で設定できます",
        de: "{place}: `{key}` ist ohne Ausführen der Datei nicht bekannt ({reason}), daher gilt `{value}`; `--{key}=…` setzt es",
    }
    /// A GPU, and the interface through which it is reached.
    running_on(device, interface) {
        en: "running on {device} through {interface}",
        zh: "在 {device} 上通过 {interface} 运行",
        ja: "{device} 上で {interface} 経由で実行します",
        de: "läuft auf {device} über {interface}",
    }
    /// A card that this build cannot use.
    card_not_built_in(card) {
        en: "{card} is present, but this build runs on the CPU only; `cargo build --release --features gpu` builds one that uses it",
        zh: "本机有 {card}，但此版本只能在 CPU 上运行；用 `cargo build --release --features gpu` 编译的版本可以使用它",
        ja: "{card} がありますが、このビルドは CPU でしか動きません。`cargo build --release --features gpu` でビルドすると使えます",
        de: "{card} ist vorhanden, dieser Build läuft aber nur auf der CPU; `cargo build --release --features gpu` baut einen, der sie nutzt",
    }
    /// A card that no driver offers to this build.
    card_not_reached(card) {
        en: "{card} is present, but no Vulkan driver offers it; the run uses the CPU, and `fitgpt devices` lists what was found",
        zh: "本机有 {card}，但没有 Vulkan 驱动提供它；本次在 CPU 上运行，`fitgpt devices` 会列出找到的设备",
        ja: "{card} がありますが、それを提供する Vulkan ドライバがありません。CPU で実行します。見つかったものは `fitgpt devices` で確認できます",
        de: "{card} ist vorhanden, aber kein Vulkan-Treiber bietet sie an; der Lauf nutzt die CPU, und `fitgpt devices` zeigt, was gefunden wurde",
    }
    /// A card that is visible on the PCI bus only.
    a_card() {
        en: "an NVIDIA card", zh: "NVIDIA 显卡", ja: "NVIDIA の GPU", de: "eine Karte von NVIDIA",
    }
    /// There is less free memory now than the budget.
    not_free_now(needed, free, limit) {
        en: "the plan needs {needed}, this machine has {free} now ({limit})",
        zh: "计划需要 {needed}，而本机现在只有 {free}（{limit}）",
        ja: "計画には {needed} が必要ですが、このマシンの空きは現在 {free} です（{limit}）",
        de: "der Plan braucht {needed}, dieser Rechner hat jetzt {free} ({limit})",
    }
    /// A GPU's run needs the host's memory, too.
    host_too_small(needed, free, limit) {
        en: "in addition to the GPU's memory the run needs {needed} of this machine's, which has {free} now ({limit})",
        zh: "除显存外，运行还需要本机内存 {needed}，而现在只有 {free}（{limit}）",
        ja: "VRAM に加えてこのマシンのメモリが {needed} 必要ですが、空きは現在 {free} です（{limit}）",
        de: "zusätzlich zum Grafikspeicher braucht der Lauf {needed} Arbeitsspeicher dieses Rechners, der jetzt {free} hat ({limit})",
    }
    /// A signal in a run that saves nothing.
    stopped_unsaved() {
        en: "stopped; this run saves nothing",
        zh: "已停止；本次运行不保存任何内容",
        ja: "停止しました。この実行では何も保存しません",
        de: "angehalten; dieser Lauf speichert nichts",
    }
    limit_available() {
        en: "available memory", zh: "可用内存", ja: "利用可能なメモリ", de: "verfügbarer Speicher",
    }
    limit_control_group() {
        en: "the limit of its control group",
        zh: "cgroup 的限制",
        ja: "cgroup の制限",
        de: "die Grenze seiner Control Group",
    }
    limit_data_segment() {
        en: "the limit of its data segment",
        zh: "数据段的限制",
        ja: "データセグメントの制限",
        de: "die Grenze seines Datensegments",
    }
    limit_address_space() {
        en: "the address-space limit",
        zh: "地址空间的限制",
        ja: "アドレス空間の制限",
        de: "die Grenze des Adressraums",
    }

    /// `--fit` on a config that fits.
    fits_already() {
        en: "--fit: it fits as it is, nothing is changed",
        zh: "--fit：原样就放得下，未作改动",
        ja: "--fit: そのままで収まるため、何も変更しません",
        de: "--fit: es passt, wie es ist, nichts wird geändert",
    }
    /// Before the changes that `--fit` makes.
    adapted(need, high, budget) {
        en: "--fit: as written it needs {need} and up to {high} more, the budget is {budget}; changed:",
        zh: "--fit：原配置需要 {need}，此外最多 {high}，而预算为 {budget}；改动如下：",
        ja: "--fit: 元の設定には {need} と、そのほかに最大 {high} が必要で、予算は {budget} です。変更点:",
        de: "--fit: wie geschrieben braucht es {need} und dazu bis zu {high}, das Budget ist {budget}; geändert:",
    }
    /// After the changes.
    adapted_sum(before, after, percent, sequences) {
        en: "peak {before} → {after}, {percent} % more work; each step still trains on {sequences} sequences, and the losses stay the same up to rounding",
        zh: "峰值 {before} → {after}，计算量增加 {percent} %；每步仍训练 {sequences} 条序列，损失除舍入误差外不变",
        ja: "ピーク {before} → {after}、計算量 {percent} % 増。1 ステップは {sequences} 系列のままで、損失は丸め誤差を除いて変わりません",
        de: "Spitze {before} → {after}, {percent} % mehr Rechenarbeit; jeder Schritt trainiert weiter mit {sequences} Sequenzen, und der Loss bleibt bis auf Rundung gleich",
    }
    /// After the changes of a resumed run.
    adapted_resume(before, after, percent) {
        en: "peak {before} → {after}, {percent} % more work; the run continues bit for bit",
        zh: "峰值 {before} → {after}，计算量增加 {percent} %；训练逐位相同地继续",
        ja: "ピーク {before} → {after}、計算量 {percent} % 増。学習はビット単位で同じまま続きます",
        de: "Spitze {before} → {after}, {percent} % mehr Rechenarbeit; der Lauf geht Bit für Bit gleich weiter",
    }
    /// A resumed run that fits only with changes that affect rounding.
    resume_keeps_rounding() {
        en: "--fit changes nothing that affects rounding in a resumed run; set the keys yourself to allow it",
        zh: "恢复训练时 --fit 不会改动影响舍入的设置；如果允许，请自己写出这些配置项",
        ja: "再開した学習では、--fit は丸めに影響する変更をしません。許す場合はキーを自分で指定してください",
        de: "--fit ändert an einem fortgesetzten Lauf nichts, was die Rundung berührt; um es zu erlauben, die Schlüssel selbst setzen",
    }

    /// A run that continues from nanoGPT's `ckpt.pt`.
    continues_nanogpt(step, updates) {
        en: "continues nanoGPT's run at step {step}, with the moments of {updates} updates",
        zh: "从第 {step} 步继续 nanoGPT 的训练，带有 {updates} 次更新的 Adam 矩",
        ja: "nanoGPT の学習をステップ {step} から、{updates} 回の更新のモーメントとともに続けます",
        de: "setzt den Lauf von nanoGPT bei Schritt {step} fort, mit den Momenten von {updates} Updates",
    }
    /// Where the first weights come from.
    begins_from(folder, layers, heads, channels, vocab) {
        en: "starts from the weights in {folder}: {layers} layers, {heads} heads, {channels} channels, {vocab} tokens",
        zh: "从 {folder} 中的权重开始：{layers} 层、{heads} 头、{channels} 通道、{vocab} 个 token",
        ja: "{folder} の重みから始めます: {layers} 層、{heads} ヘッド、{channels} チャネル、{vocab} トークン",
        de: "beginnt mit den Gewichten in {folder}: {layers} Schichten, {heads} Köpfe, {channels} Kanäle, {vocab} Tokens",
    }
    /// Fewer positions than the weights have.
    cropped(block, had) {
        en: "`block_size` {block}: the first {block} of {had} positions are used",
        zh: "`block_size` {block}：只取 {had} 个位置中的前 {block} 个",
        ja: "`block_size` {block}: {had} 個の位置のうち最初の {block} 個を使います",
        de: "`block_size` {block}: die ersten {block} von {had} Positionen werden genommen",
    }
    /// More positions than the weights have.
    block_too_long(block, folder, had) {
        en: "`block_size = {block}` exceeds the positions of the weights in `{folder}`: {had}",
        zh: "`block_size = {block}` 超过了 `{folder}` 中权重的位置数：{had}",
        ja: "`block_size = {block}` は `{folder}` の重みが持つ位置の数を超えています: {had}",
        de: "`block_size = {block}` ist mehr, als die Gewichte in `{folder}` Positionen haben: {had}",
    }
    /// No weights of that name or at that path.
    no_weights(name, folders) {
        en: "`init_from = '{name}'`: no weights in {folders}; a folder of weights has `config.json` and `model.safetensors`",
        zh: "`init_from = '{name}'`：{folders} 中没有权重；权重文件夹应有 `config.json` 和 `model.safetensors`",
        ja: "`init_from = '{name}'`: {folders} に重みがありません。重みのフォルダには `config.json` と `model.safetensors` があります",
        de: "`init_from = '{name}'`: keine Gewichte in {folders}; ein Ordner mit Gewichten hat `config.json` und `model.safetensors`",
    }
    /// Weights of a model that cannot be run here.
    unsupported(name, reason) {
        en: "`init_from = '{name}'`: {reason}",
        zh: "`init_from = '{name}'`：{reason}",
        ja: "`init_from = '{name}'`: {reason}",
        de: "`init_from = '{name}'`: {reason}",
    }
    /// How to get published weights.
    get_weights(repository) {
        en: "`--download` fetches {repository} from the Hugging Face hub; or give a folder: `--init_from=PATH/TO/FOLDER`",
        zh: "`--download` 会从 Hugging Face 下载 {repository}；也可以指定文件夹：`--init_from=PATH/TO/FOLDER`",
        ja: "`--download` で {repository} を Hugging Face から取得できます。フォルダの指定も可能です: `--init_from=PATH/TO/FOLDER`",
        de: "`--download` holt {repository} vom Hugging Face Hub; oder einen Ordner nennen: `--init_from=PATH/TO/FOLDER`",
    }

    /// The config's vocabulary is less than the data's.
    vocab_too_small(config, data) {
        en: "`vocab_size = {config}` is less than the {data} symbols of the data",
        zh: "`vocab_size = {config}` 小于数据中的 {data} 个符号",
        ja: "`vocab_size = {config}` はデータの {data} 個の記号より少なくなっています",
        de: "`vocab_size = {config}` ist weniger als die {data} Symbole der Daten",
    }
    /// A checkpoint of another shape.
    other_shape(folder, key, there, here) {
        en: "the checkpoint in `{folder}` has `{key} = {there}`, the config says `{here}`",
        zh: "`{folder}` 中的检查点是 `{key} = {there}`，而配置写的是 `{here}`",
        ja: "`{folder}` のチェックポイントは `{key} = {there}` ですが、設定では `{here}` です",
        de: "der Checkpoint in `{folder}` hat `{key} = {there}`, die Konfiguration sagt `{here}`",
    }
    leave_the_key_out() {
        en: "a resumed run takes the model's shape and the optimizer from its checkpoint: leave the key out",
        zh: "恢复训练时模型形状和优化器取自检查点：请去掉这个配置项",
        ja: "再開時のモデルの形とオプティマイザはチェックポイントから取られます。このキーは省いてください",
        de: "beim Fortsetzen kommen Form des Modells und Optimierer aus dem Checkpoint: den Schlüssel weglassen",
    }
    /// A new run in the folder of another one.
    holds_a_checkpoint(folder) {
        en: "`{folder}` has a checkpoint; a new run would replace it",
        zh: "`{folder}` 中已有检查点；新的训练会替换它",
        ja: "`{folder}` にはチェックポイントがあり、新しい学習で置き換えられてしまいます",
        de: "`{folder}` enthält einen Checkpoint; ein neuer Lauf würde ihn ersetzen",
    }
    resume_or_move(folder) {
        en: "`--init_from=resume --out_dir={folder}` continues that run, another `--out_dir` keeps both, and `--overwrite` replaces it",
        zh: "`--init_from=resume --out_dir={folder}` 继续该训练，换一个 `--out_dir` 则两者都保留，`--overwrite` 替换它",
        ja: "`--init_from=resume --out_dir={folder}` でその学習を続けます。別の `--out_dir` なら両方が残り、`--overwrite` なら置き換えます",
        de: "`--init_from=resume --out_dir={folder}` setzt diesen Lauf fort, ein anderes `--out_dir` behält beide, und `--overwrite` ersetzt ihn",
    }
    /// The folder has no manifest of ours; `names` are in backticks.
    foreign_files(folder, names) {
        en: "`{folder}` has {names}, not written by fitgpt, which a run would replace",
        zh: "`{folder}` 中有并非 fitgpt 所写的 {names}，训练会将其替换",
        ja: "`{folder}` には fitgpt が書いたものではない {names} があり、学習で置き換えられてしまいます",
        de: "`{folder}` enthält {names}, nicht von fitgpt geschrieben; ein Lauf würde das ersetzen",
    }
    another_out_dir() {
        en: "use another `--out_dir`, or move these files away",
        zh: "请换一个 `--out_dir`，或把这些文件移走",
        ja: "別の `--out_dir` を使うか、これらのファイルを移動してください",
        de: "ein anderes `--out_dir` wählen oder diese Dateien wegräumen",
    }
    /// `--overwrite` of a run that ended before its first save.
    put_back(folder) {
        en: "the new run ended before its first save; the earlier run in `{folder}` is as it was",
        zh: "新的训练在首次保存之前就结束了；`{folder}` 中原来的训练保持原样",
        ja: "新しい学習は最初の保存の前に終わりました。`{folder}` の以前の学習は元のままです",
        de: "der neue Lauf endete vor seinem ersten Speichern; der frühere Lauf in `{folder}` ist, wie er war",
    }
    /// The folder has the log of one run and the checkpoint of another.
    log_of_another_run(log, in_log, folder, saved) {
        en: "`{log}` is the log of run {in_log}, the checkpoint in `{folder}` is from run {saved}",
        zh: "`{log}` 是训练 {in_log} 的日志，而 `{folder}` 中的检查点属于训练 {saved}",
        ja: "`{log}` は学習 {in_log} のログですが、`{folder}` のチェックポイントは学習 {saved} のものです",
        de: "`{log}` ist das Log von Lauf {in_log}, der Checkpoint in `{folder}` ist von Lauf {saved}",
    }
    move_the_log(log, folder) {
        en: "move `{log}` away to continue from the checkpoint in `{folder}`",
        zh: "把 `{log}` 移到别处，即可从 `{folder}` 中的检查点继续",
        ja: "`{folder}` のチェックポイントから続けるには、`{log}` を別の場所に移してください",
        de: "um vom Checkpoint in `{folder}` fortzusetzen, `{log}` an einen anderen Ort verschieben",
    }
    /// The dataset is not the one of the checkpoint.
    data_changed() {
        en: "the dataset has changed since the checkpoint was saved: its size or content differs",
        zh: "数据集在保存检查点之后发生了变化：大小或内容不同",
        ja: "チェックポイントの保存後にデータセットが変わりました: 大きさか内容が異なります",
        de: "der Datensatz hat sich geändert, seit der Checkpoint gespeichert wurde: Größe oder Inhalt weicht ab",
    }
    /// Not enough disk.
    disk_too_small(folder, needed, free) {
        en: "checkpoints in `{folder}` need {needed}, the disk has {free} free",
        zh: "`{folder}` 中的检查点需要 {needed}，磁盘只剩 {free}",
        ja: "`{folder}` のチェックポイントには {needed} が必要ですが、ディスクの空きは {free} です",
        de: "Checkpoints in `{folder}` brauchen {needed}, auf der Platte sind {free} frei",
    }
    free_some_space() {
        en: "free some space, or set `--out_dir` to a folder on another disk",
        zh: "请腾出空间，或把 `--out_dir` 指到另一块磁盘",
        ja: "空きを作るか、`--out_dir` を別のディスクにしてください",
        de: "Platz schaffen oder `--out_dir` auf eine andere Platte legen",
    }

    /// Before the first step, from the work alone.
    long_before(time, flops, threads, rate) {
        en: "this run takes {flops} floating-point operations: about {time} on {threads} threads of this machine, at {rate} GFLOP/s each; the time is measured after two steps; fewer `--max_iters`, a smaller model or a GPU shorten it",
        zh: "这次训练需要 {flops} 次浮点运算：在本机 {threads} 个线程上、每个 {rate} GFLOP/s 时约需 {time}；两步之后会给出实测值，减小 `--max_iters`、缩小模型或使用 GPU 可以缩短",
        ja: "この学習の浮動小数点演算は {flops} 回です。このマシンの {threads} スレッド、各 {rate} GFLOP/s で約 {time} かかります。2 ステップ後に実測し、`--max_iters` を減らす、モデルを小さくする、GPU を使うと短くなります",
        de: "dieser Lauf braucht {flops} Gleitkommaoperationen: etwa {time} auf {threads} Threads dieses Rechners, bei {rate} GFLOP/s je Thread; nach zwei Schritten wird gemessen, und weniger `--max_iters`, ein kleineres Modell oder eine GPU verkürzen ihn",
    }
    /// After two steps.
    long_measured(time) {
        en: "at this rate the run takes {time} on this machine",
        zh: "按这个速度，本机需要 {time}",
        ja: "この速度では、このマシンで {time} かかります",
        de: "bei diesem Tempo dauert der Lauf auf diesem Rechner {time}",
    }
    days(days) { en: "{days} days", zh: "{days} 天", ja: "{days} 日", de: "{days} Tage" }
    /// The progress line, which is overwritten.
    progress(step, last, loss, rate, arena, left) {
        en: "step {step}/{last}  loss {loss}  {rate} tokens/s  {arena}  {left} left",
        zh: "第 {step}/{last} 步  损失 {loss}  {rate} token/秒  {arena}  剩余 {left}",
        ja: "ステップ {step}/{last}  損失 {loss}  {rate} トークン/秒  {arena}  残り {left}",
        de: "Schritt {step}/{last}  Loss {loss}  {rate} Tokens/s  {arena}  noch {left}",
    }
    evaluating(step) {
        en: "step {step}: evaluating",
        zh: "第 {step} 步：正在评估",
        ja: "ステップ {step}: 評価中",
        de: "Schritt {step}: Evaluierung läuft",
    }
    sampling(step) {
        en: "step {step}: drawing a sample",
        zh: "第 {step} 步：正在采样",
        ja: "ステップ {step}: テキストを生成中",
        de: "Schritt {step}: Textprobe wird erzeugt",
    }
    /// float16's scale was too large.
    overflowed(step, scale) {
        en: "step {step}: a gradient overflowed; the update is skipped, and the loss scale is now {scale}",
        zh: "第 {step} 步：梯度溢出，跳过本次更新，此后损失缩放为 {scale}",
        ja: "ステップ {step}: 勾配がオーバーフローしたため更新を飛ばし、以後の損失スケールは {scale} です",
        de: "Schritt {step}: ein Gradient ist übergelaufen, das Update entfällt, die Loss-Skalierung ist ab hier {scale}",
    }

    /// Above the curve.
    loss_of_steps(steps) {
        en: "loss of {steps} steps",
        zh: "{steps} 步的损失",
        ja: "{steps} ステップの損失",
        de: "Loss von {steps} Schritten",
    }
    stopped(folder) {
        en: "stopped; `fitgpt train --init_from=resume --out_dir={folder}` continues",
        zh: "已停止；`fitgpt train --init_from=resume --out_dir={folder}` 可继续",
        ja: "停止しました。`fitgpt train --init_from=resume --out_dir={folder}` で続けられます",
        de: "angehalten; `fitgpt train --init_from=resume --out_dir={folder}` macht weiter",
    }
    a_sample() { en: "\na sample:\n", zh: "\n示例：\n", ja: "\n生成例:\n", de: "\neine Probe:\n" }
    saved_in(folder) {
        en: "\nsaved in {folder}; `fitgpt sample --out_dir={folder} --start=\"…\"` continues any text",
        zh: "\n已保存到 {folder}；`fitgpt sample --out_dir={folder} --start=\"…\"` 可续写任何文本",
        ja: "\n{folder} に保存しました。`fitgpt sample --out_dir={folder} --start=\"…\"` で任意の文章の続きを書けます",
        de: "\ngespeichert in {folder}; `fitgpt sample --out_dir={folder} --start=\"…\"` setzt jeden Text fort",
    }
    curve_written(path) {
        en: "the curve is in {path}",
        zh: "曲线已写入 {path}",
        ja: "曲線は {path} にあります",
        de: "die Kurve steht in {path}",
    }

    /// The label below the axis of the curve.
    axis_step() { en: "step", zh: "步", ja: "ステップ", de: "Schritt" }
    legend_steps() {
        en: "loss of a step", zh: "每步的损失", ja: "ステップの損失", de: "Loss eines Schritts",
    }
    legend_train() {
        en: "evaluated, training data",
        zh: "评估（训练集）",
        ja: "評価（学習データ）",
        de: "evaluiert, Trainingsdaten",
    }
    legend_val() {
        en: "evaluated, validation data",
        zh: "评估（验证集）",
        ja: "評価（検証データ）",
        de: "evaluiert, Validierungsdaten",
    }
}

/// A card that a run on the host leaves unused.
pub(crate) fn unused(card: UnusedCard) -> String {
    match card {
        UnusedCard::NotInThisBuild { card } => card_not_built_in(card.unwrap_or_else(a_card)),
        UnusedCard::NotReached { card } => card_not_reached(card.unwrap_or_else(a_card)),
    }
}

/// The limit that decides how much memory there is.
pub(crate) fn limit(limit: HostLimit) -> String {
    match limit {
        HostLimit::Available => limit_available(),
        HostLimit::ControlGroup => limit_control_group(),
        HostLimit::AddressSpace => limit_address_space(),
        HostLimit::DataSegment => limit_data_segment(),
    }
}
