//! What changes from run to run of a program. Everything else stands in the program.

/// The arguments of running a program once. Each kernel takes what its op needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arguments {
    /// Keys every mask.
    pub seed: u64,
    /// The optimizer step that this run belongs to.
    pub step: u64,
    /// Position in the effective batch of the micro-batch's first sequence.
    pub first_sequence: u64,
    /// The loss is multiplied by this before its gradient is taken; 1 but for float16.
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
