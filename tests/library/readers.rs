//! Runs every reader of foreign files on its seeds, on kept findings, and on mutated copies of both.
//!
//! The readers are those of `fuzz/`, which is not part of the workspace. The copies are not guided by
//! coverage, but the same on every machine; `FITGPT_FUZZ` sets their number for each input, of which a
//! slow reader gets a hundredth.
//! `scripts/fuzz` searches longer, guided by coverage.

#[path = "../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a library in `fuzz/`")]
mod targets;

use std::{fs, path::Path};

use targets::{FuzzTarget, TARGETS};

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// A copy with up to four changes: bytes replaced, inserted, repeated, or the end removed.
fn mutated(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.below(256) as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 if at < bytes.len() => bytes[at] = b"\0\xff(){}[]\"'=:,0919-.eE#\n"[random.below(23)],
            _ => {
                let end = (at + random.below(32)).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Inputs that once made a reader fail: the files in `findings/NAME`.
fn findings(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/findings").join(name);
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn any_bytes_give_a_value_or_an_error() {
    let count = std::env::var("FITGPT_FUZZ").map_or(2000, |count| count.parse().unwrap());
    for FuzzTarget { name, read, seeds, is_slow } in TARGETS {
        let mut random = Random(1);
        let count = if *is_slow { count / 100 } else { count };
        let inputs: Vec<_> = seeds().into_iter().chain(findings(name)).collect();
        assert!(!inputs.is_empty(), "{name}");
        for input in inputs {
            read(&input);
            for _ in 0..count {
                read(&mutated(&input, &mut random));
            }
        }
    }
}

#[test]
fn every_target_has_a_binary_for_the_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
}
