//! Every kernel's CUDA C++, executed on the CPU and judged as every backend is.

use std::{
    collections::BTreeSet,
    ops::{ControlFlow, Deref},
    process::Command,
};

use fitgpt_config::{Config, Precision, Written};
use fitgpt_conformance::{
    CaseSelection, Factors, JudgedCase, judge_each, judge_model_stored, judge_stored,
};
use fitgpt_exec::{
    Arguments, Backend, BackendError, Watch,
    cpu::{Cpu, CpuTarget, isa::Isa},
};
use fitgpt_model::job::{self, Job};
use fitgpt_program::{
    Names, TensorClass,
    memory::VerifiedPlan,
    units::{Bytes, DType, ProgramId},
};

use super::{
    driver::Source,
    simulated::{Edit, FailingCall, Registered, SimulatedDevice, Watcher, driver_folder},
    stored::WIDEST_HEAD,
};
use crate::{
    Adapter, AdapterKind, Api, Gpu, GpuDevice, GpuProperties, GpuTarget,
    adapter::{NVIDIA, Selector},
    kernels::{math::SumOrder, product::ProductUnits},
};

const GUARD: Bytes = Bytes::new(256);
const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

fn unchanged(source: &Source) -> String {
    source.text.clone()
}

/// A simulated card, which ends with this.
struct OpenCard {
    device: GpuDevice,
    _registered: Registered, // dropped last
}

impl Deref for OpenCard {
    type Target = GpuDevice;

    fn deref(&self) -> &GpuDevice {
        &self.device
    }
}

/// A simulated card whose kernels are changed by `edit`.
fn device(watcher: Watcher, edit: Edit) -> OpenCard {
    let registered = Registered::new(SimulatedDevice { watcher, edit, failing: None });
    let device = GpuDevice::open(&adapter(registered.selector())).unwrap();
    OpenCard { device, _registered: registered }
}

fn adapter(selector: Selector) -> Adapter {
    Adapter {
        name: "an RTX 4070 on the CPU".into(),
        api: Api::Cuda,
        kind: AdapterKind::Software,
        driver: "simulated".into(),
        memory: None,
        properties: GpuProperties {
            max_chunk: Bytes::new(1 << 32),
            max_binding: Bytes::new(1 << 32),
            shared_bytes: 101_376,
            plane: [32, 32],
            has_f16: true,
            has_bf16: true,
            widest_head: WIDEST_HEAD,
            core: ProductUnits::Units,
            sums: SumOrder::Tree,
            is_recorded: false,
        },
        selector,
        vendor: NVIDIA,
    }
}

fn watched(device: &GpuDevice) -> GpuTarget {
    GpuTarget { guard: GUARD, ..GpuTarget::new(device.properties()) }
}

fn make(device: &GpuDevice) -> impl FnMut(VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
    let device = device.clone();
    move |plan| Ok(Box::new(Gpu::new(device.clone(), plan, Watch::Poison, GUARD)?))
}

#[test]
fn every_op_is_the_reference_and_stays_within_its_operands() {
    let device = device(Watcher::Addresses, unchanged);
    assert!(device.properties().has_tensor_cores() && device.properties().adds_in_planes());
    let verdict =
        judge_stored(&TYPES, Factors::Rounded, &watched(&device), &mut make(&device)).unwrap();
    assert!(verdict.is_clean(), "{verdict}");
}

/// Small models train and sample as the suite demands. One test for each type, to run side by side.
fn judge_models(dtype: DType) {
    let device = device(Watcher::Addresses, unchanged);
    let verdict =
        judge_model_stored(&[dtype], Factors::Rounded, &watched(&device), &mut make(&device))
            .unwrap();
    assert!(verdict.is_clean(), "{verdict}");
}

#[test]
fn small_models_train_and_sample_in_float32() {
    judge_models(DType::F32);
}

#[test]
fn small_models_train_and_sample_in_float16() {
    judge_models(DType::F16);
}

#[test]
fn small_models_train_and_sample_in_bfloat16() {
    judge_models(DType::Bf16);
}

