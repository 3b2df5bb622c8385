//! Eight-bit codes for optimizer states: the dynamic maps of bitsandbytes.
//!
//! A code is an index into an ascending list of 256 numbers in [-1, 1] or [0, 1]: seven decades,
//! each with twice as many numbers as the one below, plus zero and one. A value is divided by the
//! largest magnitude of its block and gets the code of the nearest number; ties go to the even code.
//! A negative value never becomes zero, so signs are never lost.

use std::sync::LazyLock;

/// A map from codes to numbers, with tables that find the nearest number of a value.
#[derive(Debug)]
pub struct Codebook {
    /// By code, ascending.
    pub values: [f32; CODES],
    /// Values above `above[k]` have a code above `k`.
    above: [f32; CODES],
    /// The code of the smallest value of each cell: first the positive cells, then the negative
    /// ones.
    first: [[u8; CELLS]; 2],
    /// The highest positive code and the highest negative one.
    most: [u8; 2],
}

const CODES: usize = 256;

/// Low bits that do not select a cell. The exponent and seven bits of the fraction do, which makes
/// cells so narrow that none has more than two codes.
const BELOW_CELL: u32 = 16;
/// The cell of 2⁻²³. All smaller magnitudes share one cell.
const FIRST_CELL: u32 = (127 - 23) << 7;
/// The number of cells from there up to the cell of 1.
const CELLS: usize = (23 << 7) + 1;

static SIGNED: LazyLock<Codebook> = LazyLock::new(|| Codebook::new(&values(true), [255, 126]));
static UNSIGNED: LazyLock<Codebook> = LazyLock::new(|| Codebook::new(&values(false), [255, 0]));

impl Codebook {
    /// For first moments: numbers in [-1, 1].
    pub fn signed() -> &'static Self {
        &SIGNED
    }

    /// For second moments: numbers in [0, 1].
    pub fn unsigned() -> &'static Self {
        &UNSIGNED
    }

    fn new(values: &[f32; CODES], most: [u8; 2]) -> Self {
        let mut above = [f32::INFINITY; CODES];
        for (code, pair) in values.windows(2).enumerate() {
            let middle = (pair[0] + pair[1]) * 0.5;
            // A tie goes to the even code.
            above[code] = if code % 2 == 0 { middle } else { middle.next_down() };
        }
        let code_of = |x: f32| above.partition_point(|limit| x > *limit) as u8;
        let start = |cell: usize| match cell {
            0 => 0,
            _ => (FIRST_CELL + cell as u32) << BELOW_CELL,
        };
        let first = [
            std::array::from_fn(|cell| code_of(f32::from_bits(start(cell)))),
            std::array::from_fn(|cell| code_of(-f32::from_bits(start(cell + 1) - 1))),
        ];
        Self { values: *values, above, first, most }
    }

    /// The code of the number nearest to `x`, which must be in [-1, 1].
    #[inline(always)]
    pub(crate) fn code(&self, x: f32) -> u8 {
        let bits = x.to_bits();
        let sign = (bits >> 31) as usize;
        let cell = ((bits & 0x7fff_ffff) >> BELOW_CELL).saturating_sub(FIRST_CELL) as usize;
        let first = self.first[sign][cell.min(CELLS - 1)];
        let code = first + u8::from(x > self.above[usize::from(first)]);
        code.min(self.most[sign])
    }
}

/// bitsandbytes' `create_dynamic_map`, bit for bit as PyTorch computes it.
fn values(signed: bool) -> [f32; CODES] {
    let powers: [f32; 7] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
    let mut list = vec![0.0, 1.0];
    for (decade, power) in powers.into_iter().enumerate() {
        let count: usize = if signed { 1 << decade } else { 2 << decade };
        // `torch.linspace` counts from both ends and rounds once, so compute in f64 and round.
        let step = f64::from((1.0 - 0.1_f32) / count as f32);
        let boundary = |i: usize| {
            let exact = if i < count.div_ceil(2) {
                f64::from(0.1_f32) + step * i as f64
            } else {
                1.0 - step * (count - i) as f64
            };
            exact as f32
        };
        for i in 0..count {
            let value = power * ((boundary(i) + boundary(i + 1)) * 0.5);
            list.push(value);
            if signed {
                list.push(-value);
            }
        }
    }
    list.sort_by(f32::total_cmp);
    list.try_into().expect("there are 256 numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition at the top of the file, without tables.
    fn nearest(book: &Codebook, x: f32) -> u8 {
        let distance =
            |code: &u8| (f64::from(book.values[usize::from(*code)]) - f64::from(x)).abs();
        let codes = (0..=255_u8)
            .filter(|code| x.is_sign_positive() || book.values[usize::from(*code)] < 0.0);
        codes
            .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2))))
            .unwrap()
    }

    #[test]
    fn the_maps_contain_zero_one_and_their_end_values() {
        let (signed, unsigned) = (&Codebook::signed().values, &Codebook::unsigned().values);
        assert_eq!((signed[127], signed[255], signed[0]), (0.0, 1.0, -0.992_968_74));
        assert_eq!((unsigned[0], unsigned[255], unsigned[254]), (0.0, 1.0, 0.996_484_4));
        assert!(signed.is_sorted() && unsigned.is_sorted());
    }

    #[test]
    fn every_value_near_a_limit_gets_the_nearest_code() {
        for book in [Codebook::signed(), Codebook::unsigned()] {
            let middles = book.values.windows(2).map(|pair| f32::midpoint(pair[0], pair[1]));
            let mut all: Vec<f32> = book.values.into_iter().chain(middles).collect();
            all.extend([1e-30, 1.1e-7, 1.3e-7, 2e-7, 0.5, 0.25]);
            for x in all.iter().flat_map(|x| [x.next_down(), *x, x.next_up()]) {
                let is_inside = x.abs() <= 1.0 && (book.values[0] < 0.0 || x >= 0.0);
                // Which side of the tie these two lie on depends on how the midpoint was rounded.
                let is_tie = all.contains(&x) && !book.values.contains(&x);
                if is_inside && !is_tie {
                    let (found, expected) = (book.code(x), nearest(book, x));
                    let distance = |c: u8| (book.values[usize::from(c)] - x).abs();
                    assert!(distance(found) <= distance(expected), "{x:e}: {found}, {expected}");
                }
            }
        }
    }

    #[test]
    fn other_values_get_the_code_that_a_search_finds() {
        for book in [Codebook::signed(), Codebook::unsigned()] {
            for bits in (0x3300_0000..=0x3f80_0000_u32).step_by(997) {
                let x = f32::from_bits(bits);
                assert_eq!(book.code(x), nearest(book, x), "{x:e}");
                if book.values[0] < 0.0 {
                    assert_eq!(book.code(-x), nearest(book, -x), "-{x:e}");
                }
            }
        }
    }

    #[test]
    fn ties_go_to_the_even_code_and_signs_are_kept() {
        let book = Codebook::signed();
        for code in [0_u8, 1, 63, 64, 127, 200, 253, 254] {
            let pair = &book.values[usize::from(code)..][..2];
            let middle = (pair[0] + pair[1]) * 0.5;
            let even = code + code % 2;
            assert_eq!(book.code(middle), even, "{code}");
        }
        assert_eq!(book.code(-1e-12), 126);
        assert_eq!(book.code(1e-12), 127);
        assert_eq!(book.code(0.0), 127);
        assert_eq!((book.code(1.0), book.code(-1.0)), (255, 0));
    }
}
