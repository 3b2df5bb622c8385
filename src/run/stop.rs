//! Ctrl-C and SIGTERM: a flag that the loop looks at. The second one ends the program at once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether somebody asked the run to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that the system's signals raise.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        for signal in signal_hook::consts::TERM_SIGNALS {
            if *signal == signal_hook::consts::SIGQUIT {
                continue; // asks for a core dump, not for manners
            }
            let flag = Arc::clone(&stop.0);
            signal_hook::flag::register_conditional_shutdown(*signal, 130, Arc::clone(&flag))?;
            signal_hook::flag::register(*signal, flag)?;
        }
        // A file-size limit must fail a save with an error, not end the run: a handler that
        // does nothing turns the signal into one.
        #[cfg(unix)]
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
        Ok(stop)
    }

    /// Whether it was raised.
    pub fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
