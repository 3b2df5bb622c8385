//! The memory of a run on a device: allocated once, outside the runtime's pools.
//!
//! Promise: an arena in many allocations gives the same bits; a tensor larger than a binding works;
//! a step waits for its device once, for any accumulation. Test: `crates/gpu/tests/training.rs`,
//! `tests/gpu/waits.rs`.

use std::{ops::Range, sync::atomic::Ordering};

use cubecl::{bytes::Bytes as HostBytes, prelude::BufferArg, server::Handle};
use fitgpt_exec::{BackendError, MemoryRefused};
use fitgpt_program::{
    memory::{Slot, VerifiedPlan},
    units::Bytes,
};

use crate::{
    device::GpuDevice,
    pools::{PIECE, settle, sync},
};

/// Copies start and end at multiples of this.
const WORD: u64 = 4;

/// The arena's allocations.
#[derive(Debug)]
pub(crate) struct DeviceArena {
    chunks: Vec<DeviceChunk>,
}

#[derive(Debug)]
struct DeviceChunk {
    handle: Handle,
    size: u64,
}

impl DeviceArena {
    /// Allocates what `plan` needs and fills it with `fill`.
    ///
    /// If the run `settles`, the runtime's pools have their final size afterwards.
    pub(crate) fn new(
        device: &GpuDevice,
        plan: &VerifiedPlan,
        fill: u8,
        settles: bool,
    ) -> Result<Self, BackendError> {
        let refused = |error| match error {
            BackendError::Device(fault) => BackendError::Memory(MemoryRefused {
                device: fault.device,
                asked: plan.plan().arena_bytes(),
                free: None,
            }),
            other => other,
        };
        let arena = Self::allocate(device, plan, settles).map_err(refused)?;
        let filled = arena.fill_all(device, fill);
        // CUDA's driver refuses memory that it does not have at once. Others may promise it, so that
        // only writing to it fails.
        if device.has_pools() {
            filled.map_err(refused)?;
        } else {
            filled?;
        }
        Ok(arena)
    }

    fn allocate(
        device: &GpuDevice,
        plan: &VerifiedPlan,
        settles: bool,
    ) -> Result<Self, BackendError> {
        let client = &device.client;
        if settles && device.has_pools() {
            device.health.guard(|| settle(client))?;
        }
        let mut chunks = Vec::new();
        for size in &plan.plan().chunks {
            let size = size.get().max(WORD);
            let handle = device.health.guard(|| {
                let empty = |()| client.empty(size as usize);
                let handle = client.memory_dedicated_allocation((), empty);
                client.flush().map_err(|error| error.to_string())?;
                Ok(handle)
            })?;
            chunks.push(DeviceChunk { handle, size });
        }
        Ok(Self { chunks })
    }

    /// Writes every byte, so that memory which the driver overcommitted fails here.
    fn fill_all(&self, device: &GpuDevice, fill: u8) -> Result<(), BackendError> {
        for (chunk, of) in (0..).zip(&self.chunks) {
            let mut start = 0;
            while start < of.size {
                let end = (start + PIECE).min(of.size);
                let bytes = vec![fill; (end - start) as usize];
                self.put(device, chunk, start..end, bytes)?;
                start = end;
            }
        }
        device.health.guard(|| sync(&device.client))
    }

    /// Binds `bytes` of a slot, which hold `elements` elements, for a kernel.
    pub(crate) fn bind(&self, slot: Slot, bytes: Range<u64>, elements: usize) -> BufferArg {
        let start = slot.start.get();
        let handle = self.handle(slot.chunk, start + bytes.start..start + bytes.end);
        // SAFETY: the slot comes from a verified plan, so it lies inside its chunk, and the
        // caller counted the elements of these bytes.
        unsafe { BufferArg::from_raw_parts(handle, elements) }
    }

    /// Copies `values` to byte `start` of a slot.
    pub(crate) fn write(
        &self,
        device: &GpuDevice,
        slot: Slot,
        start: Bytes,
        values: &[u8],
    ) -> Result<(), BackendError> {
        let first = slot.start.get() + start.get();
        for (index, piece) in (0..).zip(values.chunks(PIECE as usize)) {
            let from = first + index * PIECE;
            let to = from + piece.len() as u64;
            let (low, high) = (from / WORD * WORD, to.next_multiple_of(WORD));
            let mut bytes = vec![0; (high - low) as usize];
            // Bytes that share a word with these values must not change.
            if low < from {
                bytes[..WORD as usize].copy_from_slice(&self.get(
                    device,
                    slot.chunk,
                    low..low + WORD,
                )?);
            }
            if to < high {
                let last = self.get(device, slot.chunk, high - WORD..high)?;
                let at = bytes.len() - WORD as usize;
                bytes[at..].copy_from_slice(&last);
            }
            bytes[(from - low) as usize..][..piece.len()].copy_from_slice(piece);
            self.put(device, slot.chunk, low..high, bytes)?;
        }
        Ok(())
    }

    /// Copies from byte `start` of a slot.
    pub(crate) fn read(
        &self,
        device: &GpuDevice,
        slot: Slot,
        start: Bytes,
        values: &mut [u8],
    ) -> Result<(), BackendError> {
        let first = slot.start.get() + start.get();
        for (index, piece) in (0..).zip(values.chunks_mut(PIECE as usize)) {
            let from = first + index * PIECE;
            let to = from + piece.len() as u64;
            let (low, high) = (from / WORD * WORD, to.next_multiple_of(WORD));
            let bytes = self.get(device, slot.chunk, low..high)?;
            piece.copy_from_slice(&bytes[(from - low) as usize..][..piece.len()]);
        }
        Ok(())
    }

