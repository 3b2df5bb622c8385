//! Samples memory over time and compares it with a plan. Drawing happens elsewhere.
//!
//! With a process, the process's bytes are compared with the plan; without one, the bytes that the
//! machine or its cards hold in addition to the first sample. A plan for a card is compared with
//! the card's memory or not at all.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    time::Instant,
};

use fitgpt_files::os;
use fitgpt_model::report::{Overhead, PlanReport};
use fitgpt_program::units::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::{
    budget::THIS_MACHINE,
    cards::{NvidiaDriver, NvmlCard},
    host,
};

/// Which memory a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchedMemory {
    /// The host's.
    Host,
    /// A card's.
    Card,
}

/// The part of a plan that can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WatchedPlan {
    /// `fitgpt` or `torch`, which has no arena: its bytes are those of the tensors.
    pub engine: &'static str,
    /// Where it is.
    pub memory: WatchedMemory,
    /// What is allocated.
    pub arena_bytes: Bytes,
    /// Memory in addition to the arena, `[low, high]`.
    pub overhead_bytes: [Bytes; 2],
}

impl WatchedPlan {
    /// The plan in a report.
    pub fn of_report(report: &PlanReport, memory: WatchedMemory) -> Self {
        let overhead_bytes = report.overhead.range();
        Self { engine: report.engine, memory, arena_bytes: report.arena_bytes, overhead_bytes }
    }

    /// The plan of a `fitgpt train` process, read from the log that it has open.
    pub fn of_run(pid: u32) -> Option<Self> {
        Self::of_events(&os::open_file(pid, "events.jsonl")?)
    }

    /// The last plan in a run's log: a resume has a new one.
    fn of_events(path: &Path) -> Option<Self> {
        let mut log = BufReader::new(File::open(path).ok()?);
        let (mut line, mut last) = (Vec::new(), None);
        while log.read_until(b'\n', &mut line).ok()? > 0 {
            if line.starts_with(br#"{"event":"plan""#) && line.ends_with(b"\n") {
                last = Some(std::mem::take(&mut line));
            }
            line.clear();
        }
        let event: Value = serde_json::from_slice(&last?).ok()?;
        let plan = &event["plan"];
        let range = |name: &str| {
            let [low, high] = [0, 1].map(|end| plan["overhead"][name][end].as_u64());
            Some([Bytes::new(low?), Bytes::new(high?)])
        };
        let overhead = Overhead {
            context_bytes: range("context_bytes")?,
            workspace_bytes: range("workspace_bytes")?,
            compile_bytes: range("compile_bytes")?,
        };
        let arena_bytes = Bytes::new(plan["arena_bytes"].as_u64()?);
        let is_host = plan["device"]["name"].as_str().is_none_or(|name| name == THIS_MACHINE);
        let memory = if is_host { WatchedMemory::Host } else { WatchedMemory::Card };
        let overhead_bytes = overhead.range();
        Some(Self { engine: "fitgpt", memory, arena_bytes, overhead_bytes })
    }

    /// The arena plus the high end of the overhead.
    pub fn most(&self) -> Bytes {
        self.arena_bytes + self.overhead_bytes[1]
    }
}

/// The memory at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct MemorySample {
    /// Since the first sample.
    pub seconds: f64,
    /// The watched process, if there is one.
    pub process: Option<ProcessSample>,
    /// This machine.
    pub host: HostSample,
    /// Its NVIDIA cards.
    pub cards: Vec<NvmlCard>,
    /// What the process has planned.
    pub plan: Option<WatchedPlan>,
}

/// The memory of the watched process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessSample {
    /// Its number.
    pub pid: u32,
    /// Its name, if it can be read.
    pub name: Option<String>,
    /// In memory now.
    pub resident_bytes: Bytes,
    /// At most so far.
    pub peak_resident_bytes: Bytes,
}

/// The host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostSample {
    /// All of it.
    pub total_bytes: Bytes,
    /// By all processes.
    pub used_bytes: Bytes,
    /// Without swapping.
    pub available_bytes: Bytes,
}

