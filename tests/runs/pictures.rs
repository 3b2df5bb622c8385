//! `plan --svg`, `plan --html`, `plan --engine both`.

use std::{fs, path::Path};

use crate::program::{TINY, TestFolder};

/// A card on which nanoGPT's defaults fit with FitGPT but not with eager PyTorch.
const BOTH: &[&str] = &["plan", "--engine", "both", "--gpu=RTX 4070", "--compile=False"];

#[test]
fn the_picture_in_the_readme_is_that_of_its_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (_, line) = readme.split_once("`fitgpt plan ").unwrap();
    let line = format!("plan {}", line.split_once('`').unwrap().0);
    // As a shell splits them: every second piece was quoted.
    let mut args: Vec<&str> = Vec::new();
    for (index, piece) in line.split('"').enumerate() {
        if index % 2 == 1 { args.push(piece) } else { args.extend(piece.split_whitespace()) }
    }
    let place = TestFolder::new();
    fs::create_dir(place.path("docs")).unwrap();
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let drawn = fs::read_to_string(place.path("docs/plan.svg")).unwrap();
    let committed = fs::read_to_string(root.join("docs/plan.svg")).unwrap();
    assert!(drawn == committed, "run `fitgpt {line}` and commit what it draws");
}

#[test]
fn both_engines_answer_in_one_document_and_the_verdict_is_ours() {
    let place = TestFolder::new();
    let ran = place.run(&[BOTH, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let both = ran.json();
    assert_eq!(both["engine"], "both");
    assert_eq!((&both["fits"], &both["verdict"]), (&true.into(), &"fits".into()));
    assert_eq!(both["torch"]["fits"], false);
    for engine in ["fitgpt", "torch"] {
        let alone = [&["plan", "--engine", engine, "--json"], &BOTH[3..]].concat();
        assert_eq!(both[engine], place.run(&alone).json(), "{engine}");
    }
    let ran = place.run(&[BOTH, &["--budget=3GB", "--json"]].concat());
    assert_eq!((ran.code, &ran.json()["fits"]), (Some(1), &false.into()));
}

#[test]
fn both_engines_are_shown_side_by_side_with_their_ratio() {
    let place = TestFolder::new();
    let ran = place.run(BOTH);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for phase in ["  train          PyTorch ", "                 FitGPT  "] {
        assert!(ran.stdout.contains(phase), "{}", ran.stdout);
    }
    assert!(ran.stdout.contains(" × as much\n"), "{}", ran.stdout);
    let ran = place.run(&["fit", "--engine", "both"]);
    assert_eq!(ran.code, Some(2), "`fit` makes one engine fit");
}

#[test]
fn pictures_are_also_drawn_with_json_and_if_nothing_fits() {
    let place = TestFolder::new();
    let pictures = ["--svg=p.svg", "--html", "p.html", "--json", "--budget=1MB"];
    let ran = place.run(&[&["plan"], TINY, &pictures[..]].concat());
    assert_eq!((ran.code, &ran.json()["fits"]), (Some(1), &false.into()));
    let svg = fs::read_to_string(place.path("p.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(fs::read_to_string(place.path("p.html")).unwrap().contains(&svg));
    // The words of a picture are those of `--lang`.
    place.run(&[&["plan"], TINY, &["--svg=p.svg", "--lang=zh"]].concat());
    let svg = fs::read_to_string(place.path("p.svg")).unwrap();
    assert!(svg.contains("xml:lang=\"zh\"") && svg.contains(">激活值</text>"), "{svg}");
}

#[test]
fn a_picture_that_cannot_be_written_is_exit_code_two_and_named() {
    let place = TestFolder::new();
    for flag in ["--svg", "--html"] {
        let args = [&["plan", flag, "no/such/folder/p"], TINY].concat();
        let ran = place.run(&args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{flag}");
        assert!(ran.stderr.contains("no/such/folder/p"), "{}", ran.stderr);
        let error = place.run(&[&args[..], &["--json"]].concat()).json();
        assert_eq!(error["error"]["place"], "no/such/folder/p");
    }
}
