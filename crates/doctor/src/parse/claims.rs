//! Advice instead of a log: a note, a forum answer or a page that tells its reader what to change.

use crate::claim::Claim;

/// Words of a claim in lower case: one of each group, in one line.
type Words = &'static [&'static [&'static str]];

/// How each claim is worded. A claim may have several rows.
const CLAIMS: &[(Claim, Words)] = &[
    (Claim::EvalBatchSize, &[&["eval_batch_size", "eval_batch"]]),
    (Claim::EvalBlockSize, &[&["eval_block_size"]]),
    (Claim::EvalIters, &[&["eval_iters", "eval_interval"]]),
    (Claim::Heads, &[&["n_embd"], &["512", "448"]]),
    (
        Claim::GradientCheckpointing,
        &[&[
            "gradient_checkpointing",
            "grad_checkpoint",
            "gradient checkpointing",
            "activation checkpointing",
            "梯度检查点",
            "勾配チェックポイント",
        ]],
    ),
    (
        Claim::SmallerMicroBatch,
        &[&[
            "gradient_accumulation",
            "gradient accumulation",
            "梯度累积",
            "勾配累積",
            "gradientenakkum",
        ]],
    ),
    (Claim::CompileOff, &[&["compile = false", "compile=false", "--compile=false", "禁用编译"]]),
    (Claim::ReduceOverhead, &[&["reduce-overhead"]]),
    (Claim::EmptyCache, &[&["empty_cache"]]),
    (
        Claim::Warnings,
        &[&["suppress_errors", "set_float32_matmul_precision", "not enough sms", "gradscaler"]],
    ),
    (Claim::ExpandableSegments, &[&["expandable_segments", "max_split_size_mb"]]),
    (
        Claim::BlockSize,
        &[&[
            "block_size = 512",
            "block_size=512",
            "block_size = 256",
            "block_size=256",
            "max_length",
        ]],
    ),
    (
        Claim::OffloadEvaluation,
        &[&["cpu卸载", "cpu offload", "offload the eval", "cpu オフロード", "auf die cpu"]],
    ),
    (
        Claim::NvidiaSmi,
        &[&["nvidia-smi -l", "watch -n 1 nvidia-smi", "watch nvidia-smi", "nvidia-smi"]],
    ),
    (
        Claim::KillProcesses,
        &[&[
            "kill -9",
            "kill other",
            "other processes",
            "终止其他",
            "外部プロセス",
            "他のプロセス",
            "andere prozesse",
        ]],
    ),
    (
        Claim::HalfOnOldCards,
        &[
            &["float16"],
            &["ampere", "turing", "volta", "old", "older", "支持", "不支持", "古い", "ältere"],
        ],
    ),
    (Claim::OnCpu, &[&["device = 'cpu'", "device='cpu'", "device=cpu", "device = \"cpu\""]]),
    (Claim::Ddp, &[&["ddp", "distributeddataparallel", "dataparallel"]]),
    (
        Claim::Reinstall,
        &[&[
            "pip install torch",
            "reinstall pytorch",
            "重装",
            "再インストール",
            "neu installieren",
        ]],
    ),
    (Claim::KvCache, &[&["kv cache", "kv-cache", "kv缓存", "kvキャッシュ"]]),
    (
        Claim::BackwardInEvaluation,
        &[
            &["estimate_loss", "eval"],
            &[
                "backward",
                "反向",
                "计算图",
                "逆伝播",
                "計算グラフ",
                "rückwärts",
                "graph alive",
                "computation graph",
            ],
        ],
    ),
    (Claim::Cards, &[&["3090", "4090", "a6000"], &["12gb", "12 gb", "12g "]]),
    (
        Claim::HalfWeights,
        &[
            &["fp16", "float16", "2字节", "2 bytes", "半精度"],
            &["model", "模型", "モデル", "modell", "weights", "权重"],
            &["mb", "gb"],
        ],
    ),
    (Claim::DataLoader, &[&["dataloader", "data loader", "数据加载", "データローダー"]]),
];

/// Words of a text that recommends something.
const RECOMMENDS: &[&str] = &[
    "recommend",
    "solution",
    "quick fix",
    "how to fix",
    "option 1",
    "option 2",
    "方案",
    "解决",
    "推荐",
    "建议",
    "オプション",
    "推奨",
    "解決",
    "対策",
    "lösung",
    "empfohlen",
    "empfehl",
];

/// Words of somebody who tells others what to do.
const ADVISES: &[&str] = &[
    "to fix",
    "you can",
    "you could",
    "you should",
    "you need to",
    "try setting",
    "helps",
    "saves",
    "可以",
    "请",
    "してください",
    "すると",
    "sie können",
    "du kannst",
    "hilft",
];

/// Words of somebody who reports what happened to them, after a space.
const REPORTS: &[&str] = &[
    " i ",
    " i'm ",
    " i've ",
    " my ",
    " we ",
    " we're ",
    "我",
    "私",
    " ich ",
    " wir ",
    " traceback",
];

/// What a text recommends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Advised {
    claims: Vec<Claim>,
    headings: u32,
    recommends: u32,
    /// Which of [`ADVISES`] and [`REPORTS`] occur.
    advises: [bool; ADVISES.len()],
    reports: bool,
}

