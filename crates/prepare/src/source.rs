//! The input: files, the files of folders and patterns, standard input.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use fitgpt_data::Split;
use fitgpt_files::{attempt::Attempt, formats::parquet::TextColumn};
use serde::Serialize;

use super::{Format, Input, PrepareError, draft::Draft};

/// The extensions of compressed files; the extension before it determines their format.
const COMPRESSED: [&str; 3] = ["gz", "gzip", "zst"];

/// The first bytes of llm.c's token files.
const SHARD_MAGIC: [u8; 4] = 20_240_520_i32.to_le_bytes();

/// One thing to read.
#[derive(Debug)]
pub(super) struct TextSource {
    /// Its name in errors.
    pub(super) name: PathBuf,
    pub(super) format: Format,
    /// Its length; `None` if it can be read only once: standard input, a pipe.
    pub(super) bytes: Option<u64>,
    /// The split that it belongs to, if that is known.
    pub(super) split: Option<Split>,
    is_shared: bool,        // divided between both splits, ignoring its name
    path: Option<PathBuf>,  // standard input has none
    first: Option<PathBuf>, // a copy of the first bytes of standard input
    joined: Option<JoinedFiles>,
}

/// Parquet files whose texts, in order, form one text.
#[derive(Clone, Debug)]
struct JoinedFiles {
    paths: Vec<PathBuf>,
    column: String,
}

/// A file in a folder that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// Which file or folder.
    pub path: PathBuf,
    /// Why.
    pub reason: SkipReason,
}

/// Why a file in a folder was not read. A file that is given by its path is always read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// Its name begins with a dot.
    Hidden,
    /// Its extension is not one of [`super::EXTENSIONS`].
    Extension,
    /// A `.bin` file without llm.c's header.
    NoShardHeader,
    /// A link to a folder, which may be circular.
    LinkedFolder,
    /// A pipe, a device, a broken link.
    NotAFile,
}

/// Everything to read, and what was skipped.
#[derive(Debug, Default)]
pub(super) struct FoundSources {
    pub(super) sources: Vec<TextSource>,
    pub(super) skipped: Vec<SkippedFile>,
}

impl FoundSources {
    /// Everything that the inputs name, in order; the files of folders and patterns are sorted.
    pub(super) fn find(inputs: &[Input], format: Option<Format>) -> Result<Self, PrepareError> {
        let mut found = Self::default();
        let mut is_stdin_named = false;
        for input in inputs {
            match input {
                Input::Stdin if is_stdin_named => return Err(PrepareError::StdinTwice),
                Input::Stdin => {
                    is_stdin_named = true;
                    let format = format.unwrap_or(Format::Text);
                    let name = PathBuf::from("<stdin>");
                    found.sources.push(TextSource::new(name, format));
                }
                Input::Path(path) if path.is_dir() => found.folder(path, format)?,
                Input::Path(path) if is_pattern(path) => {
                    for path in matches(path)? {
                        if path.is_dir() {
                            found.folder(&path, format)?;
                        } else {
                            found.sources.push(TextSource::at(path, format)?);
                        }
                    }
                }
                Input::Path(path) => found.sources.push(TextSource::at(path.clone(), format)?),
                Input::Fetched { path, format, split } => {
                    let mut source = TextSource::at(path.clone(), Some(*format))?;
                    source.split = *split;
                    found.sources.push(source);
                }
                Input::Joined { paths, column } => {
                    found.sources.push(TextSource::joined(paths, column)?);
                }
            }
        }
        if found.sources.is_empty() { Err(PrepareError::NoInput) } else { Ok(found) }
    }

