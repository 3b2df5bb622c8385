//! Limits how many requests compute at a time: as many as there are cores. A request that waits too
//! long is refused.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use crate::serve::{Refusal, refuse};

/// How long a request waits for a permit.
const PATIENCE: Duration = Duration::from_secs(20);

/// A counting semaphore.
#[derive(Debug)]
pub(super) struct WorkPermits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Permission to compute, released when dropped.
#[derive(Debug)]
pub(super) struct WorkPermit<'a>(&'a WorkPermits);

impl WorkPermits {
    /// One permit per core.
    pub(super) fn by_cores() -> Self {
        Self::new(thread::available_parallelism().map_or(1, usize::from))
    }

    /// `count` permits.
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a permit.
    pub(super) fn take(&self) -> Result<WorkPermit<'_>, Refusal> {
        self.take_within(PATIENCE)
    }

    /// A permit, if one is free.
    pub(super) fn take_at_once(&self) -> Option<WorkPermit<'_>> {
        self.take_within(Duration::ZERO).ok()
    }

    fn take_within(&self, patience: Duration) -> Result<WorkPermit<'_>, Refusal> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, waited) = self
            .freed
            .wait_timeout_while(free, patience, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(refuse(503, "the server is busy"));
        }
        *free -= 1;
        Ok(WorkPermit(self))
    }
}

impl Drop for WorkPermit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_permit_can_be_acquired_again() {
        let permits = WorkPermits::new(1);
        let permit = permits.take().unwrap();
        assert_eq!(permits.take_within(Duration::from_millis(1)).unwrap_err().status, 503);
        assert!(permits.take_at_once().is_none());
        drop(permit);
        assert!(permits.take_at_once().is_some());
        assert!(permits.take().is_ok());
    }
}
