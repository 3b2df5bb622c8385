//! Why a run cannot begin, and what to do.

use fitgpt_data::{Vocabulary, VocabularyKind};
use fitgpt_run::budget::HostLimit;
use fitgpt_say::Sentence;

fitgpt_say::sentences! {
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
    /// More positions than the weights have.
    block_too_long(block, folder, had) {
        en: "`block_size = {block}` exceeds the positions of the weights in `{folder}`: {had}",
        zh: "`block_size = {block}` 超过了 `{folder}` 中权重的位置数：{had}",
        ja: "`block_size = {block}` は `{folder}` の重みが持つ位置の数を超えています: {had}",
        de: "`block_size = {block}` ist mehr, als die Gewichte in `{folder}` Positionen haben: {had}",
    }
    /// A key that the weights determine has another value.
    contradicts_weights(key, here, folder, there) {
        en: "`{key} = {here}` contradicts the weights in `{folder}`, which have `{key} = {there}`",
        zh: "`{key} = {here}` 与 `{folder}` 中的权重矛盾：权重是 `{key} = {there}`",
        ja: "`{key} = {here}` は `{folder}` の重みと矛盾します。重みでは `{key} = {there}` です",
        de: "`{key} = {here}` widerspricht den Gewichten in `{folder}`: dort ist `{key} = {there}`",
    }
    weights_decide(key) {
        en: "the weights decide it: leave out `{key}`",
        zh: "它由权重决定：请去掉 `{key}`",
        ja: "重みによって決まります。`{key}` を外してください",
        de: "die Gewichte legen es fest: `{key}` weglassen",
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
    /// A resumed run whose tokens would mean something else; `here` and `there` describe both.
    other_vocabulary(data, here, folder, there) {
        en: "the tokens of `{data}` mean something else than those that the run in `{folder}` was trained on: {here}, and there {there}",
        zh: "`{data}` 的 token 与 `{folder}` 中训练所用的 token 含义不同：这里是{here}，那里是{there}",
        ja: "`{data}` のトークンは、`{folder}` の学習で使われたトークンと意味が異なります。データは{here}、学習では{there}です",
        de: "die Tokens von `{data}` bedeuten etwas anderes als die, auf denen der Lauf in `{folder}` trainiert wurde: {here}, dort {there}",
    }
    allow_new_vocabulary(folder) {
        en: "resume on the data of the run; or begin a new one from its weights with `--init_from={folder}` and another `--out_dir`; `--new_vocabulary=True` trains on here and takes over the data's tokenizer",
        zh: "请用原来的数据继续；或用 `--init_from={folder}` 和另一个 `--out_dir` 从其权重开始新的训练；`--new_vocabulary=True` 则在此继续训练，并改用数据的分词器",
        ja: "元のデータで再開するか、`--init_from={folder}` と別の `--out_dir` でその重みから新しい学習を始めてください。`--new_vocabulary=True` ならここで学習を続け、データのトークナイザに切り替えます",
        de: "mit den Daten des Laufs fortsetzen; oder mit `--init_from={folder}` und einem anderen `--out_dir` von seinen Gewichten aus neu beginnen; `--new_vocabulary=True` trainiert hier weiter und übernimmt den Tokenizer der Daten",
    }
    takes_vocabulary(data, here) {
        en: "the run takes over the tokens of `{data}`: {here}",
        zh: "训练改用 `{data}` 的 token：{here}",
        ja: "この学習は `{data}` のトークンに切り替わります: {here}",
        de: "der Lauf übernimmt die Tokens von `{data}`: {here}",
    }
    other_vocabulary_of_weights(data, here, folder, there) {
        en: "the tokens of `{data}` mean something else than those of the weights in `{folder}`: {here}, and there {there}",
        zh: "`{data}` 的 token 与 `{folder}` 中权重的 token 含义不同：这里是{here}，那里是{there}",
        ja: "`{data}` のトークンは `{folder}` の重みのトークンと意味が異なります。データは{here}、重みは{there}です",
        de: "die Tokens von `{data}` bedeuten etwas anderes als die der Gewichte in `{folder}`: {here}, dort {there}",
    }
    symbols(count, hash) {
        en: "{count} symbols (fingerprint {hash})", zh: "{count} 个符号（指纹 {hash}）", ja: "{count} 個の記号（指紋 {hash}）", de: "{count} Zeichen (Fingerabdruck {hash})",
    }
    gpt2s_tokens() { en: "GPT-2's tokens", zh: "GPT-2 的 token", ja: "GPT-2 のトークン", de: "GPT-2s Tokens" }
    tokens_of_file(hash) {
        en: "the tokens of a `tokenizer.json` (fingerprint {hash})",
        zh: "某个 `tokenizer.json` 的 token（指纹 {hash}）",
        ja: "`tokenizer.json` のトークン（指紋 {hash}）",
        de: "die Tokens einer `tokenizer.json` (Fingerabdruck {hash})",
    }
    bare_tokens(count) {
        en: "{count} tokens without a table", zh: "{count} 个没有符号表的 token", ja: "記号表のない {count} 個のトークン", de: "{count} Tokens ohne Tabelle",
    }
    /// The run is resumed with other factors of its products than it had.
    other_products(there, here) {
        en: "the checkpoint was trained with `matmul_dtype` {there}; with {here}, the run continues with other bits than it would have had",
        zh: "检查点是用 `matmul_dtype` {there} 训练的；改用 {here} 后，继续训练的逐位结果将与原来不同",
        ja: "チェックポイントは `matmul_dtype` {there} で学習されました。{here} で続けると、以後の結果はビット単位では一致しなくなります",
        de: "der Checkpoint wurde mit `matmul_dtype` {there} trainiert; mit {here} läuft der Lauf mit anderen Bits weiter, als er sonst hätte",
    }
    /// A CPU without the instruction computes bfloat16 products.
    emulated_products() {
        en: "this CPU has no instruction for bfloat16 products and emulates them, bit for bit but slowly; `--matmul_dtype=float32` is faster and changes the bits of the run",
        zh: "此 CPU 没有 bfloat16 乘积指令，只能模拟：结果逐位相同，但很慢；`--matmul_dtype=float32` 更快，但会改变训练的逐位结果",
        ja: "この CPU には bfloat16 の積の命令がないため、エミュレーションします。ビット単位で同じですが低速です。`--matmul_dtype=float32` のほうが高速ですが、学習結果のビットが変わります",
        de: "diese CPU hat keinen Befehl für bfloat16-Produkte und bildet ihn nach, bitgenau, aber langsam; `--matmul_dtype=float32` ist schneller und ändert die Bits des Laufs",
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
}

/// What kind of tokens they are, and which.
pub(crate) fn vocabulary(known: &Vocabulary) -> Sentence {
    match known.kind {
        VocabularyKind::Symbols => symbols(known.tokens, &known.hash),
        VocabularyKind::Gpt2 => gpt2s_tokens(),
        VocabularyKind::File => tokens_of_file(&known.hash),
        VocabularyKind::Ids => bare_tokens(known.tokens),
    }
}

/// The limit that decides how much memory there is.
pub(crate) fn limit(limit: HostLimit) -> Sentence {
    match limit {
        HostLimit::Available => limit_available(),
        HostLimit::ControlGroup => limit_control_group(),
        HostLimit::AddressSpace => limit_address_space(),
        HostLimit::DataSegment => limit_data_segment(),
    }
}
