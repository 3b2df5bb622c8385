//! Every reader on its seeds, on kept findings, and on copies with bytes changed, removed and repeated.
//!
//! Not guided by coverage, but the same on every machine. `FITGPT_FUZZ` sets the number of changed
//! copies of each input. `scripts/fuzz` searches longer, guided by coverage.

use std::{fs, path::Path};

use fitgpt_fuzz::{TARGETS, Target};

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

fn changed(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, numbers.below(256) as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            3 if at < bytes.len() => bytes[at] = b"\0\xff(){}[]\"'=:,0919-.eE#\n"[numbers.below(23)],
            _ => {
                let end = (at + numbers.below(32)).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Inputs that once made a reader fail: the files of `findings/NAME`.
fn findings(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("findings").join(name);
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn any_bytes_end_in_a_value_or_an_error() {
    let count = std::env::var("FITGPT_FUZZ").map_or(2000, |count| count.parse().unwrap());
    for Target { name, read, seeds } in TARGETS {
        let mut numbers = Numbers(1);
        let inputs: Vec<_> = seeds().into_iter().chain(findings(name)).collect();
        assert!(!inputs.is_empty(), "{name}");
        for input in inputs {
            read(&input);
            for _ in 0..count {
                read(&changed(&input, &mut numbers));
            }
        }
    }
}

#[test]
fn every_target_has_a_binary_for_the_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
}
