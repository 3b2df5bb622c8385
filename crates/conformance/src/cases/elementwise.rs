//! Embeddings, dropout and rotary positions.

use fitgpt_program::{Dropout, DropoutSite, Op, Rope, Turn, units::DType};

use super::{
    super::{
        case::{CaseBuilder, Fill, OpCase},
        tolerance::{elementwise, sum},
    },
    DTYPES, dropouts, dropping,
};

/// (B, T, C, V)
const SHAPES: [[u64; 4]; 4] = [[1, 1, 5, 17], [1, 7, 48, 65], [2, 65, 17, 101], [3, 33, 20, 65]];

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for shape in SHAPES {
            list.extend(dropouts(DropoutSite::Embedding).map(|d| embed(shape, dtype, d)));
            list.extend(dropouts(DropoutSite::Embedding).map(|d| embed_backward(shape, dtype, d)));
            list.push(dropout(shape, dtype));
        }
        // Without learned positions.
        list.push(embed_tokens([2, 33, 20, 65], dtype));
        list.push(embed_tokens_backward([2, 33, 20, 65], dtype));
        for [b, t, heads, channels] in [[1, 1, 1, 2], [2, 7, 3, 6], [1, 65, 2, 32], [3, 9, 5, 80]] {
            for turn in [Turn::Forward, Turn::Back] {
                let title = format!("{b}x{t}, {heads} heads of {channels}, {turn:?}, {dtype}");
                let shape = [b, t, heads, channels];
                list.push(rotary(CaseBuilder::new(title), shape, dtype, turn));
            }
        }
        let prompt = CaseBuilder::prompt(dtype.name(), 9, 6);
        list.push(rotary(prompt, [1, 9, 2, 16], dtype, Turn::Forward));
        let decoding = CaseBuilder::decoding(dtype.name(), 4);
        list.push(rotary(decoding, [3, 1, 2, 16], dtype, Turn::Forward));
    }
    list
}

fn embed([b, t, c, v]: [u64; 4], dtype: DType, dropout: Option<Dropout>) -> OpCase {
    let title = format!("{b}x{t}x{c}, vocab {v}, {dtype}{}", dropping(dropout));
    let mut case = CaseBuilder::new(title);
    let tokens = case.tokens("tokens", &[b, t], v);
    let wte = case.reads("wte", &[v, c], DType::F32, Fill::normal(1.0));
    let wpe = case.reads("wpe", &[t + 3, c], DType::F32, Fill::normal(1.0));
    let out = case.writes("out", &[b, t, c], dtype, elementwise().stored(dtype));
    case.case(Op::Embed { tokens, wte, wpe: Some(wpe), out, dropout })
}

fn embed_backward([b, t, c, v]: [u64; 4], dtype: DType, dropout: Option<Dropout>) -> OpCase {
    let title = format!("{b}x{t}x{c}, vocab {v}, {dtype}{}", dropping(dropout));
    let mut case = CaseBuilder::new(title);
    let tokens = case.tokens("tokens", &[b, t], v);
    let d_x = case.reads("d_x", &[b, t, c], dtype, Fill::normal(1.0));
    let fill = Fill::normal(1.0);
    let d_wte = case.updates("d_wte", &[v, c], DType::F32, fill.clone(), sum(b * t));
    let d_wpe = case.updates("d_wpe", &[t + 3, c], DType::F32, fill, sum(b));
    case.case(Op::EmbedBackward { tokens, d_x, d_wte, d_wpe: Some(d_wpe), dropout })
}

fn embed_tokens([b, t, c, v]: [u64; 4], dtype: DType) -> OpCase {
    let mut case = CaseBuilder::new(format!("{b}x{t}x{c}, vocab {v}, no positions, {dtype}"));
    let tokens = case.tokens("tokens", &[b, t], v);
    let wte = case.reads("wte", &[v, c], DType::F32, Fill::normal(1.0));
    let out = case.writes("out", &[b, t, c], dtype, elementwise().stored(dtype));
    case.case(Op::Embed { tokens, wte, wpe: None, out, dropout: None })
}

fn embed_tokens_backward([b, t, c, v]: [u64; 4], dtype: DType) -> OpCase {
    let mut case = CaseBuilder::new(format!("{b}x{t}x{c}, vocab {v}, no positions, {dtype}"));
    let tokens = case.tokens("tokens", &[b, t], v);
    let d_x = case.reads("d_x", &[b, t, c], dtype, Fill::normal(1.0));
    let d_wte = case.updates("d_wte", &[v, c], DType::F32, Fill::normal(1.0), sum(b * t));
    case.case(Op::EmbedBackward { tokens, d_x, d_wte, d_wpe: None, dropout: None })
}

fn rotary(mut case: CaseBuilder, [b, t, h, d]: [u64; 4], dtype: DType, turn: Turn) -> OpCase {
    let rope = Rope::new(10_000.0);
    let positions = t + 5;
    let tolerance = elementwise().stored(dtype);
    let x = case.updates("x", &[b, t, h * d], dtype, Fill::normal(1.0), tolerance);
    let angles = rope.rows(positions as u32, d as u32).flatten().map(f64::from).collect();
    let table = case.reads("table", &[positions, d], DType::F32, Fill::Values(angles));
    case.case(Op::Rotary { x, table, rope, turn })
}

fn dropout([b, t, c, _]: [u64; 4], dtype: DType) -> OpCase {
    let mut case = CaseBuilder::new(format!("{b}x{t}x{c}, {dtype}"));
    let x = case.reads("x", &[b, t, c], dtype, Fill::normal(1.0));
    let out = case.writes("out", &[b, t, c], dtype, elementwise().stored(dtype));
    let [_, dropout] = dropouts(DropoutSite::MlpOut);
    case.case(Op::Dropout { x, out, dropout: dropout.expect("the second entry is a dropout") })
}
