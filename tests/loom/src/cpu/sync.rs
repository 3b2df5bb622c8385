//! What the pool synchronises with here: the names of `crates/exec/src/cpu/sync.rs`, from `loom`.

pub(super) use loom::{
    cell::UnsafeCell,
    hint,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
    },
    thread,
};

/// A model need not look twice: what a second look would see is another order.
pub(super) const LOOKS: u32 = 0;
