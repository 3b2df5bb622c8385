//! Work that takes a core for a while: as much at a time as there are cores, and nobody waits for
//! ever.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use crate::serve::{Refusal, refuse};

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// Turns at the cores.
#[derive(Debug)]
pub(super) struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One turn. Others wait until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// One for every core.
    pub(super) fn by_cores() -> Self {
        Self::new(thread::available_parallelism().map_or(1, usize::from))
    }

    /// So many.
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a turn.
    pub(super) fn take(&self) -> Result<Turn<'_>, Refusal> {
        self.take_within(PATIENCE)
    }

    fn take_within(&self, patience: Duration) -> Result<Turn<'_>, Refusal> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, waited) = self
            .freed
            .wait_timeout_while(free, patience, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(refuse(503, "the server is busy"));
        }
        *free -= 1;
        Ok(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_free_again_after_it() {
        let turns = Turns::new(1);
        let turn = turns.take().unwrap();
        assert_eq!(turns.take_within(Duration::from_millis(1)).unwrap_err().status, 503);
        drop(turn);
        assert!(turns.take().is_ok());
    }
}
