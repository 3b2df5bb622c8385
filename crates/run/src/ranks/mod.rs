//! Ranks: the processes that train together, on one machine or on many.
//!
//! A launcher (`mpirun`, `srun`) starts R copies of the program; MPI connects them. A program that
//! was not started by a launcher is a single rank and has no overhead.
//!
//! Ranks only exchange bytes in pairs ([`Ranks::exchange`]), in an order that both know. A
//! dedicated thread calls MPI, so messages also travel while this rank computes ([`Ranks::post`]).
//! MPI's reductions are not used, because they promise no order of additions: our code adds the
//! numbers, in an order that does not depend on the number of ranks.
//!
//! A rank that does not answer within its deadline ends the whole run: the rank that waits for it
//! reports which one it was and aborts. MPI cannot continue without it.
//!
//! `cfg(feature = "mpi")` is used in this file alone. It selects one of two `transport` modules;
//! the one without MPI supports a single process. Tests have a third one, in which ranks are threads
//! (feature `simulated` for those of other crates).
//!
//! Promise: a rank that dies or hangs, that has another program, config or other data, or less
//! memory than the plan, ends the run with a message that names it; sending gradients during the
//! backward pass or after it trains the same bits. Test: `tests/ranks/check.py`.

mod agree;
mod exchange;
mod launcher;
mod words;
#[cfg(feature = "mpi")]
#[path = "mpi.rs"]
mod transport;
#[cfg(not(any(feature = "mpi", feature = "simulated", test)))]
#[path = "no_mpi.rs"]
mod transport;
#[cfg(all(any(feature = "simulated", test), not(feature = "mpi")))]
#[path = "in_memory.rs"]
mod transport;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::OnceLock,
    time::{Duration, Instant},
};

use fitgpt_model::shard::Share;

pub use self::{
    agree::{Mismatch, RankName, SharedInput, hash},
    exchange::{Exchange, RankMessage},
    launcher::LaunchError,
};
use self::{
    launcher::Launcher,
    transport::{Arrival, Transport},
};
/// How long a rank waits for another one, in addition to three times the time of its own work since
/// the last exchange: machines differ, and one may have more to do.
const PATIENCE: Duration = Duration::from_mins(10);

/// Sets the patience in seconds.
const PATIENCE_VARIABLE: &str = "FITGPT_RANK_TIMEOUT";

/// The root writes the checkpoint, the log and the terminal.
pub const ROOT: usize = 0;

/// This process, if it is one of several.
static OWN_NAME: OnceLock<RankName> = OnceLock::new();

/// The rank of this process, if it is one of several, to put before its errors.
pub fn own_name() -> Option<&'static RankName> {
    OWN_NAME.get()
}

/// A rank that has died or hangs: the run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Which one.
    pub rank: RankName,
    /// How long it was waited for.
    pub seconds: u64,
}

/// All ranks, and which of them this process is.
pub struct Ranks {
    /// What has started this process, if it is one of several.
    launcher: Option<Launcher>,
    transport: Option<Transport>,
    hosts: Vec<String>,
    patience: Duration,
    /// When this rank last waited for another one.
    last: Cell<Instant>,
    /// How long it has waited in total.
    waited: Cell<Duration>,
    /// How many exchanges were posted and not collected.
    posted: Cell<usize>,
    /// Reports a rank that does not answer, before this process ends.
    report: fn(&Silent),
    /// The exchanges of a single process, which send nothing.
    alone: RefCell<VecDeque<Exchange>>,
    /// What a test sees and changes.
    #[cfg(any(feature = "simulated", test))]
    probe: Probe,
}

impl Ranks {
    /// A single process.
    pub fn single() -> Self {
        Self::of(None, 1, PATIENCE)
    }

    fn of(transport: Option<Transport>, count: usize, patience: Duration) -> Self {
        Self {
            launcher: None,
            transport,
            hosts: vec![String::new(); count],
            patience,
            last: Cell::new(Instant::now()),
            waited: Cell::default(),
            posted: Cell::default(),
            report: |_| {},
            alone: RefCell::default(),
            #[cfg(any(feature = "simulated", test))]
            probe: Probe::default(),
        }
    }

    /// Joins the other processes that a launcher has started, if one has. Only once in a process.
    /// If one of them does not answer in time, it is reported and this process ends.
    pub fn start(report: fn(&Silent)) -> Result<Self, LaunchError> {
        let Some(launcher) = Launcher::find() else { return Ok(Self::single()) };
        let Some(transport) = Transport::start(&launcher)? else { return Ok(Self::single()) };
        let count = transport.count();
        let patience = std::env::var(PATIENCE_VARIABLE).ok().and_then(|text| text.parse().ok());
        let host = transport.host().to_owned();
        let patience = patience.map_or(PATIENCE, Duration::from_secs);
        let mut ranks = Self::of(Some(transport), count, patience);
        (ranks.launcher, ranks.report) = (Some(launcher), report);
        ranks.hosts = ranks.gather_texts(&host);
        if count > 1 {
            let _ = OWN_NAME.set(ranks.name(ranks.rank()));
        }
        Ok(ranks)
    }

    /// Counted from 0.
    pub fn rank(&self) -> usize {
        self.transport.as_ref().map_or(0, Transport::rank)
    }

