//! Settings in the log of any stack: model names, batch and sequence sizes, memory tables.

use fitgpt_model::published::{self, Published};

use super::{
    command::QuotedCommand, hardware::CardNames, method::Method, situation::Situation,
    size::PrintedSize,
};

/// The settings; the last value wins unless noted otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Published models that the log names, and how often.
    pub(crate) models: Vec<(&'static Published, u32)>,
    /// Number of parameters, if the log prints it.
    pub(crate) parameters: Option<u64>,
    /// Sequences or images per micro-batch.
    pub(crate) batch: Option<u64>,
    /// Sequences or images per evaluation batch.
    pub(crate) eval_batch: Option<u64>,
    /// Micro-batches per step.
    pub(crate) accumulation: Option<u64>,
    /// Tokens per sequence.
    pub(crate) seq: Option<u64>,
    /// Batch size and length that a user writes as `4x2048`.
    pub(crate) batch_by_seq: Option<[u64; 2]>,
    /// Parameters that are trained, if the log prints them (adapters).
    pub(crate) trainable: Option<u64>,
    /// The optimizer.
    pub(crate) optimizer: Option<LoggedOptimizer>,
    /// Number of ranks.
    pub(crate) world: Option<u64>,
    /// The inputs of XLA's program: weights and other state.
    pub(crate) xla_arguments: Option<PrintedSize>,
    /// PyTorch's version: major and minor.
    pub(crate) torch: Option<[u32; 2]>,
    /// What the user says about the failure.
    pub(crate) situation: Situation,
    /// Cards that the text names.
    pub(crate) cards: CardNames,
    /// How the model is trained.
    pub(crate) method: Method,
    /// The command line that the user quotes.
    pub(crate) command: QuotedCommand,
    /// Rows of the embedding, if the log prints it.
    pub(crate) vocab: Option<u64>,
    /// Width of the residual stream, if the log prints it.
    pub(crate) width: Option<u64>,
    /// Whether checkpoint shards are still being loaded.
    pub(crate) is_loading_shards: bool,
    /// Layers, if the log prints them.
    pub(crate) layers: Option<u64>,
    /// How many steps or epochs ran before the failure, if the user says so.
    pub(crate) fails_after: Option<u64>,
    /// Fraction of the card that a server was configured to use, in thousandths.
    pub(crate) utilization_thousandths: Option<u64>,
    /// Size of the loaded weights.
    pub(crate) weights: Option<PrintedSize>,
    /// Size of the KV cache.
    pub(crate) kv_cache: Option<PrintedSize>,
    /// XLA's total allocation.
    pub(crate) xla_total: Option<PrintedSize>,
    /// `torch.cuda.memory_summary()`: allocated and reserved.
    pub(crate) summary: [Option<PrintedSize>; 2],
    /// `nvidia-smi`: used and total memory of the first card.
    pub(crate) smi: Option<[u64; 2]>,
    /// `nvidia-smi`: processes and their memory.
    pub(crate) smi_processes: Vec<CardProcess>,
    /// The kernel's OOM killer: the process and its resident memory.
    pub(crate) killed: Option<(String, u64)>,
    seen: Vec<(String, Option<&'static Published>)>, // cache of name lookups
}

/// `after 74 epochs`, `after about 300 iterations`.
fn fails_after(lower: &str) -> Option<u64> {
    let troubles = ["memory", "oom", "error", "crash", "fail", "kill"];
    if troubles.iter().all(|word| !lower.contains(word)) {
        return None;
    }
    let units = ["epoch", "iter", "step", "batch", "hour", "generation", "image", "request"];
    lower.match_indices("after ").find_map(|(at, word)| {
        let rest = lower[at + word.len()..].trim_start_matches("running ");
        let rest = ["about ", "around ", "approximately ", "roughly ", "~"]
            .iter()
            .find_map(|w| rest.strip_prefix(w))
            .unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].trim_start_matches(['k', '+', ' ']);
        (count > 1 && units.iter().any(|name| unit.starts_with(name))).then_some(count)
    })
}

