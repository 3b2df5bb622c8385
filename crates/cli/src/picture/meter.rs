//! A meter of memory in use, as a line of blocks with a mark for the plan.

use fitgpt_program::units::Bytes;

/// Columns of a meter.
pub(crate) const WIDTH: usize = 40;

/// What a meter shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Used by the process or machine that is watched: `█`.
    pub(crate) own: Bytes,
    /// Used by others: `▒`.
    pub(crate) others: Bytes,
    /// The meter's end; larger values fill it.
    pub(crate) whole: Bytes,
    /// The plan's mark: `┃`.
    pub(crate) mark: Option<Bytes>,
}

impl Meter {
    /// The line of blocks, [`WIDTH`] columns.
    pub(crate) fn draw(&self) -> String {
        let (own, all) = (self.column(self.own), self.column(self.own + self.others));
        let fill = |column| match column {
            c if c < own => '█',
            c if c < all => '▒',
            _ => '·',
        };
        let mark = self.mark.map(|mark| self.column(mark).min(WIDTH - 1));
        (0..WIDTH).map(|c| if mark == Some(c) { '┃' } else { fill(c) }).collect()
    }

    /// Columns up to `bytes`; at least one unless it is zero.
    fn column(&self, bytes: Bytes) -> usize {
        let exact = u128::from(bytes.get()) * WIDTH as u128;
        (exact.div_ceil(u128::from(self.whole.get().max(1))) as usize).min(WIDTH)
    }
}

/// The last [`WIDTH`] values over time, each in eighths of `whole`.
pub(crate) fn history(values: &[Bytes], whole: Bytes) -> String {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let whole = u128::from(whole.get().max(1));
    let eighth = |bytes: &Bytes| (u128::from(bytes.get()) * 8).div_ceil(whole).min(8) as usize;
    let last = &values[values.len().saturating_sub(WIDTH)..];
    last.iter().map(|bytes| EIGHTHS[eighth(bytes)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(own: u64, others: u64, mark: Option<u64>) -> String {
        let (own, others) = (Bytes::new(own), Bytes::new(others));
        Meter { own, others, whole: Bytes::new(40), mark: mark.map(Bytes::new) }.draw()
    }

    #[test]
    fn a_meter_always_has_the_same_width() {
        for (own, others, mark) in
            [(0, 0, None), (3, 4, Some(20)), (90, 1, Some(70)), (40, 0, None)]
        {
            assert_eq!(meter(own, others, mark).chars().count(), WIDTH);
        }
        assert_eq!(Meter::default().draw(), "·".repeat(WIDTH));
    }

    #[test]
    fn own_bytes_come_before_those_of_others_and_the_mark_is_drawn_over_both() {
        assert_eq!(meter(3, 2, Some(8)), format!("███▒▒···┃{}", "·".repeat(31)));
        assert_eq!(
            meter(30, 0, Some(8)),
            format!("{}┃{}{}", "█".repeat(8), "█".repeat(21), "·".repeat(10))
        );
        assert_eq!(meter(0, 0, Some(400)), format!("{}┃", "·".repeat(39)));
    }

    #[test]
    fn history_ends_with_the_newest_and_shows_any_value_above_zero() {
        let values = [0, 1, 40, 80].map(Bytes::new);
        assert_eq!(history(&values, Bytes::new(80)), " ▁▄█");
        assert_eq!(history(&[Bytes::new(8); 99], Bytes::new(8)), "█".repeat(WIDTH));
        assert_eq!(history(&[], Bytes::new(8)), "");
    }
}
