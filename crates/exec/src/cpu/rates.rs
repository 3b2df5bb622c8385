//! The machine's peak rates, measured in the same run as the kernels that are compared with them.

use std::{hint::black_box, time::Instant};

use super::{
    isa::{Isa, Kernel, Simd},
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
    let threads = pool.threads();
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        let mut flops = vec![0; threads];
        let start = Instant::now();
        pool.for_each(Blocks::new(&mut flops, 1), |_, flops| flops[0] = isa.run(FusedMultiplyAdds));
        best = best.max(flops.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64());
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
