//! Terminal columns: a Chinese or Japanese character takes two.

use unicode_width::UnicodeWidthStr as _;

/// How many columns `text` takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// `text` padded on the left to `columns`.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(text.width())))
}

/// `text` padded on the right to `columns`.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(left("显存", 6), "显存  ");
        assert_eq!(left("メモリ", 4), "メモリ");
        assert_eq!(right("峰值", 5), " 峰值");
        assert_eq!(columns("峰值 peak"), 9);
    }
}
