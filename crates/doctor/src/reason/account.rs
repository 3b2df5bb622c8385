//! The memory that a program holds when it requests a tensor, compared with the message.

use fitgpt_program::{
    Program, Tensor, TensorClass,
    memory::{Lifetime, lifetimes},
};

use crate::{
    facts::{AccountShare, ShareName},
    parse::PrintedSize,
};

/// Memory that PyTorch counts as allocated but that is no tensor of the program: the cuBLAS
/// workspace (8 MiB per stream, 32 MiB on Hopper) and temporaries of kernels.
const WORKSPACE: u64 = 40 << 20;

/// Relative difference within which an account agrees with the message.
const NEAR: f64 = 0.015;

/// The live tensors when an op allocates its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldMemory {
    pub(crate) bytes: u64,
    /// Logits of an earlier pass.
    pub(crate) stale_logits_bytes: u64,
    pub(crate) parts: Vec<AccountShare>,
}

impl HeldMemory {
    /// Relative difference from the message; 0 within its rounding.
    pub(crate) fn distance(&self, allocated: PrintedSize) -> f64 {
        let over = self.bytes.saturating_sub(allocated.high);
        let under = allocated.low.saturating_sub(self.bytes.saturating_add(WORKSPACE));
        over.max(under) as f64 / allocated.bytes.max(1) as f64
    }

    /// Whether it agrees with the message.
    pub(crate) fn agrees(&self, allocated: PrintedSize) -> bool {
        self.distance(allocated) <= NEAR
    }
}

/// The live tensors of a program, op by op.
pub(super) struct LiveTensors<'a> {
    program: &'a Program,
    spans: Vec<Lifetime>,
}

impl<'a> LiveTensors<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        Self { program, spans: lifetimes(program) }
    }

    /// What is alive at an op, without the results of that op.
    pub(super) fn before(&self, op: u32) -> HeldMemory {
        let mut held = HeldMemory { bytes: 0, stale_logits_bytes: 0, parts: Vec::new() };
        let mut state =
            [(ShareName::Weights, 0), (ShareName::Gradients, 0), (ShareName::OptimizerState, 0)];
        let mut single: Vec<AccountShare> = Vec::new();
        for (tensor, span) in self.program.tensors().iter().zip(&self.spans) {
            let is_held = span.as_ref().is_some_and(|span| {
                span.contains(&op) && (*span.start() < op || is_there_before(tensor))
            });
            if !is_held {
                continue;
            }
            let bytes = tensor.bytes().align_up(512).get();
            held.bytes += bytes;
            let name = ShareName::of_tensor(tensor);
            if name.is_stale_logits() {
                held.stale_logits_bytes += bytes;
            }
            match tensor.class {
                TensorClass::Parameter => state[0].1 += bytes,
                TensorClass::Gradient => state[1].1 += bytes,
                TensorClass::Optimizer => state[2].1 += bytes,
                _ => single.push(AccountShare { name, bytes }),
            }
        }
        let state = state.into_iter().filter(|(_, bytes)| *bytes > 0);
        held.parts = state.map(|(name, bytes)| AccountShare { name, bytes }).collect();
        held.parts.extend(largest(single, held.bytes));
        held
    }
}

/// State and inputs exist before the program begins.
fn is_there_before(tensor: &Tensor) -> bool {
    use fitgpt_program::Life;
    matches!(tensor.life, Life::Always | Life::Input)
}

/// The significant tensors, largest first, and the rest as one item.
fn largest(mut single: Vec<AccountShare>, total: u64) -> Vec<AccountShare> {
    const SHOWN: usize = 6;
    single.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let matters = |part: &&AccountShare| part.bytes * 500 >= total;
    let shown = single.iter().take(SHOWN).take_while(matters).count();
    let rest: u64 = single[shown..].iter().map(|part| part.bytes).sum();
    single.truncate(shown);
    if rest > 0 {
        single.push(AccountShare { name: ShareName::Other, bytes: rest });
    }
    single
}
