//! The state of a known model against its card.

use serde::Serialize;

use crate::facts::AccountShare;

/// The state of a model on one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// The model.
    pub model: String,
    /// Its parameters.
    pub parameters: u64,
    /// The usual state: float32 weights under autocast, or as the log says.
    pub parts: Vec<AccountShare>,
    /// Their sum.
    pub usual_bytes: u64,
    /// The least state that this kind of run can have: everything in half precision.
    pub least_bytes: u64,
    /// The card's memory, less the CUDA context.
    pub usable_bytes: u64,
    /// Cards over which the state is divided; 1 if it is not.
    pub ranks: u64,
    /// Whether the log says which weights are trained, so that nothing is assumed.
    pub is_stated: bool,
    #[serde(skip)]
    pub(crate) is_training: bool,
}

impl Budget {
    /// Whether even the least state exceeds the card.
    pub(crate) const fn never_fits(&self) -> bool {
        self.least_bytes > self.usable_bytes
    }

    /// Whether the usual state exceeds the card.
    pub(crate) const fn usually_fails(&self) -> bool {
        self.usual_bytes > self.usable_bytes
    }
}
