//! One case: a program of one op, its inputs, and the expectation for each tensor.

use fitgpt_exec::{
    Arguments,
    random::fmix32,
    reference::{narrow, widen},
};
use fitgpt_program::{
    Life, Op, Program, ProgramKind, Tensor, TensorClass, TensorRole,
    units::{DType, TensorId},
};

use super::{
    compare::{WorstElement, WrongTensor, elements, first_difference, furthest, largest_share},
    tolerance::Tolerance,
};

/// The expected contents of a tensor after the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expected {
    /// Unchanged.
    Untouched,
    /// The reference's values, within the tolerance.
    Within(Tolerance),
    /// Anything.
    Anything,
}

/// A program of one op that any backend can run.
#[derive(Clone, Debug)]
pub(super) struct OpCase {
    pub(super) program: Program,
    pub(super) arguments: Arguments,
    /// The bytes of the first tensors; the op writes the others.
    pub(super) inputs: Vec<Vec<u8>>,
    title: String,
    expected: Vec<Expected>,
    columns: Vec<usize>, // of a row, for counting the rows in use
    prompt: Option<Prompt>,
}

/// A prompt, of which only some rows are in use.
#[derive(Clone, Copy, Debug)]
struct Prompt {
    seq: usize,
    length: usize,
}

impl OpCase {
    /// Prepares the case for a backend that rounds the factors of its products to the type of the
    /// activations: replaces the weights by values that this rounding does not change. The gradient
    /// of the logits, the probabilities of attention and the gradients of its scores are factors
    /// too, but are computed inside an op, so the tolerances allow for their rounding.
    pub(super) fn round_factors(&mut self) {
        let is_half = |tensor: &&Tensor| matches!(tensor.dtype, DType::F16 | DType::Bf16);
        let Some(half) = self.program.tensors().iter().find(is_half).map(|tensor| tensor.dtype)
        else {
            return;
        };
        let weight = self.program.find("weight");
        if let Some(values) = weight.and_then(|weight| self.inputs.get_mut(weight.index())) {
            let rounded = narrow(half, &widen(DType::F32, values));
            *values = narrow(DType::F32, &widen(half, &rounded));
        }
        let products = match self.program.ops()[0] {
            Op::CrossEntropyBackward { d_x, d_weight, .. } => vec![d_x, d_weight],
            Op::Attention { out, .. } => vec![out],
            Op::AttentionBackward { d_qkv, .. } => d_qkv.tensors().collect(),
            _ => Vec::new(),
        };
        for tensor in products {
            if let Expected::Within(tolerance) = &mut self.expected[tensor.index()] {
                *tolerance = tolerance.with_rounded_factor(half);
            }
        }
    }

    /// The case with its weight rounded and stored as its activations are, as sampling may read it;
    /// `None` for ops that never read such a weight.
    pub(super) fn with_stored_matrix(&self) -> Option<Self> {
        use Op::{Linear, LinearGelu, LinearResidual, LinearSwiGlu};
        let op = &self.program.ops()[0];
        let (Linear { weight, .. }
        | LinearGelu { weight, .. }
        | LinearSwiGlu { weight, .. }
        | LinearResidual { weight, .. }) = *op
        else {
            return None;
        };
        let dtype = self.dtype();
        let mut case = self.clone();
        let (given, written) = self.program.tensors().split_at(self.inputs.len());
        let mut given = given.to_vec();
        given[weight.index()].dtype = dtype;
        case.program = Program::new(self.program.kind(), given);
        for tensor in written {
            case.program.tensor(tensor.clone());
        }
        case.program.op(op.clone());
        let values = widen(DType::F32, &self.inputs[weight.index()]);
        case.inputs[weight.index()] = narrow(dtype, &values);
        Some(case)
    }

    /// By tensor.
    pub(super) fn expected(&self) -> impl Iterator<Item = (TensorId, Expected)> {
        (0..).map(TensorId).zip(self.expected.iter().copied())
    }

    /// The worst element, if it is outside the tolerance.
    pub(super) fn outside(
        &self,
        tensor: TensorId,
        expected: &[u8],
        found: &[u8],
    ) -> Option<WrongTensor> {
        let Expected::Within(tolerance) = self.expected[tensor.index()] else { return None };
        let dtype = self.program.get(tensor).dtype;
        let (expected, found) = (elements(dtype, expected), elements(dtype, found));
        let in_use = |element: &usize| self.is_in_use(tensor, *element);
        let worst = furthest(&expected, &found, in_use, tolerance)?;
        Some(self.failure(tensor, worst, tolerance.why))
    }

