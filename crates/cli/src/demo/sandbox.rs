//! A scratch folder in which this program is run as a user would run it.
//!
//! The screen gets each command and a few lines of its output; the whole output goes to
//! `output.txt` in the folder.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fitgpt_commands::Failure;
use fitgpt_files::os;
use fitgpt_program::units::Bytes;
use fitgpt_run::{budget::HOST_OVERHEAD, stop::StopFlag};
use serde_json::Value;

use super::super::OutputStyle;
use crate::{
    terminal,
    words::{demo as words, names},
};

/// A command, how it must end, and what it must print.
pub(super) struct DemoCommand {
    /// After `fitgpt`.
    pub(super) typed: &'static str,
    pub(super) ends: Ending,
    pub(super) shows: Lines,
}

/// How a command ends.
#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// With this exit code.
    With(i32),
    /// It is killed once it prints a line with this start.
    KilledAt(&'static str),
    /// With exit code 1, if its address space is its plan.
    RefusedBelowItsPlan,
    /// With exit code 0, in an address space of its plan and what the program itself needs.
    DoneJustAboveItsPlan,
}

/// The lines of an output that the screen shows. There must be one.
#[derive(Clone, Copy)]
pub(super) enum Lines {
    All,
    /// Those that contain this.
    With(&'static str),
    /// The last one with this start.
    Last(&'static str),
    /// Error messages.
    Errors,
}

impl Lines {
    fn of(self, text: &str) -> Vec<&str> {
        match self {
            Self::All => text.lines().collect(),
            Self::With(part) => text.lines().filter(|line| line.contains(part)).collect(),
            Self::Last(start) => {
                text.lines().rfind(|line| line.starts_with(start)).into_iter().collect()
            }
            Self::Errors => {
                let error = names::error();
                text.lines().filter(|line| line.starts_with(&error)).collect()
            }
        }
    }
}

/// Why a step ended early.
#[derive(Debug)]
pub(super) enum StepError {
    /// Ctrl-C.
    Stopped,
    /// This system cannot limit the memory of a process.
    NoLimitHere,
    /// With the reason, in the user's language.
    Failed(String),
}

/// The folder, the program, and how to print.
pub(super) struct Sandbox {
    folder: DemoFolder,
    program: PathBuf,
    /// Appended to every command if the language was chosen by a flag.
    lang: Option<String>,
    style: OutputStyle,
    stop: StopFlag,
}

impl Sandbox {
    pub(super) fn new(
        folder: DemoFolder,
        lang: Option<&String>,
        style: OutputStyle,
        stop: StopFlag,
    ) -> Result<Self, Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::new("demo", error.to_string()))?;
        let lang = lang.map(|code| format!("--lang={code}"));
        Ok(Self { folder, program, lang, style, stop })
    }

