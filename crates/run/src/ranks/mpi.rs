//! The transport of a build with MPI: messages from one rank to another, without blocking.
//!
//! Only one thread calls MPI, from its start to its end. It receives exchanges through a channel,
//! runs one after the other, and returns them through another channel. Messages make progress only
//! while MPI is polled; a dedicated thread does that even during a long kernel.
//!
//! The buffers of an exchange belong to that thread until it is complete. `FITGPT_OVERLAP=0` sends
//! everything after the backward pass, to measure the difference (`bench/ranks.py overlap`).

use std::{
    collections::VecDeque,
    sync::mpsc::{self, Receiver, Sender, TryRecvError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mpi::{
    Threading, environment,
    request::{self, LocalScope, Request},
    topology::SimpleCommunicator,
    traits::{Communicator as _, Destination as _, Source as _},
};

use super::{
    exchange::Exchange,
    launcher::{LaunchError, Launcher},
};

/// How long the thread polls MPI without a pause. After that it sleeps in between, because it may
/// share a core with a kernel or with the rank that it waits for.
const EAGER: Duration = Duration::from_micros(300);
/// The shortest and the longest pause between two polls; in between, a fraction of the time so far.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];
const PAUSE_FRACTION: u32 = 20;

/// The result of an exchange.
pub(super) enum Arrival {
    Complete(Exchange),
    /// A rank has not answered. Only [`Transport::abort`] may follow: MPI uses the memory of a
    /// message until it is complete.
    Silent {
        rank: usize,
        seconds: u64,
    },
}

enum MpiTask {
    Exchange { exchange: Exchange, patience: Duration },
    Abort(i32),
}

/// The thread that calls MPI. Dropping this finalizes MPI.
pub(super) struct Transport {
    rank: usize,
    count: usize,
    host: String,
    tasks: Option<Sender<MpiTask>>, // `None` only while being dropped
    arrivals: Receiver<Arrival>,
    thread: Option<JoinHandle<()>>,
}

/// What MPI reports about this process.
struct RankInfo {
    rank: usize,
    count: usize,
    host: String,
}

impl Transport {
    /// Joins the other processes.
    pub(super) fn start(_: &Launcher) -> Result<Option<Self>, LaunchError> {
        let (joined, answer) = mpsc::channel();
        let (tasks, receiver) = mpsc::channel();
        let (sender, arrivals) = mpsc::channel();
        let talk = move || {
            // Only the thread that initialized MPI calls it; kernels use others.
            let Some((universe, _)) = environment::initialize_with_threading(Threading::Funneled)
            else {
                return;
            };
            let world = universe.world();
            let _ = joined.send(RankInfo {
                rank: world.rank() as usize,
                count: world.size() as usize,
                host: environment::processor_name().unwrap_or_default(),
            });
            Messenger { world, tasks: receiver, waiting: VecDeque::new(), arrivals: sender }.run();
        };
        let thread = thread::Builder::new().name("messages".into()).spawn(talk);
        let thread = thread.map_err(|_| LaunchError::NotStarted)?;
        let RankInfo { rank, count, host } = answer.recv().map_err(|_| LaunchError::NotStarted)?;
        Ok(Some(Self { rank, count, host, tasks: Some(tasks), arrivals, thread: Some(thread) }))
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The name of this machine.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Queues an exchange. `patience` counts from its start.
    pub(super) fn post(&self, exchange: Exchange, patience: Duration) {
        self.send(MpiTask::Exchange { exchange, patience });
    }

    /// Waits for the exchange that was posted first.
    pub(super) fn wait(&self) -> Arrival {
        self.arrivals.recv().expect("the thread outlives its exchanges")
    }

    /// The exchange that was posted first, if it is complete.
    pub(super) fn arrived(&self) -> Option<Arrival> {
        self.arrivals.try_recv().ok()
    }

    /// Ends all ranks.
    pub(super) fn abort(&self, code: i32) -> ! {
        self.send(MpiTask::Abort(code));
        loop {
            thread::park();
        }
    }

    fn send(&self, task: MpiTask) {
        let tasks = self.tasks.as_ref().expect("not being dropped");
        tasks.send(task).expect("the thread waits for tasks");
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's state.
struct Messenger {
    world: SimpleCommunicator,
    tasks: Receiver<MpiTask>,
    /// Tasks that arrived during an exchange.
    waiting: VecDeque<MpiTask>,
    arrivals: Sender<Arrival>,
}

/// A message on its way, and the rank at the other end.
struct Pending<'a, 's> {
    rank: usize,
    request: Request<'a, [u8], &'s LocalScope<'a>>,
}

impl Messenger {
    fn run(mut self) {
        while let Some(task) = self.waiting.pop_front().or_else(|| self.tasks.recv().ok()) {
            match task {
                MpiTask::Exchange { mut exchange, patience } => {
                    self.run_exchange(&mut exchange, patience);
                    let _ = self.arrivals.send(Arrival::Complete(exchange));
                }
                MpiTask::Abort(code) => self.world.abort(code),
            }
        }
    }

    fn run_exchange(&mut self, exchange: &mut Exchange, patience: Duration) {
        let Self { world, tasks, waiting, arrivals } = self;
        let Exchange { sends, receives } = exchange;
        request::scope(|scope| {
            let mut pending = Vec::with_capacity(sends.len() + receives.len());
            for message in receives {
                let (rank, bytes) = (message.rank, message.bytes_mut());
                if !bytes.is_empty() {
                    let from = world.process_at_rank(rank as i32);
                    let request = from.immediate_receive_into(scope, bytes);
                    pending.push(Pending { rank, request });
                }
            }
            for message in &*sends {
                let (rank, bytes) = (message.rank, message.bytes());
                if !bytes.is_empty() {
                    let to = world.process_at_rank(rank as i32);
                    pending.push(Pending { rank, request: to.immediate_send(scope, bytes) });
                }
            }
            let start = Instant::now();
            loop {
                pending = pending.into_iter().filter_map(Pending::unless_done).collect();
                let Some(first) = pending.first() else { return };
                match tasks.try_recv() {
                    Ok(MpiTask::Abort(code)) => world.abort(code),
                    Ok(task) => waiting.push_back(task),
                    // The main thread has panicked.
                    Err(TryRecvError::Disconnected) => world.abort(2),
                    Err(TryRecvError::Empty) => {}
                }
                let waited = start.elapsed();
                if waited > patience {
                    let silent = Arrival::Silent { rank: first.rank, seconds: waited.as_secs() };
                    let _ = arrivals.send(silent);
                    abort_on_request(world, tasks);
                }
                if waited > EAGER {
                    let [shortest, longest] = PAUSES;
                    thread::sleep((waited / PAUSE_FRACTION).clamp(shortest, longest));
                } else {
                    thread::yield_now();
                }
            }
        });
    }
}

/// Waits until the main thread has reported the silent rank.
fn abort_on_request(world: &SimpleCommunicator, tasks: &Receiver<MpiTask>) -> ! {
    loop {
        match tasks.recv() {
            Ok(MpiTask::Abort(code)) => world.abort(code),
            Ok(MpiTask::Exchange { .. }) => {}
            Err(_) => world.abort(2),
        }
    }
}

impl Pending<'_, '_> {
    fn unless_done(self) -> Option<Self> {
        let Self { rank, request } = self;
        request.test().err().map(|request| Self { rank, request })
    }
}
