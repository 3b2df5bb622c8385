//! `fitgpt devices --watch`: memory over time, compared with a plan.
//!
//! A terminal gets a picture that is redrawn, a pipe one line per sample, a program one JSON
//! object per line; all end with a summary.

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use clap::{ArgMatches, parser::ValueSource};
use fitgpt_commands::{
    Failure,
    plan::{self, EnginePlan},
    target::{EngineChoice, PlanTarget},
};
use fitgpt_files::os;
use fitgpt_fit::torch::Rules;
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    cards::NvidiaDriver,
    stop::StopFlag,
    watch::{MemorySample, MemoryWatch, WatchSummary, WatchedMemory, WatchedPlan, held_by},
};
use serde_json::json;

use super::{Outcome, OutputStyle, args};
use crate::{
    picture::meter::{Meter, history},
    terminal,
    words::{devices as words, names},
};

/// How often Ctrl-C is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let stop = StopFlag::on_signals().map_err(|error| Failure::signals(&error))?;
    let pid = matches.get_one::<u32>("watch").copied();
    let every = matches.get_one("every").copied().unwrap_or(Duration::from_secs(1));
    let until = matches.get_one::<Duration>("for").map(|time| Instant::now() + *time);
    let driver = NvidiaDriver::open().ok();
    let mut watch = MemoryWatch::new(pid, planned(matches, pid)?, driver);

    let mut screen = Screen::new(style);
    let mut next = Instant::now();
    loop {
        match (watch.sample(), pid) {
            (Some(sample), _) => screen.show(&watch, &sample),
            (None, Some(pid)) if screen.samples == 0 => {
                let failure = Failure::new("process", words::no_such_process(pid));
                return Err(failure.hint(words::watch_the_machine()));
            }
            (None, _) => break, // it has ended
        }
        next += every;
        let end = until.map_or(next, |until| until.min(next));
        while Instant::now() < end && !stop.is_asked_for() {
            thread::sleep(CHECK_INTERVAL.min(end.saturating_duration_since(Instant::now())));
        }
        if stop.is_asked_for() || until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    let summary = watch.summary();
    match style {
        OutputStyle::Json => terminal::json(&json!({ "summary": summary })),
        OutputStyle::Text => terminal::out(&text(&summary)),
    }
    Ok(Outcome::Yes)
}

/// The plan of the config on the command line, if there is one.
fn planned(matches: &ArgMatches, pid: Option<u32>) -> Result<Option<WatchedPlan>, Failure> {
    if !matches.contains_id("CONFIG") && args::keys(matches).is_empty() {
        return Ok(None);
    }
    let written = args::written(matches, None)?;
    let config = written.resolve()?;
    // A Python process does not run FitGPT: compare it with PyTorch's plan unless an engine was
    // given.
    let is_named = matches.value_source("engine") == Some(ValueSource::CommandLine);
    let name = pid.and_then(os::process_name);
    let is_python = name.is_some_and(|name| name.to_ascii_lowercase().starts_with("python"));
    let engines = args::engines(matches, OutputStyle::Json, &config, &written).engines;
    let [engine] = *engines else { unreachable!("clap accepts one engine") };
    let engine = if is_python && !is_named { EngineChoice::Torch } else { engine };
    let target = PlanTarget::on(engine, args::device(matches, engines), &config)?;
    let EnginePlan { report, target, .. } =
        EnginePlan::of(&config, plan::vocab(&config)?, target, false)?;
    let is_for_cards = match target.engine {
        EngineChoice::Torch => target.rules == Rules::Cuda,
        EngineChoice::Fitgpt => target.is_card || target.runner.gpu().is_some(),
    };
    let memory = if is_for_cards { WatchedMemory::Card } else { WatchedMemory::Host };
    Ok(Some(WatchedPlan::of_report(&report, memory)))
}

/// Prints samples to a terminal, a pipe or a program.
struct Screen {
    medium: Medium,
    samples: u64,
    /// Lines of the picture on the terminal.
    drawn: usize,
    /// Past values, one list per meter.
    past: Vec<Vec<Bytes>>,
}

enum Medium {
    Terminal,
    Pipe,
    Program,
}

/// One meter with its label and its figures.
struct MeterRow {
    label: String,
    meter: Meter,
    figures: String,
}

impl Screen {
    fn new(style: OutputStyle) -> Self {
        let medium = match style {
            OutputStyle::Json => Medium::Program,
            OutputStyle::Text if terminal::is_shown() => Medium::Terminal,
            OutputStyle::Text => Medium::Pipe,
        };
        Self { medium, samples: 0, drawn: 0, past: Vec::new() }
    }

    fn show(&mut self, watch: &MemoryWatch, sample: &MemorySample) {
        self.samples += 1;
        match self.medium {
            Medium::Program => {
                terminal::json(sample);
            }
            Medium::Pipe => {
                let rows = rows(watch, sample).into_iter();
                let rows = rows.map(|r| format!("{}  {} {}", r.label, r.meter.draw(), r.figures));
                let rows: Vec<_> = rows.collect();
                terminal::line(&format!("{:>8.1} s  {}", sample.seconds, rows.join("  ")));
            }
            Medium::Terminal => {
                let picture = self.picture(watch, sample);
                terminal::redraw(self.drawn, &picture);
                self.drawn = picture.lines().count();
            }
        }
    }

