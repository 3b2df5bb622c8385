//! The table of cases, one file for each kind of op.
//!
//! Shapes are odd on purpose: one row, rows and channels that no tile divides, chunks that do
//! not divide the rows.

mod attention;
mod elementwise;
mod linear;
mod loss;
mod muon;
mod norm;
mod sampling;
mod update;
mod update_8bit;

use fitgpt_program::{Dropout, DropoutSite};

use super::{DTYPES, case::OpCase};

/// Every case, built lazily.
pub(super) fn all() -> impl Iterator<Item = OpCase> {
    let families: [fn() -> Vec<OpCase>; 9] = [
        elementwise::cases,
        norm::cases,
        linear::cases,
        attention::cases,
        loss::cases,
        update::cases,
        update_8bit::cases,
        muon::cases,
        sampling::cases,
    ];
    families.into_iter().flat_map(|family| family())
}

/// No dropout, and a dropout of 0.3.
fn dropouts(site: DropoutSite) -> [Option<Dropout>; 2] {
    [None, Some(Dropout { rate: 0.3, layer: 2, site })]
}

/// For the title of a case.
fn dropping(dropout: Option<Dropout>) -> &'static str {
    if dropout.is_some() { ", dropout" } else { "" }
}

/// For the title of a case.
fn with_bias(has_bias: bool) -> &'static str {
    if has_bias { ", bias" } else { "" }
}
