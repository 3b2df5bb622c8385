//! The planner on the page: what `plan --json` and `fit --json` print, plus the columns of the
//! picture and the texts that the page shows.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use fitgpt_commands::{
    Failure,
    config_file::{self, ConfigSource},
    fit::OptionsRequest,
    origin,
    plan::PlanRequest,
    target::{DeviceFlags, EngineChoice},
};
use fitgpt_config::{Config, ConfigValue, Written, divisors};
use fitgpt_data::{Dataset, GPT2_VOCAB_SIZE};
use fitgpt_fit::fit;
use fitgpt_model::{
    Model,
    report::{PhaseTimeline, PlanReport},
};
use fitgpt_program::{Program, TensorClass, memory::lifetimes};
use fitgpt_serve::refuse;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{super::plan_text, error::ApiError, powers};
use crate::{
    picture::{
        chart::{Panel, columns},
        scale::figure_next_to,
    },
    words::{
        self, Say as _, fit as fit_words, grouped, lang, names, plan as plan_words,
        serve as messages,
    },
};

/// Columns of one engine's picture: about one for every two pixels of a wide screen.
const COLUMNS: u64 = 480;
/// Columns of a phase with few ops.
const LEAST_COLUMNS: u64 = 12;
/// The most tensors that are listed under the pointer.
const ALIVE: usize = 7;
/// Larger models are planned on the command line: the page should answer at once.
const MAX_LAYERS: u32 = 200;
/// The most ranks that the page plans; the share of each one is computed.
const MAX_RANKS: u32 = 256;

/// The most sequences of a step: its divisors are found by trial.
const MAX_SEQUENCES: u64 = 1 << 24;
/// The most work for one answer: layers × batch sizes to try. Every layer is counted for each divisor
/// of an evaluation's batch, and by [`fit`] for each divisor of a step. Without this limit, 200 layers
/// and a number with 3,645 divisors kept a core busy for 9 s; at the limit it is less than one.
const MAX_WORK: u64 = 20_000;

/// The card that the page begins with.
const FIRST_CARD: &str = "GeForce RTX 4070";

/// The state that the page begins with.
pub(super) fn first() -> Value {
    json!({ "config": "", "file": "", "keys": {}, "engine": "torch", "ranks": 1, "gpu": FIRST_CARD })
}

/// The vocabulary of [`first`], if its dataset can be read.
pub(super) fn first_vocab() -> Option<u32> {
    Resolved::of(&first(), &[]).ok().map(|resolved| resolved.vocab)
}

/// The page's whole state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannerState {
    /// The text of a config file.
    #[serde(default)]
    config: String,
    /// The name of that file in commands.
    #[serde(default)]
    file: String,
    /// Overrides, as on a command line.
    #[serde(default)]
    keys: BTreeMap<String, String>,
    /// A card by its name; without one, this machine.
    #[serde(default)]
    gpu: Option<String>,
    /// The number of processes that train together, each on such a device; 0 and 1 mean one.
    #[serde(default)]
    ranks: u32,
    /// The engine of the request: `fitgpt` or `torch`.
    #[serde(default)]
    engine: String,
    /// Whether the answer has the document that `plan --json` prints, too.
    #[serde(default)]
    report: bool,
    /// For [`alive`]: a phase by its name.
    #[serde(default)]
    phase: String,
    /// For [`alive`]: an op, counted from the start of the phase.
    #[serde(default)]
    op: u32,
}

impl PlannerState {
    fn of(asked: &Value) -> Result<Self, ApiError> {
        let state = Self::deserialize(asked);
        state.map_err(|_| refuse(400, "this is not the planner's state").into())
    }

    fn engine(&self) -> EngineChoice {
        if self.engine == "torch" { EngineChoice::Torch } else { EngineChoice::Fitgpt }
    }

    /// The name of the file, if it is safe to paste into a shell; else a default.
    fn file(&self) -> &str {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let is_name = !self.file.is_empty() && self.file.chars().all(is_plain);
        if is_name && !self.file.starts_with('-') { &self.file } else { "config.py" }
    }

    /// The file's name and text, if there is one.
    fn source(&self) -> Option<(&str, &str)> {
        let is_empty = self.config.trim().is_empty();
        (!is_empty).then(|| (self.file(), self.config.as_str()))
    }

    fn files(&self) -> Vec<String> {
        self.source().map(|(file, _)| file.to_owned()).into_iter().collect()
    }

    /// The keys of the file, then the overrides. `roots` are the folders that are served.
    fn written(&self, roots: &[PathBuf]) -> Result<Written, ApiError> {
        let mut written = Written::new();
        if let Some((file, text)) = self.source() {
            written.read_python(file, text, &config_file::facts())?;
        }
        for (key, value) in &self.keys {
            written.set(key, value)?;
        }
        powers::check(&written, roots)?;
        Ok(origin::describe(written, None)?)
    }

