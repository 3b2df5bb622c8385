//! Two runs that start at the same time: each sees all of the free memory, but together they must not
//! take more than that.

use std::sync::{
    Barrier,
    atomic::{AtomicI64, Ordering},
};

use fitgpt_exec::{ArenaRefused, arena::Arena};
use fitgpt_program::{
    Op, Program,
    memory::{Limits, Plan, Target, VerifiedPlan, verify},
    units::Bytes,
};

struct Host;

impl Target for Host {
    fn limits(&self) -> Limits {
        Limits::HOST
    }

    fn scratch(&self, _: &Program, _: &Op) -> Bytes {
        Bytes::ZERO
    }
}

const MIB: i64 = 1 << 20;

/// An arena without programs.
fn plan(bytes: i64) -> VerifiedPlan {
    let chunks = vec![Bytes::new(bytes as u64)];
    verify(Plan { programs: Vec::new(), chunks }, &Host).unwrap()
}

#[test]
fn two_arenas_touched_at_the_same_time_do_not_take_more_than_is_free() {
    // Enough for one of them, or for one and a half.
    for free_mib in [40, 60] {
        for _ in 0..20 {
            let free = AtomicI64::new(free_mib * MIB);
            let lowest = AtomicI64::new(i64::MAX);
            let together = Barrier::new(2);
            let run = || {
                let mut last = None;
                together.wait();
                Arena::touched(plan(40 * MIB), 0, &mut |rest| {
                    let rest = rest.get() as i64;
                    // What was touched since the last check is taken.
                    let touched = last.replace(rest).unwrap_or(rest) - rest;
                    let left = free.fetch_sub(touched, Ordering::SeqCst) - touched;
                    lowest.fetch_min(left, Ordering::SeqCst);
                    if left < rest { Err(Bytes::new(left.max(0) as u64)) } else { Ok(()) }
                })
                .map(drop)
            };
            let results = std::thread::scope(|scope| {
                let runs = [scope.spawn(run), scope.spawn(run)];
                runs.map(|run| run.join().unwrap())
            });
            // Each can be one piece of 8 MiB past its last check.
            assert!(lowest.load(Ordering::SeqCst) >= -16 * MIB, "{lowest:?}");
            let refused = results.iter().filter_map(|result| result.as_ref().err());
            for error in refused.clone() {
                assert!(matches!(error, ArenaRefused::Taken { .. }), "{error}");
            }
            assert!(refused.count() >= 1, "there is not enough memory for both");
        }
    }
}
