//! What bytes look like if they are not UTF-8: another encoding, or tokens.

use std::path::Path;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

/// How many bytes that are not ASCII a guess needs.
const LEAST_BYTES: usize = 4;

/// How many bytes a guess of a two-byte encoding without a mark needs.
const LEAST_TWO_BYTE: usize = 16;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether a file is called as datasets call their tokens.
pub(super) fn is_of_tokens(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_split = |name: &str| ["train", "val"].iter().any(|split| name.contains(split));
    name.strip_suffix(".bin").is_some_and(is_split)
}

/// The name of a two-byte encoding that the beginning of a text has, as `iconv` spells it.
pub(super) fn of_two_bytes(first: &[u8]) -> Option<&'static str> {
    match first {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Some("UTF-16"),
        _ => {}
    }
    if first.len() < LEAST_TWO_BYTE {
        return None;
    }
    // Without a mark: every second byte of Latin letters is zero.
    let zeros = |odd: usize| first.iter().skip(odd).step_by(2).filter(|byte| **byte == 0).count();
    let (high_first, low_first) = (zeros(0), zeros(1));
    let is_most = |zeros: usize, others: usize| zeros > first.len() / 4 && others * 16 < zeros;
    if is_most(low_first, high_first) {
        Some("UTF-16LE")
    } else if is_most(high_first, low_first) {
        Some("UTF-16BE")
    } else {
        None
    }
}

/// The name of the encoding that `bytes`, which are not UTF-8, look like, as `iconv` spells it. `None`
/// if they look like UTF-8 with errors, like no text, or if there are too few to tell.
pub(super) fn guess(bytes: &[u8]) -> Option<&'static str> {
    let n_high = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    if n_high < LEAST_BYTES || bytes.contains(&0) {
        return None;
    }
    let valid: usize = bytes.utf8_chunks().map(|chunk| chunk.valid()).map(high_bytes).sum();
    if 2 * valid > n_high {
        return None;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let name = detector.guess(None, Utf8Detection::Deny).name();
    // These two are names of browsers.
    let is_known = !name.starts_with("x-") && name != "ISO-8859-8-I";
    is_known.then_some(name)
}

fn high_bytes(text: &str) -> usize {
    text.bytes().filter(|byte| !byte.is_ascii()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_recognised_by_their_bytes() {
        // "The sky is high and the clouds are light; people read in the garden." and others.
        let table: [(&[u8], Option<&str>); 7] = [
            (
                b"\xcc\xec\xb8\xdf\xd4\xc6\xb5\xad\xa3\xac\xc8\xcb\xc3\xc7\xd4\xda\xbb\xa8\xd4\xb0\xc0\xef\xb6\xc1\xca\xe9\xa1\xa3",
                Some("GBK"),
            ),
            (
                b"\x82\xb1\x82\xea\x82\xcd\x93\xfa\x96{\x8c\xea\x82\xcc\x95\xb6\x8f\xcd\x82\xc5\x82\xb7\x81B",
                Some("Shift_JIS"),
            ),
            (b"Der s\xfc\xdfe Br\xe4ndi kostet f\xfcnf Mark.", Some("windows-1252")),
            (b"one byte \xff is no evidence", None),
            ("größtenteils UTF-8: äöü\u{fffd}".as_bytes(), None),
            (b"\xff\x00\xfe\x01\x80\x81", None),
            (b"", None),
        ];
        for (bytes, name) in table {
            assert_eq!(guess(bytes), name, "{}", bytes.escape_ascii());
        }
        let broken = [" größtenteils UTF-8".as_bytes(), b"\xff"].concat();
        assert_eq!(guess(&broken), None);
    }

    #[test]
    fn two_byte_texts_are_recognised_with_and_without_a_mark() {
        let of = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(bytes).collect()
        };
        let marked = "\u{feff}天高云淡";
        assert_eq!(of_two_bytes(&of(marked, u16::to_le_bytes)), Some("UTF-16"));
        assert_eq!(of_two_bytes(&of(marked, u16::to_be_bytes)), Some("UTF-16"));
        assert_eq!(of_two_bytes(&of("once upon a time", u16::to_le_bytes)), Some("UTF-16LE"));
        assert_eq!(of_two_bytes(&of("once upon a time", u16::to_be_bytes)), Some("UTF-16BE"));
        for text in ["", "a", "once upon a time", "a\0b"] {
            assert_eq!(of_two_bytes(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(of_two_bytes(&[0; 64]), None);
    }
}
