//! What a user says about the failure: what the program was doing, and what the trouble is about.
//!
//! Only sentences that mention the trouble count: a report also says what worked.

use super::prose;
use crate::facts::{MemoryKind, PhaseName};

/// Words of a sentence about the failure, in lower case.
const TROUBLES: &[&str] = &[
    "out of memory",
    "out-of-memory",
    "outofmemory",
    "oom",
    "memory error",
    "memory issue",
    "out of gpu memory",
    "out of vram",
    "out of cuda memory",
    "run out of",
    "runs out of",
    "ran out of",
    "running out of",
    "memory exception",
    "not enough memory",
    "crash",
    "killed",
    "sends kill",
    "exit code",
    "return code",
    "error code -9",
    "error code 9",
    "cuda error",
    "memory problem",
    "显存不足",
    "显存不够",
    "显存溢出",
    "爆显存",
    "显存爆",
    "内存不足",
    "内存不够",
    "内存溢出",
    "爆内存",
    "内存爆",
    "内存错误",
    "爆了",
    "メモリ不足",
    "メモリが不足",
    "メモリが足り",
    "メモリエラー",
    "落ち",
    "speicher reicht",
    "speichermangel",
    "zu wenig speicher",
    "nicht genug speicher",
];

/// What a program does, by the words for it. [`PhaseName::Unknown`] is training, which has several
/// phases. Where two overlap, the longer one counts.
const ACTIVITIES: &[(&str, PhaseName)] = &[
    ("saving", PhaseName::Save),
    ("to save", PhaseName::Save),
    ("save the", PhaseName::Save),
    ("save model", PhaseName::Save),
    ("save my", PhaseName::Save),
    ("saved the", PhaseName::Save),
    ("saves the", PhaseName::Save),
    ("model save", PhaseName::Save),
    ("save checkpoint", PhaseName::Save),
    ("checkpoint save", PhaseName::Save),
    ("save_pretrained", PhaseName::Save),
    ("save_checkpoint", PhaseName::Save),
    ("save_model", PhaseName::Save),
    ("model checkpointing", PhaseName::Save),
    ("modelcheckpoint", PhaseName::Save),
    ("checkpointing", PhaseName::Save),
    ("gradient checkpointing", PhaseName::Unknown),
    ("activation checkpointing", PhaseName::Unknown),
    ("writing the checkpoint", PhaseName::Save),
    ("write the checkpoint", PhaseName::Save),
    ("summoning checkpoint", PhaseName::Save),
    ("保存", PhaseName::Save),
    ("speichern des", PhaseName::Save),
    ("resum", PhaseName::Resume),
    ("load checkpoint", PhaseName::Resume),
    ("load a checkpoint", PhaseName::Resume),
    ("load the checkpoint", PhaseName::Resume),
    ("loading checkpoint", PhaseName::Resume),
    ("loading a checkpoint", PhaseName::Resume),
    ("loading the checkpoint", PhaseName::Resume),
    ("loading checkpoint shards", PhaseName::Load),
    ("from checkpoint", PhaseName::Resume),
    ("from a checkpoint", PhaseName::Resume),
    ("from the checkpoint", PhaseName::Resume),
    ("loading optimizer", PhaseName::Resume),
    ("load optimizer", PhaseName::Resume),
    ("loading the optimizer", PhaseName::Resume),
    ("restoring optimizer", PhaseName::Resume),
    ("restoring the", PhaseName::Resume),
    ("恢复训练", PhaseName::Resume),
    ("断点续训", PhaseName::Resume),
    ("再開", PhaseName::Resume),
    ("fortsetz", PhaseName::Resume),
    ("loading the model", PhaseName::Load),
    ("loading model", PhaseName::Load),
    ("loading a model", PhaseName::Load),
    ("loading the weights", PhaseName::Load),
    ("loading weights", PhaseName::Load),
    ("load the model", PhaseName::Load),
    ("load model", PhaseName::Load),
    ("load a model", PhaseName::Load),
    ("model loading", PhaseName::Load),
    ("from_pretrained", PhaseName::Load),
    ("when loading", PhaseName::Load),
    ("while loading", PhaseName::Load),
    ("during loading", PhaseName::Load),
    ("being loaded", PhaseName::Load),
    ("could not be loaded", PhaseName::Load),
    ("cannot be loaded", PhaseName::Load),
    ("can't be loaded", PhaseName::Load),
    ("fail to load", PhaseName::Load),
    ("failed to load", PhaseName::Load),
    ("fails to load", PhaseName::Load),
    ("loading the data", PhaseName::Prepare),
    ("loading data", PhaseName::Prepare),
    ("loading dataset", PhaseName::Prepare),
    ("when loading data", PhaseName::Prepare),
    ("while loading data", PhaseName::Prepare),
    ("when loading the data", PhaseName::Prepare),
    ("while loading the data", PhaseName::Prepare),
    ("加载模型", PhaseName::Load),
    ("模型加载", PhaseName::Load),
    ("モデルの読み込み", PhaseName::Load),
    ("モデルをロード", PhaseName::Load),
    ("モデル読み込み", PhaseName::Load),
    ("laden des modells", PhaseName::Load),
    ("evaluat", PhaseName::Evaluate),
    ("validat", PhaseName::Evaluate),
    ("eval", PhaseName::Evaluate),
    ("test phase", PhaseName::Evaluate),
    ("test stage", PhaseName::Evaluate),
    ("testing", PhaseName::Evaluate),
    ("compute_metrics", PhaseName::Evaluate),
    ("computing metrics", PhaseName::Evaluate),
    ("预测", PhaseName::Evaluate),
    ("评估", PhaseName::Evaluate),
    ("验证", PhaseName::Evaluate),
    ("测试", PhaseName::Evaluate),
    ("検証", PhaseName::Evaluate),
    ("評価", PhaseName::Evaluate),
    ("auswert", PhaseName::Evaluate),
    ("validier", PhaseName::Evaluate),
    ("generat", PhaseName::Sample),
    ("inferenc", PhaseName::Sample),
    ("sampling", PhaseName::Sample),
    ("推理", PhaseName::Sample),
    ("推論", PhaseName::Sample),
    ("生成", PhaseName::Sample),
    ("optimizer.step", PhaseName::Update),
    ("optimizer step", PhaseName::Update),
    ("optimiser step", PhaseName::Update),
    ("backward", PhaseName::TrainBackward),
    ("反向传播", PhaseName::TrainBackward),
    ("逆伝播", PhaseName::TrainBackward),
    ("forward pass", PhaseName::TrainForward),
    ("前向传播", PhaseName::TrainForward),
    ("torch.compile", PhaseName::Compile),
    ("compiling", PhaseName::Compile),
    ("compilation", PhaseName::Compile),
    ("编译", PhaseName::Compile),
    ("コンパイル", PhaseName::Compile),
    ("preprocess", PhaseName::Prepare),
    ("tokeniz", PhaseName::Prepare),
    ("preparing the data", PhaseName::Prepare),
    ("数据预处理", PhaseName::Prepare),
    ("前処理", PhaseName::Prepare),
    ("training", PhaseName::Unknown),
    ("train ", PhaseName::Unknown),
    ("finetun", PhaseName::Unknown),
    ("fine-tun", PhaseName::Unknown),
    ("fine tun", PhaseName::Unknown),
    ("训练", PhaseName::Unknown),
    ("微调", PhaseName::Unknown),
    ("学習", PhaseName::Unknown),
    ("trainier", PhaseName::Unknown),
];

