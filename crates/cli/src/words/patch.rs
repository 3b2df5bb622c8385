//! What `patch` prints next to its diff.

use fitgpt_fit::patch::{Anchor, Patch};

messages! {
    patched(patch, description) {
        en: "patched: {patch}, {description}", zh: "已修补：{patch}，{description}", ja: "パッチ適用: {patch}、{description}", de: "gepatcht: {patch}, {description}",
    }
    already(patch) { en: "already there: {patch}", zh: "已经存在：{patch}", ja: "適用済み: {patch}", de: "schon da: {patch}" }
    not_found(patch, file, anchor) {
        en: "not found: {patch} looked in {file} for {anchor}",
        zh: "未找到：{patch} 在 {file} 中查找 {anchor}",
        ja: "見つかりません: {patch} は {file} の中で {anchor} を探しました",
        de: "nicht gefunden: {patch} suchte in {file} nach {anchor}",
    }
    backup(copy) { en: "backup: {copy}", zh: "备份：{copy}", ja: "バックアップ: {copy}", de: "Sicherung: {copy}" }
    /// In brackets after the command that applies the diff.
    applies() {
        en: "writes these changes, with a backup of each file",
        zh: "写入这些修改，并备份每个文件",
        ja: "この変更を書き込み、各ファイルのバックアップを残す",
        de: "schreibt diese Änderungen und sichert jede Datei",
    }
    /// In brackets after a `train.py` command with the keys of the patches.
    keys_are_off() {
        en: "these keys are off by default; `fitgpt fit CONFIG.py --engine torch --gpu NAME` computes which of them your card needs",
        zh: "这些配置项默认关闭；`fitgpt fit CONFIG.py --engine torch --gpu 名称` 会算出您的显卡需要哪些",
        ja: "これらのキーは既定で無効です。`fitgpt fit CONFIG.py --engine torch --gpu 名前` で、その GPU に必要なものを計算できます",
        de: "diese Schlüssel sind standardmäßig aus; `fitgpt fit CONFIG.py --engine torch --gpu NAME` berechnet, welche Ihre Karte braucht",
    }

    eval_batch_size() {
        en: "keys `eval_batch_size`, `eval_block_size` for `estimate_loss` (0: as training)",
        zh: "为 `estimate_loss` 增加配置项 `eval_batch_size`、`eval_block_size`（0：与训练相同）",
        ja: "`estimate_loss` 用のキー `eval_batch_size`、`eval_block_size`（0: 学習と同じ）",
        de: "Schlüssel `eval_batch_size`, `eval_block_size` für `estimate_loss` (0: wie im Training)",
    }
    loss_alone() {
        en: "`forward` returns `(None, loss)` while training: two tensors as large as the logits less",
        zh: "训练时 `forward` 返回 `(None, loss)`：少占两个与 logits 一样大的张量",
        ja: "学習中の `forward` が `(None, loss)` を返し、logits と同じ大きさのテンソルが 2 つ減ります",
        de: "`forward` gibt im Training `(None, loss)` zurück: zwei Tensoren von der Größe der Logits weniger",
    }
    drop_stale_logits() {
        en: "`loss = model(X, Y)[1]`: the logits of the last pass are freed",
        zh: "`loss = model(X, Y)[1]`：上一次前向的 logits 会被释放",
        ja: "`loss = model(X, Y)[1]`: 前回の順伝播の logits が解放されます",
        de: "`loss = model(X, Y)[1]`: die Logits des letzten Durchlaufs werden freigegeben",
    }
    chunked_loss() {
        en: "key `loss_chunk_rows`: computes logits and loss this many rows at a time (0: all at once)",
        zh: "配置项 `loss_chunk_rows`：输出层与损失按若干行分块计算（0：一次全部）",
        ja: "キー `loss_chunk_rows`: 出力層と損失を数行ずつ計算（0: 一度にすべて）",
        de: "Schlüssel `loss_chunk_rows`: berechnet Ausgabeschicht und Loss in Blöcken von so vielen Zeilen (0: alle auf einmal)",
    }
    checkpoint_blocks() {
        en: "key `grad_checkpoint`: recomputes blocks in the backward pass",
        zh: "配置项 `grad_checkpoint`：在反向传播中重新计算各个块",
        ja: "キー `grad_checkpoint`: ブロックを逆伝播で再計算します",
        de: "Schlüssel `grad_checkpoint`: Blöcke werden im Rückwärtslauf neu berechnet",
    }
    checkpoint_to_cpu() {
        en: "resuming loads the checkpoint into host memory and frees it",
        zh: "恢复训练时把检查点加载到主机内存，用完即释放",
        ja: "再開時にチェックポイントをホストのメモリに読み込み、使い終えたら解放します",
        de: "Fortsetzen lädt den Checkpoint in den Arbeitsspeicher und gibt ihn wieder frei",
    }
    save_before_eval() {
        en: "the checkpoint is saved before `estimate_loss`, which may run out of memory",
        zh: "在可能耗尽显存的 `estimate_loss` 之前保存检查点",
        ja: "メモリ不足になりうる `estimate_loss` の前にチェックポイントを保存します",
        de: "der Checkpoint wird vor `estimate_loss` gespeichert, dem der Speicher ausgehen kann",
    }
    grad_scaler() {
        en: "the current `torch.amp.GradScaler('cuda', …)`, which needs PyTorch 2.3",
        zh: "使用现行的 `torch.amp.GradScaler('cuda', …)`，需要 PyTorch 2.3",
        ja: "現行の `torch.amp.GradScaler('cuda', …)` を使います（PyTorch 2.3 以降）",
        de: "das aktuelle `torch.amp.GradScaler('cuda', …)`, das PyTorch 2.3 braucht",
    }

    get_batch() {
        en: "`def get_batch(split):` after the configuration, taking `batch_size` sequences of `block_size`",
        zh: "配置之后的 `def get_batch(split):`，其中取 `batch_size` 条长 `block_size` 的序列",
        ja: "設定の後にあり、`block_size` の系列を `batch_size` 個取る `def get_batch(split):`",
        de: "`def get_batch(split):` nach der Konfiguration, das `batch_size` Sequenzen von `block_size` nimmt",
    }
    evaluation_batch() {
        en: "`get_batch(split)` in `estimate_loss`", zh: "`estimate_loss` 中的 `get_batch(split)`", ja: "`estimate_loss` の中の `get_batch(split)`", de: "`get_batch(split)` in `estimate_loss`",
    }
    config_keys() {
        en: "`config_keys = […]` after the configuration's defaults", zh: "配置默认值之后的 `config_keys = […]`", ja: "設定の既定値の後の `config_keys = […]`", de: "`config_keys = […]` nach den Vorgabewerten der Konfiguration",
    }
    default_value() {
        en: "a default such as `batch_size = 12`", zh: "形如 `batch_size = 12` 的默认值", ja: "`batch_size = 12` のような既定値", de: "einem Vorgabewert wie `batch_size = 12`",
    }
    gpt_config() {
        en: "`class GPTConfig:` with fields such as `dropout: float = 0.0`",
        zh: "含有 `dropout: float = 0.0` 等字段的 `class GPTConfig:`",
        ja: "`dropout: float = 0.0` のようなフィールドを持つ `class GPTConfig:`",
        de: "`class GPTConfig:` mit Feldern wie `dropout: float = 0.0`",
    }
    to_device() {
        en: "`model.to(device)` after the model is made", zh: "创建模型之后的 `model.to(device)`", ja: "モデル作成後の `model.to(device)`", de: "`model.to(device)` nach dem Erzeugen des Modells",
    }
    import_torch() {
        en: "`import torch` at the top", zh: "文件开头的 `import torch`", ja: "先頭の `import torch`", de: "`import torch` am Anfang",
    }
    self_config() {
        en: "`self.config = config` in the model's `__init__`", zh: "模型 `__init__` 中的 `self.config = config`", ja: "モデルの `__init__` の中の `self.config = config`", de: "`self.config = config` im `__init__` des Modells",
    }
    logits_in_evaluation() {
        en: "`logits, loss = model(X, Y)` in `estimate_loss`, with `logits` read nowhere else",
        zh: "`estimate_loss` 中的 `logits, loss = model(X, Y)`，且 `logits` 不在别处读取",
        ja: "`estimate_loss` の中の `logits, loss = model(X, Y)`（`logits` がほかで読まれていないもの）",
        de: "`logits, loss = model(X, Y)` in `estimate_loss`, wobei `logits` sonst nirgends gelesen wird",
    }
    logits_in_loop() {
        en: "`logits, loss = model(X, Y)` in the training loop, with `logits` read nowhere else",
        zh: "训练循环中的 `logits, loss = model(X, Y)`，且 `logits` 不在别处读取",
        ja: "学習ループの中の `logits, loss = model(X, Y)`（`logits` がほかで読まれていないもの）",
        de: "`logits, loss = model(X, Y)` in der Trainingsschleife, wobei `logits` sonst nirgends gelesen wird",
    }
    logits_unread() {
        en: "`logits, loss = model(X, Y)` with `logits` read nowhere else",
        zh: "`logits, loss = model(X, Y)`，且 `logits` 不在别处读取",
        ja: "`logits, loss = model(X, Y)`（`logits` がほかで読まれていないもの）",
        de: "`logits, loss = model(X, Y)`, wobei `logits` sonst nirgends gelesen wird",
    }
    loss_branch() {
        en: "`if targets is not None:` around `logits = self.lm_head(x)` and `loss = F.cross_entropy(…)` over all rows, and nothing else",
        zh: "`if targets is not None:`，其中只有 `logits = self.lm_head(x)` 和对全部行的 `loss = F.cross_entropy(…)`",
        ja: "`logits = self.lm_head(x)` と全行に対する `loss = F.cross_entropy(…)` だけを含む `if targets is not None:`",
        de: "`if targets is not None:` um `logits = self.lm_head(x)` und `loss = F.cross_entropy(…)` über alle Zeilen, und sonst nichts",
    }
    blocks() {
        en: "`x = block(x)` in `for block in self.transformer.h:`",
        zh: "`for block in self.transformer.h:` 中的 `x = block(x)`",
        ja: "`for block in self.transformer.h:` の中の `x = block(x)`",
        de: "`x = block(x)` innerhalb von `for block in self.transformer.h:`",
    }
    save_after_evaluation() {
        en: "`losses = estimate_loss()` and, after it, an `if` that reads `always_save_checkpoint`; in that, `if iter_num > 0:` around `torch.save(checkpoint, …)`, reading no result of the evaluation",
        zh: "`losses = estimate_loss()`，其后是读取 `always_save_checkpoint` 的 `if`；其中 `if iter_num > 0:` 包含 `torch.save(checkpoint, …)`，且不使用评估结果",
        ja: "`losses = estimate_loss()` と、その後の `always_save_checkpoint` を読む `if`、その中で評価結果を使わずに `torch.save(checkpoint, …)` を囲む `if iter_num > 0:`",
        de: "`losses = estimate_loss()` und danach einem `if`, das `always_save_checkpoint` liest; darin `if iter_num > 0:` um `torch.save(checkpoint, …)`, ohne ein Ergebnis der Evaluierung zu lesen",
    }
}

