//! Compiles every kernel to CUDA C++ for NVIDIA's Ada, without a card.
//!
//! Programs are dispatched as in a run, in an arena on software Vulkan, but instead of being
//! launched a kernel is compiled by CubeCL's CUDA compiler (see `launch!`). So the test compiles
//! exactly what a run launches, with the same sizes. A kernel that none of these programs uses
//! fails the test, so none can be forgotten.
//!
//! `scripts/test` sets the folder `FITGPT_CUDA_SOURCES` and compiles the result further with
//! NVIDIA's compilers, down to machine code.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};

use cubecl::{
    Compiler, CubeKernel, ExecutionMode,
    cmma::MatrixLayout,
    define_kernel,
    features::Features,
    ir::{
        ContiguousElements, DeviceIdentity, DeviceProperties, HardwareProperties,
        MemoryDeviceProperties, MmaProperties, TargetProperties, VectorSize,
    },
    prelude::{BufferArg, CubeCount, CubeDim, KernelId},
    profile::TimingMethod,
};
use cubecl_cpp::{
    cuda::{
        arch::CudaArchitecture,
        mma::{CudaCmmaCompiler, manual::contiguous_elements_cuda},
    },
    register_supported_types,
    shared::{CompilationOptions, CppCompiler, CppSupportedFeatures, register_wmma_features},
    target::Cuda,
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
    kernels::{
        math::{SumOrder, UNITS},
        product::ProductUnits,
        update::{self, AdamStepLaunch},
    },
};

/// Ada, as in an RTX 4070.
const ARCHITECTURE: CudaArchitecture = CudaArchitecture { version: 89, tensor_cores: true };
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
    let mut definition = define_kernel(kernel).unwrap();
    // Unchecked, as in a run: the kernels check the bounds they need.
    definition.settings.execution_mode = ExecutionMode::Unchecked;
    let options = CompilationOptions {
        supports_features: CppSupportedFeatures {
            fast_math: true,
            dp4a: true,
            grid_constants: true,
            fast_tanh: true,
            ..CppSupportedFeatures::default()
        },
        ..CompilationOptions::default()
    };
    let compiled = CppCompiler::<Cuda>::default().compile(definition, &options);
    let compiled = compiled.unwrap_or_else(|error| panic!("`{name}`: {error}"));
    let shared = compiled.shared_memory_size;
    assert!(shared <= SHARED_BYTES, "`{name}` needs {shared} bytes of shared memory");
    compiled.source
}

/// The card's properties, as CubeCL's CUDA runtime reports them.
pub(crate) fn properties() -> Arc<DeviceProperties> {
    static ADA: LazyLock<Arc<DeviceProperties>> = LazyLock::new(|| {
        let hardware = HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 1024,
            max_shared_memory_size: SHARED_BYTES,
            max_cube_count: (i32::MAX as u32, 65_535, 65_535),
            max_units_per_cube: 1024,
            max_cube_dim: (1024, 1024, 64),
            num_streaming_multiprocessors: Some(46),
            num_tensor_cores: Some(4),
            min_tensor_cores_dim: Some(8),
            num_cpu_cores: None,
            last_level_cache_size: None,
            max_vector_size: VectorSize::MAX,
            cube_mma_reserved_shared_memory: 0,
        };
        let identity =
            DeviceIdentity { name: "Ada".into(), fingerprint: "ptx_sm89".into(), physical: None };
        let memory = MemoryDeviceProperties::new(3 << 30, 512);
        let mut properties = DeviceProperties::new(
            Features::default(),
            memory,
            hardware,
            TimingMethod::Device,
            identity,
        );
        register_supported_types(&mut properties);
        let products = CudaCmmaCompiler::Cpp.supported_cmma_combinations(&ARCHITECTURE);
        register_wmma_features(products, &mut properties);
        Arc::new(properties)
    });
    Arc::clone(&ADA)
}

/// The layout of matrices in its registers.
pub(crate) fn target() -> Arc<TargetProperties> {
    Arc::new(TargetProperties {
        mma: MmaProperties {
            register_size_bits: 32,
            const_plane_size: 32,
            register_layout_a: MatrixLayout::RowMajor,
            register_layout_b: MatrixLayout::ColMajor,
            register_layout_acc: MatrixLayout::RowMajor,
            register_duplication_a: 1,
            register_duplication_b: 1,
            register_duplication_acc: 1,
            contiguous_elements: ContiguousElements::new(contiguous_elements_cuda),
        },
    })
}

/// A model and its training. Together the cases launch every kernel.
#[derive(Clone, Copy)]
struct GateCase {
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

const CASES: [GateCase; 6] = [
    GateCase {
        keys: &[("optimizer", "muon"), ("vocab_size", "96")],
        recompute: Recompute { blocks: 0, cheap: 0 },
        max_binding: Bytes::new(1 << 30),
    },
    GateCase {
        keys: &[("optimizer", "adamw8bit"), ("vocab_size", "96")],
        recompute: Recompute { blocks: 0, cheap: 0 },
        max_binding: Bytes::new(1 << 30),
    },
    GateCase {
        keys: &[("bias", "False"), ("gelu", "exact"), ("dropout", "0.0"), ("vocab_size", "96")],
        recompute: Recompute { blocks: 0, cheap: 0 },
        max_binding: Bytes::new(1 << 30),
    },
    // The vocabulary's table exceeds the binding limit.
    GateCase {
        keys: &[("bias", "True"), ("gelu", "tanh"), ("dropout", "0.1"), ("vocab_size", "2048")],
        recompute: Recompute { blocks: 1, cheap: 1 },
        max_binding: Bytes::new(1 << 19),
    },
    // Two query heads share a key head. Heads are as wide as Qwen 3's, and normalised.
    GateCase {
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
    GateCase {
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

fn software() -> GpuDevice {
    let adapter = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
    let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
    GpuDevice::open(&adapter).unwrap()
}

fn run_all(case: &GateCase, precision: Precision) {
    let mut written = Written::new();
    for (key, value) in SIZES.iter().chain(case.keys) {
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
    assert_eq!(compiled, kernels(), "the cases do not launch every kernel of `src/kernels`");
    for (name, forms) in sources.iter().filter(|(name, _)| name.starts_with("linear::")) {
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