    /// The largest error of a tensor, as a share of the allowed error.
    pub(super) fn share_of_allowed(&self, tensor: TensorId, expected: &[u8], found: &[u8]) -> f64 {
        let Expected::Within(tolerance) = self.expected[tensor.index()] else { return 0.0 };
        let dtype = self.program.get(tensor).dtype;
        let (expected, found) = (elements(dtype, expected), elements(dtype, found));
        largest_share(&expected, &found, |element| self.is_in_use(tensor, *element), tolerance)
    }

    /// The storage type of its activations.
    pub(super) fn dtype(&self) -> DType {
        let mut types = self.program.tensors().iter().map(|tensor| tensor.dtype);
        types.find(|dtype| matches!(dtype, DType::F16 | DType::Bf16)).unwrap_or(DType::F32)
    }

    /// The first element whose bits differ.
    pub(super) fn differing_bits(
        &self,
        tensor: TensorId,
        expected: &[u8],
        found: &[u8],
        why: &'static str,
    ) -> Option<WrongTensor> {
        let dtype = self.program.get(tensor).dtype;
        let in_use = |element: &usize| self.is_in_use(tensor, *element);
        Some(self.failure(tensor, first_difference(dtype, expected, found, in_use)?, why))
    }

    fn failure(&self, tensor: TensorId, worst: WorstElement, why: &'static str) -> WrongTensor {
        let tensor = self.program.get(tensor).name.clone();
        WrongTensor {
            op: self.program.ops()[0].name(),
            case: self.title.clone(),
            tensor,
            worst,
            why,
        }
    }

    fn is_in_use(&self, tensor: TensorId, element: usize) -> bool {
        let is_written = tensor.index() >= self.inputs.len();
        match self.prompt {
            Some(Prompt { seq, length }) if is_written => {
                element / self.columns[tensor.index()] % seq < length
            }
            _ => true,
        }
    }
}

/// Builds a case: first the tensors that the op reads or updates, then those it writes.
#[derive(Clone, Debug)]
pub(super) struct CaseBuilder {
    pub(super) arguments: Arguments,
    kind: ProgramKind,
    title: String,
    tensors: Vec<Tensor>,
    inputs: Vec<Vec<u8>>,
    expected: Vec<Expected>,
    columns: Vec<usize>,
    prompt: Option<Prompt>,
}

impl CaseBuilder {
    /// A case of training; `title` describes it.
    pub(super) fn new(title: String) -> Self {
        Self {
            arguments: Arguments { step: 3, first_sequence: 5, ..Arguments::default() },
            kind: ProgramKind::Train,
            title,
            tensors: Vec::new(),
            inputs: Vec::new(),
            expected: Vec::new(),
            columns: Vec::new(),
            prompt: None,
        }
    }

    /// A case of decoding after `length` cached tokens.
    pub(super) fn decoding(title: &str, length: u64) -> Self {
        let mut builder = Self::new(format!("{title}, decoding at {length}"));
        builder.kind = ProgramKind::Decode;
        builder.arguments.length = length;
        builder
    }

    /// A case of a prompt of `length` in a block of `seq`.
    pub(super) fn prompt(title: &str, seq: u64, length: u64) -> Self {
        let mut builder = Self::new(format!("{title}, {length} rows in use"));
        builder.kind = ProgramKind::Prefill;
        builder.arguments.length = length;
        builder.prompt = Some(Prompt { seq: seq as usize, length: length as usize });
        builder
    }

    /// A tensor that the op reads.
    pub(super) fn reads(
        &mut self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        fill: Fill,
    ) -> TensorId {
        self.given(name, shape, dtype, fill, Expected::Untouched)
    }

    /// A tensor that the op updates.
    pub(super) fn updates(
        &mut self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        fill: Fill,
        tolerance: Tolerance,
    ) -> TensorId {
        self.given(name, shape, dtype, fill, Expected::Within(tolerance))
    }

    /// Token ids below `vocab`, including the first and the last.
    pub(super) fn tokens(&mut self, name: &str, shape: &[u64], vocab: u64) -> TensorId {
        let count = shape.iter().product::<u64>() as usize;
        let seed = self.seed(name);
        let id = |i: usize| match i {
            0 => vocab as u32 - 1,
            1 => 0,
            _ => fmix32(fmix32(i as u32) ^ seed) % vocab as u32,
        };
        let bytes = (0..count).flat_map(|i| id(i).to_ne_bytes()).collect();
        self.inputs.push(bytes);
        self.tensor(name, shape, DType::U32, Life::Always, Expected::Untouched)
    }

