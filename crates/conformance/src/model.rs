//! Small whole models: checks that a backend's ops work together.
//!
//! - Gradients match the reference within the tolerance.
//! - Recomputing any mix of layers gives the same bits.
//! - Splitting a batch gives the same gradients, up to the order of summation.
//! - Decoding with a cache gives the logits of a prompt with all tokens at once.

use fitgpt_config::Family;
use fitgpt_exec::{
    Arguments, Backend, BackendError,
    random::fmix32,
    reference::{ReferenceTarget, narrow, widen},
};
use fitgpt_model::{
    Biases, MlpKind, Model, NormKind, Positions,
    decoder::{decode, prefill, train},
    family::gpt2::Gpt2Sizes,
    optimizer::Optimizer,
    programs::{SamplingHandles, SamplingPrograms},
    shard::Share,
    state::SampledTypes,
    training::{Recompute, Training},
};
use fitgpt_program::{
    Adam, Gelu, Names, Program, Rope, RopeScaling, TensorClass,
    memory::Target,
    units::{Bytes, DType, ProgramId, Real, TensorId},
};

use super::{
    DTYPES, Factors, MakeBackend, WATCHED, bytes_of,
    case::normals,
    compare::{SuiteVerdict, WrongTensor, elements, first_difference, furthest},
    planned, reference,
    tolerance::{Tolerance, model as chain},
};

const SIZES: Gpt2Sizes = Gpt2Sizes {
    layers: 2,
    heads: 3,
    channels: 24,
    vocab: 37,
    block: 9,
    has_bias: true,
    gelu: Gelu::Exact,
};

const MODEL: Model = SIZES.model();

/// A Llama with every feature that GPT-2 lacks: rotary positions, RMS norm, fewer key heads,
/// normalised queries and keys, a gated MLP, an untied head, heads narrower than the width.
const LLAMA: Model = Model {
    family: Family::Qwen3,
    layers: 2,
    channels: 20,
    vocab: 37,
    block: 9,
    heads: 4,
    kv_heads: 2,
    head_channels: 6,
    mlp_channels: 28,
    positions: Positions::Rotary(Rope { theta: Real::new(100.0), scaling: RopeScaling::None }),
    norm: NormKind::Rms,
    norm_epsilon: Real::new(1e-6),
    has_qk_norm: true,
    mlp: MlpKind::SwiGlu,
    biases: Biases { norm: false, qkv: true, attention_out: false, mlp: false },
    is_tied: false,
};

/// Sequences of the effective batch.
const SEQUENCES: u64 = 4;

/// The dropout rate.
const DROPOUT: f32 = 0.2;

/// Without a scale, float16 loses small gradients.
const LOSS_SCALE: f32 = 64.0;

