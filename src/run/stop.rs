//! Signals that ask a run to stop: a flag that the loop looks at.
//!
//! Ctrl-C and SIGTERM; SIGHUP, which a closed connection sends; SIGUSR1 and SIGXCPU, with which
//! schedulers announce the end of a time limit. A second Ctrl-C, or a second SIGTERM, ends the
//! program at once with exit code 2: 130 promises that the state was saved.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{consts, flag};

#[cfg(unix)]
use crate::os;

/// Whether the run was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

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

    /// Whether it was raised.
    pub fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
