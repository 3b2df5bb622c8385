//! The modules of a crate and what each of them names, read from its sources as tokens.
//!
//! Tokens rather than a syntax tree: paths inside macros count too. Code under `#[cfg(test)]` does
//! not count. A folder's `mod.rs` and a name that is imported in a function are treated as one
//! scope, which is enough to find the module that defines an item.

use std::collections::BTreeMap;

/// Names from the crate's root to a module or an item, without `crate`.
pub(crate) type Path = Vec<String>;

/// A module: what it declares, imports, defines and names.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// In the order of their declarations.
    pub(crate) children: Vec<String>,
    /// Imported names and the paths they stand for.
    imports: BTreeMap<String, WrittenPath>,
    /// Modules all of whose items are imported.
    globs: Vec<WrittenPath>,
    /// Items and macros that are defined here.
    items: Vec<String>,
    /// Every path in the code, imports included.
    named: Vec<WrittenPath>,
}

/// A path as it is written in a module, and its line.
#[derive(Clone, Debug)]
struct WrittenPath {
    segments: Vec<String>,
    line: usize,
}

/// One module names an item of another.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) from: Path,
    pub(crate) line: usize,
    /// The module that defines the item.
    pub(crate) to: Path,
}

/// All modules of a crate.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    pub(crate) modules: BTreeMap<Path, Module>,
}

impl Crate {
    /// Reads `lib.rs` (or `main.rs`) and every module that it declares. `read` returns the text of
    /// a file, named from the crate's source folder.
    pub(crate) fn read(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut all = Self::default();
        let text = read(root).unwrap_or_else(|| panic!("cannot read `{root}`"));
        all.add(&Vec::new(), "", &tokens(&text), read);
        all
    }

    /// Adds a module and its children; `folder` is where those are.
    fn add(
        &mut self,
        path: &Path,
        folder: &str,
        code: &[Token],
        read: &dyn Fn(&str) -> Option<String>,
    ) {
        let code = without_tests(code);
        let mut declared = Vec::new();
        let module = self.modules.entry(path.clone()).or_default();
        module.scan(&code, &mut declared);
        for Declared { name, file, body } in declared {
            let child: Path = path.iter().cloned().chain([name.clone()]).collect();
            let inside = format!("{folder}{name}/");
            let own = file.map(|file| format!("{folder}{file}"));
            if let Some(body) = body {
                self.add(&child, &inside, &body, read);
                continue;
            }
            let files =
                own.into_iter().chain([format!("{folder}{name}.rs"), format!("{inside}mod.rs")]);
            let text = files.clone().find_map(|file| read(&file));
            let text = text.unwrap_or_else(|| panic!("no file for `{}`", child.join("::")));
            self.add(&child, &inside, &tokens(&text), read);
        }
    }

    /// Every reference from one module of this crate to another.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        for (from, module) in &self.modules {
            for written in &module.named {
                if let Some(to) = self.defining_module(from, &written.segments, 0) {
                    found.push(Reference { from: from.clone(), line: written.line, to });
                }
            }
        }
        found
    }

    /// The module that defines what `segments` mean in `scope`; `None` for another crate's items.
    fn defining_module(&self, scope: &Path, segments: &[String], depth: usize) -> Option<Path> {
        assert!(depth < 32, "`{}` is imported in a circle", segments.join("::"));
        let mut at = scope.clone();
        let mut rest = segments;
        let mut is_first = true;
        while let Some((name, after)) = rest.split_first() {
            match name.as_str() {
                "crate" if is_first => at.clear(),
                "self" if is_first => {}
                "super" => {
                    at.pop()?;
                }
                _ => {
                    let module = &self.modules[&at];
                    if module.children.contains(name) {
                        at.push(name.clone());
                    } else if let Some(import) = module.imports.get(name)
                        && (!is_first || import.segments != segments)
                    {
                        let whole: Vec<_> = import.segments.iter().chain(after).cloned().collect();
                        return self.defining_module(&at, &whole, depth + 1);
                    } else if is_first && !module.items.contains(name) {
                        return None; // another crate, a local name or the prelude
                    } else if module.items.contains(name) {
                        return Some(at);
                    } else {
                        return Some(self.through_globs(&at, name, depth).unwrap_or(at));
                    }
                }
            }
            is_first = false;
            rest = after;
        }
        Some(at)
    }

    /// The module that defines `name` among the glob imports of `at`.
    fn through_globs(&self, at: &Path, name: &String, depth: usize) -> Option<Path> {
        let targets = self.modules[at].globs.iter();
        let mut targets = targets.filter_map(|g| self.defining_module(at, &g.segments, depth + 1));
        targets.find(|target| self.modules[target].items.contains(name))
    }
}

