//! Whether a device is well, and the thread that talks to it.
//!
//! What goes wrong on a device is not seen where it was asked for: drivers report it to a
//! callback, later; the runtime panics on threads of its own; a call may never return. The
//! first report is kept here, and everything that is asked of a device asks for it before and
//! after, so that garbage is never read as a result. A thread of its own makes the calls: one
//! that never returns holds up that thread, and the run ends with an error.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use fitgpt_exec::{BackendError, DeviceFault};

/// A card that says nothing for so long is lost. The longest work between two answers is one
/// micro-batch; a software driver may take any time for it.
const PATIENCE: Duration = Duration::from_mins(10);

/// What a test makes a device do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The runtime panics.
    Panics,
    /// The driver reports the device lost while it goes on answering.
    IsLost,
    /// No call returns any more; two seconds are waited for it.
    Hangs,
}

#[derive(Debug)]
struct Ordeal {
    trial: Trial,
    calls_before: AtomicU32,
}

type Job = Box<dyn FnOnce() + Send>;

/// The state of one device.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    device: Arc<str>,
    fault: Arc<OnceLock<String>>,
    ordeal: Arc<OnceLock<Ordeal>>,
    patience: Duration,
    jobs: mpsc::Sender<Job>,
}

impl Health {
    /// Of a device that nothing was asked yet. Its thread lives as long as the process.
    pub(crate) fn new(device: &str, is_software: bool) -> Result<Self, BackendError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = thread::Builder::new().name("device".to_owned());
        let work = move || queue.into_iter().for_each(|job| job());
        let refused =
            |error: std::io::Error| BackendError::Threads { asked: 1, kind: error.kind() };
        thread.spawn(work).map_err(refused)?;
        Ok(Self {
            device: device.into(),
            fault: Arc::default(),
            ordeal: Arc::default(),
            patience: if is_software { Duration::MAX } else { PATIENCE },
            jobs,
        })
    }

    /// The first thing that went wrong, if any has.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        self.fault.get().map_or(Ok(()), |said| Err(self.error(said)))
    }

    /// Keeps what a driver reported.
    pub(crate) fn report(&self, said: String) {
        let _ = self.fault.set(said);
    }

    /// Has the device's thread do `work`, and waits for the answer.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        self.ask_and_hear(|_: &dyn Fn(())| work(), |()| {})
    }

    /// The same, with word from the device's thread while it works.
    pub(crate) fn ask_and_hear<W: Send + 'static, T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Fn(W)) -> Result<T, BackendError> + Send + 'static,
        mut hear: impl FnMut(W),
    ) -> Result<T, BackendError> {
        enum Word<W, T> {
            Meanwhile(W),
            Last(Result<T, BackendError>),
        }
        self.check()?;
        let (tell, told) = mpsc::channel();
        let job = move || {
            let meanwhile = |word| drop(tell.send(Word::Meanwhile(word)));
            let last = work(&meanwhile);
            let _ = tell.send(Word::Last(last));
        };
        if self.jobs.send(Box::new(job)).is_err() {
            return Err(self.fail(ENDED.to_owned()));
        }
        loop {
            match told.recv_timeout(self.patience()) {
                Ok(Word::Meanwhile(word)) => hear(word),
                Ok(Word::Last(last)) => return last,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = self.patience().as_secs();
                    return Err(self.fail(format!("it has not answered for {seconds} s")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.fail(ENDED.to_owned())),
            }
        }
    }

    /// On the device's thread: `work`, in which the runtime may panic; afterwards nothing has
    /// gone wrong.
    pub(crate) fn guard<T>(
        &self,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, BackendError> {
        self.check()?;
        let tried = || {
            self.suffer();
            work()
        };
        let result = catch_unwind(AssertUnwindSafe(tried));
        match result.unwrap_or_else(|panic| Err(words(&*panic))) {
            Ok(value) => self.check().map(|()| value),
            Err(said) => Err(self.fail(said)),
        }
    }

    /// Makes the device fail after `calls` more.
    pub(crate) fn put_on_trial(&self, trial: Trial, calls: u32) {
        let _ = self.ordeal.set(Ordeal { trial, calls_before: AtomicU32::new(calls) });
    }

    fn suffer(&self) {
        let Some(ordeal) = self.ordeal.get() else { return };
        let one_less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if ordeal.calls_before.fetch_update(order, order, one_less).is_ok() {
            return;
        }
        match ordeal.trial {
            Trial::Panics => panic!("a test made it panic"),
            Trial::IsLost => self.report("a test took it away".to_owned()),
            Trial::Hangs => loop {
                thread::park();
            },
        }
    }

    fn patience(&self) -> Duration {
        match self.ordeal.get() {
            Some(Ordeal { trial: Trial::Hangs, .. }) => Duration::from_secs(2),
            _ => self.patience,
        }
    }

    fn fail(&self, said: String) -> BackendError {
        self.error(self.fault.get_or_init(|| said))
    }

    fn error(&self, said: &str) -> BackendError {
        DeviceFault { device: self.device.to_string(), said: said.to_owned() }.into()
    }
}

const ENDED: &str = "the thread that talks to it has ended";

/// What a panic said.
pub(crate) fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the runtime ended without a word".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(said: &str) -> BackendError {
        DeviceFault { device: "a card".to_owned(), said: said.to_owned() }.into()
    }

    fn well() -> Health {
        Health::new("a card", false).unwrap()
    }

    /// What is said first, and what is said ever after.
    fn asked_twice(health: &Health) -> [Result<i32, BackendError>; 2] {
        [(); 2].map(|()| {
            let here = health.clone();
            health.ask(move || here.guard(|| Ok(3)))
        })
    }

    #[test]
    fn a_device_that_is_well_answers() {
        assert_eq!(asked_twice(&well()), [Ok(3), Ok(3)]);
    }

    #[test]
    fn a_panic_is_an_error_and_stays_one() {
        let health = well();
        health.put_on_trial(Trial::Panics, 0);
        assert_eq!(asked_twice(&health), [(); 2].map(|()| Err(fault("a test made it panic"))));
    }

    #[test]
    fn what_a_lost_device_answers_is_never_a_result() {
        let health = well();
        health.put_on_trial(Trial::IsLost, 1);
        assert_eq!(asked_twice(&health), [Ok(3), Err(fault("a test took it away"))]);
    }

    #[test]
    fn a_device_that_hangs_ends_the_wait() {
        let health = well();
        health.put_on_trial(Trial::Hangs, 0);
        let said = fault("it has not answered for 2 s");
        assert_eq!(asked_twice(&health), [Err(said.clone()), Err(said)]);
    }

    #[test]
    fn word_is_heard_while_the_device_works() {
        let mut heard = Vec::new();
        let work = |tell: &dyn Fn(u32)| {
            (0..3).for_each(tell);
            Ok("done")
        };
        assert_eq!(well().ask_and_hear(work, |word| heard.push(word)), Ok("done"));
        assert_eq!(heard, [0, 1, 2]);
    }
}
