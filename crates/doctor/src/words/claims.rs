//! What is true of each claim, in one sentence.

use fitgpt_say::{Lang, Say};

use super::size;
use crate::claim::{CheckedClaim, Claim, ClaimVerdict};

fitgpt_say::messages! {
    claims_heading(count) {
        en: "this is advice, not a log; {count} of its claims are known:\n",
        zh: "这是建议，不是日志；其中有 {count} 条已知的说法：\n",
        ja: "これはログではなく助言です。既知の主張が {count} 件あります:\n",
        de: "das ist ein Ratschlag, kein Log; {count} seiner Aussagen sind bekannt:\n",
    }
    is_true() { en: "true", zh: "属实", ja: "正しい", de: "richtig" }
    is_false() { en: "false", zh: "不实", ja: "誤り", de: "falsch" }
    is_conditional() { en: "true only if", zh: "有条件", ja: "条件付き", de: "nur bedingt" }
    with_config(text, before, after) {
        en: "{text}; with this config: {before} before, {after} after",
        zh: "{text}；在这份配置下：之前 {before}，之后 {after}",
        ja: "{text}。この設定では: 前 {before}、後 {after}",
        de: "{text}; mit dieser Konfiguration: vorher {before}, nachher {after}",
    }
    eval_batch_size() {
        en: "nanoGPT rejects this key (`fitgpt patch` adds it), and it lowers the evaluation alone; the training step stays",
        zh: "nanoGPT 不接受这个键（`fitgpt patch` 可以加上），而且只降低评估的占用，训练步不变",
        ja: "nanoGPT はこのキーを受け付けません（`fitgpt patch` で追加できます）。下がるのは評価だけで、学習ステップは変わりません",
        de: "nanoGPT weist diesen Schlüssel zurück (`fitgpt patch` ergänzt ihn), und er senkt nur die Evaluierung; der Trainingsschritt bleibt",
    }
    eval_block_size() {
        en: "nanoGPT rejects this key, and a loss at a shorter context is another number",
        zh: "nanoGPT 不接受这个键，而且更短上下文的损失是另一个数值",
        ja: "nanoGPT はこのキーを受け付けません。短い文脈での損失は別の数値です",
        de: "nanoGPT weist diesen Schlüssel zurück, und ein Loss bei kürzerem Kontext ist eine andere Zahl",
    }
    eval_iters() {
        en: "they change the time and the noise of an evaluation, never its peak",
        zh: "它们改变评估的时间和噪声，从不改变峰值",
        ja: "評価の時間とばらつきが変わるだけで、ピークは変わりません",
        de: "sie ändern Dauer und Rauschen einer Evaluierung, nie ihre Spitze",
    }
    heads() {
        en: "the heads must divide the channels: 512 and 448 are not multiples of 12, and the run stops at once",
        zh: "头数必须整除通道数：512 和 448 都不是 12 的倍数，运行会立即停止",
        ja: "ヘッド数はチャネル数を割り切る必要があります。512 も 448 も 12 の倍数ではなく、実行はすぐ止まります",
        de: "die Köpfe müssen die Kanäle teilen: 512 und 448 sind keine Vielfachen von 12, der Lauf bricht sofort ab",
    }
    gradient_checkpointing() {
        en: "nanoGPT has neither the key nor the method (`fitgpt patch` adds it); it saves activations, not the logits and the loss",
        zh: "nanoGPT 没有这个键和方法（`fitgpt patch` 可以加上）；省下的是激活值，不是 logits 和损失",
        ja: "nanoGPT にこのキーもメソッドもありません（`fitgpt patch` で追加できます）。減るのは活性値で、logits と損失は減りません",
        de: "nanoGPT hat weder Schlüssel noch Methode (`fitgpt patch` ergänzt sie); gespart werden Aktivierungen, nicht Logits und Loss",
    }
    smaller_micro_batch() {
        en: "the training stays the same only if batch size times accumulation stays the same; nanoGPT's default accumulation is 40",
        zh: "只有批大小乘以累积步数不变，训练才不变；nanoGPT 的默认累积是 40",
        ja: "バッチサイズと累積数の積が同じときだけ学習は同じです。nanoGPT の累積の既定値は 40 です",
        de: "das Training bleibt nur gleich, wenn Batchgröße mal Akkumulation gleich bleibt; nanoGPTs Vorgabe ist 40",
    }
    compile_off() {
        en: "it saves memory at the first call only; after that eager mode needs more",
        zh: "只在第一次调用时省显存；之后 eager 模式需要更多",
        ja: "減るのは最初の呼び出しだけです。その後は eager のほうが多く使います",
        de: "es spart nur beim ersten Aufruf; danach braucht der Eager-Modus mehr",
    }
    reduce_overhead() {
        en: "it keeps pools for CUDA graphs: more memory, not less",
        zh: "它为 CUDA graph 保留内存池：占用更多，而不是更少",
        ja: "CUDA graph 用のプールを保持します。メモリは増えます",
        de: "es behält Pools für CUDA-Graphen: mehr Speicher, nicht weniger",
    }
    empty_cache() {
        en: "it frees nothing for PyTorch itself, which reuses its cache anyway",
        zh: "它不会为 PyTorch 自己腾出任何显存：缓存本来就会重用",
        ja: "PyTorch 自身には何も解放されません。キャッシュはもともと再利用されます",
        de: "es gibt PyTorch selbst nichts frei, das seinen Cache ohnehin wiederverwendet",
    }
    warnings() {
        en: "these settings and warnings are about speed or renamed functions; they free no memory",
        zh: "这些设置和警告只关乎速度或改名的函数，不会释放显存",
        ja: "これらの設定や警告は速度や名前の変更についてのもので、メモリは解放されません",
        de: "diese Einstellungen und Warnungen betreffen Tempo oder umbenannte Funktionen; sie geben keinen Speicher frei",
    }
    expandable_segments() {
        en: "it helps only if the message shows at least the requested size as reserved but unallocated",
        zh: "只有当报错中“已保留但未分配”的部分不小于所申请的大小时才有用",
        ja: "メッセージの「予約済みだが未割り当て」が要求以上のときだけ役立ちます",
        de: "es hilft nur, wenn die Meldung mindestens die angeforderte Größe als reserviert, aber nicht belegt zeigt",
    }
    block_size() {
        en: "it lowers every phase, and it changes the training: the model sees shorter contexts",
        zh: "它降低每个阶段的占用，同时改变训练：模型看到的上下文更短",
        ja: "すべての段階で減りますが、学習が変わります。モデルが見る文脈が短くなります",
        de: "es senkt jede Phase und verändert das Training: das Modell sieht kürzere Kontexte",
    }
    offload_evaluation() {
        en: "an evaluation has no weights of its own to move; it helps only if the whole evaluation runs on the CPU, which is slow",
        zh: "评估没有自己的权重可移；只有整个评估都在 CPU 上运行才有用，而那很慢",
        ja: "評価に固有の重みはありません。評価全体を CPU で動かすときだけ役立ちますが、遅くなります",
        de: "eine Evaluierung hat keine eigenen Gewichte; es hilft nur, wenn sie ganz auf der CPU läuft, und das ist langsam",
    }
    nvidia_smi() {
        en: "it shows the card and frees nothing; `fitgpt devices --watch` shows the same with the processes",
        zh: "它显示显卡的占用，不释放任何显存；`fitgpt devices --watch` 还会列出进程",
        ja: "GPU の状態を表示するだけで、何も解放しません。`fitgpt devices --watch` はプロセスも表示します",
        de: "es zeigt die Karte und gibt nichts frei; `fitgpt devices --watch` zeigt dazu die Prozesse",
    }
    kill_processes() {
        en: "it helps only if their memory and the free memory together reach the request",
        zh: "只有它们占用的加上空闲的不小于所申请的，才有用",
        ja: "その分と空きを合わせて要求に届くときだけ役立ちます",
        de: "es hilft nur, wenn ihr Speicher und der freie zusammen für die Anforderung reichen",
    }
    half_on_old_cards() {
        en: "cards before Ampere have no bfloat16 in hardware; both types need the same memory",
        zh: "Ampere 之前的显卡没有硬件 bfloat16；两种类型占用相同",
        ja: "Ampere より前の GPU は bfloat16 をハードウェアで扱えません。メモリはどちらも同じです",
        de: "Karten vor Ampere haben kein bfloat16 in Hardware; beide Typen brauchen gleich viel Speicher",
    }
    on_cpu() {
        en: "it runs without a card, and a run of GPT-2's size then takes months",
        zh: "不用显卡也能运行，但 GPT-2 规模的训练要花几个月",
        ja: "GPU なしでも動きますが、GPT-2 規模の学習には数か月かかります",
        de: "es läuft ohne Karte, und ein Lauf von GPT-2s Größe dauert dann Monate",
    }
    ddp() {
        en: "every card keeps weights, gradients and moments, and the buckets add a copy of the gradients",
        zh: "每张显卡都保存权重、梯度和矩，而且 bucket 还要再多一份梯度",
        ja: "各 GPU が重み、勾配、モーメントを持ち、バケットの分だけ勾配のコピーが増えます",
        de: "jede Karte hält Gewichte, Gradienten und Momente, und die Buckets sind eine Kopie der Gradienten mehr",
    }
    reinstall() {
        en: "another build of the same version allocates the same tensors",
        zh: "同一版本重装后分配的张量完全相同",
        ja: "同じ版を入れ直しても、割り当てるテンソルは同じです",
        de: "dieselbe Version neu installiert legt dieselben Tensoren an",
    }
    kv_cache() {
        en: "training and evaluation have no KV cache",
        zh: "训练和评估没有 KV 缓存",
        ja: "学習にも評価にも KV キャッシュはありません",
        de: "Training und Evaluierung haben keinen KV-Cache",
    }
    backward_in_evaluation() {
        en: "`estimate_loss` runs under `torch.no_grad()`; what stays alive is the logits of the previous batch",
        zh: "`estimate_loss` 在 `torch.no_grad()` 下运行；留着的是上一批的 logits",
        ja: "`estimate_loss` は `torch.no_grad()` の下で動きます。残るのは前のバッチの logits です",
        de: "`estimate_loss` läuft unter `torch.no_grad()`; am Leben bleiben die Logits des vorigen Batches",
    }
    cards() {
        en: "the RTX 3090 and 4090 have 24 GB, the RTX A6000 has 48",
        zh: "RTX 3090 和 4090 有 24 GB，RTX A6000 有 48 GB",
        ja: "RTX 3090 と 4090 は 24 GB、RTX A6000 は 48 GB です",
        de: "RTX 3090 und 4090 haben 24 GB, die RTX A6000 hat 48",
    }
    half_weights() {
        en: "under autocast the weights stay float32: 4 bytes per parameter",
        zh: "autocast 之下权重仍是 float32：每个参数 4 字节",
        ja: "autocast でも重みは float32 のままです。1 パラメータ 4 バイトです",
        de: "unter Autocast bleiben die Gewichte float32: 4 Byte je Parameter",
    }
    data_loader() {
        en: "nanoGPT maps its file and copies one batch at a time",
        zh: "nanoGPT 映射数据文件，每次只复制一批",
        ja: "nanoGPT はファイルをマップし、1 バッチずつコピーします",
        de: "nanoGPT bildet seine Datei in den Speicher ab und kopiert je einen Batch",
    }
}

