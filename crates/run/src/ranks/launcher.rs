//! Finds out whether a launcher of MPI programs started this process: launchers set environment
//! variables.

use std::env;

/// Why ranks cannot train together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// Each process would train the whole model by itself.
    NotInThisBuild {
        /// The variable that the launcher has set.
        variable: &'static str,
        /// How many processes it started.
        count: usize,
    },
    /// MPI did not start.
    NotStarted,
}

/// Variables with the number of processes. Slurm sets the last one for `srun` alone, not for the
/// script of a job.
const VARIABLES: [&str; 4] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

/// What a launcher reports about the processes that it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launcher {
    pub(super) variable: &'static str,
    pub(super) count: usize,
}

/// Set by Open MPI's `mpirun`.
const OPEN_MPI: &str = VARIABLES[0];

/// How many TCP connections Open MPI opens between two processes, if the user has set it.
const TCP_LINKS: &str = "OMPI_MCA_btl_tcp_links";

impl Launcher {
    /// Whether messages in both directions wait for each other on Ethernet. By default, Open MPI has
    /// one TCP connection between two processes. The handshake of a message then waits behind the
    /// data of another one: at 200 Mb/s, steps waited 1.9 times as long as with two connections
    /// (`bench/ranks_network.py`).
    pub(super) fn has_one_connection(&self) -> bool {
        self.is_open_mpi() && env::var_os(TCP_LINKS).is_none()
    }

    /// Whether Open MPI's `mpirun` has started this process.
    pub(super) fn is_open_mpi(&self) -> bool {
        self.variable == OPEN_MPI
    }

    /// The launcher of this process, if there is one.
    pub(super) fn find() -> Option<Self> {
        Self::of(|variable| env::var(variable).ok())
    }

    fn of(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let found = |variable: &'static str| {
            let count = value(variable)?.trim().parse().ok()?;
            Some(Self { variable, count })
        };
        VARIABLES.into_iter().find_map(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_found_by_its_variables() {
        let with = |name: &'static str, text: &'static str| {
            Launcher::of(move |variable| (variable == name).then(|| text.to_owned()))
        };
        let of = |variable, count| Some(Launcher { variable, count });
        assert_eq!(with("OMPI_COMM_WORLD_SIZE", "4"), of("OMPI_COMM_WORLD_SIZE", 4));
        assert_eq!(with("PMI_SIZE", "1"), of("PMI_SIZE", 1));
        assert_eq!(with("SLURM_STEP_NUM_TASKS", "16"), of("SLURM_STEP_NUM_TASKS", 16));
        // A job's script has this one too, and is a single process.
        assert_eq!(with("SLURM_NTASKS", "16"), None);
        assert_eq!(with("PMI_SIZE", "many"), None);
    }
}
