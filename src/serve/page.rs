//! The page's files: plain modules and styles, served as they are in the repository, without a
//! build step.

use super::http::{Response, ResponseBody};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal, $kind:expr, $file:literal;)*) => {
        [$(($path, $kind, include_bytes!(concat!("page/", $file)).as_slice())),*]
    };
}

/// Path, type and content.
const FILES: [(&str, &str, &[u8]); 13] = files! {
    "/", HTML, "index.html";
    "/style.css", STYLE, "style.css";
    "/icon.svg", IMAGE, "icon.svg";
    "/main.js", SCRIPT, "main.js";
    "/lib.js", SCRIPT, "lib.js";
    "/controls.js", SCRIPT, "controls.js";
    "/picture.js", SCRIPT, "picture.js";
    "/planner.js", SCRIPT, "planner.js";
    "/doctor.js", SCRIPT, "doctor.js";
    "/runs.js", SCRIPT, "runs.js";
    "/chart.js", SCRIPT, "chart.js";
    "/bars.js", SCRIPT, "bars.js";
    "/state.js", SCRIPT, "state.js";
};

/// The file at `path`.
pub(crate) fn asset(path: &str) -> Option<Response> {
    let (_, content_type, bytes) = FILES.into_iter().find(|(found, ..)| *found == path)?;
    let headers = vec![("Cache-Control", "no-cache".to_owned())];
    Some(Response { status: 200, content_type, headers, body: ResponseBody::Static(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_nothing_inline() {
        for (path, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
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
        let page = std::str::from_utf8(FILES[0].2).unwrap();
        for inline in ["<style", " style=", "onclick", "onload", "<script>"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }

    #[test]
    fn every_imported_module_exists() {
        for (path, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
            for import in text.split(" from \"./").skip(1) {
                let name = import.split('"').next().unwrap();
                assert!(asset(&format!("/{name}")).is_some(), "{path} imports {name}");
            }
        }
    }
}
