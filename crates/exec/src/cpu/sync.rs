//! The synchronisation types of the pool.
//!
//! A separate module, so that `tests/loom` can compile the pool with `loom`'s types of the same
//! names and try every interleaving of its threads.

pub(super) use std::{
    hint,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
    },
    thread,
};

/// How often a thread polls before it sleeps: tens of microseconds, which covers the pause between
/// two ops.
pub(super) const POLLS: u32 = 2000;

/// [`std::cell::UnsafeCell`] with the interface of `loom`'s, which observes when an access begins
/// and ends.
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline]
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
