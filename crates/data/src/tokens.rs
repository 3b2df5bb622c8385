//! Files of tokens.
//!
//! Two formats, distinguished by their first bytes: nanoGPT's (little-endian 16-bit tokens and
//! nothing else) and llm.c's shards (a header of 256 32-bit words, then the same tokens, or 32-bit
//! ones in version 7). Several shards are read as one. A file whose name ends in `.u32.bin` has
//! little-endian 32-bit tokens and nothing else.
//!
//! Files are read with positioned reads and never mapped: mapped pages would count as memory of the
//! run, and a truncated file must be an error, not a signal.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use fitgpt_files::{attempt::Attempt, os};

use super::{DataError, LFS_POINTER};

/// The end of the name of a file of 32-bit tokens.
pub(crate) const WIDE_EXTENSION: &str = ".u32.bin";

const TOKEN_BYTES: u64 = 2;
const WIDE_TOKEN_BYTES: u64 = 4;
/// The header of a shard.
pub const HEADER_BYTES: u64 = 1024;
const MAGIC: i32 = 20_240_520;
const VERSION: i32 = 1;
/// llm.c's shards of 32-bit tokens (Llama 3).
const MAGIC_32_BIT: i32 = 20_240_801;
const VERSION_32_BIT: i32 = 7;
/// Buffer on the stack while reading; a sequence of GPT-2 takes half of it.
const SCRATCH_BYTES: usize = 4096;

/// Tokens of one file, or of several in order as if they were one.
#[derive(Debug)]
pub struct Tokens {
    files: Vec<TokenFile>,
    len: u64,
}

/// An open file of tokens.
#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    file: File,
    header_bytes: u64,
    /// Bytes of a token.
    width: u64,
    len: u64,
    /// How many tokens and bytes are in the files before.
    start: u64,
    start_byte: u64,
}

impl Tokens {
    /// Opens a file and checks that it is complete.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DataError> {
        Self::open_all(vec![path.into()])
    }

    /// Opens several files and checks that each is complete.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub(crate) fn open_all(paths: Vec<PathBuf>) -> Result<Self, DataError> {
        assert!(!paths.is_empty(), "tokens are in some file");
        let mut files: Vec<TokenFile> = Vec::with_capacity(paths.len());
        let (mut len, mut bytes) = (0, 0);
        for path in paths {
            let file = TokenFile::open(path, len, bytes)?;
            len += file.len;
            bytes += file.bytes();
            files.push(file);
        }
        Ok(Self { files, len })
    }

    /// The path of its first file.
    pub fn path(&self) -> &Path {
        &self.files[0].path
    }

    /// How many files there are.
    pub fn n_files(&self) -> usize {
        self.files.len()
    }

    /// How many tokens there are; never zero.
    #[expect(clippy::len_without_is_empty, reason = "an empty file is not opened")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The length of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(TokenFile::bytes).sum()
    }

    /// Fills `bytes` with the files' bytes from `start`.
    pub(super) fn read_bytes(&self, start: u64, bytes: &mut [u8]) -> Result<(), DataError> {
        let mut rest = bytes;
        let mut start = start;
        for file in &self.files {
            let end = file.start_byte + file.bytes();
            if start >= end || rest.is_empty() {
                continue;
            }
            let n = rest.len().min((end - start) as usize);
            let (part, after) = rest.split_at_mut(n);
            let at = start - file.start_byte;
            os::read_exact_at(&file.file, part, at)
                .map_err(|source| file.failed(source, (at + n as u64) / file.width))?;
            (rest, start) = (after, end);
        }
        Ok(())
    }

    /// Fills `tokens` from position `start`. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If the range exceeds [`Self::len`].
    pub fn read(&self, start: u64, tokens: &mut [u32]) -> Result<(), DataError> {
        let end = start.checked_add(tokens.len() as u64);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{} tokens from {start} exceed a file of {}",
            tokens.len(),
            self.len
        );
        // The last file that begins at or before `start`.
        let mut index = self.files.partition_point(|file| file.start <= start).saturating_sub(1);
        let (mut rest, mut start) = (tokens, start);
        while !rest.is_empty() {
            let file = &self.files[index];
            let here = file.start + file.len - start;
            let (part, after) = rest.split_at_mut(rest.len().min(here as usize));
            file.read(start - file.start, part)?;
            start += part.len() as u64;
            rest = after;
            index += 1;
        }
        Ok(())
    }
}

