//! Rules between keys. The range of a single key is in the table of keys.

use super::{
    choice::{Family, InitFrom, PADDED_VOCAB},
    error::{ConfigError, FamilyRule},
    key::Key,
    lanes::LaneSplit,
    optimizer::OptimizerChoice,
    resolved::Config,
    written::Written,
};

/// Keys that GPT-2 does not have.
pub(super) const NOT_GPT2: &[&str] = &[
    "n_kv_head",
    "head_dim",
    "ffn_dim",
    "rope_theta",
    "rope_scaling",
    "norm_eps",
    "tie_embeddings",
    "attention_bias",
    "mlp_bias",
];
/// Keys that only GPT-2 has.
const ONLY_GPT2: &[&str] = &["bias", "gelu"];

/// Keys that only Muon has.
const ONLY_MUON: &[&str] = &[
    "muon_learning_rate",
    "muon_adjust_lr",
    "muon_momentum",
    "muon_nesterov",
    "muon_ns_steps",
    "muon_ns_coefficients",
    "muon_eps",
    "muon_dtype",
];

/// Checks every rule between keys.
pub(super) fn check(config: &Config, written: &Written) -> Result<(), ConfigError> {
    keys_of_family(config, written)?;
    keys_of_optimizer(config, written)?;
    heads_divide(config, written)?;
    heads_of_family(config, written)?;
    let (eval_block_size, block_size) = (config.eval_block_size(), config.block_size());
    if eval_block_size > block_size {
        let place = written.last_place(&["eval_block_size"]);
        return Err(ConfigError::EvalBlockTooLong { eval_block_size, block_size, place });
    }
    lanes_divide(config, written)?;
    products_fit(config, written)
}

fn lanes_divide(config: &Config, written: &Written) -> Result<(), ConfigError> {
    let (lanes, accumulation) = (config.lanes(), config.gradient_accumulation_steps());
    // A resumed run has the checkpoint's lanes, whatever is written.
    let is_resumed = *config.init_from() == InitFrom::Resume;
    if lanes == 0 || is_resumed || accumulation.is_multiple_of(lanes) {
        return Ok(());
    }
    let works = LaneSplit::near(config.batch_size(), accumulation, lanes);
    let place = written.last_place(&["lanes", "gradient_accumulation_steps"]);
    Err(ConfigError::LanesDoNotDivide { lanes, accumulation, works, place })
}

/// Refuses keys that the family does not have, because they would silently have no effect.
fn keys_of_family(config: &Config, written: &Written) -> Result<(), ConfigError> {
    let family = config.family();
    let others = if family == Family::Gpt2 { NOT_GPT2 } else { ONLY_GPT2 };
    match first_changed(others, written) {
        None => Ok(()),
        Some(key) => {
            let place = written.last_place(&[key]);
            Err(ConfigError::NotOfFamily { key, family: family.name(), place })
        }
    }
}

/// Refuses keys that the optimizer does not have.
fn keys_of_optimizer(config: &Config, written: &Written) -> Result<(), ConfigError> {
    let optimizer = config.optimizer();
    match first_changed(ONLY_MUON, written) {
        Some(key) if optimizer != OptimizerChoice::Muon => {
            let place = written.last_place(&[key]);
            Err(ConfigError::NotOfOptimizer { key, optimizer: optimizer.name(), place })
        }
        _ => Ok(()),
    }
}

