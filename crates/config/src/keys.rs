//! Every key of a config, in one table.
//!
//! The command line's arguments, completions and help, a resolved [`Config`](super::Config)
//! and its JSON are all generated from it.

use std::borrow::Cow;

use fitgpt_program::{AdjustLr, Gelu};

use super::{
    choice::{DeviceChoice, Family, GradCheckpoint, InitFrom, RopeSetting},
    key::{Key, KeyGroup, ValueRange},
    limits::{CHANNELS, HEADS, LAYERS, POSITIONS, SEQUENCES, VOCABULARY},
    optimizer::{MuonCoefficients, MuonDtype, OptimizerChoice},
    setting::{
        BiasChoice, Budget, Dtype, Inherited, InheritedReal, OriginChoice, ProductsChoice, Setting,
    },
    value::ConfigValue,
};

/// Any value of the key's kind.
const ANY: ValueRange = ValueRange::Any;
/// A count of at least 1.
const SIZE: ValueRange = ValueRange::Whole { min: 1, max: u32::MAX as i64 };
/// A count whose 0 has a special meaning.
const COUNT: ValueRange = ValueRange::Whole { min: 0, max: u32::MAX as i64 };
/// Threads of the CPU. The limit is above any machine's cores; starting far more hangs it.
const THREADS: ValueRange = ValueRange::Whole { min: 0, max: 1024 };
/// Newton-Schulz iterations; `torch.optim.Muon` refuses 100 too.
const ITERATIONS: ValueRange = ValueRange::Whole { min: 1, max: 99 };
/// A number of steps, at least 1.
const INTERVAL: ValueRange = ValueRange::Whole { min: 1, max: i64::MAX };
/// A number of steps, or a seed.
const NUMBER: ValueRange = ValueRange::Whole { min: 0, max: i64::MAX };
const NOT_NEGATIVE: ValueRange = ValueRange::NotNegative;
const POSITIVE: ValueRange = ValueRange::Positive;
const BELOW_ONE: ValueRange = ValueRange::BelowOne;
const SHARE: ValueRange = ValueRange::Share;
const NOT_EMPTY: ValueRange = ValueRange::NotEmpty;

const fn int(value: i64) -> ConfigValue {
    ConfigValue::Int(value)
}

const fn float(value: f64) -> ConfigValue {
    ConfigValue::Float(value)
}

const fn boolean(value: bool) -> ConfigValue {
    ConfigValue::Bool(value)
}

const fn text(value: &'static str) -> ConfigValue {
    ConfigValue::Str(Cow::Borrowed(value))
}