/// What a patch does, in a line.
pub(crate) fn description(patch: Patch) -> String {
    match patch {
        Patch::LossAlone => loss_alone(),
        Patch::EvalBatchSize => eval_batch_size(),
        Patch::DropStaleLogits => drop_stale_logits(),
        Patch::ChunkedLoss => chunked_loss(),
        Patch::CheckpointBlocks => checkpoint_blocks(),
        Patch::CheckpointToCpu => checkpoint_to_cpu(),
        Patch::SaveBeforeEval => save_before_eval(),
        Patch::GradScaler => grad_scaler(),
    }
}

/// What a patch looked for.
pub(crate) fn anchor(anchor: Anchor) -> String {
    match anchor {
        Anchor::Code(code) => format!("`{code}`"),
        Anchor::GetBatch => get_batch(),
        Anchor::EvaluationBatch => evaluation_batch(),
        Anchor::ConfigKeys => config_keys(),
        Anchor::Default => default_value(),
        Anchor::GptConfig => gpt_config(),
        Anchor::ToDevice => to_device(),
        Anchor::ImportTorch => import_torch(),
        Anchor::SelfConfig => self_config(),
        Anchor::LogitsInEvaluation => logits_in_evaluation(),
        Anchor::LogitsInLoop => logits_in_loop(),
        Anchor::LogitsUnread => logits_unread(),
        Anchor::LossBranch => loss_branch(),
        Anchor::Blocks => blocks(),
        Anchor::SaveAfterEvaluation => save_after_evaluation(),
    }
}
