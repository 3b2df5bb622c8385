//! Inside a crate, a module uses only modules that are declared above it.
//!
//! The rule holds for the modules of every folder: code of one module, or of a module inside it, may
//! name items of those modules next to it that its folder declares before it. Re-exports are
//! followed to the module that defines the item. There are no exceptions.
//!
//! The documents that describe the tree are checked too ([`documents`]).

mod documents;
mod sources;

use std::{collections::BTreeMap, fs, path::PathBuf};

use sources::{Crate, Reference};

/// `config::keys > family`, with a place in the code.
type Violations = BTreeMap<String, String>;

/// The references against the order of declarations, between modules of one folder.
fn violations(of: &Crate) -> Violations {
    let mut found = Violations::new();
    for Reference { from, line, to } in of.references() {
        let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let (Some(user), Some(used)) = (from.get(shared), to.get(shared)) else { continue };
        let order = &of.modules[&from[..shared]].children;
        let position = |name: &String| order.iter().position(|child| child == name);
        if position(used) > position(user) {
            let arrow = format!("{} > {}", from[..=shared].join("::"), to[..=shared].join("::"));
            found.entry(arrow).or_insert_with(|| format!("{}, line {line}", from.join("::")));
        }
    }
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every crate but the program, which is one file: its name and the folder of its sources.
fn crates() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let name = |folder: &PathBuf| format!("fitgpt-{}", folder.file_name().unwrap().display());
    let mut found: Vec<_> = folders.map(|folder| (name(&folder), folder.join("src"))).collect();
    found.sort();
    found
}

#[test]
fn modules_use_only_modules_that_are_declared_above_them() {
    let mut found = Vec::new();
    for (name, folder) in crates() {
        let all = Crate::read("lib.rs", &|file| fs::read_to_string(folder.join(file)).ok());
        let entry = |(arrow, place)| format!("{name}: {arrow} (in {place})");
        found.extend(violations(&all).into_iter().map(entry));
    }
    assert!(
        found.is_empty(),
        "a module uses one that its folder declares below it; move the item or the module:\n{}",
        found.join("\n")
    );
}

/// The violations of a crate whose files are given as text.
fn of_files(files: &[(&str, &str)]) -> Vec<String> {
    let read = |name: &str| {
        let found = files.iter().find(|(file, _)| *file == name);
        found.map(|(_, text)| (*text).to_owned())
    };
    violations(&Crate::read("lib.rs", &read)).into_keys().collect()
}

#[test]
fn violations_are_found_in_every_form() {
    let found = |low: &str| {
        of_files(&[
            ("lib.rs", "mod low; mod high;"),
            ("low.rs", low),
            ("high.rs", "pub struct H; pub fn f() {}"),
        ])
    };
    let violation = ["low > high"];
    for code in [
        "use crate::high::H;",
        "use super::{high::{self, H}};",
        "use crate::{high as other};",
        "use super::high::*;",
        "pub use crate::high::H;",
        "fn g() { crate::high::f() }",
        "fn g() -> Vec<super::high::H> { Vec::new() }",
        "fn g() { println!(\"{}\", crate::high::f()) }",
        "macro_rules! m { () => { $crate::high::f() } }",
        "mod inner { use super::super::high::H; }",
        "#[cfg(unix)] use crate::high::H;",
        "const C: char = '\\''; fn g() { crate::high::f() }",
    ] {
        assert_eq!(found(code), violation, "{code}");
    }
    for code in [
        "// crate::high::f()",
        "/* /* */ crate::high::f() */",
        "const TEXT: &str = \"crate::high::f()\";",
        "const TEXT: &str = r#\"\"crate::high::f()\"#;",
        "#[cfg(test)] mod tests { use crate::high::H; }",
        "#[cfg(test)] use crate::high::H; fn g() {}",
        "use std::high::H;",
        "fn g<'a>(x: &'a str) {} fn h() -> char { '\"' }",
    ] {
        assert!(found(code).is_empty(), "{code}");
    }
}

#[test]
fn re_exports_are_followed_to_the_module_that_defines_the_item() {
    let files = |user: &'static str| {
        of_files(&[
            ("lib.rs", "mod face; mod low; mod high; pub use high::H as Top;"),
            ("face/mod.rs", "mod inner; pub use crate::high::H; pub use inner::*;"),
            ("face/inner.rs", "pub struct Inner;"),
            ("low.rs", user),
            ("high.rs", "pub struct H;"),
        ])
    };
    let always = "face > high";
    assert_eq!(files("use crate::face::Inner;"), [always]);
    assert_eq!(files("use crate::face::H;"), [always, "low > high"]);
    assert_eq!(files("use crate::face; fn f(_: face::H) {}"), [always, "low > high"]);
    assert_eq!(files("use super::Top;"), [always, "low > high"]);
}

#[test]
fn the_rule_holds_in_folders_and_for_files_with_other_names() {
    let found = of_files(&[
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "#[cfg(feature = \"x\")]\n#[path = \"with_x.rs\"]\nmod x;\n#[cfg(not(feature = \"x\"))]\nmod x;\nmod y;\npub struct Own;",
        ),
        ("a/with_x.rs", "use super::{Own, y::Y};"),
        ("a/x.rs", ""),
        ("a/y.rs", "use super::x; pub struct Y;"),
    ]);
    assert_eq!(found, ["a::x > a::y"]);
}