/// What the trouble is about, by the words for it.
const TOPICS: &[(&str, Topic)] = &[
    ("kv cache", Topic::Cache),
    ("kv-cache", Topic::Cache),
    ("kv_cache", Topic::Cache),
    ("kvcache", Topic::Cache),
    ("prefix cache", Topic::Cache),
    ("prefix-cache", Topic::Cache),
    ("past_key_values", Topic::Cache),
    ("key-value cache", Topic::Cache),
    ("kv缓存", Topic::Cache),
    ("kv 缓存", Topic::Cache),
    ("kvキャッシュ", Topic::Cache),
    ("compute_metrics", Topic::Predictions),
    ("aggregates predictions", Topic::Predictions),
    ("accumulates predictions", Topic::Predictions),
    ("gathering predictions", Topic::Predictions),
    ("all predictions", Topic::Predictions),
    ("all the predictions", Topic::Predictions),
    ("all logits", Topic::Predictions),
    ("prediction tensors", Topic::Predictions),
    ("preds_host", Topic::Predictions),
    ("nested_concat", Topic::Predictions),
    ("eval_accumulation_steps", Topic::Predictions),
    ("prediction_loss_only=false", Topic::Predictions),
    ("eval score", Topic::Predictions),
    ("累积preds", Topic::Predictions),
    ("training works", Topic::TrainingFits),
    ("training is fine", Topic::TrainingFits),
    ("training runs fine", Topic::TrainingFits),
    ("training completes", Topic::TrainingFits),
    ("training goes well", Topic::TrainingFits),
    ("trains fine", Topic::TrainingFits),
    ("can train", Topic::TrainingFits),
    ("while training is ok", Topic::TrainingFits),
    ("训练时显存", Topic::TrainingFits),
    ("训练正常", Topic::TrainingFits),
    ("训练没问题", Topic::TrainingFits),
    ("训练没有问题", Topic::TrainingFits),
    ("正常训练", Topic::TrainingFits),
    ("学習はでき", Topic::TrainingFits),
    ("学習は問題な", Topic::TrainingFits),
    ("training läuft", Topic::TrainingFits),
    ("shared gpu memory", Topic::SharedMemory),
    ("shared memory used", Topic::SharedMemory),
    ("shared video memory", Topic::SharedMemory),
    ("shared vram", Topic::SharedMemory),
    ("into shared memory", Topic::SharedMemory),
    ("共享gpu", Topic::SharedMemory),
    ("共享显存", Topic::SharedMemory),
    ("共有gpu", Topic::SharedMemory),
    ("gemeinsam genutzter gpu", Topic::SharedMemory),
    ("gemeinsamer gpu", Topic::SharedMemory),
    ("slow", Topic::Slow),
    ("s/it", Topic::Slow),
    ("很慢", Topic::Slow),
    ("变慢", Topic::Slow),
    ("太慢", Topic::Slow),
    ("遅い", Topic::Slow),
    ("遅く", Topic::Slow),
    ("langsam", Topic::Slow),
];

