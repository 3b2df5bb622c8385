//! Every kernel as CUDA C++ for NVIDIA's Ada, without a card.
//!
//! Programs are dispatched as in a run, in an arena on software Vulkan; but where a kernel would
//! be launched it is compiled by CubeCL's compiler for CUDA instead (see `launch!`). So what is
//! compiled is what a run launches, with the run's own sizes, and there is no list of kernels to
//! forget one in: a kernel that none of these programs reaches fails the test.
//!
//! `scripts/test` gives the folder `FITGPT_CUDA_SOURCES` and has NVIDIA's own compilers go on
//! from there, down to the instructions of the card.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};

use cubecl::{
    CubeKernel,
    ir::{DeviceProperties, TargetProperties},
    prelude::{BufferArg, CubeCount, CubeDim, KernelId},
};
use fitgpt_exec::{Arguments, Backend, Watch};
use fitgpt_plan::{
    config::{Precision, Written},
    job::{self, Job},
    program::decoder::Recompute,
    units::Bytes,
};

use crate::{
    Device, Gpu, GpuTarget, Kind, Properties, adapters,
    cuda::{compile, driver::Card},
    kernels::{
        math::{Sums, UNITS},
        product::Core,
        update::{self, StepLaunch},
    },
};

/// Shared memory that a cube can have there.
const SHARED_BYTES: usize = 101_376;

/// What has been compiled.
#[derive(Default)]
struct Recording {
    seen: HashSet<KernelId>,
    /// By kernel, one for each of its forms.
    sources: BTreeMap<&'static str, Vec<String>>,
}

/// A device may have a thread of its own.
static RECORDING: LazyLock<Mutex<Recording>> = LazyLock::new(Mutex::default);

/// Compiles a kernel that would be launched, once.
pub(crate) fn record(name: &'static str, kernel: &impl CubeKernel) {
    let mut recording = RECORDING.lock().unwrap();
    if recording.seen.insert(kernel.id()) {
        recording.sources.entry(name).or_default().push(compiled(name, kernel));
    }
}

/// A kernel as CUDA C++.
fn compiled(name: &str, kernel: &impl CubeKernel) -> String {
    let source = compile::source(kernel).unwrap_or_else(|error| panic!("`{name}`: {error}"));
    let shared = source.shared_bytes;
    assert!(shared <= SHARED_BYTES, "`{name}` wants {shared} bytes of shared memory");
    source.text
}

/// The card as CubeCL describes it.
pub(crate) fn properties() -> Arc<DeviceProperties> {
    static ADA: LazyLock<Arc<DeviceProperties>> = LazyLock::new(|| {
        Arc::new(compile::properties(&Card {
            name: "Ada".into(),
            architecture: 89,
            memory_bytes: 12 << 30,
            shared_bytes: SHARED_BYTES,
            multiprocessors: 46,
        }))
    });
    Arc::clone(&ADA)
}

/// How its registers hold matrices.
pub(crate) fn target() -> Arc<TargetProperties> {
    Arc::new(compile::target())
}

/// A model and the way it is trained, so that together they launch every kernel.
#[derive(Clone, Copy)]
struct Case {
    keys: &'static [(&'static str, &'static str)],
    recompute: Recompute,
    max_binding: Bytes,
}

const SIZES: [(&str, &str); 6] = [
    ("n_layer", "2"),
    ("n_head", "2"),
    ("n_embd", "128"), // heads of 64 channels, as GPT-2's
    ("block_size", "32"),
    ("batch_size", "2"),
    ("eval_batch_size", "2"),
];

const CASES: [Case; 6] = [
    Case {
        keys: &[("optimizer", "muon"), ("vocab_size", "96")],
        recompute: Recompute { blocks: 0, cheap: 0 },
        max_binding: Bytes::new(1 << 30),
    },
    Case {
        keys: &[("optimizer", "adamw8bit"), ("vocab_size", "96")],
        recompute: Recompute { blocks: 0, cheap: 0 },
        max_binding: Bytes::new(1 << 30),
    },
    Case {
        keys: &[("bias", "False"), ("gelu", "exact"), ("dropout", "0.0"), ("vocab_size", "96")],
        recompute: Recompute { blocks: 0, cheap: 0 },
        max_binding: Bytes::new(1 << 30),
    },
    // The vocabulary's table is larger than what a kernel is given at once.
    Case {
        keys: &[("bias", "True"), ("gelu", "tanh"), ("dropout", "0.1"), ("vocab_size", "2048")],
        recompute: Recompute { blocks: 1, cheap: 1 },
        max_binding: Bytes::new(1 << 19),
    },
    // Two query heads share a key head. Heads as wide as a Qwen 3 has them, and normalised.
    Case {
        keys: &[
            ("family", "qwen3"),
            ("n_kv_head", "1"),
            ("head_dim", "128"),
            ("tie_embeddings", "False"),
            ("dropout", "0.0"),
            ("vocab_size", "96"),
        ],
        recompute: Recompute { blocks: 0, cheap: 0 },
        max_binding: Bytes::new(1 << 30),
    },
    Case {
        keys: &[
            ("family", "llama"),
            ("n_kv_head", "1"),
            ("attention_bias", "all"),
            ("mlp_bias", "True"),
            ("dropout", "0.1"),
            ("vocab_size", "2048"),
        ],
        recompute: Recompute { blocks: 1, cheap: 1 },
        max_binding: Bytes::new(1 << 19),
    },
];

