//! From a log and its context to a diagnosis.

use fitgpt_config::{ConfigError, MachineFacts, Precision, Written};
use fitgpt_fit::{
    device::CardSpec,
    fit::{self, Engine},
    torch,
};
use fitgpt_model::{report::DeviceMemory, shard::Share};
use fitgpt_program::units::Bytes;

use crate::{
    cause::Cause,
    diagnosis::{Diagnosis, Finding, Fix, RunContext},
    facts::{Domain, MemoryKind},
    parse::{HarmlessLine, Log},
    playbook::{self, Invocation},
    reason::{self, Analysis, Decoder, TrainingRun, domain, facts, next},
    rules,
};

/// Facts about the run that the caller knows in addition to the log.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The run's config.
    pub config: Option<Written>,
    /// The card.
    pub gpu: Option<&'static CardSpec>,
    /// The model, in any stack.
    pub decoder: Option<Decoder>,
    file: Option<String>, // of the config
    refused: Option<ConfigError>,
}

impl Context {
    /// Only the log is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a config file. An invalid one becomes a finding, not an error: the log may be enough
    /// without it.
    pub fn read_config(&mut self, source: &str, text: &str, facts: &MachineFacts) {
        let read = self.config.get_or_insert_default().read_python(source, text, facts);
        self.file = Some(source.to_owned());
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

/// Diagnoses a log. A text that is advice instead of a log gets its claims checked.
pub fn diagnose(log: &Log, context: &Context) -> Diagnosis {
    if !log.advice().is_empty() {
        return checked(log, context);
    }
    let mut diagnosis = of_log(log, context);
    diagnosis.claims = reason::claims::check(log.advised.claims(), None);
    diagnosis
}

/// The claims of a text that is advice, with the plan's figures if a config was given.
fn checked(log: &Log, context: &Context) -> Diagnosis {
    let nothing = Log::default();
    let given = context.config.as_ref();
    let run = given.and_then(|_| {
        TrainingRun::find(&nothing, given, context.gpu, Domain::NanoGpt).ok().flatten()
    });
    let mut diagnosis = of_log(&nothing, context);
    diagnosis.claims = reason::claims::check(log.advice(), run.as_ref());
    diagnosis
}

fn of_log(log: &Log, context: &Context) -> Diagnosis {
    let kind = log.message.as_ref().map_or(MemoryKind::None, |message| message.memory);
    let domain = match domain(log) {
        // A caller who passes a nanoGPT config knows what ran.
        Domain::Unknown if context.config.is_some() => Domain::NanoGpt,
        domain => domain,
    };
    let found = TrainingRun::find(log, context.config.as_ref(), context.gpu, domain);
    let (run, error) = match found {
        Ok(run) => (run, None),
        Err(error) => (None, Some(error)),
    };
    let total = context.gpu.map(|gpu| gpu.total_bytes().get());
    let error = context.refused.clone().or(error);
    let analysis =
        Analysis::new(log, &facts(log, total), domain, context.decoder.clone(), run, error);
    let findings = rules::findings(&analysis);
    let is_cause = |is: fn(&Cause) -> bool| findings.iter().any(|f| f.is_cause && is(&f.cause));
    let is_theirs = is_cause(|cause| matches!(cause, Cause::ForeignMemory { .. }));
    let foreign_bytes = analysis.facts.foreign.map_or(0, |size| size.bytes);
    let is_gpu = kind == MemoryKind::GpuMemory;
    // Without the other processes the whole card is available.
    let device = device(&analysis, context).filter(|_| is_gpu);
    let named = log.setup.cards.only().map(|card| card.name);
    let run_context = RunContext {
        file: context.file.as_deref(),
        config: context.config.as_ref(),
        card: context.gpu.map(|gpu| gpu.name).or(named),
    };
    let invocation = Invocation::new(log, run_context, analysis.run.as_ref());
    let fixes = match (&analysis.run, &device) {
        (Some(run), Some(device)) => fixes(run, &invocation, context, device),
        _ => Vec::new(),
    };
    let advice = playbook::advice(&analysis, kind, &findings, &invocation);
    let steps = playbook::steps(&advice, &fixes, &findings, &invocation, &log.setup.command);
    let do_next = playbook::do_next(&analysis, kind, &findings, &steps);
    let freed_bytes = if is_theirs { foreign_bytes } else { 0 };
    let config = analysis.run.as_ref().map(|run| {
        let vocab = [("vocab_size", i64::from(run.model.vocab).into())];
        run.config.with("the log", vocab).unwrap_or_else(|_| run.config.clone())
    });
    Diagnosis {
        config,
        kind,
        domain,
        facts: analysis.facts,
        phase: analysis.phase,
        supposing: analysis.run.as_ref().and_then(TrainingRun::supposition),
        tensors: analysis.tensors(),
        account: analysis.account(),
        budget: analysis.budget.clone(),
        next: if is_gpu { next(&analysis, freed_bytes) } else { None },
        advice,
        fixes,
        steps,
        do_next,
        claims: Vec::new(),
        notes: notes(log, &findings),
        findings,
        refused: analysis.config_error,
    }
}

/// Harmless lines. PyTorch's hint about fragmentation is one unless fragmentation is the cause.
fn notes(log: &Log, findings: &[Finding]) -> Vec<HarmlessLine> {
    let is_fragmented =
        findings.iter().any(|f| f.is_cause && matches!(f.cause, Cause::Fragmentation { .. }));
    let mut notes = log.notes.clone();
    notes.retain(|line| *line != HarmlessLine::FragmentationHint || !is_fragmented);
    if log.has_harmless_triton_error {
        notes.push(HarmlessLine::KernelChoiceSkipped);
    }
    notes
}

/// The card of the log, less the memory of other processes.
fn device(analysis: &Analysis<'_>, context: &Context) -> Option<DeviceMemory> {
    let total = analysis.facts.total?.bytes;
    let foreign = analysis.facts.foreign.map_or(0, |size| size.bytes);
    Some(DeviceMemory {
        name: context.gpu.map_or_else(|| "the log's card".to_owned(), |gpu| gpu.name.to_owned()),
        total_bytes: Bytes::new(total),
        usable_bytes: Bytes::new(total.saturating_sub(foreign)),
    })
}

/// Config changes that make this run fit in PyTorch. A run that already fits has none.
fn fixes(
    run: &TrainingRun,
    invocation: &Invocation<'_>,
    context: &Context,
    device: &DeviceMemory,
) -> Vec<Fix> {
    let precision = match run.options.precision {
        torch::TorchPrecision::F32 => Precision::Float32,
        torch::TorchPrecision::Bf16 => Precision::Bfloat16,
        torch::TorchPrecision::F16 => Precision::Float16,
    };
    let found = fit::fit(&fit::FitRequest {
        config: &run.config,
        vocab: run.model.vocab,
        engine: Engine::Torch { precision, kernels: run.options },
        device,
        overhead: torch::overhead(&run.config),
        has_bf16: context.gpu.is_none_or(CardSpec::has_bf16),
        is_faster_in_bf16: false,
        share: Share::WHOLE,
    });
    let options = found.options.into_iter().filter(|option| !option.changes.is_empty());
    let fix = |option: fit::FitOption| Fix {
        engine: "torch",
        command: invocation.train(&option.changes, &option.patches),
        changes: option.changes,
        patches: option.patches,
        peak_bytes: option.peak_bytes.get(),
        saved_bytes: option.saved_bytes.get(),
        fits: option.fits,
        verdict: option.verdict,
        keeps_training: option.keeps_training,
        extra_compute: option.extra_compute,
        effective_batch: option.effective_batch,
    };
    options.map(fix).collect()
}