    /// Adds the files of a folder and of the folders in it, sorted.
    fn folder(&mut self, folder: &Path, format: Option<Format>) -> Result<(), PrepareError> {
        let mut paths = Vec::new();
        let mut folders = vec![folder.to_owned()];
        let n_skipped = self.skipped.len();
        while let Some(folder) = folders.pop() {
            let failed = |source| PrepareError::reading(&folder, source);
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
                let reason = if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    Some(SkipReason::Hidden)
                } else if kind.is_dir() {
                    folders.push(path);
                    continue;
                } else if path.is_dir() {
                    Some(SkipReason::LinkedFolder)
                } else if !path.is_file() {
                    Some(SkipReason::NotAFile)
                } else {
                    match Format::of_extension(&path) {
                        None => Some(SkipReason::Extension),
                        Some(Format::Shard) if !is_shard(&path) => Some(SkipReason::NoShardHeader),
                        Some(_) => None,
                    }
                };
                match reason {
                    Some(reason) => self.skipped.push(SkippedFile { path, reason }),
                    None => paths.push(path),
                }
            }
        }
        self.skipped[n_skipped..].sort_unstable_by(|a, b| a.path.cmp(&b.path));
        if paths.is_empty() {
            return Err(PrepareError::NoTexts { folder: folder.to_owned() });
        }
        paths.sort_unstable();
        for path in paths {
            self.sources.push(TextSource::at(path, format)?);
        }
        Ok(())
    }
}

impl TextSource {
    /// A source without a path that can be read only once.
    fn new(name: PathBuf, format: Format) -> Self {
        let (split, is_shared, path, first, joined) = (None, false, None, None, None);
        Self { name, format, bytes: None, split, is_shared, path, first, joined }
    }

    fn joined(paths: &[PathBuf], column: &str) -> Result<Self, PrepareError> {
        let mut bytes = 0;
        for path in paths {
            let facts = fs::metadata(path).map_err(|source| PrepareError::reading(path, source))?;
            bytes += facts.len();
        }
        let name = paths.first().cloned().unwrap_or_default();
        let joined = Some(JoinedFiles { paths: paths.to_vec(), column: column.to_owned() });
        Ok(Self { bytes: Some(bytes), joined, ..Self::new(name, Format::Text) })
    }

    fn at(path: PathBuf, format: Option<Format>) -> Result<Self, PrepareError> {
        let facts = fs::metadata(&path).map_err(|source| PrepareError::reading(&path, source))?;
        let of_extension = match Format::of_extension(&path) {
            Some(Format::Shard) if !is_shard(&path) => Format::Text,
            format => format.unwrap_or(Format::Text),
        };
        Ok(Self {
            bytes: facts.is_file().then_some(facts.len()),
            path: Some(path.clone()),
            ..Self::new(path, format.unwrap_or(of_extension))
        })
    }

    /// Opens it at its start, without decompressing it.
    pub(super) fn open<'a>(
        &self,
        stdin: &'a mut dyn Read,
    ) -> Result<Box<dyn Read + 'a>, PrepareError> {
        match (&self.path, &self.joined) {
            (_, Some(joined)) => Ok(Box::new(JoinedTexts::new(joined.clone()))),
            (None, None) => match &self.first {
                Some(first) => {
                    let first = File::open(first);
                    let first = first.map_err(|e| PrepareError::reading(&self.name, e))?;
                    Ok(Box::new(first.chain(stdin)))
                }
                None => Ok(Box::new(stdin)),
            },
            (Some(_), None) => Ok(Box::new(self.open_file()?)),
        }
    }

    /// Opens a file that can be read in any order.
    pub(super) fn open_file(&self) -> Result<File, PrepareError> {
        File::open(self.file()).map_err(|source| PrepareError::Io {
            action: Attempt::Open,
            path: self.name.clone(),
            source,
        })
    }

    /// The file with its bytes.
    pub(super) fn file(&self) -> &Path {
        self.path.as_deref().unwrap_or(&self.name)
    }

    /// Whether its text is no longer than the file: by its name it is neither compressed nor
    /// Parquet.
    pub(super) fn is_plain(&self) -> bool {
        let is_text = matches!(self.format, Format::Text | Format::Jsonl);
        is_text && !is_compressed(&self.name) && self.joined.is_none()
    }

    /// The split that it belongs to, as given or from the name of a shard, such as
    /// `fineweb_val_000000.bin`.
    pub(super) fn named_split(&self) -> Option<Split> {
        if self.is_shared {
            return None;
        }
        if self.split.is_some() || self.format != Format::Shard {
            return self.split;
        }
        let name = self.name.file_name()?.to_str()?;
        let has = |word| name.split(['_', '-', '.']).any(|part| part == word);
        match (has("train"), has("val")) {
            (true, false) => Some(Split::Train),
            (false, true) => Some(Split::Val),
            _ => None,
        }
    }

    /// The files that it is read from.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let joined = self.joined.iter().flat_map(|joined| &joined.paths);
        joined.chain(&self.path).map(PathBuf::as_path)
    }

    /// Whether it is standard input.
    pub(super) fn is_stdin(&self) -> bool {
        self.path.is_none() && self.joined.is_none()
    }

    /// Makes it read its first bytes from a draft, and the rest as before.
    pub(super) fn begin_with(&mut self, draft: &Draft) {
        self.first = Some(draft.path().to_owned());
    }

    /// Makes it read all of its bytes from a draft.
    pub(super) fn read_from(&mut self, draft: &Draft) {
        self.path = Some(draft.path().to_owned());
        self.bytes = Some(draft.bytes());
    }
}

