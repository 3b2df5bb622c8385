//! Compares products of bfloat16 pairs with their definition, bit by bit: with the instruction if
//! this machine has it, and emulated on every instruction set.

use super::*;
use crate::reference::bfloat16;

/// Every kind of number: of about one, of any exponent, below the normal range, zeros.
fn patterns(len: usize, seed: u32) -> Vec<bf16> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let number = |_| {
        let (kind, bits) = (next() % 16, next() as u16);
        match kind {
            0 => bf16::from_bits(bits & 0x807F),
            1 => bf16::from_bits(bits & 0x8000),
            // Products of such numbers are near the smallest normal number.
            2 | 3 => bf16::from_bits((bits & 0x87FF) | 0x1800),
            4 => bf16::from_bits((bits & 0x80FF) | 0x3F00),
            // Up to 2⁴⁰, so that no sum is infinite.
            5 => bf16::from_bits((bits % 0x5380) | (bits & 0x8000)),
            _ => bf16::from_f32((f32::from(bits) - 32768.0) / 20000.0),
        }
    };
    (0..len).map(number).collect()
}

/// Float32 numbers, most of which a factor cannot hold.
fn unrounded(len: usize, seed: u32) -> Vec<f32> {
    let mut numbers = fractions(len, seed);
    numbers.iter_mut().step_by(17).for_each(|x| *x *= 2f32.powi(-126));
    numbers
}

fn as_factors<E: Element>(numbers: &[E]) -> Vec<bf16> {
    numbers.iter().map(|x| bf16::from_bits(bfloat16::factor(x.widen()))).collect()
}

/// The definition's product; every element from its row and its column.
fn defined<A: Element, B: Element>(a: View<'_, A>, b: View<'_, B>) -> Vec<u32> {
    let vector = |numbers: Vec<f32>| as_factors(&numbers);
    let rows =
        (0..a.rows()).map(|row| vector((0..a.columns()).map(|k| a.at(row, k).widen()).collect()));
    let columns = (0..b.columns())
        .map(|column| vector((0..b.rows()).map(|k| b.at(k, column).widen()).collect()));
    let columns: Vec<_> = columns.collect();
    rows.flat_map(|a| columns.iter().map(|b| bfloat16::dot(&a, b).to_bits()).collect::<Vec<_>>())
        .collect()
}

/// Runs `kernel` with the instruction for pairs and without it.
fn on_every_isa_emulated_too(kernel: impl Kernel + Copy) {
    on_every_isa(kernel);
    Isa::all().for_each(|isa| drop(isa.without_pairs().run(kernel)));
}

#[derive(Clone, Copy)]
struct EqualsDefinition {
    rows: usize,
    columns: usize,
    depth: usize,
}

impl EqualsDefinition {
    #[inline(always)]
    fn check<S: Simd, A: Element, B: Element>(self, simd: S, a: &[A], b: &[B]) {
        let Self { rows, columns, depth } = self;
        for a in [View::new(a, rows, depth), View::new(a, depth, rows).transposed()] {
            for b in [View::new(b, depth, columns), View::new(b, columns, depth).transposed()] {
                let expected = defined(a, b);
                let usual = BlockLimits::USUAL;
                let found = product_of(simd, Pairs, Products::Bfloat16, 2, usual, a, b);
                let wrong = bits(&found).iter().zip(&expected).position(|(x, y)| x != y);
                assert!(
                    wrong.is_none(),
                    "element {wrong:?} of {rows} x {columns} x {depth}, pairs: {}",
                    simd.has_pairs()
                );
            }
        }
    }
}

impl Kernel for EqualsDefinition {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { rows, columns, depth } = self;
        let (a, b) = (patterns(rows * depth, 1), patterns(depth * columns, 2));
        self.check(simd, &a, &b);
        self.check(simd, &a, &unrounded(depth * columns, 3));
        self.check(simd, &unrounded(rows * depth, 4), &b);
        // From an odd element on, pairs are not aligned.
        let shifted = patterns(rows * depth + 1, 5);
        self.check(simd, &shifted[1..], &b);
    }
}

