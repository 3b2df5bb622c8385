//! Exported folders of `transformers` read back as the same weights.

use std::collections::HashMap;

use safetensors::SafeTensors;

use super::*;

/// Shapes, innermost first, and bytes of the tensors of a file, and how many keys it has.
struct Parsed {
    tensors: HashMap<String, (Vec<u64>, u32, Vec<u8>)>,
    keys: HashMap<String, Vec<u8>>,
}

/// A reader of GGUF that shares nothing with the writer.
struct GgufReader<'a>(&'a [u8], usize);

impl GgufReader<'_> {
    fn take(&mut self, n: usize) -> &[u8] {
        self.1 += n;
        &self.0[self.1 - n..self.1]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn text(&mut self) -> String {
        let len = self.u64() as usize;
        String::from_utf8(self.take(len).to_vec()).unwrap()
    }

    fn value(&mut self, kind: u32) {
        match kind {
            4..=6 => drop(self.u32()),
            7 => drop(self.take(1)[0]),
            8 => drop(self.text()),
            9 => {
                let kind = self.u32();
                for _ in 0..self.u64() {
                    self.value(kind);
                }
            }
            kind => panic!("value of type {kind}"),
        }
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    let mut cursor = GgufReader(bytes, 0);
    assert_eq!(cursor.take(4), b"GGUF");
    assert_eq!(cursor.u32(), 3);
    let (n_tensors, n_keys) = (cursor.u64(), cursor.u64());
    let mut keys = HashMap::new();
    for _ in 0..n_keys {
        let key = cursor.text();
        let kind = cursor.u32();
        let start = cursor.1;
        cursor.value(kind);
        keys.insert(key, bytes[start..cursor.1].to_vec());
    }
    let mut described = Vec::new();
    for _ in 0..n_tensors {
        let name = cursor.text();
        let n_sizes = cursor.u32();
        let shape = (0..n_sizes).map(|_| cursor.u64()).collect::<Vec<_>>();
        described.push((name, shape, cursor.u32(), cursor.u64()));
    }
    let data = cursor.1.next_multiple_of(32);
    let tensors = described.into_iter().map(|(name, shape, kind, offset)| {
        assert!(offset.is_multiple_of(32));
        let count = shape.iter().product::<u64>() as usize;
        let len = match kind {
            0 => 4 * count,
            1 => 2 * count,
            8 => count / 32 * 34,
            kind => panic!("tensor of type {kind}"),
        };
        let start = data + offset as usize;
        (name, (shape, kind, bytes[start..start + len].to_vec()))
    });
    Parsed { tensors: tensors.collect(), keys }
}

fn export(folder: &Path, dtype: GgufType) -> Parsed {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("model.gguf");
    let exported = to_gguf(folder, &out, dtype, false).unwrap();
    let bytes = fs::read(&out).unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing else is left");
    assert_eq!(exported.bytes, bytes.len() as u64);
    let error = to_gguf(folder, &out, dtype, false).unwrap_err();
    assert!(matches!(error, ExportError::Output(OutputError::Exists { .. })), "{error}");
    to_gguf(folder, &out, dtype, true).unwrap();
    assert_eq!(fs::read(&out).unwrap(), bytes);
    parse(&bytes)
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

#[test]
fn gpt2s_weights_are_those_of_its_folder_with_linear_layers_transposed() {
    let folder = golden("transformers_gpt2");
    let file = fs::read(folder.join("model.safetensors")).unwrap();
    let theirs = SafeTensors::deserialize(&file).unwrap();
    let find = |name: &str| {
        theirs.tensor(&format!("transformer.{name}")).or_else(|_| theirs.tensor(name)).unwrap()
    };
    let parsed = export(&folder, GgufType::F32);
    let (shape, kind, bytes) = &parsed.tensors["token_embd.weight"];
    let embedding = find("wte.weight");
    assert_eq!(*kind, 0);
    assert_eq!(bytes, embedding.data());
    assert!(shape.iter().rev().map(|&n| n as usize).eq(embedding.shape().iter().copied()));
    // `Conv1D` has (in, out), llama.cpp (out, in).
    let (shape, _, bytes) = &parsed.tensors["blk.0.attn_qkv.weight"];
    let conv = find("h.0.attn.c_attn.weight");
    let &[rows, columns] = conv.shape() else { panic!() };
    assert_eq!(*shape, [rows as u64, columns as u64]);
    for (row, column) in [(0, 0), (1, 0), (0, 1), (rows - 1, columns - 2)] {
        let at = 4 * (column * rows + row);
        let there = 4 * (row * columns + column);
        assert_eq!(bytes[at..at + 4], conv.data()[there..there + 4]);
    }
    assert_eq!(parsed.keys["gpt2.block_count"], 2_u32.to_le_bytes());
}

#[test]
fn every_family_is_exported_and_queries_are_reordered_for_llama_alone() {
    for (name, is_reordered) in [("llama_ragged", true), ("mistral", true), ("qwen3", false)] {
        let folder = golden("families").join(name);
        let file = fs::read(folder.join("model.safetensors")).unwrap();
        let theirs = SafeTensors::deserialize(&file).unwrap();
        let parsed = export(&folder, GgufType::F32);
        let same =
            |ours: &str, name: &str| parsed.tensors[ours].2 == theirs.tensor(name).unwrap().data();
        assert!(same("blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"), "{name}");
        assert!(same("output_norm.weight", "model.norm.weight"), "{name}");
        let is_same = same("blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight");
        assert_eq!(is_same, !is_reordered, "{name}");
    }
}

#[test]
fn llama_3s_scaling_is_a_divisor_for_each_pair_of_channels() {
    let parsed = export(&golden("families/llama_tied"), GgufType::Q8);
    let (shape, kind, bytes) = &parsed.tensors["rope_freqs.weight"];
    assert_eq!((shape[0] as usize * 4, *kind), (bytes.len(), 0));
    let (divisors, _) = bytes.as_chunks::<4>();
    let divisors: Vec<_> = divisors.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert!(divisors.is_sorted() && divisors[0] >= 1.0, "{divisors:?}");
    assert!(divisors.last() > divisors.first(), "{divisors:?}");
}

#[test]
fn a_type_applies_to_matrices_only() {
    let parsed = export(&golden("transformers_gpt2"), GgufType::F16);
    assert_eq!(parsed.tensors["blk.0.ffn_up.weight"].1, 1);
    assert_eq!(parsed.tensors["blk.0.ffn_up.bias"].1, 0);
    assert_eq!(parsed.tensors["position_embd.weight"].1, 0);
}