/// Runs the cases of some ops until the first wrong tensor; whether there is one.
fn is_wrong(
    watcher: Watcher,
    dtypes: &[DType],
    ops: &[&str],
    edit: Edit,
) -> Result<bool, BackendError> {
    let device = device(watcher, edit);
    let mut is_wrong = false;
    let mut report = |judged: JudgedCase| {
        is_wrong = !judged.failures.is_empty();
        if is_wrong { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let selection = CaseSelection { dtypes, factors: Factors::Rounded, ops };
    judge_each(&selection, &watched(&device), &mut make(&device), &mut report)?;
    Ok(is_wrong)
}

#[test]
fn a_missing_barrier_is_caught() {
    let edit = |source: &Source| source.text.replacen("__syncthreads();", "", 1);
    let error = is_wrong(Watcher::Races, &[DType::F32], &[], edit).unwrap_err().to_string();
    assert!(error.contains("with no barrier between them"), "{error}");
}

#[test]
fn a_missing_barrier_of_a_warp_is_caught() {
    let edit = |source: &Source| source.text.replace("__syncwarp();", "");
    let error =
        is_wrong(Watcher::Races, &[DType::Bf16], &["linear"], edit).unwrap_err().to_string();
    assert!(error.contains("with no barrier between them"), "{error}");
}

/// The text without one barrier of a warp, if it is this kernel on tensor cores.
fn without_barrier(source: &Source, kernel: &str, index: usize) -> String {
    let is_meant = source.name.starts_with(kernel) && source.text.contains("wmma::");
    let barrier = source.text.match_indices("__syncwarp();").nth(index).filter(|_| is_meant);
    let mut text = source.text.clone();
    if let Some((at, barrier)) = barrier {
        text.replace_range(at..at + barrier.len(), "");
    }
    text
}

#[test]
fn a_missing_barrier_of_attention_on_tensor_cores_is_caught() {
    let edits: [(&str, Edit); 5] = [
        ("attention", |source| without_barrier(source, "forward", 0)),
        ("attention_backward", |source| without_barrier(source, "backward_keys", 0)),
        ("attention_backward", |source| without_barrier(source, "backward_keys", 3)),
        ("attention_backward", |source| without_barrier(source, "backward_queries", 0)),
        ("attention_backward", |source| without_barrier(source, "backward_queries", 2)),
    ];
    for (op, edit) in edits {
        let error = is_wrong(Watcher::Races, &[DType::Bf16], &[op], edit).unwrap_err().to_string();
        assert!(error.contains("with no barrier between them"), "{op}: {error}");
    }
}

#[test]
fn an_element_too_many_is_caught() {
    // `copied` copies as many elements as its second number says.
    let edit = |source: &Source| {
        let is_meant = source.name.starts_with("copied");
        let count = if is_meant { ".scalars_usize[1] + 1;" } else { ".scalars_usize[1];" };
        source.text.replace(".scalars_usize[1];", count)
    };
    let error = is_wrong(Watcher::Addresses, &[DType::F32], &["last_row"], edit);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("AddressSanitizer"), "{error}");
}

#[test]
fn an_index_behind_an_array_of_shared_memory_is_caught() {
    // The arrays of one block lie next to each other, so this reads another array.
    let edit = |source: &Source| source.text.replace("array<float, 2080>", "array<float, 2000>");
    let error = is_wrong(Watcher::Addresses, &[DType::F32], &["attention"], edit);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("out of bounds"), "{error}");
}

#[test]
fn a_tile_that_is_read_by_columns_is_caught() {
    let edit = |source: &Source| source.text.replace("wmma::col_major", "wmma::row_major");
    for op in ["linear", "attention"] {
        assert!(is_wrong(Watcher::Addresses, &[DType::Bf16], &[op], edit).unwrap(), "{op}");
    }
}

/// The losses of twenty steps of a small GPT-2, on any backend.
fn losses(backend: &mut dyn Backend) -> Vec<f32> {
    let program = backend.plan().program(ProgramId(0)).clone();
    let write = |backend: &mut dyn Backend, name: &str, values: &[u8]| {
        let tensor = program.find(name).unwrap();
        backend.write(ProgramId(0), tensor, Bytes::ZERO, values).unwrap();
    };
    for (index, tensor) in (0..).zip(program.state()) {
        let noise = |i: u32| fitgpt_exec::random::fmix32(i ^ (index << 20)) as f32 / 2e10 - 0.1;
        let is_norm = tensor.name.contains("ln_") && tensor.name.ends_with("weight");
        let value = |i| if is_norm { 1.0 } else { noise(i) };
        if tensor.class == TensorClass::Parameter {
            let values = (0..tensor.count() as u32).flat_map(|i| value(i).to_ne_bytes());
            write(backend, &tensor.name.clone(), &values.collect::<Vec<_>>());
        }
    }
    let tokens = program.get(program.find("tokens").unwrap()).count() as u32;
    let one = |step: u64| {
        let ids = |ahead: u32| (0..tokens).flat_map(move |i| ((i + ahead) * 37 % 61).to_ne_bytes());
        write(backend, "tokens", &ids(0).collect::<Vec<_>>());
        write(backend, "targets", &ids(1).collect::<Vec<_>>());
        write(backend, "loss", &[0; 4]);
        let arguments = Arguments { step, lr: 1e-3, updates: step + 1, ..Arguments::default() };
        backend.run(ProgramId(0), &arguments).unwrap();
        backend.run(ProgramId(1), &arguments).unwrap();
        let mut loss = [0; 4];
        backend.read(ProgramId(0), program.find("loss").unwrap(), Bytes::ZERO, &mut loss).unwrap();
        f32::from_ne_bytes(loss)
    };
    (0..20).map(one).collect()
}

