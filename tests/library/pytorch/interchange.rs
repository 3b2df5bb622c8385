//! Reads and runs a folder that `transformers` wrote.

use fitgpt_checkpoint::{PositionRows, Tensors, Weights};
use fitgpt_exec::{
    Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_model::{Model, decoder, job, programs::SamplingPrograms, state::SampledTypes};
use fitgpt_program::{Products, memory::Target, units::DType};
use fitgpt_run::sample::{Choice, ContextWindow, Sampler};

use super::{families::FOLDERS, golden};

#[test]
fn a_folder_of_transformers_gives_the_same_logits() {
    for folder in std::iter::once("transformers_gpt2").chain(FOLDERS) {
        logits_are_theirs(folder);
    }
}

#[test]
fn matrices_stored_in_bfloat16_give_the_logits_of_float32_weights() {
    let target = CpuTarget::new(2, Isa::best()).with_products(Products::Bfloat16);
    let stored = target.sampled_matrices(DType::Bf16);
    assert_eq!(stored, DType::Bf16);
    for folder in ["transformers_gpt2", "families/llama_tied", "families/mistral"] {
        let [float32, stored] = [DType::F32, stored].map(|matrices| {
            let types = SampledTypes { activations: DType::Bf16, matrices };
            let (model, mut sampler) = sampler(folder, target, types);
            let text: Vec<_> = (0..model.block / 2).map(|i| i * 7 % model.vocab).collect();
            sampler.begin(&text).unwrap();
            let prefilled = sampler.logits().to_vec();
            let likeliest = Choice { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 1 };
            sampler.choose(&likeliest, 0, &mut Vec::new());
            sampler.advance().unwrap();
            [prefilled, sampler.logits().to_vec()]
                .map(|all| all.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        });
        assert_eq!(float32, stored, "{folder}");
        assert_ne!(float32[0], float32[1], "the token changes the logits");
    }
}

/// A sampler of one sequence with the weights in `folder`.
fn sampler(folder: &str, target: CpuTarget, types: SampledTypes) -> (Model, Sampler) {
    let mut weights = Weights::open(&golden::path(folder)).unwrap();
    let model = weights.architecture().model;
    let programs = SamplingPrograms {
        prefill: decoder::prefill(&model, 1, types),
        decode: decoder::decode(&model, 1, types),
    };
    let handles = programs.handles();
    let plan = job::plan(programs, &target).unwrap();
    let backend = Cpu::new(plan, target, Watch::Off).unwrap();
    let mut sampler =
        Sampler::new(Box::new(backend), &model, handles, 1, types, ContextWindow::Half).unwrap();
    weights.read(&Tensors::weights_of(&model), PositionRows::Exact, &mut sampler).unwrap();
    (model, sampler)
}

fn logits_are_theirs(folder: &str) {
    let target = CpuTarget::new(2, Isa::best());
    let types = SampledTypes::float32_weights(DType::F32);
    let (model, mut sampler) = sampler(folder, target, types);

    let expected = golden::GoldenTensors::read(&format!("{folder}/expected.safetensors"));
    // With several batches, the logits are those of the first.
    let tokens = expected.get("tokens").u32s();
    let first = expected.get("logits").shape[0] * model.block as usize;
    let tokens = &tokens[..first];
    let logits = expected.get("logits").f32s();
    let (block, vocab) = (model.block as usize, model.vocab as usize);
    let largest = logits.iter().fold(0f32, |most, v| most.max(v.abs()));
    for (sequence, tokens) in tokens.chunks(block).enumerate() {
        for length in 1..=block {
            sampler.begin(&tokens[..length]).unwrap();
            let theirs = &logits[(sequence * block + length - 1) * vocab..][..vocab];
            for (ours, theirs) in sampler.logits().iter().zip(theirs) {
                // Both are float32: sums of a few hundred products, in two orders.
                assert!((ours - theirs).abs() <= 1e-5 * largest, "{ours}, expected {theirs}");
            }
        }
    }
}
