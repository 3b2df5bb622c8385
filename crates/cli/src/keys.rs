//! Which config keys the help of a command shows, and under which heading.
//!
//! Every command accepts every key, because a config file may set it. The short help (`-h`) lists
//! the few that people change most, `--help` all that affect the command.

use clap::{Arg, ArgAction, Command};
use fitgpt_config::{KEYS, Key, KeyGroup, OptimizerChoice, ValueKind};

/// What a key is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    Data,
    Model,
    Memory,
    Optimizer,
    Evaluation,
    Sampling,
    Ignored,
}

impl Topic {
    fn of(key: &Key) -> Self {
        match (key.group, key.name) {
            (KeyGroup::Sampling, _) => Self::Sampling,
            // PyTorch's plans depend on it.
            (_, "compile") => Self::Memory,
            (KeyGroup::Ignored, _) => Self::Ignored,
            (
                _,
                "batch_size"
                | "gradient_accumulation_steps"
                | "grad_checkpoint"
                | "memory_budget"
                | "loss_chunk_rows"
                | "drop_stale_logits"
                | "loss_alone"
                | "dtype"
                | "matmul_dtype"
                | "device"
                | "threads"
                | "lanes",
            ) => Self::Memory,
            (
                _,
                "family" | "n_layer" | "n_head" | "n_embd" | "block_size" | "dropout" | "bias"
                | "n_kv_head" | "head_dim" | "ffn_dim" | "rope_theta" | "rope_scaling" | "norm_eps"
                | "tie_embeddings" | "attention_bias" | "mlp_bias" | "gelu" | "vocab_size",
            ) => Self::Model,
            (
                _,
                "optimizer" | "learning_rate" | "max_iters" | "weight_decay" | "beta1" | "beta2"
                | "grad_clip" | "decay_lr" | "warmup_iters" | "lr_decay_iters" | "min_lr",
            ) => Self::Optimizer,
            (_, name) if name.starts_with("muon_") => Self::Optimizer,
            (_, name) if name.starts_with("eval_") => Self::Evaluation,
            (_, "log_interval" | "sample_interval" | "always_save_checkpoint") => Self::Evaluation,
            _ => Self::Data,
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Data => "Data and folders",
            Self::Model => "Model",
            Self::Memory => "Batch, memory and device",
            Self::Optimizer => "Optimizer and schedule",
            Self::Evaluation => "Evaluation and log",
            Self::Sampling => "Sampling",
            Self::Ignored => "Accepted and ignored",
        }
    }
}

/// Where the help of a command shows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// In `-h` and in `--help`.
    Always,
    /// Only in `--help`.
    InLongHelp,
    Never,
}

impl Visibility {
    fn by(command: &str, key: &Key) -> Self {
        let (first, rest): (&[&str], fn(&Key) -> bool) = match command {
            "train" => (
                &[
                    "dataset",
                    "out_dir",
                    "init_from",
                    "batch_size",
                    "gradient_accumulation_steps",
                    "grad_checkpoint",
                    "memory_budget",
                    "device",
                    "dtype",
                    "max_iters",
                    "learning_rate",
                    "optimizer",
                    "eval_interval",
                ],
                |key| Topic::of(key) != Topic::Sampling,
            ),
            "sample" => (
                &[
                    "out_dir",
                    "start",
                    "num_samples",
                    "max_new_tokens",
                    "temperature",
                    "top_k",
                    "top_p",
                    "seed",
                    "device",
                ],
                |key| {
                    matches!(key.name, "init_from" | "dtype" | "threads" | "memory_budget")
                        || Topic::of(key) == Topic::Sampling
                },
            ),
            "devices" => (&["memory_budget", "threads"], affects_a_plan),
            "bench" => {
                (&["batch_size", "device", "dtype", "grad_checkpoint", "threads"], affects_a_plan)
            }
            _ => (
                &[
                    "n_layer",
                    "n_head",
                    "n_embd",
                    "block_size",
                    "batch_size",
                    "gradient_accumulation_steps",
                    "grad_checkpoint",
                    "memory_budget",
                    "device",
                    "dtype",
                    "compile",
                ],
                affects_a_plan,
            ),
        };
        if first.contains(&key.name) {
            Self::Always
        } else if rest(key) {
            Self::InLongHelp
        } else {
            Self::Never
        }
    }
}