fn tiny() -> Config {
    let mut written = Written::new();
    let sizes = [("n_layer", "1"), ("n_head", "2"), ("n_embd", "64"), ("block_size", "16")];
    for (key, value) in sizes.into_iter().chain([
        ("batch_size", "2"),
        ("gradient_accumulation_steps", "1"),
        ("vocab_size", "61"),
    ]) {
        written.set(key, value).unwrap();
    }
    written.resolve().unwrap()
}

#[test]
fn twenty_steps_have_the_losses_of_the_cpu() {
    let config = tiny();
    let device = device(Watcher::Addresses, unchanged);
    let gpu_target = GpuTarget::new(device.properties());
    let cpu_target = CpuTarget::new(2, Isa::best());
    // The losses fall from 4.2 to below 4. A half type rounds every result to 2^-9 or 2^-11.
    for (precision, apart) in
        [(Precision::Float32, 1e-5), (Precision::Float16, 4e-3), (Precision::Bfloat16, 1.6e-2)]
    {
        let budget = Bytes::new(1 << 30);
        let job = Job::new(&config, config.vocab_size(), precision, &gpu_target, budget);
        let plan = job::plan(job.training_programs(Names::Kept), &gpu_target).unwrap();
        let mut gpu = Gpu::new(device.clone(), plan, Watch::Off, Bytes::ZERO).unwrap();
        let found = losses(&mut gpu);
        let job = Job::new(&config, config.vocab_size(), precision, &cpu_target, budget);
        let plan = job::plan(job.training_programs(Names::Kept), &cpu_target).unwrap();
        let expected = losses(&mut Cpu::new(plan, cpu_target, Watch::Off).unwrap());
        assert!(found[19] < found[0] - 0.2, "{precision:?} learns: {found:?}");
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let far = (found - expected).abs();
            assert!(far < apart, "{precision:?}, step {step}: {found} and {expected}");
        }
    }
}

#[test]
fn a_device_that_ends_fails_every_later_call() {
    let edit =
        |source: &Source| source.text.replacen("{\nuint32_t", "{\n__builtin_trap();\nuint32_t", 1);
    let device = device(Watcher::Races, edit);
    let target = watched(&device);
    let error = judge_stored(&[DType::F32], Factors::Rounded, &target, &mut make(&device));
    let first = error.unwrap_err().to_string();
    let again = judge_stored(&[DType::F32], Factors::Rounded, &target, &mut make(&device));
    assert_eq!(again.unwrap_err().to_string(), first);
}

/// Allocates, trains a step, reads its loss and frees, twice.
fn run_twice(adapter: &Adapter, precision: Precision) -> [Result<(), BackendError>; 2] {
    let config = tiny();
    let attempt = || {
        let device = GpuDevice::open(adapter)?;
        let target = GpuTarget::new(device.properties());
        let budget = Bytes::new(1 << 30);
        let job = Job::new(&config, config.vocab_size(), precision, &target, budget);
        let plan = job::plan(job.training_programs(Names::Kept), &target).unwrap();
        let mut gpu = Gpu::new(device, plan, Watch::Off, Bytes::ZERO)?;
        let program = gpu.plan().program(ProgramId(0)).clone();
        for name in ["tokens", "targets"] {
            let tensor = program.find(name).unwrap();
            let zeros = vec![0; program.get(tensor).bytes().index()];
            gpu.write(ProgramId(0), tensor, Bytes::ZERO, &zeros)?;
        }
        let loss = program.find("loss").unwrap();
        gpu.run(ProgramId(0), &Arguments::default())?;
        gpu.read_scalars(&[(ProgramId(0), loss)], &mut [0.0])
    };
    [attempt(), attempt()]
}