    /// Writes a file into the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), StepError> {
        let path = self.folder.path.join(name);
        fs::write(&path, text).map_err(|error| cannot_use(&path, error))
    }

    /// Prints a line that is not the output of a command.
    pub(super) fn print(&self, line: &str) {
        match self.style {
            OutputStyle::Text => terminal::line(line),
            OutputStyle::Json => terminal::err(&format!("{line}\n")),
        }
    }

    /// Runs `command`, prints what it shows, and checks both.
    pub(super) fn show(&self, command: &DemoCommand) -> Result<(), StepError> {
        let mut typed = format!("fitgpt {}", command.typed);
        typed.extend(self.lang.iter().flat_map(|lang| [" ", lang]));
        let mut process = Command::new(&self.program);
        if let Some(limit) = self.limit(command)? {
            process = os::limited(&self.program, limit).ok_or(StepError::NoLimitHere)?;
            typed = format!("(ulimit -v {}; {typed})", limit.get() / 1024);
        }
        let (killed_at, code) = match command.ends {
            Ending::With(code) => (None, Some(code)),
            Ending::RefusedBelowItsPlan => (None, Some(1)),
            Ending::DoneJustAboveItsPlan => (None, Some(0)),
            Ending::KilledAt(start) => (Some(start), None),
        };
        self.print(&format!("$ {typed}"));
        let failed = |error: io::Error| StepError::Failed(words::cannot_run(&typed, error));
        // One pipe for stdout and stderr, so that lines arrive in the order in which they were
        // printed.
        let (reader, writer) = io::pipe().map_err(failed)?;
        let mut process = self.prepared(process, command.typed);
        process.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let mut child = process.spawn().map_err(failed)?;
        drop(process); // holds the writing ends: the pipe would never reach its end

        let mut text = String::new();
        let mut is_killed = false;
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.map_err(failed)?;
            let line = String::from_utf8_lossy(&line);
            text.extend([&line, "\n"]);
            if !is_killed && killed_at.is_some_and(|start| line.starts_with(start)) {
                child.kill().map_err(failed)?;
                is_killed = true;
            }
        }
        let status = child.wait().map_err(failed)?;
        self.record(&format!("$ {typed}\n{text}\n"))?;
        let lines = command.shows.of(&text);
        for line in &lines {
            self.print(&format!("  {line}"));
        }
        if is_killed {
            self.print(&format!("$ kill -9 {}", child.id()));
        }
        if self.stop.is_asked_for() {
            return Err(StepError::Stopped);
        }
        // A killed process has no exit code.
        if status.code() != code {
            return Err(StepError::Failed(words::ended(typed, status)));
        }
        if lines.is_empty() {
            return Err(StepError::Failed(words::shows_nothing(typed)));
        }
        Ok(())
    }

    /// The address space of a command, if that is limited.
    fn limit(&self, command: &DemoCommand) -> Result<Option<Bytes>, StepError> {
        let [_, overhead] = HOST_OVERHEAD.range();
        Ok(match command.ends {
            Ending::With(_) | Ending::KilledAt(_) => None,
            Ending::RefusedBelowItsPlan => Some(self.planned()?),
            // The budget keeps one part in 64 for the system, and the program's own pages count too.
            Ending::DoneJustAboveItsPlan => {
                let need = (self.planned()? + overhead).get();
                Some(Bytes::new((need * 64).div_ceil(63)) + overhead)
            }
        })
    }

    /// The arena of `wide.py`.
    fn planned(&self) -> Result<Bytes, StepError> {
        let typed = "plan wide.py --json";
        let failed = |error: io::Error| StepError::Failed(words::cannot_run(typed, error));
        let output = self.prepared(Command::new(&self.program), typed).output().map_err(failed)?;
        let plan: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(error.into()))?;
        let bytes = plan["arena_bytes"].as_u64();
        bytes.map(Bytes::new).ok_or_else(|| StepError::Failed(words::ended(typed, output.status)))
    }

    fn prepared(&self, mut process: Command, typed: &str) -> Command {
        process.args(typed.split(' ')).args(&self.lang);
        process.current_dir(&self.folder.path).stdin(Stdio::null());
        process
    }

    /// Appends to the file with all output.
    fn record(&self, text: &str) -> Result<(), StepError> {
        let path = self.folder.path.join("output.txt");
        let append = || -> io::Result<()> {
            OpenOptions::new().create(true).append(true).open(&path)?.write_all(text.as_bytes())
        };
        append().map_err(|error| cannot_use(&path, error))
    }

    /// The losses of all steps that a run has logged.
    pub(super) fn losses(&self, out_dir: &str) -> Result<Vec<f64>, StepError> {
        let path = self.folder.path.join(out_dir).join("events.jsonl");
        read_losses(&path).map_err(|error| cannot_use(&path, error))
    }
}

fn cannot_use(path: &Path, error: io::Error) -> StepError {
    StepError::Failed(words::file(path.display(), error))
}

fn read_losses(path: &Path) -> io::Result<Vec<f64>> {
    let mut losses = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let event: Value = serde_json::from_str(&line?)?;
        if event["event"] == "step" {
            losses.push(event["loss"].as_f64().unwrap_or(f64::NAN));
        }
    }
    Ok(losses)
}

/// A folder that is removed when dropped, unless it is kept.
pub(super) struct DemoFolder {
    path: PathBuf,
    is_kept: bool,
}

impl DemoFolder {
    /// In the system's folder for temporary files.
    pub(super) fn temporary() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("fitgpt-demo-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self { path, is_kept: false })
    }

    /// The user's folder, new or empty: nothing in it is overwritten.
    pub(super) fn kept(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        if fs::read_dir(path)?.next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(Self { path: path.to_owned(), is_kept: true })
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // The system clears its temporary folder anyway.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
