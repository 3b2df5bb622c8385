//! How a CPU multiplies bfloat16 activations.

/// The arithmetic of matrix products over bfloat16 activations on a CPU. Sums are float32 in both.
///
/// It determines rounding, so it is a choice of the run, not of the machine: a checkpoint stores it.
/// Products over other activations are always [`Products::Float32`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Products {
    /// Factors as they are stored, widened to float32.
    #[default]
    Float32,
    /// Both factors rounded to bfloat16, multiplied in pairs: twice the rate where a CPU has the
    /// instruction for it, and emulated elsewhere.
    Bfloat16,
}

impl Products {
    /// As written in a config and in a checkpoint.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// The arithmetic of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Float32, Self::Bfloat16].into_iter().find(|products| products.name() == name)
    }

    /// Factors of the depth of a product that lie next to each other in 32 bits when packed.
    pub const fn factors_per_slot(self) -> usize {
        match self {
            Self::Float32 => 1,
            Self::Bfloat16 => 2,
        }
    }
}
