//! Unsafe code is only in the files that `CONTRIBUTING.md` lists.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Files with unsafe code.
const ALLOWED: &[&str] = &[
    "crates/exec/src/arena.rs",
    "crates/exec/src/cpu/attention/heads.rs",
    "crates/exec/src/cpu/isa/mod.rs",
    "crates/exec/src/cpu/isa/x86.rs",
    "crates/exec/src/cpu/parts.rs",
    "crates/exec/src/cpu/pool.rs",
    "crates/exec/src/cpu/product.rs",
    "crates/gpu/src/arena.rs",
    "crates/gpu/src/cuda/driver.rs",
    "crates/gpu/src/cuda/library.rs",
    "crates/gpu/src/cuda/ptx.rs",
    "crates/gpu/src/cuda/server.rs",
    "crates/gpu/src/dispatch.rs",
    "crates/gpu/src/gate.rs",
    "crates/gpu/src/memory.rs",
    "crates/gpu/src/pools.rs",
];

/// Tests with unsafe code.
const ALLOWED_TESTS: &[&str] = &[
    "crates/exec/src/cpu/attention/tests.rs",
    "crates/gpu/src/cuda/simulated.rs",
    "crates/exec/tests/no_allocation.rs",
    "tests/batches_allocate_nothing.rs",
    "tests/loom/tests/pool.rs",
    "tests/stand_ins/nvml.rs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder`.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Whether a source text has the keyword, outside comments: followed by a block or an item.
fn has_unsafe_code(source: &str) -> bool {
    let code: String = source.lines().map(|line| line.split("//").next().unwrap()).collect();
    code.split("unsafe").skip(1).any(|after| {
        let after = after.trim_start();
        ["{", "(", "fn ", "impl", "trait ", "extern "].iter().any(|next| after.starts_with(next))
    })
}

#[test]
fn unsafe_code_is_only_in_the_files_that_are_listed() {
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests"] {
        rust_files(&root().join(folder), &mut files);
    }
    let name = |path: PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let with_unsafe =
        files.into_iter().filter(|path| has_unsafe_code(&fs::read_to_string(path).unwrap()));
    let found: BTreeSet<String> = with_unsafe.map(name).collect();
    let listed = ALLOWED.iter().chain(ALLOWED_TESTS).map(|path| (*path).to_owned()).collect();
    assert_eq!(found, listed);
}

#[test]
fn contributing_lists_every_file_with_unsafe_code() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    for path in ALLOWED {
        assert!(text.contains(&format!("`{path}`")), "{path}");
    }
}

#[test]
fn the_search_finds_every_form_and_nothing_else() {
    // Split, so that this file does not count.
    let keyword = concat!("un", "safe");
    for form in ["{ f() }", "fn f() {}", "impl Sync for T {}", "trait T {}", "extern \"C\" {}"] {
        assert!(has_unsafe_code(&format!("x\n    {keyword} {form}\n")), "{form}");
    }
    for text in
        ["// KEY { }", "#[allow(unused_KEY, reason = \"…\")]", "KEY_code", "\"no KEY here\""]
    {
        assert!(!has_unsafe_code(&text.replace("KEY", keyword)), "{text}");
    }
}
