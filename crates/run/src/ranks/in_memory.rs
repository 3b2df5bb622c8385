//! The transport of tests: ranks are threads of one process, connected by channels.
//!
//! It is strict. A message must have the length that its receiver expects, and a rank that waits for
//! one that has ended, or for too long, panics.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::mpsc::{self, Receiver, Sender},
    time::Duration,
};

use super::{
    exchange::Exchange,
    launcher::{LaunchError, Launcher},
};

/// How long a rank waits for a message before the test fails.
const PATIENCE: Duration = Duration::from_mins(1);

/// The result of an exchange.
pub(super) enum Arrival {
    Complete(Exchange),
    #[expect(dead_code, reason = "a rank of a test panics instead")]
    Silent {
        rank: usize,
        seconds: u64,
    },
}

/// One rank's ends of the channels from and to every rank.
pub(super) struct Transport {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    posted: RefCell<VecDeque<Exchange>>,
}

impl Transport {
    /// Refuses to be one of several, as a build without MPI does.
    pub(super) fn start(launcher: &Launcher) -> Result<Option<Self>, LaunchError> {
        match *launcher {
            Launcher { count: 0 | 1, .. } => Ok(None),
            Launcher { variable, count } => Err(LaunchError::NotInThisBuild { variable, count }),
        }
    }

    /// As many ranks, connected with each other.
    pub(super) fn connected(count: usize) -> Vec<Self> {
        let new =
            |rank| Self { rank, to: Vec::new(), from: Vec::new(), posted: RefCell::default() };
        let mut all: Vec<_> = (0..count).map(new).collect();
        for sender in 0..count {
            for receiver in &mut all {
                let (to, from) = mpsc::channel();
                receiver.from.push(from);
                receiver.to.push(to); // the sender's end, given away below
            }
            let ends: Vec<_> = all.iter_mut().map(|receiver| receiver.to.pop()).collect();
            all[sender].to.splice(0..0, ends.into_iter().flatten());
        }
        all
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn count(&self) -> usize {
        self.to.len()
    }

    #[expect(clippy::unused_self, reason = "other transports know it")]
    pub(super) fn host(&self) -> &'static str {
        ""
    }

    pub(super) fn post(&self, exchange: Exchange, _: Duration) {
        for message in exchange.sends.iter().filter(|message| !message.bytes().is_empty()) {
            // A rank that has ended is noticed when this one waits for it.
            let _ = self.to[message.rank].send(message.bytes().to_vec());
        }
        self.posted.borrow_mut().push_back(exchange);
    }

    pub(super) fn wait(&self) -> Arrival {
        let mut exchange = self.posted.borrow_mut().pop_front().expect("it was posted");
        for message in exchange.receives.iter_mut().filter(|message| !message.bytes().is_empty()) {
            let (own, other) = (self.rank, message.rank);
            let bytes = self.from[other].recv_timeout(PATIENCE);
            let bytes =
                bytes.unwrap_or_else(|error| panic!("rank {own} waits for {other}: {error}"));
            assert_eq!(
                bytes.len(),
                message.bytes().len(),
                "rank {own} expects less or more of {other}"
            );
            message.bytes_mut().copy_from_slice(&bytes);
        }
        Arrival::Complete(exchange)
    }

    pub(super) fn arrived(&self) -> Option<Arrival> {
        let is_posted = !self.posted.borrow().is_empty();
        is_posted.then(|| self.wait())
    }

    pub(super) fn abort(&self, code: i32) -> ! {
        panic!("rank {} ends all ranks with exit code {code}", self.rank)
    }
}
