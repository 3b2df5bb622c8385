//! Files of other programs.

use std::{collections::HashMap, fs};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView, serialize};

use super::*;

/// A tensor as another program writes it.
struct Stored {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Vec<u8>,
}

/// What `transformers` would store for `memory`.
fn stored(entries: &[Entry], memory: &Memory, prefix: &str, dtype: Dtype) -> Vec<Stored> {
    let tensor = |entry: &Entry| {
        let values = &memory.values[&(Kind::Parameter, entry.name.clone())];
        let is_conv1d = entry.name.contains(".c_") && entry.name.ends_with(".weight");
        let (shape, values) = if is_conv1d {
            let (rows, columns) = (entry.shape[0], entry.shape[1]);
            let turned = (0..rows * columns).map(|k| values[k % rows * columns + k / rows]);
            (vec![columns, rows], turned.collect())
        } else {
            (entry.shape.clone(), values.clone())
        };
        let bytes = match dtype {
            Dtype::F16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
            Dtype::BF16 => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        Stored { name: format!("{prefix}{}", entry.name), shape, dtype, bytes }
    };
    entries.iter().map(tensor).collect()
}

fn write_file(dir: &Path, tensors: &[Stored]) {
    let views = tensors.iter().map(|tensor| {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap();
        (tensor.name.clone(), view)
    });
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let bytes = serialize(views, Some(metadata)).unwrap();
    fs::write(dir.join("model.safetensors"), bytes).unwrap();
    let config = r#"{"model_type": "gpt2", "n_positions": 6, "n_embd": 4, "n_head": 2,
        "n_layer": 1, "vocab_size": 11, "activation_function": "gelu_new", "resid_pdrop": 0.1}"#;
    fs::write(dir.join("config.json"), config).unwrap();
}

#[test]
fn files_of_transformers_load_in_every_float_type_with_and_without_prefix() {
    let entries = entries_of(&tiny(true));
    // Small whole numbers and quarters: exact in all three types.
    let mut memory = Memory::empty(&entries, &[Kind::Parameter]);
    memory.values.values_mut().flatten().zip(0_u8..64).for_each(|(v, k)| *v = f32::from(k) / 4.0);
    memory.values.values_mut().flatten().skip(64).for_each(|v| *v = -1.5);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for prefix in ["transformer.", ""] {
            let dir = tempfile::tempdir().unwrap();
            let mut tensors = stored(&entries, &memory, prefix, dtype);
            let spare = |name: &str, shape: &[usize], dtype, bytes| Stored {
                name: name.to_owned(),
                shape: shape.to_vec(),
                dtype,
                bytes: vec![1; bytes],
            };
            tensors.push(spare(&format!("{prefix}h.0.attn.bias"), &[1, 1, 6, 6], Dtype::U8, 36));
            tensors.push(spare("lm_head.weight", &[11, 4], Dtype::F32, 176));
            write_file(dir.path(), &tensors);
            let read = read_weights(dir.path(), &entries, Positions::Exact).unwrap();
            assert_eq!(read.values, memory.values, "{dtype} {prefix}");
            let weights = Weights::open(dir.path()).unwrap();
            let expected = Architecture { gelu: Gelu::Tanh, dropout: 0.1, ..tiny(true) };
            assert_eq!((weights.architecture(), weights.save_id()), (&expected, None));
            // There is nothing to resume from.
            let error = Checkpoint::open(dir.path()).unwrap_err();
            assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
        }
    }
}

#[test]
fn positions_are_cropped_only_where_asked() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(true);
    save_version(dir.path(), &architecture, 1);
    let whole = read_weights(dir.path(), &entries_of(&architecture), Positions::Exact).unwrap();
    let shorter = entries_of(&Architecture { block_size: 4, ..architecture.clone() });
    let error = read_weights(dir.path(), &shorter, Positions::Exact).unwrap_err();
    assert!(matches!(error, CheckpointError::Shape { .. }), "{error}");
    let cropped = read_weights(dir.path(), &shorter, Positions::Crop).unwrap();
    for (key, values) in &cropped.values {
        assert_eq!(values[..], whole.values[key][..values.len()], "{key:?}");
    }
    let longer = entries_of(&Architecture { block_size: 7, ..architecture });
    let error = read_weights(dir.path(), &longer, Positions::Crop).unwrap_err();
    assert!(matches!(error, CheckpointError::Shape { .. }), "{error}");
}

#[test]
fn a_file_of_another_model_is_refused_by_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(true);
    save_version(dir.path(), &architecture, 1);
    let message = |architecture: Architecture| {
        let error = read_weights(dir.path(), &entries_of(&architecture), Positions::Exact);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("model.safetensors"), "{message}");
        message
    };
    let wider = message(Architecture { n_embd: 8, ..architecture.clone() });
    assert!(wider.contains("`transformer.wte.weight`"), "{wider}");
    assert!(wider.contains("[11, 8]") && wider.contains("[11, 4]"), "{wider}");
    let deeper = message(Architecture { n_layer: 2, ..architecture.clone() });
    assert!(deeper.contains("`transformer.h.1.ln_1.weight`"), "{deeper}");
    let shallower = message(Architecture { n_layer: 0, ..architecture.clone() });
    assert!(shallower.contains("`transformer.h.0.attn.c_attn.bias`"), "{shallower}");
    let without_bias = message(Architecture { bias: false, ..architecture });
    assert!(without_bias.contains(".bias` in"), "{without_bias}");
}

#[test]
fn integers_are_refused_by_type() {
    let entries = entries_of(&tiny(true));
    let memory = Memory::version(&entries, &[Kind::Parameter], 1);
    let dir = tempfile::tempdir().unwrap();
    let mut tensors = stored(&entries, &memory, "", Dtype::F32);
    tensors[0].dtype = Dtype::I32;
    write_file(dir.path(), &tensors);
    let error = read_weights(dir.path(), &entries, Positions::Exact).unwrap_err();
    let expected = "`wte.weight` in";
    assert!(error.to_string().contains(expected) && error.to_string().ends_with("I32"), "{error}");
}
