//! Launches the kernels of an op with the op's operands, in the type of its tensors.
//!
//! A device limits how many bytes can be bound for a kernel. So every op is launched over windows
//! of its rows (or sequences, or elements), each within the limit; usually there is one window. The
//! vocabulary's table is split by rows as well.
//!
//! Bindings of one kernel never overlap: CUDA kernels are compiled with pointers that do not alias,
//! and Vulkan forbids overlaps. [`LaunchBindings`] checks this at every launch.
//!
//! A device limits how much of a buffer a kernel can access (128 MiB on software Vulkan; the table
//! of GPT-2's vocabulary has 147). So ops are launched over windows of rows, sequences or elements
//! that start at multiples of 256 bytes; the vocabulary's table is also split by rows.
//!
//! Promise: the bindings of one kernel never overlap and stay within the device's limit. Test:
//! asserted at every launch.

mod attention;
mod embed;
mod linear;
mod loss;
mod muon;
mod norm;
mod rotary;
mod update;

use std::{cell::RefCell, ops::Range};

use cubecl::{
    ir::{ElemType, FloatKind, UIntKind},
    prelude::{BufferArg, Client, ComptimeOptionArgs},
};
use fitgpt_exec::{Arguments, random};
use fitgpt_program::{
    Dropout, Op, Program,
    memory::{Slot, VerifiedPlan},
    units::{DType, OpIndex, ProgramId, TensorId},
};

use crate::{
    adapter::{ALIGNMENT, GpuProperties},
    arena::DeviceArena,
    device::GpuDevice,
    kernels::{
        elementwise,
        grid::{cubes, elements, line},
        mask::{self, DropoutMask, DropoutMaskLaunch, WideLaunch},
    },
    target::ScratchParts,
};

/// Launches a kernel, or records it in the test that compiles every kernel for CUDA. All launches
/// of ops go through this macro.
macro_rules! launch {
    ($call:expr, $module:ident::$kernel:ident, $count:expr, $dim:expr, $($argument:expr),* $(,)?) => {{
        match () {
            #[cfg(test)]
            () if $call.properties().is_recorded => crate::gate::record(
                concat!(stringify!($module), "::", stringify!($kernel)),
                &$module::$kernel::create_dummy_kernel(
                    crate::gate::properties(), crate::gate::target(), $count, $dim, $($argument),*
                ),
            ),
            // SAFETY: every kernel stays within the counts that it is given, which come from the
            // shapes of the tensors whose slots are bound; slots come from a verified plan.
            () => unsafe {
                $module::$kernel::launch_unchecked(
                    $call.client(), $count, $dim, $($argument),*
                )
            },
        }
        $call.launched();
    }};
}
pub(crate) use launch;

/// One op to be launched.
pub(crate) struct OpLaunch<'c> {
    device: &'c GpuDevice,
    arena: &'c DeviceArena,
    plan: &'c VerifiedPlan,
    program: ProgramId,
    at: OpIndex,
    listing: &'c Program,
    op: &'c Op,
    arguments: &'c Arguments,
    scratch: ScratchParts,
    bound: RefCell<LaunchBindings>, // since the last launch
}

impl<'c> OpLaunch<'c> {
    pub(crate) fn new(
        device: &'c GpuDevice,
        arena: &'c DeviceArena,
        plan: &'c VerifiedPlan,
        (program, at): (ProgramId, OpIndex),
        arguments: &'c Arguments,
    ) -> Self {
        let listing = plan.program(program);
        let op = &listing.ops()[at.index()];
        let scratch = ScratchParts::of(listing, op, &device.properties());
        let bound = RefCell::default();
        Self { device, arena, plan, program, at, listing, op, arguments, scratch, bound }
    }

