//! Embeddings and dropout.

use fitgpt_plan::{
    program::{Dropout, Op, Site},
    units::DType,
};

use super::{
    super::{
        case::{Builder, Case, Fill},
        tolerance::{elementwise, sum},
    },
    DTYPES, dropouts, dropping,
};

/// (B, T, C, V)
const SHAPES: [[u64; 4]; 4] = [[1, 1, 5, 17], [1, 7, 48, 65], [2, 65, 17, 101], [3, 33, 20, 65]];

pub(super) fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    for dtype in DTYPES {
        for shape in SHAPES {
            list.extend(dropouts(Site::Embedding).map(|d| embed(shape, dtype, d)));
            list.extend(dropouts(Site::Embedding).map(|d| embed_backward(shape, dtype, d)));
            list.push(dropout(shape, dtype));
        }
    }
    list
}

fn embed([b, t, c, v]: [u64; 4], dtype: DType, dropout: Option<Dropout>) -> Case {
    let title = format!("{b}x{t}x{c}, vocab {v}, {dtype}{}", dropping(dropout));
    let mut case = Builder::new(title);
    let tokens = case.tokens("tokens", &[b, t], v);
    let wte = case.reads("wte", &[v, c], DType::F32, Fill::normal(1.0));
    let wpe = case.reads("wpe", &[t + 3, c], DType::F32, Fill::normal(1.0));
    let out = case.writes("out", &[b, t, c], dtype, elementwise().stored(dtype));
    case.case(Op::Embed { tokens, wte, wpe, out, dropout })
}

fn embed_backward([b, t, c, v]: [u64; 4], dtype: DType, dropout: Option<Dropout>) -> Case {
    let title = format!("{b}x{t}x{c}, vocab {v}, {dtype}{}", dropping(dropout));
    let mut case = Builder::new(title);
    let tokens = case.tokens("tokens", &[b, t], v);
    let d_x = case.reads("d_x", &[b, t, c], dtype, Fill::normal(1.0));
    let fill = Fill::normal(1.0);
    let d_wte = case.updates("d_wte", &[v, c], DType::F32, fill.clone(), sum(b * t));
    let d_wpe = case.updates("d_wpe", &[t + 3, c], DType::F32, fill, sum(b));
    case.case(Op::EmbedBackward { tokens, d_x, d_wte, d_wpe, dropout })
}

fn dropout([b, t, c, _]: [u64; 4], dtype: DType) -> Case {
    let mut case = Builder::new(format!("{b}x{t}x{c}, {dtype}"));
    let x = case.reads("x", &[b, t, c], dtype, Fill::normal(1.0));
    let out = case.writes("out", &[b, t, c], dtype, elementwise().stored(dtype));
    let [_, dropout] = dropouts(Site::MlpOut);
    case.case(Op::Dropout { x, out, dropout: dropout.expect("the second one drops") })
}
