//! Compiles every kernel to CUDA C++ for NVIDIA's Ada, without a card.
//!
//! Programs are dispatched as in a run, in an arena on software Vulkan, but instead of being
//! launched a kernel is compiled by CubeCL's CUDA compiler (see `launch!`). So the test compiles
//! exactly what a run launches, with the same sizes. A kernel that none of these programs uses
//! fails the test, so none can be forgotten, and so does one whose PTX is not stored.
//!
//! With the folder `FITGPT_CUDA_SOURCES` the texts are written there: `scripts/ptx` compiles them to the
//! stored PTX.
//!
//! Promise: the PTX of every kernel that an accepted config needs is in the program, and is that of
//! the current kernels; it assembles to machine code without spills. Test: this file,
//! `tests/cuda/assemble.py`, `scripts/cuda-architectures`.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::Path,
    sync::{Arc, LazyLock, Mutex, MutexGuard, Once},
};

use cubecl::{
    CubeKernel,
    ir::{DeviceProperties, TargetProperties},
    prelude::{BufferArg, CubeCount, CubeDim, KernelId},
};
use fitgpt_config::{Config, OptimizerChoice, Precision, Written};
use fitgpt_exec::{Arguments, Backend, Watch, random::fmix32};
use fitgpt_model::{
    job::{self, Job},
    training::Recompute,
};
use fitgpt_program::{Names, units::Bytes};

use crate::{
    AdapterKind, Gpu, GpuDevice, GpuProperties, GpuRefusal, GpuTarget, adapters,
    cuda::{
        canonical::KernelKey,
        compile,
        driver::{Card, Source},
        stored::{StoredKernels, WIDEST_HEAD},
    },
    kernels::{
        attention::padded,
        math::{SumOrder, UNITS},
        product::ProductUnits,
        update::{self, AdamConstantsLaunch},
    },
};

/// The limit on a cube's shared memory.
const SHARED_BYTES: usize = 101_376;

/// The compiled kernels.
#[derive(Default)]
struct Recording {
    seen: HashSet<KernelId>,
    /// By kernel, one source for each variant.
    sources: BTreeMap<&'static str, Vec<Source>>,
    /// The kernel of each source's key.
    keys: BTreeMap<KernelKey, &'static str>,
}

/// Shared, because a device may run on another thread.
static RECORDING: LazyLock<Mutex<Recording>> = LazyLock::new(Mutex::default);

/// Compiles a kernel instead of launching it, once for each variant.
pub(crate) fn record(name: &'static str, kernel: &impl CubeKernel) {
    let mut recording = RECORDING.lock().unwrap();
    if recording.seen.insert(kernel.id()) {
        let source = compiled(name, kernel);
        recording.keys.insert(KernelKey::of(&source.text), name);
        recording.sources.entry(name).or_default().push(source);
    }
}

/// A kernel as CUDA C++.
fn compiled(name: &str, kernel: &impl CubeKernel) -> Source {
    let source = compile::source(kernel).unwrap_or_else(|error| panic!("`{name}`: {error}"));
    let shared = source.shared_bytes;
    assert!(shared <= SHARED_BYTES, "`{name}` needs {shared} bytes of shared memory");
    source
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
    /// Keys and their values, `key=value`.
    keys: String,
    recompute: Recompute,
    /// Whether the vocabulary's table exceeds the binding limit.
    is_cut: bool,
    precision: Precision,
}

const SIZES: &str = "n_layer=2 n_head=2 n_embd=128 block_size=32 batch_size=2 eval_batch_size=2 \
                     vocab_size=96";

/// Heads of these widths have kernels: everything between is padded to the next one.
const WIDTHS: [usize; 6] = [32, 64, 96, 128, 192, WIDEST_HEAD];

/// Every choice that a config has, for the kernels that depend on it.
///
/// Which kernels an op needs depends on its optional operands and on types, and attention's on the width
/// of a head; nothing else is compiled in. So the choices of a layer are combined with each other, the
/// widths only with what attention takes, and optimizers with nothing.
fn cases() -> Vec<GateCase> {
    let mut layers = Vec::new();
    for dropout in ["0.0", "0.1"] {
        for (bias, gelu) in
            [("True", "exact"), ("True", "tanh"), ("False", "exact"), ("False", "tanh")]
        {
            layers.push(format!("bias={bias} gelu={gelu} dropout={dropout}"));
        }
        for family in ["llama", "qwen3"] {
            for (attention_bias, mlp_bias) in
                [("none", "False"), ("none", "True"), ("qkv", "False"), ("all", "True")]
            {
                let tied = if mlp_bias == "True" { "True" } else { "False" };
                layers.push(format!(
                    "family={family} n_kv_head=1 attention_bias={attention_bias} mlp_bias={mlp_bias} \
                     tie_embeddings={tied} dropout={dropout}"
                ));
            }
        }
    }
    let mut widths = Vec::new();
    for width in WIDTHS {
        for dropout in ["0.0", "0.1"] {
            widths.push(format!("n_layer=1 n_embd={} dropout={dropout}", 2 * width));
            widths.push(format!(
                "n_layer=1 family=llama n_kv_head=1 head_dim={width} dropout={dropout}"
            ));
        }
    }
    let mut cases = Vec::new();
    for precision in PRECISIONS {
        let mut add = |keys: &str, recompute, is_cut| {
            cases.push(GateCase { keys: keys.to_owned(), recompute, is_cut, precision });
        };
        for keys in &layers {
            add(keys, NONE, false);
            add(keys, Recompute { blocks: 1, cheap: 1 }, true);
        }
        for keys in &widths {
            add(keys, NONE, false);
        }
        for optimizer in optimizers() {
            add(&format!("optimizer={optimizer}"), NONE, false);
        }
    }
    cases
}

