//! How a CPU multiplies bfloat16 activations.
//!
//! A new run takes bfloat16 factors only if the CPU has the instruction for them. Without it they
//! would be emulated, several times slower, so such a machine keeps float32 factors: its speed and
//! its bits are those of every earlier version. A run keeps its arithmetic wherever it is resumed:
//! the key `matmul_dtype` is stored in its checkpoint, and one without the key had float32 factors.

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
    /// Both.
    pub const ALL: [Self; 2] = [Self::Float32, Self::Bfloat16];

    /// As written in a config and in a checkpoint.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// Every name.
    pub const NAMES: &'static [&'static str] = &["float32", "bfloat16"];

    /// The arithmetic of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|products| products.name() == name)
    }

    /// Factors of the depth of a product that lie next to each other in 32 bits when packed.
    pub const fn factors_per_slot(self) -> usize {
        match self {
            Self::Float32 => 1,
            Self::Bfloat16 => 2,
        }
    }
}
