//! Signals that ask a run to stop: a flag that the loop looks at.
//!
//! Ctrl-C and SIGTERM; SIGHUP, which a closed connection sends; SIGUSR1 and SIGXCPU, with which
//! schedulers announce the end of a time limit. A second Ctrl-C, or a second SIGTERM, ends the
//! program at once with exit code 2: 130 promises that the state was saved.

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
use crate::os;

/// Whether the run was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

/// How often SIGCONT is looked for.
const BEAT: Duration = Duration::from_millis(250);

/// A pause between two looks that only a suspended process makes.
const SUSPENDED: Duration = Duration::from_secs(3);

/// What a second signal of the same kind does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// Ends the program at once: the user does not want to wait.
    Exits,
    /// Nothing: the system repeats the signal by itself, as SIGXCPU every second.
    IsIgnored,
}

impl Stop {
    /// A flag that signals raise.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        stop.register(consts::SIGINT, Again::Exits)?;
        stop.register(consts::SIGTERM, Again::Exits)?;
        #[cfg(unix)]
        {
            // `nohup` has it ignored, so that the run goes on after the terminal is closed.
            if !os::is_ignored(consts::SIGHUP) {
                stop.register(consts::SIGHUP, Again::IsIgnored)?;
            }
            stop.register(consts::SIGUSR1, Again::IsIgnored)?;
            stop.register(consts::SIGXCPU, Again::IsIgnored)?;
            // With any handler, a file that exceeds the size limit is an error of the write, and
            // not the end of the process.
            flag::register(consts::SIGXFSZ, Arc::default())?;
        }
        Ok(stop)
    }

    fn register(&self, signal: i32, again: Again) -> std::io::Result<()> {
        if again == Again::Exits {
            // Handlers run in this order: the first signal only sets the flag.
            let was_raised = Arc::new(AtomicBool::new(false));
            flag::register_conditional_shutdown(signal, 2, Arc::clone(&was_raised))?;
            flag::register(signal, was_raised)?;
        }
        flag::register(signal, Arc::clone(&self.0))?;
        Ok(())
    }

    /// SIGCONT also stops the run, unless the process was suspended before it: on Ctrl-C, Open
    /// MPI's `mpirun` sends SIGCONT at once, and SIGTERM only after the time that it grants for the
    /// end, followed by SIGKILL after the same time again.
    #[cfg(unix)]
    pub fn also_on_continue(&self) -> std::io::Result<()> {
        let was_continued = Arc::new(AtomicBool::new(false));
        flag::register(consts::SIGCONT, Arc::clone(&was_continued))?;
        let stop = Arc::downgrade(&self.0);
        let look = move || {
            let mut last = Instant::now();
            while let Some(stop) = stop.upgrade() {
                let is_suspended = last.elapsed() > SUSPENDED;
                last = Instant::now();
                if was_continued.swap(false, Ordering::Relaxed) && !is_suspended {
                    stop.store(true, Ordering::Relaxed);
                }
                drop(stop);
                thread::sleep(BEAT);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(look).map(drop)
    }

    /// Whether it was raised.
    pub fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