/// The texts of Parquet files, one after another.
struct JoinedTexts {
    joined: JoinedFiles,
    next_path: usize,
    column: Option<TextColumn>,
    text: Vec<u8>,
    given: usize, // how much of it was read
}

impl JoinedTexts {
    fn new(joined: JoinedFiles) -> Self {
        Self { joined, next_path: 0, column: None, text: Vec::new(), given: 0 }
    }
}

impl Read for JoinedTexts {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() {
            let Some(column) = &mut self.column else {
                let Some(path) = self.joined.paths.get(self.next_path) else { return Ok(0) };
                self.next_path += 1;
                let opened = TextColumn::open(File::open(path)?, &self.joined.column);
                self.column = Some(opened.map_err(io::Error::other)?);
                continue;
            };
            match column.next_text().map_err(io::Error::other)? {
                Some(text) => {
                    self.text.clear();
                    self.text.extend_from_slice(text);
                    self.given = 0;
                }
                None => self.column = None,
            }
        }
        let rest = &self.text[self.given..];
        let n = rest.len().min(bytes.len());
        bytes[..n].copy_from_slice(&rest[..n]);
        self.given += n;
        Ok(n)
    }
}

impl Format {
    /// The format that a file's extension determines, ignoring that of a compression.
    pub(super) fn of_extension(path: &Path) -> Option<Self> {
        let extension = |path: &Path| Some(path.extension()?.to_str()?.to_ascii_lowercase());
        let last = extension(path)?;
        let last =
            if COMPRESSED.contains(&&*last) { extension(&path.with_extension(""))? } else { last };
        match &*last {
            "txt" | "text" | "md" => Some(Self::Text),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "parquet" => Some(Self::Parquet),
            "bin" => Some(Self::Shard),
            _ => None,
        }
    }
}

/// If every source belongs to the same split, divides their documents between both: for example,
/// only training shards were downloaded.
pub(super) fn share_one_split(sources: &mut [TextSource]) {
    let first = sources.first().and_then(TextSource::named_split);
    if first.is_some() && sources.iter().all(|source| source.named_split() == first) {
        for source in sources {
            source.is_shared = true;
        }
    }
}

/// The length of all sources, if every length is known.
pub(super) fn total_bytes(sources: &[TextSource]) -> Option<u64> {
    sources.iter().map(|source| source.bytes).sum()
}

/// The name of a file without known extensions.
pub(super) fn stem(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    if is_compressed(&path) {
        path.set_extension("");
    }
    path.set_extension("");
    path
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|last| COMPRESSED.iter().any(|&e| last.eq_ignore_ascii_case(e)))
}

fn is_shard(path: &Path) -> bool {
    let mut first = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && first == SHARD_MAGIC
}

const WILDCARDS: &[u8] = b"*?[";

/// Whether a path is a pattern: it has wildcards, and no such file exists.
pub(super) fn is_pattern(path: &Path) -> bool {
    let is_wild = |byte| WILDCARDS.contains(byte);
    path.as_os_str().as_encoded_bytes().iter().any(is_wild) && !path.exists()
}