#[test]
fn every_call_of_a_device_that_fails_is_an_error_with_its_name() {
    for (call, error, calls_before) in [
        ("cuInit", "CUDA_ERROR_NO_DEVICE", 0),
        ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", 0),
        ("cuMemcpyHtoDAsync", "CUDA_ERROR_ILLEGAL_ADDRESS", 0),
        ("cuMemcpyHtoDAsync", "CUDA_ERROR_ILLEGAL_ADDRESS", 2),
        ("cuModuleLoadData", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 0),
        ("cuModuleLoadData", "CUDA_ERROR_INVALID_PTX", 5),
        ("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 0),
        ("cuLaunchKernel", "CUDA_ERROR_LAUNCH_FAILED", 20),
        ("cuStreamSynchronize", "CUDA_ERROR_ECC_UNCORRECTABLE", 0),
        ("cuMemcpyDtoHAsync", "CUDA_ERROR_LAUNCH_FAILED", 0),
        ("cuMemFree", "CUDA_ERROR_LAUNCH_FAILED", 0),
    ] {
        let failing = Some(FailingCall { call, error, calls_before });
        let device = SimulatedDevice { watcher: Watcher::Races, edit: unchanged, failing };
        let registered = Registered::new(device);
        let [first, second] = run_twice(&adapter(registered.selector()), Precision::Float32);
        // Memory is freed after the first attempt, so nothing was lost before.
        let is_freed = call == "cuMemFree";
        assert_eq!(first.is_ok(), is_freed, "{call}: {first:?}");
        let failed = if is_freed { second } else { first };
        match failed.unwrap_err() {
            BackendError::Memory(refused) => {
                assert_eq!(call, "cuMemAlloc");
                assert!(refused.asked > Bytes::ZERO);
            }
            failed => {
                let message = failed.to_string();
                assert!(message.contains(&format!("`{call}` failed: {error}")), "{message}");
            }
        }
    }
}

/// What the child process below prints before the result of each attempt.
const RESULT: &str = "result: ";

#[test]
#[ignore = "the tests below start it, with a stand-in for the driver's library"]
#[expect(clippy::print_stdout, reason = "it is a separate process")]
fn a_step_on_the_stand_in_for_the_driver() {
    let faults = super::faults();
    match super::adapters().first() {
        Some(card) => {
            let memory = card.memory.map(|memory| memory.total.get());
            println!("\n{RESULT}{} {memory:?} {faults:?}", card.name);
            let types = [Precision::Float32, Precision::Float16, Precision::Bfloat16];
            let is_failing = std::env::var_os("FITGPT_FAILING_CALL").is_some();
            for precision in types.into_iter().take(if is_failing { 1 } else { 3 }) {
                for result in run_twice(card, precision) {
                    let text = result.map_or_else(|error| error.to_string(), |()| "done".into());
                    println!("\n{RESULT}{}", text.replace('\n', " "));
                }
            }
        }
        None => println!("\n{RESULT}{faults:?}"),
    }
}

/// The results of a process on the stand-in, which has no NVRTC.
fn on_the_stand_in(variables: &[(&str, &str)]) -> Vec<String> {
    let child = "cuda::tests::a_step_on_the_stand_in_for_the_driver";
    let nowhere = std::env::temp_dir().join("fitgpt-no-such-folder");
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", child, "--nocapture", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", driver_folder().unwrap())
        .env("XDG_CACHE_HOME", &nowhere)
        .env_remove("VIRTUAL_ENV")
        .env_remove("CONDA_PREFIX")
        .envs(["FITGPT_CUDA", "CUDA_PATH", "CUDA_HOME"].map(|name| (name, &nowhere)))
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{text}\n{}", String::from_utf8_lossy(&ran.stderr));
    text.lines().filter_map(|line| line.strip_prefix(RESULT)).map(str::to_owned).collect()
}

#[test]
fn with_the_driver_alone_every_kernel_is_found_and_launched() {
    for architecture in ["80", "120"] {
        let results = on_the_stand_in(&[("FITGPT_ARCHITECTURE", architecture)]);
        let (card, steps) = results.split_first().unwrap();
        assert_eq!(card, "NVIDIA stand-in Some(12884901888) []");
        assert_eq!(steps, ["done"; 6], "sm_{architecture}");
    }
}