/// A name from its family on: `mlc-chat-Llama-2-7b` is a Llama.
fn family_of(name: &str) -> &str {
    let lower = name.to_ascii_lowercase();
    let start = FAMILIES.iter().filter_map(|family| lower.find(family)).min();
    &name[start.unwrap_or(0)..]
}

/// An optimizer, by the size of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedOptimizer {
    /// Adam or AdamW.
    Adam,
    /// Adam with 8-bit moments.
    EightBitAdam,
    /// Adafactor.
    Adafactor,
    /// SGD.
    Sgd,
}

/// Names of optimizers in lower case; the first match of a line counts.
const OPTIMIZERS: [(&str, LoggedOptimizer); 12] = [
    ("bitsandbytes/optim", LoggedOptimizer::EightBitAdam), // a path in a traceback
    ("adamw_bnb_8bit", LoggedOptimizer::EightBitAdam),
    ("adamw_8bit", LoggedOptimizer::EightBitAdam),
    ("adamw8bit", LoggedOptimizer::EightBitAdam),
    ("adam8bit", LoggedOptimizer::EightBitAdam),
    ("adafactor", LoggedOptimizer::Adafactor),
    ("adamw_torch", LoggedOptimizer::Adam),
    ("adamw(", LoggedOptimizer::Adam),
    ("adamw", LoggedOptimizer::Adam),
    ("optim.adam", LoggedOptimizer::Adam),
    ("fusedadam", LoggedOptimizer::Adam),
    ("optim.sgd", LoggedOptimizer::Sgd),
];

/// A process on the card.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CardProcess {
    /// Process id.
    pub pid: u64,
    /// Its name, if printed.
    pub name: Option<String>,
    /// Its memory.
    pub bytes: u64,
}

/// Maximum number of models and processes to keep.
const MOST: usize = 64;

/// A word is looked up as a model name if it contains one of these.
const FAMILIES: [&str; 18] = [
    "gpt", "llama", "mistral", "mixtral", "qwen", "gemma", "phi", "opt-", "pythia", "smollm", "t5",
    "bert", "falcon", "bloom", "yi-", "deepseek", "vicuna", "alpaca",
];

/// The field that a key sets.
type Field = fn(&mut Setup) -> &mut Option<u64>;

/// Keys of all stacks, in lower case.
const KEYS: [(&str, Field); 44] = [
    ("hidden_size", |s| &mut s.width),
    ("n_embd", |s| &mut s.width),
    ("dim", |s| &mut s.width),
    ("model_dim", |s| &mut s.width),
    ("n_layers", |s| &mut s.layers),
    ("num_hidden_layers", |s| &mut s.layers),
    ("vocab_size", |s| &mut s.vocab),
    ("vocab size", |s| &mut s.vocab),
    ("padded vocab size", |s| &mut s.vocab),
    ("num_layers", |s| &mut s.layers),
    ("device-batch-size", |s| &mut s.batch),
    ("nproc_per_node", |s| &mut s.world),
    ("nproc-per-node", |s| &mut s.world),
    ("num_gpus", |s| &mut s.world),
    ("num_processes", |s| &mut s.world),
    ("world_size", |s| &mut s.world),
    ("num processes", |s| &mut s.world),
    ("batch size per device", |s| &mut s.batch),
    ("per_device_train_batch_size", |s| &mut s.batch),
    ("per_gpu_train_batch_size", |s| &mut s.batch),
    ("train_micro_batch_size_per_gpu", |s| &mut s.batch),
    ("instantaneous batch size per device", |s| &mut s.batch),
    ("micro_batch_size", |s| &mut s.batch),
    ("device_batch_size", |s| &mut s.batch),
    ("train_batch_size", |s| &mut s.batch),
    ("per_device_eval_batch_size", |s| &mut s.eval_batch),
    ("eval_batch_size", |s| &mut s.eval_batch),
    ("batch_size", |s| &mut s.batch),
    ("batch-size", |s| &mut s.batch),
    ("batchsize", |s| &mut s.batch),
    ("gradient_accumulation_steps", |s| &mut s.accumulation),
    ("gradient accumulation steps", |s| &mut s.accumulation),
    ("accumulate_grad_batches", |s| &mut s.accumulation),
    ("max_seq_length", |s| &mut s.seq),
    ("model_max_length", |s| &mut s.seq),
    ("max_source_length", |s| &mut s.seq),
    ("max_prompt_length", |s| &mut s.seq),
    ("max_length", |s| &mut s.seq),
    ("max_seq_len", |s| &mut s.seq),
    ("sequence_len", |s| &mut s.seq),
    ("cutoff_len", |s| &mut s.seq),
    ("block_size", |s| &mut s.seq),
    ("seq_length", |s| &mut s.seq),
    ("n_ctx", |s| &mut s.seq),
];

