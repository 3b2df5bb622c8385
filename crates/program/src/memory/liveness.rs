//! Lifetimes and live bytes: which tensors are alive at each op, and their total size.

use std::ops::RangeInclusive;

use super::Target;
use crate::{
    Life, Program, TensorClass,
    units::{Bytes, OpIndex},
};

/// First op to last op during which a tensor needs its bytes; `None` if no op touches it.
pub type Lifetime = Option<RangeInclusive<u32>>;

/// The lifetime of every tensor. State lives through the whole program.
pub fn lifetimes(program: &Program) -> Vec<Lifetime> {
    let end = (program.ops().len() as u32).saturating_sub(1);
    let mut spans: Vec<Lifetime> = vec![None; program.tensors().len()];
    for (at, op) in (0..).zip(program.ops()) {
        op.visit(|operand| {
            let span = &mut spans[operand.tensor.index()];
            *span = Some(span.as_ref().map_or(at, |s| *s.start())..=at);
        });
    }
    for (tensor, span) in program.tensors().iter().zip(&mut spans) {
        *span = match (tensor.life, span.take()) {
            (Life::Always, _) => Some(0..=end),
            (Life::Input, span) => Some(0..=span.map_or(0, |s| *s.end())),
            (Life::Inner, span) => span,
            (Life::Output, span) => span.map(|s| *s.start()..=end),
        };
    }
    spans
}

/// Live bytes at each op, by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// By op, then in the order of [`TensorClass::ALL`].
    pub by_op: Vec<[Bytes; 7]>,
}

/// The op with most live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Which op; the first of several.
    pub at: OpIndex,
    /// Its live bytes.
    pub bytes: Bytes,
    /// Those by class, in the order of [`TensorClass::ALL`].
    pub classes: [Bytes; 7],
}

impl Profile {
    /// The op with the most live bytes. A program without ops has no peak.
    pub fn peak(&self) -> Option<Peak> {
        let mut peak: Option<Peak> = None;
        for (at, classes) in (0..).zip(&self.by_op) {
            let bytes = classes.iter().copied().sum();
            if peak.is_none_or(|p| bytes > p.bytes) {
                peak = Some(Peak { at: OpIndex(at), bytes, classes: *classes });
            }
        }
        peak
    }
}

/// Counts live bytes, scratch included, in sizes rounded to the target's alignment.
pub fn profile(program: &Program, target: &impl Target) -> Profile {
    let alignment = target.limits().alignment;
    let ops = program.ops().len();
    // Bytes that begin and end at each op; their running sum is the live bytes.
    let mut begins = vec![[0u64; 7]; ops + 1];
    let mut ends = vec![[0u64; 7]; ops + 1];
    for (tensor, span) in program.tensors().iter().zip(lifetimes(program)) {
        let Some(span) = span else { continue };
        let bytes = tensor.bytes().align_up(alignment).get();
        begins[*span.start() as usize][tensor.class as usize] += bytes;
        ends[*span.end() as usize + 1][tensor.class as usize] += bytes;
    }
    let mut alive = [0u64; 7];
    let mut by_op = Vec::with_capacity(ops);
    for (at, op) in program.ops().iter().enumerate() {
        for class in 0..7 {
            alive[class] = alive[class] + begins[at][class] - ends[at][class];
        }
        let mut here = alive.map(Bytes::new);
        let scratch = &mut here[TensorClass::Scratch as usize];
        *scratch = *scratch + target.scratch(program, op).align_up(alignment);
        by_op.push(here);
    }
    Profile { by_op }
}
