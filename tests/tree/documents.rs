//! The documents agree with the tree: links, named files, the picture of the crates, and the promises.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::root;

/// Files below `folder` with this extension, except for what was built or downloaded.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            if !["target", "node_modules"].contains(&&*name) && !name.starts_with('.') {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The path from the root, as documents write it.
fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

/// The documents for people: at the root and in `docs`.
fn documents() -> Vec<PathBuf> {
    let at_root = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let at_root = at_root.filter(|path| path.extension().is_some_and(|found| found == "md"));
    at_root.chain(files(&root().join("docs"), "md")).collect()
}

/// A document without its fenced blocks and comments.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("<!--")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The targets of `[text](target)`.
fn links(prose: &str) -> Vec<&str> {
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.trim()).collect()
}

/// What is wrong with a link of the document at `path`.
fn broken(path: &Path, target: &str) -> Option<String> {
    if target.starts_with("http://") || target.starts_with("https://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let linked = if file.is_empty() { path.into() } else { path.parent().unwrap().join(file) };
    if !linked.exists() {
        return Some(format!("{}: no file `{file}`", name(path)));
    }
    let is_there = anchor.is_empty() || anchors(&text(&linked)).contains(anchor);
    (!is_there).then(|| format!("{}: no heading `{target}`", name(path)))
}

#[test]
fn links_and_anchors_lead_somewhere() {
    let mut found = Vec::new();
    for path in documents() {
        let prose = prose(&text(&path));
        found.extend(links(&prose).into_iter().filter_map(|target| broken(&path, target)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_broken_link_is_found() {
    let readme = root().join("README.md");
    assert!(broken(&readme, "docs/no-such-file.md").is_some());
    assert!(broken(&readme, "#no-such-heading").is_some());
    assert!(broken(&readme, "ARCHITECTURE.md#the-crates").is_none());
    assert_eq!(links("a [b](c.md) and [d](e.md#f)"), ["c.md", "e.md#f"]);
}

/// The paths in backticks: with a slash, and a first part that is in the root's folder.
fn named_paths(prose: &str) -> BTreeSet<&str> {
    let quoted = prose.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        let first = word.split('/').next().unwrap_or_default();
        let is_plain = word.chars().all(|c| c.is_alphanumeric() || "./_-".contains(c));
        let is_ours = ["crates", "tests", "scripts", "docs", "python", "src", "tools", "bench"];
        word.contains('/') && is_plain && is_ours.contains(&first)
    };
    // Not what is written in capitals, to be replaced.
    let is_example = |word: &&str| word.split(['/', '.']).any(|part| part == "NAME");
    quoted.filter(is_path).filter(|word| !is_example(word)).collect()
}

#[test]
fn files_that_documents_name_exist() {
    let mut found = Vec::new();
    for path in documents() {
        let prose = prose(&text(&path));
        let missing = named_paths(&prose).into_iter().filter(|named| !root().join(named).exists());
        found.extend(missing.map(|named| format!("{}: no `{named}`", name(&path))));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn documents_that_people_read_to_the_end_are_short() {
    for (name, most) in [
        ("README.md", 9_000),
        ("README.zh.md", 4_500),
        ("README.ja.md", 4_500),
        ("README.de.md", 4_500),
        ("ARCHITECTURE.md", 13_000),
    ] {
        let bytes = text(&root().join(name)).len();
        assert!(bytes <= most, "{name} has {bytes} bytes; what can move to `docs`?");
    }
}

/// The crates of this workspace that each crate's manifest depends on, without those for tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let of = |folder: PathBuf| {
        let mut is_read = false;
        let manifest = text(&folder.join("Cargo.toml"));
        let used = manifest.lines().filter_map(|line| {
            if line.starts_with('[') {
                is_read = line.ends_with("dependencies]") && !line.contains("dev-");
            }
            let name = line.strip_prefix("fitgpt-").filter(|_| is_read)?;
            Some(name.split(['.', ' ', '=']).next()?.to_owned())
        });
        (folder.file_name().unwrap().to_string_lossy().into_owned(), used.collect())
    };
    folders.map(|entry| of(entry.unwrap().path())).collect()
}

/// Everything that a crate is built on, directly or through others.
fn all_below(of: &str, graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let direct = &graph[of];
    direct.iter().flat_map(|name| all_below(name, graph)).chain(direct.iter().cloned()).collect()
}

#[test]
fn the_picture_of_the_crates_is_that_of_their_manifests() {
    let graph = dependencies();
    let document = text(&root().join("ARCHITECTURE.md"));
    let picture = document.split("<!-- crates -->").nth(1).unwrap();
    let mut shown = BTreeSet::new();
    for line in picture.lines().filter(|line| !line.is_empty() && !line.starts_with("```")) {
        let name = line.split_whitespace().next().unwrap();
        let direct = &graph[name];
        let implied: BTreeSet<_> = direct.iter().flat_map(|used| all_below(used, &graph)).collect();
        let arrows: BTreeSet<_> = direct.difference(&implied).cloned().collect();
        // The purpose is in the last column, after at least three spaces.
        let written = line.split_once('→').map_or("", |(_, rest)| rest.trim());
        let written = written.split("   ").next().unwrap();
        let written: BTreeSet<_> = written.split_whitespace().map(str::to_owned).collect();
        assert_eq!(written, arrows, "the arrows of `{name}`");
        assert!(direct.is_subset(&shown), "`{name}` comes before what it uses");
        shown.insert(name.to_owned());
    }
    assert_eq!(shown.len(), graph.len(), "a crate is missing in the picture");
}

/// A paragraph `Promise: … Test: ….` in the head of a module.
struct Promise {
    module: String,
    text: String,
    test: String,
}

/// The comment at the head of a module.
fn head(module: &str, text: &str) -> String {
    if Path::new(module).extension().is_some_and(|extension| extension == "py") {
        let doc = text.strip_prefix("\"\"\"").and_then(|rest| rest.split_once("\"\"\""));
        return doc.map_or_else(String::new, |(doc, _)| doc.to_owned());
    }
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

fn promises() -> Vec<Promise> {
    let mut found = Vec::new();
    let rust = files(&root().join("crates"), "rs");
    let python = files(&root().join("python"), "py");
    for path in rust.into_iter().chain(python) {
        let module = name(&path);
        for paragraph in head(&module, &text(&path)).split("\n\n") {
            let Some(paragraph) = paragraph.trim().strip_prefix("Promise: ") else { continue };
            let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            let Some((text, test)) = paragraph.split_once(" Test: ") else {
                panic!("{module}: a promise without `Test:`")
            };
            let test = test.replace("this file", &format!("`{module}`"));
            found.push(Promise { module: module.clone(), text: text.to_owned(), test });
        }
    }
    found
}

/// `docs/promises.md` as it should be.
fn page_of_promises() -> String {
    let mut page = "# What does it promise?\n\nEach promise is a line of the module that keeps it \
                    (`Promise:`); this page is made from those lines by `tests/tree`. \
                    `scripts/test complete`\nruns every test named here; files in `scripts/` run \
                    longer versions and are started by hand.\n"
        .to_owned();
    let mut last = String::new();
    for Promise { module, text, test } in promises() {
        let group = match module.split('/').collect::<Vec<_>>()[..] {
            ["crates", name, ..] => format!("`crates/{name}`"),
            _ => "`fitgpt.torch`".to_owned(),
        };
        if group != last {
            let _ = write!(page, "\n## {group}\n\n");
            last = group;
        }
        let mut letters = text.chars();
        let first = letters.next().unwrap().to_uppercase();
        let _ = writeln!(page, "- {first}{} *Test:* {test}", letters.as_str());
    }
    page
}

#[test]
fn the_page_of_promises_is_made_from_the_modules() {
    let path = root().join("docs/promises.md");
    let page = page_of_promises();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/promises.md is not what the modules promise; \
         `INSTA_UPDATE=always cargo test --test tree promises` writes it"
    );
    assert!(promises().len() > 50);
}
