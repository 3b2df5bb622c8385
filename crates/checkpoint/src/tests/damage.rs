//! Damaged files.

use std::{fs, sync::LazyLock};

use fitgpt_files::disk::simulated::SimulatedFiles;
use proptest::prelude::*;

use super::*;

const FILES: [&str; 4] = ["model.safetensors", "config.json", "state.safetensors", "manifest.json"];

#[test]
fn a_mixed_set_names_both_saves() {
    for name in FILES {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        save_version(dirs[0].path(), &tiny(true), 0);
        let first = save_version(dirs[0].path(), &tiny(true), 1).to_string();
        let second = save_version(dirs[1].path(), &tiny(true), 2).to_string();
        fs::copy(dirs[1].path().join(name), dirs[0].path().join(name)).unwrap();
        let message = Checkpoint::open(dirs[0].path()).unwrap_err().to_string();
        for fact in [&first, &second, name] {
            assert!(message.contains(fact), "{fact} in {message}");
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    for name in &FILES[..3] {
        let dir = tempfile::tempdir().unwrap();
        save_version(dir.path(), &tiny(true), 1);
        fs::remove_file(dir.path().join(name)).unwrap();
        match Checkpoint::open(dir.path()) {
            Err(CheckpointError::Missing { path }) => assert!(path.ends_with(name)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_with_path_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let out_dir = file.join("out");
    let architecture = tiny(true);
    let tensors = &tensors_of(&architecture);
    let contents = contents(&architecture, tensors, 1);
    let mut memory = Memory::version(tensors, Which::All, 1);
    let error = save(&Disk::real(), &out_dir, contents, &1, &mut memory).unwrap_err();
    match &error {
        CheckpointError::Io { path, source, .. } => {
            assert_eq!(*path, out_dir);
            assert!(error.to_string().ends_with(&source.to_string()), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_error_of_the_backend_is_passed_on_and_the_old_checkpoint_stays() {
    struct Lost;
    impl TensorSource for Lost {
        fn read(&mut self, _: TensorPiece<'_>, _: &mut [u8]) -> Result<(), StoreError> {
            Err(std::io::Error::other("the device was lost").into())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(true);
    save_version(dir.path(), &architecture, 1);
    let tensors = &tensors_of(&architecture);
    let contents = contents(&architecture, tensors, 1);
    let error = save(&Disk::real(), dir.path(), contents, &2, &mut Lost).unwrap_err();
    assert_eq!(error.to_string(), "cannot transfer `wte.weight`: the device was lost");
    assert_eq!(read_version(dir.path(), &architecture).unwrap(), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), FILES.len());
}

#[test]
fn a_header_with_a_false_length_allocates_nothing() {
    for length in [u64::MAX, 1 << 40, 100_000_001, 3000] {
        let dir = tempfile::tempdir().unwrap();
        save_version(dir.path(), &tiny(true), 1);
        let path = dir.path().join("model.safetensors");
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.resize(2000, b' ');
        fs::write(&path, bytes).unwrap();
        let error = Weights::open(dir.path()).unwrap_err();
        assert!(matches!(error, CheckpointError::HeaderLength { .. }), "{error}");
    }
}

/// The files of a complete checkpoint, saved only once because a save waits for the disk.
static WHOLE: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    save_version(dir.path(), &tiny(true), 1);
    FILES.map(|name| fs::read(dir.path().join(name)).unwrap())
});

/// A folder with [`WHOLE`], in which the file called `name` was changed.
fn with_changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Disk {
    let disk = SimulatedFiles::new(0).disk();
    disk.create_dirs(out()).unwrap();
    let mut change = Some(change);
    for (file, mut bytes) in FILES.into_iter().zip(WHOLE.clone()) {
        if file == name {
            change.take().expect("names differ")(&mut bytes);
        }
        disk.create(&out().join(file)).unwrap().write_all_at(&bytes, 0).unwrap();
    }
    disk
}

fn out() -> &'static Path {
    Path::new("out")
}

/// One change of a file.
#[derive(Clone, Debug)]
enum FileDamage {
    Flip { at: prop::sample::Index, bit: u8 },
    Truncate { at: prop::sample::Index },
    Append { bytes: Vec<u8> },
    Noise { bytes: Vec<u8> },
}

fn any_damage() -> impl Strategy<Value = FileDamage> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..64);
    prop_oneof![
        6 => (any::<prop::sample::Index>(), 0_u8..8).prop_map(|(at, bit)| FileDamage::Flip { at, bit }),
        2 => any::<prop::sample::Index>().prop_map(|at| FileDamage::Truncate { at }),
        1 => bytes().prop_map(|bytes| FileDamage::Append { bytes }),
        1 => bytes().prop_map(|bytes| FileDamage::Noise { bytes }),
    ]
}

impl FileDamage {
    fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Flip { at, bit } => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Self::Truncate { at } => bytes.truncate(at.index(bytes.len())),
            Self::Append { bytes: more } => bytes.extend(more),
            Self::Noise { bytes: noise } => *bytes = noise,
        }
    }
}

/// Reads everything in `dir`, and returns the version if nothing is wrong.
fn read_anything(disk: &Disk) -> Result<u32, CheckpointError> {
    let mut checkpoint = Checkpoint::open_once(disk, out())?;
    let tensors = tensors_of(&tiny(true));
    let mut memory = Memory::empty(&tensors, Which::All);
    checkpoint.read(&tensors, &mut memory)?;
    let version = checkpoint.document()?;
    assert_eq!(memory.bytes, Memory::version(&tensors, Which::All, version).bytes);
    Ok(version)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_change_of_any_file_is_an_error_and_never_a_panic(
        change in any_damage(),
        name in prop::sample::select(FILES.to_vec()),
    ) {
        let disk = with_changed(name, |bytes| change.apply(bytes));
        let result = read_anything(&disk);
        prop_assert!(result.is_err(), "{result:?}");
    }

    /// As in earlier versions, where no checksum covers `config.json`.
    #[test]
    fn without_a_manifest_no_change_of_a_config_touches_the_values_or_panics(
        change in any_damage(),
    ) {
        let disk = with_changed("config.json", |bytes| change.apply(bytes));
        disk.remove_file(&out().join("manifest.json")).unwrap();
        if let Ok(version) = read_anything(&disk) {
            prop_assert_eq!(version, 1);
        }
    }

    /// Without a checksum, as other programs write: any result is fine, but not a panic.
    #[test]
    fn no_change_of_a_file_without_checksum_panics(
        changes in prop::collection::vec(any_damage(), 1..4),
    ) {
        let read = |disk: &Disk| {
            let tensors = tensors_of(&tiny(true));
            let mut memory = Memory::empty(&tensors, Which::Weights);
            Weights::open_once(disk, out())?.read(&tensors, PositionRows::Crop, &mut memory)
        };
        let without_checksum = |bytes: &mut Vec<u8>| {
            for key in [b"\"save_id\"".as_slice(), b"\"sum\""] {
                let at = bytes.windows(key.len()).position(|window| window == key).unwrap();
                bytes[at + 1] = b'x';
            }
        };
        let disk = with_changed("model.safetensors", without_checksum);
        prop_assert!(read(&disk).is_ok(), "a checksum is not required");
        let disk = with_changed("model.safetensors", |bytes| {
            without_checksum(bytes);
            for change in changes {
                if !bytes.is_empty() {
                    change.apply(bytes);
                }
            }
        });
        let _ = read(&disk);
    }
}

#[test]
fn a_checkpoint_of_an_earlier_version_has_no_manifest_and_loads() {
    let disk = with_changed("", |_| {});
    disk.remove_file(&out().join("manifest.json")).unwrap();
    assert_eq!(read_anything(&disk).unwrap(), 1);
    // The manifest does not list the model card.
    let disk = with_changed("", |_| {});
    disk.create(&out().join("README.md")).unwrap();
    assert_eq!(read_anything(&disk).unwrap(), 1);
}

#[test]
fn every_flipped_bit_of_a_config_or_a_manifest_is_detected() {
    for (index, name) in [(1, "config.json"), (3, "manifest.json")] {
        for at in 0..WHOLE[index].len() {
            let disk = with_changed(name, |bytes| bytes[at] ^= 1 << (at % 8));
            assert!(read_anything(&disk).is_err(), "byte {at} of {name}");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_checksum_is_detected() {
    let whole = &WHOLE[0];
    let key = b"\"sum\":\"";
    let at = whole.windows(key.len()).position(|window| window == key).unwrap();
    for (at, bit) in (at..at + key.len() + 17).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let disk = with_changed("model.safetensors", |bytes| bytes[at] ^= 1 << bit);
        assert!(read_anything(&disk).is_err(), "bit {bit} of byte {at}");
    }
}
