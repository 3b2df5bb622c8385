//! The memory of a run: allocated once, every page touched, reached only through a verified plan.
//!
//! Only this file turns arena memory into slices. An [`Arena`] owns the plan that it was allocated
//! for and hands out tensors by program and id, so safe code cannot name bytes outside a tensor.
//! Every `unsafe` block relies on two facts:
//!
//! - A range is checked against its chunk before it becomes a pointer ([`Chunk::range`]).
//! - The slots of one op do not overlap: [`VerifiedPlan`] was checked for that. Everything else is
//!   borrowed through `&self` or `&mut self`, so the compiler keeps writers apart.
//!
//! Promise: safe code reaches only the bytes of a tensor, and a tensor is borrowed mutably only
//! once; of two runs that start at the same time, one stops with an error before the system kills
//! either, because the arena is touched in pieces and free memory is checked before each. Test:
//! this file, `scripts/sanitize`, `crates/exec/tests/arenas_at_once.rs`, `scripts/memory-edge`.

use std::{
    alloc::{Layout, alloc, dealloc},
    marker::PhantomData,
    ptr::NonNull,
};

use bytemuck::Pod;
use fitgpt_program::{
    Access, Op, Program,
    memory::{PlacedOperand, Slot, VerifiedPlan},
    units::{Bytes, DType, OpIndex, ProgramId, TensorId},
};

/// There is no memory for an arena.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArenaRefused {
    /// The system did not provide it.
    BySystem {
        /// The requested bytes.
        asked: Bytes,
    },
    /// Another process took memory while the arena was touched.
    Taken {
        /// The requested bytes.
        asked: Bytes,
        /// The free bytes when it was released.
        left: Bytes,
    },
}

/// Called before each piece of an arena is touched, with the number of bytes not yet touched.
/// Returns an error with the number of free bytes if there are too few.
pub type BeforeTouch<'a> = dyn FnMut(Bytes) -> Result<(), Bytes> + 'a;

/// Element types of tensors.
pub trait Stored: Pod {
    /// The matching tensor type.
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

/// Chunks start on a huge page, so that the system can back them with huge pages.
const CHUNK_ALIGNMENT: usize = 2 << 20;

/// The smallest page size of any supported system.
const PAGE: usize = 4096;

/// The bytes that are touched between two checks of free memory. Two runs that start at the same time
/// exceed the free memory by at most this much each.
const PIECE: usize = 8 << 20;

/// The allocations of one plan, with the plan.
#[derive(Debug)]
pub struct Arena {
    plan: VerifiedPlan,
    chunks: Vec<Chunk>,
}

impl Arena {
    /// Allocates what `plan` needs, fills it with `fill` and touches every page, so that
    /// overcommitted memory fails here and not in a step.
    pub fn new(plan: VerifiedPlan, fill: u8) -> Result<Self, ArenaRefused> {
        Self::touched(plan, fill, &mut |_| Ok(()))
    }

    /// Like [`Arena::new`], but releases the memory if `before` returns an error.
    pub fn touched(
        plan: VerifiedPlan,
        fill: u8,
        before: &mut BeforeTouch<'_>,
    ) -> Result<Self, ArenaRefused> {
        let asked = plan.plan().arena_bytes();
        let sizes = plan.plan().chunks.clone();
        let mut rest: u64 = sizes.iter().map(|size| size.get()).sum();
        let mut chunks = Vec::with_capacity(sizes.len());
        for size in sizes {
            let mut chunk = Chunk::allocate(size).ok_or(ArenaRefused::BySystem { asked })?;
            let mut start = 0;
            while start < chunk.layout.size() {
                before(Bytes::new(rest)).map_err(|left| ArenaRefused::Taken { asked, left })?;
                let end = chunk.layout.size().min(start + PIECE);
                chunk.touch(start, end, fill);
                rest = rest.saturating_sub((end - start) as u64);
                start = end;
            }
            chunks.push(chunk);
        }
        Ok(Self { plan, chunks })
    }

    /// The plan that it was allocated for.
    pub fn plan(&self) -> &VerifiedPlan {
        &self.plan
    }

    /// The tensors of one op, as slices that do not overlap.
    pub fn operands(&mut self, program: ProgramId, op: OpIndex) -> Operands<'_> {
        Operands {
            chunks: &self.chunks,
            plan: &self.plan,
            program,
            op,
            scratch: self.plan.scratch(program, op),
            given: 0,
            arena: PhantomData,
        }
    }

