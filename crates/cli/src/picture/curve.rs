//! The curve of a loss over steps in braille dots: two columns and four rows per character.

use std::fmt::Write as _;

const WIDTH: usize = 64; //  characters
const HEIGHT: usize = 10; // characters

/// Draws `points` (step, loss), with the axis at the left and the steps below. Points that are not
/// finite are skipped; `None` for fewer than two.
pub(crate) fn draw(points: &[(u64, f64)]) -> Option<String> {
    let points: Vec<_> = points.iter().copied().filter(|(_, loss)| loss.is_finite()).collect();
    let (first, last) = (points.first()?.0, points.last()?.0);
    if first >= last {
        return None;
    }
    let low = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
    let span = (high - low).max(1e-9);

    let (columns, rows) = (WIDTH * 2, HEIGHT * 4);
    let mut dots = vec![0u8; WIDTH * HEIGHT];
    let mut mark = |x: usize, y: usize| {
        // Dots 1, 2, 3, 7 run down the left column, 4, 5, 6, 8 down the right one.
        let bit = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]][x % 2][y % 4];
        dots[y / 4 * WIDTH + x / 2] |= bit;
    };
    for column in means(&points, first, last, columns).into_iter().enumerate() {
        if let (x, Some(loss)) = column {
            let y = ((high - loss) / span * (rows - 1) as f64).round() as usize;
            mark(x, y.min(rows - 1));
        }
    }

    let mut text = String::new();
    for (row, line) in dots.chunks(WIDTH).enumerate() {
        let label = match row {
            0 => format!("{high:8.4}"),
            _ if row + 1 == HEIGHT => format!("{low:8.4}"),
            _ => " ".repeat(8),
        };
        let line: String =
            line.iter().map(|d| char::from_u32(0x2800 + u32::from(*d)).unwrap_or(' ')).collect();
        let _ = writeln!(text, "  {label} ┤{}", line.trim_end_matches('\u{2800}'));
    }
    let ends = format!("{first:<w$}{last}", w = WIDTH - last.to_string().len());
    let _ = writeln!(text, "  {:8} └{}", "", "─".repeat(WIDTH));
    let _ = writeln!(text, "  {:8}  {ends}", "step");
    Some(text)
}

/// The mean loss in each of `columns` equal parts of the steps.
fn means(points: &[(u64, f64)], first: u64, last: u64, columns: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0u32); columns];
    for (step, loss) in points {
        let x = u128::from(step - first) * (columns as u128 - 1) / u128::from(last - first);
        let (sum, count) = &mut sums[x as usize];
        *sum += loss;
        *count += 1;
    }
    sums.into_iter().map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_loss_goes_from_the_upper_left_to_the_lower_right() {
        let points: Vec<_> = (0..=100u32).map(|s| (u64::from(s), f64::from(100 - s))).collect();
        let text = draw(&points).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 2);
        assert!(lines[0].starts_with("  100.0000 ┤\u{2809}"), "{text}");
        assert!(lines[HEIGHT - 1].ends_with(['\u{28c0}', '\u{2880}']), "{text}");
        assert!(lines[HEIGHT + 1].ends_with("100"));
    }

    #[test]
    fn one_point_or_none_give_no_picture() {
        assert_eq!(draw(&[]), None);
        assert_eq!(draw(&[(3, 1.0)]), None);
        assert_eq!(draw(&[(0, f64::NAN), (1, f64::NAN)]), None);
    }
}
