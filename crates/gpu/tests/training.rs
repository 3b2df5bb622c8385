//! Trains a small model on software Vulkan: checks the device's memory, and tensors that exceed the
//! binding limit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fitgpt_config::Family;
use fitgpt_exec::{Arguments, Backend, Watch};
use fitgpt_gpu::{AdapterKind, Gpu, GpuDevice, GpuTarget, RuntimeMemory, adapters};
use fitgpt_model::{
    Biases, MlpKind, Model, NormKind, Positions,
    decoder::{train, update},
    family::gpt2::Gpt2Sizes,
    job,
    optimizer::Optimizer,
    shard::Share,
    training::{Recompute, Training},
};
use fitgpt_program::{
    Adam, Gelu, Names, Rope, RopeScaling, TensorClass,
    units::{Bytes, DType, ProgramId, Real, TensorId},
};

const GPT2: Model = Gpt2Sizes {
    layers: 2,
    heads: 2,
    channels: 32,
    vocab: 512,
    block: 16,
    has_bias: true,
    gelu: Gelu::Exact,
}
.model();

/// Three query heads share a key head; queries have more channels than the residual stream.
const LLAMA: Model = Model {
    family: Family::Qwen3,
    layers: 2,
    channels: 32,
    vocab: 512,
    block: 16,
    heads: 6,
    kv_heads: 2,
    head_channels: 8,
    mlp_channels: 88,
    positions: Positions::Rotary(Rope { theta: Real::new(1e4), scaling: RopeScaling::None }),
    norm: NormKind::Rms,
    norm_epsilon: Real::new(1e-6),
    has_qk_norm: true,
    mlp: MlpKind::SwiGlu,
    biases: Biases { norm: false, qkv: true, attention_out: false, mlp: false },
    is_tied: true,
};

/// Sequences of a micro-batch.
const BATCH: u64 = 4;

fn training(batch: u64) -> Training {
    Training {
        batch,
        seq: 16,
        accumulation: 1,
        eval_batch: BATCH,
        eval_seq: 16,
        dropout: 0.1,
        optimizer: Optimizer::adamw(Adam {
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
            grad_clip: 1.0,
        }),
        activations: DType::F32,
        recompute: Recompute { blocks: 0, cheap: 0 },
        loss_chunk_rows: 8,
        lanes: 1,
        sampled: 0,
        share: Share::WHOLE,
    }
}

/// Held memory is counted for the whole process, so tests run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn software() -> GpuDevice {
    let adapter = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
    let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
    GpuDevice::open(&adapter).unwrap()
}

/// A model with deterministic weights and tokens.
fn started(model: &Model, device: &GpuDevice, batch: u64) -> Gpu {
    let training = training(batch);
    let target = GpuTarget::new(device.properties());
    let programs = vec![
        train(model, &training, Names::Kept).program,
        update(model, &training, Names::Kept).program,
    ];
    for program in &programs {
        target.check(program).unwrap();
    }
    let plan = job::plan(programs, &target).unwrap();
    let mut gpu = Gpu::new(device.clone(), plan, Watch::Off, Bytes::ZERO).unwrap();
    let program = gpu.plan().program(ProgramId(0)).clone();
    for (index, tensor) in (0..).zip(program.tensors()) {
        let id = TensorId(index);
        let count = 0..tensor.count() as u32;
        let noise = |i: u32| f64::from(fitgpt_exec::random::fmix32(i ^ (index << 20))) / 2e10 - 0.1;
        let bytes: Vec<u8> = match tensor.class {
            TensorClass::Parameter
                if tensor.name.contains("ln_") || tensor.name.contains("norm") =>
            {
                count.flat_map(|i| (1.0 + noise(i) as f32).to_ne_bytes()).collect()
            }
            TensorClass::Parameter => count.flat_map(|i| (noise(i) as f32).to_ne_bytes()).collect(),
            _ => continue,
        };
        gpu.write(ProgramId(0), id, Bytes::ZERO, &bytes).unwrap();
    }
    gpu
}

