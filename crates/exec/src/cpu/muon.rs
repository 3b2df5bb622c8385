//! Muon: the momentum of a matrix, made nearly orthogonal by Newton-Schulz iterations.
//!
//! ```text
//! m += (1 - µ) (g - m)          u = g + µ (m - g), or m without Nesterov
//! X  = u / max(‖u‖, ε)
//! X  = a X + (b G + c G²) X     with G = X Xᵀ, repeated; Xᵀ X if there are more rows
//! p  = p (1 - lr · weight_decay) - lr · adjustment · X
//! ```
//!
//! Nearly all of the time goes into the products, which are those of [`matmul`]: their bits do not
//! depend on the number of threads. X, the next X, G and the polynomial of G are in scratch.

use bytemuck::Pod;
use fitgpt_program::{Muon, Products, units::DType};
use half::bf16;

use crate::{
    Arguments,
    cpu::{
        Machine,
        element::Element,
        isa::{Kernel, Simd},
        matmul::{self, AddScaled, Product, Store, View},
        parts::{Blocks, Grid},
        rows::BLOCK,
        update,
    },
};

/// Rows and columns of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatrixShape {
    pub(super) out: usize,
    pub(super) inputs: usize,
}

impl MatrixShape {
    fn count(self) -> usize {
        self.out * self.inputs
    }

    /// The shorter axis, which is the size of the Gram matrix.
    fn short(self) -> usize {
        self.out.min(self.inputs)
    }

    fn products(self) -> [matmul::ProductShape; 3] {
        let (short, long) = (self.short(), self.out.max(self.inputs));
        [
            matmul::ProductShape { rows: short, columns: short, depth: long },
            matmul::ProductShape { rows: short, columns: short, depth: short },
            matmul::ProductShape { rows: self.out, columns: self.inputs, depth: short },
        ]
    }
}

/// Floats of scratch.
pub(super) fn scratch(shape: MatrixShape, dtype: DType, threads: usize) -> usize {
    let floats = |count: usize| (count * dtype.size() as usize).div_ceil(size_of::<f32>());
    let products = shape.products().map(|product| product.scratch_bytes(threads));
    let products = products.into_iter().max().unwrap_or(0).div_ceil(size_of::<f32>() as u64);
    let sums = 2 * update::norm_blocks(shape.count()); // f64
    let gram = floats(shape.short() * shape.short());
    sums + 2 * floats(shape.count()) + 2 * gram + products as usize
}

/// Operands of [`step`].
pub(super) struct MuonStep<'a> {
    pub(super) shape: MatrixShape,
    pub(super) parameter: &'a mut [f32],
    pub(super) gradient: &'a mut [f32],
    pub(super) momentum: &'a mut [f32],
    pub(super) norm: f32,
    pub(super) muon: &'a Muon,
    pub(super) arguments: &'a Arguments,
    pub(super) scratch: &'a mut [f32],
}

/// One update. Sets the gradient to zero; does nothing else if the norm is not finite.
pub(super) fn step(machine: &mut Machine, args: MuonStep<'_>) {
    let count = args.shape.count();
    let lengths = (args.parameter.len(), args.gradient.len(), args.momentum.len());
    assert_eq!(lengths, (count, count, count));
    if !args.norm.is_finite() {
        machine.pool.for_each(Blocks::new(args.gradient, BLOCK), |_, gradient| gradient.fill(0.0));
        return;
    }
    match args.muon.dtype {
        DType::Bf16 => step_in::<bf16>(machine, args),
        DType::F32 | DType::F16 | DType::U32 | DType::I64 | DType::U8 => {
            step_in::<f32>(machine, args);
        }
    }
}

