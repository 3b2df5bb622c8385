//! Kernels as PTX in the program itself: with them, a card needs only NVIDIA's driver.
//!
//! `scripts/ptx` writes `kernels.ptx.zst`. It has a kernel for each combination of types, options and
//! widths of a head that a config can ask for, compiled for [`ARCHITECTURE`]; the driver compiles it
//! further for the card. The tests in `gate.rs` fail if a kernel is missing, superfluous or outdated.
//!
//! Unpacked, the file has for each kernel a line with its key and the length of its PTX, and then the PTX.
//!
//! There are 418 kernels, 23.7 MB of PTX, 1.34 MB with Zstandard. The set of kernels is finite:
//! types, options and the width of a head choose a kernel, heads are padded to multiples of 32
//! channels (of 64 above 128), tiles need no more shared memory than every card has, and every
//! other size is an argument. Heads of more than 256 channels have no stored kernels and are
//! refused with their width. `gate.rs` dispatches every combination of choices and fails unless its
//! kernels are the stored ones, none missing, changed or left over; random configs then may need no
//! other. The PTX is for `sm_80`, the first architecture with tensor cores for bfloat16. Older cards
//! (GTX 16, RTX 20, V100, T4) are refused with their architecture and run through Vulkan; a second
//! set without tensor cores could not be tested any better and would double the file. NVRTC is CUDA
//! 12.0's: PTX is loaded by drivers of its own CUDA version and newer, so those from 525 (December
//! 2022) on load it. ptxas targets several blocks per multiprocessor, and therefore spilled up to
//! 48 bytes in some kernels of attention though registers were left; in these the PTX asks for one
//! block. The gradients of keys and values of heads of 128 channels take all 255 registers: with
//! one loop over heads and one over their tiles, `sm_90` spilled the counter of heads, so there is
//! one loop over both. Nothing spills on `sm_80`, `sm_86`, `sm_89`, `sm_90` and `sm_120`
//! (`scripts/cuda-architectures`); `scripts/ptx` refuses kernels that do. NVRTC at run time remains
//! for kernels that were edited and not stored yet; what it makes is kept in the user's cache.

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
