//! The machine's peak rates, measured in the same run as the kernels that are compared with them.

use std::{hint::black_box, time::Instant};

use super::{
    isa::{Isa, Kernel, PairTile, Simd, SumStart},
    parts::Blocks,
    pool::Pool,
};

/// FLOP/s of fused multiply-adds on registers, on all threads at once.
pub fn peak_flops_per_s(isa: Isa, pool: &mut Pool) -> f64 {
    const ROUNDS: usize = 4_000_000;
    struct FusedMultiplyAdds;
    impl Kernel for FusedMultiplyAdds {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> usize {
            let (x, y) = (black_box(simd.splat(0.5)), black_box(simd.splat(0.25)));
            let mut sums = [simd.splat(1.0); 12];
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = simd.fma(*sum, x, y);
                }
            }
            black_box(sums);
            2 * sums.len() * S::LANES * ROUNDS
        }
    }
    fastest(pool, || isa.run(FusedMultiplyAdds))
}

/// FLOP/s of products of bfloat16 pairs in the L1 cache, on all threads at once; `None` if the
/// machine has no instruction for them.
pub fn peak_pair_flops_per_s(isa: Isa, pool: &mut Pool) -> Option<f64> {
    const ROUNDS: usize = 5_000;
    const ROWS: usize = 12;
    const COLUMNS: usize = 32;
    const DEPTH: usize = 120;
    struct PairProducts;
    impl Kernel for PairProducts {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> usize {
            let (a, b) = (black_box([0.5; ROWS * DEPTH]), black_box([0.25; COLUMNS * DEPTH]));
            let mut c = [0.0; ROWS * COLUMNS];
            for _ in 0..ROUNDS {
                simd.pair_tile::<ROWS, 2, 1>(PairTile {
                    a: &a,
                    a_depth: ROWS,
                    b: &b,
                    b_stride: COLUMNS,
                    c: &mut c,
                    c_stride: COLUMNS,
                    depth: DEPTH,
                    sum: SumStart::New,
                });
            }
            black_box(&mut c);
            4 * ROWS * 2 * S::LANES * DEPTH * ROUNDS
        }
    }
    isa.has_pairs().then(|| fastest(pool, || isa.run(PairProducts)))
}

/// The best rate of `work`, which returns what it counts, on all threads at once.
fn fastest(pool: &mut Pool, work: impl Fn() -> usize + Sync) -> f64 {
    let threads = pool.threads();
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        let mut counts = vec![0; threads];
        let start = Instant::now();
        pool.for_each(Blocks::new(&mut counts, 1), |_, count| count[0] = work());
        best = best.max(counts.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64());
    }
    best
}

/// Bytes read and written per second by a copy larger than every cache, on all threads at once.
pub fn peak_bytes_per_s(pool: &mut Pool) -> f64 {
    let from = vec![1.0_f32; 1 << 25];
    let mut to = vec![0.0_f32; 1 << 25];
    let block = 1 << 15;
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        let start = Instant::now();
        pool.for_each(Blocks::new(&mut to, block), |task, to| {
            to.copy_from_slice(&from[task.index * block..][..to.len()]);
        });
        best = best.max(2.0 * 4.0 * from.len() as f64 / start.elapsed().as_secs_f64());
    }
    black_box(&to);
    best
}
