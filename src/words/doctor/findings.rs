//! One sentence a rule, made of the finding's evidence.

use fitgpt_doctor::{Certainty, Datum, Evidence, Finding, Part, size};
use fitgpt_plan::config::ConfigError;

use crate::words::errors::Spoken as _;

messages! {
    probably(text) { en: "probably: {text}", zh: "很可能：{text}", ja: "おそらく: {text}", de: "wahrscheinlich: {text}" }
    possibly(text) { en: "possibly: {text}", zh: "有可能：{text}", ja: "可能性あり: {text}", de: "möglich: {text}" }

    host(sign) {
        en: "host memory: the sign is `{sign}`", zh: "主机内存：依据是 `{sign}`", ja: "ホストのメモリ: 手がかりは `{sign}` です", de: "Arbeitsspeicher: das Anzeichen ist `{sign}`",
    }
    host_asked(sign, requested) {
        en: "host memory: the sign is `{sign}`, {requested} were asked for",
        zh: "主机内存：依据是 `{sign}`，申请了 {requested}",
        ja: "ホストのメモリ: 手がかりは `{sign}`、要求は {requested} でした",
        de: "Arbeitsspeicher: das Anzeichen ist `{sign}`, angefordert wurden {requested}",
    }
    shared(required, limit) {
        en: "a kernel needs {required} bytes of shared memory and a multiprocessor has {limit}; this is not the card's memory",
        zh: "某个内核需要 {required} 字节共享内存，而一个多处理器只有 {limit}；这不是显存",
        ja: "カーネルは {required} バイトの共有メモリを必要としますが、マルチプロセッサには {limit} しかありません。これは VRAM ではありません",
        de: "ein Kernel braucht {required} Bytes Shared Memory, ein Multiprozessor hat {limit}; das ist nicht der Grafikspeicher",
    }
    shared_unsized() {
        en: "a kernel needs more shared memory than a multiprocessor has",
        zh: "某个内核需要的共享内存超过了一个多处理器所拥有的",
        ja: "カーネルがマルチプロセッサの持つ以上の共有メモリを必要としています",
        de: "ein Kernel braucht mehr Shared Memory, als ein Multiprozessor hat",
    }
    invalid_config(message) {
        en: "the config cannot run: {message}", zh: "该配置无法运行：{message}", ja: "この設定では実行できません: {message}", de: "die Konfiguration ist nicht lauffähig: {message}",
    }
    refused_key(key) {
        en: "the script refused `{key}`", zh: "脚本拒绝了 `{key}`", ja: "スクリプトが `{key}` を拒否しました", de: "das Skript wies `{key}` zurück",
    }
    hidden_by_compiler() {
        en: "the allocation failed while the compiler was at work, or inside one of its errors",
        zh: "分配在编译器工作时失败，或被包在编译器的错误里",
        ja: "割り当ての失敗はコンパイラの動作中か、そのエラーの内側で起きています",
        de: "die Allokation schlug fehl, während der Compiler arbeitete, oder steckt in einem seiner Fehler",
    }
    foreign_cause(foreign, free, requested) {
        en: "other processes hold {foreign}; with the {free} free it would have held the {requested}",
        zh: "其他进程占用了 {foreign}；加上空闲的 {free}，本来放得下 {requested}",
        ja: "他のプロセスが {foreign} を使っています。空きの {free} と合わせれば {requested} は収まりました",
        de: "andere Prozesse halten {foreign}; mit den freien {free} hätten die {requested} Platz gehabt",
    }
    foreign_beside(foreign, requested, free) {
        en: "other processes hold {foreign}, but that is not why: {requested} were asked for, {free} were free",
        zh: "其他进程占用了 {foreign}，但这不是原因：申请了 {requested}，空闲 {free}",
        ja: "他のプロセスが {foreign} を使っていますが、原因ではありません: 要求 {requested}、空き {free}",
        de: "andere Prozesse halten {foreign}, aber daran liegt es nicht: angefordert wurden {requested}, frei waren {free}",
    }
    free_exceeds(free, requested) {
        en: "{free} were free and only {requested} were asked for: capacity is not the cause",
        zh: "空闲 {free}，只申请了 {requested}：容量不是原因",
        ja: "空きは {free}、要求は {requested} だけです。容量が原因ではありません",
        de: "{free} waren frei und nur {requested} angefordert: an der Kapazität liegt es nicht",
    }
    larger_than_card(requested, total) {
        en: "one tensor of {requested} is larger than the whole card ({total})",
        zh: "单个张量 {requested} 就超过了整张显卡（{total}）",
        ja: "{requested} のテンソル 1 つが GPU 全体（{total}）より大きいです",
        de: "ein einziger Tensor von {requested} ist größer als die ganze Karte ({total})",
    }
    static_state(parameters, state, copies, total) {
        en: "{parameters} parameters need {state} for weights, gradients and moments, and {copies} for half copies; the card has {total}: no batch is small enough",
        zh: "{parameters} 个参数的权重、梯度和 Adam 矩需要 {state}，半精度副本还需要 {copies}；显卡只有 {total}：再小的批也放不下",
        ja: "{parameters} 個のパラメータは重み、勾配、モーメントに {state}、半精度コピーに {copies} を必要としますが、GPU は {total} です。バッチをどれだけ小さくしても収まりません",
        de: "{parameters} Parameter brauchen {state} für Gewichte, Gradienten und Momente und {copies} für Kopien in halber Genauigkeit; die Karte hat {total}: kein Batch ist klein genug",
    }
    fragmented(unallocated, requested) {
        en: "{unallocated} were reserved and unused, {requested} were asked for: in pieces there was enough",
        zh: "已保留但未使用的有 {unallocated}，申请的是 {requested}：总量足够，但不连续",
        ja: "確保済みで未使用の領域が {unallocated}、要求は {requested} でした。合計では足りていましたが、断片化していました",
        de: "{unallocated} waren reserviert und ungenutzt, {requested} angefordert: in Stücken war genug da",
    }
    checkpoint() {
        en: "the checkpoint was loaded onto the card, where a second copy of the weights stays",
        zh: "检查点被加载到了显卡上，那里还留着第二份权重",
        ja: "チェックポイントが GPU に読み込まれ、重みの 2 つ目のコピーが残っています",
        de: "der Checkpoint wurde auf die Karte geladen, wo eine zweite Kopie der Gewichte bleibt",
    }
    checkpoint_sized(copy) {
        en: "the checkpoint was loaded onto the card, where a second copy of the weights stays ({copy})",
        zh: "检查点被加载到了显卡上，那里还留着第二份权重（{copy}）",
        ja: "チェックポイントが GPU に読み込まれ、重みの 2 つ目のコピー（{copy}）が残っています",
        de: "der Checkpoint wurde auf die Karte geladen, wo eine zweite Kopie der Gewichte bleibt ({copy})",
    }
    optimizer_room() {
        en: "the optimizer's step needs room of its own", zh: "优化器更新本身也需要空间", ja: "オプティマイザの更新にはそれ自体の領域が必要です", de: "der Schritt des Optimierers braucht eigenen Platz",
    }
    optimizer_moments(moments) {
        en: "the optimizer's step needs room of its own: {moments} of moments",
        zh: "优化器更新本身也需要空间：Adam 矩需要 {moments}",
        ja: "オプティマイザの更新にはそれ自体の領域が必要です: モーメントに {moments}",
        de: "der Schritt des Optimierers braucht eigenen Platz: {moments} für Momente",
    }
    stale_logits(stale, sum, held, allocated) {
        en: "the logits of the pass before are still held ({stale}): {sum} = {held}, and the message says {allocated}",
        zh: "上一次前向的 logits 仍被占用（{stale}）：{sum} = {held}，而错误信息中是 {allocated}",
        ja: "前回の順伝播の logits がまだ保持されています（{stale}）: {sum} = {held}、メッセージでは {allocated}",
        de: "die Logits des vorigen Durchlaufs werden noch gehalten ({stale}): {sum} = {held}, und die Meldung nennt {allocated}",
    }
    asked_for(requested, what, tensor, shape, dtype) {
        en: "{requested} were asked for: {what}, `{tensor}` {shape} {dtype}",
        zh: "申请了 {requested}：{what}，`{tensor}` {shape} {dtype}",
        ja: "要求は {requested}: {what}、`{tensor}` {shape} {dtype}",
        de: "angefordert wurden {requested}: {what}, `{tensor}` {shape} {dtype}",
    }
    vocabulary_scores() { en: "scores over the vocabulary", zh: "整个词表的得分", ja: "語彙全体のスコア", de: "Scores über das Vokabular" }
    attention_scores() { en: "attention scores", zh: "注意力分数", ja: "アテンションスコア", de: "Attention-Scores" }
    mlp_value() { en: "an MLP's inner value", zh: "MLP 的中间值", ja: "MLP の中間値", de: "ein innerer Wert eines MLP" }
    weight_shape() { en: "a tensor shaped like a weight", zh: "与权重同形状的张量", ja: "重みと同じ形のテンソル", de: "ein Tensor in der Form eines Gewichts" }
    supposing(text, model, batch_size, block_size) {
        en: "{text}, if this is {model} with batch_size {batch_size} and block_size {block_size} (no config was given)",
        zh: "{text}，前提是这是 {model}、batch_size {batch_size}、block_size {block_size}（没有给出配置）",
        ja: "{text}（{model}、batch_size {batch_size}、block_size {block_size} だとした場合。設定は与えられていません）",
        de: "{text}, falls dies {model} mit batch_size {batch_size} und block_size {block_size} ist (keine Konfiguration angegeben)",
    }
    evaluation_batch(batch_size, peak, single) {
        en: "the evaluation runs with training's batch of {batch_size}: {peak}; with one sequence at a time {single}",
        zh: "评估沿用了训练的批大小 {batch_size}：{peak}；每次一条序列则只需 {single}",
        ja: "評価が学習と同じバッチサイズ {batch_size} で動いています: {peak}。1 系列ずつなら {single} です",
        de: "die Auswertung läuft mit der Batchgröße des Trainings, {batch_size}: {peak}; mit je einer Sequenz {single}",
    }
    no_shape(requested) {
        en: "{requested} is what the allocator asks for whatever a small tensor needs: the number names no tensor",
        zh: "{requested} 是分配器为小张量固定申请的大小：这个数字不对应具体张量",
        ja: "{requested} は、小さなテンソルのためにアロケータが常に要求する大きさです。この数字からテンソルは特定できません",
        de: "{requested} fordert der Allokator für jeden kleinen Tensor an: die Zahl verrät keinen Tensor",
    }
    no_match(requested) {
        en: "no tensor of this run is {requested}", zh: "这次运行中没有大小为 {requested} 的张量", ja: "この実行に {requested} のテンソルはありません", de: "kein Tensor dieses Laufs ist {requested} groß",
    }
    unknown_run(requested) {
        en: "the log does not say which model this is, so {requested} names no tensor",
        zh: "日志没有说明是哪个模型，因此无法从 {requested} 判断是哪个张量",
        ja: "どのモデルかログに示されていないため、{requested} からテンソルは特定できません",
        de: "das Log sagt nicht, welches Modell es ist; {requested} verrät daher keinen Tensor",
    }
    would_match(text, tensor, shape, dtype, model, batch_size, block_size) {
        en: "{text}; {tensor} {shape} {dtype} would be, in {model} with batch_size {batch_size} and block_size {block_size}",
        zh: "{text}；但在 {model}、batch_size {batch_size}、block_size {block_size} 下，{tensor} {shape} {dtype} 正好是这个大小",
        ja: "{text}。ただし {model}、batch_size {batch_size}、block_size {block_size} なら {tensor} {shape} {dtype} がこの大きさです",
        de: "{text}; {tensor} {shape} {dtype} wäre es, in {model} mit batch_size {batch_size} und block_size {block_size}",
    }

    weights() { en: "weights", zh: "权重", ja: "重み", de: "Gewichte" }
    gradients() { en: "gradients", zh: "梯度", ja: "勾配", de: "Gradienten" }
    optimizer_state() { en: "optimizer state", zh: "优化器状态", ja: "オプティマイザの状態", de: "Optimiererzustand" }
    last_logits() {
        en: "logits of the last batch", zh: "上一批的 logits", ja: "直前のバッチの logits", de: "Logits des letzten Batches",
    }
    last_micro_logits() {
        en: "logits of the last micro-batch", zh: "上一微批的 logits", ja: "直前のマイクロバッチの logits", de: "Logits des letzten Mikro-Batches",
    }
    other() { en: "other", zh: "其他", ja: "その他", de: "Sonstiges" }

    unknown_size() { en: "an unknown size", zh: "未知大小", ja: "不明なサイズ", de: "eine unbekannte Größe" }
    unknown_number() { en: "an unknown number", zh: "未知数量", ja: "不明な数", de: "eine unbekannte Zahl" }
    unknown() { en: "unknown", zh: "未知", ja: "不明", de: "unbekannt" }
}

