//! From a log and what is known beside it to a diagnosis.

use fitgpt_plan::{
    config::{Config, ConfigError, Facts, Written},
    device::Gpu,
    report::Device,
    units::Bytes,
};

use crate::{
    diagnosis::{Certainty, Diagnosis, Finding, Fix, Kind, Want},
    parse::{Log, Memory},
    reason::{Run, Scene, Source, facts, next},
    rules,
};

/// What is known beside the log.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The run's config, as far as somebody wrote it down.
    pub config: Option<Written>,
    /// The card.
    pub gpu: Option<&'static Gpu>,
    refused: Option<ConfigError>,
}

impl Case {
    /// Nothing but the log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a config file. One that cannot be read is a finding, not an error: the log may say
    /// enough without it.
    pub fn read_config(&mut self, source: &str, text: &str, facts: &Facts) {
        let read = self.config.get_or_insert_default().read_python(source, text, facts);
        self.refuse(read);
    }

    /// Adds an override.
    pub fn set(&mut self, key: &str, value: &str) {
        let set = self.config.get_or_insert_default().set(key, value);
        self.refuse(set);
    }

    fn refuse(&mut self, result: Result<(), ConfigError>) {
        if let Err(error) = result {
            self.refused.get_or_insert(error);
        }
    }
}

/// Ways out for a config on a device, best first. The doctor ranks none and invents none.
pub type Fixes<'a> = &'a dyn Fn(&Config, &Device) -> Vec<Fix>;

/// No ways out, for callers that only ask why.
pub fn no_fixes(_: &Config, _: &Device) -> Vec<Fix> {
    Vec::new()
}

/// Thinks a log through.
pub fn diagnose(log: &Log, case: &Case, fixes: Fixes<'_>) -> Diagnosis {
    let kind = kind(log);
    let found = Run::find(log, case.config.as_ref(), case.gpu);
    let (run, error) = match found {
        Ok(run) => (run, None),
        Err(error) => (None, Some(error)),
    };
    let total = case.gpu.map(|gpu| gpu.total_bytes().get());
    let scene = Scene::new(log, &facts(log, total), run, case.refused.clone().or(error));
    let findings = rules::findings(&scene);
    let is_theirs = findings.iter().any(|f| f.is_cause && f.rule == "foreign-memory");
    let foreign_bytes = scene.facts.foreign.map_or(0, |size| size.bytes);
    let freed_bytes = if is_theirs { foreign_bytes } else { 0 };
    let is_gpu = kind == Kind::GpuMemory;
    let device = device(&scene, case).filter(|_| is_gpu);
    let config = scene.run.as_ref().map(|run| &run.config);
    let fixes = match (config, &device) {
        (Some(config), Some(device)) => fixes(config, device),
        _ => Vec::new(),
    };
    let mut notes: Vec<_> = log.notes.iter().map(|note| note.name).collect();
    if log.has_triton_beside {
        notes.push("kernel-choice-skipped");
    }
    let wants = wants(kind, &scene, &findings);
    Diagnosis {
        kind,
        facts: scene.facts,
        phase: scene.phase,
        supposing: scene.run.as_ref().and_then(Run::supposition),
        tensors: scene.tensors(),
        findings,
        next: if is_gpu { next(&scene, freed_bytes) } else { None },
        fixes,
        notes,
        refused: scene.config_error,
        wants,
    }
}

/// What to ask for where no cause is better than a guess.
fn wants(kind: Kind, scene: &Scene<'_>, findings: &[Finding]) -> Vec<Want> {
    let is_open = matches!(kind, Kind::GpuMemory | Kind::Unknown);
    let is_sure = |finding: &Finding| finding.is_cause && finding.certainty > Certainty::Unknown;
    if !is_open || findings.iter().any(is_sure) {
        return Vec::new();
    }
    let is_run_known = scene.run.as_ref().is_some_and(|run| run.source != Source::Defaults);
    let all = [
        (scene.log.frames.is_empty(), "log", "python train.py 2>&1 | tee train.log"),
        (!is_run_known, "config", "cat config/train_gpt2.py"),
        (
            scene.facts.total.is_none(),
            "gpu",
            "nvidia-smi --query-gpu=name,memory.total,memory.used --format=csv",
        ),
        (true, "torch-version", "python -c 'import torch; print(torch.__version__)'"),
    ];
    let missing = all.into_iter().filter(|(is_missing, ..)| *is_missing);
    missing.map(|(_, what, command)| Want { what, command }).collect()
}

fn kind(log: &Log) -> Kind {
    match log.message.as_ref().map(|message| message.memory) {
        None => Kind::None,
        Some(Memory::Gpu) => Kind::GpuMemory,
        Some(Memory::Host) => Kind::HostMemory,
        Some(Memory::Shared) => Kind::SharedMemory,
        Some(Memory::Unknown) => Kind::Unknown,
    }
}

/// The card of the log, without what others hold of it.
fn device(scene: &Scene<'_>, case: &Case) -> Option<Device> {
    let total = scene.facts.total?.bytes;
    let foreign = scene.facts.foreign.map_or(0, |size| size.bytes);
    Some(Device {
        name: case.gpu.map_or_else(|| "the log's card".to_owned(), |gpu| gpu.name.to_owned()),
        total_bytes: Bytes::new(total),
        usable_bytes: Bytes::new(total.saturating_sub(foreign)),
    })
}
