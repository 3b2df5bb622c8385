//! Files and folders that a command writes for the user: which paths it may write to.
//!
//! No command writes over what it reads, over a device, a pipe or a socket, or over a file of a
//! training run, with or without `--overwrite`.
//!
//! Promise: no output replaces an input, a file of a run, a device or a pipe. Test: this file,
//! `tests/runs/folders.rs`.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use crate as checkpoint;
use crate::FolderContents;
use fitgpt_files::disk::{Disk, parent_of};
use fitgpt_say::{Lang, Say};

/// Why a path is not written to.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The command reads it.
    Input {
        /// The file or folder.
        path: PathBuf,
    },
    /// A device, a pipe, a socket, or a folder instead of a file.
    NotAFile {
        /// What it is instead.
        path: PathBuf,
    },
    /// A file instead of a folder.
    NotAFolder {
        /// What it is instead.
        path: PathBuf,
    },
    /// A file of a training run.
    OfRun {
        /// The file.
        path: PathBuf,
    },
    /// A file or a folder of somebody else.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It exists, and may be replaced only if asked to.
    Exists {
        /// The file or folder.
        path: PathBuf,
    },
}

fitgpt_say::messages! {
    input(path) {
        en: "`{path}` is read by this command and is not replaced",
        zh: "本命令正在读取 `{path}`，不会替换它",
        ja: "`{path}` はこのコマンドが読み込むため、置き換えません",
        de: "`{path}` wird von diesem Befehl gelesen und nicht ersetzt",
    }
    not_a_file(path) {
        en: "`{path}` is not a regular file and is not replaced",
        zh: "`{path}` 不是普通文件，不会被替换",
        ja: "`{path}` は通常のファイルではないため、置き換えません",
        de: "`{path}` ist keine gewöhnliche Datei und wird nicht ersetzt",
    }
    not_a_folder(path) {
        en: "`{path}` is not a folder", zh: "`{path}` 不是文件夹", ja: "`{path}` はフォルダではありません", de: "`{path}` ist kein Ordner",
    }
    of_run(path) {
        en: "`{path}` belongs to a training run and is not replaced",
        zh: "`{path}` 属于一次训练，不会被替换",
        ja: "`{path}` は学習の実行に属するため、置き換えません",
        de: "`{path}` gehört zu einem Lauf und wird nicht ersetzt",
    }
    foreign(path) {
        en: "`{path}` was not written by fitgpt and is not replaced",
        zh: "`{path}` 不是 fitgpt 写的，不会被替换",
        ja: "`{path}` は fitgpt が書いたものではないため、置き換えません",
        de: "`{path}` wurde nicht von fitgpt geschrieben und wird nicht ersetzt",
    }
    exists(path) {
        en: "`{path}` exists; `--overwrite` replaces it",
        zh: "`{path}` 已存在；用 `--overwrite` 覆盖",
        ja: "`{path}` は既に存在します。`--overwrite` で上書きできます",
        de: "`{path}` gibt es schon; `--overwrite` ersetzt es",
    }
}

impl Say for OutputError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Input { path } => input(lang, path.display()),
            Self::NotAFile { path } => not_a_file(lang, path.display()),
            Self::NotAFolder { path } => not_a_folder(lang, path.display()),
            Self::OfRun { path } => of_run(lang, path.display()),
            Self::Foreign { path } => foreign(lang, path.display()),
            Self::Exists { path } => exists(lang, path.display()),
        }
    }
}

fitgpt_say::displays_english!(OutputError);

/// Which existing files may be replaced.
#[derive(Clone, Copy)]
pub enum Replace {
    /// None.
    Nothing,
    /// Any regular file.
    Any,
    /// Those that begin like one of these, and empty ones.
    Like(&'static [&'static str]),
}

/// The beginnings of SVG pictures.
pub const SVG: Replace = Replace::Like(&["<svg", "<?xml"]);
/// The beginnings of HTML pages.
pub const HTML: Replace = Replace::Like(&["<!doctype html", "<html"]);

/// Refuses to write the file `path` unless that replaces only what `replace` allows, and none of
/// `inputs`.
pub fn check_file(path: &Path, inputs: &[&Path], replace: Replace) -> Result<(), OutputError> {
    let own = path.to_owned();
    if is_own_stream(path) {
        return Ok(());
    }
    if inputs.iter().any(|input| is_same(input, path)) {
        return Err(OutputError::Input { path: own });
    }
    if is_of_run(path) {
        return Err(OutputError::OfRun { path: own });
    }
    let Ok(facts) = fs::metadata(path) else {
        // A link to nothing is replaced by the file.
        return Ok(());
    };
    if !facts.is_file() {
        return Err(OutputError::NotAFile { path: own });
    }
    match replace {
        Replace::Any => Ok(()),
        Replace::Nothing => Err(OutputError::Exists { path: own }),
        Replace::Like(starts) if begins_like(path, starts) => Ok(()),
        Replace::Like(_) => Err(OutputError::Foreign { path: own }),
    }
}

