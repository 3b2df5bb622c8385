//! Tensors as f64: widened when an op loads them, and rounded once when it stores them.

use fitgpt_program::{
    Program,
    units::{DType, TensorId},
};
use half::{bf16, f16};

use crate::{Arguments, arena::Operands};

/// The tensors of one op being run.
pub(super) struct OpValues<'o, 'a> {
    pub(super) program: &'o Program,
    pub(super) arguments: &'o Arguments,
    pub(super) operands: &'o mut Operands<'a>,
}

impl<'a> OpValues<'_, 'a> {
    /// The tensor's axes, of which there must be `N`.
    pub(super) fn shape<const N: usize>(&self, tensor: TensorId) -> [usize; N] {
        let tensor = self.program.get(tensor);
        let axes: Vec<_> = tensor.shape.iter().map(|n| *n as usize).collect();
        axes.try_into().unwrap_or_else(|_| panic!("`{}` does not have {N} axes", tensor.name))
    }

    pub(super) fn columns(&self, tensor: TensorId) -> usize {
        self.program.get(tensor).columns() as usize
    }

    pub(super) fn dtype(&self, tensor: TensorId) -> DType {
        self.program.get(tensor).dtype
    }

    pub(super) fn tokens(&self, tensor: TensorId) -> &'a [u32] {
        self.operands.read(tensor)
    }

    /// Codes that the op changes.
    pub(super) fn take_codes(&mut self, tensor: TensorId) -> &'a mut [u8] {
        self.operands.write(tensor)
    }

    /// A tensor that the op reads.
    pub(super) fn load(&self, tensor: TensorId) -> Vec<f64> {
        match self.dtype(tensor) {
            DType::F32 => widened(self.operands.read::<f32>(tensor)),
            DType::Bf16 => widened(self.operands.read::<bf16>(tensor)),
            DType::F16 => widened(self.operands.read::<f16>(tensor)),
            other @ (DType::U32 | DType::I64 | DType::U8) => panic!("{other} is not a float type"),
        }
    }

    /// The rows in use of an activation that the op reads.
    pub(super) fn load_rows(&self, tensor: TensorId) -> Vec<f64> {
        let rows = self.rows_in_use(tensor);
        let mut values = self.load(tensor);
        values.truncate(rows * self.columns(tensor));
        values
    }

    /// How many rows of an activation are computed.
    pub(super) fn rows_in_use(&self, tensor: TensorId) -> usize {
        let rows = self.program.get(tensor).rows();
        self.arguments.rows_in_use(self.program, rows) as usize
    }

    /// A tensor that the op writes or updates.
    pub(super) fn take(&mut self, tensor: TensorId) -> ChangedTensor<'a> {
        match self.dtype(tensor) {
            DType::F32 => ChangedTensor::F32(self.operands.write(tensor)),
            DType::Bf16 => ChangedTensor::Bf16(self.operands.write(tensor)),
            DType::F16 => ChangedTensor::F16(self.operands.write(tensor)),
            other @ (DType::U32 | DType::I64 | DType::U8) => panic!("{other} is not a float type"),
        }
    }

    /// Fills the first elements of a tensor: all of them, or its rows in use.
    pub(super) fn store(&mut self, tensor: TensorId, values: &[f64]) {
        self.take(tensor).put(0, values);
    }

    /// Adds to every element of a tensor.
    pub(super) fn add(&mut self, tensor: TensorId, values: &[f64]) {
        let mut changed = self.take(tensor);
        let mut sum = changed.get();
        assert_eq!(sum.len(), values.len());
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += value;
        }
        changed.put(0, &sum);
    }
}

/// The elements of a tensor that an op changes.
pub(super) enum ChangedTensor<'a> {
    F32(&'a mut [f32]),
    Bf16(&'a mut [bf16]),
    F16(&'a mut [f16]),
}

impl ChangedTensor<'_> {
    /// Its current values.
    pub(super) fn get(&self) -> Vec<f64> {
        match self {
            Self::F32(elements) => widened(elements),
            Self::Bf16(elements) => widened(elements),
            Self::F16(elements) => widened(elements),
        }
    }

    /// Rounds `values` into it, from element `start` on.
    pub(super) fn put(&mut self, start: usize, values: &[f64]) {
        match self {
            Self::F32(elements) => rounded_into(&mut elements[start..], values),
            Self::Bf16(elements) => rounded_into(&mut elements[start..], values),
            Self::F16(elements) => rounded_into(&mut elements[start..], values),
        }
    }
}

/// The values as `dtype` stores them.
pub(super) fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    widen(dtype, &narrow(dtype, values))
}