#[test]
fn a_card_that_is_too_old_is_refused_by_its_architecture() {
    let results = on_the_stand_in(&[("FITGPT_ARCHITECTURE", "75")]);
    let [fault] = results.as_slice() else { panic!("{results:?}") };
    for part in ["sm_75", "sm_80", "--device=vulkan"] {
        assert!(fault.contains(part), "{fault}");
    }
}

/// The calls of `library.rs`, each with an error: its number, its name, how many calls succeed first,
/// and in which of the child's results it is reported.
const CALLS: [(&str, u32, &str, u32, usize); 17] = [
    ("cuInit", 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 0, 0),
    ("cuDeviceGetCount", 100, "CUDA_ERROR_NO_DEVICE", 0, 0),
    ("cuDeviceGet", 101, "CUDA_ERROR_INVALID_DEVICE", 0, 0),
    ("cuDeviceGetAttribute", 1, "CUDA_ERROR_INVALID_VALUE", 0, 0),
    ("cuDeviceGetName", 1, "CUDA_ERROR_INVALID_VALUE", 0, 0),
    ("cuDeviceTotalMem", 1, "CUDA_ERROR_INVALID_VALUE", 0, 0),
    ("cuDevicePrimaryCtxRetain", 2, "CUDA_ERROR_OUT_OF_MEMORY", 0, 1),
    ("cuCtxSetCurrent", 201, "CUDA_ERROR_INVALID_CONTEXT", 0, 1),
    ("cuStreamCreate", 2, "CUDA_ERROR_OUT_OF_MEMORY", 0, 1),
    ("cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY", 0, 1),
    ("cuMemcpyHtoDAsync", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", 1, 1),
    ("cuModuleLoadData", 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 0, 1),
    ("cuModuleGetFunction", 500, "CUDA_ERROR_NOT_FOUND", 2, 1),
    ("cuFuncSetAttribute", 1, "CUDA_ERROR_INVALID_VALUE", 0, 1),
    ("cuLaunchKernel", 719, "CUDA_ERROR_LAUNCH_FAILED", 20, 1),
    ("cuMemcpyDtoHAsync", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", 0, 1),
    ("cuStreamSynchronize", 214, "CUDA_ERROR_ECC_UNCORRECTABLE", 0, 1),
];

#[test]
fn every_driver_call_that_fails_is_an_error_with_its_name() {
    for (call, number, name, before, at) in CALLS {
        let results =
            on_the_stand_in(&[("FITGPT_FAILING_CALL", &format!("{call}={number}={before}"))]);
        let expected = match call {
            "cuMemAlloc" => "refused the arena of".to_owned(),
            _ => format!("`{call}` failed: {name}"),
        };
        let found = results.get(at).unwrap_or_else(|| panic!("{call}: {results:?}"));
        assert!(found.contains(&expected), "{call}: {found}");
        // An error that stays is reported by the second attempt, too.
        let is_sticky = at == 1 && call != "cuMemAlloc";
        assert!(!is_sticky || results[2].contains(&expected), "{call}: {results:?}");
    }
}

#[test]
fn memory_that_the_driver_does_not_report_or_free_is_no_panic() {
    let results = on_the_stand_in(&[("FITGPT_FAILING_CALL", "cuMemGetInfo=1=0")]);
    assert_eq!(results, ["NVIDIA stand-in None []", "done", "done"]);
    let results = on_the_stand_in(&[("FITGPT_FAILING_CALL", "cuMemFree=719=0")]);
    assert_eq!(results[1], "done");
    assert!(results[2].contains("`cuMemFree` failed: CUDA_ERROR_LAUNCH_FAILED"), "{results:?}");
}

#[test]
fn the_tests_above_fail_every_call_that_is_checked() {
    let text = include_str!("library.rs");
    let parts = ["fault(\"cu", "call: \"cu"].into_iter().flat_map(|mark| text.split(mark).skip(1));
    let library: BTreeSet<String> =
        parts.map(|part| format!("cu{}", part.split('"').next().unwrap())).collect();
    let tried: BTreeSet<String> = CALLS.iter().map(|call| call.0.to_owned()).collect();
    let others = ["cuMemGetInfo", "cuMemFree"].map(str::to_owned);
    assert_eq!(library, tried.into_iter().chain(others).collect());
}

#[test]
fn no_two_threads_race() {
    let device = device(Watcher::Races, unchanged);
    let verdict =
        judge_stored(&TYPES, Factors::Rounded, &watched(&device), &mut make(&device)).unwrap();
    assert!(verdict.is_clean(), "{verdict}");
}