fn step(gpu: &mut Gpu, step: u64) -> f32 {
    let arguments = Arguments { step, lr: 1e-3, updates: step + 1, ..Arguments::default() };
    // Inputs are written for each step: their bytes may be reused after their last read.
    for name in ["tokens", "targets"] {
        let input = gpu.plan().program(ProgramId(0)).find(name).unwrap();
        let count = 0..gpu.plan().program(ProgramId(0)).get(input).count() as u32;
        let bytes: Vec<_> = count.flat_map(|i| (i * 37 % GPT2.vocab).to_ne_bytes()).collect();
        gpu.write(ProgramId(0), input, Bytes::ZERO, &bytes).unwrap();
    }
    let loss = gpu.plan().program(ProgramId(0)).find("loss").unwrap();
    gpu.write(ProgramId(0), loss, Bytes::ZERO, &[0; 4]).unwrap();
    gpu.run(ProgramId(0), &arguments).unwrap();
    gpu.run(ProgramId(1), &arguments).unwrap();
    let mut bytes = [0; 4];
    gpu.read(ProgramId(0), loss, Bytes::ZERO, &mut bytes).unwrap();
    f32::from_ne_bytes(bytes)
}

#[test]
fn the_device_holds_the_arena_and_the_pools_of_the_plan_after_one_step_and_after_fifty() {
    let _alone = alone();
    let device = software();
    holds_what_was_planned(&GPT2, &device);
    holds_what_was_planned(&LLAMA, &device);
}

fn holds_what_was_planned(model: &Model, device: &GpuDevice) {
    let mut gpu = started(model, device, BATCH);
    // The pools were measured before planning, and the plan includes them.
    let planned =
        RuntimeMemory { arenas: gpu.plan().plan().arena_bytes(), pools: device.pools().to_vec() };
    assert_eq!(device.held().unwrap(), planned);
    let first = step(&mut gpu, 0);
    assert_eq!(device.held().unwrap(), planned);
    let losses: Vec<_> = (1..50).map(|n| step(&mut gpu, n)).collect();
    assert_eq!(device.held().unwrap(), planned);
    assert!(losses[48] < first - 0.5, "the loss does not fall: {first} to {}", losses[48]);
    drop(gpu);
    assert_eq!(device.held().unwrap().arenas, Bytes::ZERO, "not all of the arena was freed");
}

#[test]
fn units_add_up_in_the_planes_of_the_device_and_without_them() {
    let _alone = alone();
    let device = software();
    let tree = device.clone().without_planes();
    assert!(device.properties().adds_in_planes() && !tree.properties().adds_in_planes());
    for model in [GPT2, LLAMA] {
        let (mut planes, mut tree) = (started(&model, &device, 4), started(&model, &tree, 4));
        for n in 0..3 {
            let (a, b) = (step(&mut planes, n), step(&mut tree, n));
            // The same numbers in another order: a few spacings of a float32 near 6.
            assert!((a - b).abs() < 16.0 * f32::EPSILON * 6.0, "step {n}: {a} and {b}");
        }
    }
}

#[test]
fn an_arena_in_many_chunks_is_the_same_arena() {
    let _alone = alone();
    let device = software();
    // The widest activation takes two thirds of a chunk.
    let small = device.clone().with_chunks_of(Bytes::new(192 << 10));
    for model in [GPT2, LLAMA] {
        let (mut whole, mut cut) = (started(&model, &device, 16), started(&model, &small, 16));
        let chunks = |gpu: &Gpu| gpu.plan().plan().chunks.len();
        assert_eq!(chunks(&whole), 1);
        assert!(chunks(&cut) > 5, "{}", chunks(&cut));
        // The placement of tensors does not change results.
        for n in 0..3 {
            assert_eq!(step(&mut whole, n).to_bits(), step(&mut cut, n).to_bits(), "step {n}");
        }
    }
}

#[test]
fn a_tensor_larger_than_a_binding_is_worked_on_in_parts() {
    let _alone = alone();
    let device = software();
    // The vocabulary's table has 64 KiB, the widest activation 128.
    let narrow = device.clone().with_bindings_of(Bytes::new(32 << 10));
    for model in [GPT2, LLAMA] {
        let (mut whole, mut parts) = (started(&model, &device, 16), started(&model, &narrow, 16));
        for n in 0..3 {
            let (a, b) = (step(&mut whole, n), step(&mut parts, n));
            // Only sums over rows and over the vocabulary are split, and so added in another
            // order: a few spacings of a float32 near 6.
            assert!((a - b).abs() < 16.0 * f32::EPSILON * 6.0, "step {n}: {a} and {b}");
        }
    }
}
