//! Ranks: the processes that train together, on one machine or on many.
//!
//! A launcher (`mpirun`, `srun`) starts R copies of the program; MPI connects them. A program that
//! was not started by a launcher is a single rank, and nothing here costs anything.
//!
//! Everything that ranks say to each other is bytes from one to another ([`Ranks::exchange`]), in
//! an order that both know. MPI's own reductions promise no order of additions, so none is used:
//! numbers are added by our code, in an order that does not depend on the number of ranks.
//!
//! A rank that does not answer within its deadline ends the whole run: [`Ranks::exchange`] prints
//! which one it was and aborts. MPI has no way to go on without it.
//!
//! `cfg(feature = "mpi")` is in this file alone: `transport` is there twice, and the second one
//! knows a single process.

mod agree;
mod launcher;
#[cfg(feature = "mpi")]
#[path = "mpi.rs"]
mod transport;
#[cfg(not(feature = "mpi"))]
#[path = "no_mpi.rs"]
mod transport;

use std::{
    cell::Cell,
    sync::OnceLock,
    time::{Duration, Instant},
};

use fitgpt_plan::shard::Share;

pub use self::{
    agree::{Common, Mismatch, hash},
    launcher::LaunchError,
};
use self::{launcher::Launcher, transport::Transport};
use crate::{
    terminal,
    words::{names, ranks as words},
};

/// How long a rank waits for another one, in addition to three times what its own work since the
/// last exchange took: machines differ, and one may have more to do.
const PATIENCE: Duration = Duration::from_mins(10);

/// Sets the patience in seconds.
const PATIENCE_VARIABLE: &str = "FITGPT_RANK_TIMEOUT";

/// The root writes the checkpoint, the log and the terminal.
pub const ROOT: usize = 0;

/// What this process calls itself in errors, if it is one of several.
static LABEL: OnceLock<String> = OnceLock::new();

/// `[rank 3, host b] `, or nothing in a single process.
pub fn label() -> &'static str {
    LABEL.get().map_or("", String::as_str)
}

/// All ranks, and which of them this process is.
pub struct Ranks {
    transport: Option<Transport>,
    hosts: Vec<String>,
    patience: Duration,
    /// When the last exchange ended.
    last: Cell<Instant>,
}

impl Ranks {
    /// A single process.
    pub fn single() -> Self {
        let last = Cell::new(Instant::now());
        Self { transport: None, hosts: vec![String::new()], patience: PATIENCE, last }
    }

    /// Joins the other processes that a launcher has started, if one has. Only once in a process.
    pub fn start() -> Result<Self, LaunchError> {
        let Some(launcher) = Launcher::find() else { return Ok(Self::single()) };
        let Some(transport) = Transport::start(&launcher)? else { return Ok(Self::single()) };
        let count = transport.count();
        let patience = std::env::var(PATIENCE_VARIABLE).ok().and_then(|text| text.parse().ok());
        let mut ranks = Self {
            hosts: vec![String::new(); count],
            patience: patience.map_or(PATIENCE, Duration::from_secs),
            transport: Some(transport),
            last: Cell::new(Instant::now()),
        };
        ranks.hosts = ranks.gather_texts(&Transport::host());
        if count > 1 {
            let _ = LABEL.set(format!("{} ", ranks.name(ranks.rank())));
            if !ranks.is_root() {
                terminal::only_errors();
            }
        }
        Ok(ranks)
    }

    /// Counted from 0.
    pub fn rank(&self) -> usize {
        self.transport.as_ref().map_or(0, Transport::rank)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Whether this is the one that writes checkpoint, log and terminal.
    pub fn is_root(&self) -> bool {
        self.rank() == ROOT
    }

    /// Every other rank.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        let own = self.rank();
        (0..self.count()).filter(move |rank| *rank != own)
    }

    /// This rank's part of a plan.
    pub fn share(&self) -> Share {
        Share { rank: self.rank() as u32, ranks: self.count() as u32 }
    }

