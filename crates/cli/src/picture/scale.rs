//! The axis of bytes: the height of a size, round sizes for the ticks, and the format of a size.

use fitgpt_program::units::Bytes;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Largest number of ticks above zero.
const TICKS: u64 = 8;

/// Formats a size in the largest binary unit that it reaches.
pub(crate) fn figure(bytes: Bytes) -> String {
    figure_next_to(bytes, bytes)
}

/// Formats a size in the unit of a larger one, so that sizes next to each other have one unit.
pub(crate) fn figure_next_to(bytes: Bytes, largest: Bytes) -> String {
    let (unit, name, digits) = unit_of(largest.get());
    let value = bytes.get() as f64 / unit as f64;
    let digits = if value > 0.0 && value < 0.1 { 3 } else { digits };
    format!("{value:.digits$} {name}")
}

const fn unit_of(bytes: u64) -> (u64, &'static str, usize) {
    match bytes {
        GIB.. => (GIB, "GiB", 2),
        MIB.. => (MIB, "MiB", 1),
        KIB.. => (KIB, "KiB", 1),
        _ => (1, "B", 0),
    }
}

/// From zero at the bottom to `top` at the upper edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    top: u64,
    height: u64, // in tenths
}

impl Scale {
    /// A scale with `highest` at four fifths, to leave space for labels above.
    pub(super) fn new(highest: Bytes, height: u64) -> Self {
        let top = highest.get().max(1).saturating_add(highest.get().div_ceil(4)).max(1);
        Self { top, height: height * 10 }
    }

    /// The height of `bytes` above the bottom in tenths, at most the top.
    pub(super) fn tenths(&self, bytes: Bytes) -> u64 {
        let above = u128::from(bytes.get()) * u128::from(self.height);
        // Rounded to the nearest; a class that is not empty gets at least one tenth.
        let tenths = (above + u128::from(self.top) / 2) / u128::from(self.top);
        u64::try_from(tenths).unwrap_or(u64::MAX).min(self.height)
    }

    /// Round sizes from zero upwards, each with its label.
    pub(super) fn ticks(&self) -> Vec<(Bytes, String)> {
        let (unit, name, _) = unit_of(self.top);
        // 1, 2, 2.5 or 5 times a power of ten, in thousandths of the unit.
        let powers = std::iter::successors(Some(1u128), |power| power.checked_mul(10));
        let steps = powers.flat_map(|power| [power, 2 * power, 5 * power / 2, 5 * power]);
        let thousandths = u128::from(self.top) * 1000 / u128::from(unit);
        let mut steps = steps.skip_while(|step| step * u128::from(TICKS) < thousandths);
        let step = steps.next().unwrap_or(1000);
        let count = thousandths / step;
        let tick = |index: u128| {
            let thousandths = index * step;
            let bytes = thousandths * u128::from(unit) / 1000;
            let fraction = format!("{:03}", thousandths % 1000);
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            let label = match thousandths {
                0 => "0".to_owned(),
                _ => format!("{}{point}{fraction} {name}", thousandths / 1000),
            };
            (Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)), label)
        };
        (0..=count).map(tick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_next_to_each_other_have_one_unit() {
        let figures = [2 << 20, 256 << 20, 12 << 30, 0];
        let figures = figures.map(|bytes| figure_next_to(Bytes::new(bytes), Bytes::new(12 << 30)));
        assert_eq!(figures, ["0.002 GiB", "0.25 GiB", "12.00 GiB", "0.00 GiB"]);
    }

    #[test]
    fn a_size_is_written_in_the_largest_unit_it_reaches() {
        let figures = [0, 900, 1536, 3 << 19, 1 << 30, (1 << 30) - 1];
        let figures = figures.map(|bytes| figure(Bytes::new(bytes)));
        assert_eq!(figures, ["0 B", "900 B", "1.5 KiB", "1.5 MiB", "1.00 GiB", "1024.0 MiB"]);
    }

    #[test]
    fn the_highest_leaves_a_fifth_above_it() {
        let scale = Scale::new(Bytes::new(8 * GIB), 300);
        assert_eq!(scale.tenths(Bytes::new(8 * GIB)), 2400);
        assert_eq!(scale.tenths(Bytes::ZERO), 0);
        assert_eq!(scale.tenths(Bytes::new(u64::MAX)), 3000);
    }

    #[test]
    fn ticks_are_round_and_few_at_every_size() {
        let labels = |highest| {
            let ticks = Scale::new(Bytes::new(highest), 300).ticks();
            ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(
            labels(6 * GIB),
            ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB", "5 GiB", "6 GiB", "7 GiB"]
        );
        assert_eq!(labels(2 * GIB), ["0", "0.5 GiB", "1 GiB", "1.5 GiB", "2 GiB", "2.5 GiB"]);
        for shift in 0..63 {
            let ticks = labels(3 << shift);
            assert!((4..=9).contains(&ticks.len()), "{ticks:?}");
        }
        assert_eq!(labels(0)[0], "0");
    }
}
