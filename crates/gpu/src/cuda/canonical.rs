//! Gives equal kernels equal texts.
//!
//! CubeCL numbers the values of a kernel (`v17`) in an order that differs between processes, because
//! it iterates over hash tables with random seeds, and the name of the kernel's function ends in a hash
//! that depends on the build. [`canonical`] numbers values in the order in which they appear and replaces
//! the function's name. After that the text depends on the kernel alone, so that a hash of it finds the
//! kernel's PTX.
//!
//! Before this, two processes gave 118 of 369 kernels the same text; now all. The simulated card
//! also compiles each kernel only once that way.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
};

/// The hash of a kernel's canonical text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KernelKey(pub(super) u128);

impl KernelKey {
    /// FNV-1a with 128 bits, which is the same in every build. Nobody crafts kernels with equal hashes.
    pub(crate) fn of(text: &str) -> Self {
        const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let add = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        Self(text.bytes().fold(OFFSET, add))
    }
}

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The name of a kernel's function, without the hash that CubeCL appends. It ends in `_kernel`, because
/// the rest may be the name of a function of CUDA.
pub(super) fn function_name(entry: &str) -> String {
    let base = match entry.rsplit_once('_') {
        Some((base, hash)) if is_hash(hash) => base,
        _ => entry,
    };
    format!("{base}_kernel")
}

fn is_hash(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `text` with values numbered by their first appearance, and with the function `entry` renamed.
pub(super) fn canonical(text: &str, entry: &str, name: &str) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !is_word(first) {
            result.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        // A number is a word, too: `0x1v2` is not a value.
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        rest = after;
        match value_number(word).filter(|_| !first.is_ascii_digit()) {
            Some((prefix, number)) => {
                let next = numbers.len();
                let number = numbers.entry(number).or_insert(next);
                let _ = write!(result, "{prefix}v{number}");
            }
            None => result += if word == entry { name } else { word },
        }
    }
    result
}

/// Splits the name of a value, `v17` or `name_v17`, into what comes before `v` and the number.
fn value_number(word: &str) -> Option<(&str, &str)> {
    let (prefix, number) = word.rsplit_once('v')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && (prefix.is_empty() || prefix.ends_with('_'))).then_some((prefix, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_by_their_first_appearance() {
        let text = "f_0a1b2c3d(int x_v90, int v7) { float v12 = x_v90 + v7 * 0x1v2 + 1.5e3; av3; }";
        let other = text.replace("v90", "v4").replace("v12", "v90").replace("f_0a1b2c3d", "f_11");
        let expected = "g(int x_v0, int v1) { float v2 = x_v0 + v1 * 0x1v2 + 1.5e3; av3; }";
        assert_eq!(canonical(text, "f_0a1b2c3d", "g"), expected);
        assert_eq!(canonical(&other, "f_11", "g"), expected);
    }

    #[test]
    fn values_that_are_exchanged_are_another_text() {
        let [one, other] = ["v1 = v2 - v3", "v1 = v3 - v2; v2"].map(|text| canonical(text, "", ""));
        assert_ne!(one, other);
        let key = |text| KernelKey::of(&canonical(text, "", ""));
        assert_ne!(key("v5 v6; v5 - v6"), key("v5 v6; v6 - v5"));
    }

    #[test]
    fn the_name_of_a_function_has_no_hash() {
        assert_eq!(function_name("backward_keys_0f3ab9c1"), "backward_keys_kernel");
        assert_eq!(function_name("backward_keys"), "backward_keys_kernel");
    }

    #[test]
    fn the_key_is_the_published_hash() {
        assert_eq!(KernelKey::of("a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
    }
}
