//! Measures matrix products: GFLOP/s, and the share of the machine's peak.
//!
//! Before it is timed, each product is checked against f64 sums on sampled elements. The peak is
//! the rate of fused multiply-adds on registers, measured in the same run.
//!
//!     cargo run --release -p fitgpt-exec --example matmul_rate [-- avx2|portable|…]

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::inline_always, reason = "compiles a kernel for its instruction set")]

use std::{hint::black_box, time::Instant};

use fitgpt_exec::cpu::{
    isa::{Isa, Kernel, Simd},
    matmul::{AddInto, Product, ProductShape, Store, View},
    parts::Grid,
    pool::Pool,
};
use fitgpt_program::Products;

/// Which of the three products of a linear layer.
#[derive(Clone, Copy, Debug)]
enum LinearPass {
    Forward,
    InputGrad,
    WeightGrad,
}

/// A layer from `inputs` to `outputs`, over `rows` tokens.
#[derive(Clone, Copy)]
struct Layer {
    name: &'static str,
    rows: usize,
    outputs: usize,
    inputs: usize,
}

const LAYERS: [Layer; 9] = [
    Layer { name: "qkv", rows: 4096, outputs: 2304, inputs: 768 },
    Layer { name: "attention out", rows: 4096, outputs: 768, inputs: 768 },
    Layer { name: "mlp in", rows: 4096, outputs: 3072, inputs: 768 },
    Layer { name: "mlp out", rows: 4096, outputs: 768, inputs: 3072 },
    Layer { name: "logits, a chunk", rows: 1024, outputs: 50304, inputs: 768 },
    Layer { name: "small qkv", rows: 768, outputs: 384, inputs: 128 },
    Layer { name: "small mlp in", rows: 768, outputs: 512, inputs: 128 },
    Layer { name: "small mlp out", rows: 768, outputs: 128, inputs: 512 },
    Layer { name: "one token", rows: 1, outputs: 50304, inputs: 768 },
];

fn main() {
    let isa = std::env::args().nth(1).map_or(Some(Isa::best()), |name| Isa::named(&name));
    let isa = isa.expect("an instruction set that this machine has");
    for threads in [1, 2] {
        let mut pool = Pool::new(threads).expect("threads");
        let peak = peak_gflops(isa, &mut pool);
        println!("{threads} threads, {}: {peak:.0} GFLOP/s on registers", isa.name());
        for layer in LAYERS {
            for pass in [LinearPass::Forward, LinearPass::InputGrad, LinearPass::WeightGrad] {
                if layer.rows == 1 && !matches!(pass, LinearPass::Forward) {
                    continue;
                }
                let (rate, bytes) = measure(layer, pass, isa, &mut pool);
                let Layer { name, rows, outputs, inputs } = layer;
                let pass = format!("{pass:?}");
                println!(
                    "  {name:16} {rows:5} x {outputs:5} x {inputs:4} {pass:11} {:6.1} GFLOP/s {:4.0} %  {:5.1} GB/s",
                    rate / 1e9,
                    rate / 1e7 / peak,
                    bytes / 1e9,
                );
            }
        }
    }
}

/// FLOP/s and bytes of operands per second: the best of several runs, over at least half a second.
fn measure(layer: Layer, pass: LinearPass, isa: Isa, pool: &mut Pool) -> (f64, f64) {
    let Layer { rows, outputs, inputs, .. } = layer;
    let x = numbers(rows * inputs, 1);
    let d_out = numbers(rows * outputs, 2);
    let weight = numbers(outputs * inputs, 3);
    let x = View::new(&x, rows, inputs);
    let d_out = View::new(&d_out, rows, outputs);
    let weight = View::new(&weight, outputs, inputs);
    let (a, b) = match pass {
        LinearPass::Forward => (x, weight.transposed()),
        LinearPass::InputGrad => (d_out, weight),
        LinearPass::WeightGrad => (d_out.transposed(), x),
    };
    let shape = ProductShape { rows: a.rows(), columns: b.columns(), depth: a.columns() };
    let mut scratch = vec![0.0; shape.scratch_bytes(pool.threads()) as usize / 4];
    let mut out = vec![0.0; shape.rows * shape.columns];
    let products = Products::Float32;
    let mut run = |out: &mut [f32]| {
        let (out, scratch) = (Grid::new(out, shape.columns), &mut scratch[..]);
        match pass {
            LinearPass::WeightGrad => {
                let epilogue = AddInto::default();
                Product { a, b, out, epilogue, products, scratch }.run(isa, pool);
            }
            LinearPass::Forward | LinearPass::InputGrad => {
                let epilogue = Store::default();
                Product { a, b, out, epilogue, products, scratch }.run(isa, pool);
            }
        }
    };
    run(&mut out);
    check(a, b, &out);
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    let mut runs = 0;
    while runs < 3 || start.elapsed().as_secs_f64() < 0.5 {
        let start = Instant::now();
        run(&mut out);
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    let flop = 2.0 * shape.rows as f64 * shape.columns as f64 * shape.depth as f64;
    let bytes = 4 * (shape.rows * shape.depth + shape.depth * shape.columns + out.len());
    (flop / best, bytes as f64 / best)
}

/// Compares about 500 elements with f64 sums, within the error of an f32 sum of this depth.
fn check(a: View<'_, f32>, b: View<'_, f32>, out: &[f32]) {
    let (columns, depth) = (b.columns(), a.columns());
    for element in (0..out.len()).step_by((out.len() / 500).max(1) | 1) {
        let (row, column) = (element / columns, element % columns);
        let products = (0..depth).map(|k| f64::from(a.at(row, k)) * f64::from(b.at(k, column)));
        let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
        let error = (f64::from(out[element]) - sum).abs();
        assert!(error <= size * depth as f64 * f64::from(f32::EPSILON), "at {row}, {column}");
    }
}

/// Pseudorandom numbers between -1 and 1.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / f32::from_bits(0x4B00_0000) - 1.0
    };
    (0..len).map(next).collect()
}

/// GFLOP/s of all threads on registers alone.
fn peak_gflops(isa: Isa, pool: &mut Pool) -> f64 {
    const STEPS: usize = 4_000_000;
    let threads = pool.threads();
    let mut best: f64 = 0.0;
    for _ in 0..10 {
        let start = Instant::now();
        pool.run(threads, |_| {
            black_box(isa.run(Chains(STEPS)));
        });
        let flop = isa.run(Lanes) * 2 * CHAINS * STEPS * threads;
        best = best.max(flop as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

/// Enough independent sums to keep two units with a latency of four cycles busy.
const CHAINS: usize = 12;

struct Chains(usize);

impl Kernel for Chains {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let (x, y) = (simd.splat(black_box(0.5)), simd.splat(black_box(0.25)));
        let mut sums = [y; CHAINS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = simd.fma(x, *sum, y);
            }
        }
        sums.into_iter().map(|sum| simd.sum(sum)).sum()
    }
}

struct Lanes;

impl Kernel for Lanes {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        S::LANES
    }
}