    /// The number at the start of each slot, in one copy if one piece holds them all, as it does
    /// for the small tensors of a plan.
    pub(crate) fn read_scalars(
        &self,
        device: &GpuDevice,
        slots: &[Slot],
    ) -> Result<Vec<f32>, BackendError> {
        let number = |bytes: &[u8]| bytemuck::pod_read_unaligned(&bytes[..WORD as usize]);
        let Some((chunk, range)) = together(slots) else {
            let one = |slot: &Slot| {
                let start = slot.start.get();
                Ok(number(&self.get(device, slot.chunk, start..start + WORD)?))
            };
            return slots.iter().map(one).collect();
        };
        let bytes = self.get(device, chunk, range.clone())?;
        let at = |slot: &Slot| (slot.start.get() - range.start) as usize;
        Ok(slots.iter().map(|slot| number(&bytes[at(slot)..])).collect())
    }

    /// Fills a slot with `with`, including the rest of its last word.
    pub(crate) fn fill(
        &self,
        device: &GpuDevice,
        slot: Slot,
        with: u8,
    ) -> Result<(), BackendError> {
        let range = slot.start.get()..slot.end.get().next_multiple_of(WORD);
        let bytes = vec![with; (range.end - range.start) as usize];
        self.put(device, slot.chunk, range, bytes)
    }

    /// The bytes of several slots, in one copy to the host.
    pub(crate) fn read_all(
        &self,
        device: &GpuDevice,
        slots: &[Slot],
    ) -> Result<Vec<HostBytes>, BackendError> {
        let handle = |slot: &Slot| self.handle(slot.chunk, slot.start.get()..slot.end.get());
        let handles = slots.iter().map(handle).collect();
        device.copies.fetch_add(1, Ordering::Relaxed);
        device.health.guard(|| device.client.read(handles).map_err(|error| error.to_string()))
    }

    /// The bytes after a slot, from the next whole word on, up to `length`: a guard for tests.
    pub(crate) fn behind(slot: Slot, length: Bytes) -> Slot {
        let end = slot.end + length;
        Slot { start: slot.end.align_up(WORD), end: Bytes::new(end.get() / WORD * WORD), ..slot }
    }

    fn put(
        &self,
        device: &GpuDevice,
        chunk: u32,
        range: Range<u64>,
        bytes: Vec<u8>,
    ) -> Result<(), BackendError> {
        let handle = self.handle(chunk, range);
        device.health.guard(|| {
            device.client.write(&handle, HostBytes::from_bytes_vec(bytes));
            Ok(())
        })
    }

    fn get(
        &self,
        device: &GpuDevice,
        chunk: u32,
        range: Range<u64>,
    ) -> Result<HostBytes, BackendError> {
        let handle = self.handle(chunk, range);
        device.copies.fetch_add(1, Ordering::Relaxed);
        device.health.guard(|| device.client.read_one(handle).map_err(|error| error.to_string()))
    }

    fn handle(&self, chunk: u32, range: Range<u64>) -> Handle {
        let chunk = &self.chunks[chunk as usize];
        let end = range.end.next_multiple_of(WORD).min(chunk.size);
        chunk.handle.clone().offset_start(range.start).offset_end(chunk.size - end)
    }
}

/// One range that contains the first words of all slots, if it fits into one piece.
fn together(slots: &[Slot]) -> Option<(u32, Range<u64>)> {
    let chunk = slots.first()?.chunk;
    let starts = || slots.iter().map(|slot| slot.start.get());
    let range = starts().min()?..starts().max()? + WORD;
    let is_one = slots.iter().all(|slot| slot.chunk == chunk) && range.end - range.start <= PIECE;
    is_one.then_some((chunk, range))
}

#[cfg(test)]
mod tests {
    use fitgpt_config::{Precision, Written};
    use fitgpt_model::{
        job::{self, Job},
        programs::TrainingHandles,
    };
    use fitgpt_program::{Names, memory::Space};

    use super::*;
    use crate::{GpuTarget, adapters};

    #[test]
    fn the_loss_and_the_norm_of_every_gpt2_are_one_copy() {
        let adapter = adapters().into_iter().next();
        let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
        let mut properties = adapter.properties;
        properties.max_chunk = Bytes::new(1 << 40); // otherwise a chunk may end between them
        let target = GpuTarget::new(properties);
        for (layers, heads, channels) in
            [("12", "12", "768"), ("24", "16", "1024"), ("36", "20", "1280"), ("48", "25", "1600")]
        {
            let mut written = Written::new();
            for (key, value) in [("n_layer", layers), ("n_head", heads), ("n_embd", channels)] {
                written.set(key, value).unwrap();
            }
            let config = written.resolve().unwrap();
            let job = Job::new(&config, 50_304, Precision::Float32, &target, Bytes::new(1 << 40));
            let programs = job.training_programs(Names::Kept);
            let TrainingHandles { train, update, .. } = programs.handles();
            let plan = job::plan(programs, &target).unwrap();
            let slot =
                |program, name| plan.slot(program, plan.program(program).find(name).unwrap());
            let slots = [slot(train.program, "loss"), slot(update.program, "norm")];
            assert!(together(&slots).is_some(), "{layers} layers: {slots:?}");
        }
    }

    #[test]
    fn what_lies_apart_is_not_one_copy() {
        let slot = |chunk, start| {
            let (start, end) = (Bytes::new(start), Bytes::new(start + WORD));
            Slot { space: Space::Device, chunk, start, end }
        };
        assert_eq!(together(&[slot(1, 512), slot(1, 256)]), Some((1, 256..516)));
        assert_eq!(together(&[slot(1, 512), slot(0, 256)]), None);
        assert_eq!(together(&[slot(0, 0), slot(0, PIECE)]), None);
        assert_eq!(together(&[]), None);
    }
}
