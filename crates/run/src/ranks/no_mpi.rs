//! The transport of a build without MPI: a single process.

use std::time::Duration;

use super::{
    exchange::Exchange,
    launcher::{LaunchError, Launcher},
};

/// The result of an exchange.
pub(super) enum Arrival {
    Complete(Exchange),
    #[expect(dead_code, reason = "a single process never waits")]
    Silent {
        rank: usize,
        seconds: u64,
    },
}

/// Never constructed.
pub(super) enum Transport {}

impl Transport {
    /// Refuses to be one of several: each would train the whole model by itself.
    pub(super) fn start(launcher: &Launcher) -> Result<Option<Self>, LaunchError> {
        match *launcher {
            Launcher { count: 0 | 1, .. } => Ok(None),
            Launcher { variable, count } => Err(LaunchError::NotInThisBuild { variable, count }),
        }
    }

    pub(super) fn rank(&self) -> usize {
        match *self {}
    }

    pub(super) fn count(&self) -> usize {
        match *self {}
    }

    pub(super) fn host(&self) -> &str {
        match *self {}
    }

    pub(super) fn post(&self, _: Exchange, _: Duration) {
        match *self {}
    }

    pub(super) fn wait(&self) -> Arrival {
        match *self {}
    }

    pub(super) fn arrived(&self) -> Option<Arrival> {
        match *self {}
    }

    pub(super) fn abort(&self, _: i32) -> ! {
        match *self {}
    }
}
