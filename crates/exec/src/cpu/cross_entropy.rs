//! The output projection and the loss, a chunk of rows at a time.
//!
//! ```text
//! logits = x · wteᵀ          loss of a row = lse(logits) - logits[target]
//! d_logits = (softmax(logits) - onehot) · scale
//! d_x = d_logits · wte          d_wte += d_logitsᵀ · x
//! ```
//!
//! The gradient of a chunk's logits replaces them in place, row by row while a row is in cache.
//! The losses of rows are summed in order, in f64.

use fitgpt_program::Products;

use crate::{
    arena::Stored,
    cpu::{
        Machine,
        element::Element,
        exp::exp_below,
        isa::{Kernel, Simd},
        matmul::{self, AddInto, Product, View},
        parts::{Blocks, Grid},
        rows::{self, block_rows},
    },
};

/// The sizes of a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossShape {
    /// Rows of `x`.
    pub(super) rows: usize,
    pub(super) channels: usize,
    pub(super) vocab: usize,
    /// Rows of a chunk.
    pub(super) chunk: usize,
}

impl LossShape {
    fn products(self, rows: usize) -> [matmul::ProductShape; 3] {
        let Self { channels, vocab, .. } = self;
        [
            matmul::ProductShape { rows, columns: vocab, depth: channels },
            matmul::ProductShape { rows, columns: channels, depth: vocab },
            matmul::ProductShape { rows: vocab, columns: channels, depth: rows },
        ]
    }

    /// Floats that the first `n` products need for a whole chunk and for the last, shorter one.
    fn product_floats(self, n: usize, products: Products, threads: usize) -> usize {
        let left = self.rows % self.chunk;
        let sizes = [self.chunk.min(self.rows), left].map(|rows| {
            let shapes = self.products(rows).into_iter().take(n);
            shapes.map(|shape| shape.in_slots(products).scratch_bytes(threads)).max().unwrap_or(0)
        });
        sizes[0].max(sizes[1]).div_ceil(size_of::<f32>() as u64) as usize
    }
}

/// Floats of scratch of [`forward`]: the losses of all rows, then the product's scratch.
pub(super) fn forward_scratch(shape: LossShape, products: Products, threads: usize) -> usize {
    shape.rows + shape.product_floats(1, products, threads)
}

/// Floats of scratch of [`backward`]: the losses of a chunk, then the products' scratch.
pub(super) fn backward_scratch(shape: LossShape, products: Products, threads: usize) -> usize {
    shape.chunk + shape.product_floats(3, products, threads)
}

/// Operands of [`forward`].
pub(super) struct LossForward<'a, E> {
    pub(super) shape: LossShape,
    pub(super) x: &'a [E],
    pub(super) weight: &'a [f32],
    pub(super) targets: &'a [u32],
    pub(super) logits: &'a mut [f32],
    pub(super) losses: &'a mut [f32],
    pub(super) scratch: &'a mut [f32],
}

/// Computes the mean loss of each sequence.
pub(super) fn forward<E: Element + Stored>(machine: &mut Machine, args: LossForward<'_, E>) {
    let LossForward { shape, x, weight, targets, logits, losses, scratch } = args;
    let (row_losses, scratch) = scratch.split_at_mut(shape.rows);
    for start in (0..shape.rows).step_by(shape.chunk) {
        let rows = start..shape.rows.min(start + shape.chunk);
        let logits = &mut logits[..rows.len() * shape.vocab];
        let x = &x[rows.start * shape.channels..rows.end * shape.channels];
        score(machine, shape, x, weight, logits, scratch);
        let block = block_rows(shape.vocab);
        let (targets, isa) = (&targets[rows.clone()], machine.isa);
        let logits = &*logits;
        machine.pool.for_each(Blocks::new(&mut row_losses[rows], block), |task, losses| {
            let first = task.index * block;
            let targets = &targets[first..][..losses.len()];
            let logits = &logits[first * shape.vocab..];
            isa.run(RowLosses { logits, vocab: shape.vocab, targets, losses });
        });
    }
    let seq = shape.rows / losses.len().max(1);
    for (loss, rows) in losses.iter_mut().zip(row_losses.chunks_exact(seq)) {
        *loss = (total(rows) / seq as f64) as f32;
    }
}

/// Operands of [`backward`].
pub(super) struct LossBackward<'a, E> {
    pub(super) shape: LossShape,
    pub(super) x: &'a [E],
    pub(super) weight: &'a [f32],
    pub(super) targets: &'a [u32],
    pub(super) logits: &'a mut [f32],
    pub(super) loss: &'a mut f32,
    pub(super) d_x: &'a mut [E],
    pub(super) d_weight: &'a mut [f32],
    pub(super) scratch: &'a mut [f32],
    /// Rows of the effective batch.
    pub(super) mean_over: f64,
    pub(super) loss_scale: f32,
}