    /// Eight-bit codes that the op updates.
    pub(super) fn updates_codes(
        &mut self,
        name: &str,
        codes: Vec<u8>,
        tolerance: Tolerance,
    ) -> TensorId {
        let shape = [codes.len() as u64];
        self.inputs.push(codes);
        self.tensor(name, &shape, DType::U8, Life::Always, Expected::Within(tolerance))
    }

    /// A tensor that the op writes.
    pub(super) fn writes(
        &mut self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        tolerance: Tolerance,
    ) -> TensorId {
        self.tensor(name, shape, dtype, Life::Output, Expected::Within(tolerance))
    }

    /// A tensor that the op may fill with anything.
    pub(super) fn writes_anything(&mut self, name: &str, shape: &[u64], dtype: DType) -> TensorId {
        self.tensor(name, shape, dtype, Life::Output, Expected::Anything)
    }

    /// A tensor with one number for each row, whose elements in use are counted as rows.
    pub(super) fn writes_one_per_row(
        &mut self,
        name: &str,
        shape: &[u64],
        tolerance: Tolerance,
    ) -> TensorId {
        let tensor = self.writes(name, shape, DType::F32, tolerance);
        self.columns[tensor.index()] = 1;
        tensor
    }

    /// The stored values of a tensor, for inputs that depend on others.
    pub(super) fn values_of(&self, tensor: TensorId) -> Vec<f64> {
        widen(self.tensors[tensor.index()].dtype, &self.inputs[tensor.index()])
    }

    /// The case that runs `op` on these tensors.
    pub(super) fn case(self, op: Op) -> OpCase {
        let Self { arguments, kind, title, mut tensors, inputs, expected, columns, prompt } = self;
        let written = tensors.split_off(inputs.len());
        let mut program = Program::new(kind, tensors);
        for tensor in written {
            program.tensor(tensor);
        }
        program.op(op);
        OpCase { program, arguments, inputs, title, expected, columns, prompt }
    }

    fn given(
        &mut self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        fill: Fill,
        expected: Expected,
    ) -> TensorId {
        let count = shape.iter().product::<u64>() as usize;
        let values = match fill {
            Fill::Normal { mean, std } => normals(self.seed(name), count)
                .into_iter()
                .map(|normal| mean + std * normal)
                .collect(),
            Fill::Values(values) => values,
        };
        assert_eq!(values.len(), count, "`{name}` is not fully filled");
        self.inputs.push(narrow(dtype, &values));
        self.tensor(name, shape, dtype, Life::Always, expected)
    }

    fn tensor(
        &mut self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        life: Life,
        expected: Expected,
    ) -> TensorId {
        let (name, shape, class) = (name.to_owned(), shape.to_vec(), TensorClass::Activation);
        let role = TensorRole::General;
        let tensor = Tensor { name, shape, dtype, class, life, role };
        self.columns.push(tensor.columns() as usize);
        self.tensors.push(tensor);
        self.expected.push(expected);
        let given = self.inputs.len();
        assert!(life != Life::Always || given == self.tensors.len(), "inputs are listed first");
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// The seed of a tensor, different for each tensor of each case.
    fn seed(&self, name: &str) -> u32 {
        let mix = |hash: u32, byte: u8| fmix32(hash ^ u32::from(byte)).wrapping_add(0x9e37_79b9);
        self.title.bytes().chain(name.bytes()).fold(0, mix)
    }
}

/// The contents of an input.
#[derive(Clone, Debug)]
pub(super) enum Fill {
    /// Random values.
    Normal {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        std: f64,
    },
    /// These values.
    Values(Vec<f64>),
}

impl Fill {
    /// Random values around zero.
    pub(super) const fn normal(std: f64) -> Self {
        Self::Normal { mean: 0.0, std }
    }
}

/// Normally distributed values from a counter (Box-Muller transform).
pub(super) fn normals(seed: u32, count: usize) -> Vec<f64> {
    let uniform = |i: u32| {
        let bits = fmix32(fmix32(i.wrapping_mul(0x9e37_79b9).wrapping_add(seed)) ^ seed);
        (f64::from(bits) + 0.5) / 4_294_967_296.0
    };
    let normal = |i: u32| {
        let (radius, turn) = (uniform(2 * i), uniform(2 * i + 1));
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
    };
    (0..count as u32).map(normal).collect()
}
