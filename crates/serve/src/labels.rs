//! The texts of the page, by name. `$name` is replaced in the browser.
//!
//! Promise: every word of the page is there in four languages. Test: this file.

use fitgpt_say::{Lang, Message};

/// Defines all texts, each in every language.
macro_rules! labels {
    ($($name:ident { en: $en:literal, zh: $zh:literal, ja: $ja:literal, de: $de:literal $(,)? })*) => {
        const LABELS: &[(&str, Message)] =
            &[$((stringify!($name), Message::new(&[], [$en, $zh, $ja, $de]))),*];
    };
}

/// Every text of the page.
pub fn labels(lang: Lang) -> serde_json::Map<String, serde_json::Value> {
    LABELS.iter().map(|(name, text)| ((*name).to_owned(), text.fill(lang, &[]).into())).collect()
}

labels! {
    copied { en: "copied", zh: "已复制", ja: "コピーしました", de: "kopiert" }
    copy { en: "copy", zh: "复制", ja: "コピー", de: "kopieren" }
    skip { en: "skip to the content", zh: "跳到正文", ja: "本文へ移動", de: "zum Inhalt springen" }
    language { en: "language", zh: "语言", ja: "言語", de: "Sprache" }
    theme { en: "theme", zh: "主题", ja: "テーマ", de: "Farbschema" }
    theme_auto { en: "auto", zh: "自动", ja: "自動", de: "automatisch" }
    theme_light { en: "light", zh: "浅色", ja: "ライト", de: "hell" }
    theme_dark { en: "dark", zh: "深色", ja: "ダーク", de: "dunkel" }
    tab_plan { en: "Plan", zh: "规划", ja: "計画", de: "Plan" }
    tab_doctor { en: "Doctor", zh: "诊断", ja: "診断", de: "Doktor" }
    tab_runs { en: "Runs", zh: "训练", ja: "実行", de: "Läufe" }
    key_batch_size {
        en: "micro-batch (batch_size)",
        zh: "micro-batch (batch_size)",
        ja: "マイクロバッチ (batch_size)",
        de: "Micro-Batch (batch_size)",
    }
    key_gradient_accumulation_steps {
        en: "accumulation (gradient_accumulation_steps)",
        zh: "梯度累积 (gradient_accumulation_steps)",
        ja: "勾配累積 (gradient_accumulation_steps)",
        de: "Akkumulation (gradient_accumulation_steps)",
    }
    key_block_size {
        en: "context (block_size)",
        zh: "上下文 (block_size)",
        ja: "コンテキスト長 (block_size)",
        de: "Kontext (block_size)",
    }
    key_n_layer { en: "layers (n_layer)", zh: "层数 (n_layer)", ja: "層数 (n_layer)", de: "Schichten (n_layer)" }
    key_n_embd { en: "width (n_embd)", zh: "宽度 (n_embd)", ja: "幅 (n_embd)", de: "Breite (n_embd)" }
    key_eval_batch_size {
        en: "evaluation batch (eval_batch_size)",
        zh: "评估批次 (eval_batch_size)",
        ja: "評価のバッチ (eval_batch_size)",
        de: "Evaluierungs-Batch (eval_batch_size)",
    }
    key_ranks {
        en: "ranks (mpirun -np)", zh: "rank 数 (mpirun -np)", ja: "rank 数 (mpirun -np)", de: "Ranks (mpirun -np)",
    }
    key_dtype { en: "dtype", zh: "dtype", ja: "dtype", de: "dtype" }
    key_grad_checkpoint { en: "recompute", zh: "重计算", ja: "再計算", de: "neu berechnen" }
    key_optimizer { en: "optimizer", zh: "优化器", ja: "オプティマイザ", de: "Optimierer" }
    key_compile { en: "torch.compile", zh: "torch.compile", ja: "torch.compile", de: "torch.compile" }
    dtype_auto { en: "chosen for the card", zh: "由显卡决定", ja: "カードに合わせる", de: "was die Karte kann" }
    recompute_off { en: "nothing", zh: "不重计算", ja: "しない", de: "nichts" }
    recompute_auto { en: "as needed", zh: "按需", ja: "必要なだけ", de: "nach Bedarf" }
    recompute_on { en: "every block", zh: "每个块", ja: "全ブロック", de: "jeden Block" }
    yes { en: "yes", zh: "是", ja: "はい", de: "ja" }
    no { en: "no", zh: "否", ja: "いいえ", de: "nein" }
    this_machine { en: "this machine", zh: "本机", ja: "このマシン", de: "dieser Rechner" }
    budget { en: "budget", zh: "预算", ja: "予算", de: "Budget" }
    budget_example { en: "12GB, 11.5GiB", zh: "12GB, 11.5GiB", ja: "12GB, 11.5GiB", de: "12GB, 11.5GiB" }
    engine { en: "engine", zh: "引擎", ja: "エンジン", de: "Engine" }
    defaults { en: "nanoGPT's defaults", zh: "nanoGPT 默认值", ja: "nanoGPT の既定値", de: "nanoGPTs Vorgaben" }
    paste_config {
        en: "paste or drop a nanoGPT config here",
        zh: "在此粘贴或拖入 nanoGPT 配置",
        ja: "nanoGPT の設定をここに貼り付けるかドロップ",
        de: "nanoGPT-Konfiguration einfügen oder hierher ziehen",
    }
    make_it_fit { en: "Make it fit", zh: "让它放得下", ja: "収まるようにする", de: "Passend machen" }
    copy_config { en: "copy config", zh: "复制配置", ja: "設定をコピー", de: "Konfiguration kopieren" }
    copy_command { en: "copy command", zh: "复制命令", ja: "コマンドをコピー", de: "Befehl kopieren" }
    copy_link { en: "copy link", zh: "复制链接", ja: "リンクをコピー", de: "Link kopieren" }
    group_config { en: "config", zh: "配置", ja: "設定", de: "Konfiguration" }
    group_device { en: "device", zh: "设备", ja: "デバイス", de: "Gerät" }
    group_step { en: "one step", zh: "一步", ja: "1 ステップ", de: "ein Schritt" }
    group_model { en: "model", zh: "模型", ja: "モデル", de: "Modell" }
    group_memory { en: "memory", zh: "内存", ja: "メモリ", de: "Speicher" }
    preset { en: "preset", zh: "预设", ja: "プリセット", de: "Vorlage" }
    config_text { en: "config text", zh: "配置文本", ja: "設定のテキスト", de: "Text der Konfiguration" }
    card { en: "card", zh: "显卡", ja: "カード", de: "Karte" }
    lock {
        en: "keep the effective batch", zh: "保持有效批量", ja: "実効バッチを保つ", de: "effektiven Batch behalten",
    }
    run_with { en: "run with", zh: "运行于", ja: "実行エンジン", de: "ausführen mit" }
    tokens {
        en: "$n tokens per step",
        zh: "每步 $n 个 token",
        ja: "1 ステップ $n トークン",
        de: "$n Tokens je Schritt",
    }
    facts {
        en: "$p parameters, vocabulary $v",
        zh: "$p 参数，词表 $v",
        ja: "パラメータ $p、語彙 $v",
        de: "$p Parameter, Vokabular $v",
    }
    options {
        en: "Options, smallest change first",
        zh: "办法，改动最小的在前",
        ja: "方法（変更の少ない順）",
        de: "Möglichkeiten, die kleinste Änderung zuerst",
    }
    fits_already { en: "it fits unchanged", zh: "保持原样即可放下", ja: "そのままで収まります", de: "passt unverändert" }
    nothing_fits {
        en: "no option makes it fit",
        zh: "没有办法让它放得下",
        ja: "収める方法はありません",
        de: "keine Option macht es passend",
    }
    recommended { en: "recommended", zh: "推荐", ja: "推奨", de: "empfohlen" }
    safest { en: "safest", zh: "最稳妥", ja: "最も安全", de: "am sichersten" }
    needs_patches {
        en: "(needs patches: $p)",
        zh: "（需要补丁：$p）",
        ja: "（パッチが必要: $p）",
        de: "(braucht Patches: $p)",
    }
    apply { en: "apply", zh: "应用", ja: "適用", de: "anwenden" }
    col_verdict { en: "verdict", zh: "结论", ja: "判定", de: "Urteil" }
    col_peak { en: "peak", zh: "峰值", ja: "ピーク", de: "Spitze" }
    col_saved { en: "saved", zh: "节省", ja: "削減", de: "gespart" }
    col_work { en: "extra compute", zh: "额外计算", ja: "追加の計算", de: "Mehrarbeit" }
    col_training { en: "training", zh: "训练", ja: "学習", de: "Training" }
    col_changes { en: "changes", zh: "修改", ja: "変更", de: "Änderungen" }
    start_run { en: "Start training", zh: "开始训练", ja: "学習を開始", de: "Training starten" }
    run_folder { en: "new folder", zh: "新文件夹", ja: "新しいフォルダ", de: "neuer Ordner" }
    picture_keys {
        en: "Arrow keys move through the ops.",
        zh: "方向键逐个查看算子。",
        ja: "矢印キーで演算をたどれます。",
        de: "Pfeiltasten gehen durch die Ops.",
    }
    before { en: "before", zh: "之前", ja: "変更前", de: "vorher" }
    peak { en: "peak", zh: "峰值", ja: "ピーク", de: "Spitze" }
    ops { en: "$n ops", zh: "$n 个算子", ja: "$n 演算", de: "$n Ops" }
    others { en: "others", zh: "其他", ja: "その他", de: "andere" }
    alive {
        en: "live tensors, largest first",
        zh: "存活的张量，最大的在前",
        ja: "生存中のテンソル（大きい順）",
        de: "lebende Tensoren, die größten zuerst",
    }
    overhead {
        en: "context and libraries, low to high",
        zh: "上下文与库，从最少到最多",
        ja: "コンテキストとライブラリ（最小〜最大）",
        de: "Kontext und Bibliotheken, Minimum bis Maximum",
    }
    paste_log {
        en: "paste an error or a whole log here, or drop a file: a log, or a PyTorch memory snapshot (.pickle)",
        zh: "在此粘贴错误或整个日志，或拖入文件：日志，或 PyTorch 内存快照 (.pickle)",
        ja: "エラーまたはログ全体を貼り付けるか、ファイルをドロップ: ログ、または PyTorch のメモリスナップショット (.pickle)",
        de: "Fehlermeldung oder ganzes Log einfügen, oder eine Datei hierher ziehen: ein Log oder ein PyTorch-Speicher-Snapshot (.pickle)",
    }
    log { en: "log", zh: "日志", ja: "ログ", de: "Log" }
    card_of_log { en: "as in the log", zh: "与日志一致", ja: "ログのとおり", de: "wie im Log" }
    doctor_title {
        en: "What ran out of memory?",
        zh: "什么耗尽了内存？",
        ja: "何がメモリを使い切りましたか",
        de: "Wem ging der Speicher aus?",
    }
    doctor_hint {
        en: "Nothing leaves this machine.",
        zh: "任何内容都不会离开本机。",
        ja: "内容がこのマシンの外に出ることはありません。",
        de: "Nichts verlässt diesen Rechner.",
    }
    choose_file { en: "choose a file", zh: "选择文件", ja: "ファイルを選ぶ", de: "Datei wählen" }
    clear { en: "clear", zh: "清空", ja: "消去", de: "leeren" }
    known_too {
        en: "optional: card and config of the run",
        zh: "可选：该训练的显卡和配置",
        ja: "任意: 実行したカードと設定",
        de: "optional: Karte und Konfiguration des Laufs",
    }
    file_too_large {
        en: "the file has $n, the page reads up to $m; `fitgpt doctor FILE` reads any",
        zh: "文件有 $n，页面最多读取 $m；`fitgpt doctor 文件` 没有限制",
        ja: "ファイルは $n です。ページで読めるのは $m まで。`fitgpt doctor ファイル` なら読めます",
        de: "die Datei hat $n, die Seite liest bis zu $m; `fitgpt doctor DATEI` liest jede",
    }
    doctor_empty {
        en: "The diagnosis appears here: what failed, which tensor, why, and what to change.",
        zh: "诊断显示在此处：什么失败了、哪个张量、为什么、该改什么。",
        ja: "診断はここに表示されます: 何が失敗したか、どのテンソルか、理由、変更点。",
        de: "Hier erscheint die Diagnose: was scheiterte, welcher Tensor, warum, und was zu ändern ist.",
    }
    open_planner {
        en: "open this run in the planner",
        zh: "在规划中打开这次训练",
        ja: "この実行を計画で開く",
        de: "diesen Lauf im Planer öffnen",
    }
    unexplained { en: "unexplained", zh: "无法解释", ja: "説明できない分", de: "ungeklärt" }
    allocated { en: "held by tensors", zh: "张量占用", ja: "テンソルが保持", de: "von Tensoren gehalten" }
    reserved { en: "reserved, unused", zh: "已保留但未使用", ja: "確保済み・未使用", de: "reserviert, ungenutzt" }
    foreign { en: "other processes", zh: "其他进程", ja: "ほかのプロセス", de: "andere Prozesse" }
    requested { en: "requested", zh: "申请", ja: "要求", de: "angefordert" }
    card_has {
        en: "the card has $n; this adds up to $s",
        zh: "显卡有 $n；合计 $s",
        ja: "カードは $n、合計 $s",
        de: "die Karte hat $n; zusammen sind es $s",
    }
    segments { en: "Live segments", zh: "存活的内存段", ja: "生存中のセグメント", de: "Lebende Segmente" }
    segments_sum {
        en: "$a in tensors, $r reserved, the largest free block $f",
        zh: "张量 $a，已保留 $r，最大空闲块 $f",
        ja: "テンソル $a、確保 $r、最大の空きブロック $f",
        de: "$a in Tensoren, $r reserviert, größter freier Block $f",
    }
    free { en: "free", zh: "空闲", ja: "空き", de: "frei" }
    more { en: "and $n more", zh: "以及另外 $n 个", ja: "ほか $n 件", de: "und $n weitere" }
    findings { en: "Findings", zh: "发现", ja: "所見", de: "Befunde" }
    explain { en: "explain", zh: "解释", ja: "説明", de: "erklären" }
    what_to_do { en: "What to do", zh: "怎么办", ja: "対処", de: "Was zu tun ist" }
    see_it { en: "see it in the planner", zh: "在规划中查看", ja: "計画で見る", de: "im Planer ansehen" }
    now { en: "Now", zh: "现在", ja: "次に", de: "Jetzt" }
    no_runs {
        en: "No run was found below the server's folders. It appears here as soon as one begins.",
        zh: "在服务器的文件夹中没有找到训练。一旦开始就会显示在这里。",
        ja: "サーバーのフォルダに実行がありません。始まるとここに表示されます。",
        de: "Unter den Ordnern des Servers gibt es keinen Lauf. Sobald einer beginnt, erscheint er hier.",
    }
    runs_partial {
        en: "There are too many files to search all folders, so runs may be missing. Start the server with the runs' folders: fitgpt serve FOLDER…",
        zh: "文件太多，未能搜索所有文件夹，可能缺少一些训练。请用训练所在的文件夹启动服务器：fitgpt serve 文件夹…",
        ja: "ファイルが多すぎて一部のフォルダを検索していないため、表示されない実行があるかもしれません。実行のフォルダを指定して起動してください: fitgpt serve フォルダ…",
        de: "Es gibt zu viele Dateien, um alle Ordner zu durchsuchen; vielleicht fehlen Läufe. Starten Sie den Server mit deren Ordnern: fitgpt serve ORDNER …",
    }
    zoom_reset { en: "whole run", zh: "整个训练", ja: "全体", de: "ganzer Lauf" }
    zoom_hint {
        en: "drag to zoom, double-click to see all",
        zh: "拖动以放大，双击查看全部",
        ja: "ドラッグで拡大、ダブルクリックで全体",
        de: "ziehen vergrößert, Doppelklick zeigt alles",
    }
    stop_run { en: "stop (it saves)", zh: "停止（会保存）", ja: "停止（保存します）", de: "anhalten (speichert)" }
    smoothing { en: "smoothing", zh: "平滑", ja: "平滑化", de: "Glättung" }
    log_axis { en: "log axis", zh: "对数坐标", ja: "対数軸", de: "logarithmisch" }
    chart_loss { en: "loss", zh: "损失", ja: "損失", de: "Loss" }
    chart_lr { en: "learning rate", zh: "学习率", ja: "学習率", de: "Lernrate" }
    chart_grad_norm { en: "gradient norm", zh: "梯度范数", ja: "勾配ノルム", de: "Gradientennorm" }
    chart_tokens_per_s { en: "tokens/s", zh: "token/秒", ja: "トークン/秒", de: "Tokens/s" }
    chart_loss_scale { en: "loss scale", zh: "损失缩放", ja: "損失スケール", de: "Loss-Skalierung" }
    state_training { en: "training", zh: "训练中", ja: "学習中", de: "trainiert" }
    state_done { en: "done", zh: "完成", ja: "完了", de: "fertig" }
    state_interrupted { en: "stopped, saved", zh: "已停止，已保存", ja: "停止・保存済み", de: "angehalten, gespeichert" }
    state_diverged { en: "diverged", zh: "发散", ja: "発散", de: "divergiert" }
    state_failed { en: "failed", zh: "失败", ja: "失敗", de: "gescheitert" }
    state_stopped { en: "ended unexpectedly", zh: "意外结束", ja: "予期せず終了", de: "unerwartet beendet" }
    loss { en: "loss", zh: "损失", ja: "損失", de: "Loss" }
    val { en: "validation", zh: "验证", ja: "検証", de: "Validierung" }
    train_split { en: "training split", zh: "训练集", ja: "学習データ", de: "Trainingsdaten" }
    rate { en: "$n tokens/s", zh: "$n token/秒", ja: "$n トークン/秒", de: "$n Tokens/s" }
    left { en: "$n left", zh: "剩余 $n", ja: "残り $n", de: "noch $n" }
    time_left { en: "left", zh: "剩余", ja: "残り", de: "noch" }
    step { en: "step", zh: "步", ja: "ステップ", de: "Schritt" }
    checkpoint { en: "saved at", zh: "保存于", ja: "保存", de: "gespeichert bei" }
    runs_shown { en: "$n runs", zh: "$n 个训练", ja: "$n 件の実行", de: "$n Läufe" }
    reading {
        en: "reading the log: $n %",
        zh: "正在读取日志：$n %",
        ja: "ログを読み込み中: $n %",
        de: "Log wird gelesen: $n %",
    }
    arena { en: "arena of the plan", zh: "规划的预分配", ja: "計画のアリーナ", de: "Arena des Plans" }
    process_itself {
        en: "the process itself, at most", zh: "进程自身，最多", ja: "プロセス自体（最大）", de: "der Prozess selbst, höchstens",
    }
    resident {
        en: "the process holds $n of at most $m",
        zh: "进程占用 $n，最多 $m",
        ja: "プロセスは $n を保持（最大 $m）",
        de: "der Prozess hält $n von höchstens $m",
    }
    memory { en: "Memory against the plan", zh: "内存与规划对比", ja: "メモリと計画の比較", de: "Speicher im Vergleich zum Plan" }
    samples { en: "Samples", zh: "采样", ja: "生成例", de: "Textproben" }
    config_diff {
        en: "configs: $n keys differ",
        zh: "配置：$n 个键不同",
        ja: "設定: $n 個のキーが異なる",
        de: "Konfigurationen: $n Schlüssel verschieden",
    }
    config_of_run { en: "config", zh: "配置", ja: "設定", de: "Konfiguration" }
    key { en: "key", zh: "键", ja: "キー", de: "Schlüssel" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `$n` and the like.
    fn placeholders(text: &str) -> Vec<&str> {
        let mut found: Vec<_> = text
            .split('$')
            .skip(1)
            .map(|rest| &rest[..rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len())])
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn every_language_has_the_same_placeholders() {
        for (name, message) in LABELS {
            fitgpt_say::assert_layout(name, message);
            let [english, translations @ ..] = message.texts();
            for text in translations {
                assert_eq!(placeholders(english), placeholders(text), "`{name}`: {text}");
            }
        }
    }

    #[test]
    fn every_text_that_the_page_uses_is_defined() {
        let scripts = [
            include_str!("page/main.js"),
            include_str!("page/lib.js"),
            include_str!("page/picture.js"),
            include_str!("page/planner.js"),
            include_str!("page/doctor.js"),
            include_str!("page/runs.js"),
            include_str!("page/chart.js"),
        ];
        let words = labels(Lang::English);
        let mut asked = 0;
        for script in scripts {
            for (at, _) in script.match_indices("t(\"") {
                // `get("…")` also ends in `t("…")`.
                let is_other = script[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
                let name = &script[at + 3..];
                let name = &name[..name.find('"').unwrap()];
                if !is_other {
                    assert!(words.contains_key(name), "{name}");
                    asked += 1;
                }
            }
        }
        assert!(asked > 80, "{asked}");
    }
}
