//! Limits how many requests compute at a time: as many as there are cores, in the order in which they
//! came. A request that waits too long is refused.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use fitgpt_serve::{Refusal, refuse};

/// How long a request waits for a permit.
const PATIENCE: Duration = Duration::from_secs(20);

/// A counting semaphore with a queue.
#[derive(Debug)]
pub(super) struct WorkPermits {
    state: Mutex<PermitState>,
    changed: Condvar,
}

#[derive(Debug)]
struct PermitState {
    free: usize,
    /// The number of the next request.
    next: u64,
    /// Those that wait, in order.
    waiting: VecDeque<u64>,
}

/// Permission to compute, released when dropped.
#[derive(Debug)]
pub(super) struct WorkPermit(Arc<WorkPermits>);

impl WorkPermits {
    /// One permit per core.
    pub(super) fn by_cores() -> Arc<Self> {
        Self::new(thread::available_parallelism().map_or(1, usize::from))
    }

    /// `count` permits.
    pub(super) fn new(count: usize) -> Arc<Self> {
        let state = PermitState { free: count, next: 0, waiting: VecDeque::new() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Waits for a permit.
    pub(super) fn take(self: &Arc<Self>) -> Result<WorkPermit, Refusal> {
        self.take_within(PATIENCE)
    }

    /// A permit, if one is free.
    pub(super) fn take_at_once(self: &Arc<Self>) -> Option<WorkPermit> {
        self.take_within(Duration::ZERO).ok()
    }

    fn take_within(self: &Arc<Self>, patience: Duration) -> Result<WorkPermit, Refusal> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let own = state.next;
        state.next += 1;
        state.waiting.push_back(own);
        let (mut state, waited) = self
            .changed
            .wait_timeout_while(state, patience, |state| {
                state.free == 0 || state.waiting.front() != Some(&own)
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting.retain(|number| *number != own);
        self.changed.notify_all(); // there may be a permit for the next one, too
        if waited.timed_out() {
            return Err(refuse(503, "the server is busy"));
        }
        state.free -= 1;
        Ok(WorkPermit(Arc::clone(self)))
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).free += 1;
        self.0.changed.notify_all();
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
    #[test]
    fn permits_are_given_in_the_order_of_requests() {
        let permits = WorkPermits::new(1);
        let first = permits.take().unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let waiting = |permits: &Arc<WorkPermits>| permits.state.lock().unwrap().waiting.len();
        for number in 0..4 {
            let (permits, send) = (Arc::clone(&permits), send.clone());
            let before = waiting(&permits);
            let queue = Arc::clone(&permits);
            thread::spawn(move || {
                let _permit = permits.take().unwrap();
                send.send(number).unwrap();
            });
            while waiting(&queue) == before {
                thread::yield_now();
            }
        }
        drop((first, send));
        assert_eq!(receive.iter().collect::<Vec<i32>>(), [0, 1, 2, 3]);
    }
}