/// The elements in a tensor's bytes.
pub fn widen(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn values<T: Float + bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<f64> {
        let elements = bytes.chunks_exact(size_of::<T>());
        elements.map(|bytes| bytemuck::pod_read_unaligned::<T>(bytes).wide()).collect()
    }
    match dtype {
        DType::F32 => values::<f32>(bytes),
        DType::Bf16 => values::<bf16>(bytes),
        DType::F16 => values::<f16>(bytes),
        other @ (DType::U32 | DType::I64 | DType::U8) => panic!("{other} is not a float type"),
    }
}

/// The bytes of a tensor that holds `values`.
pub fn narrow(dtype: DType, values: &[f64]) -> Vec<u8> {
    fn bytes<T: Float + bytemuck::Pod>(values: &[f64]) -> Vec<u8> {
        let rounded: Vec<T> = values.iter().map(|v| T::round(*v)).collect();
        bytemuck::cast_slice(&rounded).to_vec()
    }
    match dtype {
        DType::F32 => bytes::<f32>(values),
        DType::Bf16 => bytes::<bf16>(values),
        DType::F16 => bytes::<f16>(values),
        other @ (DType::U32 | DType::I64 | DType::U8) => panic!("{other} is not a float type"),
    }
}

fn widened<T: Float>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.wide()).collect()
}

fn rounded_into<T: Float>(elements: &mut [T], values: &[f64]) {
    assert!(values.len() <= elements.len(), "an op stores no more than its tensor holds");
    for (element, value) in elements.iter_mut().zip(values) {
        *element = T::round(*value);
    }
}

/// A stored float.
trait Float: Copy {
    fn wide(self) -> f64;

    /// To nearest, ties to even, in one step.
    fn round(value: f64) -> Self;
}

impl Float for f32 {
    fn wide(self) -> f64 {
        self.into()
    }

    fn round(value: f64) -> Self {
        value as f32
    }
}

impl Float for bf16 {
    fn wide(self) -> f64 {
        self.into()
    }

    fn round(value: f64) -> Self {
        Self::from_f32(rounded_to_odd(value))
    }
}

impl Float for f16 {
    fn wide(self) -> f64 {
        self.into()
    }

    fn round(value: f64) -> Self {
        Self::from_f32(rounded_to_odd(value))
    }
}

/// `value` rounded towards zero to f32, with the last bit set if anything was lost. Rounding that
/// to fewer bits rounds `value` only once. (`half`'s conversion from f64 goes through the nearest
/// f32 on some machines, and so rounds twice.)
fn rounded_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let excess = f64::from(nearest).abs() - value.abs();
    if nearest.is_finite() && excess != 0.0 {
        return f32::from_bits((nearest.to_bits() - u32::from(excess > 0.0)) | 1);
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "rounding is exact or wrong")]
    fn a_value_just_past_the_middle_is_not_rounded_twice() {
        // 1 + 2⁻⁸ is halfway between two bf16 values. The small addition is lost in f32, where the
        // tie would then go to even, which is down.
        let value = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        assert_eq!(bf16::round(value).wide(), 1.0 + 2f64.powi(-7));
        assert_eq!(bf16::round(-value).wide(), -1.0 - 2f64.powi(-7));
        let value = 1.0 + 2f64.powi(-11) - 2f64.powi(-40);
        assert_eq!(f16::round(value).wide(), 1.0);
        assert_eq!(f16::round(1.0 + 2f64.powi(-11) + 2f64.powi(-40)).wide(), 1.0 + 2f64.powi(-10));
    }

    #[test]
    fn values_outside_the_range_become_infinite_or_zero() {
        assert_eq!(f16::round(65520.0), f16::INFINITY);
        assert_eq!(f16::round(65519.9), f16::MAX);
        assert_eq!(bf16::round(-1e300), bf16::NEG_INFINITY);
        assert_eq!(f16::round(1e-300), f16::ZERO);
        assert!(f16::round(f64::NAN).is_nan());
    }
}
