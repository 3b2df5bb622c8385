//! Kernels as PTX in the program itself: with them, a card needs only NVIDIA's driver.
//!
//! `scripts/ptx` writes `kernels.ptx.zst`. It has a kernel for each combination of types, options and
//! widths of a head that a config can ask for, compiled for [`ARCHITECTURE`]; the driver compiles it
//! further for the card. The tests in `gate.rs` fail if a kernel is missing, superfluous or outdated.
//!
//! Unpacked, the file has for each kernel a line with its key and the length of its PTX, and then the PTX.

use std::{collections::HashMap, io::Read, ops::Range};

use super::canonical::KernelKey;

/// The oldest architecture that loads the stored kernels: NVIDIA's Ampere.
pub(crate) const ARCHITECTURE: u32 = 80;

/// The widest head, after padding, that has stored kernels.
pub(crate) const WIDEST_HEAD: usize = 256;

const FILE: &[u8] = include_bytes!("kernels.ptx.zst");

/// The stored kernels, unpacked.
#[derive(Debug)]
pub(crate) struct StoredKernels {
    unpacked: Vec<u8>,
    places: HashMap<KernelKey, Range<usize>>,
}

impl StoredKernels {
    /// Unpacks them, or reports what is wrong with the file.
    pub(crate) fn unpack() -> Result<Self, String> {
        Self::read(FILE)
    }

    fn read(file: &[u8]) -> Result<Self, String> {
        let mut unpacked = Vec::new();
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(file)
            .map_err(|error| format!("the stored kernels cannot be unpacked: {error}"))?;
        decoder
            .read_to_end(&mut unpacked)
            .map_err(|error| format!("the stored kernels cannot be unpacked: {error}"))?;
        let places = places(&unpacked).ok_or("the stored kernels have an unknown form")?;
        Ok(Self { unpacked, places })
    }

    /// The PTX of a kernel, ending with a zero byte.
    pub(crate) fn get(&self, key: KernelKey) -> Option<&[u8]> {
        self.places.get(&key).map(|place| &self.unpacked[place.clone()])
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> impl Iterator<Item = KernelKey> + '_ {
        self.places.keys().copied()
    }
}

fn places(unpacked: &[u8]) -> Option<HashMap<KernelKey, Range<usize>>> {
    let mut places = HashMap::new();
    let mut at = 0;
    while at < unpacked.len() {
        let end = at + unpacked[at..].iter().position(|byte| *byte == b'\n')?;
        let (key, length) = std::str::from_utf8(&unpacked[at..end]).ok()?.split_once(' ')?;
        let start = end + 1;
        at = start.checked_add(length.parse().ok()?)?;
        if unpacked.get(start..at)?.last() != Some(&0) {
            return None;
        }
        places.insert(KernelKey(u128::from_str_radix(key, 16).ok()?), start..at);
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_by_its_key() {
        let keys = ["a", "b", "c"].map(KernelKey::of);
        let file = format!("{} 4\nptx\0{} 5\nlong\0", keys[0], keys[1]);
        let found = places(file.as_bytes()).unwrap();
        let get = |key| found.get(&key).map(|place: &Range<usize>| &file[place.clone()]);
        assert_eq!(keys.map(get), [Some("ptx\0"), Some("long\0"), None]);
    }

    #[test]
    fn a_broken_file_is_refused() {
        for text in ["0 4\nptx", "0 3\nptx", "0 4", "x 4\nptx\0", "0 99999999999999999999\n"] {
            assert_eq!(places(text.as_bytes()), None, "{text:?}");
        }
        assert!(StoredKernels::read(b"no archive").is_err());
    }

    #[test]
    fn stored_kernels_are_for_the_oldest_supported_architecture() {
        let stored = StoredKernels::unpack().unwrap();
        let target = format!(".target sm_{ARCHITECTURE}");
        for key in stored.keys() {
            let ptx = std::str::from_utf8(stored.get(key).unwrap()).unwrap();
            assert!(ptx.contains(&target) && ptx.contains(".version 8.0"), "{key}");
        }
    }
}
