//! A nanoGPT folder on disk.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use fitgpt_files::{attempt::Attempt, os};

use super::{File, PatchError};

/// Far more than either file.
const MAX_BYTES: u64 = 16 << 20;

/// The text of one of the two files.
pub fn read(folder: &Path, file: File) -> Result<String, PatchError> {
    let path = folder.join(file.name());
    os::read_text(&path, MAX_BYTES).map_err(|source| PatchError::File {
        doing: Attempt::Read,
        path,
        source,
    })
}

/// Writes changed files after copying each to `train.py.orig`, with a number appended if that
/// exists, because the oldest copy is the one to restore. Returns the copies. Nothing is written
/// before all copies exist.
pub fn write(folder: &Path, texts: &[(File, &str)]) -> Result<Vec<PathBuf>, PatchError> {
    let paths: Vec<_> = texts.iter().map(|(file, _)| folder.join(file.name())).collect();
    let mut copies = Vec::with_capacity(paths.len());
    for path in &paths {
        let copy = back_up(path);
        let fault =
            |source| PatchError::File { doing: Attempt::BackUp, path: path.clone(), source };
        copies.push(copy.map_err(fault)?);
    }
    for (path, (_, text)) in paths.into_iter().zip(texts) {
        let written = fs::write(&path, text);
        written.map_err(|source| PatchError::File { doing: Attempt::Write, path, source })?;
    }
    Ok(copies)
}

fn back_up(path: &Path) -> io::Result<PathBuf> {
    let bytes = os::read_bytes(path, MAX_BYTES)?;
    for number in 0_u32.. {
        let mut copy = path.as_os_str().to_owned();
        copy.push(".orig");
        if number > 0 {
            copy.push(format!(".{number}"));
        }
        match fs::File::create_new(&copy) {
            Ok(mut file) => {
                io::Write::write_all(&mut file, &bytes)?;
                file.sync_all()?;
                return Ok(copy.into());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_copy_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.py");
        fs::write(&path, "one").unwrap();
        let first = write(folder.path(), &[(File::Train, "two")]).unwrap();
        let second = write(folder.path(), &[(File::Train, "three")]).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("train.py.orig")).unwrap(), "one");
        assert_eq!(fs::read_to_string(&first[0]).unwrap(), "one");
        assert_eq!(fs::read_to_string(&second[0]).unwrap(), "two");
        assert_eq!(read(folder.path(), File::Train).unwrap(), "three");
    }

    #[test]
    fn nothing_is_written_if_one_file_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train.py"), "one").unwrap();
        let error =
            write(folder.path(), &[(File::Train, "two"), (File::Model, "two")]).unwrap_err();
        assert!(error.to_string().starts_with("cannot back up `"), "{error}");
        assert_eq!(read(folder.path(), File::Train).unwrap(), "one");
    }

    #[test]
    fn a_folder_without_the_files_is_an_error_with_the_path() {
        let error = read(Path::new("no such folder"), File::Model).unwrap_err().to_string();
        assert!(error.starts_with("cannot read `no such folder"), "{error}");
    }
}
