//! Tests any backend against the reference.
//!
//! A table of cases with odd shapes covers every op, each case a program of one op; then come small
//! whole models. A case is placed, verified and run in its own arena, on the reference and on the
//! tested backend. Every tensor that the op changes is compared within a tolerance that states its
//! reason. Tensors that an op only reads must not change.
//!
//! A backend's tests call [`judge`], [`judge_model`] and, to compare two backends (say one thread
//! with two), [`same_bits`], and assert [`SuiteVerdict::is_clean`]. Host backends should use
//! [`fitgpt_exec::Watch::Poison`] and [`WATCHED`], so that stray writes are found too.
//!
//! Promise: every kernel of every backend computes what the reference defines, in poisoned memory
//! with guard bytes. Test: `crates/exec/tests/cpu_conformance.rs`,
//! `crates/gpu/tests/conformance.rs`.

#![forbid(unsafe_code)]

mod tolerance;
mod compare;
mod case;
mod cases;
mod model;

use std::ops::ControlFlow;

use fitgpt_exec::{
    Backend, BackendError, Watch,
    reference::{Reference, ReferenceTarget},
};
use fitgpt_program::{
    Program,
    memory::{Limits, Target, VerifiedPlan, place, verify},
    units::{Bytes, DType, ProgramId, TensorId},
};

use self::case::{Expected, OpCase};
pub use self::{
    compare::{SuiteVerdict, WorstElement, WrongTensor},
    model::{judge_model, judge_model_stored},
};

/// A host's limits with guard bytes after every slot.
pub const WATCHED: Limits = Limits { guard: Bytes::new(64), ..Limits::HOST };

/// Makes a backend for a plan that the suite made for the backend's target.
pub type MakeBackend<'m> =
    &'m mut dyn FnMut(VerifiedPlan) -> Result<Box<dyn Backend>, BackendError>;

/// The storage types of activations.
pub const DTYPES: [DType; 3] = [DType::F32, DType::Bf16, DType::F16];

/// How a backend multiplies a float32 factor, such as a weight, by a factor of a half type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factors {
    /// As stored.
    Exact,
    /// Rounded to the half type, which tensor cores require and PyTorch's autocast does. The suite
    /// gives such a backend weights that this rounding does not change, so that the tolerances are
    /// the same.
    Rounded,
}

/// Compares every op on `make`'s backend with the reference.
pub fn judge(target: &impl Target, make: MakeBackend<'_>) -> Result<SuiteVerdict, BackendError> {
    judge_stored(&DTYPES, Factors::Exact, target, make)
}

/// Like [`judge`], for a backend that stores activations in some types only.
pub fn judge_stored(
    dtypes: &[DType],
    factors: Factors,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<SuiteVerdict, BackendError> {
    let mut verdict = SuiteVerdict::default();
    judge_each(&CaseSelection { dtypes, factors, ops: &[] }, target, make, &mut |judged| {
        verdict.compared += judged.compared;
        verdict.failures.extend(judged.failures);
        ControlFlow::Continue(())
    })?;
    Ok(verdict)
}

/// The cases to run.
#[derive(Clone, Copy, Debug)]
pub struct CaseSelection<'s> {
    /// Types of activations.
    pub dtypes: &'s [DType],
    /// How it multiplies.
    pub factors: Factors,
    /// Names of ops; empty for all.
    pub ops: &'s [&'s str],
}

impl CaseSelection<'_> {
    fn has(&self, case: &OpCase) -> bool {
        let op = case.program.ops()[0].name();
        self.dtypes.contains(&case.dtype()) && (self.ops.is_empty() || self.ops.contains(&op))
    }
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedCase {
    /// The op's name.
    pub op: &'static str,
    /// The storage type of its activations.
    pub dtype: DType,
    /// Tensors compared.
    pub compared: usize,
    /// The largest error, as a share of the allowed error.
    pub worst: f64,
    /// The wrong tensors.
    pub failures: Vec<WrongTensor>,
}