impl Setup {
    /// Reads a line; `lower` is the same in lower case.
    pub(super) fn push(&mut self, line: &str, lower: &str) {
        self.names(line, lower);
        self.command.push(line);
        self.situation.push(lower);
        self.cards.push(lower);
        self.method.push(lower);
        let optimizer = OPTIMIZERS.iter().find(|(name, _)| lower.contains(name));
        self.optimizer = optimizer.map(|(_, optimizer)| *optimizer).or(self.optimizer);
        if !lower.bytes().any(|c| c.is_ascii_digit()) {
            return;
        }
        self.batch_by_seq = batch_by_seq(lower).or(self.batch_by_seq);
        if let Some([batch, seq]) = self.batch_by_seq
            && self.batch.is_none()
            && self.seq.is_none()
        {
            (self.batch, self.seq) = (Some(batch), Some(seq));
        }
        for (key, place) in KEYS {
            for (at, _) in lower.match_indices(key) {
                // `eval_batch_size` contains `batch_size`.
                let is_whole =
                    !lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                if let Some(value) = value_after(&lower[at + key.len()..]).filter(|_| is_whole) {
                    *place(self) = Some(value);
                }
            }
        }
        if let Some((_, rest)) = lower.split_once("loading checkpoint shards:") {
            self.is_loading_shards = !rest.trim_start().starts_with("100%");
        }
        self.fails_after = fails_after(lower).or(self.fails_after);
        self.parameters_of(lower);
        self.versions(lower);
        self.server(lower);
        self.tables(line, lower);
    }

