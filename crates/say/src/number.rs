//! Numbers as people write them.

use super::Lang;

/// Units that mark the number before them as a decimal, which German writes with a comma.
const UNITS: &[&str] = &[
    "B", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB", "ms", "s", "min", "h", "d", "%", "×",
    "GFLOP/s", "TFLOP/s", "GB/s", "Fache",
];

/// `524,288`; in German `524.288`.
pub fn grouped(lang: Lang, n: u64) -> String {
    let separator = if lang == Lang::German { '.' } else { ',' };
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

/// `text` with the decimal marks of `lang`.
pub fn localized(lang: Lang, text: String) -> String {
    if lang == Lang::German { with_commas(&text) } else { text }
}

/// Replaces the point of `12.5 GiB` by a comma. A number without a unit may be a version, and code
/// in backticks is pasted into a shell: both stay.
fn with_commas(text: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (index, part) in text.split('`').enumerate() {
        parts.push(if index % 2 == 0 { commas_outside_code(part) } else { part.to_owned() });
    }
    parts.join("`")
}

fn commas_outside_code(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('.') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = after[digits..].strip_prefix([' ', '-']).unwrap_or_default();
        let end = unit.find(|c: char| !(c.is_alphabetic() || "/%×".contains(c)));
        let has_unit = digits > 0 && UNITS.contains(&&unit[..end.unwrap_or(unit.len())]);
        let is_decimal = before.ends_with(|c: char| c.is_ascii_digit()) && has_unit;
        result.push_str(before);
        result.push(if is_decimal { ',' } else { '.' });
        rest = after;
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(Lang::English, 0), "0");
        assert_eq!(grouped(Lang::English, 999), "999");
        assert_eq!(grouped(Lang::English, 524_288), "524,288");
        assert_eq!(grouped(Lang::German, 1_000_000), "1.000.000");
    }

    #[test]
    fn a_number_with_a_unit_gets_a_decimal_comma() {
        for (english, german) in [
            ("12.5 GiB und 3.25 ms.", "12,5 GiB und 3,25 ms."),
            ("(1.83 ×), das 1.83-Fache", "(1,83 ×), das 1,83-Fache"),
            ("PyTorch 2.3, `--budget 11.5 GiB`", "PyTorch 2.3, `--budget 11.5 GiB`"),
            ("12.571 Tokens/s", "12.571 Tokens/s"),
            ("train.py 8. 1.5", "train.py 8. 1.5"),
        ] {
            assert_eq!(with_commas(english), german);
        }
    }
}
