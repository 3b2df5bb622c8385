//! The transport of a build with MPI: messages from one rank to another, without blocking.

use std::{
    convert::Infallible,
    thread,
    time::{Duration, Instant},
};

use mpi::{
    Threading,
    environment::{self, Universe},
    request::{self, LocalScope, Request},
    topology::SimpleCommunicator,
    traits::{Communicator as _, Destination as _, Source as _},
};

use super::launcher::{LaunchError, Launcher};

/// How long a waiting rank asks MPI without a pause. After that it sleeps in between: a core may
/// be shared with the rank that it waits for.
const EAGER: Duration = Duration::from_micros(300);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_micros(100);

/// MPI, until it is dropped.
pub(super) struct Transport {
    world: SimpleCommunicator,
    universe: Universe, // dropped last: ends MPI
}

/// A message on its way, and the rank at the other end.
struct Pending<'a, 's> {
    rank: usize,
    request: Request<'a, [u8], &'s LocalScope<'a>>,
}

impl Transport {
    /// Joins the other processes.
    pub(super) fn start(_: &Launcher) -> Result<Option<Self>, LaunchError> {
        // One thread calls MPI; kernels have others.
        let started = environment::initialize_with_threading(Threading::Funneled);
        let (universe, _) = started.ok_or(LaunchError::NotStarted)?;
        Ok(Some(Self { world: universe.world(), universe }))
    }

    pub(super) fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    pub(super) fn count(&self) -> usize {
        self.world.size() as usize
    }

    /// The name of this machine.
    pub(super) fn host() -> String {
        environment::processor_name().unwrap_or_default()
    }

    /// Waits for all messages. After `patience` it calls `give_up` with a rank that has not
    /// answered, which ends the process: MPI keeps the buffers of a message until it is complete.
    pub(super) fn exchange<'a>(
        &self,
        sends: &[(usize, &'a [u8])],
        receives: Vec<(usize, &'a mut [u8])>,
        patience: Duration,
        give_up: &dyn Fn(usize) -> Infallible,
    ) {
        request::scope(|scope| {
            let mut pending = Vec::with_capacity(sends.len() + receives.len());
            for (rank, bytes) in receives {
                let from = self.world.process_at_rank(rank as i32);
                pending.push(Pending { rank, request: from.immediate_receive_into(scope, bytes) });
            }
            for (rank, bytes) in sends {
                let to = self.world.process_at_rank(*rank as i32);
                pending.push(Pending { rank: *rank, request: to.immediate_send(scope, *bytes) });
            }
            let start = Instant::now();
            loop {
                pending = pending.into_iter().filter_map(Pending::unless_done).collect();
                let Some(first) = pending.first() else { return };
                let waited = start.elapsed();
                if waited > patience {
                    match give_up(first.rank) {}
                }
                if waited > EAGER {
                    thread::sleep(PAUSE);
                } else {
                    thread::yield_now();
                }
            }
        });
    }

    /// Ends all ranks.
    pub(super) fn abort(&self, code: i32) -> ! {
        self.universe.world().abort(code)
    }
}

impl Pending<'_, '_> {
    fn unless_done(self) -> Option<Self> {
        let Self { rank, request } = self;
        request.test().err().map(|request| Self { rank, request })
    }
}
