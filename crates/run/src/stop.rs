//! Signals that ask a run to stop set a flag that the training loop checks.
//!
//! They are Ctrl-C and SIGTERM; SIGHUP, which a closed connection sends; SIGUSR1 and SIGXCPU, with
//! which schedulers announce the end of a time limit. A second Ctrl-C or a second SIGTERM ends the
//! program at once with exit code 2, because 130 promises that the state was saved.
//!
//! Open MPI's `mpirun` does not pass SIGINT on: it sends SIGCONT, then waits for
//! `odls_base_sigkill_timeout` seconds (one unless set), then sends SIGTERM, waits again and sends
//! SIGKILL. Ranks that it has started therefore save on SIGCONT, unless a pause shows that they
//! were suspended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{consts, flag};

#[cfg(unix)]
use fitgpt_files::os;

/// Whether the run was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

/// How long a command that reads a pipe may take to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a thread checks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A pause between two checks that is this long means that the process was suspended.
const SUSPENSION: Duration = Duration::from_secs(3);

/// What a second signal of the same kind does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecondSignal {
    /// Ends the program at once: the user does not want to wait.
    Exits,
    /// Nothing: the system repeats the signal by itself, as SIGXCPU every second.
    IsIgnored,
}

impl StopFlag {
    /// A flag that signals set.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        stop.register(consts::SIGINT, SecondSignal::Exits)?;
        stop.register(consts::SIGTERM, SecondSignal::Exits)?;
        #[cfg(unix)]
        {
            // `nohup` ignores SIGHUP, so that the run continues after the terminal is closed.
            if !os::is_ignored(consts::SIGHUP) {
                stop.register(consts::SIGHUP, SecondSignal::IsIgnored)?;
            }
            stop.register(consts::SIGUSR1, SecondSignal::IsIgnored)?;
            stop.register(consts::SIGXCPU, SecondSignal::IsIgnored)?;
            // With any handler, exceeding the limit on file sizes makes the write fail instead of
            // ending the process.
            flag::register(consts::SIGXFSZ, Arc::default())?;
        }
        Ok(stop)
    }

    fn register(&self, signal: i32, again: SecondSignal) -> std::io::Result<()> {
        if again == SecondSignal::Exits {
            // Handlers run in this order: the first signal only sets the flag.
            let was_raised = Arc::new(AtomicBool::new(false));
            flag::register_conditional_shutdown(signal, 2, Arc::clone(&was_raised))?;
            flag::register(signal, was_raised)?;
        }
        flag::register(signal, Arc::clone(&self.0))?;
        Ok(())
    }

    /// Makes SIGCONT stop the run too, unless the process was suspended before it. On Ctrl-C, Open
    /// MPI's `mpirun` sends SIGCONT at once, SIGTERM only after its grace period, and SIGKILL after
    /// the same time again.
    #[cfg(unix)]
    pub fn also_on_continue(&self) -> std::io::Result<()> {
        let was_continued = Arc::new(AtomicBool::new(false));
        flag::register(consts::SIGCONT, Arc::clone(&was_continued))?;
        let stop = Arc::downgrade(&self.0);
        let look = move || {
            let mut last = Instant::now();
            while let Some(stop) = stop.upgrade() {
                let is_suspended = last.elapsed() > SUSPENSION;
                last = Instant::now();
                if was_continued.swap(false, Ordering::Relaxed) && !is_suspended {
                    stop.store(true, Ordering::Relaxed);
                }
                drop(stop);
                thread::sleep(POLL_INTERVAL);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(look).map(drop)
    }

    /// Calls `end` if the flag still exists [`PATIENCE`] after a signal has set it: then the command
    /// waits for a pipe on which nothing arrives, where it cannot check the flag.
    pub fn when_ignored(&self, end: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let stop = Arc::downgrade(&self.0);
        let look = move || {
            while let Some(asked) = stop.upgrade().map(|stop| stop.load(Ordering::Relaxed)) {
                thread::sleep(if asked { PATIENCE } else { POLL_INTERVAL });
                if asked && stop.strong_count() > 0 {
                    return end();
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(look).map(drop)
    }

    /// Whether a signal has set the flag.
    pub fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