impl Advised {
    /// Reads a line; `lower` is in lower case.
    pub(super) fn push(&mut self, line: &str, lower: &str) {
        /// A longer line is output of a program.
        const LONGEST: usize = 3000;
        if lower.len() > LONGEST {
            return;
        }
        let is_heading = line.starts_with("##") || line.starts_with("# ") || line.starts_with("**");
        self.headings = self.headings.saturating_add(u32::from(is_heading));
        let recommends = RECOMMENDS.iter().any(|words| lower.contains(words));
        self.recommends = self.recommends.saturating_add(u32::from(recommends));
        for (advises, words) in self.advises.iter_mut().zip(ADVISES) {
            *advises |= lower.contains(words);
        }
        let spaced = format!(" {lower}");
        self.reports |= REPORTS.iter().any(|words| spaced.contains(words));
        for (claim, groups) in CLAIMS {
            let is_made = groups.iter().all(|group| group.iter().any(|w| lower.contains(w)));
            if is_made && !self.claims.contains(claim) {
                self.claims.push(*claim);
            }
        }
    }

    /// The claims, if the text is advice: it makes several, and either has the structure of a note
    /// that recommends, or tells others what to do and reports nothing.
    pub(crate) fn claims(&self) -> &[Claim] {
        let is_note = self.recommends >= 2 && self.headings >= 2;
        let advises = self.advises.iter().filter(|advises| **advises).count();
        let is_answer = advises >= 2 && !self.reports;
        let is_advice = self.claims.len() >= 3 && (is_note || is_answer);
        if is_advice { &self.claims } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Claim> {
        let mut advised = Advised::default();
        text.lines().for_each(|line| advised.push(line.trim(), &line.trim().to_lowercase()));
        advised.claims().to_vec()
    }

    #[test]
    fn a_note_is_advice_and_a_log_is_none() {
        let note = "# How to fix it\n**Option 1: recommended**\neval_batch_size = 4\n**Option 2: the best solution**\n\
                    compile = False\neval_iters = 50\nThe KV cache takes 1.6 GB.";
        let claims = read(note);
        for claim in [Claim::EvalBatchSize, Claim::CompileOff, Claim::EvalIters, Claim::KvCache] {
            assert!(claims.contains(&claim), "{claim:?}");
        }
        let log = "Overriding config with config/a.py:\n# eval_iters = 50\ncompile = False\neval_interval = 100\n\
                   expandable_segments:True\nstep 0: train loss 4";
        assert_eq!(read(log), []);
    }

    #[test]
    fn an_answer_in_a_forum_is_advice_and_a_question_is_none() {
        let advice = "To fix it set eval_batch_size=4 and compile=False, which saves 1-2 GB. You can also \
                      call model.gradient_checkpointing_enable() and torch.cuda.empty_cache().";
        let claims = read(advice);
        for claim in [Claim::EvalBatchSize, Claim::CompileOff, Claim::GradientCheckpointing] {
            assert!(claims.contains(&claim), "{claim:?}: {claims:?}");
        }
        assert_eq!(read(&format!("I tried this answer, and it still fails: {advice}")), []);
    }
}
