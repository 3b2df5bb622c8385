//! Rules that update each element of a parameter by itself.

/// AdamW's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Largest norm of the whole gradient; 0 for no limit.
    pub grad_clip: f32,
}

/// Lion's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lion {
    /// Share of the moment in the direction of an update.
    pub beta1: f32,
    /// Decay of the moment.
    pub beta2: f32,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Largest norm of the whole gradient; 0 for no limit.
    pub grad_clip: f32,
}

/// A rule with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElementRule {
    /// `AdamW` with float32 moments.
    AdamW(Adam),
    /// Lion with a float32 moment.
    Lion(Lion),
}

impl ElementRule {
    /// The names of all rules.
    pub const NAMES: &'static [&'static str] = &["adamw", "lion"];

    /// Its name in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AdamW(_) => "adamw",
            Self::Lion(_) => "lion",
        }
    }

    /// What it keeps for each element in float32, by its names in PyTorch.
    pub const fn states(&self) -> &'static [&'static str] {
        match self {
            Self::AdamW(_) => &["exp_avg", "exp_avg_sq"],
            Self::Lion(_) => &["exp_avg"],
        }
    }
}
