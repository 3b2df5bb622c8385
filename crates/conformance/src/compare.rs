//! Compares tensors and reports the differences.

use std::fmt;

use fitgpt_exec::reference::widen;
use fitgpt_program::units::DType;

use super::tolerance::Tolerance;

/// The element of a tensor that is furthest outside the tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstElement {
    /// Its index in the tensor.
    pub element: usize,
    /// The expected value.
    pub expected: f64,
    /// The value found.
    pub found: f64,
    /// The allowed difference.
    pub allowed: f64,
}

/// One wrong tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongTensor {
    /// The op, or the program of a whole model.
    pub op: &'static str,
    /// Shapes, types and options.
    pub case: String,
    /// The tensor's name.
    pub tensor: String,
    /// Its worst element.
    pub worst: WorstElement,
    /// The reason for the tolerance.
    pub why: &'static str,
}

impl fmt::Display for WrongTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, case, tensor, worst, why } = self;
        let WorstElement { element, expected, found, allowed } = worst;
        let apart = (found - expected).abs();
        write!(f, "`{op}` ({case}): `{tensor}`[{element}] is {found:e}, expected {expected:e}: ")?;
        write!(f, "{apart:.2e} apart, {allowed:.2e} allowed ({why})")
    }
}

/// The result of a test suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteVerdict {
    /// Tensors compared.
    pub compared: usize,
    /// The wrong ones.
    pub failures: Vec<WrongTensor>,
}

impl SuiteVerdict {
    /// Whether anything was compared and nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.compared > 0 && self.failures.is_empty()
    }

    pub(super) fn add(&mut self, failure: Option<WrongTensor>) {
        self.compared += 1;
        self.failures.extend(failure);
    }
}

impl fmt::Display for SuiteVerdict {
    /// A line for each failure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        write!(f, "{} of {} tensors are wrong", self.failures.len(), self.compared)
    }
}

/// The element furthest outside the tolerance, if any.
pub(super) fn furthest(
    expected: &[f64],
    found: &[f64],
    in_use: impl Fn(&usize) -> bool,
    tolerance: Tolerance,
) -> Option<WorstElement> {
    assert_eq!(expected.len(), found.len());
    let used: Vec<_> = (0..expected.len()).filter(in_use).collect();
    let finite = used.iter().map(|i| expected[*i].abs()).filter(|e| e.is_finite());
    let scale = finite.fold(0.0, f64::max);
    let mut worst = None;
    let mut worst_excess = 0.0;
    for element in used {
        let (expected, found) = (expected[element], found[element]);
        let allowed = tolerance.allowed(expected, scale);
        let excess = if expected.is_finite() && found.is_finite() {
            (found - expected).abs() - allowed
        } else if expected.is_nan() && found.is_nan() || expected.total_cmp(&found).is_eq() {
            0.0
        } else {
            f64::INFINITY
        };
        if excess > worst_excess {
            worst = Some(WorstElement { element, expected, found, allowed });
            worst_excess = excess;
        }
    }
    worst
}

/// The largest error, as a share of the allowed error; infinite if only one number is finite.
pub(super) fn largest_share(
    expected: &[f64],
    found: &[f64],
    in_use: impl Fn(&usize) -> bool,
    tolerance: Tolerance,
) -> f64 {
    let used: Vec<_> = (0..expected.len()).filter(in_use).collect();
    let finite = used.iter().map(|i| expected[*i].abs()).filter(|e| e.is_finite());
    let scale = finite.fold(0.0, f64::max);
    let share = |i: usize| match (found[i] - expected[i]).abs() {
        0.0 => 0.0,
        error if error.is_finite() => error / tolerance.allowed(expected[i], scale),
        _ if expected[i].total_cmp(&found[i]).is_eq() => 0.0,
        _ => f64::INFINITY,
    };
    used.into_iter().map(share).fold(0.0, f64::max)
}

/// The first element whose bits differ, if any.
pub(super) fn first_difference(
    dtype: DType,
    expected: &[u8],
    found: &[u8],
    in_use: impl Fn(&usize) -> bool,
) -> Option<WorstElement> {
    assert_eq!(expected.len(), found.len());
    let size = dtype.size() as usize;
    let differs = |i: &usize| expected[i * size..][..size] != found[i * size..][..size];
    let element = (0..expected.len() / size).filter(in_use).find(differs)?;
    let at = |bytes: &[u8]| elements(dtype, &bytes[element * size..][..size])[0];
    Some(WorstElement { element, expected: at(expected), found: at(found), allowed: 0.0 })
}

/// A tensor's elements as numbers, including token ids and codes.
pub(super) fn elements(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::U32 => {
            let ids = bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned::<u32>);
            ids.map(f64::from).collect()
        }
        DType::U8 => bytes.iter().copied().map(f64::from).collect(),
        _ => widen(dtype, bytes),
    }
}
