//! Rules between keys. What one key alone may be stands in the table of keys.

use super::{error::ConfigError, resolved::Config, written::Written};

/// nanoGPT's vocabulary where the data names none: 50257 rounded up to a multiple of 64.
const VOCAB_WITHOUT_DATA: u32 = 50_304;

/// Checks what no single key shows.
pub(super) fn check(config: &Config, written: &Written) -> Result<(), ConfigError> {
    heads_divide(config, written)?;
    let (eval_block_size, block_size) = (config.eval_block_size(), config.block_size());
    if eval_block_size > block_size {
        let place = written.last_place(&["eval_block_size"]);
        return Err(ConfigError::EvalBlockTooLong { eval_block_size, block_size, place });
    }
    products_fit(config, written)
}

fn heads_divide(config: &Config, written: &Written) -> Result<(), ConfigError> {
    let (n_embd, n_head) = (config.n_embd(), config.n_head());
    if n_embd.is_multiple_of(n_head) {
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

/// Bytes and counts are 64-bit numbers all over the planner. Sizes that cannot even be said
/// in those are refused here, where the keys still have names.
fn products_fit(config: &Config, written: &Written) -> Result<(), ConfigError> {
    let key = |name: &'static str, value: u64| Factor { name, value };
    let batch = key("batch_size", config.batch_size().into());
    let accumulation =
        key("gradient_accumulation_steps", config.gradient_accumulation_steps().into());
    let block = key("block_size", config.block_size().into());
    let layers = key("n_layer", config.n_layer().into());
    let heads = key("n_head", config.n_head().into());
    let channels = key("n_embd", config.n_embd().into());
    let vocab = match config.vocab_size() {
        0 => VOCAB_WITHOUT_DATA,
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
    // An MLP's inner activation is four times as wide.
    let inner = key("4", 4);

    let products: [&[Factor]; 9] = [
        &[accumulation, batch, block, steps],
        &[batch, block, vocab, four_bytes],
        &[eval_batch, eval_block, vocab, four_bytes],
        &[layers, batch, block, inner, channels, four_bytes],
        &[layers, batch, heads, block, block, four_bytes],
        &[layers, key("12", 12), channels, channels, state_bytes],
        &[vocab, channels, state_bytes],
        &[eval_iters, eval_batch, eval_block],
        &[samples, new_tokens, layers, channels, four_bytes],
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
struct Factor {
    name: &'static str,
    value: u64,
}