/// The paths that a pattern matches, sorted. `**` is a folder with all folders in it, except through
/// links. (The function `glob::glob` leaves out names that are not UTF-8, without a word.)
fn matches(pattern: &Path) -> Result<Vec<PathBuf>, PrepareError> {
    let none = || PrepareError::NoMatch { pattern: pattern.to_owned() };
    let mut paths = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = part.as_os_str();
        if name == "**" {
            for folder in std::mem::take(&mut paths) {
                add_folders(folder, &mut paths)?;
            }
        } else if name.as_encoded_bytes().iter().any(|byte| WILDCARDS.contains(byte)) {
            let part = name.to_str().and_then(|name| glob::Pattern::new(name).ok());
            let part = part.ok_or_else(none)?;
            let mut next = Vec::new();
            for folder in paths {
                let entries = entries(&folder)?.into_iter();
                next.extend(entries.filter(|path| is_match(path, &part)));
            }
            paths = next;
        } else {
            for path in &mut paths {
                path.push(name);
            }
        }
    }
    paths.retain(|path| path.exists());
    paths.sort_unstable();
    paths.dedup();
    if paths.is_empty() { Err(none()) } else { Ok(paths) }
}

/// Whether the last part of a path matches. What is not UTF-8 in it is one character.
fn is_match(path: &Path, part: &glob::Pattern) -> bool {
    path.file_name().is_some_and(|name| part.matches(&name.to_string_lossy()))
}

/// The paths in a folder; none if it is no folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, PrepareError> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !here.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error| PrepareError::reading(here, error);
    let names = fs::read_dir(here).map_err(failed)?;
    names.map(|entry| Ok(folder.join(entry.map_err(failed)?.file_name()))).collect()
}