/// One finding. `refused` is why the case's config cannot run, where that was found.
pub(crate) fn finding(finding: &Finding, refused: Option<&ConfigError>) -> String {
    let text = sentence(finding, refused);
    match finding.certainty {
        Certainty::Certain => text,
        Certainty::Likely => probably(text),
        Certainty::Unknown => possibly(text),
    }
}

fn sentence(finding: &Finding, refused: Option<&ConfigError>) -> String {
    let e = Said(&finding.evidence);
    match finding.rule {
        "host-memory" => match e.bytes("requested_bytes") {
            Some(bytes) => host_asked(e.text("sign"), size(bytes)),
            None => host(e.text("sign")),
        },
        "shared-memory" => match (e.bytes("required_bytes"), e.bytes("limit_bytes")) {
            (Some(required), Some(limit)) => shared(required, limit),
            _ => shared_unsized(),
        },
        "invalid-config" => match (refused, finding.evidence.get_text("message")) {
            (Some(error), _) => invalid_config(error.spoken()),
            (None, Some(message)) => invalid_config(message),
            (None, None) => refused_key(e.text("key")),
        },
        "hidden-by-compiler" => hidden_by_compiler(),
        "foreign-memory" => {
            let (foreign, free) = (e.size("foreign_bytes"), e.size("free_bytes"));
            let requested = e.size("requested_bytes");
            if finding.is_cause {
                foreign_cause(foreign, free, requested)
            } else {
                foreign_beside(foreign, requested, free)
            }
        }
        "free-exceeds-request" => free_exceeds(e.size("free_bytes"), e.size("requested_bytes")),
        "request-larger-than-card" => {
            larger_than_card(e.size("requested_bytes"), e.size("total_bytes"))
        }
        "static-state-too-large" => static_state(
            e.number("parameter_count"),
            e.size("state_bytes"),
            e.size("half_copies_bytes"),
            e.size("total_bytes"),
        ),
        "fragmentation" => fragmented(e.size("unallocated_bytes"), e.size("requested_bytes")),
        "checkpoint-on-device" => match e.bytes("second_copy_bytes") {
            Some(bytes) => checkpoint_sized(size(bytes)),
            None => checkpoint(),
        },
        "optimizer-temporaries" => match e.bytes("moments_bytes") {
            Some(bytes) => optimizer_moments(size(bytes)),
            None => optimizer_room(),
        },
        "stale-logits" => stale_logits(
            e.size("stale_bytes"),
            sum(&finding.evidence),
            e.size("held_bytes"),
            e.size("allocated_bytes"),
        ),
        "logits-at-the-peak" => asked(e, vocabulary_scores()),
        "attention-scores" => asked(e, attention_scores()),
        "mlp-activation" => asked(e, mlp_value()),
        "weight-shaped" => asked(e, weight_shape()),
        "evaluation-uses-training-batch" => evaluation_batch(
            e.number("batch_size"),
            e.size("peak_bytes"),
            e.size("peak_with_one_sequence_bytes"),
        ),
        "no-shape-in-request" => no_shape(e.size("requested_bytes")),
        "no-match" => {
            let requested = e.size("requested_bytes");
            let is_known = matches!(finding.evidence.get("has_config"), Some(Datum::Is(true)));
            let text = if is_known { no_match(requested) } else { unknown_run(requested) };
            match finding.evidence.get_text("would_match") {
                Some(name) => would_match(
                    text,
                    name,
                    e.text("would_match_shape"),
                    e.text("would_match_dtype"),
                    e.text("would_match_model"),
                    e.number("would_match_batch_size"),
                    e.number("would_match_block_size"),
                ),
                None => text,
            }
        }
        other => other.to_owned(),
    }
}