    /// How many ranks, if there are several.
    fn ranks(&self) -> Option<u32> {
        (self.ranks > 1).then_some(self.ranks)
    }

    /// The card, or this machine.
    fn device(&self) -> DeviceFlags<'_> {
        DeviceFlags { gpu: self.gpu.as_deref(), reserve: None, is_compared: true }
    }
}

/// A state with everything derived from it.
struct Resolved {
    state: PlannerState,
    source: ConfigSource,
    config: Config,
    vocab: u32,
}

impl Resolved {
    fn of(asked: &Value, roots: &[PathBuf]) -> Result<Self, ApiError> {
        let state = PlannerState::of(asked)?;
        let written = state.written(roots)?;
        let config = written.resolve()?;
        within_limits(&config, state.ranks).map_err(|message| Failure::new("limit", message))?;
        let vocab = vocab(&config)?;
        let source = ConfigSource { files: state.files(), written };
        Ok(Self { state, source, config, vocab })
    }

    /// The request for a plan of one engine.
    fn plan_request<'a>(
        &'a self,
        engine: &'a EngineChoice,
        wants_timelines: bool,
    ) -> PlanRequest<'a> {
        let Self { state, config, vocab, .. } = self;
        PlanRequest {
            config,
            vocab: *vocab,
            engines: std::slice::from_ref(engine),
            device: state.device(),
            ranks: state.ranks(),
            network: None,
            wants_timelines,
        }
    }
}

/// Refuses what would keep a core busy for seconds: the message for the page.
fn within_limits(config: &Config, ranks: u32) -> Result<(), String> {
    let layers = config.n_layer();
    let sequences = config.effective_batch().sequences;
    if layers > MAX_LAYERS {
        return Err(messages::too_many_layers(layers, MAX_LAYERS));
    }
    if ranks > MAX_RANKS {
        return Err(messages::too_many_ranks(ranks, MAX_RANKS));
    }
    if sequences > MAX_SEQUENCES {
        return Err(messages::too_many_sequences(grouped(sequences), grouped(MAX_SEQUENCES)));
    }
    let batches = divisors(sequences).len() + divisors(config.eval_batch_size().into()).len();
    if u64::from(layers) * batches as u64 > MAX_WORK {
        return Err(messages::too_much_work(layers, batches, grouped(MAX_WORK)));
    }
    Ok(())
}

/// The vocabulary: the config's, else that of a dataset in `data/`, else GPT-2's. Paths are not
/// looked up: the page must not reveal which files exist.
fn vocab(config: &Config) -> Result<u32, Failure> {
    match (config.vocab_size(), powers::dataset(config)) {
        (0, Some(dataset)) => Ok(Dataset::vocab_size_of(&dataset, Path::new("."))?),
        (0, None) => Ok(GPT2_VOCAB_SIZE),
        (vocab, _) => Ok(vocab),
    }
}

/// The whole config as a file: its text with the overrides in it. And the arguments of `train` that
/// override it.
pub(super) fn run_config(
    asked: &Value,
    roots: &[PathBuf],
) -> Result<(String, Vec<String>), ApiError> {
    let Resolved { state, source, config, .. } = Resolved::of(asked, roots)?;
    if state.ranks().is_some() {
        return Err(Failure::new("ranks", messages::one_process()).into());
    }
    let arguments = powers::of_run(&config)?;
    Ok((fit::write(state.source(), &source.written, &[])?, arguments))
}

/// The plans of both engines with their pictures.
pub(super) fn plan(asked: &Value, roots: &[PathBuf]) -> Result<Value, ApiError> {
    let resolved = Resolved::of(asked, roots)?;
    let Resolved { state, source, config, .. } = &resolved;
    let document = |engine| match one_engine(&resolved, engine) {
        Ok(document) => document,
        // A config may be supported by only one of the engines.
        Err(failure) => {
            let error = &failure.to_json_with_hints(lang())["error"];
            json!({ "engine": engine_name(engine), "failure": error })
        }
    };
    // In parallel, because a slider waits for both: with 48 layers each takes 25 ms.
    let lang = words::lang();
    let engines = thread::scope(|scope| {
        let torch = scope.spawn(|| words::with_lang(lang, || document(EngineChoice::Torch)));
        let fitgpt = document(EngineChoice::Fitgpt);
        [torch.join().unwrap_or_else(|panic| resume_unwind(panic)), fitgpt]
    });
    let values: BTreeMap<_, _> =
        config.pairs().into_iter().map(|(key, value)| (key, plain(&value))).collect();
    Ok(json!({
        "engines": engines,
        "values": values,
        "effective_batch": config.effective_batch(),
        "vocab": resolved.vocab,
        "parameters": Model::new(config, resolved.vocab).parameter_count(),
        "config": fit::write(state.source(), &source.written, &[])?,
    }))
}

