//! The plan report of nanoGPT under PyTorch.

use fitgpt_config::Config;
use fitgpt_model::{
    Model,
    report::{DeviceMemory, Overhead, PhaseReport, PhaseTimeline, PlanReport},
};
use fitgpt_program::units::Bytes;

use super::{CachingAllocator, Rules, TorchOptions, TorchPhase, phases};
use crate::device::{COMPILE_BYTES, CUDA_CONTEXT_BYTES, WORKSPACE_BYTES};

/// Python with PyTorch's libraries loaded, in the host's memory. With PyTorch 2.15's CUDA build
/// `import torch` leaves 0.51 GiB resident and one step of a tiny model 0.67; the CPU build has
/// fewer libraries.
const HOST_CONTEXT_BYTES: [Bytes; 2] = [Bytes::new(1 << 28), Bytes::new(1 << 30)];

/// The memory in addition to the tensors when PyTorch runs `config` on a card.
pub fn overhead(config: &Config) -> Overhead {
    overhead_of(Rules::Cuda, config)
}

/// The memory in addition to the tensors when PyTorch runs `config`.
pub fn overhead_of(rules: Rules, config: &Config) -> Overhead {
    overhead_with(rules, config.compile())
}

/// The same if the device decides whether anything is compiled.
pub fn overhead_with(rules: Rules, is_compiled: bool) -> Overhead {
    let compile_bytes = if is_compiled { COMPILE_BYTES } else { [Bytes::ZERO; 2] };
    match rules {
        Rules::Cuda => Overhead {
            context_bytes: CUDA_CONTEXT_BYTES,
            workspace_bytes: WORKSPACE_BYTES,
            compile_bytes,
        },
        Rules::Cpu => Overhead {
            context_bytes: HOST_CONTEXT_BYTES,
            workspace_bytes: [Bytes::ZERO; 2],
            compile_bytes,
        },
    }
}

/// The live bytes of a step and an evaluation, op by op, and of the resume before them if there
/// is one. The evaluation at iteration 0 is a later one without Adam's state, drawn only if there is
/// no other.
pub fn torch_timelines(config: &Config, vocab: u32, options: &TorchOptions) -> Vec<PhaseTimeline> {
    let drawn = |(phase, _): &(TorchPhase, _)| match phase {
        TorchPhase::EvaluateFirst => options.eval_only,
        phase => *phase != TorchPhase::Sample,
    };
    let programs = phases(&Model::new(config, vocab), options).into_iter().filter(drawn);
    let timeline = |(phase, program): (TorchPhase, _)| {
        PhaseTimeline::of(phase.name(), &program, &CachingAllocator)
    };
    programs.map(timeline).collect()
}

/// The memory of every phase of nanoGPT, as PyTorch runs it with `options`.
pub fn torch_report(
    config: &Config,
    vocab: u32,
    options: &TorchOptions,
    device: DeviceMemory,
    overhead: Overhead,
) -> PlanReport {
    let model = Model::new(config, vocab);
    let counted = phases(&model, options)
        .iter()
        .map(|(phase, program)| PhaseReport::of(phase.name(), [program], &CachingAllocator))
        .collect();
    PlanReport::new("torch", device, overhead, config, counted, None)
}