/// Like [`judge_stored`], but reports each case as soon as it has run. Stops if `report` returns
/// [`ControlFlow::Break`].
pub fn judge_each(
    selection: &CaseSelection<'_>,
    target: &impl Target,
    make: MakeBackend<'_>,
    report: &mut dyn FnMut(JudgedCase) -> ControlFlow<()>,
) -> Result<(), BackendError> {
    for mut case in cases::all().filter(|case| selection.has(case)) {
        if selection.factors == Factors::Rounded {
            case.round_factors();
        }
        let expected = results(&case, &ReferenceTarget(WATCHED), &mut reference)?;
        let found = results(&case, target, make)?;
        let (op, dtype) = (case.program.ops()[0].name(), case.dtype());
        let mut judged = JudgedCase { op, dtype, compared: 0, worst: 0.0, failures: Vec::new() };
        for (tensor, how) in case.expected() {
            let (expected, found) = (&expected[tensor.index()], &found[tensor.index()]);
            judged.compared += usize::from(how != Expected::Anything);
            match how {
                Expected::Anything => {}
                Expected::Untouched => {
                    let why = "an op must not change its inputs";
                    judged.failures.extend(case.differing_bits(tensor, expected, found, why));
                }
                Expected::Within(_) => {
                    judged.worst = judged.worst.max(case.share_of_allowed(tensor, expected, found));
                    judged.failures.extend(case.outside(tensor, expected, found));
                }
            }
        }
        if report(judged).is_break() {
            break;
        }
    }
    Ok(())
}

/// Compares every op on two backends, which must agree bit for bit. Each uses the plan for its
/// target.
pub fn same_bits(
    first: &impl Target,
    make_first: MakeBackend<'_>,
    second: &impl Target,
    make_second: MakeBackend<'_>,
) -> Result<SuiteVerdict, BackendError> {
    let mut verdict = SuiteVerdict::default();
    for case in cases::all() {
        let expected = results(&case, first, make_first)?;
        let found = results(&case, second, make_second)?;
        for (tensor, how) in case.expected() {
            if !matches!(how, Expected::Anything) {
                let (expected, found) = (&expected[tensor.index()], &found[tensor.index()]);
                verdict.add(case.differing_bits(tensor, expected, found, "the same bits"));
            }
        }
    }
    Ok(verdict)
}

