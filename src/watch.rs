//! Memory over time, against a plan: samples as data, nothing drawn.
//!
//! With a process, its own bytes are compared with the plan; without one, what the machine or
//! its cards hold more than at the first sample.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    time::Instant,
};

use fitgpt_plan::{
    report::{Overhead, PlanReport},
    units::Bytes,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    cards::{Card, Driver},
    os,
};

/// Where a plan's bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Memory {
    Host,
    Card,
}

/// As much of a plan as can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Planned {
    pub(crate) memory: Memory,
    pub(crate) arena_bytes: Bytes,
    /// Beside the arena, `[low, high]`.
    pub(crate) overhead_bytes: [Bytes; 2],
}

impl Planned {
    pub(crate) fn of_report(report: &PlanReport, memory: Memory) -> Self {
        let overhead_bytes = report.overhead.range();
        Self { memory, arena_bytes: report.arena_bytes, overhead_bytes }
    }

    /// The plan of a process that is a run of ours, by the log that it writes to.
    pub(crate) fn of_run(pid: u32) -> Option<Self> {
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
        Some(Self { memory: Memory::Host, arena_bytes, overhead_bytes: overhead.range() })
    }

    /// The arena and the high end of what may be beside it.
    pub(crate) fn most(&self) -> Bytes {
        self.arena_bytes + self.overhead_bytes[1]
    }
}

/// The memory of a moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    /// Since the first.
    pub(crate) seconds: f64,
    pub(crate) process: Option<Watched>,
    pub(crate) host: Host,
    pub(crate) cards: Vec<Card>,
    pub(crate) plan: Option<Planned>,
}

/// The process that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Watched {
    pub(crate) pid: u32,
    pub(crate) name: Option<String>,
    pub(crate) resident_bytes: Bytes,
    pub(crate) peak_resident_bytes: Bytes,
}

/// The host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is the last word")]
pub(crate) struct Host {
    pub(crate) total_bytes: Bytes,
    pub(crate) used_bytes: Bytes,
    pub(crate) available_bytes: Bytes,
}

impl Sample {
    /// What a plan for `memory` is compared with.
    pub(crate) fn subject(&self, memory: Memory) -> Bytes {
        match (memory, &self.process) {
            (Memory::Host, Some(process)) => process.resident_bytes,
            (Memory::Host, None) => self.host.used_bytes,
            (Memory::Card, Some(process)) => {
                self.cards.iter().filter_map(|card| held_by(card, process.pid)).sum()
            }
            (Memory::Card, None) => {
                self.cards.iter().filter_map(|card| card.memory).map(|m| m.used_bytes).sum()
            }
        }
    }

    /// The most that a plan for `memory` is compared with, up to this moment.
    fn peak(&self, memory: Memory) -> Bytes {
        let remembered = match (memory, &self.process) {
            (Memory::Host, Some(process)) => process.peak_resident_bytes,
            _ => Bytes::ZERO,
        };
        remembered.max(self.subject(memory))
    }
}

/// What the process `pid` holds of `card`.
pub(crate) fn held_by(card: &Card, pid: u32) -> Option<Bytes> {
    card.processes.iter().find(|holder| holder.pid == pid)?.bytes
}

/// What was seen from the first sample to the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) samples: u64,
    pub(crate) seconds: f64,
    /// Of the process, or of the machine.
    pub(crate) peak_bytes: Bytes,
    pub(crate) plan: Option<Planned>,
    /// The peak less the plan's arena, and less what the machine held at first where no process
    /// is watched.
    pub(crate) difference_bytes: Option<i64>,
    /// Whether the peak stayed below the high end of the plan.
    pub(crate) is_within_plan: Option<bool>,
}

/// Takes samples.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: Option<u32>,
    driver: Option<Driver>,
    planned: Option<Planned>,
    started: Instant,
    samples: u64,
    seconds: f64,
    /// What is there without the run.
    base: Option<Bytes>,
    peak: Bytes,
}