/// Which tensor was asked for.
fn asked(e: Said<'_>, what: String) -> String {
    let (tensor, shape, dtype) = (e.text("tensor"), e.text("shape"), e.text("dtype"));
    let text = asked_for(e.size("requested_bytes"), what, tensor, shape, dtype);
    match e.0.get_text("supposing_model") {
        Some(model) => {
            let (batch, block) = ("supposing_batch_size", "supposing_block_size");
            supposing(text, model, e.number(batch), e.number(block))
        }
        None => text,
    }
}

/// `474.45 MiB weights + 6.14 GiB logits of the last batch`.
fn sum(evidence: &Evidence) -> String {
    let Some(Datum::Parts(parts)) = evidence.get("parts") else { return String::new() };
    let part = |part: &Part| format!("{} {}", size(part.bytes), share(&part.name));
    parts.iter().map(part).collect::<Vec<_>>().join(" + ")
}

/// A class of tensors by its name; a tensor keeps its own.
fn share(name: &str) -> String {
    match name {
        "weights" => weights(),
        "gradients" => gradients(),
        "optimizer state" => optimizer_state(),
        "logits of the last batch" => last_logits(),
        "logits of the last micro-batch" => last_micro_logits(),
        "other" => other(),
        tensor => tensor.to_owned(),
    }
}

/// Evidence as a sentence takes it.
#[derive(Clone, Copy)]
struct Said<'a>(&'a Evidence);

impl Said<'_> {
    fn bytes(self, name: &str) -> Option<u64> {
        self.0.get_number(name)
    }

    fn size(self, name: &str) -> String {
        self.bytes(name).map_or_else(unknown_size, size)
    }

    fn number(self, name: &str) -> String {
        self.bytes(name).map_or_else(unknown_number, |n| n.to_string())
    }

    fn text(self, name: &str) -> String {
        self.0.get_text(name).map_or_else(unknown, str::to_owned)
    }
}