    /// The model that is named most often; of equals the first.
    pub(crate) fn model(&self) -> Option<&'static Published> {
        let most = self.models.iter().map(|(_, count)| *count).max()?;
        self.models.iter().find(|(_, count)| *count == most).map(|(model, _)| *model)
    }

    fn names(&mut self, line: &str, lower: &str) {
        if FAMILIES.iter().all(|family| !lower.contains(family)) {
            return;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._/\\-".contains(c);
        let words: Vec<&str> =
            line.split(|c| !is_part(c)).filter(|w| !w.is_empty()).take(MOST * 4).collect();
        for (index, word) in words.iter().enumerate() {
            let word = word.trim_matches(['.', '-', '_', '\\']);
            let is_family = |word: &str| {
                let lower = word.to_ascii_lowercase();
                FAMILIES.iter().any(|family| lower.contains(family.trim_end_matches('-')))
            };
            if word.len() > 120 || !is_family(word) {
                continue;
            }
            // `Mistral 7B` and `Llama 2 7B` are names of two or three words.
            let next = |n: usize| {
                let word = words.get(index + n).copied().unwrap_or_default();
                word.trim_end_matches('.') // of a sentence
            };
            let joined = [
                word.to_owned(),
                format!("{word}-{}", next(1)),
                format!("{word}-{}-{}", next(1), next(2)),
            ];
            let is_size = |n: usize| {
                let number = next(n).trim_end_matches(['b', 'B', 'm', 'M']);
                number.len() < next(n).len() && number.parse::<f32>().is_ok()
            };
            let best = if is_size(2) && next(1).len() <= 3 {
                &joined[2]
            } else if is_size(1) {
                &joined[1]
            } else {
                &joined[0]
            };
            self.name(best);
        }
    }

    fn name(&mut self, name: &str) {
        // Any component of a path may be the name: `models/Llama-2-7b-hf/checkpoint-500`.
        for part in name.split(['/', '\\']).filter(|part| part.len() >= 3) {
            let known = self.seen.iter().find(|(seen, _)| seen == part).map(|(_, model)| *model);
            let model = match known {
                Some(model) => model,
                None if self.seen.len() >= MOST * 16 => return,
                None => {
                    let file = part.trim_end_matches(".gguf");
                    let model = match file.strip_suffix(".py") {
                        // `train_gpt2.py` can train other models, too.
                        Some(script) => published::find(script),
                        None => published::find(file).or_else(|| published::find(family_of(file))),
                    };
                    self.seen.push((part.to_owned(), model));
                    model
                }
            };
            let Some(model) = model else { continue };
            let is_full = self.models.len() >= MOST;
            match self.models.iter_mut().find(|(other, _)| other.id == model.id) {
                Some((_, count)) => *count = count.saturating_add(1),
                None if is_full => {}
                None => self.models.push((model, 1)),
            }
        }
    }

    /// `has 6738.415616 Million params`, `all params: 6,742,609,920`, `1.3B parameters`.
    fn parameters_of(&mut self, lower: &str) {
        for word in [
            "all params:",
            "number of trainable parameters =",
            "total parameters:",
            "total params:",
        ] {
            if let Some((_, rest)) = lower.split_once(word) {
                self.parameters = number(rest.trim_start()).or(self.parameters);
            }
        }
        for word in
            ["trainable params:", "number of trainable parameters =", "trainable parameters ="]
        {
            if let Some((_, rest)) = lower.split_once(word) {
                self.trainable = number(rest.trim_start()).or(self.trainable);
                // Unsloth: `Trainable parameters = 41,943,040 of 8,072,204,288`.
                let of = rest.split_once(" of ").and_then(|(_, rest)| number(rest.trim_start()));
                self.parameters = of.or(self.parameters);
            }
        }
        if let Some((before, _)) = lower.split_once(" million params") {
            let word = before.rsplit(' ').next().unwrap_or_default();
            let millions: Option<f64> = word.parse().ok();
            let count =
                millions.filter(|m| (0.001..1e7).contains(m)).map(|m| (m * 1e6).round() as u64);
            self.parameters = count.or(self.parameters);
        }
    }

    /// `torch 2.2.1`, `PyTorch version: 2.1.0`, `torch==2.0.1+cu117`.
    fn versions(&mut self, lower: &str) {
        for (at, word) in lower.match_indices("torch") {
            let rest = lower[at + word.len()..].trim_start_matches([' ', '=', ':', '(']);
            let rest = rest.strip_prefix("version").or(rest.strip_prefix('v')).unwrap_or(rest);
            let rest = rest.trim_start_matches([' ', '=', ':', '(', 'g', 'p', 'u', '?', ')']);
            let mut parts = rest.split(|c: char| !c.is_ascii_digit());
            let pair = (parts.next().map(str::parse::<u32>), parts.next().map(str::parse::<u32>));
            if let (Some(Ok(major)), Some(Ok(minor))) = pair
                && (major == 0 || major == 1 || major == 2)
                && minor < 100
                && rest[1..].starts_with('.')
            {
                self.torch = Some([major, minor]);
            }
        }
    }

    /// Start-up output of servers.
    fn server(&mut self, lower: &str) {
        for key in [
            "gpu_memory_utilization",
            "gpu-memory-utilization",
            "mem_fraction_static",
            "mem-fraction-static",
        ] {
            let Some((_, rest)) = lower.split_once(key) else { continue };
            let rest = rest.trim_start_matches([' ', '=', ':', '(', '"', '\'', ',']);
            let digits = rest.bytes().take_while(|c| c.is_ascii_digit() || *c == b'.').count();
            let share: Option<f64> = rest[..digits].trim_end_matches('.').parse().ok();
            let share = share.filter(|share| (0.01..=1.0).contains(share));
            let thousandths = share.map(|share| (share * 1000.0).round() as u64);
            self.utilization_thousandths = thousandths.or(self.utilization_thousandths);
        }
        let squeezed: String = lower.chars().filter(|c| !c.is_whitespace()).take(400).collect();
        let after = |words: &str| {
            let (_, rest) = squeezed.split_once(words)?;
            PrintedSize::at_start(rest.trim_start_matches(['=', ':'])).map(|(size, _)| size)
        };
        let weights = [
            "loadingmodelweightstook",
            "modelloadingtook",
            "modelweightstake",
            "loadingweightstook",
        ];
        let weights = weights.iter().find_map(|words| after(words));
        self.weights = weights.or(self.weights);
        let is_model = squeezed.contains("load_tensors:") && squeezed.contains("cuda");
        if is_model && let Some(size) = after("buffersize") {
            self.weights = Some(size);
        }
        let cache = ["kvselfsize", "kvbuffersize", "kvcachesize", "reservedforkvcacheis"];
        self.kv_cache = cache.iter().find_map(|words| after(words)).or(self.kv_cache);
        self.xla_total = after("totalallocation:").or(self.xla_total);
        // XLA prints `arguments 15.90G` and means GiB.
        if let Some(size) =
            squeezed.strip_prefix("arguments").and_then(|rest| rest.strip_suffix('g'))
        {
            let size = PrintedSize::at_start(&format!("{size}gib")).map(|(size, _)| size);
            self.xla_arguments = size.or(self.xla_arguments);
        }
    }

    /// Tables of `memory_summary()` and `nvidia-smi`, and the line of the OOM killer.
    fn tables(&mut self, line: &str, lower: &str) {
        let cells: Vec<&str> =
            lower.split('|').map(str::trim).filter(|c| !c.is_empty()).take(8).collect();
        if cells.len() >= 4 {
            let size = || {
                let text: String = cells[1].chars().filter(|c| !c.is_whitespace()).collect();
                PrintedSize::at_start(&text).map(|(size, _)| size)
            };
            match cells[0] {
                "allocated memory" => self.summary[0] = size().or(self.summary[0]),
                "gpu reserved memory" => self.summary[1] = size().or(self.summary[1]),
                _ => {}
            }
        }
        if let Some((used, rest)) = lower.split_once("mib /") {
            let used = used.rsplit([' ', '|']).next().and_then(|n| n.parse::<u64>().ok());
            let total = rest.split_once("mib").and_then(|(n, _)| n.trim().parse::<u64>().ok());
            if let (Some(used), Some(total), None) = (used, total, self.smi) {
                let bytes = |mib: u64| mib.min(1 << 40) << 20;
                self.smi = Some([bytes(used), bytes(total)]);
            }
        }
        let words: Vec<&str> =
            line.trim_end_matches(['|', ' ']).split_whitespace().take(16).collect();
        if let [.., last] = words.as_slice()
            && let Some(mib) = last.strip_suffix("MiB").and_then(|n| n.parse::<u64>().ok())
            && let Some(at) = words.iter().position(|w| matches!(*w, "C" | "G" | "C+G"))
            && let Some(Ok(pid)) = at.checked_sub(1).map(|i| words[i].parse())
            && self.smi_processes.len() < MOST
        {
            let name = words.get(at + 1).filter(|name| *name != last).map(|n| (*n).to_owned());
            self.smi_processes.push(CardProcess { pid, name, bytes: mib.min(1 << 40) << 20 });
        }
        if let Some((before, rest)) = lower.split_once("anon-rss:") {
            let kib = rest.split_once("kb").and_then(|(n, _)| n.trim().parse::<u64>().ok());
            let name = before.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            if let (Some(kib), Some((name, _))) = (kib, name) {
                self.killed = Some((name.chars().take(40).collect(), kib.min(1 << 50) << 10));
            }
        }
    }
}

