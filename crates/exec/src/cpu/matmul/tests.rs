//! Compares products with plain loops.
//!
//! Operands are small integers if possible: their sums are exact in f32, so results must be equal,
//! and no tolerance can hide a missing or extra term.

mod pairs;

use fitgpt_program::Gelu;
use half::{bf16, f16};
use proptest::prelude::*;

use super::*;
use crate::cpu::{gelu, isa::Portable, parts::Grid};

/// Small limits, so that a few hundred numbers reach every loop.
const TINY: BlockLimits = BlockLimits {
    depth_block: 8,
    blocks_per_slab: 2,
    b_floats: 600,
    band_floats: 2000,
    narrow_rows: 16,
    tasks_per_thread: 4,
};

/// Integers from -8 to 8, exact in every storage type.
fn whole<E: Element>(len: usize, seed: usize) -> Vec<E> {
    (0..len).map(|i| E::narrow(((i * 7919 + seed * 104_729) % 8191 % 17) as f32 - 8.0)).collect()
}

/// Numbers between -1 and 1 that use all bits of the fraction.
fn fractions(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed | 1;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(next).collect()
}

fn plain<A: Element, B: Element>(a: View<'_, A>, b: View<'_, B>) -> Vec<f64> {
    let mut out = Vec::new();
    for row in 0..a.rows() {
        for column in 0..b.columns() {
            let products = (0..a.columns())
                .map(|k| f64::from(a.at(row, k).widen()) * f64::from(b.at(k, column).widen()));
            out.push(products.sum());
        }
    }
    out
}

/// Runs `kernel` with every instruction set of this machine, and with sixteen portable lanes.
fn on_every_isa(kernel: impl Kernel + Copy) {
    Isa::all().for_each(|isa| drop(isa.run(kernel)));
    Portable::<16>.run(kernel);
}

/// The product in f32, with exactly enough scratch, surrounded by guards.
fn product<S: Simd, A: Element, B: Element>(
    simd: S,
    threads: usize,
    limits: BlockLimits,
    a: View<'_, A>,
    b: View<'_, B>,
) -> Vec<f32> {
    product_of(simd, Singles, Products::Float32, threads, limits, a, b)
}

/// The same with this arithmetic, and the slots for it.
fn product_of<S: Simd, P: Slots, A: Element, B: Element>(
    simd: S,
    slots: P,
    products: Products,
    threads: usize,
    limits: BlockLimits,
    a: View<'_, A>,
    b: View<'_, B>,
) -> Vec<f32> {
    const GUARD: f32 = 12345.0;
    let shape = ProductShape { rows: a.rows(), columns: b.columns(), depth: a.columns() };
    let shape = shape.in_slots(products);
    let needed = shape.scratch_floats(threads, limits) as usize;
    let mut scratch = vec![GUARD; needed + 64];
    scratch[32..][..needed].fill(f32::NAN);
    let mut out = vec![f32::NAN; shape.rows * shape.columns];
    let product = Product {
        a,
        b,
        out: Grid::new(&mut out, shape.columns),
        epilogue: Store::default(),
        products,
        scratch: &mut scratch[32..][..needed],
    };
    product.with(simd, slots, &mut Pool::new(threads).unwrap(), limits);
    let guards = scratch[..32].iter().chain(&scratch[32 + needed..]);
    assert!(guards.into_iter().all(|x| x.to_bits() == GUARD.to_bits()));
    out
}

#[derive(Clone, Copy)]
struct EqualsPlain {
    rows: usize,
    columns: usize,
    depth: usize,
    limits: BlockLimits,
}

