//! Initial weights from a counter-based generator: a function of (seed, parameter, element),
//! independent of the thread that fills them and of the pieces they are filled in.

use std::{
    f64::consts::TAU,
    sync::{Mutex, PoisonError},
};

use fitgpt_data::counter;
use fitgpt_exec::{Backend, BackendError};
use fitgpt_model::{Init, Model, Parameter};
use fitgpt_program::units::{Bytes, ProgramId, TensorId};

/// Separates the random numbers of weights from those of data.
const STREAM: u64 = 0x696e_6974;

/// Draws all of a model's weights. A plan's first tensors are its parameters.
pub fn weights(
    backend: &mut dyn Backend,
    parameters: &[Parameter],
    seed: u64,
) -> Result<(), BackendError> {
    each_weight(parameters, seed, |index, start, bytes| {
        backend.write(ProgramId::FIRST, TensorId(index as u32), start, bytes)
    })
}

/// Draws all of a model's weights and passes them on in pieces: the index of the parameter, where the
/// piece starts in it, and its float32 values.
pub fn each_weight<E>(
    parameters: &[Parameter],
    seed: u64,
    mut write: impl FnMut(usize, Bytes, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    /// Elements drawn at a time; even, because normals are drawn in pairs.
    const PIECE: usize = 1 << 20;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut values = vec![0f32; PIECE];
    for (index, parameter) in (0..).zip(parameters) {
        let mut start = 0;
        while start < parameter.count() {
            let count = (parameter.count() - start).min(PIECE as u64) as usize;
            fill_together(parameter.init, seed, index, start, &mut values[..count], workers);
            let bytes = bytemuck::cast_slice(&values[..count]);
            write(index as usize, Bytes::new(4 * start), bytes)?;
            start += count as u64;
        }
    }
    Ok(())
}

/// Fills the table of a model with rotary positions, row by row; nothing for other models.
pub fn rotary(
    backend: &mut dyn Backend,
    table: Option<TensorId>,
    model: &Model,
) -> Result<(), BackendError> {
    let (Some(table), Some(rope)) = (table, model.rope()) else { return Ok(()) };
    let mut start = Bytes::ZERO;
    for row in rope.rows(model.block, model.head_channels) {
        let bytes = bytemuck::cast_slice(&row);
        backend.write(ProgramId::FIRST, table, start, bytes)?;
        start = start + Bytes::new(bytes.len() as u64);
    }
    Ok(())
}

/// [`fill`] on as many threads as the system allows. The arena is already allocated, so a memory
/// limit just above the plan may refuse a thread: then fewer do the work.
fn fill_together(
    init: Init,
    seed: u64,
    index: u64,
    start: u64,
    values: &mut [f32],
    workers: usize,
) {
    /// Stack of a thread; the loop needs hardly any.
    const STACK_BYTES: usize = 128 << 10;
    let part = values.len().div_ceil(workers).next_multiple_of(2);
    let parts: Vec<_> = (0..)
        .zip(values.chunks_mut(part))
        .map(|(n, values)| (start + n * part as u64, values))
        .collect();
    let parts = Mutex::new(parts);
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        while let Some((first, values)) = next() {
            fill(init, seed, index, first, values);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            if builder.spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Fills `values`, the elements of parameter `index` from `start`, which is even.
pub fn fill(init: Init, seed: u64, index: u64, start: u64, values: &mut [f32]) {
    assert!(start.is_multiple_of(2), "normals are drawn in pairs");
    match init {
        Init::Zeros => values.fill(0.0),
        Init::Ones => values.fill(1.0),
        Init::Normal { std } => {
            for (pair, values) in (start / 2..).zip(values.chunks_mut(2)) {
                let normals = normals(counter::draw([seed, STREAM, index, pair]));
                for (value, normal) in values.iter_mut().zip(normals) {
                    *value = std * normal;
                }
            }
        }
    }
}

/// Box and Muller's transform: two normals from one draw.
fn normals(draw: u64) -> [f32; 2] {
    let scale = 1.0 / (f64::from(u32::MAX) + 1.0);
    let radius = (-2.0 * ((f64::from((draw >> 32) as u32) + 1.0) * scale).ln()).sqrt();
    let (sin, cos) = (TAU * f64::from(draw as u32) * scale).sin_cos();
    [(radius * cos) as f32, (radius * sin) as f32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_the_expected_mean_and_deviation() {
        let mut values = vec![0.0; 100_000];
        fill(Init::Normal { std: 0.02 }, 1337, 3, 0, &mut values);
        let n = values.len() as f64;
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
        let variance = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n;
        // Five standard errors: 0.02 · 5 / √n, and for the deviation that by √2.
        assert!(mean.abs() < 3.2e-4, "{mean}");
        assert!((variance.sqrt() - 0.02).abs() < 2.3e-4, "{}", variance.sqrt());
    }

    #[test]
    fn pieces_give_the_same_weights_as_the_whole() {
        let mut whole = vec![0.0; 1001];
        fill(Init::Normal { std: 1.0 }, 7, 1, 0, &mut whole);
        let mut pieces = vec![0.0; 1001];
        let (first, second) = pieces.split_at_mut(334);
        fill(Init::Normal { std: 1.0 }, 7, 1, 0, first);
        fill(Init::Normal { std: 1.0 }, 7, 1, 334, second);
        assert_eq!(whole, pieces);
    }
}