/// `mod name;` or `mod name { … }`.
struct Declared {
    name: String,
    /// From `#[path = "…"]`.
    file: Option<String>,
    body: Option<Vec<Token>>,
}

impl Module {
    fn scan(&mut self, code: &[Token], declared: &mut Vec<Declared>) {
        let mut at = 0;
        let mut file = None;
        while at < code.len() {
            let text = code[at].text.as_str();
            let next = code.get(at + 1).map_or("", |token| token.text.as_str());
            let after = code.get(at + 2).map_or("", |token| token.text.as_str());
            let is_start = at == 0 || !matches!(code[at - 1].text.as_str(), "::" | "." | "$");
            match text {
                "#" if next == "[" => {
                    let end = closing(code, at + 1);
                    if after == "path" {
                        file = Some(code[at + 4].text.trim_matches('"').to_owned());
                    }
                    at = if after == "path" { end + 1 } else { at + 1 };
                    continue;
                }
                "mod" if is_name(next) && after == ";" => {
                    if !self.children.contains(&next.to_owned()) {
                        self.children.push(next.to_owned());
                    }
                    declared.push(Declared {
                        name: next.to_owned(),
                        file: file.take(),
                        body: None,
                    });
                }
                "mod" if is_name(next) && after == "{" => {
                    let end = closing(code, at + 2);
                    self.children.push(next.to_owned());
                    let body = Some(code[at + 3..end].to_vec());
                    declared.push(Declared { name: next.to_owned(), file: None, body });
                    at = end + 1;
                    continue;
                }
                "use" if is_start => {
                    at = self.import(code, at + 1, &[]);
                    continue;
                }
                "struct" | "enum" | "trait" | "type" | "const" | "static" | "fn" | "union"
                    if is_name(next) =>
                {
                    self.items.push(next.to_owned());
                }
                "macro_rules" if next == "!" => self.items.push(after.to_owned()),
                _ if is_name(text) && (is_start || code[at - 1].text == "$") && next == "::" => {
                    let line = code[at].line;
                    let mut segments = vec![text.to_owned()];
                    while code.get(at + 1).is_some_and(|token| token.text == "::")
                        && code.get(at + 2).is_some_and(|token| is_name(&token.text))
                    {
                        segments.push(code[at + 2].text.clone());
                        at += 2;
                    }
                    self.named.push(WrittenPath { segments, line });
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads one branch of a `use` at `at`, below `prefix`; returns where it ends.
    fn import(&mut self, code: &[Token], mut at: usize, prefix: &[String]) -> usize {
        let line = code[at].line;
        let mut segments = prefix.to_vec();
        loop {
            match code[at].text.as_str() {
                "{" => {
                    let end = closing(code, at);
                    at += 1;
                    while at < end {
                        at = self.import(code, at, &segments);
                    }
                    return end + 2; // with the `;` or `,`
                }
                "*" => {
                    self.named.push(WrittenPath { segments: segments.clone(), line });
                    self.globs.push(WrittenPath { segments, line });
                    return at + 2;
                }
                "::" => at += 1,
                "as" => {
                    self.bind(code[at + 1].text.clone(), segments, line);
                    return at + 3;
                }
                "," | ";" | "}" => {
                    // `a::{self, b}` imports `a`.
                    if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                        segments.pop();
                    }
                    let name = segments.last().cloned().unwrap_or_default();
                    self.bind(name, segments, line);
                    return if code[at].text == "}" { at } else { at + 1 };
                }
                name => {
                    segments.push(name.to_owned());
                    at += 1;
                }
            }
        }
    }

    fn bind(&mut self, name: String, segments: Vec<String>, line: usize) {
        let written = WrittenPath { segments, line };
        self.named.push(written.clone());
        self.imports.insert(name, written);
    }
}

/// A word, a literal, `::` or another character.
#[derive(Clone, Debug)]
struct Token {
    text: String,
    line: usize,
}

fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_') && text != "as"
}

/// Where the bracket that opens at `open` is closed.
fn closing(code: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    panic!("a bracket in line {} is not closed", code[open].line)
}

/// Leaves out items under `#[cfg(test)]` and `#[cfg(all(test, …))]`.
fn without_tests(code: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let is = |offset: usize, text: &str| code.get(at + offset).is_some_and(|t| t.text == text);
        let is_cfg = is(0, "#") && is(1, "[") && is(2, "cfg") && is(3, "(");
        if is_cfg && (is(4, "test") || is(4, "all") && is(6, "test")) {
            at = closing(code, at + 1) + 1;
            // Up to the end of the item: its `;`, or its block.
            loop {
                match code[at].text.as_str() {
                    "{" | "(" | "[" => {
                        let is_block = code[at].text == "{";
                        at = closing(code, at) + 1;
                        if is_block && code.get(at).is_none_or(|token| token.text != ";") {
                            break;
                        }
                    }
                    ";" | "," => {
                        at += 1;
                        break;
                    }
                    _ => at += 1,
                }
            }
        } else {
            kept.push(code[at].clone());
            at += 1;
        }
    }
    kept
}

/// The tokens of a source text, without comments.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let peek = |at: usize| chars.get(at).copied().unwrap_or('\0');
    while at < chars.len() {
        let start = at;
        let c = chars[at];
        if c.is_whitespace() {
            at += 1;
        } else if c == '/' && peek(at + 1) == '/' {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if c == '/' && peek(at + 1) == '*' {
            at = block_comment(&chars, at);
        } else if let Some(end) = string(&chars, at) {
            at = end;
            found.push(Token { text: chars[start..at].iter().collect(), line });
        } else if c == '\'' && (peek(at + 1) == '\\' || peek(at + 2) == '\'') {
            at += 3; // also over an escaped quote
            while peek(at - 1) != '\'' {
                at += 1;
            }
        } else if c.is_alphanumeric() || c == '_' {
            while peek(at).is_alphanumeric() || peek(at) == '_' {
                at += 1;
            }
            found.push(Token { text: chars[start..at].iter().collect(), line });
        } else {
            at += if c == ':' && peek(at + 1) == ':' { 2 } else { 1 };
            found.push(Token { text: chars[start..at].iter().collect(), line });
        }
        line += chars[start..at].iter().filter(|c| **c == '\n').count();
    }
    found
}

fn block_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The end of the string literal that starts at `at`, if one does.
fn string(chars: &[char], mut at: usize) -> Option<usize> {
    let peek = |at: usize| chars.get(at).copied().unwrap_or('\0');
    if matches!(peek(at), 'b' | 'c') && matches!(peek(at + 1), '"' | 'r') {
        at += 1;
    }
    if peek(at) == 'r' && matches!(peek(at + 1), '"' | '#') {
        let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
        if peek(at + 1 + hashes) != '"' {
            return None;
        }
        at += 2 + hashes;
        let is_end = |at: usize| chars[at] == '"' && (1..=hashes).all(|n| peek(at + n) == '#');
        while !is_end(at) {
            at += 1;
        }
        return Some(at + 1 + hashes);
    }
    if peek(at) != '"' {
        return None;
    }
    at += 1;
    while peek(at) != '"' {
        at += if peek(at) == '\\' { 2 } else { 1 };
    }
    Some(at + 1)
}
