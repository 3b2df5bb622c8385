//! Inputs from which the fuzzer starts: small files that a reader accepts or almost accepts.

/// A text as a seed.
fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

pub(super) fn config() -> Vec<Vec<u8>> {
    [
        "batch_size = 12\nblock_size = 1024 * 2\nout_dir = 'out' + \"x\" # note\n",
        "from os import path; import time\nn_layer = 3 if True else 4\nlearning_rate = 6e-4 / 2\n",
        "from base import *\n",
        "wandb_run_name = 'run' + str(time.time())\nmax_iters = 10 ** 3 // 7 % 5\nbias = not True\n",
        "dtype = 'bfloat16' if torch.cuda.is_available() else 'float16'\nn_head = min(1, 2, max(3, 4))\n",
    ]
    .map(text)
    .to_vec()
}

pub(super) fn pickle() -> Vec<Vec<u8>> {
    let pickled = fitgpt_data::Meta::pickled(&['a', 'b', 'c']);
    let small = b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.".to_vec();
    vec![pickled, small]
}

pub(super) fn weights() -> Vec<Vec<u8>> {
    let header = br#"{"__metadata__":{"format":"pt"},"wte.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend([0; 8]);
    vec![file]
}

/// A tiny model, as `fitgpt export --to nanogpt` writes it.
pub(super) fn saved() -> Vec<Vec<u8>> {
    vec![include_bytes!("ckpt.pt").to_vec()]
}

pub(super) fn model_config() -> Vec<Vec<u8>> {
    let llama = r#"{"model_type": "llama", "hidden_size": 48, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
        "vocab_size": 97, "max_position_embeddings": 32, "rope_theta": 5e5}"#;
    vec![text(super::MODEL), text(llama)]
}

pub(super) fn events() -> Vec<Vec<u8>> {
    vec![text(
        "{\"event\":\"plan\",\"step\":0,\"run_id\":\"0123456789abcdef\",\"plan\":{}}\n\
         {\"event\":\"step\",\"step\":0,\"loss\":2.5,\"lr\":0.1,\"grad_norm\":null,\"ms\":1,\"tokens_per_s\":1}\n",
    )]
}

/// Short ones: the fuzzer begins with inputs of at most their length.
pub(super) fn log() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../examples/early-era-attention.log").to_vec(),
        include_bytes!("../../examples/exact-bytes.log").to_vec(),
        include_bytes!("../../examples/host-killed.log").to_vec(),
        include_bytes!("../../examples/no-traceback-batch-32.log").to_vec(),
        include_bytes!("../../examples/shared-memory.log").to_vec(),
        include_bytes!("../../examples/two-workers-free-memory.log").to_vec(),
        text(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: not enough \
             memory: you tried to allocate 824633720832 bytes.",
        ),
    ]
}

/// A log and a snapshot are diagnosed alike.
pub(super) fn diagnosis() -> Vec<Vec<u8>> {
    let whole = [
        include_bytes!("../../examples/estimate-loss-batch-64.log").to_vec(),
        include_bytes!("../../examples/foreign-process.log").to_vec(),
        include_bytes!("../../examples/rank-backward-rocm.log").to_vec(),
    ];
    [log(), snapshot(), whole.to_vec()].concat()
}

pub(super) fn tokens() -> Vec<Vec<u8>> {
    let mut shard = vec![0; 1024 + 20];
    for (word, value) in [(0, 20_240_520_u32), (1, 1), (2, 10)] {
        shard[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
    }
    vec![shard, vec![1, 0, 2, 0, 3, 0]]
}

pub(super) fn parquet() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../tests/formats/required.parquet").to_vec(),
        include_bytes!("../../tests/formats/gzip_v2.parquet").to_vec(),
        include_bytes!("../../tests/formats/snappy.parquet").to_vec(),
        include_bytes!("../../tests/formats/zstd.parquet").to_vec(),
        include_bytes!("../../tests/formats/zstd_v2.parquet").to_vec(),
        include_bytes!("../../tests/formats/delta_length.parquet").to_vec(),
        include_bytes!("../../tests/formats/delta_strings.parquet").to_vec(),
    ]
}

/// The same five letters: plain, stored in a gzip member, and in a Zstandard frame.
pub(super) fn compressed() -> Vec<Vec<u8>> {
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x05\0\xfa\xffhello\x86\xa6\x10\x36\x05\0\0\0";
    let zstd = b"\x28\xb5\x2f\xfd\x20\x05\x29\0\0hello";
    vec![b"hello".to_vec(), gzip.to_vec(), zstd.to_vec()]
}

/// One tensor holds half of the card's memory when a request of 6 GB fails.
pub(super) fn snapshot() -> Vec<Vec<u8>> {
    vec![include_bytes!("snapshot.pickle").to_vec()]
}

/// Two requests over one connection, one with a token, and one that has only a beginning.
pub(super) fn http() -> Vec<Vec<u8>> {
    let post = "POST /api/plan?lang=de&name=a%20b HTTP/1.1\r\nHost: 127.0.0.1:4848\r\n\
        Connection: keep-alive\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n\
        {\"keys\":{\"n_layer\":\"2\"}}";
    let get = "GET /api/hello HTTP/1.1\r\nHost: localhost:4848\r\nCookie: fitgpt-4848=ab\r\n\
        Origin: http://localhost:4848\r\nSec-Fetch-Site: same-origin\r\n\r\n";
    vec![text(&format!("{post}{get}")), text(get), text(&post[..60])]
}

pub(super) fn tokenizer() -> Vec<Vec<u8>> {
    let words = r#"{"version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 0, "content": "</s>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true}],
        "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"</s>": 0, "a": 1, "b": 2}, "unk_token": "a"}}"#;
    let pairs = r#"{"version": "1.0", "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
            "use_regex": true},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}"#;
    vec![text(words), text(pairs)]
}
