//! The memory of a run: allocated once, touched whole, seen only through a verified plan.
//!
//! This file is the one door to raw memory: kernels get slices. Everything here rests on
//! what [`VerifiedPlan`] promises: slots lie inside their chunk, are aligned, and those of one
//! op do not touch.

use std::{
    alloc::{Layout, alloc, dealloc},
    marker::PhantomData,
    ptr::NonNull,
    slice,
};

use bytemuck::Pod;
use fitgpt_plan::{
    memory::{Located, Slot, VerifiedPlan},
    program::Access,
    units::{Bytes, DType, OpIndex, TensorId},
};

/// The memory was not to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system refused the arena of {asked}")]
pub struct Refused {
    /// What was asked for.
    pub asked: Bytes,
}

/// Types that a tensor's bytes can be seen as.
pub trait Stored: Pod {
    /// The tensor's type that this is.
    const DTYPE: DType;
}

impl Stored for f32 {
    const DTYPE: DType = DType::F32;
}

impl Stored for half::bf16 {
    const DTYPE: DType = DType::Bf16;
}

impl Stored for half::f16 {
    const DTYPE: DType = DType::F16;
}

impl Stored for u8 {
    const DTYPE: DType = DType::U8;
}

impl Stored for u32 {
    const DTYPE: DType = DType::U32;
}

/// Chunks begin on a huge page, so that the system can back them with such.
const CHUNK_ALIGNMENT: usize = 2 << 20;

/// The smallest page of any system we run on.
const PAGE: usize = 4096;

/// The arena's allocations.
#[derive(Debug)]
pub struct Arena {
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a chunk is plain memory that only its arena points to; nothing in it is tied to the
// thread that made it.
unsafe impl Send for Chunk {}

impl Arena {
    /// Allocates what `plan` says, fills it with `fill` and touches every page, so that memory
    /// which the system promised but does not have is missed now and not in a step.
    pub fn new(plan: &VerifiedPlan, fill: u8) -> Result<Self, Refused> {
        let asked = plan.plan().arena_bytes();
        let mut chunks = Vec::new();
        for size in &plan.plan().chunks {
            // One byte at least: an allocation of nothing is no allocation.
            let size = size.get().max(1);
            let size = usize::try_from(size).map_err(|_| Refused { asked })?;
            let layout = Layout::from_size_align(size, CHUNK_ALIGNMENT);
            let layout = layout.map_err(|_| Refused { asked })?;
            // SAFETY: the layout is not empty.
            let start = NonNull::new(unsafe { alloc(layout) }).ok_or(Refused { asked })?;
            chunks.push(Chunk { start, layout });
            ask_for_huge_pages(start, size);
            // SAFETY: the chunk was just allocated with this size, and nobody else has it.
            unsafe { start.write_bytes(fill, size) };
            // The compiler may ask the system for zeros instead of writing them, and the system
            // gives zeros without memory. A volatile write is really made.
            for page in (0..size).step_by(PAGE) {
                // SAFETY: as above; `page` is less than the size.
                unsafe { start.add(page).write_volatile(fill) };
            }
        }
        Ok(Self { chunks })
    }

    /// The operands of one op, as slices that do not touch.
    pub fn operands<'a>(
        &'a mut self,
        plan: &'a VerifiedPlan,
        program: usize,
        op: OpIndex,
    ) -> Operands<'a> {
        Operands {
            chunks: &self.chunks,
            located: plan.operands(program, op),
            scratch: plan.scratch(program, op),
            given: 0,
            arena: PhantomData,
        }
    }

    /// The bytes of one slot, between runs.
    pub fn bytes(&mut self, slot: Slot) -> &mut [u8] {
        // SAFETY: the slot comes from a verified plan, so it lies inside its chunk; `&mut
        // self` keeps every other view away for as long as this one lives.
        unsafe { slice_at(&self.chunks, slot.chunk, slot.start, slot.bytes()) }
    }

    /// The bytes behind one slot, up to `length`: a test's guard.
    pub(crate) fn behind(&mut self, slot: Slot, length: Bytes) -> &mut [u8] {
        let chunk = self.chunks[slot.chunk as usize].layout.size();
        assert!((slot.end + length).index() <= chunk, "a guard lies inside its chunk");
        // SAFETY: asserted to lie inside the chunk; `&mut self` as above.
        unsafe { slice_at(&self.chunks, slot.chunk, slot.end, length) }
    }
}

