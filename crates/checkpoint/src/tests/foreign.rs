//! Files of other programs.

use std::{collections::HashMap, fs};

use fitgpt_model::MlpKind;
use fitgpt_program::Gelu;
use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView, serialize};

use super::*;

/// A tensor as another program writes it.
struct ForeignTensor {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Vec<u8>,
}

/// What `transformers` would store for `memory`.
fn stored(tensors: &Tensors, memory: &Memory, prefix: &str, dtype: Dtype) -> Vec<ForeignTensor> {
    let tensor = |entry: &TensorEntry| {
        let name = &entry.parameter;
        let values = memory.floats(name);
        let is_conv1d = name.contains(".c_") && name.ends_with(".weight");
        let (shape, values): (_, Vec<f32>) = if is_conv1d {
            let (rows, columns) = (entry.shape[0], entry.shape[1]);
            let turned = (0..rows * columns).map(|k| values[k % rows * columns + k / rows]);
            (vec![columns, rows], turned.collect())
        } else {
            (entry.shape.clone(), values)
        };
        let bytes = match dtype {
            Dtype::F16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
            Dtype::BF16 => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        ForeignTensor { name: format!("{prefix}{name}"), shape, dtype, bytes }
    };
    tensors.weights.iter().map(tensor).collect()
}

/// Small whole numbers and quarters: exact in all three types.
fn quarters(tensors: &Tensors) -> Memory {
    let mut memory = Memory::empty(tensors, Which::Weights);
    let values = (0..64).map(|k| k as f32 / 4.0).chain(std::iter::repeat(-1.5));
    for (out, value) in
        memory.bytes.values_mut().flat_map(|bytes| bytes.chunks_exact_mut(4)).zip(values)
    {
        out.copy_from_slice(&value.to_ne_bytes());
    }
    memory
}

fn write_file(dir: &Path, tensors: &[ForeignTensor]) {
    write_tensors(&dir.join("model.safetensors"), tensors);
    let config = r#"{"model_type": "gpt2", "n_positions": 6, "n_embd": 4, "n_head": 2,
        "n_layer": 1, "vocab_size": 11, "activation_function": "gelu_new", "resid_pdrop": 0.1}"#;
    fs::write(dir.join("config.json"), config).unwrap();
}

fn write_tensors(path: &Path, tensors: &[ForeignTensor]) {
    let views = tensors.iter().map(|tensor| {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap();
        (tensor.name.clone(), view)
    });
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let bytes = serialize(views, Some(metadata)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn files_of_transformers_load_in_every_float_type_with_and_without_prefix() {
    let tensors = tensors_of(&tiny(true));
    let memory = quarters(&tensors);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for prefix in ["transformer.", ""] {
            let dir = tempfile::tempdir().unwrap();
            let mut file = stored(&tensors, &memory, prefix, dtype);
            let spare = |name: &str, shape: &[usize], dtype, bytes| ForeignTensor {
                name: name.to_owned(),
                shape: shape.to_vec(),
                dtype,
                bytes: vec![1; bytes],
            };
            file.push(spare(&format!("{prefix}h.0.attn.bias"), &[1, 1, 6, 6], Dtype::U8, 36));
            file.push(spare("lm_head.weight", &[11, 4], Dtype::F32, 176));
            write_file(dir.path(), &file);
            let read = read_weights(dir.path(), &tensors, PositionRows::Exact).unwrap();
            assert_eq!(read.bytes, memory.bytes, "{dtype} {prefix}");
            let weights = Weights::open(dir.path()).unwrap();
            let model = Model { mlp: MlpKind::Gelu(Gelu::Tanh), ..tiny(true).model };
            assert_eq!((weights.architecture().model, weights.save_id()), (model, None));
            // There is nothing to resume from.
            let error = Checkpoint::open(dir.path()).unwrap_err();
            assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
        }
    }
}

#[test]
fn positions_are_cropped_only_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(true);
    save_version(dir.path(), &architecture, 1);
    let model = architecture.model;
    let whole = read_weights(dir.path(), &tensors_of(&architecture), PositionRows::Exact).unwrap();
    let shorter = Tensors::weights_of(&Model { block: 4, ..model });
    let error = read_weights(dir.path(), &shorter, PositionRows::Exact).unwrap_err();
    assert!(matches!(error, CheckpointError::Shape { .. }), "{error}");
    let cropped = read_weights(dir.path(), &shorter, PositionRows::Crop).unwrap();
    for (name, bytes) in &cropped.bytes {
        assert_eq!(bytes[..], whole.bytes[name][..bytes.len()], "{name}");
    }
    let longer = Tensors::weights_of(&Model { block: 7, ..model });
    let error = read_weights(dir.path(), &longer, PositionRows::Crop).unwrap_err();
    assert!(matches!(error, CheckpointError::Shape { .. }), "{error}");
}

