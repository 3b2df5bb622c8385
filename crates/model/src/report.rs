//! Reports as data, before they are printed as text or JSON.

use fitgpt_config::{Config, EffectiveBatch};
use fitgpt_program::{
    Op, Program, TensorClass,
    memory::{Peak, Profile, RuntimePool, Target, profile},
    units::Bytes,
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::programs::TrainingPrograms;

/// The memory that a plan must fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceMemory {
    /// Its name.
    pub name: String,
    /// All of its memory.
    pub total_bytes: Bytes,
    /// What this run may use.
    pub usable_bytes: Bytes,
}

/// Memory in addition to the tensors, which cannot be planned exactly, as `[low, high]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overhead {
    /// A GPU's context, or a host process's binary, stacks and I/O.
    pub context_bytes: [Bytes; 2],
    /// Workspaces of libraries.
    pub workspace_bytes: [Bytes; 2],
    /// What compiling allocates at the first call.
    pub compile_bytes: [Bytes; 2],
}

impl Overhead {
    /// The sum of all three, `[low, high]`.
    pub fn range(&self) -> [Bytes; 2] {
        [0, 1].map(|i| self.context_bytes[i] + self.workspace_bytes[i] + self.compile_bytes[i])
    }

    /// Adds `bytes` of tokens, if they are in the planned memory.
    #[must_use]
    pub fn with_staging(self, staging: TokenStaging, bytes: Bytes) -> Self {
        match staging {
            TokenStaging::Planned => {
                let workspace_bytes = self.workspace_bytes.map(|workspace| workspace + bytes);
                Self { workspace_bytes, ..self }
            }
            TokenStaging::Elsewhere => self,
        }
    }
}

/// Where the tokens of a batch are before they are copied to the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStaging {
    /// In the planned memory, because the device is the host.
    Planned,
    /// In the host's memory, which is not the planned one.
    Elsewhere,
}

/// Whether a plan fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Even at the high end of the overhead.
    Fits,
    /// Only at the low end.
    Tight,
    /// Not even at the low end.
    No,
}

impl Verdict {
    /// Compares `needed` bytes plus `overhead` with `usable`.
    pub fn of(needed: Bytes, overhead: &Overhead, usable: Bytes) -> Self {
        let [low, high] = overhead.range();
        if needed + high <= usable {
            Self::Fits
        } else if needed + low <= usable {
            Self::Tight
        } else {
            Self::No
        }
    }
}

/// The op at the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeakOp {
    /// Its name.
    pub op: String,
    /// Counted from the start of its program.
    pub index: u32,
}

/// One phase: its peak, the op at the peak, and the bytes by class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseReport {
    /// `train`, `update`, `evaluate`, `sample`; `sample_in_training` if the run draws samples.
    pub name: &'static str,
    /// Most live bytes.
    pub peak_bytes: Bytes,
    /// The op at the peak.
    pub at: PeakOp,
    /// Those bytes by class, in the order of [`TensorClass::ALL`].
    #[serde(serialize_with = "by_class")]
    pub classes: [Bytes; 7],
}

fn by_class<S: Serializer>(classes: &[Bytes; 7], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(7))?;
    for (class, bytes) in TensorClass::ALL.into_iter().zip(classes) {
        map.serialize_entry(class.name(), bytes)?;
    }
    map.end()
}

impl PhaseReport {
    /// Counts the phase that runs `programs`, one after the other.
    pub fn of<'a>(
        name: &'static str,
        programs: impl IntoIterator<Item = &'a Program>,
        target: &impl Target,
    ) -> Self {
        let peaks = programs.into_iter().filter_map(|program| {
            let peak = profile(program, target).peak()?;
            let op = program.ops()[peak.at.index()].name().to_owned();
            let at = PeakOp { op, index: peak.at.0 };
            Some(Self { name, peak_bytes: peak.bytes, at, classes: peak.classes })
        });
        // The first of equals, as inside a program.
        peaks.reduce(|a, b| if b.peak_bytes > a.peak_bytes { b } else { a }).expect("ops to run")
    }
}

/// The phases of training.
pub fn phases_of_training(programs: &TrainingPrograms, target: &impl Target) -> Vec<PhaseReport> {
    let of = |program: &Program| PhaseReport::of(program.name(), [program], target);
    let mut reports: Vec<_> = programs.phases().into_iter().map(of).collect();
    if let Some(samples) = &programs.sampling {
        reports.push(PhaseReport::of("sample_in_training", samples.both(), target));
    }
    reports
}

/// The live bytes of one phase, op by op, for charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseTimeline {
    /// As [`PhaseReport::name`].
    pub name: &'static str,
    /// The names of its ops, first to last.
    pub ops: Vec<&'static str>,
    /// Their live bytes.
    pub profile: Profile,
}

impl PhaseTimeline {
    /// Counts the phase that runs `program`.
    pub fn of(name: &'static str, program: &Program, target: &impl Target) -> Self {
        let ops = program.ops().iter().map(Op::name).collect();
        Self { name, ops, profile: profile(program, target) }
    }

    /// The op with the most live bytes, as in [`PhaseReport::of`].
    pub fn peak(&self) -> Option<Peak> {
        self.profile.peak()
    }
}

/// The report of `plan`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanReport {
    /// The engine.
    pub engine: &'static str,
    /// The device.
    pub device: DeviceMemory,
    /// Whether the verdict is [`Verdict::Fits`].
    pub fits: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// Most live bytes of the run's phases. Sampling is a separate run and not included.
    pub peak_bytes: Bytes,
    /// What is allocated. For engines without an arena this is the peak.
    pub arena_bytes: Bytes,
    /// The phase with the peak.
    pub peak_phase: &'static str,
    /// Memory in addition to the tensors.
    pub overhead: Overhead,
    /// The part of it that was measured on a device of this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<RuntimePool>,
    /// The sequences and tokens of one step.
    pub effective_batch: EffectiveBatch,
    /// The resolved config.
    pub config: Config,
    /// Every phase.
    pub phases: Vec<PhaseReport>,
}

impl PlanReport {
    /// Compares `phases` with `device`. `arena` is `None` for engines that do not plan.
    pub fn new(
        engine: &'static str,
        device: DeviceMemory,
        overhead: Overhead,
        config: &Config,
        phases: Vec<PhaseReport>,
        arena: Option<Bytes>,
    ) -> Self {
        let of_the_run = phases.iter().filter(|p| p.name != "sample");
        let peak = of_the_run.reduce(|a, b| if b.peak_bytes > a.peak_bytes { b } else { a });
        let (peak_bytes, peak_phase) = peak.map_or((Bytes::ZERO, ""), |p| (p.peak_bytes, p.name));
        let arena_bytes = arena.unwrap_or(peak_bytes);
        let verdict = Verdict::of(arena_bytes, &overhead, device.usable_bytes);
        Self {
            engine,
            device,
            fits: verdict == Verdict::Fits,
            verdict,
            peak_bytes,
            arena_bytes,
            peak_phase,
            overhead,
            pools: Vec::new(),
            effective_batch: config.effective_batch(),
            config: config.clone(),
            phases,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_between_the_ends_of_the_overhead_is_tight() {
        let context_bytes = [Bytes::new(10), Bytes::new(30)];
        let overhead = Overhead { context_bytes, ..Overhead::default() };
        let judge = |needed| Verdict::of(Bytes::new(needed), &overhead, Bytes::new(100));
        assert_eq!(judge(70), Verdict::Fits);
        assert_eq!(judge(71), Verdict::Tight);
        assert_eq!(judge(90), Verdict::Tight);
        assert_eq!(judge(91), Verdict::No);
    }
}
