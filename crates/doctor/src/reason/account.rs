//! The account: what a program holds when it asks for a tensor, against what a message prints.

use fitgpt_plan::{
    memory::{Lifetime, lifetimes},
    program::{Program, Tensor, TensorClass},
};

use crate::{diagnosis::AccountShare, parse::PrintedSize};

/// What is held besides tensors of the program and is counted as allocated all the same: the
/// workspace that cuBLAS takes through PyTorch's allocator (8 MiB a stream, 32 on Hopper) and
/// kernels' temporaries.
const WORKSPACE: u64 = 40 << 20;

/// A share of the printed number within which two accounts are the same one.
const NEAR: f64 = 0.015;

/// What is alive when an op asks for its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldMemory {
    pub(crate) bytes: u64,
    /// Whether logits of an earlier pass are among it.
    pub(crate) stale_logits_bytes: u64,
    pub(crate) parts: Vec<AccountShare>,
}

impl HeldMemory {
    /// How far this is from what the message prints, as a share of it; 0 inside its rounding.
    pub(crate) fn distance(&self, allocated: PrintedSize) -> f64 {
        let over = self.bytes.saturating_sub(allocated.high);
        let under = allocated.low.saturating_sub(self.bytes.saturating_add(WORKSPACE));
        over.max(under) as f64 / allocated.bytes.max(1) as f64
    }

    /// Whether the message can be about this moment.
    pub(crate) fn agrees(&self, allocated: PrintedSize) -> bool {
        self.distance(allocated) <= NEAR
    }
}

/// Live bytes of a program, op by op.
pub(super) struct LiveTensors<'a> {
    program: &'a Program,
    spans: Vec<Lifetime>,
}

impl<'a> LiveTensors<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        Self { program, spans: lifetimes(program) }
    }

    /// What is alive at an op, without what that op makes.
    pub(super) fn before(&self, op: u32) -> HeldMemory {
        let mut held = HeldMemory { bytes: 0, stale_logits_bytes: 0, parts: Vec::new() };
        let mut state = [("weights", 0), ("gradients", 0), ("optimizer state", 0)];
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
            if tensor.name.starts_with("logits of the last") {
                held.stale_logits_bytes += bytes;
            }
            match tensor.class {
                TensorClass::Parameter => state[0].1 += bytes,
                TensorClass::Gradient => state[1].1 += bytes,
                TensorClass::Optimizer => state[2].1 += bytes,
                _ => single.push(AccountShare { name: tensor.name.clone(), bytes }),
            }
        }
        let state = state.into_iter().filter(|(_, bytes)| *bytes > 0);
        held.parts =
            state.map(|(name, bytes)| AccountShare { name: name.to_owned(), bytes }).collect();
        held.parts.extend(largest(single, held.bytes));
        held
    }
}

/// State and inputs are there before the program begins.
fn is_there_before(tensor: &Tensor) -> bool {
    use fitgpt_plan::program::Life;
    matches!(tensor.life, Life::Always | Life::Input)
}

/// Tensors that matter, largest first, and the rest as one.
fn largest(mut single: Vec<AccountShare>, total: u64) -> Vec<AccountShare> {
    const SHOWN: usize = 6;
    single.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let matters = |part: &&AccountShare| part.bytes * 500 >= total;
    let shown = single.iter().take(SHOWN).take_while(matters).count();
    let rest: u64 = single[shown..].iter().map(|part| part.bytes).sum();
    single.truncate(shown);
    if rest > 0 {
        single.push(AccountShare { name: "other".to_owned(), bytes: rest });
    }
    single
}