/// Kernels walk through rows that lie kilobytes apart: with small pages they wait for addresses
/// more than for numbers. A wish only: where the system has no huge pages, small ones do.
fn ask_for_huge_pages(start: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the advice changes how these pages are backed, never what they hold, and the
        // range is an allocation of ours that begins on a page.
        let _: Result<(), _> =
            unsafe { madvise(start.as_ptr().cast(), size, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size);
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: allocated in `new` with this very layout, and never given away.
            unsafe { dealloc(chunk.start.as_ptr(), chunk.layout) };
        }
    }
}

/// # Safety
/// The range lies inside the chunk, and no other reference to any of it lives as long as `'a`
/// unless both are only read.
unsafe fn slice_at<'a>(chunks: &[Chunk], chunk: u32, start: Bytes, len: Bytes) -> &'a mut [u8] {
    let first = chunks[chunk as usize].start;
    // SAFETY: inside the chunk, by the caller's promise; the chunk was filled in `new`.
    unsafe { slice::from_raw_parts_mut(first.add(start.index()).as_ptr(), len.index()) }
}

/// The tensors of one op while it runs.
#[derive(Debug)]
pub struct Operands<'a> {
    chunks: &'a [Chunk],
    located: &'a [Located],
    scratch: Option<Slot>,
    given: u64, // a bit for each changed operand that was handed out
    arena: PhantomData<&'a mut [u8]>,
}

impl<'a> Operands<'a> {
    /// A tensor that the op reads.
    pub fn read<T: Stored>(&self, tensor: TensorId) -> &'a [T] {
        let (_, found) = self.find(tensor, T::DTYPE);
        assert!(found.access == Access::Reads, "the op declares that it changes this tensor");
        // SAFETY: verified slots of one op do not touch unless both are only read, and a
        // tensor declared as read is never handed out below; `'a` borrows the arena.
        let bytes = unsafe {
            slice_at(self.chunks, found.slot.chunk, found.slot.start, found.slot.bytes())
        };
        bytemuck::cast_slice(bytes)
    }

    /// A tensor that the op writes or updates. Each can be taken once.
    pub fn write<T: Stored>(&mut self, tensor: TensorId) -> &'a mut [T] {
        let (position, found) = self.find(tensor, T::DTYPE);
        assert!(found.access != Access::Reads, "the op declares that it only reads this tensor");
        assert!(self.given & (1 << position) == 0, "this tensor was handed out before");
        self.given |= 1 << position;
        // SAFETY: verified slots of one op do not touch, and the bit just set says that this
        // one is handed out a single time; `'a` borrows the arena.
        let bytes = unsafe {
            slice_at(self.chunks, found.slot.chunk, found.slot.start, found.slot.bytes())
        };
        bytemuck::cast_slice_mut(bytes)
    }

    /// The op's scratch as numbers, once; empty where it needs none.
    pub fn scratch<T: Pod>(&mut self) -> &'a mut [T] {
        let Some(slot) = self.scratch.take() else { return &mut [] };
        // SAFETY: scratch is a slot like any other, verified against all that live at this
        // op, and `take` gives it out a single time.
        let bytes = unsafe { slice_at(self.chunks, slot.chunk, slot.start, slot.bytes()) };
        bytemuck::cast_slice_mut(bytes)
    }

    fn find(&self, tensor: TensorId, dtype: DType) -> (u32, Located) {
        let position = self.located.iter().position(|l| l.tensor == tensor);
        let position = position.expect("the op declares all its operands");
        let found = self.located[position];
        assert!(found.dtype == dtype, "the kernel takes {dtype}, the tensor is {}", found.dtype);
        // Counted among those that are changed: a norm reads more tensors than a word has bits.
        let changed = self.located[..position].iter().filter(|l| l.access != Access::Reads);
        let position = changed.count() as u32;
        assert!(position < u64::BITS, "few operands are changed");
        (position, found)
    }
}
