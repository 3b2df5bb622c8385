//! Tries every interleaving of the pool's threads, up to a number of preemptions.
//!
//! `loom` tracks each access to the cells below and to the pool's job, so it reports a task that
//! runs twice, a write that its reader may not see, and a thread that is never woken. It treats
//! `SeqCst` as `AcqRel`, which is stricter than necessary.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fitgpt_pool_model::cpu::pool::Pool;
use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::{Condvar, Mutex},
};

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// One number for each task, written by tasks and read by the caller.
struct Cells<const N: usize>([UnsafeCell<u32>; N]);

// SAFETY: `loom` panics on two accesses that are not ordered, which is what this test checks.
unsafe impl<const N: usize> Sync for Cells<N> {}

impl<const N: usize> Cells<N> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    /// Adds `amount` to number `index`, not atomically.
    fn add(&self, index: usize, amount: u32) {
        // SAFETY: `loom` checks that no other thread accesses the cell.
        self.0[index].with_mut(|number| unsafe { *number += amount });
    }

    fn read(&self) -> [u32; N] {
        // SAFETY: as above.
        std::array::from_fn(|i| self.0[i].with(|number| unsafe { *number }))
    }
}

#[test]
fn two_threads_run_each_task_of_two_jobs_once_and_the_caller_sees_it() {
    model(3, || {
        let cells = Cells::<2>::new();
        let mut pool = Pool::new(2).unwrap();
        pool.run(2, |task| cells.add(task.index, 1));
        assert_eq!(cells.read(), [1, 1]);
        pool.run(2, |task| cells.add(task.index, 10));
        assert_eq!(cells.read(), [11, 11]);
    });
}

#[test]
fn three_threads_run_each_task_once() {
    model(2, || {
        let cells = Cells::<3>::new();
        let mut pool = Pool::new(3).unwrap();
        pool.run(3, |task| cells.add(task.index, 1));
        assert_eq!(cells.read(), [1, 1, 1]);
    });
}

#[test]
fn tasks_that_run_at_the_same_time_have_different_workers() {
    model(3, || {
        let scratch = Cells::<2>::new();
        let mut pool = Pool::new(2).unwrap();
        pool.run(3, |task| scratch.add(task.worker, 1));
        assert_eq!(scratch.read().iter().sum::<u32>(), 3);
    });
}

#[test]
fn a_panic_of_a_task_resumes_after_the_others_and_the_pool_still_works() {
    model(2, || {
        let cells = Cells::<2>::new();
        let mut pool = Pool::new(2).unwrap();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            pool.run(2, |task| {
                cells.add(task.index, 1);
                if task.index == 1 {
                    resume_unwind(Box::new("panic of a task"));
                }
            });
        }));
        assert_eq!(ran.unwrap_err().downcast_ref(), Some(&"panic of a task"));
        assert_eq!(cells.read(), [1, 1]);
        pool.run(2, |task| cells.add(task.index, 1));
        assert_eq!(cells.read(), [2, 2]);
    });
}

/// Tasks wait for each other: a thread that is not woken is a deadlock, which `loom` reports.
#[test]
fn a_worker_that_fell_asleep_wakes_for_the_next_job() {
    model(2, || {
        let mut pool = Pool::new(2).unwrap();
        let (arrived, all_here) = (Mutex::new(0), Condvar::new());
        pool.run(2, |_| {
            let mut arrived = arrived.lock().unwrap();
            *arrived += 1;
            all_here.notify_all();
            while *arrived < 2 {
                arrived = all_here.wait(arrived).unwrap();
            }
        });
    });
}

#[test]
fn a_pool_without_work_stops() {
    model(3, || drop(Pool::new(3).unwrap()));
}
