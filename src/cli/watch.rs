//! `fitgpt devices --watch`: memory over time, against a plan.
//!
//! A terminal gets a picture that is drawn over, a pipe one line a sample, a program one JSON
//! object a line; all end with a summary.

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use clap::ArgMatches;
use fitgpt_plan::units::Bytes;
use serde_json::json;

use super::{Answer, Failure, Reader, args, devices::holders, plan, plan_target::PlanTarget};
use crate::{
    cards::Driver,
    picture::meter::{Meter, history},
    run::stop::Stop,
    terminal,
    watch::{Memory, Planned, Sample, Summary, Watch, held_by},
    words::devices as say,
};

/// How long Ctrl-C may go unnoticed.
const PATIENCE: Duration = Duration::from_millis(50);

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    let stop = Stop::on_signals().map_err(|error| Failure::signals(&error))?;
    let pid = matches.get_one::<u32>("watch").copied();
    let every = matches.get_one("every").copied().unwrap_or(Duration::from_secs(1));
    let until = matches.get_one::<Duration>("for").map(|time| Instant::now() + *time);
    let driver = Driver::open().ok();
    let has_cards = driver.as_ref().is_some_and(|driver| !driver.cards().is_empty());
    let mut watch = Watch::new(pid, planned(matches, has_cards)?, driver);

    let mut screen = Screen::new(reader);
    let mut next = Instant::now();
    loop {
        match (watch.sample(), pid) {
            (Some(sample), _) => screen.show(&watch, &sample),
            (None, Some(pid)) if screen.samples == 0 => {
                return Err(Failure::new("process", say::no_such_process(pid)));
            }
            (None, _) => break, // it has ended
        }
        next += every;
        let end = until.map_or(next, |until| until.min(next));
        while Instant::now() < end && !stop.is_asked_for() {
            thread::sleep(PATIENCE.min(end.saturating_duration_since(Instant::now())));
        }
        if stop.is_asked_for() || until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    let summary = watch.summary();
    match reader {
        Reader::Programs => terminal::line(&json!({ "summary": summary }).to_string()),
        Reader::People => terminal::out(&text(&summary)),
    }
    Ok(Answer::Yes)
}

/// The plan of the config on the command line, where there is one.
fn planned(matches: &ArgMatches, has_cards: bool) -> Result<Option<Planned>, Failure> {
    if !matches.contains_id("CONFIG") && args::keys(matches).is_empty() {
        return Ok(None);
    }
    let config = args::written(matches, None)?.resolve()?;
    let place = PlanTarget::of(matches, &config)?;
    let report = plan::report(&config, plan::vocab(&config)?, &place)?;
    let is_for_cards = place.is_card || place.engine == super::plan_target::EngineChoice::Torch;
    let memory = if has_cards && is_for_cards { Memory::Card } else { Memory::Host };
    Ok(Some(Planned::of_report(&report, memory)))
}

/// Whoever looks.
struct Screen {
    kind: Kind,
    samples: u64,
    /// Lines of the picture that is there.
    drawn: usize,
    /// What was seen, a list a meter.
    past: Vec<Vec<Bytes>>,
}

enum Kind {
    Terminal,
    Pipe,
    Program,
}

/// One thing that is watched.
struct Row {
    label: String,
    meter: Meter,
    said: String,
}

impl Screen {
    fn new(reader: Reader) -> Self {
        let kind = match reader {
            Reader::Programs => Kind::Program,
            Reader::People if terminal::is_shown() => Kind::Terminal,
            Reader::People => Kind::Pipe,
        };
        Self { kind, samples: 0, drawn: 0, past: Vec::new() }
    }

    fn show(&mut self, watch: &Watch, sample: &Sample) {
        self.samples += 1;
        match self.kind {
            Kind::Program => {
                let json = serde_json::to_string(sample).expect("a sample is plain data");
                terminal::line(&json);
            }
            Kind::Pipe => {
                let rows = rows(watch, sample).into_iter();
                let rows = rows.map(|r| format!("{}  {} {}", r.label, r.meter.draw(), r.said));
                let rows: Vec<_> = rows.collect();
                terminal::line(&format!("{:>8.1} s  {}", sample.seconds, rows.join("  ")));
            }
            Kind::Terminal => {
                let picture = self.picture(watch, sample);
                terminal::redraw(self.drawn, &picture);
                self.drawn = picture.lines().count();
            }
        }
    }