/// Checks that storing matrices as sampling does changes no bit of a product of activations of type
/// `dtype`.
pub fn stored_matrices_change_no_bit(
    dtype: DType,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<SuiteVerdict, BackendError> {
    assert_eq!(target.sampled_matrices(dtype), dtype);
    let mut verdict = SuiteVerdict::default();
    for case in cases::all().filter(|case| case.dtype() == dtype) {
        let Some(stored) = case.with_stored_matrix() else { continue };
        let expected = results(&case, target, make)?;
        let found = results(&stored, target, make)?;
        for (tensor, how) in case.expected() {
            if matches!(how, Expected::Within(_)) {
                let (expected, found) = (&expected[tensor.index()], &found[tensor.index()]);
                verdict.add(case.differing_bits(tensor, expected, found, "the same bits"));
            }
        }
    }
    Ok(verdict)
}

/// The reference backend.
fn reference(plan: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
    Ok(Box::new(Reference::new(plan, WATCHED, Watch::Poison)?))
}

/// A backend for a verified plan of `programs`.
fn planned(
    programs: Vec<Program>,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<Box<dyn Backend>, BackendError> {
    let plan = place(programs, target).expect("a case is small");
    make(verify(plan, target).expect("the checker accepts what the placer made"))
}

/// The bytes of every tensor after the case has run.
fn results(
    case: &OpCase,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<Vec<Vec<u8>>, BackendError> {
    let mut backend = planned(vec![case.program.clone()], target, make)?;
    for (index, bytes) in (0..).zip(&case.inputs) {
        backend.write(ProgramId::FIRST, TensorId(index), Bytes::ZERO, bytes)?;
    }
    backend.run(ProgramId::FIRST, &case.arguments)?;
    let ids = (0..case.program.tensors().len() as u32).map(TensorId);
    ids.map(|tensor| bytes_of(&mut *backend, ProgramId::FIRST, tensor)).collect()
}

fn bytes_of(
    backend: &mut dyn Backend,
    program: ProgramId,
    tensor: TensorId,
) -> Result<Vec<u8>, BackendError> {
    let size = backend.plan().program(program).get(tensor).bytes();
    let mut bytes = vec![0; size.index()];
    backend.read(program, tensor, Bytes::ZERO, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, ops::Range};

    use fitgpt_exec::{
        Arguments,
        reference::{narrow, widen},
    };
    use fitgpt_program::units::OpIndex;

    use super::{compare::elements, *};

    #[test]
    fn the_reference_agrees_with_itself() {
        let device = ReferenceTarget(WATCHED);
        let verdict = judge(&device, &mut reference).unwrap();
        assert!(verdict.is_clean(), "{verdict}");
        let verdict = same_bits(&device, &mut reference, &device, &mut reference).unwrap();
        assert!(verdict.is_clean(), "{verdict}");
    }

    #[test]
    fn small_models_on_the_reference_pass_the_suite() {
        let verdict = judge_model(&ReferenceTarget(WATCHED), &mut reference).unwrap();
        assert!(verdict.is_clean(), "{verdict}");
    }

    /// The reference, except that one element of every float tensor reads slightly too large.
    struct Flawed(Box<dyn Backend>);

    /// Relative to the tensor's largest element; larger than any tolerance.
    const FLAW: f64 = 0.04;

    impl Backend for Flawed {
        fn plan(&self) -> &VerifiedPlan {
            self.0.plan()
        }

        fn run_part(
            &mut self,
            program: ProgramId,
            ops: Range<usize>,
            arguments: &Arguments,
        ) -> Result<(), BackendError> {
            self.0.run_part(program, ops, arguments)
        }

        fn run_op_by_op(
            &mut self,
            program: ProgramId,
            arguments: &Arguments,
            ended: &mut dyn FnMut(OpIndex),
        ) -> Result<(), BackendError> {
            self.0.run_op_by_op(program, arguments, ended)
        }

        fn write(
            &mut self,
            program: ProgramId,
            tensor: TensorId,
            start: Bytes,
            values: &[u8],
        ) -> Result<(), BackendError> {
            self.0.write(program, tensor, start, values)
        }

        fn read(
            &mut self,
            program: ProgramId,
            tensor: TensorId,
            start: Bytes,
            values: &mut [u8],
        ) -> Result<(), BackendError> {
            self.0.read(program, tensor, start, values)?;
            let dtype = self.plan().program(program).get(tensor).dtype;
            if dtype == DType::U8 {
                values[0] ^= 1;
            } else if dtype != DType::U32 {
                let mut floats = widen(dtype, values);
                let scale =
                    floats.iter().filter(|f| f.is_finite()).fold(0.0, |s: f64, f| s.max(f.abs()));
                floats[0] += FLAW * scale.max(1.0);
                values.copy_from_slice(&narrow(dtype, &floats));
            }
            Ok(())
        }
    }

    #[test]
    fn one_wrong_element_fails_every_tensor_that_is_compared() {
        let mut flawed = |plan| Ok(Box::new(Flawed(reference(plan)?)) as Box<dyn Backend>);
        let verdict = judge(&ReferenceTarget(WATCHED), &mut flawed).unwrap();
        let mut expected = 0;
        for case in cases::all() {
            let bytes = results(&case, &ReferenceTarget(WATCHED), &mut reference).unwrap();
            let is_flawed = |tensor: TensorId| {
                let dtype = case.program.get(tensor).dtype;
                dtype != DType::U32 && elements(dtype, &bytes[tensor.index()])[0].is_finite()
            };
            let compared = case.expected().filter(|(_, how)| *how != Expected::Anything);
            expected += compared.filter(|(tensor, _)| is_flawed(*tensor)).count();
        }
        assert_eq!(verdict.failures.len(), expected, "{verdict}");
    }

    /// The names in the source of `Op::name`, which has one arm for each.
    fn names_of_ops() -> BTreeSet<&'static str> {
        let source = include_str!("../../program/src/op.rs");
        let (_, body) = source.split_once("pub fn name(&self)").expect("`Op::name`");
        let arms = body.lines().map(str::trim).take_while(|line| *line != "}").skip(1);
        let names = arms.filter_map(|arm| arm.split_once("=> \"")?.1.strip_suffix("\","));
        names.chain(fitgpt_program::ElementRule::NAMES.iter().copied()).collect()
    }

    #[test]
    fn every_op_that_can_run_has_a_case() {
        let tested: BTreeSet<_> = cases::all().map(|case| case.program.ops()[0].name()).collect();
        let names = names_of_ops();
        assert!(names.contains("embed") && names.contains("last_row"), "{names:?}");
        assert_eq!(tested, names);
    }
}