    fn picture(&mut self, watch: &MemoryWatch, sample: &MemorySample) -> String {
        let mut text = format!("{}\n", words::seconds(format!("{:.1}", sample.seconds)));
        let rows = rows(watch, sample);
        self.past.resize(rows.len(), Vec::new());
        for (row, past) in rows.iter().zip(&mut self.past) {
            past.push(row.meter.own + row.meter.others);
            let (bar, past) = (row.meter.draw(), history(past, row.meter.whole));
            let _ = writeln!(text, "{}  {}\n  {bar}\n  {past}", row.label, row.figures);
        }
        text
    }
}

/// The process or the machine, then every card.
fn rows(watch: &MemoryWatch, sample: &MemorySample) -> Vec<MeterRow> {
    let mark_in = |memory| watch.mark().filter(|_| watch.compared() == memory);
    let with_mark = |figures: String, mark: Option<Bytes>| match mark {
        Some(mark) => format!("{figures}  {}", words::mark(mark)),
        None => figures,
    };

    let mark = mark_in(WatchedMemory::Host);
    let total = sample.host.total_bytes;
    let own = sample.subject(WatchedMemory::Host);
    let (label, figures, whole) = match &sample.process {
        Some(process) => {
            let name = process.name.as_deref().unwrap_or_default();
            // With a plan, the meter ends a quarter above the larger of mark and peak.
            let whole = mark.map_or(total, |mark| {
                let most = mark.max(watch.peak()).get();
                Bytes::new(most.saturating_add(most / 4))
            });
            let figures = words::resident(format!("{:>12}", own.to_string()));
            (format!("{} {name}", process.pid), figures, whole)
        }
        None => (words::label_machine(), words::used(format!("{:>12}", own.to_string())), total),
    };
    let meter = Meter { own, others: Bytes::ZERO, whole, mark };
    let mut rows = vec![MeterRow { label, meter, figures: with_mark(figures, mark) }];

    let pid = sample.process.as_ref().map(|process| process.pid);
    for card in &sample.cards {
        let Some(memory) = card.memory else { continue };
        let mark = mark_in(WatchedMemory::Card);
        let own = pid.map(|pid| held_by(card, pid).unwrap_or_default());
        let others = memory.used_bytes.saturating_sub(own.unwrap_or_default());
        let (own_bytes, others) = own.map_or((others, Bytes::ZERO), |own| (own, others));
        let (used, free, whole) = (memory.used_bytes, memory.free_bytes, memory.total_bytes);
        let mut figures = words::card_memory(used, free, whole);
        if let Some(own) = own {
            let _ = write!(figures, "  {}", words::own(own));
        }
        let others_on_card: Vec<_> = card.processes.iter().filter(|h| Some(h.pid) != pid).collect();
        if !others_on_card.is_empty() {
            let _ =
                write!(figures, "  {}", words::others(fitgpt_commands::holders(others_on_card)));
        }
        let meter = Meter { own: own_bytes, others, whole, mark };
        let label = words::label_card(card.index);
        rows.push(MeterRow { label, meter, figures: with_mark(figures, mark) });
    }
    rows
}

fn text(summary: &WatchSummary) -> String {
    let seconds = format!("{:.1}", summary.seconds);
    let mut text = format!("{}\n", words::watched(summary.samples, seconds, summary.peak_bytes));
    match (summary.plan, summary.difference_bytes) {
        (Some(plan), Some(difference)) => text += &comparison(&plan, difference, summary),
        (Some(plan), None) => {
            let _ = writeln!(text, "{}", words::not_compared(plan.most()));
        }
        (None, _) => {
            let compare = "fitgpt devices --watch PID CONFIG.py";
            let _ = writeln!(text, "{}  ({})", names::next(compare), words::compares());
        }
    }
    text
}

/// The plan compared with the peak.
fn comparison(plan: &WatchedPlan, difference: i64, summary: &WatchSummary) -> String {
    let [low, high] = plan.overhead_bytes;
    let bytes = Bytes::new(difference.unsigned_abs());
    if plan.engine == "torch" {
        // PyTorch has no arena and is not bound to a plan: only figures, no verdict.
        let difference =
            if difference < 0 { words::below_tensors(bytes) } else { words::above_tensors(bytes) };
        return format!("{}\n{difference}\n", words::torch_planned(plan.arena_bytes, low, high));
    }
    let difference =
        if difference < 0 { words::less_than_arena(bytes) } else { words::more_than_arena(bytes) };
    let verdict = match summary.is_within_plan {
        Some(false) => words::over_plan(),
        _ => words::within_plan(),
    };
    format!("{}\n{difference} · {verdict}\n", words::planned(plan.arena_bytes, low, high))
}
