//! Ops that occur only in prefill and decode, and `Embed` in both programs.

use fitgpt_program::{Heads, Op, units::DType};

use super::{
    super::{
        case::{CaseBuilder, Fill, OpCase},
        tolerance::{copy, elementwise, softmax},
    },
    DTYPES,
    attention::{QkvLayout, qkv},
};

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        list.push(embed(CaseBuilder::decoding(dtype.name(), 4), [3, 1], dtype));
        list.push(embed(CaseBuilder::prompt(dtype.name(), 8, 5), [1, 8], dtype));
        for length in [1, 5, 33] {
            list.push(last_row(length, dtype));
            list.push(store_cache(length, dtype, QkvLayout::Joined));
            list.push(store_cache(length, dtype, QkvLayout::Split));
        }
        for [query, kv, channels] in [[1, 1, 4], [3, 3, 16], [3, 3, 24], [1, 1, 64], [1, 1, 80]] {
            // An empty cache, a partly filled one, and one with a single free row.
            list.extend([0, 4, 32].map(|length| {
                cached_attention(Heads { query, kv, channels }, QkvLayout::Joined, length, dtype)
            }));
        }
        for [query, kv, channels] in [[4, 2, 16], [9, 3, 24], [5, 1, 6]] {
            list.extend([0, 32].map(|length| {
                cached_attention(Heads { query, kv, channels }, QkvLayout::Split, length, dtype)
            }));
        }
    }
    list
}

fn embed(mut case: CaseBuilder, [b, t]: [u64; 2], dtype: DType) -> OpCase {
    let tokens = case.tokens("tokens", &[b, t], 17);
    let wte = case.reads("wte", &[17, 20], DType::F32, Fill::normal(1.0));
    let wpe = case.reads("wpe", &[8, 20], DType::F32, Fill::normal(1.0));
    let out = case.writes("out", &[b, t, 20], dtype, elementwise().stored(dtype));
    case.case(Op::Embed { tokens, wte, wpe: Some(wpe), out, dropout: None })
}

fn last_row(length: u64, dtype: DType) -> OpCase {
    let mut case = CaseBuilder::prompt(&format!("1x33x20, {dtype}"), 33, length);
    let x = case.reads("x", &[1, 33, 20], dtype, Fill::normal(1.0));
    let out = case.writes("out", &[1, 1, 20], dtype, copy());
    case.case(Op::LastRow { x, out })
}

fn store_cache(length: u64, dtype: DType, layout: QkvLayout) -> OpCase {
    let mut case = CaseBuilder::prompt(&format!("cache 3x33x20, {layout:?}, {dtype}"), 33, length);
    case.arguments.cache_row = 1;
    let heads = match layout {
        QkvLayout::Joined => Heads { query: 5, kv: 5, channels: 4 },
        QkvLayout::Split => Heads { query: 15, kv: 5, channels: 4 },
    };
    let qkv = qkv(&mut case, [1, 33], heads, dtype, layout, 1.0);
    let keys = case.updates("keys", &[3, 33, 20], dtype, Fill::normal(1.0), copy());
    let values = case.updates("values", &[3, 33, 20], dtype, Fill::normal(1.0), copy());
    case.case(Op::StoreCache { qkv, keys, values, heads })
}

fn cached_attention(heads: Heads, layout: QkvLayout, length: u64, dtype: DType) -> OpCase {
    let Heads { query, kv, channels } = heads;
    let title = format!("{query} heads of {channels}, {kv} of keys, {dtype}");
    let mut case = CaseBuilder::decoding(&title, length);
    let fill = Fill::normal(1.0);
    let qkv = qkv(&mut case, [2, 1], heads, dtype, layout, 1.0);
    let cache = [2, 33, u64::from(kv * channels)];
    let keys = case.updates("keys", &cache, dtype, fill.clone(), copy());
    let values = case.updates("values", &cache, dtype, fill, copy());
    // Scores have a standard deviation of 1; none here exceeds six of them.
    let tolerance = softmax(channels.into(), 6.0, length + 1).stored(dtype);
    let out = case.writes("out", &[2, 1, u64::from(query * channels)], dtype, tolerance);
    case.case(Op::CachedAttention { qkv, keys, values, out, heads })
}