/// Refuses a file that the run in `folder`, which may not have begun, would write itself.
pub fn check_not_of_run(path: &Path, folder: &Path) -> Result<(), OutputError> {
    if is_same(parent_of(path), folder) && has_own_name(path) {
        return Err(OutputError::OfRun { path: path.to_owned() });
    }
    Ok(())
}

/// Refuses to write a model to the folder `path`, unless it is new, empty, or one that was exported
/// earlier and may be replaced.
pub fn check_folder(path: &Path, input: &Path, overwrite: bool) -> Result<(), OutputError> {
    let own = path.to_owned();
    let Ok(facts) = fs::metadata(path) else { return Ok(()) };
    if !facts.is_dir() {
        return Err(OutputError::NotAFolder { path: own });
    }
    if is_same(input, path) {
        return Err(OutputError::Input { path: own });
    }
    let contents = checkpoint::inspect(&Disk::real(), path);
    if checkpoint::has_state(path)
        || matches!(contents, Ok(FolderContents::Run | FolderContents::Begun))
    {
        return Err(OutputError::OfRun { path: own });
    }
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        return Ok(());
    }
    if !overwrite {
        return Err(OutputError::Exists { path: own });
    }
    match contents {
        Ok(FolderContents::Foreign(names)) if !checkpoint::is_exported(path) => {
            let name = names.first().map_or("", String::as_str);
            Err(OutputError::Foreign { path: path.join(name) })
        }
        _ => Ok(()),
    }
}

/// Writes a file that appears complete or not at all; an open stream of the process is written to.
pub fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    if is_own_stream(path) {
        return fs::write(path, text);
    }
    // Through a link, as any program would.
    let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Disk::real().replace(&file, text.as_bytes()).map_err(|error| error.source)
}

/// Whether it is an open stream of this process, such as `/dev/stdout` or a shell's `>(command)`.
/// Writing there replaces nothing.
fn is_own_stream(path: &Path) -> bool {
    let streams = ["/dev/stdout", "/dev/stderr", "/proc/self/fd/1", "/proc/self/fd/2"];
    streams.iter().any(|stream| path == Path::new(stream)) || path.starts_with("/dev/fd")
}

/// Whether two paths refer to the same file or folder, whatever their names.
fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path| Disk::real().identity(path).ok().flatten();
    identity(a).is_some_and(|a| Some(a) == identity(b))
}

/// Whether `path` is, or would become, a file of the training run in its folder.
fn is_of_run(path: &Path) -> bool {
    let folder = parent_of(path);
    has_own_name(path)
        && matches!(
            checkpoint::inspect(&Disk::real(), folder),
            Ok(FolderContents::Run | FolderContents::Begun)
        )
}

/// Whether runs write files of this name.
fn has_own_name(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(checkpoint::is_own_name)
}

/// Whether a file is empty or begins with one of `starts`, in any case.
fn begins_like(path: &Path, starts: &[&str]) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    let text = String::from_utf8_lossy(&start).to_lowercase();
    read.is_ok()
        && (start.is_empty() || starts.iter().any(|known| text.trim_start().starts_with(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_not_replaced_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let (config, picture) = (folder.path().join("c.py"), folder.path().join("p.svg"));
        fs::write(&config, "<svg").unwrap();
        let again = folder.path().join(".").join("c.py");
        for replace in [Replace::Nothing, Replace::Any, SVG] {
            let error = check_file(&again, &[&config], replace).unwrap_err();
            assert!(matches!(error, OutputError::Input { .. }), "{error}");
        }
        check_file(&picture, &[&config], Replace::Nothing).unwrap();
    }

    #[test]
    fn pictures_replace_pictures_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.svg");
        for (text, is_replaced) in [
            ("", true),
            ("<svg xmlns", true),
            ("<?xml ?>", true),
            ("# notes", false),
            ("\u{1}", false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(check_file(&path, &[], SVG).is_ok(), is_replaced, "{text}");
        }
        fs::write(&path, "<!DOCTYPE html>").unwrap();
        assert!(check_file(&path, &[], HTML).is_ok() && check_file(&path, &[], SVG).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn devices_pipes_and_folders_are_not_files_even_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for path in [pipe.as_path(), &link, folder.path(), Path::new("/dev/null")] {
            for replace in [Replace::Nothing, Replace::Any, SVG] {
                let error = check_file(path, &[], replace).unwrap_err();
                assert!(matches!(error, OutputError::NotAFile { .. }), "{error}");
            }
            if path != folder.path() {
                let error = check_folder(path, Path::new("in"), true).unwrap_err();
                assert!(matches!(error, OutputError::NotAFolder { .. }), "{error}");
            }
        }
        check_file(Path::new("/dev/stdout"), &[], Replace::Nothing).unwrap();
    }
}