/// Tests small models on `make`'s backend.
pub fn judge_model(
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<SuiteVerdict, BackendError> {
    judge_model_stored(&DTYPES, Factors::Exact, target, make)
}

/// Like [`judge_model`], for a backend that stores activations in some types only.
pub fn judge_model_stored(
    dtypes: &[DType],
    factors: Factors,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<SuiteVerdict, BackendError> {
    let mut verdict = SuiteVerdict::default();
    for dtype in dtypes.iter().copied() {
        let plain = Gpt2Sizes { has_bias: false, gelu: Gelu::Tanh, ..SIZES }.model();
        let tied = Model { has_qk_norm: false, is_tied: true, kv_heads: 4, ..LLAMA };
        for model in [MODEL, plain, LLAMA, tied] {
            judge_training(&mut verdict, &ModelCase { model, dtype, factors }, target, make)?;
        }
        for model in [MODEL, LLAMA] {
            judge_sampling(&mut verdict, &ModelCase { model, dtype, factors }, target, make)?;
        }
    }
    Ok(verdict)
}

/// A model, the storage type of its activations, and how the backend multiplies.
struct ModelCase {
    model: Model,
    dtype: DType,
    factors: Factors,
}

impl ModelCase {
    /// A type that must be able to store the model's weights.
    fn weights(&self) -> DType {
        match self.factors {
            Factors::Exact => DType::F32,
            Factors::Rounded => self.dtype,
        }
    }

    /// A step of [`SEQUENCES`], `batch` at a time.
    fn training(&self, batch: u64, recompute: Recompute) -> Training {
        let seq = self.model.block.into();
        Training {
            batch,
            seq,
            accumulation: SEQUENCES / batch,
            eval_batch: batch,
            eval_seq: seq,
            dropout: DROPOUT,
            optimizer: Optimizer::adamw(Adam {
                beta1: 0.9,
                beta2: 0.95,
                epsilon: 1e-8,
                weight_decay: 0.1,
                grad_clip: 1.0,
            }),
            activations: self.dtype,
            recompute,
            loss_chunk_rows: 5,
            lanes: 1,
            sampled: 0,
            share: Share::WHOLE,
        }
    }
}

fn judge_training(
    verdict: &mut SuiteVerdict,
    case: &ModelCase,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<(), BackendError> {
    let keep = Recompute { blocks: 0, cheap: 0 };
    let whole = case.training(SEQUENCES, keep);
    let kept = gradients(case, &whole, target, make)?;

    let defined = gradients(case, &whole, &ReferenceTarget(WATCHED), &mut reference)?;
    let name = format!("{}, {}, against the reference", case.model.family, case.dtype);
    let ops = train(&case.model, &whole, Names::Kept).program.ops().len();
    compare(verdict, &name, chain(case.dtype, ops), &defined, &kept);

    let layers = case.model.layers;
    let mixes = (0..=layers).flat_map(|b| (0..=layers - b).map(move |cheap| (b, cheap)));
    for (blocks, cheap) in mixes.filter(|mix| *mix != (0, 0)) {
        let training = case.training(SEQUENCES, Recompute { blocks, cheap });
        let again = gradients(case, &training, target, make)?;
        let family = case.model.family;
        let name =
            format!("{family}, {}, {blocks} blocks and {cheap} cheap parts recomputed", case.dtype);
        for ((name_of, kept), (_, again)) in kept.iter().zip(&again) {
            let worst = first_difference(DType::F32, kept, again, |_| true);
            let (op, case, tensor) = ("train", name.clone(), name_of.clone());
            let why = "recomputing gives the same bits";
            verdict.add(worst.map(|worst| WrongTensor { op, case, tensor, worst, why }));
        }
    }

    for batch in [1, 2] {
        let split = gradients(case, &case.training(batch, keep), target, make)?;
        let name = format!("{}, {batch} of {SEQUENCES} at a time", case.dtype);
        // Activations do not depend on the split; only the order of f32 sums does.
        compare(verdict, &name, chain(DType::F32, ops), &kept, &split);
    }
    Ok(())
}

/// The loss and the gradients of one step, as bytes by name.
fn gradients(
    case: &ModelCase,
    training: &Training,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<Vec<(String, Vec<u8>)>, BackendError> {
    let program = train(&case.model, training, Names::Kept).program;
    let mut run = ModelRun::new(program, training, case.weights(), target, make)?;
    run.step()?;
    let mut list = Vec::new();
    for (tensor, of) in (0..).map(TensorId).zip(run.program.state()) {
        if of.class == TensorClass::Gradient || of.name == "loss" {
            list.push((of.name.clone(), bytes_of(&mut *run.backend, ProgramId::FIRST, tensor)?));
        }
    }
    Ok(list)
}

/// A model with weights, before its first step.
struct ModelRun {
    program: Program,
    training: Training,
    backend: Box<dyn Backend>,
}

impl ModelRun {
    fn new(
        program: Program,
        training: &Training,
        weights: DType,
        target: &impl Target,
        make: MakeBackend<'_>,
    ) -> Result<Self, BackendError> {
        let mut backend = planned(vec![program.clone()], target, make)?;
        fill_state(&mut *backend, &program, weights)?;
        Ok(Self { program, training: *training, backend })
    }

    /// Runs all micro-batches of a step, which add to the gradients and the loss.
    fn step(&mut self) -> Result<(), BackendError> {
        let Training { batch, seq, accumulation, .. } = self.training;
        for first_sequence in (0..accumulation).map(|micro| micro * batch) {
            for (ahead, name) in [(0, "tokens"), (1, "targets")] {
                let tensor = self.program.find(name).expect("the builder names this tensor");
                let tokens: Vec<u8> = (first_sequence..first_sequence + batch)
                    .flat_map(|s| (0..seq).map(move |t| token(s, t + ahead)))
                    .flat_map(u32::to_ne_bytes)
                    .collect();
                self.backend.write(ProgramId::FIRST, tensor, Bytes::ZERO, &tokens)?;
            }
            let loss_scale = LOSS_SCALE;
            let arguments =
                Arguments { step: 7, first_sequence, loss_scale, ..Arguments::default() };
            self.backend.run(ProgramId::FIRST, &arguments)?;
        }
        Ok(())
    }
}

/// Token `t` of sequence `s`.
fn token(s: u64, t: u64) -> u32 {
    fmix32(fmix32(s as u32 + 1) ^ t as u32) % MODEL.vocab
}

/// Writes weights with which every part of the model affects the loss, and zeros for other state.
/// The weights are values that the type `weights` can store.
fn fill_state(
    backend: &mut dyn Backend,
    program: &Program,
    weights: DType,
) -> Result<(), BackendError> {
    for (index, tensor) in (0..).zip(program.state()) {
        // The backend fills constants itself.
        if tensor.class == TensorClass::Input {
            continue;
        }
        let is_norm = tensor.shape.len() == 1 && tensor.name.ends_with("weight");
        let (mean, std) = match tensor.class {
            TensorClass::Parameter if is_norm => (1.0, 0.2),
            TensorClass::Parameter => (0.0, 0.2),
            _ => (0.0, 0.0),
        };
        let normals = normals(index, tensor.count() as usize);
        let values: Vec<_> = normals.into_iter().map(|normal| mean + std * normal).collect();
        let values = widen(weights, &narrow(weights, &values));
        backend.write(
            ProgramId::FIRST,
            TensorId(index),
            Bytes::ZERO,
            &narrow(tensor.dtype, &values),
        )?;
    }
    Ok(())
}

fn compare(
    verdict: &mut SuiteVerdict,
    case: &str,
    tolerance: Tolerance,
    expected: &[(String, Vec<u8>)],
    found: &[(String, Vec<u8>)],
) {
    for ((tensor, expected), (_, found)) in expected.iter().zip(found) {
        let floats = [expected, found].map(|bytes| elements(DType::F32, bytes));
        let worst = furthest(&floats[0], &floats[1], |_| true, tolerance);
        let (case, tensor, why) = (case.to_owned(), tensor.clone(), tolerance.why);
        verdict.add(worst.map(|worst| WrongTensor { op: "train", case, tensor, worst, why }));
    }
}

/// Two sequences: compares a prompt of all tokens with a shorter one followed by single tokens.
fn judge_sampling(
    verdict: &mut SuiteVerdict,
    case: &ModelCase,
    target: &impl Target,
    make: MakeBackend<'_>,
) -> Result<(), BackendError> {
    const BATCH: u64 = 2;
    const PROMPT: u64 = 4;
    let ModelCase { model, dtype, .. } = *case;
    let matrices = target.sampled_matrices(dtype);
    let types = SampledTypes { activations: dtype, matrices };
    let programs = SamplingPrograms {
        prefill: prefill(&model, BATCH, types),
        decode: decode(&model, BATCH, types),
    };
    let SamplingHandles { prefill, decode } = programs.handles();
    let state = programs.prefill.program.clone();
    let tolerance = chain(dtype, state.ops().len());
    let mut backend = planned(programs.into(), target, make)?;
    fill_state(&mut *backend, &state, case.weights())?;
    let block = u64::from(MODEL.block);
    let prompt = |backend: &mut dyn Backend, cache_row, length| {
        let ids = (0..block).flat_map(|t| token(cache_row, t).to_ne_bytes());
        let ids = ids.collect::<Vec<_>>();
        backend.write(prefill.program, prefill.tensors.tokens, Bytes::ZERO, &ids)?;
        backend.run(prefill.program, &Arguments { length, cache_row, ..Arguments::default() })?;
        bytes_of(backend, prefill.program, prefill.tensors.logits)
    };

    let whole: Vec<_> = (PROMPT + 1..=block)
        .map(|length| (0..BATCH).map(|b| prompt(&mut *backend, b, length)).collect())
        .collect::<Result<Vec<Vec<_>>, _>>()?;
    for row in 0..BATCH {
        prompt(&mut *backend, row, PROMPT)?;
    }
    for (length, whole) in (PROMPT..block).zip(whole) {
        let ids = (0..BATCH).flat_map(|b| token(b, length).to_ne_bytes()).collect::<Vec<_>>();
        backend.write(decode.program, decode.tensors.tokens, Bytes::ZERO, &ids)?;
        backend.run(decode.program, &Arguments { length, ..Arguments::default() })?;
        let bytes = bytes_of(&mut *backend, decode.program, decode.tensors.logits)?;
        let found = elements(DType::F32, &bytes);
        let expected = elements(DType::F32, &whole.concat());
        let worst = furthest(&expected, &found, |_| true, tolerance);
        let (op, case, tensor) = ("decode", format!("{dtype}, token {length}"), "logits".into());
        let why = tolerance.why;
        verdict.add(worst.map(|worst| WrongTensor { op, case, tensor, worst, why }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use fitgpt_model::decoder::evaluate;
    use fitgpt_program::{memory::VerifiedPlan, units::OpIndex};

    use super::*;

    const F32: ModelCase = ModelCase { model: MODEL, dtype: DType::F32, factors: Factors::Exact };

    impl ModelRun {
        fn on_the_reference(program: Program, training: &Training) -> Self {
            let target = ReferenceTarget(WATCHED);
            Self::new(program, training, DType::F32, &target, &mut reference).unwrap()
        }

        fn values(&mut self, name: &str) -> Vec<f64> {
            let tensor = self.program.find(name).unwrap();
            widen(DType::F32, &bytes_of(&mut *self.backend, ProgramId::FIRST, tensor).unwrap())
        }

        fn set(&mut self, name: &str, values: &[f64]) {
            let tensor = self.program.find(name).unwrap();
            let bytes = narrow(DType::F32, values);
            self.backend.write(ProgramId::FIRST, tensor, Bytes::ZERO, &bytes).unwrap();
        }

        /// The loss of the step with `parameter` moved along `direction`.
        fn loss_at(&mut self, parameter: &str, direction: &[f64], distance: f64) -> f64 {
            let old = self.values(parameter);
            let moved = old.iter().zip(direction).map(|(p, d)| p + distance * d);
            let moved: Vec<_> = moved.collect();
            self.set(parameter, &moved);
            self.set("loss", &[0.0]);
            self.step().unwrap();
            self.set(parameter, &old);
            self.values("loss")[0]
        }
    }

    /// The reference with an injected mistake.
    struct Faulty {
        backend: Box<dyn Backend>,
        fault: Fault,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        /// One projection omits its bias.
        NoBias,
        /// Every token is one position too far.
        NextPosition,
        /// One dropout does not scale the elements it keeps.
        NoScale,
        /// The loss is a mean over one token too few.
        MeanOfLoss,
    }

    impl Faulty {
        fn scaled(&self, arguments: &Arguments) -> Arguments {
            let rows = SEQUENCES as f32 * MODEL.block as f32;
            let factor = if self.fault == Fault::MeanOfLoss { rows / (rows - 1.0) } else { 1.0 };
            Arguments { loss_scale: arguments.loss_scale * factor, ..*arguments }
        }
    }

    impl Backend for Faulty {
        fn plan(&self) -> &VerifiedPlan {
            self.backend.plan()
        }

        fn run_part(
            &mut self,
            program: ProgramId,
            ops: Range<usize>,
            arguments: &Arguments,
        ) -> Result<(), BackendError> {
            let arguments = self.scaled(arguments);
            self.backend.run_part(program, ops, &arguments)
        }

        fn run_op_by_op(
            &mut self,
            program: ProgramId,
            arguments: &Arguments,
            ended: &mut dyn FnMut(OpIndex),
        ) -> Result<(), BackendError> {
            let arguments = self.scaled(arguments);
            self.backend.run_op_by_op(program, &arguments, ended)
        }

        fn write(
            &mut self,
            program: ProgramId,
            tensor: TensorId,
            start: Bytes,
            values: &[u8],
        ) -> Result<(), BackendError> {
            let name = self.plan().program(program).get(tensor).name.clone();
            let mut values = values.to_vec();
            match (self.fault, name.as_str()) {
                (Fault::NoBias, "h.1.mlp.c_proj.bias") => values.fill(0),
                (Fault::NextPosition, "wpe.weight") => {
                    values.rotate_left(4 * MODEL.channels as usize);
                }
                (Fault::NoScale, "h.1.attn.c_proj.weight" | "h.1.attn.c_proj.bias") => {
                    let kept = 1.0 - f64::from(DROPOUT);
                    let scaled = widen(DType::F32, &values).into_iter().map(|w| w * kept);
                    values = narrow(DType::F32, &scaled.collect::<Vec<_>>());
                }
                _ => {}
            }
            self.backend.write(program, tensor, start, &values)
        }

        fn read(
            &mut self,
            program: ProgramId,
            tensor: TensorId,
            start: Bytes,
            values: &mut [u8],
        ) -> Result<(), BackendError> {
            self.backend.read(program, tensor, start, values)
        }
    }

    #[test]
    fn a_mistake_of_a_few_percent_is_caught_in_every_type() {
        use Fault::{MeanOfLoss, NextPosition, NoBias, NoScale};
        for dtype in DTYPES {
            let case = ModelCase { dtype, ..F32 };
            let training = case.training(SEQUENCES, Recompute::default());
            let of = |make: MakeBackend<'_>| {
                gradients(&case, &training, &ReferenceTarget(WATCHED), make).unwrap()
            };
            let defined = of(&mut reference);
            let tolerance =
                chain(dtype, train(&case.model, &training, Names::Kept).program.ops().len());
            for fault in [NoBias, NextPosition, NoScale, MeanOfLoss] {
                let found =
                    of(&mut |plan| Ok(Box::new(Faulty { backend: reference(plan)?, fault })));
                let mut verdict = SuiteVerdict::default();
                compare(&mut verdict, "a fault", tolerance, &defined, &found);
                assert!(!verdict.failures.is_empty(), "{dtype}: {fault:?} is not detected");
            }
        }
    }

    /// The loss (about 4) is stored in float32 with an error of at most 2.4e-7, and so are the
    /// activations before it. Differences of four points at ±h and ±2h with h = 0.03 have an error of
    /// order h⁴ plus fifty times those errors. 2e-5 covers both; the gradients are at least 0.03.
    #[test]
    fn the_gradients_of_a_whole_model_are_those_of_its_loss() {
        check_gradients(&F32, 0.03, 2e-5);
        // RMS norm divides by embeddings of about 0.2, so the loss has ten times the curvature. That
        // needs a tenth of the step, which multiplies the error of the loss by ten.
        check_gradients(&ModelCase { model: LLAMA, ..F32 }, 0.003, 2e-4);
    }

    fn check_gradients(case: &ModelCase, step: f64, most: f64) {
        let training = case.training(SEQUENCES, Recompute { blocks: 1, cheap: 1 });
        let mut run = ModelRun::on_the_reference(
            train(&case.model, &training, Names::Kept).program,
            &training,
        );
        run.step().unwrap();
        let parameters = case.model.parameters();
        let scale = 1.0 / f64::from(LOSS_SCALE);
        let gradients: Vec<Vec<f64>> = parameters
            .iter()
            .map(|p| run.values(&format!("d_{}", p.name)).iter().map(|g| g * scale).collect())
            .collect();
        for (parameter, gradient) in parameters.iter().zip(&gradients) {
            let largest = (0..gradient.len())
                .max_by(|a, b| gradient[*a].abs().total_cmp(&gradient[*b].abs()))
                .unwrap();
            let entry: Vec<_> =
                (0..gradient.len()).map(|i| if i == largest { 1.0 } else { 0.0 }).collect();
            // Half of the entries, so that errors do not cancel.
            let half: Vec<_> = (0..)
                .zip(gradient)
                .map(|(i, g)| if fmix32(i).is_multiple_of(2) { *g } else { 0.0 })
                .collect();
            let length = half.iter().map(|g| g * g).sum::<f64>().sqrt();
            let half: Vec<_> = half.iter().map(|g| g / length).collect();
            for direction in [entry, half] {
                let written: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
                let [a, b, c, d] = [1.0, -1.0, 2.0, -2.0]
                    .map(|n| run.loss_at(&parameter.name, &direction, n * step));
                let found = (8.0 * (a - b) - (c - d)) / (12.0 * step);
                let error = (found - written).abs();
                let name = &parameter.name;
                assert!(error < most, "{name}: {written} by the backward, {found} by differences");
            }
        }
    }

    #[test]
    fn evaluation_computes_the_training_loss_without_dropout() {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let case = ModelCase { dtype, ..F32 };
            let training =
                Training { dropout: 0.0, ..case.training(SEQUENCES, Recompute::default()) };
            let mut trained = ModelRun::on_the_reference(
                train(&case.model, &training, Names::Kept).program,
                &training,
            );
            trained.step().unwrap();
            let program = evaluate(&case.model, &training, Names::Kept).program;
            let mut evaluated = ModelRun::on_the_reference(program, &training);
            evaluated.step().unwrap();
            let mean = evaluated.values("losses").iter().sum::<f64>() / SEQUENCES as f64;
            let apart = (trained.values("loss")[0] - mean).abs();
            // The activations are equal; the loss is rounded five times near 4.
            assert!(apart < 5.0 * 2f64.powi(-22), "{dtype}: {apart}");
        }
    }
}