    /// Launches the op's kernels.
    pub(crate) fn run(&self) {
        match *self.op {
            Op::Embed { .. } | Op::EmbedBackward { .. } => self.embed(),
            Op::Norm { .. }
            | Op::NormAgain { .. }
            | Op::NormBackward { .. }
            | Op::NormBackwardAdd { .. } => self.norm(),
            Op::Rotary { .. } => self.rotary(),
            Op::Linear { .. }
            | Op::LinearGelu { .. }
            | Op::LinearSwiGlu { .. }
            | Op::LinearResidual { .. }
            | Op::LinearBackwardInput { .. }
            | Op::LinearBackwardInputAdd { .. }
            | Op::LinearBackwardGelu { .. }
            | Op::LinearBackwardSwiGlu { .. }
            | Op::LinearBackwardWeight { .. } => self.linear(),
            Op::Attention { .. }
            | Op::AttentionBackward { .. }
            | Op::StoreCache { .. }
            | Op::CachedAttention { .. } => self.attention(),
            Op::CrossEntropy { .. } | Op::CrossEntropyBackward { .. } => self.loss(),
            Op::GradientNorm { .. } | Op::Update { .. } => self.update(),
            Op::AdamW8bit { .. } => self.update_8bit(),
            Op::Muon { .. } => self.muon(),
            Op::Dropout { x, out, ref dropout } => {
                let keys = self.keys(dropout, x);
                let columns = self.columns(x);
                for window in self.windows(self.rows(x), &[self.row_bytes(x)]) {
                    let count = window.len() * columns;
                    launch!(
                        self,
                        elementwise::dropped,
                        elements(count),
                        line(),
                        self.rows_of(x, &window),
                        self.rows_of(out, &window),
                        keys(),
                        count,
                        window.start * columns,
                        self.seq(x) * columns,
                        self.stored(x),
                    );
                }
            }
            Op::LastRow { x, out } => {
                let last = self.arguments.length.checked_sub(1);
                let last = last.expect("a prompt has at least one token") as usize;
                let columns = self.columns(x);
                let (x, first) = self.part(x, &(last..last + 1), self.rows(x));
                launch!(
                    self,
                    elementwise::copied,
                    elements(columns),
                    line(),
                    x,
                    self.whole(out),
                    first,
                    columns,
                    self.stored(out),
                );
            }
            Op::Named { name, .. } => {
                panic!("`{name}` is an op of another engine: it is planned, never run")
            }
        }
    }

    fn client(&self) -> &Client {
        &self.device.client
    }

    /// Starts collecting the bindings of the next launch.
    fn launched(&self) {
        self.bound.borrow_mut().0.clear();
    }

    fn bind(&self, slot: Slot, bytes: Range<u64>, elements: usize) -> BufferArg {
        let most = self.properties().max_binding.get();
        assert!(bytes.end - bytes.start <= most, "a window exceeds the binding limit");
        let start = slot.start.get();
        let of_chunk = start + bytes.start..start + bytes.end;
        let is_free = self.bound.borrow_mut().add(slot.chunk, of_chunk);
        assert!(is_free, "`{}` binds the same bytes twice", self.op.name());
        self.arena.bind(slot, bytes, elements)
    }

    fn properties(&self) -> GpuProperties {
        self.device.properties()
    }

    fn rows(&self, id: TensorId) -> usize {
        self.listing.get(id).rows() as usize
    }

    fn columns(&self, id: TensorId) -> usize {
        self.listing.get(id).columns() as usize
    }

    fn row_bytes(&self, id: TensorId) -> u64 {
        let tensor = self.listing.get(id);
        tensor.columns() * tensor.dtype.size()
    }

    /// Bytes of one of `count` equal parts of a tensor.
    fn share_bytes(&self, id: TensorId, count: usize) -> u64 {
        self.listing.get(id).bytes().get() / count as u64
    }

    /// Tokens of a sequence of `id`, (B, T, C).
    fn seq(&self, id: TensorId) -> usize {
        self.listing.get(id).shape[1] as usize
    }

    /// How many rows of an activation are computed.
    fn used(&self, id: TensorId) -> usize {
        self.arguments.rows_in_use(self.listing, self.rows(id) as u64) as usize
    }

    /// The element type of a tensor.
    fn stored(&self, id: TensorId) -> ElemType {
        elem_type(self.listing.get(id).dtype)
    }

    /// A whole tensor.
    fn whole(&self, id: TensorId) -> BufferArg {
        self.part(id, &(0..1), 1).0
    }

    /// Rows of a tensor; `rows` is a window.
    fn rows_of(&self, id: TensorId, rows: &Range<usize>) -> BufferArg {
        self.shares(id, rows, self.rows(id))
    }

    /// Some of `count` equal parts of a tensor; `shares` is a window.
    fn shares(&self, id: TensorId, shares: &Range<usize>, count: usize) -> BufferArg {
        let (buffer, first) = self.part(id, shares, count);
        assert!(first == 0, "a window starts at a multiple of the binding alignment");
        buffer
    }

    /// Some of `count` equal parts of a tensor, and how many elements are bound before them.
    fn part(&self, id: TensorId, shares: &Range<usize>, count: usize) -> (BufferArg, usize) {
        let tensor = self.listing.get(id);
        let (size, each) = (tensor.dtype.size(), self.share_bytes(id, count));
        let (start, end) = (shares.start as u64 * each, shares.end as u64 * each);
        let aligned = start / ALIGNMENT * ALIGNMENT;
        let slot = self.plan.slot(self.program, id);
        let elements = (end - aligned) / size;
        let buffer = self.bind(slot, aligned..end, elements as usize);
        (buffer, ((start - aligned) / size) as usize)
    }

    /// The first part of the scratch.
    fn words(&self) -> BufferArg {
        self.scratch_part(0, self.scratch.words)
    }

    /// The second part of the scratch.
    fn floats(&self) -> BufferArg {
        self.scratch_part(self.scratch.second(), self.scratch.floats)
    }