impl Watch {
    pub(crate) fn new(pid: Option<u32>, planned: Option<Planned>, driver: Option<Driver>) -> Self {
        Self {
            pid,
            driver,
            planned,
            started: Instant::now(),
            samples: 0,
            seconds: 0.0,
            base: pid.map(|_| Bytes::ZERO),
            peak: Bytes::ZERO,
        }
    }

    /// The memory now; `None` where the process is not there, or not any more.
    pub(crate) fn sample(&mut self) -> Option<Sample> {
        let process = match self.pid {
            Some(pid) => {
                let memory = os::process_memory(pid)?;
                // A run opens its log a moment after it starts.
                self.planned = self.planned.or_else(|| Planned::of_run(pid));
                Some(Watched {
                    pid,
                    name: os::process_name(pid),
                    resident_bytes: memory.resident,
                    peak_resident_bytes: memory.peak,
                })
            }
            None => None,
        };
        let memory = os::host_memory();
        let sample = Sample {
            seconds: self.started.elapsed().as_secs_f64(),
            process,
            host: Host {
                total_bytes: memory.total,
                used_bytes: memory.total.saturating_sub(memory.available),
                available_bytes: memory.available,
            },
            cards: self.driver.as_ref().map(Driver::cards).unwrap_or_default(),
            plan: self.planned,
        };
        self.samples += 1;
        self.seconds = sample.seconds;
        let compared = self.compared();
        self.base.get_or_insert_with(|| sample.subject(compared));
        self.peak = self.peak.max(sample.peak(compared));
        Some(sample)
    }

    /// Which memory is compared with the plan.
    pub(crate) fn compared(&self) -> Memory {
        self.planned.map_or(Memory::Host, |planned| planned.memory)
    }

    /// Where the plan's line stands.
    pub(crate) fn mark(&self) -> Option<Bytes> {
        Some(self.base.unwrap_or_default() + self.planned?.most())
    }

    pub(crate) fn peak(&self) -> Bytes {
        self.peak
    }

    pub(crate) fn summary(&self) -> Summary {
        let taken = self.peak.saturating_sub(self.base.unwrap_or_default());
        Summary {
            samples: self.samples,
            seconds: self.seconds,
            peak_bytes: self.peak,
            plan: self.planned,
            difference_bytes: self
                .planned
                .map(|plan| taken.get() as i64 - plan.arena_bytes.get() as i64),
            is_within_plan: self.planned.map(|plan| taken <= plan.most()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_plan_of_a_log_counts() {
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
        let planned = Planned::of_events(&path).unwrap();
        assert_eq!(planned.arena_bytes, Bytes::new(200));
        assert_eq!(planned.most(), Bytes::new(222));
        std::fs::write(&path, step).unwrap();
        assert_eq!(Planned::of_events(&path), None);
    }

    #[test]
    fn without_a_process_only_what_is_added_counts() {
        let planned = Planned {
            memory: Memory::Host,
            arena_bytes: Bytes::new(100),
            overhead_bytes: [Bytes::new(5), Bytes::new(10)],
        };
        let mut watch = Watch::new(None, Some(planned), None);
        (watch.base, watch.peak) = (Some(Bytes::new(1000)), Bytes::new(1107));
        assert_eq!(watch.mark(), Some(Bytes::new(1110)));
        let summary = watch.summary();
        assert_eq!((summary.difference_bytes, summary.is_within_plan), (Some(7), Some(true)));
        watch.peak = Bytes::new(1111);
        assert_eq!(watch.summary().is_within_plan, Some(false));
    }

    #[test]
    fn a_process_that_is_there_is_seen_and_one_that_is_not_is_none() {
        let mut watch = Watch::new(Some(std::process::id()), None, None);
        let sample = watch.sample().unwrap();
        let process = sample.process.unwrap();
        assert!(process.resident_bytes > Bytes::new(1 << 20));
        assert!(process.peak_resident_bytes >= process.resident_bytes);
        assert!(watch.summary().peak_bytes >= process.resident_bytes);
        // Larger than any process number that systems give.
        assert!(Watch::new(Some(u32::MAX - 1), None, None).sample().is_none());
    }
}
