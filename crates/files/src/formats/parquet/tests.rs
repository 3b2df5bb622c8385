//! Files that pyarrow wrote (`tests/formats/make.py`), intact and damaged.

use std::{fs, io::Write, path::Path};

use super::*;

const FILES: [&str; 11] = [
    "plain",
    "snappy",
    "gzip_v2",
    "zstd",
    "zstd_v2",
    "delta_length",
    "delta_strings",
    "brotli",
    "lz4",
    "checksums",
    "empty_groups",
];

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats").join(name)
}

fn expected() -> Vec<String> {
    let texts = fs::read_to_string(path("texts.jsonl")).unwrap();
    texts.lines().filter_map(|line| serde_json::from_str::<Option<String>>(line).unwrap()).collect()
}

fn read(file: File, column: &str) -> Result<Vec<Vec<u8>>, ParquetError> {
    let mut column = TextColumn::open(file, column)?;
    let mut texts = Vec::new();
    while let Some(text) = column.next_text()? {
        texts.push(text.to_owned());
    }
    Ok(texts)
}

fn read_bytes(bytes: &[u8], column: &str) -> Result<Vec<Vec<u8>>, ParquetError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    read(file, column)
}

#[test]
fn every_encoding_and_compression_gives_the_texts() {
    let expected = expected().into_iter().map(String::into_bytes).collect::<Vec<_>>();
    for name in FILES {
        for column in ["text", "meta.text"] {
            let file = File::open(path(&format!("{name}.parquet"))).unwrap();
            assert!(read(file, column).unwrap() == expected, "{name} {column}");
        }
    }
    assert!(read(File::open(path("required.parquet")).unwrap(), "body").unwrap() == expected);
}

#[test]
fn a_file_without_rows_has_no_texts() {
    let file = File::open(path("no_rows.parquet")).unwrap();
    assert!(read(file, "text").unwrap().is_empty());
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let error = read(File::open(path("two_columns.parquet")).unwrap(), "body").unwrap_err();
    assert_eq!(error.to_string(), "it has several columns `body`; rename all but one");
}

#[test]
fn a_flipped_bit_in_a_page_with_a_checksum_is_found() {
    let whole = fs::read(path("checksums.parquet")).unwrap();
    let expected = read_bytes(&whole, "text").unwrap();
    // A text of 5000 letters, once in each column; statistics hold no text that long.
    let inside = (4..whole.len()).filter(|&at| whole[at - 4..=at] == *b"xxxxx");
    let found = inside.filter(|&at| {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        read_bytes(&changed, "text").map_or(true, |texts| {
            assert!(texts == expected, "byte {at}");
            false
        })
    });
    assert!((4_900..5_000).contains(&found.count()));
}

#[test]
fn a_page_whose_header_holds_long_texts_is_read() {
    let long = ["a", "m", "z"].map(|letter| letter.repeat(3000).into_bytes());
    let file = File::open(path("statistics.parquet")).unwrap();
    assert!(read(file, "body").unwrap() == long);
}

#[test]
fn a_column_without_texts_is_refused_by_name() {
    let open = |column| TextColumn::open(File::open(path("snappy.parquet")).unwrap(), column);
    assert_eq!(
        open("body").unwrap_err().to_string(),
        "it has no column `body`; choose one of `id`, `text`, `meta.text`, `tags.list.element` \
         with `--column`"
    );
    for column in ["id", "tags.list.element"] {
        let expected = format!("its column `{column}` does not have one string per row");
        assert_eq!(open(column).unwrap_err().to_string(), expected);
    }
}

#[test]
fn other_files_are_not_parquet() {
    for bytes in [b"".as_slice(), b"PAR1", b"plain text that is long enough", b"PAR1 and more text"]
    {
        assert!(matches!(read_bytes(bytes, "text"), Err(ParquetError::NotParquet)));
    }
    let encrypted = read_bytes(b"PARE\0\0\0\0\x01\0\0\0PARE", "text");
    assert!(matches!(encrypted, Err(ParquetError::Encrypted)));
    for len in [0, 5, 100, u32::MAX] {
        let bytes = [b"PAR1".as_slice(), &[0; 16], &len.to_le_bytes(), b"PAR1"].concat();
        assert!(read_bytes(&bytes, "text").is_err());
    }
}

#[test]
fn a_truncated_or_corrupted_file_gives_texts_or_an_error_and_never_a_panic() {
    let mut n_errors = 0;
    for (index, name) in (0..).zip(FILES) {
        let bytes = fs::read(path(&format!("{name}.parquet"))).unwrap();
        for i in 0..600 {
            let at = (scatter(index, i) % bytes.len() as u64) as usize;
            let mut changed = bytes.clone();
            if i % 4 == 0 {
                changed.drain(at..(at + 1 + i as usize % 7).min(bytes.len()));
            } else {
                // Most of a file is text, in which any byte is valid; so half of the changes are in
                // the metadata.
                let at = if i % 2 == 0 { at } else { bytes.len() - 1 - at % 1200 };
                changed[at] = (scatter(index, i) >> 56) as u8;
            }
            n_errors += u32::from(read_bytes(&changed, "text").is_err());
        }
    }
    assert!(n_errors > 500, "only {n_errors} changes were noticed");
}

/// A number that looks random, from a file's index and a try's.
fn scatter(file: u64, attempt: u64) -> u64 {
    let mixed = (file << 32 | attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}
