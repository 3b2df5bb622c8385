//! Every reader on its seeds, and on copies of them with bytes changed, removed and repeated.
//!
//! Not guided by coverage, but on stable Rust, and the same on every machine. `FITGPT_FUZZ` sets
//! the number of changed copies of each seed.

use fitgpt_fuzz as fuzz;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

fn changed(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, numbers.below(256) as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            3 if at < bytes.len() => bytes[at] = b"\0\xff(){}[]\"'=:,0919-.eE#\n"[numbers.below(23)],
            _ => {
                let end = (at + numbers.below(32)).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

fn run(reader: fn(&[u8]), seeds: &[&[u8]]) {
    let count = std::env::var("FITGPT_FUZZ").map_or(2000, |count| count.parse().unwrap());
    let mut numbers = Numbers(1);
    for seed in seeds {
        reader(seed);
        for _ in 0..count {
            reader(&changed(seed, &mut numbers));
        }
    }
}

#[test]
fn configs() {
    run(fuzz::config, &[
        b"batch_size = 12\nblock_size = 1024 * 2\nout_dir = 'out' + \"x\" # note\n",
        b"from os import path; import time\nn_layer = 3 if True else 4\nlearning_rate = 6e-4 / 2\n",
        b"from base import *\n",
    ]);
}

#[test]
fn pickles() {
    let pickled = fitgpt::data::Meta::pickled(&['a', 'b', 'c']);
    run(fuzz::pickle, &[&pickled, b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s."]);
}

#[test]
fn safetensors() {
    let header = br#"{"__metadata__":{"format":"pt"},"wte.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend([0; 8]);
    run(fuzz::weights, &[&file]);
}

#[test]
fn model_configs() {
    let llama = br#"{"model_type": "llama", "hidden_size": 48, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
        "vocab_size": 97, "max_position_embeddings": 32, "rope_theta": 5e5}"#;
    run(fuzz::model_config, &[fuzz::MODEL.as_bytes(), llama]);
}

#[test]
fn event_logs() {
    run(fuzz::events, &[
        b"{\"event\":\"plan\",\"step\":0,\"run_id\":\"0123456789abcdef\",\"plan\":{}}\n\
          {\"event\":\"step\",\"step\":0,\"loss\":2.5,\"lr\":0.1,\"grad_norm\":null,\"ms\":1,\"tokens_per_s\":1}\n",
    ]);
}

#[test]
fn logs() {
    run(fuzz::log, &[
        b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; \
          11.99 GiB total capacity; 9.10 GiB already allocated; 512.00 MiB free; 10.20 GiB reserved)",
    ]);
}

#[test]
fn token_files() {
    let mut shard = vec![0; 1024 + 20];
    for (word, value) in [(0, 20_240_520_u32), (1, 1), (2, 10)] {
        shard[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
    }
    run(fuzz::tokens, &[&shard, &[1, 0, 2, 0, 3, 0]]);
}
