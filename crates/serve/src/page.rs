//! The page's files: plain modules and styles, as they are in the repository. Nothing builds them;
//! the modules are sent as one script.
//!
//! A browser asks for modules one connection each, and for those that a module imports only after it
//! has read that module. On loopback that takes longer than to draw the page.
//!
//! A module becomes a function that returns its exports, line for line, and the page comes with its
//! words, cards and first plan as a block of data. Text from logs, configs and files enters as text
//! nodes, and the Content-Security-Policy forbids everything inline; a block of data is not run.
//! The server computes and words every answer, so the page has no second arithmetic: it asks for a
//! plan at each move of a slider, one at a time, the last one wins. Pictures change the elements
//! that they have, and no width is read between two changes. In a chart the curves are a separate
//! layer: smoothing moves them alone, and the axes are those of the values before smoothing. The
//! page with its first plan is kept for each language. A plan takes milliseconds; if layers × batch
//! sizes to try would take seconds, it is refused and names the command, so that no config occupies
//! a core.
//!
//! Promise: the page needs nothing from elsewhere, has nothing inline, and shows foreign text as
//! text; its plans, options and diagnoses are those of the commands. Test: this file,
//! `tests/page/check.mjs` in Chromium, `tests/runs/serve.rs`.

use std::{fmt::Write as _, sync::LazyLock};

use serde_json::Value;

use super::http::{Response, ResponseBody};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

const INDEX: &str = include_str!("page/index.html");
const STYLES: &str = include_str!("page/style.css");
const ICON: &str = include_str!("page/icon.svg");

macro_rules! modules {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("page/", $name, ".js")))),*]
    };
}

/// Name and text. A module imports from those before it.
const MODULES: [(&str, &str); 10] =
    modules! { "lib" "state" "controls" "picture" "bars" "chart" "planner" "doctor" "runs" "main" };

static BUNDLE: LazyLock<String> = LazyLock::new(|| MODULES.into_iter().map(as_function).collect());

/// A module as a function that returns what it exports, so that its other names stay its own. An
/// import is one line, and what is exported is exported where it is defined.
fn as_function((module, text): (&str, &str)) -> String {
    let mut script = format!("// {module}.js\nconst ${module} = (() => {{\n");
    let mut exports = Vec::new();
    for line in text.lines() {
        if let Some((names, from)) = imported(line) {
            let _ = writeln!(script, "const {names} = ${from};");
        } else if let Some(rest) = line.strip_prefix("export ") {
            exports.extend(defined(rest));
            let _ = writeln!(script, "{rest}");
        } else {
            let _ = writeln!(script, "{line}");
        }
    }
    let _ = writeln!(script, "return {{ {} }};\n}})();", exports.join(", "));
    script
}

/// The names and the module of `import { a, b } from "./c.js";`.
fn imported(line: &str) -> Option<(&str, &str)> {
    let (names, from) = line.strip_prefix("import ")?.split_once(" from \"./")?;
    Some((names, from.strip_suffix(".js\";")?))
}

/// The name that `function name(` or `const name =` defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let kinds = ["function ", "const ", "class "];
    let rest = kinds.into_iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric()).next()
}

/// The page's text with `start`, which its script begins with.
pub fn html(start: &Value) -> String {
    // A data block ends at the first `</script`, and JSON can write `<` in another way.
    let data = start.to_string().replace('<', "\\u003c");
    INDEX.replacen("$start", &data, 1)
}

/// The page, from its [`html`].
pub fn page(html: String) -> Response {
    let mut response = Response::text(200, HTML, html);
    response.headers = vec![("Cache-Control", "no-cache".to_owned())];
    response
}

/// The file at `path`.
pub fn asset(path: &str) -> Option<Response> {
    let (content_type, text): (_, &'static str) = match path {
        "/style.css" => (STYLE, STYLES),
        "/icon.svg" => (IMAGE, ICON),
        "/page.js" => (SCRIPT, BUNDLE.as_str()),
        _ => return None,
    };
    let headers = vec![("Cache-Control", "no-cache".to_owned())];
    Some(Response {
        status: 200,
        content_type,
        headers,
        body: ResponseBody::Static(text.as_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_nothing_inline() {
        let files = [("index.html", INDEX), ("style.css", STYLES), ("icon.svg", ICON)];
        for (path, text) in files.into_iter().chain(MODULES) {
            for foreign in
                ["https://", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("]
            {
                assert!(!text.contains(foreign), "{path}: {foreign}");
            }
            // The only address is SVG's namespace.
            let addresses = text.matches("http://").count();
            let names = text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(addresses, names, "{path}");
        }
        for inline in ["<style", " style=", "onclick", "onload", "<script>"] {
            assert!(!INDEX.contains(inline), "{inline}");
        }
        // The one script that is not a file is data.
        assert_eq!(INDEX.matches("<script").count(), 2);
        assert!(INDEX.contains("<script type=\"application/json\" id=\"start\">$start</script>"));
    }

    #[test]
    fn every_name_that_is_imported_is_exported_by_a_module_before() {
        let mut exported: Vec<(&str, &str)> = Vec::new();
        for (module, text) in MODULES {
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let (names, from) = imported(line).unwrap_or_else(|| panic!("{module}: {line}"));
                for name in names.trim_matches(['{', '}', ' ']).split(", ") {
                    assert!(exported.contains(&(from, name)), "{module}: {name} of {from}");
                }
            }
            for line in text.lines().filter_map(|line| line.strip_prefix("export ")) {
                let name = defined(line).unwrap_or_else(|| panic!("{module}: {line}"));
                exported.push((module, name));
            }
        }
    }

    #[test]
    fn the_script_has_every_line_of_the_modules_and_no_import() {
        for (module, text) in MODULES {
            let script = as_function((module, text));
            assert_eq!(script.lines().count(), text.lines().count() + 4, "{module}");
            assert!(BUNDLE.contains(&script));
        }
        for word in ["import ", "export "] {
            assert!(!BUNDLE.lines().any(|line| line.starts_with(word)), "{word}");
        }
        assert!(!BUNDLE.contains("import("));
    }

    #[test]
    fn data_cannot_end_its_block() {
        let hostile = serde_json::json!({ "a": "</script><script>alert(1)</script>" });
        let text = html(&hostile);
        assert_eq!(text.matches("<script").count(), 2);
        assert_eq!(text.matches("</script").count(), 2);
        assert!(text.contains(r"\u003c/script>\u003cscript>"));
    }
}