/// What the trouble is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Keys and values of earlier tokens.
    Cache,
    /// The predictions of an evaluation.
    Predictions,
    /// Training itself is said to fit.
    TrainingFits,
    /// Host memory that Windows lends to the card.
    SharedMemory,
    /// The program is slow.
    Slow,
}

/// A user's description of the failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Situation {
    /// What the program was doing.
    pub(crate) activity: Option<PhaseName>,
    /// What the sentences about the trouble mention.
    pub(crate) topics: Vec<Topic>,
    /// Memory use grows; which memory.
    pub(crate) grows: Option<MemoryKind>,
    sentences: u32, // about the trouble
}

impl Situation {
    /// Reads a line; `lower` is in lower case.
    pub(super) fn push(&mut self, lower: &str) {
        /// A longer line is output of a program.
        const LONGEST: usize = 1500;
        if lower.len() > LONGEST {
            return;
        }
        if let Some(memory) = prose::grows(lower) {
            self.grows = match self.grows {
                Some(known) if known != MemoryKind::Unknown => Some(known),
                _ => Some(memory),
            };
        }
        for (words, topic) in TOPICS {
            if !self.topics.contains(topic) && lower.contains(words) {
                self.topics.push(*topic);
            }
        }
        for sentence in sentences(lower) {
            let Some(trouble) = TROUBLES.iter().find_map(|words| find_word(sentence, words)) else {
                continue;
            };
            self.sentences = self.sentences.saturating_add(1);
            // `训练时没有报OOM，保存时报了`: what follows names the trouble.
            let is_denied = ["没有报", "没报", "不报", "没有"]
                .iter()
                .any(|no| sentence[..trouble].trim_end().ends_with(no));
            let (sentence, trouble) =
                if is_denied { (&sentence[trouble..], 0) } else { (sentence, trouble) };
            // A title comes first and says most; later sentences add what it lacks.
            if self.activity.is_none() || self.activity == Some(PhaseName::Unknown) {
                self.activity = activity(sentence, trouble).or(self.activity);
            }
        }
    }
}

/// Sentences, and the clauses after a contrast.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(". ").flat_map(|part| part.split(['!', '?', '。', '？', '！']));
    parts.flat_map(|part| part.split("但")).flat_map(|part| part.split(" but "))
}

