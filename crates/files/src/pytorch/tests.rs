//! Archives that we wrote, damaged ones, and sizes that need 64 bits.

use std::{fs, path::Path};

use fitgpt_pickle::PickleValue;
use proptest::prelude::*;
use safetensors::tensor::Dtype;

use super::*;
use crate::disk::Disk;

/// A file with two tensors, one of them under two names, and a few plain values.
fn write(path: &Path) -> u64 {
    let mut pickle = PickleWriter::default();
    pickle.dict(|it| {
        it.text("model");
        it.ordered_dict(|it| {
            it.text("wte");
            it.tensor(0, &[3, 2]);
            it.text("head");
            it.tensor(0, &[3, 2]);
        });
        it.text("loss");
        it.tensor(1, &[]);
        it.text("step");
        it.int(1 << 40);
        it.text("list");
        it.list(|it| it.float(0.25));
        it.text("nothing");
        it.none();
    });
    let file = Disk::real().create(path).unwrap();
    let mut archive = ArchiveWriter::create(file, &pickle.finish(), &[24, 4]).unwrap();
    for value in [1f32, 2.0, 3.0] {
        archive.write(0, &value.to_le_bytes()).unwrap();
    }
    archive.write(1, &2.5f32.to_le_bytes()).unwrap();
    for value in [4f32, 5.0, 6.0] {
        archive.write(0, &value.to_le_bytes()).unwrap();
    }
    archive.finish().unwrap()
}

fn read(path: &Path) -> Result<SavedFile, SavedError> {
    SavedFile::read(Disk::real().open(path).unwrap())
}

#[test]
fn written_files_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ckpt.pt");
    let bytes = write(&path);
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    let saved = read(&path).unwrap();
    let (root, pickle) = (saved.root().unwrap(), saved.pickle());
    let Some(PickleValue::Dict(model)) = pickle.get(root, "model") else { panic!("{saved:?}") };
    let tensors = saved.tensors(model).unwrap();
    let [(first, wte), (second, head)] = &tensors[..] else { panic!("{tensors:?}") };
    assert_eq!((first.as_str(), second.as_str(), wte), ("wte", "head", head));
    assert_eq!((wte.dtype, &wte.shape[..], wte.bytes), (Dtype::F32, &[3, 2][..], 24));
    assert_eq!(wte.start % 64, 0);
    let number = |key| saved.number(key, pickle.get_handle(root, key).unwrap()).unwrap();
    assert_eq!(number("loss"), Some(2.5));
    assert_eq!(number("step"), Some(2f64.powi(40)));
    assert_eq!(number("nothing"), None);
    let start = wte.start;
    let file = saved.into_file();
    let mut values = [0; 24];
    file.read_exact_at(&mut values, start).unwrap();
    let values: Vec<_> = values.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

/// Checks that reading all tensors returns; a panic fails the test.
fn read_everything(path: &Path) {
    let Ok(saved) = read(path) else { return };
    let Ok(root) = saved.root() else { return };
    for [_, value] in root {
        if let PickleValue::Dict(pairs) = saved.pickle().value(*value) {
            let length = fs::metadata(path).unwrap().len();
            for (_, tensor) in saved.tensors(pairs).unwrap_or_default() {
                assert!(tensor.start + tensor.bytes <= length, "{tensor:?}");
            }
        }
        let _ = saved.number("value", *value);
    }
}

#[test]
fn every_flipped_bit_and_every_truncation_is_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ckpt.pt");
    write(&path);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        read_everything(&path);
        if at % 5 == 0 {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&path).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn a_file_of_an_old_pytorch_is_refused_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.bin");
    fs::write(&path, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.").unwrap();
    assert!(matches!(read(&path), Err(SavedError::OldFormat)));
    fs::write(&path, b"").unwrap();
    assert!(matches!(read(&path), Err(SavedError::NotAnArchive)));
}

#[test]
fn a_pickle_that_refers_to_anything_else_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evil.pt");
    let file = Disk::real().create(&path).unwrap();
    let pickle = b"\x80\x02cposix\nsystem\nX\x02\0\0\0ls\x85R.";
    ArchiveWriter::create(file, pickle, &[]).unwrap().finish().unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("`posix.system`"), "{error}");
}

#[test]
fn entries_beyond_four_gigabytes_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.pt");
    let mut pickle = PickleWriter::default();
    let large = (1_usize << 30) + 16; // float32 values
    pickle.dict(|it| {
        for (index, shape) in [large, large, 2].into_iter().enumerate() {
            it.text(&index.to_string());
            it.tensor(index, &[shape]);
        }
    });
    let file = Disk::real().create(&path).unwrap();
    let sizes = [4 * large as u64, 4 * large as u64, 8];
    let mut archive = ArchiveWriter::create(file, &pickle.finish(), &sizes).unwrap();
    archive.skip_to_end_for_tests();
    let bytes = archive.finish().unwrap();
    assert!(bytes > 8 << 30);
    let saved = read(&path).unwrap();
    let tensors = saved.tensors(saved.root().unwrap()).unwrap();
    let places: Vec<_> = tensors.iter().map(|(_, tensor)| tensor.bytes).collect();
    assert_eq!(places, sizes);
    assert!(tensors[2].1.start > 8 << 30);
}

proptest! {
    /// Only checks that reading returns: a panic or abort fails the test.
    #[test]
    fn any_bytes_are_a_file_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.pt");
        fs::write(&path, bytes).unwrap();
        read_everything(&path);
    }

    /// An intact archive around any pickle.
    #[test]
    fn any_pickle_in_an_archive_is_a_value_or_an_error(
        pickle in proptest::collection::vec(proptest::sample::select(b"(]}).eaudsthqQRcKMX0123\x85\x86\x87\x88\x8a\n".to_vec()), 0..200),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.pt");
        let file = Disk::real().create(&path).unwrap();
        ArchiveWriter::create(file, &pickle, &[]).unwrap().finish().unwrap();
        read_everything(&path);
    }
}