fn step_in<E: Element + Pod>(machine: &mut Machine, args: MuonStep<'_>) {
    let MuonStep { shape, parameter, gradient, momentum, norm, muon, arguments, scratch } = args;
    let (sums, rest) = scratch.split_at_mut(2 * update::norm_blocks(shape.count()));
    let sums: &mut [f64] = bytemuck::cast_slice_mut(sums);
    let (mut x, rest) = take::<E>(rest, shape.count());
    let (mut next, rest) = take::<E>(rest, shape.count());
    let gram_count = shape.short() * shape.short();
    let (gram, rest) = take::<E>(rest, gram_count);
    let (polynomial, scratch) = take::<E>(rest, gram_count);
    let isa = machine.isa;

    let factor = update::gradient_factor(muon.grad_clip, arguments, norm);
    let parts = (
        Blocks::new(momentum, BLOCK),
        Blocks::new(gradient, BLOCK),
        Blocks::new(x, BLOCK),
        Blocks::new(sums, 1),
    );
    machine.pool.for_each(parts, |_, (momentum, gradient, x, sum)| {
        sum[0] = isa.run(MomentumUpdate { momentum, gradient, x, muon, factor });
    });
    let length = sums.iter().sum::<f64>().sqrt().max(f64::from(muon.epsilon)) as f32;
    machine.pool.for_each(Blocks::new(x, BLOCK), |_, x| isa.run(Division { x, by: length }));

    let [a, b, c] = muon.coefficients;
    let MatrixShape { out, inputs } = shape;
    let short = shape.short();
    for _ in 0..muon.steps {
        let rows = View::new(x, out, inputs);
        let short_rows = if out > inputs { rows.transposed() } else { rows };
        Product {
            a: short_rows,
            b: short_rows.transposed(),
            out: Grid::new(gram, short),
            epilogue: Store::default(),
            products: Products::Float32,
            scratch: &mut *scratch,
        }
        .run(isa, &mut machine.pool);
        let square = View::new(gram, short, short);
        Product {
            a: square,
            b: square,
            out: Grid::new(polynomial, short),
            epilogue: AddScaled { matrix: gram, columns: short, factor: b, scale: c },
            products: Products::Float32,
            scratch: &mut *scratch,
        }
        .run(isa, &mut machine.pool);
        let square = View::new(polynomial, short, short);
        let (left, right) = if out > inputs { (rows, square) } else { (square, rows) };
        Product {
            a: left,
            b: right,
            out: Grid::new(next, inputs),
            epilogue: AddScaled { matrix: x, columns: inputs, factor: a, scale: 1.0 },
            products: Products::Float32,
            scratch: &mut *scratch,
        }
        .run(isa, &mut machine.pool);
        std::mem::swap(&mut x, &mut next);
    }

    let lr = f64::from(arguments.lr) * f64::from(muon.lr_ratio);
    let decay_factor = (1.0 - lr * f64::from(muon.weight_decay)) as f32;
    let lr = (lr * muon.adjustment(out as u64, inputs as u64)) as f32;
    let parts =
        (Blocks::new(parameter, BLOCK), Blocks::new(gradient, BLOCK), Blocks::new(x, BLOCK));
    machine.pool.for_each(parts, |_, (parameter, gradient, x)| {
        gradient.fill(0.0);
        isa.run(ParameterUpdate { parameter, x, decay_factor, lr });
    });
}

/// The first `count` elements, and the floats after them.
fn take<E: Pod>(scratch: &mut [f32], count: usize) -> (&mut [E], &mut [f32]) {
    let floats = (count * size_of::<E>()).div_ceil(size_of::<f32>());
    let (taken, rest) = scratch.split_at_mut(floats);
    (&mut bytemuck::cast_slice_mut(taken)[..count], rest)
}

/// Updates the momentum and writes the matrix to orthogonalise; returns its sum of squares.
struct MomentumUpdate<'a, E> {
    momentum: &'a mut [f32],
    gradient: &'a [f32],
    x: &'a mut [E],
    muon: &'a Muon,
    factor: f32,
}

impl<E: Element> Kernel for MomentumUpdate<'_, E> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        let Self { momentum, gradient, x, muon, factor } = self;
        let rest = (1.0 - f64::from(muon.momentum)) as f32;
        let mut sums = [0.0_f64; 16];
        let pieces = momentum.chunks_mut(16).zip(gradient.chunks(16)).zip(x.chunks_mut(16));
        for ((momentum, gradient), x) in pieces {
            for (((m, g), x), sum) in momentum.iter_mut().zip(gradient).zip(x).zip(&mut sums) {
                let g = *g * factor;
                *m = simd.fma1(rest, g - *m, *m);
                let u = if muon.nesterov { simd.fma1(muon.momentum, *m - g, g) } else { *m };
                *x = E::narrow(u);
                let stored = f64::from(x.widen());
                *sum += stored * stored;
            }
        }
        sums.iter().sum()
    }
}

struct Division<'a, E> {
    x: &'a mut [E],
    by: f32,
}

impl<E: Element> Kernel for Division<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for x in self.x {
            *x = E::narrow(x.widen() / self.by);
        }
    }
}

struct ParameterUpdate<'a, E> {
    parameter: &'a mut [f32],
    x: &'a [E],
    decay_factor: f32,
    lr: f32,
}

impl<E: Element> Kernel for ParameterUpdate<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (p, x) in self.parameter.iter_mut().zip(self.x) {
            *p = *p * self.decay_factor - self.lr * x.widen();
        }
    }
}