/// The first of these keys that was written with a value other than its default.
fn first_changed(keys: &[&'static str], written: &Written) -> Option<&'static str> {
    let is_changed = |name: &&str| {
        let key = Key::find(name).expect("rules name keys of the table");
        written.get(name).is_some_and(|value| *value != key.default)
    };
    keys.iter().copied().find(is_changed)
}

/// Rules of families with rotary positions and key/value heads.
fn heads_of_family(config: &Config, written: &Written) -> Result<(), ConfigError> {
    if config.family() == Family::Gpt2 {
        return Ok(());
    }
    let (n_head, n_kv_head, head_dim) = (config.n_head(), config.n_kv_head(), config.head_dim());
    let broken = if !n_head.is_multiple_of(n_kv_head) {
        FamilyRule::KeyValueHeads { n_head, n_kv_head }
    } else if !head_dim.is_multiple_of(2) {
        FamilyRule::OddHead { head_dim }
    } else {
        return Ok(());
    };
    let place = written.last_place(&["n_head", "n_kv_head", "head_dim", "n_embd"]);
    Err(ConfigError::BreaksFamilyRule { rule: broken, place })
}

fn heads_divide(config: &Config, written: &Written) -> Result<(), ConfigError> {
    let (n_embd, n_head) = (config.n_embd(), config.n_head());
    let has_own_size = written.get("head_dim").is_some_and(|size| *size != 0_i64.into());
    if n_embd.is_multiple_of(n_head) || has_own_size {
        return Ok(());
    }
    let below = n_embd / n_head * n_head;
    let widths = [Some(below).filter(|width| *width > 0), below.checked_add(n_head)];
    Err(ConfigError::HeadsDoNotDivide {
        n_embd,
        n_head,
        heads: divisors_near(n_embd, n_head),
        widths: widths.into_iter().flatten().collect(),
        place: written.last_place(&["n_embd", "n_head"]),
    })
}

/// The two divisors of `number` next to `wanted` on either side, ascending.
fn divisors_near(number: u32, wanted: u32) -> Vec<u32> {
    let small = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor));
    let mut divisors: Vec<u32> = small.flat_map(|small| [small, number / small]).collect();
    divisors.sort_unstable();
    divisors.dedup();
    let middle = divisors.partition_point(|divisor| *divisor < wanted);
    divisors[middle.saturating_sub(2)..divisors.len().min(middle + 2)].to_vec()
}

/// The planner counts in 64 bits. Sizes whose products overflow are refused here, so that the error
/// can name the keys.
fn products_fit(config: &Config, written: &Written) -> Result<(), ConfigError> {
    let key = |name: &'static str, value: u64| SizeFactor { name, value };
    let batch = key("batch_size", config.batch_size().into());
    let accumulation =
        key("gradient_accumulation_steps", config.gradient_accumulation_steps().into());
    let block = key("block_size", config.block_size().into());
    let layers = key("n_layer", config.n_layer().into());
    let heads = key("n_head", config.n_head().into());
    let channels = key("n_embd", config.n_embd().into());
    let vocab = match config.vocab_size() {
        0 => PADDED_VOCAB,
        written => written,
    };
    let vocab = key("vocab_size", vocab.into());
    let steps = key("max_iters", config.max_iters() + 1);
    let eval_iters = key("eval_iters", config.eval_iters().into());
    let eval_batch = key("eval_batch_size", config.eval_batch_size().into());
    let eval_block = key("eval_block_size", config.eval_block_size().into());
    let samples = key("num_samples", config.num_samples().into());
    let new_tokens = key("max_new_tokens", config.max_new_tokens().into());
    let four_bytes = key("4 bytes", 4);
    // Weight, gradient and Adam's two moments, in float32.
    let state_bytes = key("16 bytes", 16);
    // An MLP's inner activation is four times as wide in GPT-2.
    let inner = key("4", 4);
    let heads_wide = key("head_dim", config.head_dim().into());
    let ffn = key("ffn_dim", config.ffn_dim().into());

    let products: [&[SizeFactor]; 13] = [
        &[accumulation, batch, block, steps],
        &[batch, block, vocab, four_bytes],
        &[eval_batch, eval_block, vocab, four_bytes],
        &[layers, batch, block, inner, channels, four_bytes],
        &[layers, batch, heads, block, block, four_bytes],
        &[layers, key("12", 12), channels, channels, state_bytes],
        &[vocab, channels, state_bytes],
        &[eval_iters, eval_batch, eval_block],
        &[samples, new_tokens, layers, channels, four_bytes],
        &[layers, batch, block, ffn, four_bytes],
        &[layers, key("3", 3), ffn, channels, state_bytes],
        &[layers, batch, block, heads, heads_wide, four_bytes],
        &[layers, key("4", 4), heads, heads_wide, channels, state_bytes],
    ];
    for factors in products {
        let product = factors.iter().try_fold(1_u64, |product, f| product.checked_mul(f.value));
        if product.is_none() {
            let product: Vec<&str> = factors.iter().map(|factor| factor.name).collect();
            let place = written.last_place(&product);
            return Err(ConfigError::TooLarge { product, place });
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct SizeFactor {
    name: &'static str,
    value: u64,
}