/// The table: group, name, the type it resolves to, default, range, help. In the help, `{choices}` is
/// the list of the type's names. Passes its rows to the macro `$then`.
macro_rules! key_table {
    ($then:ident) => {
        $then! {
            NanoGpt out_dir: String = text("out"), NOT_EMPTY,
                "Write checkpoints and events to this folder";
            NanoGpt eval_interval: u64 = int(2000), INTERVAL,
                "Evaluate every N steps";
            NanoGpt log_interval: u64 = int(1), INTERVAL,
                "Log every N steps";
            NanoGpt eval_iters: u32 = int(200), SIZE,
                "Average an evaluation over N batches of each split";
            NanoGpt eval_only: bool = boolean(false), ANY,
                "Evaluate once and stop";
            NanoGpt always_save_checkpoint: bool = boolean(true), ANY,
                "Save at every evaluation; False: additionally keep the weights with the best validation loss, in `best/`";
            NanoGpt init_from: InitFrom = text("scratch"), ANY,
                "Start from 'scratch', 'resume' (the run in out_dir), a pretrained GPT-2 ('gpt2', 'gpt2-medium', 'gpt2-large', 'gpt2-xl'), or a folder with config.json and model.safetensors";
            Ignored wandb_log: bool = boolean(false), ANY,
                "Log to Weights & Biases in nanoGPT; FitGPT does not";
            Ignored wandb_project: String = text("owt"), ANY,
                "Name the project at Weights & Biases in nanoGPT";
            Ignored wandb_run_name: String = text("gpt2"), ANY,
                "Name the run at Weights & Biases in nanoGPT";
            NanoGpt dataset: String = text("openwebtext"), NOT_EMPTY,
                "Train on this dataset: a name under `data/`, or a path";
            NanoGpt gradient_accumulation_steps: u32 = int(40), SIZE,
                "Add up the gradients of N micro-batches for a step";
            NanoGpt batch_size: u32 = int(12), SEQUENCES.at_least_one(),
                "Put N sequences in a micro-batch";
            NanoGpt block_size: u32 = int(1024), POSITIONS.at_least_one(),
                "Train on sequences of N tokens; the model has that many positions";
            NanoGpt n_layer: u32 = int(12), LAYERS.at_least_one(),
                "Build the model of N transformer blocks";
            NanoGpt n_head: u32 = int(12), HEADS.at_least_one(),
                "Give every block N attention heads";
            NanoGpt n_embd: u32 = int(768), CHANNELS.at_least_one(),
                "Use N channels between the blocks; a multiple of n_head";
            NanoGpt dropout: f64 = float(0.0), BELOW_ONE,
                "Drop this share of the activations while training";
            NanoGpt bias: bool = boolean(false), ANY,
                "Add biases to linear layers and normalisations";
            NanoGpt learning_rate: f64 = float(6e-4), NOT_NEGATIVE,
                "Train with this learning rate after the warm-up; it decays to min_lr";
            NanoGpt max_iters: u64 = int(600_000), NUMBER,
                "Stop after step N; steps count from 0";
            NanoGpt weight_decay: f64 = float(0.1), NOT_NEGATIVE,
                "Let weights with two or more dimensions decay by this share of the learning rate";
            NanoGpt beta1: f64 = float(0.9), BELOW_ONE,
                "Average gradients over about 1 / (1 - X) steps";
            NanoGpt beta2: f64 = float(0.95), BELOW_ONE,
                "Average squared gradients over about 1 / (1 - X) steps";
            NanoGpt grad_clip: f64 = float(1.0), NOT_NEGATIVE,
                "Scale gradients down to this norm if theirs is larger; 0: never";
            NanoGpt decay_lr: bool = boolean(true), ANY,
                "Warm up and decay the learning rate; False: keep it constant";
            NanoGpt warmup_iters: u64 = int(2000), NUMBER,
                "Raise the learning rate linearly during the first N steps";
            NanoGpt lr_decay_iters: u64 = int(600_000), NUMBER,
                "Let the learning rate reach min_lr at step N";
            NanoGpt min_lr: f64 = float(6e-5), NOT_NEGATIVE,
                "Let the learning rate decay to this value";
            Ignored backend: String = text("nccl"), ANY,
                "Choose how GPUs communicate in nanoGPT";
            NanoGpt device: DeviceChoice = text("auto"), ANY,
                "Run on 'auto' (the best GPU, else the CPU), 'cpu', 'gpu', 'cuda', 'vulkan', 'metal' or 'mps'; 'cuda:1' is the second card";
            NanoGpt dtype: Dtype = ConfigValue::None, ANY,
                "Store activations as 'float32', 'bfloat16' or 'float16'; unset: as the device does best";
            Ignored compile: bool = boolean(true), ANY,
                "Plan PyTorch with torch.compile (`--engine torch`); FitGPT ignores it";

            FitGpt family: Family = text("gpt2"), ANY,
                "Build a model of this family: {choices}";
            FitGpt n_kv_head: Inherited = int(0), HEADS.at_least_zero(),
                "Share N heads of keys and values among the n_head heads of queries; 0: n_head";
            FitGpt head_dim: Inherited = int(0), CHANNELS.at_least_zero(),
                "Give every head N channels; 0: n_embd / n_head";
            FitGpt ffn_dim: Inherited = int(0), CHANNELS.at_least_zero(),
                "Make the MLP N channels wide inside; 0: 4 n_embd in GPT-2, 8/3 n_embd rounded up to 256 in the others";
            FitGpt rope_theta: f64 = float(10_000.0), POSITIVE,
                "Set the base of the rotary positions; larger for longer contexts";
            FitGpt rope_scaling: RopeSetting = text(""), ANY,
                "Stretch rotary positions for longer contexts: '' (no), 'linear(FACTOR)' or 'llama3(FACTOR, LOW, HIGH, POSITIONS)'";
            FitGpt norm_eps: InheritedReal = float(0.0), NOT_NEGATIVE,
                "Add this to the variance in normalisations; 0: the family's, 1e-5 or 1e-6";
            FitGpt tie_embeddings: bool = boolean(true), ANY,
                "Use the token embedding as the output layer too; False: train a second matrix";
            FitGpt attention_bias: BiasChoice = ConfigValue::None, ANY,
                "Add biases to the attention's projections: 'none', 'qkv' or 'all'; unset: as the family does";
            FitGpt mlp_bias: bool = boolean(false), ANY,
                "Add biases to a Llama's MLP";

            FitGpt optimizer: OptimizerChoice = text("adamw"), ANY,
                "Train with {choices}";
            FitGpt muon_learning_rate: InheritedReal = float(0.0), NOT_NEGATIVE,
                "Train Muon's matrices with this learning rate, scheduled as learning_rate is; 0: 0.02, or learning_rate with muon_adjust_lr='match_rms_adamw'";
            FitGpt muon_adjust_lr: AdjustLr = text("original"), ANY,
                "Scale Muon's learning rate by a matrix's shape: 'original', 'match_rms_adamw' or 'spectral_unclamped'";
            FitGpt muon_momentum: f64 = float(0.95), BELOW_ONE,
                "Average Muon's gradients over about 1 / (1 - X) steps";
            FitGpt muon_nesterov: bool = boolean(true), ANY,
                "Use Nesterov momentum in Muon";
            FitGpt muon_ns_steps: u32 = int(5), ITERATIONS,
                "Run N Newton-Schulz iterations in a Muon update";
            FitGpt muon_ns_coefficients: MuonCoefficients = text("3.4445, -4.775, 2.0315"), ANY,
                "Set the coefficients of Muon's Newton-Schulz iteration";
            FitGpt muon_eps: f64 = float(1e-7), POSITIVE,
                "Divide a Muon update by its norm or by this, whichever is larger";
            FitGpt muon_dtype: MuonDtype = text("bfloat16"), ANY,
                "Store Muon's Newton-Schulz iteration as 'bfloat16' or 'float32'";

            FitGpt eval_batch_size: Inherited = int(0), SEQUENCES.at_least_zero(),
                "Evaluate N sequences at a time; 0: batch_size";
            FitGpt eval_block_size: Inherited = int(0), POSITIONS.at_least_zero(),
                "Evaluate on sequences of N tokens; 0: block_size";
            FitGpt gelu: Gelu = text("exact"), ANY,
                "Compute GELU as nanoGPT does ('exact') or as OpenAI's GPT-2 does ('tanh')";
            FitGpt grad_checkpoint: GradCheckpoint = boolean(false), ANY,
                "Recompute activations in the backward pass: False: none, True: every block, 'auto': the cheapest mix that fits";
            FitGpt memory_budget: Budget = text(""), ANY,
                "Plan for this much memory, such as '12GB' or '11.5GiB'; '': for what the device has free";
            FitGpt loss_chunk_rows: u32 = int(0), COUNT,
                "Compute the logits of N tokens at a time; 0: a number chosen from the shapes";
            FitGpt matmul_dtype: ProductsChoice = ConfigValue::None, ANY,
                "Multiply these factors on a CPU with dtype='bfloat16': 'bfloat16' or 'float32'; unset: 'bfloat16' if the CPU has an instruction for it";
            FitGpt lanes: u32 = int(0), COUNT,
                "Sum the gradients of a step in N parts, then add the parts up in order: for equal N any number of ranks trains the same bits; 0: the number of ranks";
            FitGpt drop_stale_logits: bool = boolean(false), ANY,
                "Plan a patched nanoGPT that frees the logits of a batch after its loss; FitGPT always does";
            FitGpt loss_alone: bool = boolean(false), ANY,
                "Plan a patched nanoGPT whose forward returns no logits while training; FitGPT never keeps them";
            FitGpt vocab_size: u32 = int(0), VOCABULARY.at_least_zero(),
                "Use a vocabulary of N tokens; 0: the data's, else 50304";
            FitGpt seed: u64 = int(1337), NUMBER,
                "Draw all random numbers from this seed";
            FitGpt threads: u32 = int(0), THREADS,
                "Run on N threads of the CPU; 0: all";
            FitGpt resume_from: OriginChoice = ConfigValue::None, ANY,
                "Choose one of two checkpoints in out_dir: 'fitgpt' or 'nanogpt' (ckpt.pt); unset: FitGPT's, unless ckpt.pt is another than it began from";
            FitGpt new_vocabulary: bool = boolean(false), ANY,
                "Allow data whose tokens mean something else than those of the checkpoint, and take over its tokenizer";
            FitGpt sample_interval: u64 = int(0), NUMBER,
                "Write a sample to the log every N steps; 0: never";
            FitGpt keep_checkpoints: u32 = int(2), SIZE,
                "Keep the last N checkpoints; the best one stays in addition";

            Sampling start: String = text("\n"), ANY,
                "Continue this prompt, or the file PATH with 'FILE:PATH'";
            Sampling num_samples: u32 = int(10), SEQUENCES.at_least_one(),
                "Generate N texts";
            Sampling max_new_tokens: u32 = int(500), SIZE,
                "Generate N tokens in each text";
            Sampling temperature: f64 = float(0.8), NOT_NEGATIVE,
                "Favour likely tokens (below 1) or rarer ones (above 1); 0: always take the most likely";
            Sampling top_k: u32 = int(200), COUNT,
                "Draw from the N most likely tokens; 0: from all";
            Sampling top_p: f64 = float(1.0), SHARE,
                "Draw from the most likely tokens that make up this share of the probability";
        }
    };
}
pub(super) use key_table;

