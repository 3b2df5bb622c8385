//! Where values come from and go to: the backend's side of a checkpoint.

/// A tensor of the model: its name as in GPT-2's checkpoints without `transformer.`, and its
/// shape as nanoGPT has it, `(out, in)` for a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `h.3.attn.c_attn.weight`.
    pub name: String,
    /// Row-major, outermost first.
    pub shape: Vec<usize>,
}

impl Entry {
    /// A tensor of this name and shape.
    pub fn new(name: impl Into<String>, shape: &[usize]) -> Self {
        Self { name: name.into(), shape: shape.to_vec() }
    }

    /// How many values it has.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Which of a parameter's three stored tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The weights.
    Parameter,
    /// Adam's first moment.
    ExpAvg,
    /// Adam's second moment.
    ExpAvgSq,
}

/// Some values of a tensor, one after the other in its row-major order.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Which of the parameter's tensors.
    pub kind: Kind,
    /// Which parameter.
    pub entry: &'a Entry,
    /// The first value's index in the tensor.
    pub start: usize,
}

/// What a backend says when it cannot give or take values.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// Gives values to a save.
pub trait Source {
    /// Fills `out` with the values from `piece.start` on. A piece never leaves its tensor.
    fn read(&mut self, piece: Piece<'_>, out: &mut [f32]) -> Result<(), StoreError>;
}

/// Takes values from a checkpoint.
pub trait Sink {
    /// Stores `values` from `piece.start` on. A piece never leaves its tensor.
    fn write(&mut self, piece: Piece<'_>, values: &[f32]) -> Result<(), StoreError>;
}
