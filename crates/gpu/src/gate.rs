//! Compiles every kernel to CUDA C++ for NVIDIA's Ada, without a card.
//!
//! Programs are dispatched as in a run, in an arena on software Vulkan, but instead of being
//! launched a kernel is compiled by CubeCL's CUDA compiler (see `launch!`). So the test compiles
//! exactly what a run launches, with the same sizes. A kernel that none of these programs uses
//! fails the test, so none can be forgotten.
//!
//! `scripts/test` sets the folder `FITGPT_CUDA_SOURCES` and compiles the result further with
//! NVIDIA's compilers, down to machine code; `scripts/cuda-architectures` does so for attention of
//! every width (`FITGPT_CUDA_WIDTHS`) and for every generation of cards.

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
    AdapterKind, Gpu, GpuDevice, GpuProperties, GpuTarget, adapters,
    cuda::{compile, driver::Card},
    kernels::{
        math::{SumOrder, UNITS},
        product::ProductUnits,
        update::{self, AdamStepLaunch},
    },
};

/// The limit on a cube's shared memory.
const SHARED_BYTES: usize = 101_376;

/// The compiled kernels.
#[derive(Default)]
struct Recording {
    seen: HashSet<KernelId>,
    /// By kernel, one source for each variant.
    sources: BTreeMap<&'static str, Vec<String>>,
}

/// Shared, because a device may run on another thread.
static RECORDING: LazyLock<Mutex<Recording>> = LazyLock::new(Mutex::default);

/// Compiles a kernel instead of launching it, once for each variant.
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
    assert!(shared <= SHARED_BYTES, "`{name}` needs {shared} bytes of shared memory");
    source.text
}

/// The card's properties: those of an RTX 4070.
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

/// The layout of matrices in its registers.
pub(crate) fn target() -> Arc<TargetProperties> {
    Arc::new(compile::target())
}

/// A model and its training. Together the cases launch every kernel.
#[derive(Clone, Debug)]
struct GateCase {
    keys: Vec<(&'static str, String)>,
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

/// Keys and their values; whether the vocabulary's table exceeds the binding limit, with some
/// layers recomputed.
const CASES: [(&str, bool); 8] = [
    ("optimizer=muon vocab_size=96", false),
    ("optimizer=adamw8bit vocab_size=96", false),
    ("bias=False gelu=exact dropout=0.0 vocab_size=96", false),
    ("bias=True gelu=tanh dropout=0.1 vocab_size=2048", true),
    ("bias=False gelu=tanh dropout=0.1 vocab_size=2048", true),
    // Two query heads share a key head, and are normalised.
    ("family=qwen3 n_kv_head=1 head_dim=128 tie_embeddings=False dropout=0.0 vocab_size=96", false),
    ("family=llama n_kv_head=1 attention_bias=all mlp_bias=True dropout=0.1 vocab_size=2048", true),
    (
        "family=llama n_kv_head=1 attention_bias=none mlp_bias=False dropout=0.1 vocab_size=96",
        false,
    ),
];

/// The widths that heads are padded to and the cases above do not have.
const WIDTHS: [usize; 4] = [32, 96, 128, 192];

/// Cases for every kernel: those above, and on demand attention of every width.
fn cases() -> Vec<GateCase> {
    let case = |keys: &'static str, is_cut: bool| GateCase {
        keys: keys
            .split(' ')
            .map(|key| key.split_once('=').unwrap())
            .map(|(key, value)| (key, value.to_owned()))
            .collect(),
        recompute: if is_cut { Recompute { blocks: 1, cheap: 1 } } else { NONE },
        max_binding: Bytes::new(if is_cut { 1 << 19 } else { 1 << 30 }),
    };
    let mut cases: Vec<_> = CASES.iter().map(|(keys, is_cut)| case(keys, *is_cut)).collect();
    let has_widths = std::env::var_os("FITGPT_CUDA_WIDTHS").is_some();
    for width in WIDTHS.into_iter().filter(|_| has_widths) {
        let joined = [("n_layer", "1".into()), ("n_embd", (2 * width).to_string())];
        let split = [
            ("n_layer", "1".into()),
            ("family", "llama".into()),
            ("n_kv_head", "1".into()),
            ("head_dim", width.to_string()),
        ];
        for layout in [&joined[..], &split] {
            for dropout in ["0.0", "0.1"] {
                let plain = case("vocab_size=96", false);
                let keys = layout.iter().cloned().chain([("dropout", dropout.into())]);
                cases
                    .push(GateCase { keys: plain.keys.into_iter().chain(keys).collect(), ..plain });
            }
        }
    }
    cases
}

const NONE: Recompute = Recompute { blocks: 0, cheap: 0 };

fn software() -> GpuDevice {
    let adapter = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
    let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
    GpuDevice::open(&adapter).unwrap()
}

fn run_all(case: &GateCase, precision: Precision) {
    let mut written = Written::new();
    for (key, value) in SIZES {
        written.set(key, value).unwrap();
    }
    for (key, value) in &case.keys {
        written.set(key, value).unwrap();
    }
    let config = written.resolve().unwrap();
    let device = software();
    let device = device.as_if(GpuProperties {
        max_binding: case.max_binding,
        shared_bytes: SHARED_BYTES,
        has_f16: true,
        has_bf16: true,
        core: ProductUnits::of(&properties()),
        sums: SumOrder::with_planes_of(&properties().hardware),
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

/// Records the only kernel that no op launches; it fills the runtime's pools.
fn record_settling() {
    let many = || AdamStepLaunch::new(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
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

/// Every kernel in the source files of this crate, by module and name.
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

const PRECISIONS: [Precision; 3] = [Precision::Float32, Precision::Float16, Precision::Bfloat16];

#[test]
fn every_kernel_becomes_cuda() {
    for precision in PRECISIONS {
        for case in &cases() {
            run_all(case, precision);
        }
    }
    record_settling();
    let sources = &RECORDING.lock().unwrap().sources;
    let compiled: BTreeSet<String> = sources.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(compiled, kernels(), "the cases do not launch every kernel of `src/kernels`");
    let multiplies = |name: &str| {
        ["linear::", "tensor_attention::"].iter().any(|module| name.starts_with(module))
    };
    for (name, forms) in sources.iter().filter(|(name, _)| multiplies(name)) {
        for half in ["__half", "__nv_bfloat16"] {
            let takes = |form: &String| form.contains("wmma::mma_sync") && form.contains(half);
            assert!(forms.iter().any(takes), "`{name}` does not multiply {half} on tensor cores");
        }
        assert!(!forms.iter().any(|form| form.contains("tf32")), "`{name}` rounds float32 to tf32");
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
