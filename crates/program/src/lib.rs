//! Programs: ops in order over named tensors, and where each byte of those tensors lies.
//!
//! A program is data: it can be printed, counted, planned for any device, and run. [`memory`]
//! turns programs into byte ranges of one arena. Nothing here knows a config, a model or a device,
//! and nothing touches a file or a float tensor, so planning needs no card.
#![forbid(unsafe_code)]

pub mod hash;
pub mod units;
mod rope;
mod element_rule;
mod products;
mod op;
mod program;
mod cost;
pub mod memory;

pub use self::{
    element_rule::*,
    op::{
        Access, AdjustLr, Dropout, DropoutSite, Gelu, Heads, Muon, Op, Operand, QUANTISED_BLOCK,
        Qkv, SHARD_BLOCK, Turn, reads, updates, writes,
    },
    products::Products,
    program::{Constant, Life, Names, Program, ProgramKind, Tensor, TensorClass, TensorRole},
    rope::{Rope, RopeScaling},
};
