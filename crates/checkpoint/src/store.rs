//! The tensors of a checkpoint, and the interface to the backend that has their bytes.

use fitgpt_model::{Model, Naming, Parameter, naming, optimizer::Optimizer};
use fitgpt_program::units::DType;
use fitgpt_say::{Lang, Say, SayError};

/// A tensor of a run: a parameter, or one of its optimizer states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorEntry {
    /// The parameter: `h.3.attn.c_attn.weight`.
    pub parameter: String,
    /// Which of the parameter's states; `None` for the weights.
    pub state: Option<&'static str>,
    /// Row-major, outermost first; `(out, in)` for the weights of a linear layer.
    pub shape: Vec<usize>,
    /// The type of an element in memory and in our files.
    pub dtype: DType,
}

impl TensorEntry {
    /// The weights of a parameter.
    pub fn weights(parameter: impl Into<String>, shape: &[usize]) -> Self {
        let (parameter, shape) = (parameter.into(), shape.to_vec());
        Self { parameter, state: None, shape, dtype: DType::F32 }
    }

    /// Its name in `state.safetensors`, and in errors.
    pub fn name(&self) -> String {
        match self.state {
            None => self.parameter.clone(),
            Some(state) => format!("{state}.{}", self.parameter),
        }
    }

    /// How many elements it has.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of one element.
    pub fn width(&self) -> usize {
        self.dtype.size() as usize
    }
}

/// All tensors of a checkpoint.
#[derive(Clone, Debug)]
pub struct Tensors {
    /// How the weights are named and laid out in `model.safetensors`.
    pub naming: &'static Naming,
    /// The weights of every parameter, without a tied head.
    pub weights: Vec<TensorEntry>,
    /// Every state of every parameter.
    pub states: Vec<TensorEntry>,
}

impl Tensors {
    /// The weights of `model`, without any state.
    pub fn weights_of(model: &Model) -> Self {
        let weights = |p: &Parameter| TensorEntry::weights(p.name.clone(), &sizes(&p.shape));
        let weights = model.parameters().iter().map(weights).collect();
        Self { naming: naming(model.family), weights, states: Vec::new() }
    }

    /// The weights of `model` and the states that `optimizer` keeps for them.
    pub fn of(model: &Model, optimizer: &Optimizer) -> Self {
        let states = |p: &Parameter| {
            let name = p.name.clone();
            optimizer.states(p).into_iter().map(move |state| TensorEntry {
                parameter: name.clone(),
                state: Some(state.name),
                shape: sizes(&state.shape),
                dtype: state.dtype,
            })
        };
        let states = model.parameters().iter().flat_map(states).collect();
        Self { states, ..Self::weights_of(model) }
    }
}

fn sizes(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|n| *n as usize).collect()
}

/// Some elements of a tensor, in its row-major order.
#[derive(Clone, Copy, Debug)]
pub struct TensorPiece<'a> {
    /// Which tensor.
    pub entry: &'a TensorEntry,
    /// The first byte of the piece, relative to the tensor.
    pub start: usize,
}

/// Why a backend cannot read or write values.
#[derive(Debug)]
pub struct StoreError(Box<dyn SayError>);

impl<E: SayError> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl Say for StoreError {
    fn say(&self, lang: Lang) -> String {
        self.0.say(lang)
    }
}

/// The source of a save's values, as bytes in memory.
pub trait TensorSource {
    /// Fills `out` with the bytes from `piece.start`. A piece has whole elements and is within its
    /// tensor.
    fn read(&mut self, piece: TensorPiece<'_>, out: &mut [u8]) -> Result<(), StoreError>;
}

/// The destination of a checkpoint's values, as bytes in memory.
pub trait TensorSink {
    /// Stores `bytes` at `piece.start`. A piece has whole elements and is within its tensor.
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError>;
}