impl EqualsPlain {
    #[inline(always)]
    fn check<S: Simd, A: Element, B: Element>(self, simd: S) {
        let Self { rows, columns, depth, limits } = self;
        let (a, b) = (whole::<A>(rows * depth, 1), whole::<B>(depth * columns, 2));
        for a in [View::new(&a, rows, depth), View::new(&a, depth, rows).transposed()] {
            for b in [View::new(&b, depth, columns), View::new(&b, columns, depth).transposed()] {
                let got = product(simd, 2, limits, a, b);
                let expected = plain(a, b);
                for (i, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
                    let (row, column) = (i / columns, i % columns);
                    assert!(
                        f64::from(got).to_bits() == (expected + 0.0).to_bits(),
                        "{got}, not {expected}, at {row}, {column} of {rows} x {columns} x {depth}"
                    );
                }
            }
        }
    }
}

impl Kernel for EqualsPlain {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.check::<S, f32, f32>(simd);
        self.check::<S, bf16, f32>(simd);
        self.check::<S, f16, bf16>(simd);
    }
}

#[test]
fn products_of_odd_shapes_equal_the_plain_product() {
    let shapes = [
        (1, 1, 1),
        (1, 50, 7),
        (2, 33, 9),
        (3, 5, 0),
        (5, 3, 9),
        (6, 16, 8),
        (7, 17, 385),
        (13, 65, 30),
        (40, 31, 100),
        (192, 32, 70),
        (193, 33, 11),
        (250, 140, 64),
        (150, 270, 40),
        (200, 20, 800),
        (0, 4, 3),
        (4, 0, 3),
    ];
    for (rows, columns, depth) in shapes {
        on_every_isa(EqualsPlain { rows, columns, depth, limits: BlockLimits::USUAL });
    }
}

#[test]
fn products_deeper_than_a_slab_equal_the_plain_product() {
    on_every_isa(EqualsPlain { rows: 200, columns: 6, depth: 3500, limits: BlockLimits::USUAL });
    on_every_isa(EqualsPlain { rows: 3, columns: 6, depth: 3500, limits: BlockLimits::USUAL });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn products_in_small_pieces_equal_the_plain_product(
        rows in 1_usize..300, columns in 1_usize..150, depth in 0_usize..60,
    ) {
        on_every_isa(EqualsPlain { rows, columns, depth, limits: TINY });
    }
}

#[derive(Clone, Copy)]
struct WithinTheBound;

impl Kernel for WithinTheBound {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (rows, columns, depth) = (210, 35, 1000);
        let (a, b) = (fractions(rows * depth, 1), fractions(depth * columns, 2));
        let (a, b) = (View::new(&a, rows, depth), View::new(&b, depth, columns));
        let got = product(simd, 2, BlockLimits::USUAL, a, b);
        for (i, (&got, exact)) in got.iter().zip(plain(a, b)).enumerate() {
            let (row, column) = (i / columns, i % columns);
            let sizes = (0..depth).map(|k| f64::from((a.at(row, k) * b.at(k, column)).abs()));
            // A sum of n products rounds n times, by at most half an epsilon each.
            let bound = depth as f64 * f64::from(f32::EPSILON) / 2.0 * sizes.sum::<f64>();
            assert!((f64::from(got) - exact).abs() <= bound);
        }
    }
}

