//! Compares optimizers with other programs: 8-bit AdamW with NumPy, bit for bit, Lion and Muon with
//! their algorithms in float64, and Muon with `torch.optim.Muon`.
//!
//! `make.py` writes the files and describes them.

use std::{fs, path::PathBuf};

use fitgpt_exec::{
    Arguments, Backend, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_model::job;
use fitgpt_program::{
    Adam, AdjustLr, ElementRule, Life, Lion, Muon, Op, Program, ProgramKind, Tensor, TensorClass,
    TensorRole,
    units::{Bytes, DType, ProgramId, TensorId},
};
use safetensors::SafeTensors;
use serde::Deserialize;

/// One file with its facts.
struct OptimizerGolden {
    bytes: Vec<u8>,
    facts: String,
}

impl OptimizerGolden {
    fn read(name: &str) -> Self {
        let path: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "tests", "optimizers", name].iter().collect();
        let bytes = fs::read(&path).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let facts = header.metadata().as_ref().unwrap()["golden"].clone();
        Self { bytes, facts }
    }

    fn bytes_of(&self, name: &str) -> Vec<u8> {
        let tensors = SafeTensors::deserialize(&self.bytes).unwrap();
        tensors.tensor(name).unwrap_or_else(|e| panic!("`{name}`: {e}")).data().to_vec()
    }

    fn floats_of(&self, name: &str) -> Vec<f32> {
        floats(&self.bytes_of(name))
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// A program of one update. Its state is zero until written.
struct UpdateProgram {
    backend: Cpu,
    arguments: Arguments,
}

impl UpdateProgram {
    fn new(tensors: &[(&str, &[u64], DType)], op: Op, isa: Isa, threads: usize) -> Self {
        let tensor = |(name, shape, dtype): &(&str, &[u64], DType)| Tensor {
            name: (*name).to_owned(),
            shape: shape.to_vec(),
            dtype: *dtype,
            class: TensorClass::Optimizer,
            life: Life::Always,
            role: TensorRole::General,
        };
        let mut program = Program::new(ProgramKind::Update, tensors.iter().map(tensor).collect());
        program.op(op);
        let target = CpuTarget::new(threads, isa);
        let plan = job::plan(vec![program], &target).unwrap();
        let mut update = Self {
            backend: Cpu::new(plan, target, Watch::Off).unwrap(),
            arguments: Arguments { updates: 0, ..Arguments::default() },
        };
        for (index, (.., dtype)) in tensors.iter().enumerate() {
            let count: u64 = tensors[index].1.iter().product();
            update.write(index, &vec![0; (count * dtype.size()) as usize]);
        }
        update
    }

    fn write(&mut self, tensor: usize, bytes: &[u8]) {
        self.backend.write(ProgramId(0), TensorId(tensor as u32), Bytes::ZERO, bytes).unwrap();
    }

    fn read(&mut self, tensor: usize) -> Vec<u8> {
        let id = TensorId(tensor as u32);
        let size = self.backend.plan().program(ProgramId(0)).get(id).bytes();
        let mut bytes = vec![0; size.get() as usize];
        self.backend.read(ProgramId(0), id, Bytes::ZERO, &mut bytes).unwrap();
        bytes
    }

    fn run(&mut self, lr: f32) {
        self.arguments.lr = lr;
        self.arguments.updates += 1;
        self.backend.run(ProgramId(0), &self.arguments).unwrap();
    }
}

/// The largest difference.
fn furthest(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let apart = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
    found.iter().zip(expected).map(apart).fold(0.0, f64::max)
}

#[derive(Deserialize)]
struct AdamFacts {
    count: u64,
    steps: u32,
    lr: f32,
    betas: [f32; 2],
    eps: f32,
    weight_decay: f32,
}

#[test]
fn codes_and_scales_of_three_steps_match_numpy() {
    let golden = OptimizerGolden::read("adamw8bit.safetensors");
    let facts: AdamFacts = serde_json::from_str(&golden.facts).unwrap();
    let (count, blocks) = ([facts.count], [facts.count.div_ceil(256)]);
    let tensors: [(&str, &[u64], DType); 7] = [
        ("norm", &[1], DType::F32),
        ("parameter", &count, DType::F32),
        ("gradient", &count, DType::F32),
        ("exp_avg", &count, DType::U8),
        ("exp_avg_scale", &blocks, DType::F32),
        ("exp_avg_sq", &count, DType::U8),
        ("exp_avg_sq_scale", &blocks, DType::F32),
    ];
    let [norm, parameter, gradient, exp_avg, exp_avg_scale, exp_avg_sq, exp_avg_sq_scale] =
        std::array::from_fn(|i| TensorId(i as u32));
    let op = Op::AdamW8bit {
        norm,
        parameter,
        gradient,
        exp_avg,
        exp_avg_scale,
        exp_avg_sq,
        exp_avg_sq_scale,
        first: 0,
        decays: true,
        adam: Adam {
            beta1: facts.betas[0],
            beta2: facts.betas[1],
            epsilon: facts.eps,
            weight_decay: facts.weight_decay,
            grad_clip: 0.0,
        },
    };
    for isa in Isa::all() {
        let mut update = UpdateProgram::new(&tensors, op.clone(), isa, 2);
        update.write(1, &golden.bytes_of("initial"));
        for step in 1..=facts.steps {
            update.write(2, &golden.bytes_of(&format!("gradient.{step}")));
            update.run(facts.lr);
            for (index, (name, ..)) in tensors.iter().enumerate().skip(3) {
                let expected = golden.bytes_of(&format!("{name}.{step}"));
                assert!(update.read(index) == expected, "`{name}`, step {step}, {}", isa.name());
            }
            let parameter = golden.floats_of(&format!("parameter.{step}"));
            // One update moves a weight by about the learning rate: a few roundings of that, and
            // of the weight itself, which is large if a second moment's code is zero.
            for (found, expected) in floats(&update.read(1)).iter().zip(&parameter) {
                let apart = (f64::from(*found) - f64::from(*expected)).abs();
                let of_weight = 4.0 * f64::from(f32::EPSILON) * f64::from(expected.abs());
                let most = 8e-6 * f64::from(facts.lr) + of_weight;
                assert!(apart <= most, "step {step}: {found}, expected {expected}");
            }
            assert!(
                update.read(2).iter().all(|byte| *byte == 0),
                "the gradient is not zero afterwards"
            );
        }
    }
}

#[derive(Deserialize)]
struct LionFacts {
    count: u64,
    steps: u32,
    lr: f32,
    betas: [f32; 2],
    weight_decay: f32,
}

#[test]
fn three_steps_of_lion_match_its_algorithm_in_float64() {
    let golden = OptimizerGolden::read("lion.safetensors");
    let facts: LionFacts = serde_json::from_str(&golden.facts).unwrap();
    let (d, count) = (DType::F32, [facts.count]);
    let tensors: [(&str, &[u64], DType); 4] = [
        ("norm", &[1], d),
        ("parameter", &count, d),
        ("gradient", &count, d),
        ("moment", &count, d),
    ];
    let [norm, parameter, gradient, moment] = std::array::from_fn(|i| TensorId(i as u32));
    let LionFacts { betas: [beta1, beta2], weight_decay, .. } = facts;
    let rule = ElementRule::Lion(Lion { beta1, beta2, weight_decay, grad_clip: 0.0 });
    let (states, first, decays) = (vec![moment], 0, true);
    let op = Op::Update { norm, parameter, gradient, states, first, decays, rule };
    for isa in Isa::all() {
        let mut update = UpdateProgram::new(&tensors, op.clone(), isa, 2);
        update.write(1, &golden.bytes_of("initial"));
        for step in 1..=facts.steps {
            update.write(2, &golden.bytes_of(&format!("gradient.{step}")));
            update.run(facts.lr);
            let expected = golden.floats_of(&format!("parameter.{step}"));
            // A sign that differs is two learning rates away; this is a few roundings of weights
            // below 0.1.
            let far = furthest(&floats(&update.read(1)), &expected);
            assert!(far < 1e-7, "step {step}, {}: {far:e}", isa.name());
            let expected = golden.floats_of(&format!("moment.{step}"));
            let far = furthest(&floats(&update.read(3)), &expected);
            assert!(far < 2e-8, "step {step}, {}: {far:e}", isa.name());
            assert!(update.read(2).iter().all(|byte| *byte == 0), "the gradient is not zero");
        }
    }
}

#[derive(Deserialize)]
struct MuonFacts {
    steps: usize,
    lr: f32,
    weight_decay: f32,
    momentum: f32,
    eps: f32,
    ns_steps: u32,
    coefficients: [f32; 3],
    cases: Vec<GoldenMuonCase>,
}

#[derive(Deserialize)]
struct GoldenMuonCase {
    name: String,
    shape: [u64; 2],
    adjust: String,
    nesterov: bool,
    bfloat16_error: f64,
}

/// Weights and momentum after all steps.
fn muon(
    golden: &OptimizerGolden,
    facts: &MuonFacts,
    case: &GoldenMuonCase,
    dtype: DType,
    threads: usize,
) -> [Vec<f32>; 2] {
    let adjust = match case.adjust.as_str() {
        "original" => AdjustLr::Original,
        "match_rms_adamw" => AdjustLr::MatchRmsAdamW,
        _ => AdjustLr::SpectralUnclamped,
    };
    let muon = Muon {
        lr_ratio: 1.0,
        adjust,
        momentum: facts.momentum,
        nesterov: case.nesterov,
        steps: facts.ns_steps,
        coefficients: facts.coefficients,
        epsilon: facts.eps,
        dtype,
        weight_decay: facts.weight_decay,
        grad_clip: 0.0,
    };
    let [norm, parameter, gradient, momentum] = std::array::from_fn(|i| TensorId(i as u32));
    let op = Op::Muon { norm, parameter, gradient, momentum, muon };
    let shape: &[u64] = &case.shape;
    let d = DType::F32;
    let tensors = [
        ("norm", &[1][..], d),
        ("parameter", shape, d),
        ("gradient", shape, d),
        ("momentum", shape, d),
    ];
    let mut update = UpdateProgram::new(&tensors, op, Isa::best(), threads);
    update.write(1, &golden.bytes_of(&format!("{}.initial", case.name)));
    let gradients = golden.bytes_of(&format!("{}.gradients", case.name));
    for gradient in gradients.chunks(gradients.len() / facts.steps) {
        update.write(2, gradient);
        update.run(facts.lr);
    }
    [1, 3].map(|tensor| floats(&update.read(tensor)))
}

#[test]
fn muon_matches_its_algorithm_in_float32_and_torch_in_bfloat16_within_rounding() {
    let golden = OptimizerGolden::read("muon.safetensors");
    let facts: MuonFacts = serde_json::from_str(&golden.facts).unwrap();
    for case in &facts.cases {
        let of = |part: &str| golden.floats_of(&format!("{}.{part}", case.name));
        let (initial, exact) = (of("initial"), of("exact"));
        let moved = furthest(&initial, &exact);

        let [weights, momentum] = muon(&golden, &facts, case, DType::F32, 2);
        let far = furthest(&weights, &exact) / moved;
        // Sums of up to 96 products in float32, five iterations in each of three steps.
        assert!(far < 2e-5, "`{}` in float32 is {far:e} of an update away", case.name);
        let largest = furthest(&momentum, &vec![0.0; momentum.len()]);
        assert!(furthest(&momentum, &of("momentum")) < 1e-6 * largest, "`{}`", case.name);

        // PyTorch rounds to bfloat16 in the same places, and also rounds the norm. Both are equally
        // far from the algorithm, in different directions.
        let [weights, _] = muon(&golden, &facts, case, DType::Bf16, 2);
        let ours = furthest(&weights, &exact) / moved;
        let apart = furthest(&weights, &of("torch")) / moved;
        let allowed = 2.0 * case.bfloat16_error;
        assert!(ours < allowed, "`{}`: {ours:e} from the algorithm", case.name);
        assert!(apart < allowed, "`{}`: {apart:e} from PyTorch, {allowed:e} allowed", case.name);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit_of_muon() {
    let golden = OptimizerGolden::read("muon.safetensors");
    let facts: MuonFacts = serde_json::from_str(&golden.facts).unwrap();
    for case in &facts.cases {
        for dtype in [DType::F32, DType::Bf16] {
            let bits = |threads| {
                let all = muon(&golden, &facts, case, dtype, threads).concat();
                all.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let one = bits(1);
            assert!(one == bits(2) && one == bits(3), "`{}` in {dtype}", case.name);
        }
    }
}