impl MemorySample {
    /// The bytes that a plan for `memory` is compared with.
    pub fn subject(&self, memory: WatchedMemory) -> Bytes {
        match (memory, &self.process) {
            (WatchedMemory::Host, Some(process)) => process.resident_bytes,
            (WatchedMemory::Host, None) => self.host.used_bytes,
            (WatchedMemory::Card, Some(process)) => {
                self.cards.iter().filter_map(|card| held_by(card, process.pid)).sum()
            }
            (WatchedMemory::Card, None) => {
                self.cards.iter().filter_map(|card| card.memory).map(|m| m.used_bytes).sum()
            }
        }
    }

    /// The largest such value up to this moment.
    fn peak(&self, memory: WatchedMemory) -> Bytes {
        let remembered = match (memory, &self.process) {
            (WatchedMemory::Host, Some(process)) => process.peak_resident_bytes,
            _ => Bytes::ZERO,
        };
        remembered.max(self.subject(memory))
    }
}

/// Bytes of `card` that process `pid` holds.
pub fn held_by(card: &NvmlCard, pid: u32) -> Option<Bytes> {
    card.processes.iter().find(|holder| holder.pid == pid)?.bytes
}

/// A summary of all samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WatchSummary {
    /// How many were taken.
    pub samples: u64,
    /// Between the first and the last.
    pub seconds: f64,
    /// Of the process, or of the machine, in the memory that the plan is for.
    pub peak_bytes: Bytes,
    /// What it is compared with.
    pub plan: Option<WatchedPlan>,
    /// The peak minus the plan's arena; without a process also minus the first sample. `None`
    /// without a plan, and if the plan's memory cannot be read here.
    pub difference_bytes: Option<i64>,
    /// Whether the peak stayed below the high end of the plan.
    pub is_within_plan: Option<bool>,
}

/// Takes samples.
#[derive(Debug)]
pub struct MemoryWatch {
    pid: Option<u32>,
    driver: Option<NvidiaDriver>,
    planned: Option<WatchedPlan>,
    started: Instant,
    samples: u64,
    seconds: f64,
    /// Bytes in use before the run.
    base: Option<Bytes>,
    peak: Bytes,
    has_cards: bool,
}

impl MemoryWatch {
    /// Watches the process `pid`, or the machine, against `planned` or the process's own plan.
    pub fn new(
        pid: Option<u32>,
        planned: Option<WatchedPlan>,
        driver: Option<NvidiaDriver>,
    ) -> Self {
        Self {
            pid,
            driver,
            planned,
            started: Instant::now(),
            samples: 0,
            seconds: 0.0,
            base: pid.map(|_| Bytes::ZERO),
            peak: Bytes::ZERO,
            has_cards: false,
        }
    }

    /// The memory now; `None` if the process does not exist or has ended.
    pub fn sample(&mut self) -> Option<MemorySample> {
        let process = match self.pid {
            Some(pid) => {
                let memory = os::process_memory(pid)?;
                // A run opens its log a moment after it starts.
                self.planned = self.planned.or_else(|| WatchedPlan::of_run(pid));
                Some(ProcessSample {
                    pid,
                    name: os::process_name(pid),
                    resident_bytes: memory.resident,
                    peak_resident_bytes: memory.peak,
                })
            }
            None => None,
        };
        let memory = host::memory();
        let sample = MemorySample {
            seconds: self.started.elapsed().as_secs_f64(),
            process,
            host: HostSample {
                total_bytes: memory.total,
                used_bytes: memory.total.saturating_sub(memory.available),
                available_bytes: memory.available,
            },
            cards: self.driver.as_ref().map(NvidiaDriver::cards).unwrap_or_default(),
            plan: self.planned,
        };
        self.samples += 1;
        self.seconds = sample.seconds;
        self.has_cards = sample.cards.iter().any(|card| card.memory.is_some());
        let compared = self.compared();
        self.base.get_or_insert_with(|| sample.subject(compared));
        self.peak = self.peak.max(sample.peak(compared));
        Some(sample)
    }

    /// The plan, if the memory that it is for can be read here.
    fn comparable(&self) -> Option<WatchedPlan> {
        self.planned.filter(|planned| planned.memory == WatchedMemory::Host || self.has_cards)
    }