/// Whether a key can change the memory or the duration of a run.
fn affects_a_plan(key: &Key) -> bool {
    match Topic::of(key) {
        Topic::Model | Topic::Memory => true,
        Topic::Data => matches!(key.name, "dataset" | "init_from"),
        Topic::Optimizer => matches!(key.name, "optimizer" | "max_iters"),
        Topic::Evaluation => !matches!(key.name, "log_interval" | "always_save_checkpoint"),
        Topic::Sampling => key.name == "num_samples",
        Topic::Ignored => false,
    }
}

/// The text of `-h`, short enough for one line.
fn short_help(key: &Key) -> String {
    let text = match key.name {
        "init_from" => "Start from 'scratch', 'resume', 'gpt2', … or a folder",
        "grad_checkpoint" => "Recompute activations: False, True or 'auto'",
        "memory_budget" => "Plan for this memory, such as '12GB'",
        "device" => "Run on 'auto', 'cpu', 'gpu', 'cuda', …",
        "dtype" => "Store as 'float32', 'bfloat16' or 'float16'",
        "compile" => "Plan PyTorch with torch.compile",
        _ => key.help,
    };
    text.replace("{choices}", &choices(key, |_| ""))
}

/// The text of `--help`.
fn long_help(key: &Key) -> String {
    let remark = |name: &str| match key.name {
        "optimizer" => {
            let found = OptimizerChoice::ALL.into_iter().find(|choice| choice.name() == name);
            found.map_or("", OptimizerChoice::remark)
        }
        _ => "",
    };
    key.help.replace("{choices}", &choices(key, remark))
}

/// The values of a key as a list: `'a', 'b' (remark) or 'c'`.
fn choices(key: &Key, remark: impl Fn(&str) -> &'static str) -> String {
    let ValueKind::Choice(names) = key.kind else { return String::new() };
    either(names.iter().map(|name| match remark(name) {
        "" => format!("'{name}'"),
        remark => format!("'{name}' ({remark})"),
    }))
}

/// `a, b or c`.
pub(super) fn either(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    match items.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => items.concat(),
    }
}

const fn value_name(key: &Key) -> &'static str {
    match key.kind {
        ValueKind::Int => "N",
        ValueKind::Float => "X",
        ValueKind::Bool => "BOOL",
        ValueKind::Size => "SIZE",
        _ => "VALUE",
    }
}

/// `command` with every key as a flag.
pub(super) fn with_keys(mut command: Command) -> Command {
    for key in KEYS {
        let shown = Visibility::by(command.get_name(), key);
        let mut arg = Arg::new(key.name)
            .long(key.name)
            .value_name(value_name(key))
            .action(ArgAction::Append)
            .num_args(1)
            .allow_hyphen_values(true)
            .help_heading(Topic::of(key).heading())
            .hide(shown == Visibility::Never)
            .hide_short_help(shown != Visibility::Always)
            .help(short_help(key))
            .long_help(long_help(key));
        if key.name == "memory_budget" {
            arg = arg.visible_alias("budget");
        }
        command = command.arg(arg);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(command: &str, name: &str) -> Visibility {
        Visibility::by(command, Key::find(name).unwrap())
    }

    #[test]
    fn a_command_shows_the_keys_that_affect_it() {
        assert_eq!(shown("plan", "batch_size"), Visibility::Always);
        assert_eq!(shown("plan", "n_kv_head"), Visibility::InLongHelp);
        assert_eq!(shown("plan", "temperature"), Visibility::Never);
        assert_eq!(shown("plan", "learning_rate"), Visibility::Never);
        assert_eq!(shown("train", "learning_rate"), Visibility::Always);
        assert_eq!(shown("train", "top_k"), Visibility::Never);
        assert_eq!(shown("sample", "top_k"), Visibility::Always);
        assert_eq!(shown("sample", "batch_size"), Visibility::Never);
    }

    #[test]
    fn every_key_is_shown_by_some_command() {
        for key in KEYS {
            let is_shown = |command: &&str| Visibility::by(command, key) != Visibility::Never;
            assert!(["plan", "train", "sample"].iter().any(is_shown), "{}", key.name);
        }
    }
}
