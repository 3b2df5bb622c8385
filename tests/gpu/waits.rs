//! How often a run waits for its device.

use fitgpt_checkpoint::Scaler;
use fitgpt_config::{Precision, Written};
use fitgpt_data::Dataset;
use fitgpt_exec::Watch;
use fitgpt_gpu::{AdapterKind, Gpu, GpuDevice, GpuTarget, adapters};
use fitgpt_model::job::{self, Job};
use fitgpt_program::{Names, units::Bytes};
use fitgpt_run::{stop::StopFlag, trainer::Trainer};

const SMALL: [(&str, &str); 8] = [
    ("n_layer", "2"),
    ("n_head", "2"),
    ("n_embd", "32"),
    ("block_size", "32"),
    ("batch_size", "4"),
    ("eval_batch_size", "4"),
    ("gradient_accumulation_steps", "3"),
    ("dropout", "0.1"),
];

#[test]
fn a_step_waits_for_its_device_once_however_many_micro_batches_it_has() {
    waits_once(&[]);
    waits_once(&[("family", "qwen3"), ("n_kv_head", "1")]);
}

fn waits_once(family: &[(&str, &str)]) {
    let adapter = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
    let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
    let device = GpuDevice::open(&adapter).unwrap();
    let mut written = Written::new();
    for (key, value) in SMALL.iter().chain(family) {
        written.set(key, value).unwrap();
    }
    let config = written.resolve().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = Dataset::open("stories", folder.path()).unwrap();
    let target = GpuTarget::new(device.properties());
    let budget = Bytes::new(1 << 30);
    let job = Job::new(&config, data.vocab_size(), Precision::Float32, &target, budget);
    let programs = job.training_programs(Names::Kept);
    let handles = programs.handles();
    let plan = job::plan(programs, &target).unwrap();
    let gpu = Gpu::new(device.clone(), plan, Watch::Off, Bytes::ZERO).unwrap();
    let mut trainer =
        Trainer::new(Box::new(gpu), config, job, handles, data, Scaler::NONE).unwrap();
    trainer.initialise().unwrap();
    for _ in 0..3 {
        let before = device.copies_to_host();
        let stepped = trainer.step(&StopFlag::default()).unwrap().expect("not stopped");
        assert_eq!(
            device.copies_to_host(),
            before + 1,
            "the loss and the norm are read in one copy"
        );
        assert!(stepped.loss > 1.0 && stepped.grad_norm > 0.0, "{stepped:?}");
    }
}