impl Say for Claim {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::EvalBatchSize => eval_batch_size(lang),
            Self::EvalBlockSize => eval_block_size(lang),
            Self::EvalIters => eval_iters(lang),
            Self::Heads => heads(lang),
            Self::GradientCheckpointing => gradient_checkpointing(lang),
            Self::SmallerMicroBatch => smaller_micro_batch(lang),
            Self::CompileOff => compile_off(lang),
            Self::ReduceOverhead => reduce_overhead(lang),
            Self::EmptyCache => empty_cache(lang),
            Self::Warnings => warnings(lang),
            Self::ExpandableSegments => expandable_segments(lang),
            Self::BlockSize => block_size(lang),
            Self::OffloadEvaluation => offload_evaluation(lang),
            Self::NvidiaSmi => nvidia_smi(lang),
            Self::KillProcesses => kill_processes(lang),
            Self::HalfOnOldCards => half_on_old_cards(lang),
            Self::OnCpu => on_cpu(lang),
            Self::Ddp => ddp(lang),
            Self::Reinstall => reinstall(lang),
            Self::KvCache => kv_cache(lang),
            Self::BackwardInEvaluation => backward_in_evaluation(lang),
            Self::Cards => cards(lang),
            Self::HalfWeights => half_weights(lang),
            Self::DataLoader => data_loader(lang),
        }
    }
}

impl Say for ClaimVerdict {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::True => is_true(lang),
            Self::False => is_false(lang),
            Self::OnlyIf => is_conditional(lang),
        }
    }
}

impl Say for CheckedClaim {
    fn say(&self, lang: Lang) -> String {
        let text = self.claim.say(lang);
        match (self.before_bytes, self.after_bytes) {
            (Some(before), Some(after)) => {
                with_config(lang, text, size(lang, before), size(lang, after))
            }
            _ => text,
        }
    }
}

/// The claims of a text, one a line.
pub(super) fn list(lang: Lang, claims: &[CheckedClaim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut text = claims_heading(lang, claims.len());
    for claim in claims {
        let line = [claim.verdict.say(lang), claim.claim.id().to_owned()].join("  ");
        text.extend(["  ", &line, ": ", &claim.say(lang), "\n"]);
    }
    text
}