const fn engine_name(engine: EngineChoice) -> &'static str {
    match engine {
        EngineChoice::Torch => "torch",
        EngineChoice::Fitgpt => "fitgpt",
    }
}

fn one_engine(resolved: &Resolved, engine: EngineChoice) -> Result<Value, Failure> {
    let Resolved { state, source, .. } = resolved;
    let answer = resolved.plan_request(&engine, true).plan()?;
    let plan = answer.plan();
    let panel = Panel::from(plan);
    let report = &plan.report;
    // The unit of the picture.
    let largest = report.arena_bytes.max(report.device.usable_bytes);
    let size = |bytes| figure_next_to(bytes, largest);
    let bfloat16 = plan.lacks_bfloat16().then(|| plan_words::no_bfloat16(&plan.target.device.name));
    let notes = answer.notes(&source.written).into_iter().map(|note| note.say(lang()));
    let notes: Vec<_> = bfloat16.into_iter().chain(notes).collect();
    let note = Some(notes.join("; ")).filter(|note| !note.is_empty());
    let ops: u64 = panel.timelines.iter().map(|timeline| timeline.ops.len() as u64).sum();
    let phases: Vec<_> =
        panel.timelines.iter().map(|timeline| phase(&panel, timeline, ops)).collect();
    Ok(json!({
        "engine": engine_name(engine),
        "name": panel.name(),
        "mark": panel.verdict(),
        "verdict": report.verdict,
        "sentence": plan_text::verdict_in(report, size),
        "total": plan_text::arena_in(report, size),
        "device": names::device(&report.device.name),
        "needed_bytes": needed(report),
        "usable_bytes": report.device.usable_bytes,
        "overhead_bytes": report.overhead.range(),
        "time": plan.time.as_ref().map(plan_text::time_text),
        "note": note,
        "phases": phases,
        "command": source.train_command(&plan.target, &answer.config, state.ranks()),
        "ranks": answer.ranks.as_ref().map(plan_text::ranks),
        "report": state.report.then_some(answer.document()),
    }))
}

/// The bytes that are compared with the device: with the high end of the overhead.
fn needed(report: &PlanReport) -> u64 {
    let [_, high] = report.overhead.range();
    (report.arena_bytes + high).get()
}

/// One phase: the ops that are drawn, their names and their bytes by class.
fn phase(panel: &Panel, timeline: &PhaseTimeline, ops: u64) -> Value {
    let own = timeline.ops.len() as u64;
    let count = (COLUMNS * own / ops.max(1)).max(LEAST_COLUMNS).min(own);
    let drawn = columns(timeline, count);
    let mut names: Vec<&str> = Vec::new(); // layers have the same ops
    let op_names: Vec<_> = drawn
        .iter()
        .map(|op| {
            let name = timeline.ops[*op];
            let found = names.iter().position(|known| *known == name);
            found.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        })
        .collect();
    let peak = timeline.peak();
    json!({
        "name": timeline.name,
        "label": panel.phase(timeline.name),
        "ops": own,
        "peak_bytes": peak.map(|peak| peak.bytes),
        "peak_op": peak.map(|peak| peak.at.0),
        "at": drawn,
        "names": names,
        "op": op_names,
        "bytes": TensorClass::ALL.map(|class| by_column(timeline, &drawn, class)),
    })
}

/// The bytes of a class at each column; one number if they are the same everywhere, as most are.
fn by_column(timeline: &PhaseTimeline, drawn: &[usize], class: TensorClass) -> Value {
    let bytes: Vec<_> =
        drawn.iter().map(|op| timeline.profile.by_op[*op][class as usize]).collect();
    match bytes.split_first() {
        None => json!(0),
        Some((first, rest)) if rest.iter().all(|other| other == first) => json!(first),
        Some(_) => json!(bytes),
    }
}

/// The largest tensors that are alive at one op. Those of all layers are one.
pub(super) fn alive(asked: &Value, roots: &[PathBuf]) -> Result<Value, ApiError> {
    let resolved = Resolved::of(asked, roots)?;
    let state = &resolved.state;
    let program = resolved.plan_request(&state.engine(), false).program_of(&state.phase)?;
    let tensors = program.map(|(program, alignment)| tensors_at(&program, state.op, alignment));
    tensors.ok_or_else(|| refuse(404, "there is no such phase").into())
}

