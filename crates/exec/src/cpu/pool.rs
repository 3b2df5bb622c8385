//! A thread pool that allocates nothing after it has started.
//!
//! A call hands out the indices `0..n`, each exactly once, to any thread that is free, and returns
//! when all tasks have ended. Order and thread are unspecified, so a task's result may only depend on
//! its index; [`Task::worker`] is for choosing scratch.
//!
//! Running takes `&mut self`: there is one call at a time, and a task cannot start another.
//!
//! `tests/loom` runs this file under every possible interleaving of its threads.
//!
//! `rayon` is not used, because it allocates its jobs.
//!
//! Promise: the pool runs each task once, loses no wake-up and has no race, under every
//! interleaving. Test: `tests/loom`.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    sync::{PoisonError, atomic::Ordering::SeqCst},
};

use super::{
    parts::{Parts, Task},
    sync::{
        Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, POLLS,
        UnsafeCell, hint,
        thread::{self, JoinHandle},
    },
};

/// A fixed set of threads, including the caller's.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Indices are handed out from the low half of a 64-bit word.
const UNCLAIMED: u64 = u32::MAX as u64;

#[derive(Debug)]
struct Shared {
    /// The job's number in the high half, the count of unclaimed tasks in the low half.
    ///
    /// They share one word, so that a thread claims a task and learns its job in one atomic step: a
    /// thread that slept through a job cannot claim a task of the next one by mistake.
    open: AtomicU64,
    /// Tasks of the current job that have ended.
    ended: AtomicU32,
    job: UnsafeCell<PoolJob>,
    /// The first panic of the current job.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stops: AtomicBool,
    /// Workers that are ready to claim tasks.
    started: AtomicUsize,
    /// Protects no data. A thread holds it from its last check for tasks until it sleeps.
    sleep: Mutex<()>,
    work_came: Condvar,
    workers_asleep: AtomicUsize,
    all_ended: Condvar,
    caller_asleep: AtomicBool,
}

// SAFETY: every field but `job` is `Sync`. `job` is written only by the owner of the `Pool`, while
// no task is unclaimed or running; it is read only by a thread that has claimed a task and not yet
// counted it as ended. Claiming is an atomic read of the word that was stored after the job, and
// the owner waits until all tasks have ended, so writes and reads are ordered.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` is only dereferenced under the rule above.
unsafe impl Send for Shared {}

/// A type-erased closure and its number of tasks.
#[derive(Clone, Copy, Debug)]
struct PoolJob {
    /// Calls `body` with a task.
    ///
    /// # Safety
    /// `body` points to the closure this was made for, which is alive.
    call: unsafe fn(body: *const (), task: Task),
    body: *const (),
    n: u32,
}

