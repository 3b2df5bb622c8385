//! Times `fit` and prints its options: several models and batches on a card of 12 GB.
//!
//!     cargo run --release -p fitgpt-fit --example fit_time

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::time::Instant;

use fitgpt_config::{Precision, Written};
use fitgpt_fit::{
    fit::{Engine, FitRequest, command_line, fit},
    torch,
};
use fitgpt_model::{
    report::{DeviceMemory, Overhead, TokenStaging},
    shard::Share,
};
use fitgpt_program::{
    Op, Program,
    memory::{Limits, Target},
    units::Bytes,
};

struct Host;

impl Target for Host {
    fn limits(&self) -> Limits {
        Limits::HOST
    }

    fn scratch(&self, _: &Program, _: &Op) -> Bytes {
        Bytes::ZERO
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

fn main() {
    let torch = Engine::torch(Precision::Bfloat16);
    let fitgpt =
        |precision| Engine::Fitgpt { target: &Host, precision, staging: TokenStaging::Elsewhere };
    let cases: [(&str, Engine<'_>, f64); 11] = [
        ("batch_size=16 compile=False", torch, 11.69),
        ("batch_size=64 compile=True", torch, 11.69),
        ("batch_size=16 n_embd=576 compile=False", torch, 11.69),
        ("batch_size=12 compile=True", torch, 11.69),
        ("n_layer=48 n_embd=1600 n_head=25 batch_size=8", torch, 11.69),
        ("batch_size=480 compile=False", torch, 11.69),
        ("batch_size=480", fitgpt(Precision::Float32), 11.69),
        ("batch_size=64", fitgpt(Precision::Float32), 11.69),
        ("batch_size=16", fitgpt(Precision::Bfloat16), 5.0),
        ("batch_size=16", fitgpt(Precision::Float32), 2.2),
        ("n_layer=48 n_embd=1600 n_head=25 batch_size=8", fitgpt(Precision::Float32), 11.69),
    ];
    for (keys, engine, usable_gib) in cases {
        let mut written = Written::new();
        for pair in keys.split(' ') {
            let (key, value) = pair.split_once('=').expect("key=value");
            written.set(key, value).expect("a good value");
        }
        let config = written.resolve().expect("a good config");
        let usable_bytes = Bytes::new((usable_gib * GIB) as u64);
        let device = DeviceMemory { name: "card".into(), total_bytes: usable_bytes, usable_bytes };
        let overhead = match engine {
            Engine::Torch { .. } => torch::overhead(&config),
            Engine::Fitgpt { .. } => Overhead::default(),
        };
        let case = FitRequest {
            config: &config,
            vocab: 50304,
            engine,
            device: &device,
            overhead,
            has_bf16: true,
            is_faster_in_bf16: false,
            share: Share::WHOLE,
        };
        let start = Instant::now();
        let found = fit(&case);
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let peak = found.original.peak_bytes.get() as f64 / GIB;
        let engine = found.original.engine;
        println!("\n{engine} {keys}: {peak:.2} GiB of {usable_gib}, {ms:.0} ms");
        for (index, option) in found.options.iter().enumerate() {
            let mark = |chosen| if chosen == Some(index) { '*' } else { ' ' };
            println!(
                "{}{}{} {:5.2} {:5} {:15?} +{:3.0} % at {:14} {} {:?}",
                mark(found.recommended),
                mark(found.safest),
                mark(found.without_patches),
                option.peak_bytes.get() as f64 / GIB,
                format!("{:?}", option.verdict),
                option.effect,
                100.0 * option.extra_compute,
                option.peak_phase,
                command_line(&option.changes),
                option.patches,
            );
        }
        for note in &found.notes {
            println!("    {note:?}");
        }
    }
}