/// `4x2048`, `4 x 2048` or `4×2048`: batch size and sequence length in prose. A line counts only if
/// it mentions one of them, since cards (`2x3090`) and images (`1024x1024`) look alike.
fn batch_by_seq(lower: &str) -> Option<[u64; 2]> {
    const WORDS: [&str; 8] = ["batch", "block", "seq", "context", "token", "bsz", "accum", "micro"];
    if WORDS.iter().all(|word| !lower.contains(word)) {
        return None;
    }
    for (at, mark) in lower.match_indices(['x', '×', '*']) {
        let before = lower[..at].trim_end();
        let after = lower[at + mark.len()..].trim_start();
        let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._-x×*".contains(c);
        let head = &before[..before.len() - digits];
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        // `8x7b` is a model, `4x2048x768` a shape.
        if digits == 0 || length == 0 || head.ends_with(is_word) {
            continue;
        }
        if after[length..].trim_start().starts_with(|c: char| is_word(c) && c != '.') {
            let next = after[length..].trim_start();
            if !after[length..].starts_with(' ') || next.starts_with(['x', '×', '*']) {
                continue;
            }
        }
        let (Ok(batch), Ok(seq)) =
            (before[before.len() - digits..].parse(), after[..length].parse())
        else {
            continue;
        };
        let pair: [u64; 2] = [batch, seq];
        if (1..=512).contains(&pair[0])
            && (128..=1 << 20).contains(&pair[1])
            && pair[1].is_multiple_of(128)
        {
            return Some(pair);
        }
    }
    None
}

