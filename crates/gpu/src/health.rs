//! The thread that talks to a device, and the first error of that device.
//!
//! Device errors do not surface at the call that caused them: drivers report them later through a
//! callback, the runtime panics on its own threads, and a call may never return. This module keeps
//! the first error, and every request checks for it before and after, so that garbage is never read
//! as a result. A separate thread makes the calls: if a call never returns, only that thread hangs,
//! and the run ends with an error.
//!
//! After ten minutes without an answer the device counts as lost: a micro-batch, the longest work
//! between two answers, takes a card seconds. A software driver has no limit. Tests inject failures
//! with `GpuDevice::inject_fault`.
//!
//! Promise: a device that panics, is lost or hangs ends the run, nothing is read from it, and the
//! checkpoint resumes. Test: this file, `tests/gpu/faults.rs`.

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

/// A card that does not answer for this long is lost. The longest work between two answers is one
/// micro-batch. A software driver has no limit.
const PATIENCE: Duration = Duration::from_mins(10);

/// A failure that a test injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The runtime panics.
    Panics,
    /// The driver reports the device lost, but it keeps answering.
    IsLost,
    /// Calls no longer return; the wait ends after five seconds.
    Hangs,
}

#[derive(Debug)]
struct PendingFault {
    trial: InjectedFault,
    calls_before: AtomicU32,
}

type DeviceJob = Box<dyn FnOnce() + Send>;

/// The state of one device.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    device: Arc<str>,
    fault: Arc<OnceLock<String>>,
    pending_fault: Arc<OnceLock<PendingFault>>,
    patience: Duration,
    jobs: mpsc::Sender<DeviceJob>,
}

impl Health {
    /// The state of a new device. Its thread lives as long as the process.
    pub(crate) fn new(device: &str, is_software: bool) -> Result<Self, BackendError> {
        let (jobs, queue) = mpsc::channel::<DeviceJob>();
        let thread = thread::Builder::new().name("device".to_owned());
        let work = move || queue.into_iter().for_each(|job| job());
        let refused =
            |error: std::io::Error| BackendError::Threads { asked: 1, kind: error.kind() };
        thread.spawn(work).map_err(refused)?;
        Ok(Self {
            device: device.into(),
            fault: Arc::default(),
            pending_fault: Arc::default(),
            patience: if is_software { Duration::MAX } else { PATIENCE },
            jobs,
        })
    }

    /// The first error, if any.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        self.fault.get().map_or(Ok(()), |message| Err(self.error(message)))
    }

    /// Stores an error that a driver reported.
    pub(crate) fn report(&self, message: String) {
        let _ = self.fault.set(message);
    }

    /// Runs `work` on the device's thread and waits for the answer.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        self.ask_with_progress(|_: &dyn Fn(())| work(), |()| {})
    }

    /// Like [`ask`](Self::ask), with messages from the device's thread while it works.
    pub(crate) fn ask_with_progress<W: Send + 'static, T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Fn(W)) -> Result<T, BackendError> + Send + 'static,
        mut on_progress: impl FnMut(W),
    ) -> Result<T, BackendError> {
        enum JobMessage<W, T> {
            Progress(W),
            Result(Result<T, BackendError>),
        }
        self.check()?;
        let (sender, receiver) = mpsc::channel();
        let job = move || {
            let report = |progress| drop(sender.send(JobMessage::Progress(progress)));
            let result = work(&report);
            let _ = sender.send(JobMessage::Result(result));
        };
        if self.jobs.send(Box::new(job)).is_err() {
            return Err(self.fail(ENDED.to_owned()));
        }
        loop {
            match receiver.recv_timeout(self.patience()) {
                Ok(JobMessage::Progress(progress)) => on_progress(progress),
                Ok(JobMessage::Result(result)) => return result,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = self.patience().as_secs();
                    return Err(self.fail(format!("it has not answered for {seconds} s")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.fail(ENDED.to_owned())),
            }
        }
    }

    /// Runs `work` on the device's thread and turns a panic, or an error that the driver reported
    /// meanwhile, into an error.
    pub(crate) fn guard<T>(
        &self,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, BackendError> {
        self.check()?;
        let tried = || {
            self.apply_injected_fault();
            work()
        };
        let result = catch_unwind(AssertUnwindSafe(tried));
        match result.unwrap_or_else(|panic| Err(panic_message(&*panic))) {
            Ok(value) => self.check().map(|()| value),
            Err(message) => Err(self.fail(message)),
        }
    }

    /// Makes the device fail after `calls` more calls.
    pub(crate) fn inject_fault(&self, trial: InjectedFault, calls: u32) {
        let _ = self.pending_fault.set(PendingFault { trial, calls_before: AtomicU32::new(calls) });
    }

    fn apply_injected_fault(&self) {
        let Some(pending_fault) = self.pending_fault.get() else { return };
        let one_less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if pending_fault.calls_before.fetch_update(order, order, one_less).is_ok() {
            return;
        }
        match pending_fault.trial {
            InjectedFault::Panics => panic!("a test injected a panic"),
            InjectedFault::IsLost => self.report("a test injected a lost device".to_owned()),
            InjectedFault::Hangs => loop {
                thread::park();
            },
        }
    }

    fn patience(&self) -> Duration {
        match self.pending_fault.get() {
            Some(PendingFault { trial: InjectedFault::Hangs, .. }) => Duration::from_secs(5),
            _ => self.patience,
        }
    }

    fn fail(&self, message: String) -> BackendError {
        self.error(self.fault.get_or_init(|| message))
    }

    fn error(&self, message: &str) -> BackendError {
        DeviceFault { device: self.device.to_string(), message: message.to_owned() }.into()
    }
}

const ENDED: &str = "the thread that talks to it has ended";

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the runtime panicked without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(message: &str) -> BackendError {
        DeviceFault { device: "a card".to_owned(), message: message.to_owned() }.into()
    }

    fn well() -> Health {
        Health::new("a card", false).unwrap()
    }

    /// The answers of the first request and of a later one.
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
        health.inject_fault(InjectedFault::Panics, 0);
        assert_eq!(asked_twice(&health), [(); 2].map(|()| Err(fault("a test injected a panic"))));
    }

    #[test]
    fn what_a_lost_device_answers_is_never_a_result() {
        let health = well();
        health.inject_fault(InjectedFault::IsLost, 1);
        assert_eq!(asked_twice(&health), [Ok(3), Err(fault("a test injected a lost device"))]);
    }

    #[test]
    fn a_device_that_hangs_ends_the_wait() {
        let health = well();
        health.inject_fault(InjectedFault::Hangs, 0);
        let message = fault("it has not answered for 5 s");
        assert_eq!(asked_twice(&health), [Err(message.clone()), Err(message)]);
    }

    #[test]
    fn progress_arrives_while_the_device_works() {
        let mut heard = Vec::new();
        let work = |report: &dyn Fn(u32)| {
            (0..3).for_each(report);
            Ok("done")
        };
        assert_eq!(well().ask_with_progress(work, |word| heard.push(word)), Ok("done"));
        assert_eq!(heard, [0, 1, 2]);
    }
}
