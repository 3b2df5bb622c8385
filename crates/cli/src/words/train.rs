//! What `train` prints in addition to nanoGPT's log lines.

use fitgpt_run::device::UnusedCard;

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
    /// A signal in a run that saves nothing.
    stopped_unsaved() {
        en: "stopped; this run saves nothing",
        zh: "已停止；本次运行不保存任何内容",
        ja: "停止しました。この実行では何も保存しません",
        de: "angehalten; dieser Lauf speichert nichts",
    }

    /// `--fit` on a config that fits.
    fits_already() {
        en: "--fit: it fits as it is, nothing is changed",
        zh: "--fit：原样就放得下，未作改动",
        ja: "--fit: そのままで収まるため、何も変更しません",
        de: "--fit: es passt, wie es ist, nichts wird geändert",
    }
    /// A resumed run that fits only with changes that affect rounding.
    resume_keeps_rounding() {
        en: "--fit changes nothing that affects rounding in a resumed run; set the keys yourself to allow it",
        zh: "恢复训练时 --fit 不会改动影响舍入的设置；如果允许，请自己写出这些配置项",
        ja: "再開した学習では、--fit は丸めに影響する変更をしません。許す場合はキーを自分で指定してください",
        de: "--fit ändert an einem fortgesetzten Lauf nichts, was die Rundung berührt; um es zu erlauben, die Schlüssel selbst setzen",
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
    /// A finished run is resumed.
    already_done(step, max_iters, more) {
        en: "the run is already at step {step}, past `max_iters = {max_iters}`: nothing is left to train; `--max_iters={more}` trains on",
        zh: "这次训练已到第 {step} 步，超过了 `max_iters = {max_iters}`：没有剩余步骤；`--max_iters={more}` 可继续训练",
        ja: "この学習は既にステップ {step} で、`max_iters = {max_iters}` を過ぎています。残りはありません。`--max_iters={more}` で続けられます",
        de: "der Lauf ist schon bei Schritt {step}, nach `max_iters = {max_iters}`: es bleibt nichts zu trainieren; `--max_iters={more}` trainiert weiter",
    }
    /// A run in the folder of nanoGPT's checkpoint.
    nanogpt_file_is_old(folder) {
        en: "`{folder}/ckpt.pt` is as nanoGPT left it; `fitgpt export {folder} --to nanogpt --out {folder}/ckpt.pt --overwrite` writes this run there",
        zh: "`{folder}/ckpt.pt` 仍是 nanoGPT 留下的；`fitgpt export {folder} --to nanogpt --out {folder}/ckpt.pt --overwrite` 可把这次训练写进去",
        ja: "`{folder}/ckpt.pt` は nanoGPT が残したままです。`fitgpt export {folder} --to nanogpt --out {folder}/ckpt.pt --overwrite` でこの学習を書き込めます",
        de: "`{folder}/ckpt.pt` ist noch, wie nanoGPT es hinterließ; `fitgpt export {folder} --to nanogpt --out {folder}/ckpt.pt --overwrite` schreibt diesen Lauf hinein",
    }
    no_sample(why) {
        en: "no sample: {why}", zh: "没有示例：{why}", ja: "生成例はありません: {why}", de: "keine Probe: {why}",
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
