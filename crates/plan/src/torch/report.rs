//! What `plan` says of nanoGPT under PyTorch.

use super::{CachingAllocator, Phase as Part, TorchOptions, phases};
use crate::{
    config::{Config, Precision},
    model::Model,
    report::{Course, Device, Overhead, Phase, PlanReport},
    units::Bytes,
};

const GIB: u64 = 1 << 30;

/// A CUDA context on a card: 0.2 to 0.6 GiB, by driver and kernels loaded.
pub const CONTEXT_BYTES: [Bytes; 2] = [Bytes::new(GIB / 5), Bytes::new(GIB / 5 * 3)];

/// What matrix libraries take for themselves: 0.05 to 0.3 GiB.
pub const WORKSPACE_BYTES: [Bytes; 2] = [Bytes::new(GIB / 20), Bytes::new(GIB / 10 * 3)];

/// What `torch.compile` takes at the first call beside its program: up to 1 GiB.
pub const COMPILE_BYTES: [Bytes; 2] = [Bytes::ZERO, Bytes::new(GIB)];

/// The memory beside the tensors when PyTorch runs `config` on a GPU.
pub fn overhead(config: &Config) -> Overhead {
    Overhead {
        context_bytes: CONTEXT_BYTES,
        workspace_bytes: WORKSPACE_BYTES,
        compile_bytes: if config.compile() { COMPILE_BYTES } else { [Bytes::ZERO; 2] },
    }
}

/// The memory of every phase of nanoGPT, as PyTorch runs it.
pub fn torch_report(
    config: &Config,
    vocab: u32,
    precision: Precision,
    device: Device,
    overhead: Overhead,
) -> PlanReport {
    let options = TorchOptions::from_config(config, precision);
    report_of(config, vocab, &options, device, overhead)
}

/// The live bytes of a step and an evaluation, op by op, and of the resume before them where there
/// is one. The evaluation at iteration 0 is a later one without Adam's state.
pub fn torch_courses(config: &Config, vocab: u32, precision: Precision) -> Vec<Course> {
    let options = TorchOptions::from_config(config, precision);
    let drawn = |(phase, _): &(Part, _)| !matches!(phase, Part::EvaluateFirst | Part::Sample);
    let programs = phases(&Model::new(config, vocab), &options).into_iter().filter(drawn);
    let course =
        |(phase, program): (Part, _)| Course::of(phase.name(), &program, &CachingAllocator);
    programs.map(course).collect()
}

/// The memory of every phase with options of the caller's own.
pub(crate) fn report_of(
    config: &Config,
    vocab: u32,
    options: &TorchOptions,
    device: Device,
    overhead: Overhead,
) -> PlanReport {
    let model = Model::new(config, vocab);
    let counted = phases(&model, options)
        .iter()
        .map(|(phase, program)| Phase::of(phase.name(), [program], &CachingAllocator))
        .collect();
    PlanReport::new("torch", device, overhead, config, counted, None)
}