/// Whether a file is what Git LFS puts in the place of a large one. Its text is even a valid file of
/// 16-bit tokens.
fn is_lfs_pointer(file: &File) -> bool {
    let mut start = [0; LFS_POINTER.len()];
    os::read_exact_at(file, &mut start, 0).is_ok() && start == *LFS_POINTER
}

impl TokenFile {
    fn open(path: PathBuf, start: u64, start_byte: u64) -> Result<Self, DataError> {
        let file = match os::open_regular(&path) {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(DataError::Missing { path });
            }
            Err(source) if source.kind() == io::ErrorKind::InvalidInput => {
                return Err(DataError::NotAFile { path });
            }
            Err(source) => return Err(DataError::Io { action: Attempt::Open, path, source }),
        };
        let bytes = match file.metadata() {
            Ok(facts) => facts.len(),
            Err(source) => return Err(DataError::Io { action: Attempt::Read, path, source }),
        };
        if bytes == 0 {
            return Err(DataError::Empty { path });
        }
        if is_lfs_pointer(&file) {
            return Err(DataError::LfsPointer { path });
        }
        let is_wide = path.to_string_lossy().ends_with(WIDE_EXTENSION);
        let (width, header_bytes) =
            if is_wide { (WIDE_TOKEN_BYTES, 0) } else { check_header(&file, &path, bytes)? };
        if !bytes.is_multiple_of(width) {
            return Err(DataError::OddLength { path, bytes, width });
        }
        let len = (bytes - header_bytes) / width;
        if len == 0 {
            return Err(DataError::Empty { path });
        }
        Ok(Self { path, file, header_bytes, width, len, start, start_byte })
    }

    fn bytes(&self) -> u64 {
        self.header_bytes + self.len * self.width
    }

    fn read(&self, start: u64, tokens: &mut [u32]) -> Result<(), DataError> {
        let mut scratch = [0_u8; SCRATCH_BYTES];
        let mut position = start;
        let width = self.width as usize;
        for part in tokens.chunks_mut(SCRATCH_BYTES / width) {
            let bytes = &mut scratch[..part.len() * width];
            let end = position + part.len() as u64;
            os::read_exact_at(&self.file, bytes, self.header_bytes + position * self.width)
                .map_err(|source| self.failed(source, end))?;
            for (token, bytes) in part.iter_mut().zip(bytes.chunks_exact(width)) {
                let mut word = [0; 4];
                word[..width].copy_from_slice(bytes);
                *token = u32::from_le_bytes(word);
            }
            position = end;
        }
        Ok(())
    }

    fn failed(&self, source: io::Error, end: u64) -> DataError {
        let path = self.path.clone();
        if source.kind() == io::ErrorKind::UnexpectedEof {
            DataError::Shrank { path, tokens: self.len, end }
        } else {
            DataError::Io { action: Attempt::Read, path, source }
        }
    }
}