#[test]
fn a_file_of_another_model_is_refused_by_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let architecture = tiny(true);
    save_version(dir.path(), &architecture, 1);
    let model = architecture.model;
    let message = |model: Model| {
        let error = read_weights(dir.path(), &Tensors::weights_of(&model), PositionRows::Exact);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("model.safetensors"), "{message}");
        message
    };
    let wider = message(Model { channels: 8, ..model });
    assert!(wider.contains("`transformer.wte.weight`"), "{wider}");
    assert!(wider.contains("[11, 8]") && wider.contains("[11, 4]"), "{wider}");
    let deeper = message(Model { layers: 2, ..model });
    assert!(deeper.contains("`transformer.h.1.ln_1.weight`"), "{deeper}");
    let shallower = message(Model { layers: 0, ..model });
    assert!(shallower.contains("`transformer.h.0.attn.c_attn.bias`"), "{shallower}");
    let without_bias = message(Model { biases: Biases::everywhere(false), ..model });
    assert!(without_bias.contains(".bias` in"), "{without_bias}");
}

#[test]
fn integers_are_refused_by_type() {
    let tensors = tensors_of(&tiny(true));
    let memory = Memory::version(&tensors, Which::Weights, 1);
    let dir = tempfile::tempdir().unwrap();
    let mut file = stored(&tensors, &memory, "", Dtype::F32);
    file[0].dtype = Dtype::I32;
    write_file(dir.path(), &file);
    let error = read_weights(dir.path(), &tensors, PositionRows::Exact).unwrap_err();
    let expected = "`wte.weight` in";
    assert!(error.to_string().contains(expected) && error.to_string().ends_with("I32"), "{error}");
}

/// Writes a model in two files with an index, which `change` may corrupt.
fn write_shards(dir: &Path, change: impl FnOnce(&mut serde_json::Value)) -> Memory {
    let architecture = tiny_llama();
    let tensors = tensors_of(&architecture);
    let memory = quarters(&tensors);
    save_version(dir, &architecture, 1);
    fs::remove_file(dir.join("model.safetensors")).unwrap();
    let all = stored(&tensors, &memory, "", Dtype::BF16);
    let mut map = Map::new();
    let half = all.len().div_ceil(2);
    for (name, part) in ["a.safetensors", "b.safetensors"].into_iter().zip(all.chunks(half)) {
        write_tensors(&dir.join(name), part);
        map.extend(part.iter().map(|tensor| (tensor.name.clone(), json!(name))));
    }
    let mut index = json!({ "metadata": { "total_size": 1 }, "weight_map": map });
    change(&mut index);
    fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
    memory
}

#[test]
fn shards_are_read_as_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let memory = write_shards(dir.path(), |_| {});
    let tensors = Tensors::weights_of(&tiny_llama().model);
    let read = read_weights(dir.path(), &tensors, PositionRows::Exact).unwrap();
    assert_eq!(read.bytes, memory.bytes);
    // One file with everything is preferred, as in `transformers`.
    fs::write(dir.path().join("model.safetensors"), "").unwrap();
    let error = read_weights(dir.path(), &tensors, PositionRows::Exact).unwrap_err();
    assert!(matches!(error, CheckpointError::Length { .. }), "{error}");
}

#[test]
fn a_bad_index_is_an_error_with_the_reason() {
    let message = |change: fn(&mut serde_json::Value)| {
        let dir = tempfile::tempdir().unwrap();
        write_shards(dir.path(), change);
        Weights::open(dir.path()).unwrap_err().to_string()
    };
    for name in ["../a.safetensors", "/etc/passwd", "x/a.safetensors", "..", ""] {
        let dir = tempfile::tempdir().unwrap();
        write_shards(dir.path(), |index| index["weight_map"]["model.norm.weight"] = json!(name));
        let message = Weights::open(dir.path()).unwrap_err().to_string();
        assert!(message.contains(&format!("found `{name}`")), "{message}");
    }
    let gone = message(|index| index["weight_map"]["lm_head.weight"] = json!("c.safetensors"));
    assert!(gone.contains("c.safetensors"), "{gone}");
    let elsewhere = message(|index| {
        index["weight_map"]["model.embed_tokens.weight"] = json!("b.safetensors");
    });
    assert!(elsewhere.contains("`model.embed_tokens.weight`"), "{elsewhere}");
    let empty = message(|index| index["weight_map"] = json!({}));
    assert!(empty.contains("model.safetensors"), "{empty}");
    for broken in [json!([1]), json!("a"), json!({"x": 1}), json!(null)] {
        let dir = tempfile::tempdir().unwrap();
        write_shards(dir.path(), |index| index["weight_map"] = broken);
        let message = Weights::open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("index.json"), "{message}");
    }
}
