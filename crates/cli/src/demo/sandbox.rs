//! A scratch folder in which this program is run as a user would run it.
//!
//! The screen gets each command and a few lines of its output; the whole output goes to
//! `output.txt` in the folder.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use fitgpt_commands::Failure;
use fitgpt_files::os;
use fitgpt_program::units::Bytes;
use fitgpt_run::stop::StopFlag;
use serde_json::Value;

use super::super::OutputStyle;
use crate::{terminal, words::demo as words};

/// The file with everything that the commands printed.
const OUTPUT: &str = "output.txt";

/// Why a step ended early.
#[derive(Debug)]
pub(super) enum StepError {
    /// Ctrl-C.
    Stopped,
    /// With the reason, in the user's language.
    Failed(String),
}

/// What a command printed and how it ended.
pub(super) struct Output {
    pub(super) text: String,
    command: String,
    status: ExitStatus,
}

/// When a command ends.
#[derive(Clone, Copy)]
enum RunUntil {
    ItEnds,
    /// Kill it once it prints a line with this start.
    Line(&'static str),
}

/// Which lines of a command's output the screen shows.
#[derive(Clone, Debug)]
pub(super) enum Excerpt {
    All,
    /// Lines that contain one of these.
    Containing(Vec<String>),
    /// The last line with this start.
    LastStarting(&'static str),
    /// The last line that contains this.
    LastContaining(&'static str),
}

impl Excerpt {
    fn of<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let lines = || text.lines().filter(|line| !line.trim().is_empty());
        match self {
            Self::All => text.lines().collect(),
            Self::Containing(words) => {
                lines().filter(|line| words.iter().any(|word| line.contains(word))).collect()
            }
            Self::LastStarting(start) => {
                lines().rfind(|line| line.starts_with(start)).into_iter().collect()
            }
            Self::LastContaining(word) => {
                lines().rfind(|line| line.contains(word)).into_iter().collect()
            }
        }
    }
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

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path.join(name)
    }

    /// Writes a file into the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), StepError> {
        let path = self.path(name);
        fs::write(&path, text)
            .map_err(|error| StepError::Failed(words::file(path.display(), error)))
    }

    /// Appends to the file with all output.
    fn record(&self, text: &str) -> Result<(), StepError> {
        let path = self.path(OUTPUT);
        let append = || -> io::Result<()> {
            OpenOptions::new().create(true).append(true).open(&path)?.write_all(text.as_bytes())
        };
        append().map_err(|error| StepError::Failed(words::file(path.display(), error)))
    }

    /// Prints a line that is not the output of a command.
    pub(super) fn print(&self, line: &str) {
        match self.style {
            OutputStyle::Text => terminal::line(line),
            OutputStyle::Json => terminal::err(&format!("{line}\n")),
        }
    }

    /// Runs `fitgpt` with `args` and prints an excerpt of its output.
    pub(super) fn fitgpt(&self, args: &[&str], excerpt: &Excerpt) -> Result<Output, StepError> {
        let command = Command::new(&self.program);
        self.run(command, args, &self.typed(args), RunUntil::ItEnds, excerpt)
    }

    /// Like [`fitgpt`](Self::fitgpt), with an address space of `bytes`; `None` if the system cannot
    /// enforce that.
    pub(super) fn limited(
        &self,
        args: &[&str],
        bytes: Bytes,
        excerpt: &Excerpt,
    ) -> Option<Result<Output, StepError>> {
        let command = os::limited(&self.program, bytes)?;
        let typed = format!("(ulimit -v {}; {})", bytes.get() / 1024, self.typed(args));
        Some(self.run(command, args, &typed, RunUntil::ItEnds, excerpt))
    }

    /// Like [`fitgpt`](Self::fitgpt), but kills it as soon as it prints a line that starts with
    /// `line`.
    pub(super) fn killed_at(&self, args: &[&str], line: &'static str) -> Result<Output, StepError> {
        let typed = format!("{} &", self.typed(args));
        let excerpt = Excerpt::LastStarting(line);
        self.run(Command::new(&self.program), args, &typed, RunUntil::Line(line), &excerpt)
    }