/// The number after a key: `=8`, `: 8`, `", "8"`, `', '64`, ` 8`.
fn value_after(rest: &str) -> Option<u64> {
    const LARGEST: u64 = 1 << 24;
    let rest = rest.trim_start_matches(['"', '\'', '`']);
    let rest =
        rest.trim_start_matches([' ', '=', ':', ',', '.']).trim_start_matches(['"', '\'', '(']);
    let value = number(rest.trim_start())?;
    (value > 0 && value < LARGEST).then_some(value)
}

/// An integer, possibly grouped by commas.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(|c| c.is_ascii_digit() || *c == b',').count();
    let text = text[..digits].trim_end_matches(',');
    // `1,2` is a list; groups have three digits.
    let mut groups = text.split(',').skip(1);
    if groups.any(|group| group.len() != 3) {
        return text.split(',').next()?.parse().ok();
    }
    text.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Setup {
        let mut setup = Setup::default();
        text.lines().for_each(|line| setup.push(line.trim(), &line.trim().to_lowercase()));
        setup
    }

    #[test]
    fn models_are_found_in_commands_paths_and_prose() {
        for (text, id) in [
            ("--model_name_or_path ./llama-7b-hf --bf16 True", "huggyllama/llama-7b"),
            ("finetuning Mistral 7B on one card", "mistralai/Mistral-7B-v0.1"),
            ("path = '/mnt/model/Llama-2-70b-hf/checkpoint-3'", "meta-llama/Llama-2-70b-hf"),
            ("I load Llama 2 7B here", "meta-llama/Llama-2-7b-hf"),
            ("GPT2LMHeadModel.from_pretrained('gpt2-large')", "gpt2-large"),
            ("It fails while finetuning Mistral 7B. The card is new.", "mistralai/Mistral-7B-v0.1"),
        ] {
            assert_eq!(read(text).model().map(|model| model.id), Some(id), "{text}");
        }
        assert_eq!(read("modeling_llama.py, train_gpt2.py").model(), None);
    }

    #[test]
    fn settings_of_several_stacks_are_read() {
        let setup = read(
            "['--per_device_train_batch_size', '64', '--max_length', '2048']\n\
             gradient_accumulation_steps: 4\nper_device_eval_batch_size=8\n\
             trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.06",
        );
        assert_eq!((setup.batch, setup.seq), (Some(64), Some(2048)));
        assert_eq!((setup.accumulation, setup.eval_batch), (Some(4), Some(8)));
        assert_eq!(setup.parameters, Some(6_742_609_920));
        assert_eq!(
            read("--> llama has 6738.415616 Million params").parameters,
            Some(6_738_415_616)
        );
        assert_eq!(read("torch==2.0.1+cu117").torch, Some([2, 0]));
        assert_eq!(read("PyTorch version: 1.13.1").torch, Some([1, 13]));
    }

    #[test]
    fn a_batch_written_as_a_product_is_read() {
        for (text, expected) in [
            ("OOM at batch 4x2048 on a 3090", Some([4, 2048])),
            ("I use 8 × 1024 tokens per step", Some([8, 1024])),
            ("batch size 2 x 512, gradient accumulation 8", Some([2, 512])),
            ("my 2x3090 box, batch_size=4", None),
            ("context of Mixtral 8x7B", None),
            ("batch of 1024x1024 images", None),
            ("tokens tensor 4x2048x768", None),
            ("4x2048", None),
        ] {
            assert_eq!(read(text).batch_by_seq, expected, "{text}");
        }
        // A key is more reliable than prose.
        assert_eq!(read("batch 4x2048\nper_device_train_batch_size: 2").batch, Some(2));
    }

    #[test]
    fn optimizers_ranks_and_adapters_are_read() {
        assert_eq!(read("--optim adamw_bnb_8bit").optimizer, Some(LoggedOptimizer::EightBitAdam));
        assert_eq!(
            read("optimizer = AdamW(model.parameters())").optimizer,
            Some(LoggedOptimizer::Adam)
        );
        assert_eq!(read("torchrun --nproc_per_node=4 tune.py").world, Some(4));
        let unsloth = read("Trainable parameters = 41,943,040 of 8,072,204,288 (0.52% trained)");
        assert_eq!(unsloth.trainable, Some(41_943_040));
        assert_eq!(unsloth.parameters, Some(8_072_204_288));
    }

    #[test]
    fn memory_tables_are_read() {
        let setup = read(
            "|  0  N/A  N/A     2208      C   python                10553MiB |\n\
             | 45%   60C    P2   200W / 250W |  11019MiB / 11264MiB |     99%      Default |\n\
             | Allocated memory      |   9216 MiB |   9216 MiB |  30165 GiB |  30142 GiB |\n\
             | GPU reserved memory   |  10240 MiB |  10240 MiB |  10240 MiB |      0 B   |\n\
             Out of memory: Killed process 629 (onmt_train) total-vm:14119556kB, anon-rss:6538204kB",
        );
        assert_eq!(setup.smi_processes[0].pid, 2208);
        assert_eq!(setup.smi, Some([11019 << 20, 11264 << 20]));
        assert_eq!(setup.summary[0].map(|size| size.bytes), Some(9 << 30));
        assert_eq!(setup.killed, Some(("onmt_train".to_owned(), 6_538_204 << 10)));
    }

    #[test]
    fn server_output_is_read() {
        let setup = read(
            "can use total_gpu_memory (44.53GiB) x gpu_memory_utilization (0.98) = 43.64GiB\nLoading model weights took 15.2075 GB",
        );
        assert_eq!(setup.utilization_thousandths, Some(980));
        assert!(setup.weights.is_some());
    }
}