/// Adds these rows to the loss and to the gradients.
pub(super) fn backward<E: Element + Stored>(machine: &mut Machine, args: LossBackward<'_, E>) {
    let LossBackward { shape, x, weight, targets, logits, loss, d_x, d_weight, scratch, .. } = args;
    let LossShape { channels, vocab, .. } = shape;
    let scale = (f64::from(args.loss_scale) / args.mean_over) as f32;
    let (row_losses, scratch) = scratch.split_at_mut(shape.chunk);
    let mut sum = 0.0;
    for start in (0..shape.rows).step_by(shape.chunk) {
        let rows = start..shape.rows.min(start + shape.chunk);
        let count = rows.len();
        let numbers = rows.start * channels..rows.end * channels;
        let logits = &mut logits[..count * vocab];
        let row_losses = &mut row_losses[..count];
        let x = &x[numbers.clone()];
        score(machine, shape, x, weight, logits, scratch);

        let block = block_rows(vocab);
        let (targets, isa) = (&targets[rows], machine.isa);
        let parts = (Blocks::new(logits, block * vocab), Blocks::new(row_losses, block));
        machine.pool.for_each(parts, |task, (logits, losses)| {
            let targets = &targets[task.index * block..][..losses.len()];
            isa.run(RowGradients { logits, vocab, targets, losses, scale });
        });
        sum += total(row_losses);

        let d_logits = View::new(logits, count, vocab);
        Product {
            a: d_logits,
            b: View::new(weight, vocab, channels),
            out: Grid::new(&mut d_x[numbers], channels),
            epilogue: matmul::Store::default(),
            products: machine.products::<E>(),
            scratch,
        }
        .run(machine.isa, &mut machine.pool);
        Product {
            a: d_logits.transposed(),
            b: View::new(x, count, channels),
            out: Grid::new(d_weight, channels),
            epilogue: AddInto::default(),
            products: machine.products::<E>(),
            scratch,
        }
        .run(machine.isa, &mut machine.pool);
    }
    *loss = (f64::from(*loss) + sum / args.mean_over) as f32;
}

/// `logits = x · weightᵀ`
fn score<E: Element>(
    machine: &mut Machine,
    shape: LossShape,
    x: &[E],
    weight: &[f32],
    logits: &mut [f32],
    scratch: &mut [f32],
) {
    Product {
        a: View::new(x, x.len() / shape.channels, shape.channels),
        b: View::new(weight, shape.vocab, shape.channels).transposed(),
        out: Grid::new(logits, shape.vocab),
        epilogue: matmul::Store::default(),
        products: machine.products::<E>(),
        scratch,
    }
    .run(machine.isa, &mut machine.pool);
}

fn total(losses: &[f32]) -> f64 {
    losses.iter().map(|&loss| f64::from(loss)).sum()
}

/// Exponentials that are summed in f32; the sums of these pieces are added in f64.
const PIECE: usize = 1024;

struct RowLosses<'a> {
    logits: &'a [f32],
    vocab: usize,
    targets: &'a [u32],
    losses: &'a mut [f32],
}

impl Kernel for RowLosses<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let rows = self.logits.chunks_exact(self.vocab).zip(self.targets);
        for (loss, (logits, &target)) in self.losses.iter_mut().zip(rows) {
            let most = rows::largest(simd, logits);
            let mut space = [0.0; PIECE];
            let mut sum = 0.0;
            for piece in logits.chunks(PIECE) {
                let space = &mut space[..piece.len()];
                space.iter_mut().zip(piece).for_each(|(e, x)| *e = exp_below(simd, x - most));
                sum += f64::from(rows::sum(simd, space));
            }
            *loss = (sum.ln() + f64::from(most) - f64::from(logits[target as usize])) as f32;
        }
    }
}

struct RowGradients<'a> {
    logits: &'a mut [f32],
    vocab: usize,
    targets: &'a [u32],
    losses: &'a mut [f32],
    scale: f32,
}

impl Kernel for RowGradients<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let rows = self.logits.chunks_exact_mut(self.vocab).zip(self.targets);
        for (loss, (logits, &target)) in self.losses.iter_mut().zip(rows) {
            let most = rows::largest(simd, logits);
            let of_target = f64::from(logits[target as usize]);
            let mut sum = 0.0;
            for piece in logits.chunks_mut(PIECE) {
                for x in piece.iter_mut() {
                    *x = exp_below(simd, *x - most);
                }
                sum += f64::from(rows::sum(simd, piece));
            }
            *loss = (sum.ln() + f64::from(most) - of_target) as f32;
            let factor = (f64::from(self.scale) / sum) as f32;
            for x in logits.iter_mut() {
                *x *= factor;
            }
            logits[target as usize] -= self.scale;
        }
    }
}
