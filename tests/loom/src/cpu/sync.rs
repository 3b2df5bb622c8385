//! The types of `crates/exec/src/cpu/sync.rs`, from `loom`.

pub(super) use loom::{
    cell::UnsafeCell,
    hint,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
    },
    thread,
};

/// A model need not poll: another interleaving covers a later check.
pub(super) const POLLS: u32 = 0;