    /// The bytes of a tensor, between runs.
    pub fn tensor(&self, program: ProgramId, tensor: TensorId) -> &[u8] {
        let range = range(&self.chunks, self.plan.slot(program, tensor));
        // SAFETY: `range` is inside a chunk, which was filled when it was allocated, and `&self`
        // prevents writes while this slice is alive.
        unsafe { range.as_ref() }
    }

    /// The bytes of a tensor, to be changed between runs.
    pub(crate) fn tensor_mut(&mut self, program: ProgramId, tensor: TensorId) -> &mut [u8] {
        self.slot_mut(self.plan.slot(program, tensor))
    }

    /// The bytes of an op's scratch, to be changed between ops; empty if it needs none.
    pub(crate) fn scratch_mut(&mut self, program: ProgramId, op: OpIndex) -> &mut [u8] {
        self.plan.scratch(program, op).map_or(&mut [], |slot| self.slot_mut(slot))
    }

    /// The `length` bytes after a slot of the plan, which tests use as a guard.
    pub(crate) fn guard_after(&mut self, slot: Slot, length: Bytes) -> &mut [u8] {
        self.slot_mut(Slot { start: slot.end, end: slot.end + length, ..slot })
    }

    /// Sound for any slot: panics if the slot leaves its chunk.
    fn slot_mut(&mut self, slot: Slot) -> &mut [u8] {
        let mut range = range(&self.chunks, slot);
        // SAFETY: as in `tensor`; `&mut self` prevents reads too.
        unsafe { range.as_mut() }
    }
}

/// The memory of a slot; empty for an empty slot, whose tensor no op touches.
fn range(chunks: &[Chunk], slot: Slot) -> NonNull<[u8]> {
    if slot.bytes() == Bytes::ZERO {
        // Aligned for every stored type.
        return NonNull::slice_from_raw_parts(NonNull::<u64>::dangling().cast(), 0);
    }
    chunks[slot.chunk as usize].range(slot.start, slot.bytes())
}

/// One allocation; in an arena, fully initialised.
#[derive(Debug)]
struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a chunk is plain memory that only its arena points to; nothing in it is tied to the
// thread that allocated it.
unsafe impl Send for Chunk {}

impl Chunk {
    fn allocate(size: Bytes) -> Option<Self> {
        // At least one byte: `alloc` does not accept an empty layout.
        let size = usize::try_from(size.get().max(1)).ok()?;
        let layout = Layout::from_size_align(size, CHUNK_ALIGNMENT).ok()?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        ask_for_huge_pages(start, size);
        Some(Self { start, layout })
    }

    /// Fills the bytes from `start` to `end`, and touches their pages.
    fn touch(&mut self, start: usize, end: usize, fill: u8) {
        assert!(start <= end && end <= self.layout.size());
        // SAFETY: the range is inside the allocation, and `&mut self` prevents other accesses.
        unsafe { self.start.add(start).write_bytes(fill, end - start) };
        // The compiler may turn a fill with zeros into `calloc`, which returns pages that are not
        // backed by memory. A volatile write always happens.
        for page in (start..end).step_by(PAGE) {
            // SAFETY: as above; `page` is less than `end`.
            unsafe { self.start.add(page).write_volatile(fill) };
        }
    }

    /// `len` bytes from `start` on, inside this chunk.
    fn range(&self, start: Bytes, len: Bytes) -> NonNull<[u8]> {
        let (start, len, size) = (start.index(), len.index(), self.layout.size());
        let is_inside = start <= size && len <= size - start;
        assert!(is_inside, "{len} bytes at {start} of a chunk of {size}");
        // SAFETY: `start` is at most one past the last byte.
        NonNull::slice_from_raw_parts(unsafe { self.start.add(start) }, len)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `allocate` with this layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Kernels read rows that are kilobytes apart; with small pages, address translation takes longer
/// than the loads. A hint: without huge pages everything still works.
fn ask_for_huge_pages(start: NonNull<u8>, size: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the advice changes how these pages are backed, never what they hold, and the
        // range is our own allocation, which starts on a page.
        let _: Result<(), _> =
            unsafe { madvise(start.as_ptr().cast(), size, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, size);
}

/// The tensors of one op while it runs.
#[derive(Debug)]
pub struct Operands<'a> {
    chunks: &'a [Chunk],
    plan: &'a VerifiedPlan,
    program: ProgramId,
    op: OpIndex,
    scratch: Option<Slot>,
    given: u64, // one bit for each writable operand that was handed out
    arena: PhantomData<&'a mut [u8]>,
}

impl<'a> Operands<'a> {
    /// The program of the op.
    pub fn program(&self) -> &'a Program {
        self.plan.program(self.program)
    }

    /// The op.
    pub fn op(&self) -> &'a Op {
        &self.program().ops()[self.op.index()]
    }