    fn picture(&mut self, watch: &Watch, sample: &Sample) -> String {
        let mut text = format!("{}\n", say::seconds(format!("{:.1}", sample.seconds)));
        let rows = rows(watch, sample);
        self.past.resize(rows.len(), Vec::new());
        for (row, past) in rows.iter().zip(&mut self.past) {
            past.push(row.meter.own + row.meter.others);
            let (bar, past) = (row.meter.draw(), history(past, row.meter.whole));
            let _ = writeln!(text, "{}  {}\n  {bar}\n  {past}", row.label, row.said);
        }
        text
    }
}

/// The process or the machine, then every card.
fn rows(watch: &Watch, sample: &Sample) -> Vec<Row> {
    let mark_in = |memory| watch.mark().filter(|_| watch.compared() == memory);
    let with_mark = |said: String, mark: Option<Bytes>| match mark {
        Some(mark) => format!("{said}  {}", say::mark(mark)),
        None => said,
    };

    let mark = mark_in(Memory::Host);
    let total = sample.host.total_bytes;
    let own = sample.subject(Memory::Host);
    let (label, said, whole) = match &sample.process {
        Some(process) => {
            let name = process.name.as_deref().unwrap_or_default();
            // With a plan the meter is a quarter longer than what may be seen in it.
            let whole = mark.map_or(total, |mark| {
                let most = mark.max(watch.peak()).get();
                Bytes::new(most.saturating_add(most / 4))
            });
            let said = say::resident(format!("{:>12}", own.to_string()));
            (format!("{} {name}", process.pid), said, whole)
        }
        None => (say::label_machine(), say::used(format!("{:>12}", own.to_string())), total),
    };
    let meter = Meter { own, others: Bytes::ZERO, whole, mark };
    let mut rows = vec![Row { label, meter, said: with_mark(said, mark) }];

    let pid = sample.process.as_ref().map(|process| process.pid);
    for card in &sample.cards {
        let Some(memory) = card.memory else { continue };
        let mark = mark_in(Memory::Card);
        let own = pid.map(|pid| held_by(card, pid).unwrap_or_default());
        let others = memory.used_bytes.saturating_sub(own.unwrap_or_default());
        let (own_bytes, others) = own.map_or((others, Bytes::ZERO), |own| (own, others));
        let (used, free, whole) = (memory.used_bytes, memory.free_bytes, memory.total_bytes);
        let mut said = say::card_memory(used, free, whole);
        if let Some(own) = own {
            let _ = write!(said, "  {}", say::own(own));
        }
        let strangers: Vec<_> = card.processes.iter().filter(|h| Some(h.pid) != pid).collect();
        if !strangers.is_empty() {
            let _ = write!(said, "  {}", say::others(holders(strangers)));
        }
        let meter = Meter { own: own_bytes, others, whole, mark };
        rows.push(Row { label: say::label_card(card.index), meter, said: with_mark(said, mark) });
    }
    rows
}

fn text(summary: &Summary) -> String {
    let seconds = format!("{:.1}", summary.seconds);
    let mut text = format!("{}\n", say::watched(summary.samples, seconds, summary.peak_bytes));
    if let (Some(plan), Some(difference)) = (summary.plan, summary.difference_bytes) {
        let [low, high] = plan.overhead_bytes;
        let bytes = Bytes::new(difference.unsigned_abs());
        let difference =
            if difference < 0 { say::less_than_arena(bytes) } else { say::more_than_arena(bytes) };
        let verdict = match summary.is_within_plan {
            Some(false) => say::over_plan(),
            _ => say::within_plan(),
        };
        let plan = say::planned(plan.arena_bytes, low, high);
        let _ = writeln!(text, "{plan}\n{difference} · {verdict}");
    }
    text
}