    /// Runs `fitgpt … --json`, which must end with `code`, and writes the document to a file.
    /// Prints nothing: it only serves the check.
    pub(super) fn keep_json(&self, args: &[&str], code: i32, file: &str) -> Result<(), StepError> {
        let args = [args, &["--json"]].concat();
        let typed = format!("{} > {file}", self.typed(&args));
        self.record(&format!("$ {typed}\n\n"))?;
        let failed = |error: io::Error| StepError::Failed(words::cannot_run(&typed, error));
        let output = self.prepared(Command::new(&self.program), &args).output().map_err(failed)?;
        let ran = Output { text: String::new(), command: typed.clone(), status: output.status };
        ran.ended_with(code)?;
        self.write(file, &String::from_utf8_lossy(&output.stdout))
    }

    /// A number in a document that [`keep_json`](Self::keep_json) wrote, by its JSON pointer.
    pub(super) fn kept_number(&self, file: &str, pointer: &str) -> Result<u64, StepError> {
        let path = self.path(file);
        let failed = |error: io::Error| StepError::Failed(words::file(path.display(), error));
        let answer: Value = serde_json::from_slice(&fs::read(&path).map_err(failed)?)
            .map_err(|error| failed(error.into()))?;
        let number = answer.pointer(pointer).and_then(Value::as_u64);
        number.ok_or_else(|| StepError::Failed(words::not_found(pointer)))
    }

    /// The command line as a user would type it.
    fn typed(&self, args: &[&str]) -> String {
        let quoted = |arg: &str| {
            if arg.contains(' ') { format!("\"{arg}\"") } else { arg.to_owned() }
        };
        let args = args.iter().map(|arg| quoted(arg)).chain(self.lang.clone());
        let words: Vec<_> = std::iter::once("fitgpt".to_owned()).chain(args).collect();
        words.join(" ")
    }

    fn prepared(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).args(&self.lang).current_dir(&self.folder.path).stdin(Stdio::null());
        command
    }

    fn run(
        &self,
        command: Command,
        args: &[&str],
        typed: &str,
        until: RunUntil,
        excerpt: &Excerpt,
    ) -> Result<Output, StepError> {
        self.print(&format!("$ {typed}"));
        let failed = |error: io::Error| StepError::Failed(words::cannot_run(typed, error));
        // One pipe for stdout and stderr, so that lines arrive in the order in which they were
        // printed.
        let (reader, writer) = io::pipe().map_err(failed)?;
        let mut command = self.prepared(command, args);
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let mut child = command.spawn().map_err(failed)?;
        drop(command); // holds the writing ends: the pipe would never reach its end

        let mut text = String::new();
        let mut killed = None;
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.map_err(failed)?;
            let line = String::from_utf8_lossy(&line);
            text.push_str(&line);
            text.push('\n');
            if let RunUntil::Line(start) = until
                && killed.is_none()
                && line.starts_with(start)
            {
                child.kill().map_err(failed)?;
                killed = Some(child.id());
            }
        }
        let status = child.wait().map_err(failed)?;
        self.record(&format!("$ {typed}\n{text}\n"))?;
        for line in excerpt.of(&text) {
            self.print(&format!("  {line}"));
        }
        if let Some(pid) = killed {
            self.print(&format!("$ kill -9 {pid}"));
        }
        if self.stop.is_asked_for() {
            return Err(StepError::Stopped);
        }
        Ok(Output { text, command: typed.to_owned(), status })
    }

    /// The losses of all steps that a run has logged.
    pub(super) fn losses(&self, out_dir: &str) -> Result<Vec<f64>, StepError> {
        let path = self.path(out_dir).join("events.jsonl");
        read_losses(&path).map_err(|error| StepError::Failed(words::file(path.display(), error)))
    }
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

impl Output {
    /// Fails unless it ended with `code`.
    pub(super) fn ended_with(&self, code: i32) -> Result<(), StepError> {
        if self.status.code() == Some(code) {
            return Ok(());
        }
        Err(StepError::Failed(words::ended(&self.command, self.status, code)))
    }

    /// Fails unless it was killed.
    pub(super) fn was_killed(&self) -> Result<(), StepError> {
        if self.status.success() {
            return Err(StepError::Failed(words::not_killed(&self.command)));
        }
        Ok(())
    }
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