/// What the key `optimizer` may be, with each type of Muon's iteration.
fn optimizers() -> impl Iterator<Item = String> {
    let of = |choice: OptimizerChoice| match choice {
        OptimizerChoice::Muon => {
            ["bfloat16", "float32"].map(|dtype| format!("muon muon_dtype={dtype}")).to_vec()
        }
        elementwise => vec![elementwise.name().to_owned()],
    };
    OptimizerChoice::ALL.into_iter().flat_map(of)
}

const NONE: Recompute = Recompute { blocks: 0, cheap: 0 };

/// The device in whose memory the arenas lie; nothing is launched on it.
fn software() -> GpuDevice {
    static SOFTWARE: LazyLock<GpuDevice> = LazyLock::new(|| {
        let adapter = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
        let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
        GpuDevice::open(&adapter).unwrap()
    });
    SOFTWARE.clone()
}

/// The sizes, and then the keys of a case.
fn config(keys: &str) -> Config {
    let mut written = Written::new();
    for pair in format!("{SIZES} {keys}").split(' ') {
        let (key, value) = pair.split_once('=').expect("a key and its value");
        written.set(key, value).unwrap();
    }
    written.resolve().unwrap()
}

/// How many tokens of a prompt are cached; one more has to fit into a block.
const LENGTH: u64 = 8;

/// Records the kernels of every program of a case.
fn record_all(case: &GateCase) {
    let config = config(&case.keys);
    let vocab = if case.is_cut { 8192 } else { config.vocab_size() };
    let device = software();
    let device = device.as_if(GpuProperties {
        max_binding: Bytes::new(if case.is_cut { 1 << 20 } else { 1 << 30 }),
        shared_bytes: SHARED_BYTES,
        has_f16: true,
        has_bf16: true,
        widest_head: WIDEST_HEAD,
        core: ProductUnits::of(&properties()),
        sums: SumOrder::with_planes_of(&properties().hardware),
        is_recorded: true,
        ..device.properties()
    });
    let target = GpuTarget::new(device.properties());
    let mut job = Job::new(&config, vocab, case.precision, &target, Bytes::new(1 << 30));
    job.training.recompute = case.recompute;
    job.samples = 2;
    let training = Vec::from(job.training_programs(Names::Kept));
    for programs in [training, job.sampling_programs().into()] {
        for program in &programs {
            target.check(program).unwrap();
        }
        let plan = job::plan(programs, &target).unwrap();
        let mut ids = plan.ids();
        let run = || {
            let mut gpu = Gpu::new(device.clone(), plan, Watch::Off, Bytes::ZERO)?;
            let arguments = Arguments { length: LENGTH, ..Arguments::default() };
            ids.try_for_each(|program| gpu.run(program, &arguments))
        };
        if let Err(error) = run() {
            panic!("{case:?}: {error}");
        }
    }
}

/// Records the only kernel that no op launches; it fills the runtime's pools.
fn record_settling() {
    let many = || AdamConstantsLaunch::new(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
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

/// How many random configs are tried.
const RANDOM_CONFIGS: u32 = 100;

const PRECISIONS: [Precision; 3] = [Precision::Float32, Precision::Float16, Precision::Bfloat16];

/// The kernels of every case, recorded once for all tests.
fn recorded() -> MutexGuard<'static, Recording> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        cases().iter().for_each(record_all);
        record_settling();
    });
    RECORDING.lock().unwrap()
}

#[test]
fn every_kernel_becomes_cuda() {
    let sources = &recorded().sources;
    let compiled: BTreeSet<String> = sources.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(compiled, kernels(), "the cases do not launch every kernel of `src/kernels`");
    let multiplies = |name: &str| {
        ["linear::", "tensor_attention::"].iter().any(|module| name.starts_with(module))
    };
    for (name, forms) in sources.iter().filter(|(name, _)| multiplies(name)) {
        for half in ["__half", "__nv_bfloat16"] {
            let takes =
                |form: &Source| form.text.contains("wmma::mma_sync") && form.text.contains(half);
            assert!(forms.iter().any(takes), "`{name}` does not multiply {half} on tensor cores");
        }
        // The loss's products, too: their factors are float32 in memory, but not in registers.
        let is_half =
            |form: &Source| ["__half", "__nv_bfloat16"].iter().any(|half| form.text.contains(half));
        let is_left_out = |form: &&Source| is_half(form) && !form.text.contains("wmma::mma_sync");
        assert_eq!(forms.iter().filter(is_left_out).count(), 0, "`{name}` without tensor cores");
        let rounds = |form: &Source| form.text.contains("tf32");
        assert!(!forms.iter().any(rounds), "`{name}` rounds float32 to tf32");
    }
    let Some(folder) = std::env::var_os("FITGPT_CUDA_SOURCES") else { return };
    fs::create_dir_all(&folder).unwrap();
    for (name, source) in
        sources.iter().flat_map(|(name, forms)| forms.iter().map(move |f| (name, f)))
    {
        let file = format!("{}-{}.cu", name.replace("::", "-"), KernelKey::of(&source.text));
        fs::write(Path::new(&folder).join(file), &source.text).unwrap();
    }
}