fn software() -> Device {
    let adapter = adapters().into_iter().find(|adapter| adapter.kind == Kind::Software);
    let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
    Device::open(&adapter).unwrap()
}

fn run_all(case: &Case, precision: Precision) {
    let mut written = Written::new();
    for (key, value) in SIZES.iter().chain(case.keys) {
        written.set(key, value).unwrap();
    }
    let config = written.resolve().unwrap();
    let device = software();
    let device = device.as_if(Properties {
        max_binding: case.max_binding,
        shared_bytes: SHARED_BYTES,
        has_f16: true,
        has_bf16: true,
        core: Core::of(&properties()),
        sums: Sums::with_planes_of(&properties().hardware),
        is_recorded: true,
        ..device.properties()
    });
    let target = GpuTarget::new(device.properties());
    let mut job = Job::new(&config, config.vocab_size(), precision, &target, Bytes::new(1 << 30));
    job.training.recompute = case.recompute;
    job.samples = 2;
    for programs in [job.training_programs(), job.sampling_programs()] {
        for program in &programs {
            target.check(program).unwrap();
        }
        let count = programs.len();
        let plan = job::plan(programs, &target).unwrap();
        let mut gpu = Gpu::new(device.clone(), plan, Watch::Off, Bytes::ZERO).unwrap();
        for index in 0..count {
            gpu.run(index, &Arguments { length: 8, ..Arguments::default() }).unwrap();
        }
    }
}

/// The one kernel that no op launches: it fills the runtime's pools.
fn record_settling() {
    let many = || StepLaunch::new(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    let place = software().client.empty(4);
    // SAFETY: nothing is launched.
    let place = unsafe { BufferArg::from_raw_parts(place, 1) };
    let (one, line) = (CubeCount::new_single(), CubeDim::new_1d(UNITS));
    let kernel = update::with_many_arguments::create_dummy_kernel(
        properties(),
        target(),
        one,
        line,
        place,
        0.0,
        many(),
        many(),
        many(),
        many(),
    );
    record("update::with_many_arguments", &kernel);
}

/// Every kernel of this crate, by module and name, as its files say.
fn kernels() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let launched = text.split("#[cube(launch").skip(1);
        names.extend(launched.map(|after| {
            let (_, after) = after.split_once(" fn ").unwrap();
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap();
            format!("{module}::{}", &after[..end])
        }));
    }
    names
}

#[test]
fn every_kernel_becomes_cuda() {
    for precision in [Precision::Float32, Precision::Float16, Precision::Bfloat16] {
        for case in &CASES {
            run_all(case, precision);
        }
    }
    record_settling();
    let sources = &RECORDING.lock().unwrap().sources;
    let compiled: BTreeSet<String> = sources.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(compiled, kernels(), "programs above launch every kernel of `src/kernels`");
    for (name, forms) in sources.iter().filter(|(name, _)| name.starts_with("linear::")) {
        for half in ["__half", "__nv_bfloat16"] {
            let takes = |form: &String| form.contains("wmma::mma_sync") && form.contains(half);
            assert!(forms.iter().any(takes), "`{name}` multiplies {half} on tensor cores");
        }
        assert!(!forms.iter().any(|form| form.contains("tf32")), "`{name}` rounds float32");
    }
    let Some(folder) = std::env::var_os("FITGPT_CUDA_SOURCES") else { return };
    fs::create_dir_all(&folder).unwrap();
    for (name, forms) in sources {
        for (index, source) in forms.iter().enumerate() {
            let file = format!("{}-{index}.cu", name.replace("::", "-"));
            fs::write(Path::new(&folder).join(file), source).unwrap();
        }
    }
}
