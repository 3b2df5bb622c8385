//! Times the plan of a very deep GPT-2: placing must not be quadratic in the number of layers.
//!
//!     cargo run --release -p fitgpt-fit --example deep_plan -- 1000

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::time::Instant;

use fitgpt_config::{Precision, Written};
use fitgpt_fit::torch::CachingAllocator;
use fitgpt_model::job::{self, Job};
use fitgpt_program::{Names, units::Bytes};

fn main() {
    let layers = std::env::args().nth(1).unwrap_or_else(|| "1000".to_owned());
    let mut written = Written::new();
    written.set("n_layer", &layers).expect("a number of layers");
    let config = written.resolve().expect("a good config");
    let began = Instant::now();
    let job = Job::new(&config, 50304, Precision::Float32, &CachingAllocator, Bytes::new(1 << 60));
    let programs = job.training_programs(Names::Kept);
    let built = began.elapsed();
    let plan = job::plan(programs, &CachingAllocator).expect("a plan");
    let arena = plan.plan().arena_bytes();
    println!("{layers} layers: {:?}, of which programs {built:?}; {arena}", began.elapsed());
}
