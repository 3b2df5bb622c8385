//! The ops of prefill and decode that training does not have, and `Embed` in both.

use fitgpt_plan::{program::Op, units::DType};

use super::{
    super::{
        case::{Builder, Case, Fill},
        tolerance::{copy, elementwise, softmax},
    },
    DTYPES,
};

pub(super) fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        list.push(embed(Builder::decoding(dtype.name(), 4), [3, 1], dtype));
        list.push(embed(Builder::prompt(dtype.name(), 8, 5), [1, 8], dtype));
        for length in [1, 5, 33] {
            list.push(last_row(length, dtype));
            list.push(store_cache(length, dtype));
        }
        for (heads, size) in [(1, 4), (3, 16), (3, 24), (1, 64), (1, 80)] {
            // An empty cache, some of it, and the last free row.
            list.extend([0, 4, 32].map(|length| cached_attention(heads, size, length, dtype)));
        }
    }
    list
}

fn embed(mut case: Builder, [b, t]: [u64; 2], dtype: DType) -> Case {
    let tokens = case.tokens("tokens", &[b, t], 17);
    let wte = case.reads("wte", &[17, 20], DType::F32, Fill::normal(1.0));
    let wpe = case.reads("wpe", &[8, 20], DType::F32, Fill::normal(1.0));
    let out = case.writes("out", &[b, t, 20], dtype, elementwise().stored(dtype));
    case.case(Op::Embed { tokens, wte, wpe, out, dropout: None })
}

fn last_row(length: u64, dtype: DType) -> Case {
    let mut case = Builder::prompt(&format!("1x33x20, {dtype}"), 33, length);
    let x = case.reads("x", &[1, 33, 20], dtype, Fill::normal(1.0));
    let out = case.writes("out", &[1, 1, 20], dtype, copy());
    case.case(Op::LastRow { x, out })
}

fn store_cache(length: u64, dtype: DType) -> Case {
    let mut case = Builder::prompt(&format!("cache 3x33x20, {dtype}"), 33, length);
    case.arguments.cache_row = 1;
    let qkv = case.reads("qkv", &[1, 33, 60], dtype, Fill::normal(1.0));
    let keys = case.updates("keys", &[3, 33, 20], dtype, Fill::normal(1.0), copy());
    let values = case.updates("values", &[3, 33, 20], dtype, Fill::normal(1.0), copy());
    case.case(Op::StoreCache { qkv, keys, values })
}

fn cached_attention(heads: u64, size: u64, length: u64, dtype: DType) -> Case {
    let channels = heads * size;
    let mut case = Builder::decoding(&format!("{heads} heads of {size}, {dtype}"), length);
    let fill = Fill::normal(1.0);
    let qkv = case.reads("qkv", &[2, 1, 3 * channels], dtype, fill.clone());
    let cache = [2, 33, channels];
    let keys = case.updates("keys", &cache, dtype, fill.clone(), copy());
    let values = case.updates("values", &cache, dtype, fill, copy());
    // Scores have the deviation 1; six of those are not exceeded here.
    let tolerance = softmax(size, 6.0, length + 1).stored(dtype);
    let out = case.writes("out", &[2, 1, channels], dtype, tolerance);
    case.case(Op::CachedAttention { qkv, keys, values, out, heads: heads as u32 })
}
