//! Filling a micro-batch allocates nothing on the host.
//!
//! A separate binary: it replaces the global allocator and must be alone.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use fitgpt_data::{Batches, Purpose, Split, Tokens};

struct Counting;

thread_local! {
    /// Those of this thread: the test harness has one of its own.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static GLOBAL: Counting = Counting;

// SAFETY: every call goes to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the one `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[test]
fn a_micro_batch_is_filled_without_an_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let bytes = (0..20_000_u16).flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    std::fs::write(&path, bytes).unwrap();
    let file = Tokens::open(&path).unwrap();
    let batches = Batches::new(1337, 1024, 20_000);
    let (mut tokens, mut targets) = (vec![0; 8 * 1024], vec![0; 8 * 1024]);

    let before = ALLOCATIONS.get();
    for step in 0..10 {
        let purpose = Purpose::Training { step };
        batches.fill(&file, purpose, 0, &mut tokens, &mut targets).unwrap();
    }
    let purpose = Purpose::Evaluation { split: Split::Train };
    batches.fill(&file, purpose, 8, &mut tokens, &mut targets).unwrap();
    let after = ALLOCATIONS.get();

    assert_eq!(after, before);
    assert!(before > 0, "the counter counts");
    assert_eq!(targets[0], tokens[0] + 1);
}
