//! Checkpoints are read back as they were saved.

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
fn a_checkpoint_of_any_family_reads_back() {
    for architecture in [tiny(false), tiny(true), tiny_llama()] {
        let dir = tempfile::tempdir().unwrap();
        for version in [1, 2] {
            let id = save_version(dir.path(), &architecture, version);
            assert_eq!(read_version(dir.path(), &architecture).unwrap(), version);
            let checkpoint = Checkpoint::open(dir.path()).unwrap();
            assert_eq!(checkpoint.save_id(), Some(&*id.to_string()));
        }
    }
}

#[test]
fn the_weights_have_the_layout_of_transformers() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let id = save_version(dir.path(), &architecture, 1);
    let ours = Memory::version(&tensors_of(&architecture), Which::All, 1);

    let bytes = fs::read(dir.path().join("model.safetensors")).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let texts = metadata.metadata().as_ref().unwrap();
    assert_eq!((&*texts["format"], &*texts["save_id"]), ("pt", &*id.to_string()));

    let file = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let view = file.tensor(name).unwrap();
        view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let c_attn = ours.floats("h.0.attn.c_attn.weight");
    let name = "transformer.h.0.attn.c_attn.weight";
    assert_eq!(file.tensor(name).unwrap().shape(), [4, 12]);
    let stored = floats(name);
    for (row, column) in (0..12).flat_map(|row| (0..4).map(move |column| (row, column))) {
        let (found, expected) = (stored[column * 12 + row], c_attn[row * 4 + column]);
        assert_eq!(found.to_bits(), expected.to_bits());
    }
    assert_eq!(floats("transformer.h.0.mlp.c_fc.bias"), [0.0; 16]);
    assert_eq!(floats("transformer.ln_f.bias"), [0.0; 4]);
    assert_eq!(floats("transformer.wte.weight"), ours.floats("wte.weight"));
    assert_eq!(file.len(), 2 + 7 * 2, "two tables, and weight and bias seven times");
}

#[test]
fn states_have_our_names_types_and_layout() {
    let dir = tempfile::tempdir().unwrap();
    save_version(dir.path(), &tiny(false), 1);
    let bytes = fs::read(dir.path().join("state.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    for name in ["exp_avg.h.0.mlp.c_proj.weight", "exp_avg_sq.h.0.mlp.c_proj.weight"] {
        assert_eq!(file.tensor(name).unwrap().shape(), [4, 16]);
    }
    let codes = file.tensor("codes.h.0.mlp.c_proj.weight").unwrap();
    assert_eq!((codes.dtype(), codes.shape()), (safetensors::Dtype::U8, &[63][..]));
    assert_eq!(file.len(), tensors_of(&tiny(false)).states.len());
}

#[test]
fn a_state_with_another_type_or_name_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    save_version(dir.path(), &architecture, 1);
    let read = |change: fn(&mut Vec<TensorEntry>)| {
        let mut tensors = tensors_of(&architecture);
        change(&mut tensors.states);
        let mut memory = Memory::empty(&tensors, Which::All);
        let mut checkpoint = Checkpoint::open(dir.path()).unwrap();
        checkpoint.read(&tensors, &mut memory).unwrap_err().to_string()
    };
    let other = read(|states| states[2] = TensorEntry { dtype: DType::F32, ..states[2].clone() });
    assert!(other.contains("`codes.wte.weight`") && other.ends_with("be F32, found U8"), "{other}");
    let less = read(|states| states.retain(|state| state.state != Some("codes")));
    assert!(less.contains("`codes.h.0.attn.c_attn.weight`"), "{less}");
    let more = read(|states| states[0].state = Some("momentum"));
    assert!(more.contains("`momentum.wte.weight`"), "{more}");
}

/// Tensors larger than a piece in every dimension: many pieces, transposed in several bands, with a
/// shorter last one.
#[test]
fn large_tensors_are_copied_in_small_pieces() {
    let rows = 2 * (MAX_VALUES / 1024) + 100;
    let entries = [
        TensorEntry::weights("wte.weight", &[3001, 1024]),
        TensorEntry::weights("h.0.mlp.c_fc.weight", &[rows, 1024]),
        TensorEntry::weights("h.0.mlp.c_proj.weight", &[1024, 2000]),
        TensorEntry::weights("h.0.attn.c_proj.weight", &[513, 700]),
    ];
    assert!(band_and_group(rows, 1024).0 < rows);
    assert!(entries[0].count() > MAX_BYTES / 4);
    let naming = fitgpt_model::naming(Family::Gpt2);
    let tensors = &Tensors { naming, weights: entries.to_vec(), states: Vec::new() };
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let contents = contents(&architecture, tensors, 1);
    let mut memory = Memory::version(tensors, Which::Weights, 1);
    super::super::save_weights(dir.path(), contents, &mut memory).unwrap();
    assert!(memory.max_piece <= 4 * MAX_VALUES, "{}", memory.max_piece);
    let read = read_weights(dir.path(), tensors, PositionRows::Exact).unwrap();
    assert!(read.bytes == memory.bytes);
    assert!(read.max_piece <= 4 * MAX_VALUES, "{}", read.max_piece);
}