#[test]
fn errors_of_fractions_are_within_the_rounding_bound() {
    on_every_isa(WithinTheBound);
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[derive(Clone, Copy)]
struct SameForAnyThreads;

impl Kernel for SameForAnyThreads {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (rows, columns, depth) in [(5, 70, 100), (110, 90, 100), (250, 130, 55)] {
            let (a, b) = (fractions(rows * depth, 1), fractions(depth * columns, 2));
            let (a, b) = (View::new(&a, rows, depth), View::new(&b, depth, columns));
            for limits in [BlockLimits::USUAL, TINY] {
                let [one, two, three] =
                    [1, 2, 3].map(|threads| bits(&product(simd, threads, limits, a, b)));
                assert!(one == two && two == three, "{rows} x {columns} x {depth}");
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    on_every_isa(SameForAnyThreads);
}

#[test]
fn threads_have_about_equal_work() {
    for (rows, columns) in [(768, 384), (512, 128), (128, 512), (4096, 768), (3072, 768)] {
        for (threads, depth) in [(2, 768), (2, 4096), (3, 768), (8, 768)] {
            let blocking =
                ProductShape { rows, columns, depth }.blocking(threads, BlockLimits::USUAL);
            let mut longest = 0;
            for band in blocking.bands(rows) {
                let tasks = band.len().div_ceil(blocking.task_rows)
                    * columns.div_ceil(blocking.task_columns);
                longest += tasks.div_ceil(threads) * blocking.task_rows * blocking.task_columns;
            }
            let share = longest as f64 * threads as f64 / (rows * columns) as f64;
            assert!(share < 1.13, "{share} of {rows} by {columns} by {depth}, {threads} threads");
        }
    }
}

#[derive(Clone, Copy)]
struct SameForAnyShape;

impl Kernel for SameForAnyShape {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (columns, depth) = (75, 900);
        let (a, b) = (fractions(200 * depth, 1), fractions(depth * columns, 2));
        let first = View::new(&b[..10 * depth], 10, depth).transposed();
        let b = View::new(&b, columns, depth).transposed();
        let all = product(simd, 2, BlockLimits::USUAL, View::new(&a, 200, depth), b);
        for rows in [1, 2, 3, 4, 7, 40, 192, 193] {
            let a = View::new(&a[..rows * depth], rows, depth);
            let few = product(simd, 2, BlockLimits::USUAL, a, b);
            assert!(bits(&few) == bits(&all[..rows * columns]), "{rows} rows");
            let fewer = product(simd, 2, BlockLimits::USUAL, a, first);
            for (few, fewer) in few.chunks(columns).zip(fewer.chunks(10)) {
                assert!(bits(&few[..10]) == bits(fewer), "{rows} rows, 10 columns");
            }
        }
    }
}

#[test]
fn an_element_does_not_depend_on_the_number_of_rows_and_columns() {
    on_every_isa(SameForAnyShape);
}

#[test]
#[should_panic(expected = "needs scratch of")]
fn scratch_that_is_too_short_is_refused() {
    let shape = ProductShape { rows: 100, columns: 3, depth: 2 };
    let (a, b) = (vec![0.0; 200], vec![0.0; 6]);
    let mut out = vec![0.0; 300];
    Product {
        a: View::new(&a, 100, 2),
        b: View::new(&b, 2, 3),
        out: Grid::new(&mut out, 3),
        epilogue: Store::default(),
        products: Products::Float32,
        scratch: &mut vec![0.0; shape.scratch_bytes(1) as usize / 4 - 1],
    }
    .run(Isa::best(), &mut Pool::new(1).unwrap());
}

/// A product to run with an epilogue and without.
struct EpilogueCase {
    rows: usize,
    columns: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
}

impl EpilogueCase {
    fn new(rows: usize) -> Self {
        let (columns, depth) = (83, 20);
        Self {
            rows,
            columns,
            a: fractions(rows * depth, 1),
            b: fractions(depth * columns, 2),
            bias: fractions(columns, 3),
        }
    }

    fn run<O: OutputMatrices>(
        &self,
        isa: Isa,
        out: O,
        epilogue: impl for<'p> Epilogue<O::Tile<'p>>,
    ) {
        let depth = self.a.len() / self.rows;
        let shape = ProductShape { rows: self.rows, columns: self.columns, depth };
        let scratch = &mut vec![f32::NAN; shape.scratch_bytes(2) as usize / 4];
        let a = View::new(&self.a, self.rows, depth);
        let b = View::new(&self.b, depth, self.columns);
        let products = Products::Float32;
        Product { a, b, out, epilogue, products, scratch }.run(isa, &mut Pool::new(2).unwrap());
    }

    fn sums(&self, isa: Isa) -> Vec<f32> {
        let mut sums = vec![0.0; self.rows * self.columns];
        self.run(isa, Grid::new(&mut sums, self.columns), Store::default());
        sums
    }

    fn biased(&self, isa: Isa) -> Vec<f32> {
        let sums = self.sums(isa).into_iter().enumerate();
        sums.map(|(i, sum)| sum + self.bias[i % self.columns]).collect()
    }
}

/// The expected bits of stored values.
fn stored<T: Element>(x: impl IntoIterator<Item = f32>) -> Vec<u32> {
    x.into_iter().map(|x| T::narrow(x).widen().to_bits()).collect()
}

fn bits_of<T: Element>(x: &[T]) -> Vec<u32> {
    x.iter().map(|x| x.widen().to_bits()).collect()
}

struct Apply<'a>(Gelu, &'a [f32]);

impl Kernel for Apply<'_> {
    type Output = (Vec<f32>, Vec<f32>);
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let (mut values, mut slopes) = (vec![0.0; self.1.len()], vec![1.0; self.1.len()]);
        gelu::values(simd, self.0, self.1, &mut values);
        gelu::values_and_slopes(simd, self.0, &mut self.1.to_vec(), &mut slopes);
        (values, slopes)
    }
}