    /// Whether a second TCP connection between machines would speed up messages on Ethernet.
    pub fn wants_more_connections(&self) -> bool {
        self.n_hosts() > 1 && self.launcher.is_some_and(|launcher| launcher.has_one_connection())
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

    /// A rank in messages.
    pub fn name(&self, rank: usize) -> RankName {
        RankName { rank, host: self.hosts[rank].clone() }
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

    /// Starts an exchange. Exchanges happen one after the other, in the order in which they were
    /// posted; ranks must post matching ones in the same order.
    pub fn post(&self, exchange: Exchange) {
        self.posted.update(|posted| posted + 1);
        #[cfg(any(feature = "simulated", test))]
        self.probe.recorded.borrow_mut().push(exchange.pattern());
        match &self.transport {
            // Machines differ, and one may have more to do.
            Some(transport) => {
                transport.post(exchange, self.patience + 3 * self.last.get().elapsed());
            }
            None => self.alone.borrow_mut().push_back(exchange),
        }
    }

    /// Waits for the exchange that was posted first.
    pub fn collect(&self) -> Exchange {
        let start = Instant::now();
        let arrival = match &self.transport {
            Some(transport) => transport.wait(),
            None => Arrival::Complete(self.alone.borrow_mut().pop_front().expect("it was posted")),
        };
        let exchange = self.arrived(arrival);
        self.last.set(Instant::now());
        self.waited.update(|waited| waited + start.elapsed());
        exchange
    }

    /// The exchange that was posted first, if it is complete.
    pub fn collect_complete(&self) -> Option<Exchange> {
        let arrival = match &self.transport {
            Some(transport) => transport.arrived(),
            None => self.alone.borrow_mut().pop_front().map(Arrival::Complete),
        };
        arrival.map(|arrival| self.arrived(arrival))
    }

    fn arrived(&self, arrival: Arrival) -> Exchange {
        match arrival {
            Arrival::Complete(exchange) => {
                self.posted.update(|posted| posted - 1);
                exchange
            }
            Arrival::Silent { rank, seconds } => {
                (self.report)(&Silent { rank: self.name(rank), seconds });
                self.abort()
            }
        }
    }

    /// How long this rank has waited for others since the last call.
    pub fn take_waited(&self) -> Duration {
        self.waited.take()
    }

    /// Sends and receives at the same time, and returns when all of it has arrived.
    pub fn exchange(&self, sends: &[(usize, &[u8])], receives: Vec<(usize, &mut [u8])>) {
        if sends.is_empty() && receives.is_empty() {
            return;
        }
        assert_eq!(self.posted.get(), 0, "the result would be that of another exchange");
        let message = |(rank, bytes): &(usize, &[u8])| RankMessage::of(*rank, bytes);
        let space = |(rank, bytes): &(usize, &mut [u8])| {
            let mut message = RankMessage::with_capacity(*rank, bytes.len());
            message.resize(bytes.len());
            message
        };
        self.post(Exchange {
            sends: sends.iter().map(message).collect(),
            receives: receives.iter().map(space).collect(),
        });
        let arrived = self.collect().receives;
        for ((_, bytes), message) in receives.into_iter().zip(arrived) {
            bytes.copy_from_slice(message.bytes());
        }
    }

    /// Sends bytes to one rank.
    pub fn send(&self, to: usize, bytes: &[u8]) {
        self.exchange(&[(to, bytes)], Vec::new());
    }

    /// Receives as many bytes from one rank.
    pub fn receive(&self, from: usize, bytes: &mut [u8]) {
        self.exchange(&[], vec![(from, bytes)]);
    }

    /// Gives every rank the bytes of all ranks, in rank order; all have the same length.
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

    /// One number of every rank, in rank order.
    pub fn gather_numbers(&self, own: u64) -> Vec<u64> {
        let mut all = vec![0_u64; self.count()];
        self.gather(bytemuck::bytes_of(&own), bytemuck::cast_slice_mut(&mut all));
        all
    }

    /// One text of every rank, in rank order.
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

    /// Whether Open MPI's `mpirun` has started several ranks.
    pub fn are_of_open_mpi(&self) -> bool {
        self.count() > 1 && self.launcher.is_some_and(|launcher| launcher.is_open_mpi())
    }

    /// Waits until all ranks are done, without using a core: MPI's finalization would spin.
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

#[cfg(all(any(feature = "simulated", test), not(feature = "mpi")))]
impl Ranks {
    /// Ranks that are threads of this process: each is to be made in a thread of its own.
    pub fn connected(count: usize) -> impl Iterator<Item = impl FnOnce() -> Self + Send> {
        let transports = Transport::connected(count).into_iter();
        transports.map(move |one| move || Self::of(Some(one), count, PATIENCE))
    }

    /// Every agreement and every exchange so far.
    pub fn recorded(&self) -> Vec<String> {
        self.probe.recorded.borrow().clone()
    }

    /// Lets an agreement of this rank fail, after `count` that succeed.
    pub fn fail_after(&self, count: usize) {
        self.probe.agreements_left.set(Some(count));
    }
}

/// The order of a rank's agreements and exchanges, and which agreement must fail.
#[cfg(any(feature = "simulated", test))]
#[derive(Default)]
struct Probe {
    recorded: RefCell<Vec<String>>,
    agreements_left: Cell<Option<usize>>,
}

#[cfg(any(feature = "simulated", test))]
impl Ranks {
    /// Records an agreement that starts now; returns whether it must fail.
    pub fn fails_now(&self) -> bool {
        self.probe.recorded.borrow_mut().push("agree".to_owned());
        let left = self.probe.agreements_left.get();
        self.probe.agreements_left.set(left.and_then(|left| left.checked_sub(1)));
        left == Some(0)
    }
}