#[test]
fn products_of_pairs_have_the_bits_of_their_definition() {
    let shapes = [
        (1, 1, 1),
        (1, 50, 7),
        (2, 33, 9),
        (3, 5, 0),
        (5, 3, 10),
        (12, 32, 16),
        (13, 65, 30),
        (40, 31, 101),
        (192, 32, 70),
        (193, 33, 11),
        (150, 70, 40),
        (7, 17, 1537),
        (24, 20, 1600),
        (0, 4, 3),
    ];
    for (rows, columns, depth) in shapes {
        on_every_isa_emulated_too(EqualsDefinition { rows, columns, depth });
    }
}

#[test]
fn products_of_pairs_deeper_than_a_slab_have_the_bits_of_their_definition() {
    Isa::best().run(EqualsDefinition { rows: 200, columns: 3, depth: 6500 });
}

#[derive(Clone, Copy)]
struct Tiny {
    rows: usize,
    columns: usize,
    depth: usize,
}

impl Kernel for Tiny {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { rows, columns, depth } = self;
        let (a, b) = (whole::<bf16>(rows * depth, 1), whole::<f32>(depth * columns, 2));
        let (a, b) = (View::new(&a, rows, depth), View::new(&b, depth, columns));
        let found = product_of(simd, Pairs, Products::Bfloat16, 3, TINY, a, b);
        for (found, expected) in found.iter().zip(plain(a, b)) {
            assert!(f64::from(*found).to_bits() == (expected + 0.0).to_bits());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn products_of_pairs_in_small_pieces_equal_the_plain_product(
        rows in 1_usize..300, columns in 1_usize..150, depth in 0_usize..120,
    ) {
        Isa::best().run(Tiny { rows, columns, depth });
    }
}

/// Adds one pair to one sum, with the instruction.
struct OnePair {
    sum: f32,
    a: [u16; 2],
    b: [u16; 2],
}

impl Kernel for OnePair {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        use crate::cpu::isa::{PairTile, SumStart, slot};
        // The sum is the product of an earlier step: one times itself, if it has so few bits.
        let first = [bfloat16::factor(self.sum), 0];
        let a = [slot(first[0], first[1]), slot(self.a[0], self.a[1])];
        let mut b = [slot(0x3F80, 0); 32];
        b[16..].fill(slot(self.b[0], self.b[1]));
        let mut c = [0.0; 16];
        simd.pair_tile::<1, 1, 1>(PairTile {
            a: &a,
            a_depth: 1,
            b: &b,
            b_stride: 16,
            c: &mut c,
            c_stride: 16,
            depth: 2,
            sum: SumStart::New,
        });
        c[0]
    }
}

#[test]
fn the_instruction_adds_as_the_definition_does() {
    let Some(isa) = Isa::all().find(|isa| isa.has_pairs()) else { return };
    let special: Vec<u16> = [0, 1, 0x7F, 0x80, 0x81, 0x3F80, 0x3F81, 0x7F7F, 0x7F80]
        .into_iter()
        .chain((0x1A00..0x2100).step_by(37))
        .flat_map(|bits| [bits, bits | 0x8000])
        .collect();
    let sums = [0x0080, 0x8080, 0x0081, 0, 0x3F80, 0x8000, 0x7F7F, 0x7F80];
    for (i, &x) in special.iter().enumerate() {
        for (j, &y) in special.iter().enumerate() {
            let (a, b) = ([x, special[(i * 7 + j) % special.len()]], [y, special[j / 2]]);
            for sum in sums {
                let sum = f32::from_bits(sum << 16);
                let expected = bfloat16::add_pair(
                    bfloat16::add_pair(0.0, [bfloat16::factor(sum), 0], [0x3F80, 0]),
                    a,
                    b,
                );
                let found = isa.run(OnePair { sum, a, b });
                let both_nan = expected.is_nan() && found.is_nan();
                assert!(
                    both_nan || expected.to_bits() == found.to_bits(),
                    "{sum:e} and {a:x?} times {b:x?}: {found:e}, not {expected:e}"
                );
            }
        }
    }
}