fn tensors_at(program: &Program, op: u32, alignment: u64) -> Value {
    let mut groups: BTreeMap<(String, &str), (u64, u64)> = BTreeMap::new();
    for (tensor, span) in program.tensors().iter().zip(lifetimes(program)) {
        if span.is_some_and(|span| span.contains(&op)) {
            let name = without_layer(&tensor.name);
            let group = groups.entry((name.into_owned(), tensor.class.name())).or_default();
            group.0 += tensor.bytes().align_up(alignment).get();
            group.1 += 1;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
    let rest: u64 = groups.iter().skip(ALIVE).map(|(_, (bytes, _))| bytes).sum();
    let shown = groups.into_iter().take(ALIVE).map(|((name, class), (bytes, count))| {
        json!({ "name": name, "class": class, "bytes": bytes, "count": count })
    });
    json!({ "tensors": shown.collect::<Vec<_>>(), "rest_bytes": rest })
}

/// `h.11.mlp` as `h.*.mlp`.
fn without_layer(name: &str) -> Cow<'_, str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !name.split('.').any(is_number) {
        return Cow::Borrowed(name);
    }
    let parts: Vec<_> =
        name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    Cow::Owned(parts.join("."))
}

/// The options to make it fit: what `fit --json` prints, plus texts.
pub(super) fn fit(asked: &Value, roots: &[PathBuf]) -> Result<Value, ApiError> {
    let resolved = Resolved::of(asked, roots)?;
    let Resolved { state, source, config, vocab } = &resolved;
    let options = OptionsRequest {
        config,
        vocab: *vocab,
        engine: state.engine(),
        device: state.device(),
        ranks: state.ranks(),
        source,
        file: state.source(),
    };
    let options = options.search()?;
    let (found, mut answer) = (&options.found, options.document());
    for (index, option) in found.options.iter().enumerate() {
        let entry = &mut answer["options"][index];
        let apply: BTreeMap<_, _> =
            option.changes.iter().map(|(key, value)| (*key, plain(value))).collect();
        entry["apply"] = json!(apply);
        entry["changes_text"] = json!(fit::command_line(&option.changes));
        entry["verdict_text"] = json!(option.verdict.say(words::lang()));
        entry["effect_text"] = json!(fit_words::effect(option.effect));
        entry["phase_text"] = json!(names::phase(option.peak_phase));
    }
    let notes: Vec<_> = found.notes.iter().map(fit_words::note).collect();
    answer["note_texts"] = json!(notes);
    Ok(answer)
}

/// A value as a field of the page shows it, and as [`Written::set`] reads it.
pub(super) fn plain(value: &ConfigValue) -> String {
    match value {
        ConfigValue::Str(text) => text.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_one_group() {
        assert_eq!(without_layer("h.11.mlp.c_fc.weight"), "h.*.mlp.c_fc.weight");
        assert_eq!(without_layer("wte.weight"), "wte.weight");
    }

    #[test]
    fn a_plan_that_would_take_seconds_is_refused_with_what_to_do() {
        let limited = |keys: &str, ranks| {
            let mut written = Written::new();
            for (key, value) in keys.split(' ').filter_map(|pair| pair.split_once('=')) {
                written.set(key, value).unwrap();
            }
            within_limits(&written.resolve().unwrap(), ranks)
        };
        // nanoGPT's defaults, and the largest model of the sliders with many divisors.
        assert_eq!(limited("", 1), Ok(()));
        let large = "n_layer=200 n_embd=8192 n_head=64 block_size=8192 batch_size=64";
        assert_eq!(limited(large, MAX_RANKS), Ok(()));
        for (keys, ranks, command) in [
            ("n_layer=201", 1, "`fitgpt plan`"),
            ("", 257, "`fitgpt plan --ranks`"),
            ("batch_size=4097 gradient_accumulation_steps=4096", 1, "`fitgpt plan`"),
            ("n_layer=200 eval_batch_size=720720", 1, "`fitgpt plan`"),
            ("n_layer=200 batch_size=720720 gradient_accumulation_steps=20", 1, "`fitgpt plan`"),
        ] {
            let message = limited(keys, ranks).unwrap_err();
            assert!(message.contains(command), "{keys}: {message}");
        }
    }

    #[test]
    fn a_file_name_is_safe_in_a_shell() {
        let name = |file: &str| {
            let state = PlannerState::of(&json!({ "file": file }));
            state.ok().unwrap().file().to_owned()
        };
        assert_eq!(name("config/train_gpt2.py"), "config/train_gpt2.py");
        for hostile in ["", "-rf", "a b.py", "a;b", "$(x)", "`x`", "\u{202e}"] {
            assert_eq!(name(hostile), "config.py", "{hostile}");
        }
    }
}