#[test]
fn every_bit_of_a_value_survives() {
    let weights = TensorEntry::weights("h.0.mlp.c_fc.weight", &[3, 2]);
    let states = vec![TensorEntry { state: Some("exp_avg"), ..weights.clone() }];
    let naming = fitgpt_model::naming(Family::Gpt2);
    let tensors = &Tensors { naming, weights: vec![weights], states };
    let bits = [0x0040_1234, 0xFF7F_FFFF, 0x8000_0000, 0x0000_0001, 0x7F7F_FFFF, 0x3F80_0001];
    let mut memory = Memory::empty(tensors, Which::All);
    for bytes in memory.bytes.values_mut() {
        *bytes = bits.iter().flat_map(|bits: &u32| bits.to_ne_bytes()).collect();
    }
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let contents = contents(&architecture, tensors, 1);
    save(&Disk::real(), dir.path(), contents, &(), &mut memory).unwrap();
    let mut back = Memory::empty(tensors, Which::All);
    Checkpoint::open(dir.path()).unwrap().read(tensors, &mut back).unwrap();
    assert_eq!(back.bytes, memory.bytes);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SavedValues {
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
    let tensors = &tensors_of(&architecture);
    let contents = contents(&architecture, tensors, 1);
    let mut memory = Memory::version(tensors, Which::All, 1);
    // An inexact parser gets some of a thousand numbers with 17 digits wrong by one bit.
    let numbers: Vec<_> = (1..=1000).map(|k| f64::from(k).sqrt()).collect();
    let document = SavedValues {
        next_step: u64::MAX,
        best_val_loss: 1e9,
        numbers,
        loss_scale: Some(65536.0),
        words: "\"sum\":\"0123456789abcdef\" \u{1F980}\n".to_owned(),
    };
    save(&Disk::real(), dir.path(), contents, &document, &mut memory).unwrap();
    let back: SavedValues = Checkpoint::open(dir.path()).unwrap().document().unwrap();
    assert_eq!(back, document);
    let mut read = Memory::empty(tensors, Which::All);
    Checkpoint::open(dir.path()).unwrap().read(tensors, &mut read).unwrap();

    let broken = SavedValues { best_val_loss: f64::INFINITY, ..document };
    let error = save(&Disk::real(), dir.path(), contents, &broken, &mut memory).unwrap_err();
    assert!(matches!(error, CheckpointError::Document { .. }), "{error}");
    let kept: SavedValues = Checkpoint::open(dir.path()).unwrap().document().unwrap();
    assert_eq!(kept.next_step, u64::MAX);
}

#[test]
fn a_document_that_loses_a_field_is_refused_by_its_path() {
    #[derive(Serialize, Deserialize)]
    struct Forgets {
        scales: Vec<ForgottenScale>,
    }
    #[derive(Serialize, Deserialize)]
    struct ForgottenScale {
        #[serde(skip_deserializing)]
        scale: u32,
    }
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(false);
    let naming = fitgpt_model::naming(Family::Gpt2);
    let tensors = &Tensors { naming, weights: Vec::new(), states: Vec::new() };
    let contents = contents(&architecture, tensors, 1);
    let document =
        Forgets { scales: vec![ForgottenScale { scale: 0 }, ForgottenScale { scale: 7 }] };
    let error =
        save(&Disk::real(), dir.path(), contents, &document, &mut Memory::default()).unwrap_err();
    let expected = "the training state changes when it is stored: \
        `/scales/1/scale` is 7 and is read back as 0";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_save_needs_at_most_the_stated_bytes() {
    for architecture in [tiny(false), tiny(true), tiny_llama()] {
        let dir = tempfile::tempdir().unwrap();
        save_version(dir.path(), &architecture, 1);
        let sizes = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len());
        let used: u64 = sizes.sum();
        let needed = bytes_needed(&tensors_of(&architecture));
        assert!(used <= needed && needed - used <= 2 << 20, "{used} of {needed}");
    }
}