    /// A rank in messages: `[rank 3, host b]`.
    pub fn name(&self, rank: usize) -> String {
        words::name(rank, &self.hosts[rank])
    }

    /// Whether a rank runs on this machine.
    pub fn is_on_this_host(&self, rank: usize) -> bool {
        self.hosts[rank] == self.hosts[self.rank()]
    }

    /// How many ranks run on this machine.
    pub fn count_on_host(&self) -> usize {
        (0..self.count()).filter(|rank| self.is_on_this_host(*rank)).count()
    }

    /// How many machines there are.
    pub fn n_hosts(&self) -> usize {
        self.hosts.iter().collect::<std::collections::BTreeSet<_>>().len()
    }

    /// How many of the ranks before this one run on the same machine.
    pub fn index_on_host(&self) -> usize {
        (0..self.rank()).filter(|rank| self.is_on_this_host(*rank)).count()
    }

    /// Sends and receives at the same time, and returns when all of it has arrived. Two ranks make
    /// matching calls in the same order.
    pub fn exchange<'a>(&self, sends: &[(usize, &'a [u8])], receives: Vec<(usize, &'a mut [u8])>) {
        let Some(transport) = &self.transport else {
            assert!(sends.is_empty() && receives.is_empty(), "there is nobody else");
            return;
        };
        let busy = self.last.get().elapsed();
        let deadline = self.patience + 3 * busy;
        transport.exchange(sends, receives, deadline, &|silent| {
            let message = words::silent(self.name(silent), deadline.as_secs());
            terminal::err(&format!("{}{}{message}\n", label(), names::error()));
            self.abort()
        });
        self.last.set(Instant::now());
    }

    /// Sends bytes to one rank.
    pub fn send(&self, to: usize, bytes: &[u8]) {
        self.exchange(&[(to, bytes)], Vec::new());
    }

    /// Receives as many bytes from one rank.
    pub fn receive(&self, from: usize, bytes: &mut [u8]) {
        self.exchange(&[], vec![(from, bytes)]);
    }

    /// Gives every rank the bytes of all ranks, in their order; all have equally many.
    pub fn gather(&self, own: &[u8], all: &mut [u8]) {
        assert_eq!(all.len(), own.len() * self.count());
        if own.is_empty() {
            return;
        }
        let mut receives = Vec::with_capacity(self.count());
        for (rank, part) in all.chunks_mut(own.len()).enumerate() {
            if rank == self.rank() {
                part.copy_from_slice(own);
            } else {
                receives.push((rank, part));
            }
        }
        let sends: Vec<_> = self.others().map(|rank| (rank, own)).collect();
        self.exchange(&sends, receives);
    }

    /// One number of every rank, in their order.
    pub fn gather_numbers(&self, own: u64) -> Vec<u64> {
        let mut all = vec![0_u64; self.count()];
        self.gather(bytemuck::bytes_of(&own), bytemuck::cast_slice_mut(&mut all));
        all
    }

    /// One text of every rank, in their order.
    pub fn gather_texts(&self, own: &str) -> Vec<String> {
        let lengths = self.gather_numbers(own.len() as u64);
        let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
        let mut padded = own.as_bytes().to_vec();
        padded.resize(longest, 0);
        let mut all = vec![0; longest * self.count()];
        self.gather(&padded, &mut all);
        let text = |(rank, length): (usize, &u64)| {
            let bytes = &all[rank * longest..][..*length as usize];
            String::from_utf8_lossy(bytes).into_owned()
        };
        lengths.iter().enumerate().map(text).collect()
    }

    /// The root's text, on every rank.
    pub fn from_root(&self, own: &str) -> String {
        let own = if self.is_root() { own } else { "" };
        self.gather_texts(own).swap_remove(ROOT)
    }

    /// Waits, without using a core, until all ranks are done: MPI's own end would spin.
    pub fn leave(&self) {
        self.gather_numbers(0);
    }

    /// Ends all ranks with exit code 2.
    pub fn abort(&self) -> ! {
        match &self.transport {
            Some(transport) => transport.abort(2),
            None => std::process::exit(2),
        }
    }
}
