//! After its first run, a program allocates nothing on the host.
//!
//! A separate test binary, because it replaces the global allocator.
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use fitgpt_exec::{
    Arguments, Backend, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_model::{
    Model,
    decoder::{decode, evaluate, prefill, train, update},
    family::gpt2::Gpt2Sizes,
    optimizer::Optimizer,
    shard::Share,
    state::SampledTypes,
    training::{Recompute, Training},
};
use fitgpt_program::{
    Adam, Gelu, Life, Names, Products,
    memory::{Target, place, verify},
    units::{Bytes, DType, ProgramId, TensorId},
};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static GLOBAL: Counting = Counting;

// SAFETY: every call goes to `System` unchanged; `GlobalAlloc`'s default methods use these.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the one that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

const MODEL: Model = Gpt2Sizes {
    layers: 2,
    heads: 3,
    channels: 48,
    vocab: 100,
    block: 80,
    has_bias: true,
    gelu: Gelu::Exact,
}
.model();

fn training(dropout: f32, activations: DType) -> Training {
    Training {
        batch: 3,
        seq: 70,
        accumulation: 2,
        eval_batch: 2,
        eval_seq: 80,
        dropout,
        optimizer: Optimizer::adamw(Adam {
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
            grad_clip: 1.0,
        }),
        activations,
        recompute: Recompute { blocks: 1, cheap: 1 },
        loss_chunk_rows: 64,
        lanes: 1,
        sampled: 0,
        share: Share::WHOLE,
    }
}

/// Types of activations, and the factors of their products.
const ARITHMETICS: [(DType, Products); 4] = [
    (DType::F32, Products::Float32),
    (DType::Bf16, Products::Float32),
    (DType::Bf16, Products::Bfloat16),
    (DType::F16, Products::Float32),
];

fn target(products: Products) -> CpuTarget {
    CpuTarget::new(2, Isa::best()).with_products(products)
}

fn backend(programs: Vec<fitgpt_program::Program>, products: Products) -> Cpu {
    let target = target(products);
    let plan = verify(place(programs, &target).unwrap(), &target).unwrap();
    let mut cpu = Cpu::new(plan, target, Watch::Off).unwrap();
    // State that can train: small numbers of both signs, positive second moments.
    let state = cpu.plan().program(ProgramId::FIRST).state().to_vec();
    for (index, tensor) in state.iter().enumerate() {
        let is_zero = tensor.name.starts_with("d_") || tensor.name == "loss";
        let value = |i: u64| if is_zero { 0.0 } else { (i * 37 % 101) as f32 / 1000.0 };
        let values: Vec<f32> = (0..tensor.bytes().get() / 4).map(value).collect();
        let bytes = bytemuck::cast_slice(&values);
        cpu.write(ProgramId::FIRST, TensorId(index as u32), Bytes::ZERO, bytes).unwrap();
    }
    cpu
}

/// Writes tokens into every input of a program.
fn load(cpu: &mut Cpu, program: ProgramId, tokens: &[u32]) {
    for index in 0..cpu.plan().program(program).tensors().len() {
        let tensor = &cpu.plan().program(program).tensors()[index];
        if tensor.life == Life::Input {
            let bytes = &bytemuck::cast_slice(tokens)[..tensor.bytes().index()];
            cpu.write(program, TensorId(index as u32), Bytes::ZERO, bytes).unwrap();
        }
    }
}

/// A single test, so that no other thread of the harness allocates meanwhile.
#[test]
fn a_step_an_evaluation_and_a_token_allocate_nothing() {
    let tokens: Vec<u32> = (0..240).map(|i| i * 7 % 100).collect();
    for dropout in [0.0, 0.1] {
        for (activations, products) in ARITHMETICS {
            let training = training(dropout, activations);
            let programs = vec![
                train(&MODEL, &training, Names::Kept).program,
                update(&MODEL, &training, Names::Kept).program,
                evaluate(&MODEL, &training, Names::Kept).program,
            ];
            let mut cpu = backend(programs, products);
            let mut step = |number: u64| {
                let arguments = Arguments {
                    step: number,
                    updates: number + 1,
                    lr: 1e-3,
                    ..Arguments::default()
                };
                for program in [0, 0, 1, 2].map(ProgramId) {
                    load(&mut cpu, program, &tokens);
                    cpu.run(program, &arguments).unwrap();
                }
            };
            step(0); // by now the threads have started and slept
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            (1..5).for_each(&mut step);
            assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before, "{dropout}, {activations}");
        }
    }
    for (activations, products) in ARITHMETICS {
        let matrices = target(products).sampled_matrices(activations);
        let types = SampledTypes { activations, matrices };
        let programs = vec![prefill(&MODEL, 2, types).program, decode(&MODEL, 2, types).program];
        let mut cpu = backend(programs, products);
        let mut sample = || {
            for cache_row in [0, 1] {
                load(&mut cpu, ProgramId(0), &tokens);
                cpu.run(ProgramId(0), &Arguments { length: 20, cache_row, ..Arguments::default() })
                    .unwrap();
            }
            for length in 20..30 {
                load(&mut cpu, ProgramId(1), &tokens);
                cpu.run(ProgramId(1), &Arguments { length, ..Arguments::default() }).unwrap();
            }
        };
        sample();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        sample();
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before, "sampling in {activations}");
    }
}