    /// Which memory is compared with the plan.
    pub fn compared(&self) -> WatchedMemory {
        self.comparable().map_or(WatchedMemory::Host, |planned| planned.memory)
    }

    /// The plan's mark in a meter.
    pub fn mark(&self) -> Option<Bytes> {
        Some(self.base.unwrap_or_default() + self.comparable()?.most())
    }

    /// The most that was in use.
    pub fn peak(&self) -> Bytes {
        self.peak
    }

    /// What was seen.
    pub fn summary(&self) -> WatchSummary {
        let taken = self.peak.saturating_sub(self.base.unwrap_or_default());
        WatchSummary {
            samples: self.samples,
            seconds: self.seconds,
            peak_bytes: self.peak,
            plan: self.planned,
            difference_bytes: self
                .comparable()
                .map(|plan| taken.get() as i64 - plan.arena_bytes.get() as i64),
            is_within_plan: self.comparable().map(|plan| taken <= plan.most()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complete_plan_of_a_log_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let plan = |arena: u64| {
            format!(
                r#"{{"event":"plan","step":0,"plan":{{"arena_bytes":{arena},"overhead":{{"context_bytes":[1,2],"workspace_bytes":[10,20],"compile_bytes":[0,0]}}}}}}"#
            )
        };
        let step = r#"{"event":"step","step":0,"loss":1.0}"#;
        std::fs::write(&path, format!("{}\n{step}\n{}\n{step}\n{}", plan(100), plan(200), plan(3)))
            .unwrap();
        let planned = WatchedPlan::of_events(&path).unwrap();
        assert_eq!((planned.arena_bytes, planned.memory), (Bytes::new(200), WatchedMemory::Host));
        assert_eq!(planned.most(), Bytes::new(222));
        let on_card = r#""device":{"name":"NVIDIA GeForce RTX 4070"},"arena_bytes""#;
        let line = plan(100).replace(r#""arena_bytes""#, on_card);
        std::fs::write(&path, line + "\n").unwrap();
        assert_eq!(WatchedPlan::of_events(&path).unwrap().memory, WatchedMemory::Card);
        std::fs::write(&path, step).unwrap();
        assert_eq!(WatchedPlan::of_events(&path), None);
    }

    #[test]
    fn a_plan_for_a_card_is_not_compared_with_host_memory() {
        let planned = WatchedPlan {
            engine: "torch",
            memory: WatchedMemory::Card,
            arena_bytes: Bytes::new(100),
            overhead_bytes: [Bytes::new(5), Bytes::new(10)],
        };
        let mut watch = MemoryWatch::new(Some(std::process::id()), Some(planned), None);
        watch.sample().unwrap();
        let summary = watch.summary();
        assert_eq!((summary.difference_bytes, summary.is_within_plan), (None, None));
        assert_eq!((watch.mark(), summary.plan), (None, Some(planned)));
    }

    #[test]
    fn without_a_process_only_added_bytes_count() {
        let planned = WatchedPlan {
            engine: "fitgpt",
            memory: WatchedMemory::Host,
            arena_bytes: Bytes::new(100),
            overhead_bytes: [Bytes::new(5), Bytes::new(10)],
        };
        let mut watch = MemoryWatch::new(None, Some(planned), None);
        (watch.base, watch.peak) = (Some(Bytes::new(1000)), Bytes::new(1107));
        assert_eq!(watch.mark(), Some(Bytes::new(1110)));
        let summary = watch.summary();
        assert_eq!((summary.difference_bytes, summary.is_within_plan), (Some(7), Some(true)));
        watch.peak = Bytes::new(1111);
        assert_eq!(watch.summary().is_within_plan, Some(false));
    }

    #[test]
    fn an_existing_process_is_sampled_and_a_missing_one_is_none() {
        let mut watch = MemoryWatch::new(Some(std::process::id()), None, None);
        let sample = watch.sample().unwrap();
        let process = sample.process.unwrap();
        assert!(process.resident_bytes > Bytes::new(1 << 20));
        assert!(process.peak_resident_bytes >= process.resident_bytes);
        assert!(watch.summary().peak_bytes >= process.resident_bytes);
        // Larger than any process id.
        assert!(MemoryWatch::new(Some(u32::MAX - 1), None, None).sample().is_none());
    }
}