/// The first bytes of a shard of `tokens` tokens of `width` bytes, as llm.c writes them.
pub fn shard_header(tokens: u64, width: u64) -> [u8; HEADER_BYTES as usize] {
    let (magic, version) =
        if width == WIDE_TOKEN_BYTES { (MAGIC_32_BIT, VERSION_32_BIT) } else { (MAGIC, VERSION) };
    let mut header = [0; HEADER_BYTES as usize];
    // A shard has far fewer than 2^31 tokens.
    for (i, word) in [magic, version, tokens as i32].into_iter().enumerate() {
        header[4 * i..4 * i + 4].copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// The size of a token and of the file's header, zero if it has none.
///
/// A file of nanoGPT's could start with the two tokens that form a magic number, but only with a
/// vocabulary larger than 55,960, so not with GPT-2's.
fn check_header(file: &File, path: &Path, bytes: u64) -> Result<(u64, u64), DataError> {
    let mut words = [0_u8; 12];
    if bytes < 4 {
        return Ok((TOKEN_BYTES, 0));
    }
    let present = words.len().min(bytes as usize);
    os::read_exact_at(file, &mut words[..present], 0).map_err(|source| DataError::Io {
        action: Attempt::Read,
        path: path.to_owned(),
        source,
    })?;
    let word = |i: usize| i32::from_le_bytes([0, 1, 2, 3].map(|byte| words[4 * i + byte]));
    let (magic, version, announced) = (word(0), word(1), i64::from(word(2)));
    if magic != MAGIC && magic != MAGIC_32_BIT {
        return Ok((TOKEN_BYTES, 0));
    }
    let path = || path.to_owned();
    if bytes < HEADER_BYTES {
        return Err(DataError::HeaderCut { path: path(), bytes });
    }
    let width = match (magic, version) {
        (MAGIC, VERSION) => TOKEN_BYTES,
        (MAGIC_32_BIT, VERSION_32_BIT) => WIDE_TOKEN_BYTES,
        _ => return Err(DataError::ShardVersion { path: path(), magic, version }),
    };
    let body_bytes = bytes - HEADER_BYTES;
    if announced.checked_mul(width as i64) != i64::try_from(body_bytes).ok() {
        let held = body_bytes / width;
        return Err(DataError::WrongCount { path: path(), announced, held });
    }
    Ok((width, HEADER_BYTES))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    /// A file in nanoGPT's format.
    pub(crate) fn write_plain(path: &Path, tokens: impl IntoIterator<Item = u16>) {
        let bytes = tokens.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        fs::write(path, bytes).unwrap();
    }

    fn shard(magic: i32, version: i32, announced: i32, tokens: &[u16]) -> Vec<u8> {
        let mut bytes = [magic, version, announced].map(i32::to_le_bytes).concat();
        bytes.resize(1024, 0);
        bytes.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        bytes
    }

    fn open(bytes: &[u8]) -> Result<Tokens, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        fs::write(&path, bytes).unwrap();
        Tokens::open(path)
    }

    #[test]
    fn a_wide_file_reads_back_and_is_known_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.u32.bin");
        let write = |bytes: &[u8]| fs::write(&path, bytes).unwrap();
        // The first two words would be a shard's header in another file.
        let written: Vec<u32> = [20_240_520, 1].into_iter().chain(65_000..68_000).collect();
        write(&written.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>());
        let tokens = Tokens::open(&path).unwrap();
        assert_eq!(tokens.len(), 3_002);
        let mut read = vec![0; 3_000];
        tokens.read(2, &mut read).unwrap();
        assert_eq!(read, written[2..]);
        write(&[1, 0, 0, 0, 2, 0]);
        let error = Tokens::open(&path).unwrap_err().to_string();
        assert!(error.ends_with("its 6 bytes are not a multiple of 4"), "{error}");
    }

    #[test]
    fn a_plain_file_reads_back_from_any_position() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        write_plain(&path, (0..10_000).map(|i| i * 5));
        let tokens = Tokens::open(&path).unwrap();
        assert_eq!(tokens.len(), 10_000);
        for (start, len) in [(0, 1), (0, 10_000), (9_999, 1), (17, 5_000), (10_000, 0)] {
            let mut read = vec![u32::MAX; len];
            tokens.read(start as u64, &mut read).unwrap();
            let expected = (start..start + len).map(|i| i as u32 * 5).collect::<Vec<_>>();
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn a_shard_reads_as_the_tokens_after_its_header() {
        let tokens = open(&shard(20_240_520, 1, 3, &[50_256, 0, u16::MAX])).unwrap();
        let mut read = [0; 3];
        tokens.read(0, &mut read).unwrap();
        assert_eq!(read, [50_256, 0, 65_535]);
    }

    #[test]
    fn a_shard_of_32_bit_tokens_is_read() {
        let tokens = open(&shard(20_240_801, 7, 2, &[7, 0, 0, 1])).unwrap();
        let mut read = [0; 2];
        tokens.read(0, &mut read).unwrap();
        assert_eq!(read, [7, 65_536]);
        let header = shard_header(2, 4);
        assert_eq!(header[..], shard(20_240_801, 7, 2, &[]));
        assert_eq!(shard_header(3, 2)[..], shard(20_240_520, 1, 3, &[]));
    }

    #[test]
    fn several_files_read_as_one_from_any_position() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<u16> = (0..1000).map(|i| i * 61).collect();
        let mut paths = Vec::new();
        let mut bytes = Vec::new();
        for (i, part) in all.chunks(300).enumerate() {
            let content = shard(20_240_520, 1, part.len() as i32, part);
            bytes.extend_from_slice(&content);
            paths.push(folder.path().join(format!("train_{i:06}.bin")));
            fs::write(&paths[i], content).unwrap();
        }
        let tokens = Tokens::open_all(paths).unwrap();
        assert_eq!((tokens.len(), tokens.n_files()), (1000, 4));
        assert_eq!(tokens.bytes(), bytes.len() as u64);
        for (start, len) in [(0, 1000), (299, 2), (300, 300), (150, 700), (999, 1), (1000, 0)] {
            let mut read = vec![0; len];
            tokens.read(start as u64, &mut read).unwrap();
            let expected: Vec<_> = all[start..start + len].iter().map(|&t| u32::from(t)).collect();
            assert_eq!(read, expected, "{len} from {start}");
        }
        let mut read = vec![0; 3000];
        tokens.read_bytes(1500, &mut read).unwrap();
        assert_eq!(read, bytes[1500..4500]);
    }

    #[test]
    fn an_incomplete_file_is_refused_with_its_numbers() {
        let message = |bytes: &[u8]| {
            let error = open(bytes).unwrap_err().to_string();
            let name = error.find("/train.bin").expect("the error names the file");
            let path = error[..name].rfind('`').unwrap();
            format!("{}`F`{}", &error[..path], &error[name + "/train.bin`".len()..])
        };
        assert_eq!(message(b""), "`F` holds no tokens");
        assert_eq!(message(b"abc"), "`F` ends inside a token: its 3 bytes are not a multiple of 2");
        let whole = shard(20_240_520, 1, 3, &[1, 2, 3]);
        assert_eq!(
            message(&whole[..1028]),
            "the header of `F` announces 3 tokens, the file holds 2"
        );
        assert_eq!(
            message(&whole[..1029]),
            "the header of `F` announces 3 tokens, the file holds 2"
        );
        assert_eq!(message(&whole[..700]), "`F` ends inside its header of 1024 bytes, after 700");
        assert_eq!(
            message(&shard(20_240_520, 1, -1, &[7])),
            "the header of `F` announces -1 tokens, the file holds 1"
        );
        assert_eq!(message(&shard(20_240_520, 1, 0, &[])), "`F` holds no tokens");
        assert!(
            message(&shard(20_240_801, 6, 1, &[7, 0])).contains("magic number 20240801, version 6")
        );
    }

    #[test]
    fn a_missing_file_and_a_folder_are_different_errors() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Tokens::open(folder.path().join("val.bin")).unwrap_err();
        assert!(matches!(missing, DataError::Missing { .. }), "{missing}");
        let directory = Tokens::open(folder.path()).unwrap_err();
        assert!(matches!(directory, DataError::NotAFile { .. }), "{directory}");
    }

    #[test]
    fn a_file_that_shrinks_while_open_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        write_plain(&path, 0..100);
        let tokens = Tokens::open(&path).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        tokens.read(0, &mut [0; 50]).unwrap();
        let error = tokens.read(40, &mut [0; 20]).unwrap_err();
        assert!(matches!(error, DataError::Shrank { tokens: 100, end: 60, .. }), "{error}");
    }

    #[test]
    #[should_panic(expected = "2 tokens from 9 exceed a file of 10")]
    fn reading_past_the_end_panics() {
        let bytes = [0; 20];
        let _ = open(&bytes).unwrap().read(9, &mut [0; 2]);
    }
}
