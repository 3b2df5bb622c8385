//! What an error of this crate says.

use fitgpt_say::{Lang, Say};

use super::{error::CheckpointError, events::EventError};

fitgpt_say::messages! {
    in_use(dir) {
        en: "`{dir}` is in use by another run", zh: "`{dir}` 正被另一个训练使用", ja: "`{dir}` は別の実行が使用中です", de: "`{dir}` wird von einem anderen Lauf benutzt",
    }
    in_use_by(dir, pid) {
        en: "`{dir}` is in use by another run, process {pid}",
        zh: "`{dir}` 正被另一个训练使用，进程 {pid}",
        ja: "`{dir}` は別の実行（プロセス {pid}）が使用中です",
        de: "`{dir}` wird von einem anderen Lauf benutzt, Prozess {pid}",
    }
    missing(path) {
        en: "no checkpoint: there is no `{path}`", zh: "没有检查点：`{path}` 不存在", ja: "チェックポイントがありません: `{path}` が存在しません", de: "kein Checkpoint: es gibt kein `{path}`",
    }
    saved(path, source) {
        en: "cannot read `{path}`: {source}", zh: "无法读取 `{path}`：{source}", ja: "`{path}` を読めません: {source}", de: "`{path}` ist nicht lesbar: {source}",
    }
    header(path, source) {
        en: "`{path}` is not a safetensors file: {source}",
        zh: "`{path}` 不是 safetensors 文件：{source}",
        ja: "`{path}` は safetensors ファイルではありません: {source}",
        de: "`{path}` ist keine safetensors-Datei: {source}",
    }
    header_length(path, found_bytes, most_bytes) {
        en: "`{path}` is not a safetensors file: its header claims {found_bytes} bytes, at most {most_bytes} are possible",
        zh: "`{path}` 不是 safetensors 文件：文件头声明 {found_bytes} 字节，最多只可能有 {most_bytes} 字节",
        ja: "`{path}` は safetensors ファイルではありません: ヘッダには {found_bytes} バイトとありますが、最大でも {most_bytes} バイトです",
        de: "`{path}` ist keine safetensors-Datei: der Header nennt {found_bytes} Byte, möglich sind höchstens {most_bytes}",
    }
    length(path, expected_bytes, found_bytes) {
        en: "`{path}` should have {expected_bytes} bytes, found {found_bytes}",
        zh: "`{path}` 应有 {expected_bytes} 字节，实际为 {found_bytes}",
        ja: "`{path}` は {expected_bytes} バイトのはずですが、{found_bytes} バイトです",
        de: "`{path}` sollte {expected_bytes} Byte haben, gefunden: {found_bytes}",
    }
    damaged(path, expected, found) {
        en: "`{path}` is damaged: its checksum should be {expected}, found {found}",
        zh: "`{path}` 已损坏：校验和应为 {expected}，实际为 {found}",
        ja: "`{path}` は壊れています: チェックサムは {expected} のはずですが、{found} です",
        de: "`{path}` ist beschädigt: die Prüfsumme sollte {expected} sein, gefunden: {found}",
    }
    no_checksum(path) {
        en: "`{path}` is damaged: it has no checksum", zh: "`{path}` 已损坏：没有校验和", ja: "`{path}` は壊れています: チェックサムがありません", de: "`{path}` ist beschädigt: die Prüfsumme fehlt",
    }
    changed(path) {
        en: "`{path}` is not the file that was saved: its length or checksum differs from `manifest.json`",
        zh: "`{path}` 不是当初保存的文件：其长度或校验和与 `manifest.json` 中的不符",
        ja: "`{path}` は保存されたファイルではありません: 長さかチェックサムが `manifest.json` と一致しません",
        de: "`{path}` ist nicht die gespeicherte Datei: Länge oder Prüfsumme weicht von `manifest.json` ab",
    }
    not_finite(tensor) {
        en: "`{tensor}` is not finite: the checkpoint was not saved",
        zh: "`{tensor}` 中有非有限值：检查点未保存",
        ja: "`{tensor}` に有限でない値があります: チェックポイントは保存されませんでした",
        de: "`{tensor}` ist nicht endlich: der Checkpoint wurde nicht gespeichert",
    }
    folder_lost(path) {
        en: "`{path}` is no longer the folder of this run: it was moved, deleted or replaced",
        zh: "`{path}` 已不再是本次训练的文件夹：它被移动、删除或替换了",
        ja: "`{path}` はもうこの実行のフォルダではありません: 移動、削除、または置き換えられました",
        de: "`{path}` ist nicht mehr der Ordner dieses Laufs: er wurde verschoben, gelöscht oder ersetzt",
    }
    foreign(path) {
        en: "`{path}` was not written by fitgpt and is not replaced",
        zh: "`{path}` 不是 fitgpt 写的，不会被替换",
        ja: "`{path}` は fitgpt が書いたものではないため、置き換えません",
        de: "`{path}` wurde nicht von fitgpt geschrieben und wird nicht ersetzt",
    }
    missing_tensor(path, tensor, expected) {
        en: "`{path}` has no tensor `{tensor}` (expected shape {expected})",
        zh: "`{path}` 中没有张量 `{tensor}`（应有形状 {expected}）",
        ja: "`{path}` にテンソル `{tensor}` がありません（期待する形状 {expected}）",
        de: "`{path}` hat keinen Tensor `{tensor}` (erwartete Form {expected})",
    }
    unknown_tensor(path, tensor, found) {
        en: "`{path}` has a tensor `{tensor}` that the model does not have (found shape {found})",
        zh: "`{path}` 中有模型所没有的张量 `{tensor}`（形状 {found}）",
        ja: "`{path}` にモデルにないテンソル `{tensor}` があります（形状 {found}）",
        de: "`{path}` hat einen Tensor `{tensor}`, den das Modell nicht hat (Form {found})",
    }
    shape(tensor, path, expected, found) {
        en: "`{tensor}` in `{path}` should have shape {expected}, found {found}",
        zh: "`{path}` 中的 `{tensor}` 形状应为 {expected}，实际为 {found}",
        ja: "`{path}` の `{tensor}` の形状は {expected} のはずですが、{found} です",
        de: "`{tensor}` in `{path}` sollte die Form {expected} haben, gefunden: {found}",
    }
    dtype(tensor, path, found) {
        en: "`{tensor}` in `{path}` should be F64, F32, F16 or BF16, found {found}",
        zh: "`{path}` 中的 `{tensor}` 应为 F64、F32、F16 或 BF16，实际为 {found}",
        ja: "`{path}` の `{tensor}` は F64、F32、F16、BF16 のいずれかのはずですが、{found} です",
        de: "`{tensor}` in `{path}` sollte F64, F32, F16 oder BF16 sein, gefunden: {found}",
    }
    bias_not_zero(tensor, path, found) {
        en: "`{tensor}` in `{path}` should be all zero in a model without biases, found {found}",
        zh: "模型没有偏置，`{path}` 中的 `{tensor}` 应全为零，却有 {found}",
        ja: "バイアスのないモデルなので `{path}` の `{tensor}` はすべてゼロのはずですが、{found} があります",
        de: "`{tensor}` in `{path}` sollte in einem Modell ohne Bias ganz null sein, gefunden: {found}",
    }
    two_checkpoints(folder, ours, theirs) {
        en: "`{folder}` has two checkpoints: FitGPT's {ours}, and a `ckpt.pt` {theirs} that it did not begin from",
        zh: "`{folder}` 中有两个检查点：FitGPT 的（{ours}），以及一个 `ckpt.pt`（{theirs}），而前者并非由它开始",
        ja: "`{folder}` にはチェックポイントが 2 つあります。FitGPT のもの（{ours}）と、その出発点ではない `ckpt.pt`（{theirs}）です",
        de: "`{folder}` hat zwei Checkpoints: den von FitGPT {ours} und eine `ckpt.pt` {theirs}, mit der er nicht begonnen hat",
    }
    at_step(step) { en: "at step {step}", zh: "第 {step} 步", ja: "ステップ {step}", de: "bei Schritt {step}" }
    at_unknown_step() { en: "at an unknown step", zh: "步数未知", ja: "ステップ不明", de: "bei unbekanntem Schritt" }
    mixed(first, second, first_id, second_id) {
        en: "`{first}` and `{second}` come from different saves: {first_id} and {second_id}",
        zh: "`{first}` 与 `{second}` 来自不同的保存：{first_id} 和 {second_id}",
        ja: "`{first}` と `{second}` は別々の保存のものです: {first_id} と {second_id}",
        de: "`{first}` und `{second}` stammen aus verschiedenen Speichervorgängen: {first_id} und {second_id}",
    }
    no_save_id() { en: "no save id", zh: "没有保存编号", ja: "保存 ID なし", de: "keine Speicher-ID" }
    json(path, source) {
        en: "cannot parse `{path}`: {source}", zh: "无法解析 `{path}`：{source}", ja: "`{path}` を解釈できません: {source}", de: "`{path}` ist nicht als JSON lesbar: {source}",
    }
    family(path, source) {
        en: "`{path}` describes a model that is not supported: {source}",
        zh: "`{path}` 描述的模型不受支持：{source}",
        ja: "`{path}` のモデルには対応していません: {source}",
        de: "`{path}` beschreibt ein Modell, das nicht unterstützt wird: {source}",
    }
    state_dtype(tensor, path, expected, found) {
        en: "`{tensor}` in `{path}` should be {expected}, found {found}",
        zh: "`{path}` 中的 `{tensor}` 应为 {expected}，实际为 {found}",
        ja: "`{path}` の `{tensor}` は {expected} のはずですが、{found} です",
        de: "`{tensor}` in `{path}` sollte {expected} sein, gefunden: {found}",
    }
    shard_name(path, name) {
        en: "`{path}` may name only files in its own folder, found `{name}`",
        zh: "`{path}` 只能列出同一文件夹中的文件，却有 `{name}`",
        ja: "`{path}` には同じフォルダのファイルだけを書けますが、`{name}` があります",
        de: "`{path}` darf nur Dateien des eigenen Ordners nennen, gefunden: `{name}`",
    }
    not_in_shard(path, tensor, index) {
        en: "`{path}` has no tensor `{tensor}`, although `{index}` lists it there",
        zh: "`{path}` 中没有张量 `{tensor}`，而 `{index}` 中列有它",
        ja: "`{index}` によれば `{path}` にあるはずのテンソル `{tensor}` がありません",
        de: "`{path}` hat keinen Tensor `{tensor}`, den `{index}` dort angibt",
    }
    stored_twice(tensor, path) {
        en: "`{tensor}` is in `{path}` and in another file of the model",
        zh: "`{tensor}` 既在 `{path}` 中，又在该模型的另一个文件中",
        ja: "`{tensor}` が `{path}` とモデルの別のファイルの両方にあります",
        de: "`{tensor}` steht in `{path}` und in einer weiteren Datei des Modells",
    }
    too_few_tensors(path, tensors, layers) {
        en: "`{path}` has {tensors} tensors, too few for the {layers} layers of its `config.json`",
        zh: "`{path}` 只有 {tensors} 个张量，不够其 `config.json` 中的 {layers} 层",
        ja: "`{path}` のテンソルは {tensors} 個で、`config.json` の {layers} 層には足りません",
        de: "`{path}` hat {tensors} Tensoren, zu wenige für die {layers} Schichten in `config.json`",
    }
    document(source) {
        en: "the training state cannot be stored: {source}", zh: "无法保存训练状态：{source}", ja: "学習の状態を保存できません: {source}", de: "der Trainingszustand lässt sich nicht speichern: {source}",
    }
    document_changed(place, written, back) {
        en: "the training state changes when it is stored: `{place}` is {written} and is read back as {back}",
        zh: "训练状态保存后会改变：`{place}` 是 {written}，读回来是 {back}",
        ja: "学習の状態が保存で変わってしまいます: `{place}` は {written} ですが、読み戻すと {back} になります",
        de: "der Trainingszustand übersteht das Speichern nicht: `{place}` ist {written} und kommt als {back} zurück",
    }
    store(tensor, source) {
        en: "cannot transfer `{tensor}`: {source}", zh: "无法传输 `{tensor}`：{source}", ja: "`{tensor}` を転送できません: {source}", de: "`{tensor}` lässt sich nicht übertragen: {source}",
    }
    event(path, source) {
        en: "an event cannot be written to `{path}`: {source}",
        zh: "无法把事件写入 `{path}`：{source}",
        ja: "イベントを `{path}` に書き込めません: {source}",
        de: "ein Ereignis lässt sich nicht in `{path}` schreiben: {source}",
    }
}

