//! What a failure says next to its error: hints, and the failures that have no error of their own.

fitgpt_say::sentences! {
    /// A card that the catalogue does not have.
    plan_for_a_size() {
        en: "`--budget 12GB` plans for a card of that size",
        zh: "`--budget 12GB` 按这个容量的显卡规划",
        ja: "`--budget 12GB` ならその容量のカードで計画します",
        de: "`--budget 12GB` plant für eine Karte dieser Größe",
    }
    all_cards() {
        en: "`--gpu list` prints the cards that are known by name",
        zh: "`--gpu list` 列出已知名称的显卡",
        ja: "`--gpu list` で名前の分かっているカードを一覧できます",
        de: "`--gpu list` zeigt die Karten, die mit Namen bekannt sind",
    }
    /// Below a relative path that does not exist.
    relative_to(folder) {
        en: "paths are relative to the current folder, `{folder}`",
        zh: "路径相对于当前文件夹 `{folder}`",
        ja: "パスは現在のフォルダ `{folder}` からの相対パスです",
        de: "Pfade gelten ab dem aktuellen Ordner, `{folder}`",
    }
    /// No handler for Ctrl-C could be installed.
    no_signals(source) {
        en: "cannot handle signals: {source}", zh: "无法监听信号：{source}", ja: "シグナルを監視できません: {source}", de: "Signale lassen sich nicht abfangen: {source}",
    }
    /// What to do about a missing checkpoint.
    choose_one() {
        en: "`--resume_from=fitgpt` takes FitGPT's and leaves `ckpt.pt` as it is; `--resume_from=nanogpt` takes `ckpt.pt`, and a resumed run keeps FitGPT's among its earlier checkpoints",
        zh: "`--resume_from=fitgpt` 使用 FitGPT 的检查点，`ckpt.pt` 保持原样；`--resume_from=nanogpt` 使用 `ckpt.pt`，继续训练时 FitGPT 的检查点归入较早的检查点",
        ja: "`--resume_from=fitgpt` は FitGPT のものを使い、`ckpt.pt` はそのまま残ります。`--resume_from=nanogpt` は `ckpt.pt` を使い、再開した学習では FitGPT のものは以前のチェックポイントの 1 つになります",
        de: "`--resume_from=fitgpt` nimmt den von FitGPT und lässt `ckpt.pt`, wie sie ist; `--resume_from=nanogpt` nimmt `ckpt.pt`, und ein fortgesetzter Lauf behält den von FitGPT unter seinen früheren Checkpoints",
    }
    train_first() {
        en: "name the folder of a run, or train one with `fitgpt train --out_dir=FOLDER`",
        zh: "请指定已有训练的文件夹，或用 `fitgpt train --out_dir=FOLDER` 训练一个",
        ja: "実行のフォルダを指定するか、`fitgpt train --out_dir=FOLDER` で学習してください",
        de: "den Ordner eines Laufs angeben oder mit `fitgpt train --out_dir=FOLDER` einen trainieren",
    }
    /// What to do about a path that is never written to.
    another_path() {
        en: "write to another path",
        zh: "请写到别的路径",
        ja: "別のパスに書き出してください",
        de: "an einen anderen Ort schreiben",
    }
    /// The folder has no such files.
    which_folder() {
        en: "name the folder of your nanoGPT: the one with `train.py` and `model.py`",
        zh: "请指定你的 nanoGPT 文件夹，即含有 `train.py` 和 `model.py` 的文件夹",
        ja: "nanoGPT のフォルダ（`train.py` と `model.py` があるフォルダ）を指定してください",
        de: "den Ordner Ihres nanoGPT angeben: den mit `train.py` und `model.py`",
    }
    /// Before the names of all.
    there_are(names) { en: "available: {names}", zh: "可用的有 {names}", ja: "使えるのは {names} です", de: "es gibt {names}" }
    /// How to continue a run whose folder was moved.
    resume_there(saved_in) {
        en: "`fitgpt train --init_from=resume --out_dir={saved_in}` continues the run",
        zh: "`fitgpt train --init_from=resume --out_dir={saved_in}` 继续该训练",
        ja: "`fitgpt train --init_from=resume --out_dir={saved_in}` で学習を続けます",
        de: "`fitgpt train --init_from=resume --out_dir={saved_in}` setzt den Lauf fort",
    }
    /// The only device here is a driver that runs kernels on the CPU.
    run_in_software(device) {
        en: "add `--device=cpu` to run it here, or `--device=vulkan` for {device}, which is slower",
        zh: "加上 `--device=cpu` 即可在这里运行；`--device=vulkan` 则使用较慢的 {device}",
        ja: "`--device=cpu` を付けるとここで実行できます。`--device=vulkan` なら {device} を使いますが、より遅くなります",
        de: "mit `--device=cpu` läuft es hier, mit `--device=vulkan` auf {device}, das langsamer ist",
    }
    run_on_cpu() {
        en: "add `--device=cpu` to run it here",
        zh: "加上 `--device=cpu` 即可在这里运行",
        ja: "`--device=cpu` を付けるとここで実行できます",
        de: "mit `--device=cpu` läuft es hier",
    }
    build_with_gpu() {
        en: "`cargo build --release --features gpu` builds one that runs on GPUs; `--device=cpu` runs it here",
        zh: "用 `cargo build --release --features gpu` 可编译出支持 GPU 的版本；加上 `--device=cpu` 即可在这里运行",
        ja: "`cargo build --release --features gpu` で GPU 対応のビルドができます。`--device=cpu` を付けるとここで実行できます",
        de: "`cargo build --release --features gpu` baut ein Programm, das auf GPUs läuft; mit `--device=cpu` läuft es hier",
    }
    another_type() {
        en: "use `--dtype=float16` or `--dtype=float32`",
        zh: "请改用 `--dtype=float16` 或 `--dtype=float32`",
        ja: "`--dtype=float16` か `--dtype=float32` を指定してください",
        de: "`--dtype=float16` oder `--dtype=float32` schreiben",
    }
    name_a_budget() {
        en: "set a limit, such as `--memory_budget=8GiB`",
        zh: "请写明可用多少，例如 `--memory_budget=8GiB`",
        ja: "使ってよい量を `--memory_budget=8GiB` のように指定してください",
        de: "eine Grenze setzen, etwa `--memory_budget=8GiB`",
    }
    resume_elsewhere() {
        en: "`--init_from=resume` continues from the last checkpoint; with `--device=cpu` it needs no GPU",
        zh: "`--init_from=resume` 从最后的检查点继续；加上 `--device=cpu` 则不需要 GPU",
        ja: "`--init_from=resume` で最後のチェックポイントから再開できます。`--device=cpu` を付ければ GPU は不要です",
        de: "`--init_from=resume` setzt beim letzten Checkpoint fort; mit `--device=cpu` ohne GPU",
    }
    /// A command that saves nothing was interrupted.
    stopped_early() {
        en: "stopped before the end",
        zh: "在完成之前停止了",
        ja: "完了前に停止しました",
        de: "vor dem Ende angehalten",
    }
    keep_finite() {
        en: "to keep the loss finite, lower `--learning_rate`, raise `--warmup_iters` or use `--dtype=float32`; `--init_from=resume` continues from the last checkpoint",
        zh: "降低 `--learning_rate`、加大 `--warmup_iters` 或使用 `--dtype=float32` 可以让损失保持有限；`--init_from=resume` 从最后的检查点继续",
        ja: "`--learning_rate` を下げる、`--warmup_iters` を長くする、または `--dtype=float32` にすると損失の発散を防げます。`--init_from=resume` で最後のチェックポイントから再開できます",
        de: "eine kleinere `--learning_rate`, längere `--warmup_iters` oder `--dtype=float32` halten den Loss endlich; `--init_from=resume` setzt beim letzten Checkpoint fort",
    }
    held_by(holders) {
        en: "held by {holders}",
        zh: "占用者：{holders}",
        ja: "使用プロセス: {holders}",
        de: "belegt von {holders}",
    }
}
