//! The values that change from one run of a program to the next.

use fitgpt_program::{Program, ProgramKind};

/// The arguments of running a program once. Each kernel takes what its op needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arguments {
    /// Seeds every dropout mask.
    pub seed: u64,
    /// The optimizer step that this run belongs to.
    pub step: u64,
    /// Position in the effective batch of the micro-batch's first sequence.
    pub first_sequence: u64,
    /// The loss is multiplied by this before its gradient is taken; 1 except with float16.
    pub loss_scale: f32,
    /// Learning rate of this step.
    pub lr: f32,
    /// Updates made, this one included: Adam's bias correction.
    pub updates: u64,
    /// Prefill: how many tokens of the prompt are in use. Decode: how many the cache holds.
    pub length: u64,
    /// Prefill: which sequence's cache is filled.
    pub cache_row: u64,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            seed: 1337,
            step: 0,
            first_sequence: 0,
            loss_scale: 1.0,
            lr: 0.0,
            updates: 1,
            length: 0,
            cache_row: 0,
        }
    }
}

/// Sampling programs have fixed shapes and run at any length. These methods define what `length`
/// means to a program, for every backend.
impl Arguments {
    /// The position of a sequence's first row: 0, or the cached length when decoding.
    pub fn first_position(&self, program: &Program) -> u64 {
        if program.kind() == ProgramKind::Decode { self.length } else { 0 }
    }

    /// How many of `rows` rows are computed: all, or only those in use of a prompt. The other rows
    /// are undefined and never read.
    pub fn rows_in_use(&self, program: &Program, rows: u64) -> u64 {
        if program.kind() == ProgramKind::Prefill { rows.min(self.length) } else { rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ProgramKind; 3] = [ProgramKind::Train, ProgramKind::Prefill, ProgramKind::Decode];

    fn program(kind: ProgramKind) -> Program {
        Program::new(kind, Vec::new())
    }

    #[test]
    fn only_decoding_starts_after_the_cached_tokens() {
        let arguments = Arguments { length: 5, ..Arguments::default() };
        let first = |kind| arguments.first_position(&program(kind));
        assert_eq!(KINDS.map(first), [0, 0, 5]);
    }

    #[test]
    fn only_a_prompt_leaves_rows_unused() {
        let arguments = Arguments { length: 5, ..Arguments::default() };
        let rows = |kind| arguments.rows_in_use(&program(kind), 8);
        assert_eq!(KINDS.map(rows), [8, 5, 8]);
        assert_eq!(arguments.rows_in_use(&program(ProgramKind::Prefill), 1), 1);
    }
}
