//! What is saved is what is read.

use std::fs;

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        bytes_needed,
        write::{MAX_BYTES, MAX_VALUES, band_and_group},
    },
    *,
};

#[test]
fn a_checkpoint_reads_back_with_and_without_biases() {
    for bias in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let architecture = tiny(bias);
        for version in [1, 2] {
            let id = save_version(dir.path(), &architecture, version);
            assert_eq!(read_version(dir.path(), &architecture).unwrap(), version);
            let checkpoint = Checkpoint::open(dir.path()).unwrap();
            assert_eq!(checkpoint.save_id(), id.to_string());
        }
    }
}

#[test]
fn the_weights_have_the_layout_of_transformers() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let id = save_version(dir.path(), &architecture, 1);
    let entries = entries_of(&architecture);
    let ours = Memory::version(&entries, &KINDS, 1);

    let bytes = fs::read(dir.path().join("model.safetensors")).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let texts = metadata.metadata().as_ref().unwrap();
    assert_eq!((&*texts["format"], &*texts["save_id"]), ("pt", &*id.to_string()));

    let file = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let view = file.tensor(name).unwrap();
        view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let c_attn = &ours.values[&(Kind::Parameter, "h.0.attn.c_attn.weight".to_owned())];
    let name = "transformer.h.0.attn.c_attn.weight";
    assert_eq!(file.tensor(name).unwrap().shape(), [4, 12]);
    let stored = floats(name);
    for (row, column) in (0..12).flat_map(|row| (0..4).map(move |column| (row, column))) {
        let (found, expected) = (stored[column * 12 + row], c_attn[row * 4 + column]);
        assert_eq!(found.to_bits(), expected.to_bits());
    }
    assert_eq!(floats("transformer.h.0.mlp.c_fc.bias"), [0.0; 16]);
    assert_eq!(floats("transformer.ln_f.bias"), [0.0; 4]);
    let wte = &ours.values[&(Kind::Parameter, "wte.weight".to_owned())];
    assert_eq!(&floats("transformer.wte.weight"), wte);
    assert_eq!(file.len(), 2 + 7 * 2, "two tables, and weight and bias seven times");
}

#[test]
fn the_moments_have_our_names_and_layout() {
    let dir = tempfile::tempdir().unwrap();
    save_version(dir.path(), &tiny(false), 1);
    let bytes = fs::read(dir.path().join("state.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    for name in ["exp_avg.h.0.mlp.c_proj.weight", "exp_avg_sq.h.0.mlp.c_proj.weight"] {
        assert_eq!(file.tensor(name).unwrap().shape(), [4, 16]);
    }
    assert_eq!(file.len(), 2 * entries_of(&tiny(false)).len());
}

/// Tensors larger than what may be under way, in every direction: many pieces, turned in several
/// bands, with a last one that is shorter.
#[test]
fn large_tensors_pass_in_pieces_that_stay_small() {
    let rows = 2 * (MAX_VALUES / 1024) + 100;
    let entries = [
        Entry::new("wte.weight", &[3001, 1024]),
        Entry::new("h.0.mlp.c_fc.weight", &[rows, 1024]),
        Entry::new("h.0.mlp.c_proj.weight", &[1024, 2000]),
        Entry::new("h.0.attn.c_proj.weight", &[513, 700]),
    ];
    assert!(band_and_group(rows, 1024).0 < rows);
    assert!(entries[0].count() > MAX_BYTES / 4);
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let model = Model { architecture: &architecture, entries: &entries };
    let kinds = [Kind::Parameter];
    let mut memory = Memory::version(&entries, &kinds, 1);
    super::super::save_weights(dir.path(), model, &mut memory).unwrap();
    assert!(memory.max_piece <= MAX_VALUES, "{}", memory.max_piece);
    let read = read_weights(dir.path(), &entries, Positions::Exact).unwrap();
    assert!(read.values == memory.values);
    assert!(read.max_piece <= MAX_VALUES, "{}", read.max_piece);
}

#[test]
fn every_bit_of_a_value_survives() {
    let entries = [Entry::new("h.0.mlp.c_fc.weight", &[3, 2])];
    let bits = [0x7FC0_1234, 0xFF80_0000, 0x8000_0000, 0x0000_0001, 0x7F7F_FFFF, 0x3F80_0001];
    let mut memory = Memory::empty(&entries, &KINDS);
    for values in memory.values.values_mut() {
        values.iter_mut().zip(bits).for_each(|(value, bits)| *value = f32::from_bits(bits));
    }
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let model = Model { architecture: &architecture, entries: &entries };
    save(dir.path(), model, &(), &mut memory).unwrap();
    let mut back = Memory::empty(&entries, &KINDS);
    Checkpoint::open(dir.path()).unwrap().read(&entries, &mut back).unwrap();
    for values in back.values.values() {
        assert!(values.iter().zip(bits).all(|(value, bits)| value.to_bits() == bits));
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Document {
    next_step: u64,
    best_val_loss: f64,
    numbers: Vec<f64>,
    loss_scale: Option<f32>,
    words: String,
}

#[test]
fn a_document_survives_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let entries = entries_of(&architecture);
    let model = Model { architecture: &architecture, entries: &entries };
    let mut memory = Memory::version(&entries, &KINDS, 1);
    // A parser without care reads some of a thousand numbers with 17 digits one bit off.
    let numbers: Vec<_> = (1..=1000).map(|k| f64::from(k).sqrt()).collect();
    let document = Document {
        next_step: u64::MAX,
        best_val_loss: 1e9,
        numbers,
        loss_scale: Some(65536.0),
        words: "\"sum\":\"0123456789abcdef\" \u{1F980}\n".to_owned(),
    };
    save(dir.path(), model, &document, &mut memory).unwrap();
    let back: Document = Checkpoint::open(dir.path()).unwrap().document().unwrap();
    assert_eq!(back, document);
    let mut read = Memory::empty(&entries, &KINDS);
    Checkpoint::open(dir.path()).unwrap().read(&entries, &mut read).unwrap();

    let broken = Document { best_val_loss: f64::INFINITY, ..document };
    let error = save(dir.path(), model, &broken, &mut memory).unwrap_err();
    assert!(matches!(error, CheckpointError::Document { .. }), "{error}");
    let kept: Document = Checkpoint::open(dir.path()).unwrap().document().unwrap();
    assert_eq!(kept.next_step, u64::MAX);
}

#[test]
fn a_document_that_forgets_is_refused_by_place() {
    #[derive(Serialize, Deserialize)]
    struct Forgets {
        scales: Vec<Scale>,
    }
    #[derive(Serialize, Deserialize)]
    struct Scale {
        #[serde(skip_deserializing)]
        scale: u32,
    }
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let model = Model { architecture: &architecture, entries: &[] };
    let document = Forgets { scales: vec![Scale { scale: 0 }, Scale { scale: 7 }] };
    let error = save(dir.path(), model, &document, &mut Memory::default()).unwrap_err();
    let expected = "the training state does not survive storing: \
        `/scales/1/scale` is 7, comes back as 0";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_save_needs_at_most_what_was_said() {
    for bias in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        save_version(dir.path(), &tiny(bias), 1);
        let sizes = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len());
        let used: u64 = sizes.sum();
        let needed = bytes_needed(&entries_of(&tiny(bias)));
        assert!(used <= needed && needed - used <= 2 << 20, "{used} of {needed}");
    }
}