const OUTDATED: &str = "run `scripts/ptx` after a change of a kernel";

#[test]
fn the_stored_kernels_are_those_of_the_source() {
    let stored: BTreeSet<_> = StoredKernels::unpack().unwrap().keys().collect();
    let recorded = &recorded().keys;
    let missing: Vec<_> = recorded.iter().filter(|(key, _)| !stored.contains(key)).collect();
    assert!(
        missing.is_empty(),
        "{} kernels are not stored: {missing:?}; {OUTDATED}",
        missing.len()
    );
    let unused = stored.iter().filter(|key| !recorded.contains_key(key)).count();
    assert_eq!(unused, 0, "no program launches some of the stored kernels; {OUTDATED}");
}

/// Numbers for one random config.
struct Dice(u32);

impl Dice {
    fn below(&mut self, count: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9);
        fmix32(self.0) % count
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

fn random_case(dice: &mut Dice) -> GateCase {
    let layers = 1 + dice.below(3);
    let kv_heads = 1 + dice.below(2);
    let heads = kv_heads * (1 + dice.below(2));
    let width = 2 * (1 + dice.below(WIDEST_HEAD as u32 / 2));
    let rows = [dice.below(40), dice.below(4), dice.below(3)].map(|size| size + 1);
    let truth = ["True", "False"];
    let shape = match dice.of(&["gpt2", "llama", "mistral", "qwen2", "qwen3"]) {
        "gpt2" => {
            let (bias, gelu) = (dice.of(&truth), dice.of(&["exact", "tanh"]));
            let width = if heads > 1 { width.div_ceil(heads) } else { width };
            format!("n_embd={} bias={bias} gelu={gelu}", heads * width)
        }
        family => format!(
            "family={family} n_embd={} n_kv_head={kv_heads} head_dim={width} attention_bias={} \
             mlp_bias={} tie_embeddings={}",
            8 * (1 + dice.below(20)),
            dice.of(&["none", "qkv", "all"]),
            dice.of(&truth),
            dice.of(&truth),
        ),
    };
    let optimizers: Vec<_> = optimizers().collect();
    let keys = format!(
        "{shape} n_layer={layers} n_head={heads} block_size={} batch_size={} eval_batch_size={} \
         vocab_size={} dropout={} optimizer={} lanes={}",
        rows[0] + LENGTH as u32,
        rows[1],
        rows[2],
        17 + dice.below(300),
        dice.of(&["0.0", "0.3"]),
        optimizers[dice.below(optimizers.len() as u32) as usize],
        dice.of(&["0 gradient_accumulation_steps=3", "2 gradient_accumulation_steps=4"]),
    );
    let blocks = dice.below(layers + 1);
    GateCase {
        keys,
        recompute: Recompute { blocks, cheap: dice.below(layers - blocks + 1) },
        is_cut: dice.below(4) == 0,
        precision: dice.of(&PRECISIONS),
    }
}

#[test]
fn no_accepted_config_needs_another_kernel() {
    let stored = StoredKernels::unpack().unwrap();
    for seed in 0..RANDOM_CONFIGS {
        let case = random_case(&mut Dice(seed << 16));
        record_all(&case);
        let keys = RECORDING.lock().unwrap().keys.clone();
        let missing = keys.into_iter().find(|(key, _)| stored.get(*key).is_none());
        assert!(missing.is_none(), "{case:?} needs {missing:?}, which is not stored; {OUTDATED}");
    }
}

#[test]
fn a_head_without_stored_kernels_is_refused_by_its_width() {
    let config = config("n_head=1 n_embd=258");
    let properties = GpuProperties { widest_head: WIDEST_HEAD, ..software().properties() };
    let target = GpuTarget::new(properties);
    let job = Job::new(&config, 96, Precision::Float32, &target, Bytes::new(1 << 30));
    let refusal = GpuRefusal::NoKernelForHead { channels: 258, widest: WIDEST_HEAD };
    for program in
        [job.training_programs(Names::Kept).train.program, job.sampling_programs().prefill.program]
    {
        assert_eq!(target.check(&program), Err(refusal.clone()));
    }
    assert!((1..=WIDEST_HEAD).all(|size| WIDTHS.contains(&padded(size))), "a width has no case");
}
