//! Where the demo plays: a folder, and this very program started in it as a user would.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use fitgpt_plan::units::Bytes;
use serde_json::Value;

use super::super::{Failure, Reader};
use crate::{os, run::stop::Stop, terminal, words::demo as say};

/// Why a step did not come to its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// Somebody asked.
    Stopped,
    /// In words.
    Failed(String),
}

/// What a command printed, how it ended, and how it reads.
pub(super) struct Ran {
    pub(super) text: String,
    command: String,
    status: ExitStatus,
}

/// What to do with a command that runs.
#[derive(Clone, Copy)]
enum Course {
    ToItsEnd,
    /// Kill it when it prints a line that starts so.
    KillAt(&'static str),
}

/// A folder and a program.
pub(super) struct Stage {
    folder: Folder,
    program: PathBuf,
    /// Behind every command, where the language was chosen by a flag.
    lang: Option<String>,
    reader: Reader,
    stop: Stop,
}

impl Stage {
    pub(super) fn new(
        folder: Folder,
        lang: Option<&String>,
        reader: Reader,
        stop: Stop,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::new("demo", error))?;
        let lang = lang.map(|code| format!("--lang={code}"));
        Ok(Self { folder, program, lang, reader, stop })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path.join(name)
    }

    /// Puts a file into the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Halt> {
        let path = self.path(name);
        fs::write(&path, text).map_err(|error| Halt::Failed(say::file(path.display(), error)))
    }

    /// Says something above or below what commands print.
    pub(super) fn say(&self, line: &str) {
        match self.reader {
            Reader::People => terminal::line(line),
            Reader::Programs => terminal::err(&format!("{line}\n")),
        }
    }

    /// Runs `fitgpt` with `args`; all that it prints is printed.
    pub(super) fn fitgpt(&self, args: &[&str]) -> Result<Ran, Halt> {
        let command = Command::new(&self.program);
        self.run(command, args, &self.typed(args), Course::ToItsEnd)
    }

    /// The same with an address space of `bytes`; `None` where the system cannot hold it to that.
    pub(super) fn limited(&self, args: &[&str], bytes: Bytes) -> Option<Result<Ran, Halt>> {
        let command = os::limited(&self.program, bytes)?;
        let typed = format!("(ulimit -v {}; {})", bytes.get() / 1024, self.typed(args));
        Some(self.run(command, args, &typed, Course::ToItsEnd))
    }

    /// The same, killed as soon as it prints a line that starts with `line`.
    pub(super) fn killed_at(&self, args: &[&str], line: &'static str) -> Result<Ran, Halt> {
        let typed = format!("{} &", self.typed(args));
        self.run(Command::new(&self.program), args, &typed, Course::KillAt(line))
    }

    /// Runs `fitgpt … --json`, which must end with `code`; the answer goes to a file and not to
    /// the screen.
    pub(super) fn keep_json(&self, args: &[&str], code: i32, file: &str) -> Result<(), Halt> {
        let args = [args, &["--json"]].concat();
        let typed = format!("{} > {file}", self.typed(&args));
        self.say(&format!("$ {typed}"));
        let failed = |error: io::Error| Halt::Failed(say::cannot_run(&typed, error));
        let output = self.prepared(Command::new(&self.program), &args).output().map_err(failed)?;
        let ran = Ran { text: String::new(), command: typed.clone(), status: output.status };
        ran.ended_with(code)?;
        self.write(file, &String::from_utf8_lossy(&output.stdout))
    }

    /// A number in the answer that [`keep_json`](Self::keep_json) kept, by its JSON pointer.
    pub(super) fn kept_number(&self, file: &str, pointer: &str) -> Result<u64, Halt> {
        let path = self.path(file);
        let failed = |error: io::Error| Halt::Failed(say::file(path.display(), error));
        let answer: Value = serde_json::from_slice(&fs::read(&path).map_err(failed)?)
            .map_err(|error| failed(error.into()))?;
        let number = answer.pointer(pointer).and_then(Value::as_u64);
        number.ok_or_else(|| Halt::Failed(say::not_found(pointer)))
    }

    /// How a user would type it.
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
        course: Course,
    ) -> Result<Ran, Halt> {
        self.say(&format!("$ {typed}"));
        let failed = |error: io::Error| Halt::Failed(say::cannot_run(typed, error));
        // One pipe for both, so that lines come in the order in which they were printed.
        let (reader, writer) = io::pipe().map_err(failed)?;
        let mut command = self.prepared(command, args);
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let mut child = command.spawn().map_err(failed)?;
        drop(command); // holds the writing ends, and the pipe would never end

        let mut text = String::new();
        let mut is_killed = false;
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.map_err(failed)?;
            let line = String::from_utf8_lossy(&line);
            self.say(&line);
            text.push_str(&line);
            text.push('\n');
            if let Course::KillAt(start) = course
                && !is_killed
                && line.starts_with(start)
            {
                self.say(&format!("$ kill -9 {}", child.id()));
                child.kill().map_err(failed)?;
                is_killed = true;
            }
        }
        let status = child.wait().map_err(failed)?;
        if self.stop.is_asked_for() {
            return Err(Halt::Stopped);
        }
        Ok(Ran { text, command: typed.to_owned(), status })
    }

    /// The losses of all steps that a run has logged.
    pub(super) fn losses(&self, out_dir: &str) -> Result<Vec<f64>, Halt> {
        let path = self.path(out_dir).join("events.jsonl");
        read_losses(&path).map_err(|error| Halt::Failed(say::file(path.display(), error)))
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

impl Ran {
    /// It must have ended with `code`.
    pub(super) fn ended_with(&self, code: i32) -> Result<(), Halt> {
        if self.status.code() == Some(code) {
            return Ok(());
        }
        Err(Halt::Failed(say::ended(&self.command, self.status, code)))
    }

    /// Somebody must have ended it.
    pub(super) fn was_killed(&self) -> Result<(), Halt> {
        if self.status.success() {
            return Err(Halt::Failed(say::not_killed(&self.command)));
        }
        Ok(())
    }
}

/// A folder that is removed at the end, unless it is to be kept.
pub(super) struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    /// Somewhere where the system keeps what is of no use tomorrow.
    pub(super) fn temporary() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("fitgpt-demo-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self { path, is_kept: false })
    }

    /// A folder of the user's, new or empty: nothing of theirs is written over.
    pub(super) fn kept(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        if fs::read_dir(path)?.next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(Self { path: path.to_owned(), is_kept: true })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed is the system's to clear.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