macro_rules! keys {
    ($($group:ident $name:ident: $type:ident = $default:expr, $range:expr, $help:literal;)*) => {
        /// Every key: nanoGPT's in the order of its `train.py`, then ours, then sampling's.
        pub static KEYS: &[Key] = &[$(
            Key {
                name: stringify!($name),
                group: KeyGroup::$group,
                kind: <$type as Setting>::KIND,
                default: $default,
                range: $range,
                help: $help,
            },
        )*];
    };
}
key_table!(keys);

impl Key {
    /// The key of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The key that is most similar to `name`, if one is similar enough.
    pub fn nearest(name: &str) -> Option<&'static Self> {
        const LONGEST: usize = 64; // no key is longer than 32
        let name: Vec<char> = name.chars().take(LONGEST + 1).map(folded).collect();
        if name.len() > LONGEST {
            return None;
        }
        let near = KEYS.iter().map(|key| (distance(&name, key.name), key));
        let (distance, key) = near.min_by_key(|(distance, _)| *distance)?;
        (distance <= (name.len() / 3).max(1)).then_some(key)
    }

    /// Whether it is only a label, so that an unknown value does no harm.
    pub(crate) fn is_label(&self) -> bool {
        self.group == KeyGroup::Ignored || self.name == "out_dir"
    }

    /// Whether nanoGPT's `train.py` has it.
    pub fn is_nanogpt(&self) -> bool {
        matches!(self.group, KeyGroup::NanoGpt | KeyGroup::Ignored)
    }
}