    /// A tensor that the op reads.
    pub fn read<T: Stored>(&self, tensor: TensorId) -> &'a [T] {
        let (_, found) = self.find(tensor, T::DTYPE);
        assert!(found.access == Access::Reads, "the op declares that it changes this tensor");
        // SAFETY: verified slots of one op do not overlap unless both are only read, and a
        // tensor declared as read is never handed out below; `'a` borrows the arena mutably.
        let bytes: &'a [u8] = unsafe { range(self.chunks, found.slot).as_ref() };
        bytemuck::cast_slice(bytes)
    }

    /// A tensor that the op writes or updates. Each can be taken once.
    pub fn write<T: Stored>(&mut self, tensor: TensorId) -> &'a mut [T] {
        let (position, found) = self.find(tensor, T::DTYPE);
        assert!(found.access != Access::Reads, "the op declares that it only reads this tensor");
        assert!(self.given & (1 << position) == 0, "this tensor was handed out before");
        self.given |= 1 << position;
        // SAFETY: verified slots of one op do not overlap, and the bit just set ensures that
        // this one is handed out once; `'a` borrows the arena mutably.
        let bytes: &'a mut [u8] = unsafe { range(self.chunks, found.slot).as_mut() };
        bytemuck::cast_slice_mut(bytes)
    }

    /// The op's scratch. The second call returns an empty slice, as does an op without scratch.
    pub fn scratch<T: Pod>(&mut self) -> &'a mut [T] {
        let Some(slot) = self.scratch.take() else { return &mut [] };
        // SAFETY: scratch is a slot like any other, verified against everything alive at this
        // op, and `take` hands it out once.
        let bytes: &'a mut [u8] = unsafe { range(self.chunks, slot).as_mut() };
        bytemuck::cast_slice_mut(bytes)
    }

    fn find(&self, tensor: TensorId, dtype: DType) -> (u32, PlacedOperand) {
        let located = self.plan.operands(self.program, self.op);
        let position = located.iter().position(|l| l.tensor == tensor);
        let position = position.expect("the op declares all its operands");
        let found = located[position];
        assert!(found.dtype == dtype, "the kernel expects {dtype}, the tensor is {}", found.dtype);
        // Counts only writable operands: a gradient norm reads more tensors than 64.
        let changed = located[..position].iter().filter(|l| l.access != Access::Reads);
        let position = changed.count() as u32;
        assert!(position < u64::BITS, "an op writes fewer than 64 operands");
        (position, found)
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_program::{
        Life, Operand, ProgramKind, Tensor, TensorClass, TensorRole,
        memory::{Limits, PlacedProgram, Plan, Space, Target, place, verify},
    };

    use super::*;

    /// A host on which every op has 16 bytes of scratch.
    struct HostTarget(Limits);

    impl Target for HostTarget {
        fn limits(&self) -> Limits {
            self.0
        }

        fn scratch(&self, _: &Program, _: &Op) -> Bytes {
            Bytes::new(16)
        }
    }

    const HOST: HostTarget = HostTarget(Limits::HOST);
    const X: TensorId = TensorId(0);
    const UNUSED: TensorId = TensorId(1);
    const OUT: TensorId = TensorId(2);
    const FIRST: OpIndex = OpIndex(0);

    /// `out = op x`, next to a tensor that nothing touches.
    fn program() -> Program {
        let mut program = Program::new(ProgramKind::Other("test"), Vec::new());
        for (name, life) in [("x", Life::Input), ("unused", Life::Inner), ("out", Life::Output)] {
            let (shape, dtype, class) = (vec![5], DType::F32, TensorClass::Activation);
            let role = TensorRole::General;
            program.tensor(Tensor { name: name.into(), shape, dtype, class, life, role });
        }
        let operands = [(X, Access::Reads), (OUT, Access::Writes)];
        let operands = operands.map(|(tensor, access)| Operand { tensor, access }).into();
        program.op(Op::Named { name: "op", operands });
        program
    }

    fn arena() -> Arena {
        let plan = place(vec![program()], &HOST).unwrap();
        Arena::new(verify(plan, &HOST).unwrap(), 0).unwrap()
    }

    #[test]
    fn the_host_and_an_op_see_each_others_writes() {
        let mut arena = arena();
        let x = [1.0f32, 2.0, 3.0, 4.0, 5.0];
        arena.tensor_mut(ProgramId(0), X).copy_from_slice(bytemuck::cast_slice(&x));
        let mut operands = arena.operands(ProgramId(0), FIRST);
        assert_eq!(operands.op().name(), "op");
        // Twice: a tensor that is only read is shared. All of these are alive at the same time.
        let (first, second) = (operands.read::<f32>(X), operands.read::<f32>(X));
        let (out, scratch) = (operands.write::<f32>(OUT), operands.scratch::<u64>());
        scratch.fill(7);
        for (out, (a, b)) in out.iter_mut().zip(first.iter().zip(second)) {
            *out = a + b;
        }
        assert_eq!(scratch, [7, 7]);
        assert!(operands.scratch::<u64>().is_empty(), "handed out once");
        let doubled = x.map(|x| 2.0 * x);
        assert_eq!(bytemuck::cast_slice::<_, f32>(arena.tensor(ProgramId(0), OUT)), doubled);
    }

    #[test]
    fn a_tensor_that_no_op_touches_has_no_bytes() {
        let mut arena = arena();
        assert!(
            arena.tensor(ProgramId(0), UNUSED).is_empty()
                && arena.tensor_mut(ProgramId(0), UNUSED).is_empty()
        );
    }

    #[test]
    fn an_arena_is_released_before_it_touches_a_piece_that_is_not_free() {
        let plan = place(vec![program()], &HOST).unwrap();
        let plan = verify(Plan { chunks: vec![Bytes::new(3 * PIECE as u64)], ..plan }, &HOST);
        let plan = plan.unwrap();
        let asked = plan.plan().arena_bytes();
        let mut pieces_left = Vec::new();
        let left = Bytes::new(7);
        let refused = Arena::touched(plan, 0, &mut |rest| {
            pieces_left.push(rest.index() / PIECE);
            if pieces_left.len() < 2 { Ok(()) } else { Err(left) }
        });
        assert_eq!(refused.unwrap_err(), ArenaRefused::Taken { asked, left });
        assert_eq!(pieces_left, [3, 2]);
    }

    #[test]
    #[should_panic(expected = "handed out before")]
    fn a_tensor_that_is_changed_is_handed_out_once() {
        let mut arena = arena();
        let mut operands = arena.operands(ProgramId(0), FIRST);
        let _ = (operands.write::<f32>(OUT), operands.write::<f32>(OUT));
    }

    #[test]
    #[should_panic(expected = "only reads this tensor")]
    fn a_tensor_that_is_read_is_never_handed_out_for_writing() {
        arena().operands(ProgramId(0), FIRST).write::<f32>(X);
    }

    #[test]
    #[should_panic(expected = "of a chunk of")]
    fn bytes_past_the_end_of_a_chunk_are_refused() {
        let mut arena = arena();
        let slot = arena.plan().slot(ProgramId(0), OUT);
        arena.guard_after(slot, Bytes::new(1 << 20));
    }

    #[test]
    #[should_panic(expected = "of a chunk of")]
    fn a_slot_that_the_checker_did_not_see_is_refused() {
        // More slots than tensors: the last one belongs to no tensor.
        let Plan { mut programs, chunks } = place(vec![program()], &HOST).unwrap();
        let PlacedProgram { slots, .. } = &mut programs[0];
        let (start, end) = (Bytes::new(1 << 20), Bytes::new((1 << 20) + 4));
        slots.push(Slot { space: Space::Device, chunk: 0, start, end });
        let plan = verify(Plan { programs, chunks }, &HOST).unwrap();
        Arena::new(plan, 0).unwrap().tensor(ProgramId(0), TensorId(3));
    }
}