/// Drops every third element of even rows.
#[derive(Clone, Copy)]
struct Thirds;

impl Thirds {
    fn keeps(row: usize, column: usize) -> bool {
        row % 2 == 1 || !column.is_multiple_of(3)
    }
}

impl ResultDropout for Thirds {
    fn apply(&self, at: &RowSegment, _: usize, sums: &mut [f32]) {
        for (sum, column) in sums.iter_mut().zip(at.columns.clone()) {
            *sum *= if Self::keeps(at.row, column) { 1.5 } else { 0.0 };
        }
    }
}

fn epilogues_compute_their_formulas<T: Element>() {
    for (isa, rows) in Isa::all().flat_map(|isa| [(isa, 7), (isa, 130)]) {
        let case = EpilogueCase::new(rows);
        let (columns, len) = (case.columns, rows * case.columns);
        let (bias, biased) = (Some(&case.bias[..]), case.biased(isa));

        let mut out = vec![T::default(); len];
        case.run(isa, Grid::new(&mut out, columns), Store { bias, scale: 0.5 });
        let halved = case.sums(isa).into_iter().enumerate();
        let halved = halved.map(|(i, sum)| sum * 0.5 + case.bias[i % columns]);
        assert_eq!(bits_of(&out), stored::<T>(halved));

        let pre: Vec<f32> = biased.iter().map(|&x| T::narrow(x).widen()).collect();
        for gelu in [Gelu::Exact, Gelu::Tanh] {
            let (values, slopes) = isa.run(Apply(gelu, &pre));
            let (mut kept, mut out) = (vec![T::default(); len], vec![T::default(); len]);
            let grids = (Some(Grid::new(&mut kept, columns)), Grid::new(&mut out, columns));
            case.run(isa, grids, StoreGelu { bias, gelu });
            assert_eq!(bits_of(&kept), bits(&pre));
            assert_eq!(bits_of(&out), stored::<T>(values.iter().copied()));
            let grids = (None::<Grid<'_, T>>, Grid::new(&mut out, columns));
            case.run(isa, grids, StoreGelu { bias, gelu });
            let values = stored::<T>(values);
            assert_eq!(bits_of(&out), values);

            let grids = (Grid::new(&mut kept, columns), Grid::new(&mut out, columns));
            case.run(isa, grids, TimesGeluSlope { gelu });
            assert_eq!(bits_of(&kept), values);
            let expected = case.sums(isa).into_iter().zip(slopes).map(|(sum, slope)| sum * slope);
            assert_eq!(bits_of(&out), stored::<T>(expected));
        }

        let residual: Vec<T> = fractions(len, 9).into_iter().map(T::narrow).collect();
        let epilogue = AddResidual { bias, residual: &residual, columns, dropout: Some(Thirds) };
        case.run(isa, Grid::new(&mut out, columns), epilogue);
        let dropped = biased.iter().zip(&residual).enumerate().map(|(i, (x, residual))| {
            let is_kept = Thirds::keeps(i / columns, i % columns);
            residual.widen() + if is_kept { x * 1.5 } else { 0.0 }
        });
        assert_eq!(bits_of(&out), stored::<T>(dropped));
        let epilogue = AddResidual { bias, residual: &residual, columns, dropout: None::<Thirds> };
        case.run(isa, Grid::new(&mut out, columns), epilogue);
        let added = biased.iter().zip(&residual).map(|(x, residual)| residual.widen() + x);
        assert_eq!(bits_of(&out), stored::<T>(added));
    }
}

#[test]
fn epilogues_compute_their_formulas_in_every_storage_type() {
    epilogues_compute_their_formulas::<f32>();
    epilogues_compute_their_formulas::<bf16>();
    epilogues_compute_their_formulas::<f16>();
}

#[test]
#[expect(clippy::float_cmp, reason = "integers are exact")]
fn a_product_is_added_to_the_matrix() {
    for rows in [5, 130] {
        let (a, b) = (whole::<f32>(rows * 11, 1), whole::<f32>(11 * 40, 2));
        let case = EpilogueCase { rows, columns: 40, a, b, bias: Vec::new() };
        let before = whole::<f32>(rows * 40, 3);
        let mut out = before.clone();
        case.run(Isa::best(), Grid::new(&mut out, 40), AddInto { scale: 2.0 });
        for ((out, before), sum) in out.iter().zip(&before).zip(case.sums(Isa::best())) {
            assert_eq!(*out, before + 2.0 * sum);
        }
    }
}

fn columns_are_summed<E: Element>() {
    for isa in Isa::all() {
        for (rows, columns) in [(0, 5), (1, 1), (63, 64), (64, 65), (200, 130), (129, 7)] {
            let data = whole::<E>(rows * columns, 4);
            let mut out = whole::<f32>(columns, 5);
            let before = out.clone();
            ColumnSums { data: &data, out: &mut out }.run(isa, &mut Pool::new(3).unwrap());
            for (column, (out, before)) in out.iter().zip(before).enumerate() {
                let sum: f32 = (0..rows).map(|row| data[row * columns + column].widen()).sum();
                assert!(out.to_bits() == (before + sum).to_bits(), "{column} of {columns}");
            }
        }
    }
}

#[test]
fn columns_are_summed_in_every_storage_type() {
    columns_are_summed::<f32>();
    columns_are_summed::<bf16>();
    columns_are_summed::<f16>();
}

#[test]
fn few_sizes_of_tasks_are_tried_and_none_is_left_out() {
    for rows in (193_usize..3000).chain([65_536, 98_304, 1_000_003]) {
        for fewest in [rows.div_ceil(96), rows.div_ceil(96) + 7, rows.div_ceil(50)] {
            let shape = ProductShape { rows, columns: 64, depth: 64 };
            let mut all: Vec<_> = (fewest..=2 * fewest)
                .map(|tasks| rows.div_ceil(tasks).next_multiple_of(6).max(24))
                .collect();
            all.dedup();
            assert_eq!(shape.task_rows(fewest).collect::<Vec<_>>(), all, "{rows} in {fewest}");
        }
    }
    let rows = 1 << 44; // more than any config has
    assert!(ProductShape { rows, columns: 768, depth: 768 }.scratch_bytes(8) < 1 << 26);
}

proptest! {
    #[test]
    fn no_number_of_rows_needs_more_scratch_than_the_most(
        (columns, depth) in (1_usize..5000, 1_usize..5000),
        rows in 1_usize..30_000,
        threads in 1_usize..70,
        exact in 192_usize..400,
    ) {
        for (limits, divisor) in [(BlockLimits::USUAL, 1), (TINY, 16)] {
            let shape = |rows| ProductShape { rows, columns: columns.div_ceil(divisor), depth };
            let most = shape(rows).most_scratch_floats(threads, limits, exact);
            for rows in (1..=rows).step_by(rows.div_ceil(500)).chain([rows]) {
                prop_assert!(shape(rows).scratch_floats(threads, limits) <= most, "{}", rows);
            }
        }
    }
}