    fn scratch_part(&self, start: u64, words: u64) -> BufferArg {
        let slot = self.plan.scratch(self.program, self.at);
        let slot = slot.expect("the target requested scratch");
        self.bind(slot, start..start + words * 4, words as usize)
    }

    /// Splits `0..count` into windows. For each size in `unit_bytes`, a window is within the
    /// binding limit and starts at an aligned byte.
    fn windows(&self, count: usize, unit_bytes: &[u64]) -> Vec<Range<usize>> {
        windows(count, unit_bytes, self.properties().max_binding.get())
    }

    /// Computes the mask keys of the sequences of `id` in the first part of the scratch, and
    /// returns the argument that kernels need to use them.
    fn keys<'k>(&'k self, dropout: &Dropout, id: TensorId) -> impl Fn() -> DropoutMaskLaunch + 'k {
        self.keys_in(dropout, id, || self.words())
    }

    fn keys_in<'k>(
        &'k self,
        dropout: &Dropout,
        id: TensorId,
        place: impl Fn() -> BufferArg + 'k,
    ) -> impl Fn() -> DropoutMaskLaunch + 'k {
        let sequences = self.listing.get(id).shape[0] as usize;
        let wide = |word: u64| WideLaunch::new(word as u32, (word >> 32) as u32);
        let site = random::site(dropout);
        assert!(u32::try_from(site).is_ok(), "the layer number fits into a word");
        launch!(
            self,
            mask::keys,
            elements(sequences),
            line(),
            place(),
            wide(self.arguments.seed),
            wide(self.arguments.step),
            wide(self.arguments.first_sequence),
            site as u32,
            sequences,
        );
        let of_any = random::Mask::new(dropout, self.arguments, 0);
        move || DropoutMaskLaunch::new(place(), of_any.threshold, of_any.scale)
    }
}

/// The byte ranges bound for one launch.
#[derive(Default)]
struct LaunchBindings(Vec<(u32, Range<u64>)>);

impl LaunchBindings {
    /// Adds a range; false if it overlaps an earlier one.
    fn add(&mut self, chunk: u32, bytes: Range<u64>) -> bool {
        let touches =
            |(c, b): &(u32, Range<u64>)| *c == chunk && b.start < bytes.end && bytes.start < b.end;
        let is_free = !self.0.iter().any(touches);
        self.0.push((chunk, bytes));
        is_free
    }
}

const F32: ElemType = ElemType::Float(FloatKind::F32);

fn elem_type(dtype: DType) -> ElemType {
    match dtype {
        DType::F16 => ElemType::Float(FloatKind::F16),
        DType::Bf16 => ElemType::Float(FloatKind::BF16),
        DType::U32 => ElemType::UInt(UIntKind::U32),
        _ => F32,
    }
}

fn optional<T: cubecl::prelude::LaunchArg>(
    argument: Option<T::RuntimeArg>,
) -> ComptimeOptionArgs<T> {
    argument.into()
}

type OptionalMask = ComptimeOptionArgs<DropoutMask>;

/// See [`OpLaunch::windows`].
fn windows(count: usize, unit_bytes: &[u64], max: u64) -> Vec<Range<usize>> {
    let largest = unit_bytes.iter().copied().max().unwrap_or(1).max(1);
    let fits = (max / largest) as usize;
    if count <= fits {
        return vec![0..count; 1];
    }
    let border = |bytes: &u64| ALIGNMENT >> bytes.trailing_zeros().min(ALIGNMENT.trailing_zeros());
    let step = unit_bytes.iter().map(border).max().unwrap_or(1) as usize;
    let fits = fits / step * step;
    assert!(fits > 0, "{step} units of {largest} bytes exceed the binding limit");
    (0..count).step_by(fits).map(|start| start..(start + fits).min(count)).collect()
}

/// Reports an op that `run` sent to the wrong function.
fn misplaced(op: &Op) -> ! {
    unreachable!("`{}` was sent to the wrong function", op.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_one_launch_was_given_before_are_seen() {
        let mut bound = LaunchBindings::default();
        assert!(bound.add(0, 256..512));
        assert!(bound.add(0, 0..256) && bound.add(0, 512..516) && bound.add(1, 256..512));
        assert!(!bound.add(0, 508..514) && !bound.add(1, 0..1024));
    }

    #[test]
    fn what_fits_is_one_window() {
        assert_eq!(windows(7, &[12, 4], 84), vec![0..7; 1]);
    }

    #[test]
    fn windows_begin_where_every_tensor_can_be_bound() {
        // 12 bytes per unit: 64 units are the first multiple of 256 bytes.
        let list = windows(1000, &[12, 4], 12 * 200);
        assert_eq!(list, [0..192, 192..384, 384..576, 576..768, 768..960, 960..1000]);
    }
}