impl Pool {
    /// A pool of `threads` threads, including the caller's; zero counts as one.
    pub fn new(threads: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            open: AtomicU64::new(0),
            ended: AtomicU32::new(0),
            job: UnsafeCell::new(PoolJob { call: no_call, body: ptr::null(), n: 0 }),
            panic: Mutex::new(None),
            stops: AtomicBool::new(false),
            started: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            work_came: Condvar::new(),
            workers_asleep: AtomicUsize::new(0),
            all_ended: Condvar::new(),
            caller_asleep: AtomicBool::new(false),
        });
        let mut pool = Self { shared, threads: Vec::with_capacity(threads) };
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let name = format!("fitgpt-{worker}");
            // On failure, dropping `pool` ends the threads that have started.
            pool.threads.push(
                thread::Builder::new()
                    .name(name)
                    .spawn(move || shared.work_until_stopped(worker))?,
            );
        }
        // Threads allocate while they start. Wait for that, so that no task sees an allocation.
        while pool.shared.started.load(SeqCst) < pool.threads.len() {
            thread::yield_now();
        }
        Ok(pool)
    }

    /// How many threads run tasks, including the caller's.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `body` for every index in `0..n`, each once; returns when all have ended.
    ///
    /// If tasks panic, the others still run, and then the first panic resumes here.
    pub fn run<F: Fn(Task) + Sync>(&mut self, n: usize, body: F) {
        // SAFETY: `body` is an `F` and lives to the end of this call.
        unsafe { self.run_body(n, call_body::<F>, ptr::from_ref(&body).cast()) };
    }

    /// [`run`](Self::run) with the type erased, so that hundreds of kernels share one copy.
    ///
    /// # Safety
    /// `body` points to the closure that `call` expects, which outlives this call.
    unsafe fn run_body(&mut self, n: usize, call: unsafe fn(*const (), Task), body: *const ()) {
        if n <= 1 || self.threads.is_empty() {
            // As with several threads, a panic resumes after all tasks have ended.
            let mut first = None;
            for index in 0..n {
                let task = Task { index, worker: 0 };
                // SAFETY: the caller's promise.
                let ended = catch_unwind(AssertUnwindSafe(|| unsafe { call(body, task) }));
                first = first.or(ended.err());
            }
            return first.map_or((), |panic| resume_unwind(panic));
        }
        let n = u32::try_from(n).expect("fewer than 2^32 tasks");
        let shared = &*self.shared;
        let job = PoolJob { call, body, n };
        // SAFETY: because of `&mut self` no other call is running, and the last one returned
        // after all its tasks had ended, so no thread reads `job` now.
        shared.job.with_mut(|to| unsafe { *to = job });
        shared.ended.store(0, SeqCst);
        let number = (shared.open.load(SeqCst) >> 32).wrapping_add(1);
        shared.open.store(number << 32 | u64::from(n), SeqCst);
        // A read-modify-write, because the later of two always sees the earlier: either this one
        // sees a thread that is about to sleep, or that thread sees the tasks. A load would need
        // the total order of `SeqCst`, which `loom` does not model.
        if shared.workers_asleep.fetch_add(0, SeqCst) > 0 {
            drop(shared.lock_sleep());
            shared.work_came.notify_all();
        }
        while shared.run_one(0) {}
        // `body` must outlive every call: nothing above unwinds, since panics of tasks are caught
        // and `run_one` itself does not panic.
        shared.wait_for_all(n);
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Runs `body` once for every part of `parts`.
    ///
    /// ```
    /// # use fitgpt_exec::cpu::{pool::Pool, parts::Blocks};
    /// # let mut pool = Pool::new(2).unwrap();
    /// let (mut squares, mut sums) = ([0; 10], [0; 3]);
    /// pool.for_each((Blocks::new(&mut squares, 4), Blocks::new(&mut sums, 1)), |task, (squares, sum)| {
    ///     for (i, square) in squares.iter_mut().enumerate() {
    ///         *square = (task.index * 4 + i).pow(2);
    ///     }
    ///     sum[0] = squares.iter().sum();
    /// });
    /// assert_eq!(sums, [14, 126, 145]);
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "consumes the parts, which are written once")]
    pub fn for_each<P, F>(&mut self, parts: P, body: F)
    where
        P: Parts,
        F: for<'p> Fn(Task, P::Part<'p>) + Sync,
    {
        let n = parts.count().expect("at least one of the parts fixes the number of tasks");
        assert!(parts.workers().is_none_or(|workers| workers >= self.threads()));
        self.run(n, |task| {
            // SAFETY: `run` hands out each index once and gives no worker two tasks at a time;
            // the part ends with the task, because `body` accepts any lifetime.
            let part = unsafe { parts.part(task) };
            body(task, part);
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stops.store(true, SeqCst);
        drop(self.shared.lock_sleep());
        self.shared.work_came.notify_all();
        for thread in self.threads.drain(..) {
            // Workers catch the panics of tasks and do not panic themselves.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn work_until_stopped(&self, worker: usize) {
        self.started.fetch_add(1, SeqCst);
        let is_over = || self.has_open_task() || self.stops.load(SeqCst);
        while !self.stops.load(SeqCst) {
            while self.run_one(worker) {}
            if poll_until(is_over) {
                continue;
            }
            let mut sleep = self.lock_sleep();
            self.workers_asleep.fetch_add(1, SeqCst);
            while !is_over() {
                sleep = self.work_came.wait(sleep).unwrap_or_else(PoisonError::into_inner);
            }
            self.workers_asleep.fetch_sub(1, SeqCst);
        }
    }

    fn has_open_task(&self) -> bool {
        self.open.load(SeqCst) & UNCLAIMED > 0
    }

    /// Claims a task and runs it; false if there was none.
    fn run_one(&self, worker: usize) -> bool {
        let claim = |open: u64| (open & UNCLAIMED > 0).then(|| open - 1);
        let Ok(open) = self.open.fetch_update(SeqCst, SeqCst, claim) else {
            return false;
        };
        // SAFETY: this thread has claimed a task that it has not counted as ended, so `job` is
        // the one that was stored before this word, and does not change.
        let job = self.job.with(|job| unsafe { *job });
        let task = Task { index: (job.n - (open & UNCLAIMED) as u32) as usize, worker };
        // SAFETY: as above: `run` keeps the closure alive until every task has ended.
        let call = || unsafe { (job.call)(job.body, task) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            let second = if first.is_none() { first.replace(panic) } else { Some(panic) };
            drop(first);
            // Dropping a payload may panic, and this thread must not.
            std::mem::forget(second);
        }
        let is_last = self.ended.fetch_add(1, SeqCst) + 1 == job.n;
        // A read-modify-write for the same reason as for `workers_asleep`.
        if is_last && self.caller_asleep.fetch_or(false, SeqCst) {
            drop(self.lock_sleep());
            self.all_ended.notify_one();
        }
        true
    }

    fn wait_for_all(&self, n: u32) {
        let is_over = || self.ended.load(SeqCst) == n;
        if poll_until(is_over) {
            return;
        }
        let mut sleep = self.lock_sleep();
        self.caller_asleep.swap(true, SeqCst);
        while !is_over() {
            sleep = self.all_ended.wait(sleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_asleep.store(false, SeqCst);
    }

    fn lock_sleep(&self) -> MutexGuard<'_, ()> {
        self.sleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polls `is_over` for a while and returns its last answer.
fn poll_until(is_over: impl Fn() -> bool) -> bool {
    for _ in 0..POLLS {
        if is_over() {
            return true;
        }
        hint::spin_loop();
    }
    is_over()
}

/// The initial job of a pool.
unsafe fn no_call(_: *const (), _: Task) {}

/// # Safety
/// `body` points to an `F` that is alive.
unsafe fn call_body<F: Fn(Task) + Sync>(body: *const (), task: Task) {
    // SAFETY: the caller's promise; `F` is `Sync`, so any thread may call it.
    let body = unsafe { &*body.cast::<F>() };
    body(task);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::cpu::parts::{Blocks, PerWorker};

    #[test]
    fn every_index_runs_exactly_once() {
        for threads in [1, 2, 3, 8] {
            let mut pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            for n in [0, 1, 2, 3, 17, 1000] {
                let runs: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
                pool.run(n, |task| {
                    assert!(task.worker < threads);
                    runs[task.index].fetch_add(1, Relaxed);
                });
                assert!(runs.iter().all(|runs| runs.load(Relaxed) == 1));
            }
        }
    }

    #[test]
    fn many_short_jobs_in_a_row_run_all_their_tasks() {
        let mut pool = Pool::new(4).unwrap();
        let total = AtomicUsize::new(0);
        for n in 0..20_000 {
            pool.run(n % 7, |task| {
                total.fetch_add(task.index + 1, Relaxed);
            });
        }
        let expected: usize = (0..20_000).map(|n| (n % 7) * (n % 7 + 1) / 2).sum();
        assert_eq!(total.load(Relaxed), expected);
    }

    #[test]
    fn workers_that_fell_asleep_wake_for_the_next_job() {
        let mut pool = Pool::new(3).unwrap();
        for _ in 0..5 {
            thread::sleep(std::time::Duration::from_millis(5));
            // Every task waits for the others: without the sleeping workers this would never end.
            let arrived = AtomicUsize::new(0);
            pool.run(3, |_| {
                arrived.fetch_add(1, SeqCst);
                while arrived.load(SeqCst) < 3 {
                    thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn no_two_tasks_at_a_time_share_a_worker() {
        let mut pool = Pool::new(3).unwrap();
        let busy: Vec<AtomicBool> = (0..3).map(|_| AtomicBool::new(false)).collect();
        pool.run(3000, |task| {
            assert!(!busy[task.worker].swap(true, SeqCst));
            hint::spin_loop();
            assert!(busy[task.worker].swap(false, SeqCst));
        });
    }

    #[test]
    fn a_panic_resumes_after_every_task_has_ended_and_the_pool_still_works() {
        for threads in [1, 3] {
            let mut pool = Pool::new(threads).unwrap();
            let ended = AtomicUsize::new(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(100, |task| {
                    ended.fetch_add(1, Relaxed);
                    assert!(task.index % 10 != 3, "index {}", task.index);
                });
            }));
            let message = *caught.unwrap_err().downcast::<String>().unwrap();
            assert!(message.ends_with('3'), "{message}");
            assert_eq!(ended.load(Relaxed), 100);
            pool.run(10, |_| {
                ended.fetch_add(1, Relaxed);
            });
            assert_eq!(ended.load(Relaxed), 110);
        }
    }

    #[test]
    fn parts_of_different_lengths_go_to_the_same_task() {
        let mut pool = Pool::new(3).unwrap();
        let (mut out, mut mean, mut scratch) = (vec![0; 103], vec![0; 21], vec![0; 3 * 7]);
        let parts =
            (Blocks::new(&mut out, 10), Blocks::new(&mut mean, 2), PerWorker::new(&mut scratch, 7));
        pool.for_each(parts, |task, (out, mean, scratch)| {
            assert_eq!(scratch.len(), 7);
            scratch.fill(task.index);
            out.fill(scratch[3] + 1);
            mean.fill(out.len());
        });
        assert!(out.iter().enumerate().all(|(i, &x)| x == i / 10 + 1));
        assert!(mean[..20].iter().all(|&len| len == 10));
        assert_eq!(mean[20], 3);
    }
}