/// The first occurrence; `oom` is not part of a longer word.
fn find_word(text: &str, words: &str) -> Option<usize> {
    let is_part = |c: char| c.is_ascii_alphabetic();
    text.match_indices(words).map(|(at, _)| at).find(|at| {
        words != "oom"
            || !text[..*at].ends_with(is_part) && !text[at + words.len()..].starts_with(is_part)
    })
}

/// The activity nearest to the trouble; one that follows it is more likely meant.
fn activity(sentence: &str, trouble: usize) -> Option<PhaseName> {
    const FAR: usize = 160;
    let mut found: Vec<(usize, usize, PhaseName)> = Vec::new(); // start, end
    for (words, phase) in ACTIVITIES {
        for (start, _) in sentence.match_indices(words) {
            let end = start + words.len();
            // `eval_steps` and `save_total_limit` are keys.
            let is_key =
                sentence[end..].starts_with('_') || sentence[..start].ends_with(['_', '-']);
            // `without torch.compile`
            let is_denied =
                ["without ", "not use ", "not using ", "no ", "doesn't use ", "don't use "]
                    .iter()
                    .any(|no| sentence[..start].ends_with(no));
            if !is_key && !is_denied {
                found.push((start, end, *phase));
            }
        }
    }
    let is_inside = |a: &(usize, usize, PhaseName), b: &(usize, usize, PhaseName)| {
        a.0 < b.1 && b.0 < a.1 && b.1 - b.0 > a.1 - a.0
    };
    found.retain({
        let all = found.clone();
        move |own| !all.iter().any(|other| is_inside(own, other))
    });
    // `保存模型时`, `保存時に`: the words for "when" name the moment. Training has many.
    let is_moment = |(_, end, phase): &(usize, usize, PhaseName)| {
        let clause =
            sentence[*end..].split(['，', ',', '、', '。', ' ']).next().unwrap_or_default();
        *phase != PhaseName::Unknown && clause.chars().take(14).any(|c| c == '时' || c == '時')
    };
    if found.iter().any(is_moment) {
        found.retain(is_moment);
    }
    let whole = found.iter();
    let distance = |start: usize| match start.checked_sub(trouble) {
        Some(after) => after,
        None => (trouble - start) * 3 / 2,
    };
    let nearest = whole.map(|(start, _, phase)| (distance(*start), *phase));
    let best = nearest.filter(|(far, _)| *far <= FAR).min_by_key(|(far, _)| *far)?;
    // The model of a resumed run is loaded, too.
    let resumes = best.1 == PhaseName::Load && sentence.contains("resum");
    Some(if resumes { PhaseName::Resume } else { best.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Situation {
        let mut situation = Situation::default();
        text.lines().for_each(|line| situation.push(&line.to_lowercase()));
        situation
    }

    #[test]
    fn the_activity_next_to_the_trouble_counts() {
        for (text, phase) in [
            (
                "Training goes well but I get CUDA OOM when saving the final checkpoint",
                PhaseName::Save,
            ),
            ("CUDA out of memory when resuming training", PhaseName::Resume),
            ("It trains fine, but runs out of memory during validation", PhaseName::Evaluate),
            ("OOM with gradient checkpointing", PhaseName::Unknown),
            ("训练正常，保存模型时显存不足", PhaseName::Save),
            ("検証の途中でメモリ不足になります", PhaseName::Evaluate),
            ("CUDA out of memory while loading checkpoint shards", PhaseName::Load),
            ("I see OOM in training", PhaseName::Unknown),
            ("OOM because the recipe does not use torch.compile in training", PhaseName::Unknown),
            ("保存模型时 CPU 内存暴涨，导致 OOM（4 卡训练）", PhaseName::Save),
            ("CUDA OOM while the model is being loaded", PhaseName::Load),
        ] {
            assert_eq!(read(text).activity, Some(phase), "{text}");
        }
        assert_eq!(read("We evaluate every 100 steps and save the model.").activity, None);
    }

    #[test]
    fn topics_are_found_anywhere() {
        let situation = read("Trainer runs OOM\nit happens if compute_metrics is given");
        assert_eq!(situation.topics, [Topic::Predictions]);
    }
}