/// `--Batch-Size` means `batch_size`.
fn folded(c: char) -> char {
    if c == '-' { '_' } else { c.to_ascii_lowercase() }
}

/// The edit distance: letters to insert, remove, replace or swap with their neighbour.
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let change = usize::from(from[i - 1] != to[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_the_33_keys_of_nanogpt_and_no_name_twice() {
        assert_eq!(KEYS.iter().filter(|key| key.is_nanogpt()).count(), 33);
        for (index, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..index].iter().all(|other| other.name != key.name), "{}", key.name);
            assert!(!key.help.is_empty() && !key.help.contains('\n'));
        }
    }

    #[test]
    fn every_default_is_in_its_range() {
        for key in KEYS {
            assert!(key.range.holds(&key.default), "{}", key.name);
        }
    }

    #[test]
    fn a_misspelled_key_finds_the_one_that_was_meant() {
        let table = [
            ("batchsize", Some("batch_size")),
            ("Batch-Size", Some("batch_size")),
            ("lr", None),
            ("learning_rat", Some("learning_rate")),
            ("n_haed", Some("n_head")),
            ("max_iter", Some("max_iters")),
            ("grad_checkpointing", Some("grad_checkpoint")),
            ("frobnicate", None),
            ("", None),
        ];
        for (written, meant) in table {
            assert_eq!(Key::nearest(written).map(|key| key.name), meant, "{written}");
        }
        assert_eq!(Key::nearest(&"x".repeat(100_000)), None);
    }
}