/// Adds a folder and all folders in it.
fn add_folders(folder: PathBuf, found: &mut Vec<PathBuf>) -> Result<(), PrepareError> {
    for path in entries(&folder)? {
        if path.is_dir() && !path.is_symlink() {
            add_folders(path, found)?;
        }
    }
    found.push(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, sources: &[TextSource]) -> Vec<String> {
        let name = |source: &TextSource| source.name.strip_prefix(folder).unwrap().to_owned();
        let name = |source| name(source).display().to_string().replace('\\', "/");
        sources.iter().map(name).collect()
    }

    fn folder_with(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        folder
    }

    fn find(inputs: &[Input]) -> Result<FoundSources, PrepareError> {
        FoundSources::find(inputs, None)
    }

    #[test]
    fn a_pattern_matches_in_folders_and_below_them() {
        let folder = folder_with(&["a.txt", "b.md", "x/c.txt", "x/y/d.txt", "x/[e].txt"]);
        let found = |pattern: &str| {
            let found = matches(&folder.path().join(pattern)).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().to_owned();
            found.iter().map(|path| name(path).display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("*.txt"), ["a.txt"]);
        assert_eq!(found("*/c.t?t"), ["x/c.txt"]);
        assert_eq!(found("**/*.txt"), ["a.txt", "x/[e].txt", "x/c.txt", "x/y/d.txt"]);
        assert_eq!(found("x/[[]e].txt"), ["x/[e].txt"]);
        assert_eq!(found("[ab].*"), ["a.txt", "b.md"]);
        assert!(matches(&folder.path().join("*.gz")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pattern_matches_names_that_are_not_utf_8() {
        use std::os::unix::ffi::OsStrExt;

        let folder = folder_with(&["good.txt"]);
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"bad\xff.txt"));
        fs::write(&odd, "text").unwrap();
        let found = matches(&folder.path().join("*.txt")).unwrap();
        assert_eq!(found, [odd, folder.path().join("good.txt")]);
    }

    #[test]
    fn a_folder_is_read_in_sorted_order_and_the_rest_is_listed() {
        let folder = folder_with(&[
            "b.txt",
            "a/z.md",
            "a/b/c.TEXT",
            "c.jsonl",
            "d.bin",
            "e",
            ".hidden.txt",
            ".git/x.txt",
            "f.ndjson.zst",
            "10.txt.gz",
            "9.txt",
            "g.parquet",
            "h.gz",
        ]);
        fs::write(folder.path().join("s_train_1.bin"), 20_240_520_i32.to_le_bytes()).unwrap();
        let inputs = [Input::Path(folder.path().to_owned())];
        let found = find(&inputs).unwrap();
        assert_eq!(
            names(folder.path(), &found.sources),
            [
                "10.txt.gz",
                "9.txt",
                "a/b/c.TEXT",
                "a/z.md",
                "b.txt",
                "c.jsonl",
                "f.ndjson.zst",
                "g.parquet",
                "s_train_1.bin"
            ]
        );
        let formats = found.sources.iter().map(|source| source.format).collect::<Vec<_>>();
        assert_eq!(formats[..5], [Format::Text; 5]);
        assert_eq!(formats[5..], [Format::Jsonl, Format::Jsonl, Format::Parquet, Format::Shard]);
        assert_eq!(total_bytes(&found.sources), Some(9 * 4));
        let skipped = found.skipped.iter().map(|skipped| {
            let name = skipped.path.strip_prefix(folder.path()).unwrap();
            (name.to_str().unwrap(), skipped.reason)
        });
        assert_eq!(
            skipped.collect::<Vec<_>>(),
            [
                (".git", SkipReason::Hidden),
                (".hidden.txt", SkipReason::Hidden),
                ("d.bin", SkipReason::NoShardHeader),
                ("e", SkipReason::Extension),
                ("h.gz", SkipReason::Extension),
            ]
        );
        let found = FoundSources::find(&inputs, Some(Format::Text)).unwrap();
        assert!(found.sources.iter().all(|source| source.format == Format::Text));
    }

    #[cfg(unix)]
    #[test]
    fn links_to_files_are_followed_and_links_to_folders_are_not() {
        let folder = folder_with(&["a.txt", "in/b.txt"]);
        let link = |to: &str, at: &str| {
            std::os::unix::fs::symlink(folder.path().join(to), folder.path().join(at)).unwrap();
        };
        link("a.txt", "c.txt");
        link("", "in/circle");
        link("gone", "gone.txt");
        let found = find(&[Input::Path(folder.path().to_owned())]).unwrap();
        assert_eq!(names(folder.path(), &found.sources), ["a.txt", "c.txt", "in/b.txt"]);
        let reasons = found.skipped.iter().map(|skipped| skipped.reason).collect::<Vec<_>>();
        assert_eq!(reasons, [SkipReason::NotAFile, SkipReason::LinkedFolder]);
    }

    #[test]
    fn a_pattern_is_replaced_by_the_files_that_match() {
        let folder = folder_with(&["a1.txt", "a2.txt", "b.txt", "in/a3.txt"]);
        let found = find(&[Input::Path(folder.path().join("a*.txt"))]).unwrap();
        assert_eq!(names(folder.path(), &found.sources), ["a1.txt", "a2.txt"]);
        let found = find(&[Input::Path(folder.path().join("**/a?.txt"))]).unwrap();
        assert_eq!(names(folder.path(), &found.sources), ["a1.txt", "a2.txt", "in/a3.txt"]);
        let error = find(&[Input::Path(folder.path().join("x*.txt"))]).unwrap_err().to_string();
        assert!(error.starts_with("no file matches `") && error.ends_with("x*.txt`"), "{error}");
    }

    #[test]
    fn input_that_cannot_be_read_is_reported() {
        let folder = folder_with(&["a.bin"]);
        let find = |inputs: &[Input]| find(inputs).unwrap_err();
        assert!(matches!(find(&[]), PrepareError::NoInput));
        assert!(matches!(find(&[Input::Stdin, Input::Stdin]), PrepareError::StdinTwice));
        let empty = find(&[Input::Path(folder.path().to_owned())]).to_string();
        assert!(
            empty.contains(
                "has no files ending in `txt`, `text`, `md`, `jsonl`, `ndjson`, `parquet`"
            ),
            "{empty}"
        );
        let missing = find(&[Input::Path(folder.path().join("no.txt"))]).to_string();
        assert!(missing.contains("no.txt"), "{missing}");
    }

    #[test]
    fn a_file_given_by_its_path_needs_no_extension() {
        let folder = folder_with(&["a.bin"]);
        let inputs = [Input::Stdin, Input::Path(folder.path().join("a.bin"))];
        let sources = find(&inputs).unwrap().sources;
        assert_eq!(sources[1].format, Format::Text);
        assert_eq!(total_bytes(&sources), None);
    }

    #[test]
    fn the_name_of_a_shard_states_its_split() {
        let split = |name: &str| TextSource::new(name.into(), Format::Shard).named_split();
        assert_eq!(split("x/fineweb_val_000000.bin"), Some(Split::Val));
        assert_eq!(split("edu_fineweb_train_000012.bin"), Some(Split::Train));
        assert_eq!(split("train.bin"), Some(Split::Train));
        assert_eq!(split("training_values.bin"), None);
    }
}
