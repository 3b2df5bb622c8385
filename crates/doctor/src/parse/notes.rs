//! Harmless lines that are often mistaken for the cause.

use std::sync::LazyLock;

use super::{
    phrases::Phrases,
    squeezed::{Passage, first_of},
};
use crate::named::named;

named! {
    /// A harmless line.
    HarmlessLine {
        /// A card with few multiprocessors disables one autotuner.
        FewMultiprocessors = "few-multiprocessors",
        /// A renamed `GradScaler`.
        GradScalerDeprecated = "grad-scaler-deprecated",
        /// A renamed `autocast`.
        AutocastDeprecated = "autocast-deprecated",
        /// `torch.load` without `weights_only`.
        LoadWeightsOnly = "load-weights-only",
        /// PyTorch's hint about fragmentation, which every message has.
        FragmentationHint = "fragmentation-hint",
        /// `TensorFloat32` could be faster.
        MatmulPrecision = "matmul-precision",
        /// The default number of CPU threads.
        OmpThreads = "omp-threads",
        /// A process group that a failed run did not end.
        ProcessGroupNotDestroyed = "process-group-not-destroyed",
        /// This PyTorch has no fused attention.
        SlowAttention = "slow-attention",
        /// A traceback may point to a later op.
        AsynchronousReport = "asynchronous-report",
        /// The order of scheduler and optimizer.
        LrSchedulerOrder = "lr-scheduler-order",
        /// Triton's autotuner skipped a configuration.
        KernelChoiceSkipped = "kernel-choice-skipped",
    }
}

/// What follows the phrase in the same warning; empty if the phrase is enough.
type Rest = &'static str;

static PHRASES: LazyLock<Phrases<(HarmlessLine, Rest)>> = LazyLock::new(|| {
    use HarmlessLine as L;
    Phrases::new([
        ("notenoughsmstousemax_autotune", (L::FewMultiprocessors, "")),
        ("gradscaler(", (L::GradScalerDeprecated, "deprecated")),
        ("autocast(", (L::AutocastDeprecated, "deprecated")),
        ("torch.load`with`weights_only=false", (L::LoadWeightsOnly, "")),
        ("ifreservedmemoryis>>", (L::FragmentationHint, "")),
        ("ifreservedbutunallocatedmemoryislarge", (L::FragmentationHint, "")),
        ("tensorfloat32tensorcores", (L::MatmulPrecision, "")),
        ("omp_num_threads", (L::OmpThreads, "default")),
        ("destroy_process_group()wasnotcalled", (L::ProcessGroupNotDestroyed, "")),
        ("usingslowattention", (L::SlowAttention, "")),
        ("kernelerrorsmightbeasynchronouslyreported", (L::AsynchronousReport, "")),
        ("lr_scheduler.step()", (L::LrSchedulerOrder, "beforeoptimizer.step()")),
    ])
});

/// The harmless lines that begin in `passage`.
pub(super) fn lines(passage: Passage<'_>) -> Vec<HarmlessLine> {
    let found = PHRASES.find(passage);
    let whole = found.filter(|(_, (_, rest), place)| first_of(place.after, 300).contains(rest));
    let mut lines: Vec<_> = whole.map(|(_, (line, _), _)| *line).collect();
    // In the order of the list.
    lines.sort_by_key(|line| *line as u8);
    lines.dedup();
    lines
}