impl Say for CheckpointError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Io { action, path, source } => action.failed(lang, path, source),
            Self::InUse { dir, pid: Some(pid) } => in_use_by(lang, dir.display(), pid),
            Self::InUse { dir, pid: None } => in_use(lang, dir.display()),
            Self::Missing { path } => missing(lang, path.display()),
            Self::Saved { path, source } => saved(lang, path.display(), source.say(lang)),
            Self::Header { path, source } => header(lang, path.display(), source),
            Self::HeaderLength { path, found_bytes, most_bytes } => {
                header_length(lang, path.display(), found_bytes, most_bytes)
            }
            Self::Length { path, expected_bytes, found_bytes } => {
                length(lang, path.display(), expected_bytes, found_bytes)
            }
            Self::Damaged { path, expected, found } => {
                damaged(lang, path.display(), format!("{expected:016x}"), format!("{found:016x}"))
            }
            Self::NoChecksum { path } => no_checksum(lang, path.display()),
            Self::Changed { path } => changed(lang, path.display()),
            Self::NotFinite { tensor } => not_finite(lang, tensor),
            Self::FolderLost { path } => folder_lost(lang, path.display()),
            Self::Foreign { path } => foreign(lang, path.display()),
            Self::MissingTensor { path, tensor, expected } => {
                missing_tensor(lang, path.display(), tensor, format!("{expected:?}"))
            }
            Self::UnknownTensor { path, tensor, found } => {
                unknown_tensor(lang, path.display(), tensor, format!("{found:?}"))
            }
            Self::Shape { path, tensor, expected, found } => {
                shape(lang, tensor, path.display(), format!("{expected:?}"), format!("{found:?}"))
            }
            Self::DType { path, tensor, found } => dtype(lang, tensor, path.display(), found),
            Self::BiasNotZero { path, tensor, found } => {
                bias_not_zero(lang, tensor, path.display(), found)
            }
            Self::TwoCheckpoints { folder, ours, theirs } => {
                let [ours, theirs] = [ours, theirs]
                    .map(|step| step.map_or_else(|| at_unknown_step(lang), |n| at_step(lang, n)));
                two_checkpoints(lang, folder.display(), ours, theirs)
            }
            Self::Mixed { first, first_id, second, second_id } => mixed(
                lang,
                first.display(),
                second.display(),
                save_id(lang, first_id.as_deref()),
                save_id(lang, second_id.as_deref()),
            ),
            Self::Json { path, source } => json(lang, path.display(), source),
            Self::StateDType { path, tensor, expected, found } => {
                state_dtype(lang, tensor, path.display(), expected, found)
            }
            Self::ShardName { path, name } => shard_name(lang, path.display(), name),
            Self::NotInShard { path, tensor, index } => {
                not_in_shard(lang, path.display(), tensor, index.display())
            }
            Self::TooFewTensors { path, tensors, layers } => {
                too_few_tensors(lang, path.display(), tensors, layers)
            }
            Self::StoredTwice { path, tensor } => stored_twice(lang, tensor, path.display()),
            Self::Family { path, source } => family(lang, path.display(), source.say(lang)),
            Self::Config { path, source } => family(lang, path.display(), source.say(lang)),
            Self::Document { source } => document(lang, source),
            Self::DocumentChanged { place, written, back } => {
                document_changed(lang, place, written, back)
            }
            Self::Store { tensor, why } => store(lang, tensor, why.say(lang)),
        }
    }
}

fn save_id(lang: Lang, id: Option<&str>) -> String {
    id.map_or_else(|| no_save_id(lang), |id| format!("`{id}`"))
}

impl Say for EventError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Io { action, path, source } => action.failed(lang, path, source),
            Self::Folder(error) => error.say(lang),
            Self::Json { path, source } => event(lang, path.display(), source),
        }
    }
}

fitgpt_say::displays_english!(CheckpointError, EventError);
