//! What there is to read: files, the files of folders, standard input.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use super::{EXTENSIONS, Format, Input, PrepareError, draft::Draft};
use crate::attempt::Attempt;

/// The extensions that mean one document a line.
const JSONL_EXTENSIONS: [&str; 2] = ["jsonl", "ndjson"];

/// One thing to read.
#[derive(Debug)]
pub(super) struct Source {
    /// What errors call it.
    pub(super) name: PathBuf,
    pub(super) format: Format,
    /// How long it is; `None` for what flows by once: standard input, a pipe.
    pub(super) bytes: Option<u64>,
    path: Option<PathBuf>, // standard input has none
}

impl Source {
    /// Everything that the inputs name, in order: folders by the names in them.
    pub(super) fn find(
        inputs: &[Input],
        format: Option<Format>,
    ) -> Result<Vec<Self>, PrepareError> {
        let mut sources = Vec::new();
        let mut is_stdin_named = false;
        for input in inputs {
            match input {
                Input::Stdin if is_stdin_named => return Err(PrepareError::StdinTwice),
                Input::Stdin => {
                    is_stdin_named = true;
                    let format = format.unwrap_or(Format::Text);
                    let name = PathBuf::from("<stdin>");
                    sources.push(Self { name, format, bytes: None, path: None });
                }
                Input::Path(path) if path.is_dir() => {
                    let before = sources.len();
                    for path in files(path)? {
                        sources.push(Self::at(path, format)?);
                    }
                    if sources.len() == before {
                        return Err(PrepareError::NoTexts { folder: path.clone() });
                    }
                }
                Input::Path(path) => sources.push(Self::at(path.clone(), format)?),
            }
        }
        if sources.is_empty() { Err(PrepareError::NoInput) } else { Ok(sources) }
    }

    fn at(path: PathBuf, format: Option<Format>) -> Result<Self, PrepareError> {
        let facts = fs::metadata(&path).map_err(|source| PrepareError::reading(&path, source))?;
        let of_extension =
            if has_extension(&path, &JSONL_EXTENSIONS) { Format::Jsonl } else { Format::Text };
        Ok(Self {
            name: path.clone(),
            format: format.unwrap_or(of_extension),
            bytes: facts.is_file().then_some(facts.len()),
            path: Some(path),
        })
    }

    /// Opens it from its start.
    pub(super) fn open<'a>(
        &self,
        stdin: &'a mut dyn Read,
    ) -> Result<Box<dyn Read + 'a>, PrepareError> {
        match &self.path {
            None => Ok(Box::new(stdin)),
            Some(path) => match File::open(path) {
                Ok(file) => Ok(Box::new(file)),
                Err(source) => {
                    Err(PrepareError::Io { action: Attempt::Open, path: self.name.clone(), source })
                }
            },
        }
    }

    /// Reads it from now on from a draft that holds its bytes.
    pub(super) fn read_from(&mut self, draft: &Draft) {
        self.path = Some(draft.path().to_owned());
        self.bytes = Some(draft.bytes());
    }
}

/// How many bytes there are in all, where every length is known.
pub(super) fn total_bytes(sources: &[Source]) -> Option<u64> {
    sources.iter().map(|source| source.bytes).sum()
}

/// The texts in a folder and the folders in it, sorted. Hidden ones are left out, and links
/// to folders, which may lead in a circle.
fn files(folder: &Path) -> Result<Vec<PathBuf>, PrepareError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |source| PrepareError::reading(&folder, source);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if has_extension(&path, &EXTENSIONS) && path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|has| extensions.iter().any(|&e| has.eq_ignore_ascii_case(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, sources: &[Source]) -> Vec<String> {
        let name = |source: &Source| source.name.strip_prefix(folder).unwrap().to_owned();
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

    #[test]
    fn a_folder_is_its_texts_in_sorted_order() {
        let folder = folder_with(&[
            "b.txt",
            "a/z.md",
            "a/b/c.TEXT",
            "c.jsonl",
            "d.bin",
            "e",
            ".hidden.txt",
            ".git/x.txt",
            "f.ndjson",
            "10.txt",
            "9.txt",
        ]);
        let inputs = [Input::Path(folder.path().to_owned())];
        let sources = Source::find(&inputs, None).unwrap();
        assert_eq!(
            names(folder.path(), &sources),
            ["10.txt", "9.txt", "a/b/c.TEXT", "a/z.md", "b.txt", "c.jsonl", "f.ndjson"]
        );
        let formats = sources.iter().map(|source| source.format).collect::<Vec<_>>();
        assert_eq!(formats[..5], [Format::Text; 5]);
        assert_eq!(formats[5..], [Format::Jsonl; 2]);
        assert_eq!(total_bytes(&sources), Some(7 * 4));
        let sources = Source::find(&inputs, Some(Format::Text)).unwrap();
        assert!(sources.iter().all(|source| source.format == Format::Text));
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
        let sources = Source::find(&[Input::Path(folder.path().to_owned())], None).unwrap();
        assert_eq!(names(folder.path(), &sources), ["a.txt", "c.txt", "in/b.txt"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = folder_with(&["a.bin"]);
        let find = |inputs: &[Input]| Source::find(inputs, None).unwrap_err();
        assert!(matches!(find(&[]), PrepareError::NoInput));
        assert!(matches!(find(&[Input::Stdin, Input::Stdin]), PrepareError::StdinTwice));
        let empty = find(&[Input::Path(folder.path().to_owned())]).to_string();
        assert!(
            empty.ends_with("holds no files that end in `txt`, `text`, `md`, `jsonl`, `ndjson`")
        );
        let missing = find(&[Input::Path(folder.path().join("no.txt"))]).to_string();
        assert!(missing.contains("no.txt"), "{missing}");
    }

    #[test]
    fn a_file_that_is_named_needs_no_extension() {
        let folder = folder_with(&["a.bin"]);
        let inputs = [Input::Stdin, Input::Path(folder.path().join("a.bin"))];
        let sources = Source::find(&inputs, None).unwrap();
        assert_eq!(sources[1].format, Format::Text);
        assert_eq!(total_bytes(&sources), None);
    }
}
