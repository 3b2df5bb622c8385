//! Reads and runs a folder that `transformers` wrote.

use fitgpt_checkpoint::{PositionRows, Tensors, Weights};
use fitgpt_exec::{
    Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_model::{decoder, job, programs::SamplingPrograms};
use fitgpt_program::units::DType;
use fitgpt_run::sample::{ContextWindow, Sampler};

use super::{families::FOLDERS, golden};

#[test]
fn a_folder_of_transformers_gives_the_same_logits() {
    for folder in std::iter::once("transformers_gpt2").chain(FOLDERS) {
        logits_are_theirs(folder);
    }
}

fn logits_are_theirs(folder: &str) {
    let mut weights = Weights::open(&golden::path(folder)).unwrap();
    let model = weights.architecture().model;
    let target = CpuTarget::new(2, Isa::best());
    let programs = SamplingPrograms {
        prefill: decoder::prefill(&model, 1, DType::F32),
        decode: decoder::decode(&model, 1, DType::F32),
    };
    let handles = programs.handles();
    let plan = job::plan(programs, &target).unwrap();
    let backend = Cpu::new(plan, target, Watch::Off).unwrap();
    let mut sampler =
        Sampler::new(Box::new(backend), &model, handles, 1, DType::F32, ContextWindow::Half)
            .unwrap();
    weights.read(&Tensors::weights_of(&model), PositionRows::Exact, &mut sampler).unwrap();

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
