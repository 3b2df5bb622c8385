//! Sizes in memory as people write them: `12GB` is 12·10^9 bytes, `11.5GiB` 11.5·2^30.

/// Unit and bytes, largest first. `G` alone is decimal, `Gi` binary.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Bytes of a size such as `12GB`, `11.5 gib`, `8g` or `12000000000`; at least one.
///
/// Exact; a fraction of a byte is dropped.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')));
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let unit = unit.trim();
    let bytes = if unit.is_empty() { Some(1) } else { unit_bytes(unit) };
    let Some(unit_bytes) = bytes else { return scientific(text) };

    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}").replace('_', "");
    let fraction_digits = fraction.bytes().filter(u8::is_ascii_digit).count();
    // 25 digits times 2^40 stay below 2^128.
    if digits.is_empty() || digits.len() > 25 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scaled = digits.parse::<u128>().ok()? * u128::from(unit_bytes);
    let bytes = scaled / 10_u128.pow(fraction_digits as u32);
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

fn unit_bytes(unit: &str) -> Option<u64> {
    let with_b = format!("{unit}B");
    let names = |name: &str| name.eq_ignore_ascii_case(unit) || name.eq_ignore_ascii_case(&with_b);
    UNITS.into_iter().find(|(name, _)| names(name)).map(|(_, bytes)| bytes)
}

/// `12e9`, a plain number of bytes.
fn scientific(text: &str) -> Option<u64> {
    if !text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+')) {
        return None;
    }
    let bytes: f64 = text.parse().ok()?;
    let is_exact = bytes >= 1.0 && bytes < (1_u64 << 63) as f64 && bytes.fract() == 0.0;
    is_exact.then_some(bytes as u64)
}

/// The shortest exact text for this many bytes.
pub(super) fn text(bytes: u64) -> String {
    let exact = UNITS.into_iter().filter(|(_, unit)| bytes.is_multiple_of(*unit));
    let texts = exact.map(|(name, unit)| format!("{}{name}", bytes / unit));
    texts.min_by_key(String::len).unwrap_or_else(|| bytes.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        let table = [
            ("12GB", 12_000_000_000),
            ("12 gb", 12_000_000_000),
            ("12G", 12_000_000_000),
            ("11.5GiB", 12_348_030_976),
            ("8Gi", 8 << 30),
            ("512MiB", 512 << 20),
            ("1.5kb", 1_500),
            ("2TiB", 2 << 40),
            ("12_000B", 12_000),
            ("12000000000", 12_000_000_000),
            ("12e9", 12_000_000_000),
            (".5KiB", 512),
        ];
        for (text, bytes) in table {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn a_malformed_size_does_not_parse() {
        let table = [
            "",
            "GB",
            "0GB",
            "0",
            "-1GB",
            "12XB",
            "1.2.3GB",
            "12GBB",
            "0.4B",
            "1e999",
            "nan",
            "inf",
            ".",
            "99999999TiB",
            "18446744073709551616",
            "1e-3",
            "éGB",
            "12GB 5",
        ];
        for text in table {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_size_reads_back_as_it_was_written(bytes in 1_u64..) {
            prop_assert_eq!(parse(&text(bytes)), Some(bytes));
        }
    }
}
