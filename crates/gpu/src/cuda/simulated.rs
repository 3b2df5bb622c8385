//! A simulated card: executes the CUDA C++ of our kernels in a separate process.
//!
//! The text that NVRTC would get is compiled by clang for the CPU, with stand-ins for CUDA's
//! built-ins (`simulated/prelude.h` and the headers next to it), and run by `simulated/device.cpp`
//! in one of two modes: under AddressSanitizer, or with a detector of data races between barriers.
//! A fault ends the process, and every later call fails, as after a sticky error of a card.
//!
//! What this cannot show: divergence within a warp, the rounding inside a tensor core, contraction
//! of products and sums by NVIDIA's compilers, and speed.
//!
//! It compiles the CUDA C++ that NVRTC would get with clang, against stand-ins for CUDA's
//! built-ins, and a process runs it: threads of a block are fibers, a warp meets for shuffles and
//! tensor-core tiles. The conformance suite judges the result in three types. AddressSanitizer
//! allows a kernel its operands and nothing else, `-fsanitize=bounds` separates the arrays of
//! shared memory, and a detector finds two accesses without a barrier between them. It does not
//! model divergence within a warp, the rounding inside a tensor core, or contraction by NVIDIA's
//! compilers.
//!
//! Promise: every CUDA kernel computes what the reference defines in float32, float16 and bfloat16,
//! tensor cores included, touches only its operands and has no race; broken kernels are caught.
//! Test: `crates/gpu/src/cuda/tests.rs`.

use std::{
    collections::{HashMap, VecDeque, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    io::{self, BufReader, BufWriter, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    sync::{
        LazyLock, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use cubecl::{CompilationError, CubeKernel, prelude::KernelId};
use cubecl_common::device_handle::DeviceHandle;

use super::{
    compile,
    driver::{Address, Card, Driver, DriverFault, Launch, Source},
    server::CudaServer,
};
use crate::{GpuDevice, adapter::Selector};

/// What watches the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watcher {
    /// Every access lies in the operands, in shared memory, or on the stack.
    Addresses,
    /// No two threads touch one byte without a barrier between them, unless both read.
    Races,
}

/// Changes the text of kernels before they are compiled: how a test breaks one.
pub(crate) type Edit = fn(&Source) -> String;

/// A driver call that fails with an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailingCall {
    /// As CUDA names it.
    pub(crate) call: &'static str,
    pub(crate) error: &'static str,
    /// How many such calls succeed first.
    pub(crate) calls_before: u32,
}

/// A device to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimulatedDevice {
    pub(crate) watcher: Watcher,
    pub(crate) edit: Edit,
    pub(crate) failing: Option<FailingCall>,
}

/// The devices to be opened, by index.
static DEVICES: LazyLock<Mutex<Vec<SimulatedDevice>>> = LazyLock::new(Mutex::default);

/// A device that can be opened, by its index, until this is dropped. That ends its thread in CubeCL,
/// which would look for work thousands of times a second; nothing may hold the device then.
#[derive(Debug)]
pub(crate) struct Registered(u16);

impl Registered {
    pub(crate) fn new(device: SimulatedDevice) -> Self {
        let mut devices = DEVICES.lock().unwrap();
        devices.push(device);
        Self(u16::try_from(devices.len() - 1).unwrap())
    }

    pub(crate) fn selector(&self) -> Selector {
        Selector::Simulated(self.0)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        GpuDevice::forget(&self.selector());
        DeviceHandle::<CudaServer<Simulated>>::shutdown(super::id(self.0));
    }
}

const HEADERS: [(&str, &str); 4] = [
    ("prelude.h", include_str!("simulated/prelude.h")),
    ("cuda_fp16.h", include_str!("simulated/cuda_fp16.h")),
    ("cuda_bf16.h", include_str!("simulated/cuda_bf16.h")),
    ("mma.h", include_str!("simulated/mma.h")),
];
const DEVICE: &str = include_str!("simulated/device.cpp");
const DRIVER: &str = include_str!("simulated/driver.cpp");

/// The device's process.
#[derive(Debug)]
pub(crate) struct Simulated {
    child: Child,
    requests: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
    watcher: Watcher,
    edit: Edit,
    failing: Option<FailingCall>,
    folder: PathBuf,
    /// What the sanitizer prints.
    report: PathBuf,
    kernels: u32,
    /// Requests whose answers were not read yet.
    unanswered: VecDeque<&'static str>,
}

/// How many requests may wait for an answer.
const UNANSWERED: usize = 1024;

impl Watcher {
    /// Flags for the device and for its kernels, which compile four times as fast without
    /// optimization; they run for a shorter time than they compile.
    fn flags(self) -> [&'static [&'static str]; 2] {
        match self {
            Self::Addresses => [
                &["-fsanitize=address,bounds", "-fno-sanitize-recover=all"],
                &["-O0", "-fsanitize=address,bounds", "-fno-sanitize-recover=all"],
            ],
            Self::Races => [&["-DSIMULATED_RACES"], &["-O0", "-fsanitize=thread"]],
        }
    }

    /// In which order the device lets threads run: see `order` in `device.cpp`.
    fn order(self) -> u32 {
        match self {
            Self::Addresses => 0,
            Self::Races => 2,
        }
    }
}

fn fault(call: &'static str, error: &(impl ToString + ?Sized)) -> DriverFault {
    DriverFault { call, error: error.to_string() }
}

/// Where compiled kernels are kept: the same text is compiled once.
fn folder() -> PathBuf {
    let target = std::env::current_exe().unwrap();
    // `target/debug/deps/name`
    target.ancestors().nth(3).unwrap().join("cuda-on-cpu")
}

fn compiler() -> Result<&'static str, DriverFault> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    let has = |name: &&str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let names = ["clang++", "clang++-19", "clang++-17", "clang++-16", "clang++-15", "clang++-14"];
    let missing = "no `clang++` (Debian: apt-get install clang-14 libclang-rt-14-dev)";
    FOUND.get_or_init(|| names.into_iter().find(has)).ok_or_else(|| fault("clang++", missing))
}

/// Compiles `text` into a file that is named after it, unless it is there.
fn compile(folder: &Path, name: &str, text: &str, flags: &[&str]) -> Result<PathBuf, DriverFault> {
    let mut hasher = DefaultHasher::new();
    (text, flags, HEADERS).hash(&mut hasher);
    let made = folder.join(format!("{name}-{:016x}", hasher.finish()));
    if made.exists() {
        return Ok(made);
    }
    let include = folder.join("include");
    fs::create_dir_all(&include).map_err(|error| fault("mkdir", &error))?;
    for (header, text) in HEADERS {
        let path = include.join(header);
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            fs::write(path, text).map_err(|error| fault("write", &error))?;
        }
    }
    let own = own_name();
    let (input, output) = (folder.join(format!("{own}.cpp")), folder.join(format!("{own}.o")));
    fs::write(&input, text).map_err(|error| fault("write", &error))?;
    let run = Command::new(compiler()?)
        .args(["-std=c++17", "-w", "-ffp-contract=off", "-fno-strict-aliasing"])
        .args(flags)
        .arg("-I")
        .arg(&include)
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .output();
    ended_well("clang++", run)?;
    fs::rename(&output, &made).map_err(|error| fault("rename", &error))?;
    let _ = fs::remove_file(&input);
    Ok(made)
}

/// The library of a compiled kernel. What the kernel calls is in the device's program. Compiling and
/// linking by one call of clang takes half as long again: it starts a process for each.
fn link(object: &Path) -> Result<PathBuf, DriverFault> {
    let made = object.with_extension("so");
    if !made.exists() {
        let own = object.with_file_name(format!("{}.so", own_name()));
        let run = Command::new("ld").arg("-shared").arg(object).arg("-o").arg(&own).output();
        ended_well("ld", run)?;
        fs::rename(&own, &made).map_err(|error| fault("rename", &error))?;
    }
    Ok(made)
}

/// A name that no one else uses: several tests may compile one kernel.
fn own_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn ended_well(program: &'static str, run: io::Result<Output>) -> Result<(), DriverFault> {
    let run = run.map_err(|error| fault(program, &error))?;
    if run.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&run.stderr).into_owned();
    Err(fault(program, &error.lines().take(12).collect::<Vec<_>>().join("\n")))
}

/// A folder with the stand-in for the library of NVIDIA's driver (`driver.cpp`), under its name.
pub(crate) fn driver_folder() -> Result<PathBuf, DriverFault> {
    let folder = folder();
    fs::create_dir_all(&folder).map_err(|error| fault("mkdir", &error))?;
    let library = compile(&folder, "driver", DRIVER, &["-O1", "-fPIC", "-shared"])?;
    let own = library.with_extension("folder");
    fs::create_dir_all(&own).map_err(|error| fault("mkdir", &error))?;
    match fs::hard_link(&library, own.join("libcuda.so")) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(fault("link", &error)),
        _ => Ok(own),
    }
}

/// The name of the array that holds a kernel's shared memory.
fn shared_name(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("extern __shared__ ")?;
    let (declaration, _) = after.split_once("[]")?;
    declaration.rsplit(' ').next()
}

/// A kernel's text as a library: with a function that calls the kernel, and its shared memory.
fn library(text: &str, name: &str, shared_bytes: usize) -> String {
    // With a larger alignment AddressSanitizer would omit the red zone after the array.
    let shared = shared_name(text).map(|shared| {
        format!(
            "__attribute__((aligned(32))) char {shared}[{shared_bytes}];
            extern \"C\" {{ char *simulated_shared = {shared}; }}"
        )
    });
    format!(
        "#include \"prelude.h\"
        {text}
        extern \"C\" void simulated_entry(void **arguments) {{
            simulated::enter(&{name}, arguments);
        }}
        {}\n",
        shared.unwrap_or_default()
    )
}

impl Simulated {
    fn put(&mut self, values: &[&[u8]]) -> Result<(), DriverFault> {
        let mut put = || values.iter().try_for_each(|value| self.requests.write_all(value));
        put().map_err(|_| self.ended())
    }

    fn get(&mut self, into: &mut [u8]) -> Result<(), DriverFault> {
        self.answers.read_exact(into).map_err(|_| self.ended())
    }

    /// The fault that ended the process, from what it printed.
    fn ended(&mut self) -> DriverFault {
        let _ = self.child.wait();
        let report = fs::read_to_string(&self.report).unwrap_or_default();
        let what = report.lines().find(|line| line.contains("ERROR") || line.contains("error:"));
        fault("cuLaunchKernel", what.unwrap_or("the device is gone"))
    }

    /// Fails if a test wants this call to.
    fn attempt(&mut self, call: &'static str) -> Result<(), DriverFault> {
        match self.failing.as_mut().filter(|failing| failing.call == call) {
            Some(FailingCall { error, calls_before: 0, .. }) => Err(fault(call, error)),
            Some(failing) => {
                failing.calls_before -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sends a request, and waits for the answers to it and to those before it.
    fn ask(&mut self, call: &'static str, request: &[&[u8]]) -> Result<(), DriverFault> {
        self.post(call, request)?;
        self.answered()
    }

    /// Sends a request that is answered later, as a card works while its program goes on.
    fn post(&mut self, call: &'static str, request: &[&[u8]]) -> Result<(), DriverFault> {
        self.attempt(call)?;
        self.put(request)?;
        self.unanswered.push_back(call);
        // More answers than a pipe holds would stop the device.
        if self.unanswered.len() < UNANSWERED { Ok(()) } else { self.answered() }
    }

    /// Waits for the answers to all requests; the first that failed is the error.
    fn answered(&mut self) -> Result<(), DriverFault> {
        self.requests.flush().map_err(|_| self.ended())?;
        while let Some(call) = self.unanswered.pop_front() {
            let mut head = [0; 8];
            self.get(&mut head)?;
            let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap());
            let mut message = vec![0; word(4) as usize];
            self.get(&mut message)?;
            if word(0) != 0 {
                return Err(fault(call, &String::from_utf8_lossy(&message)));
            }
        }
        Ok(())
    }
}

impl Driver for Simulated {
    type Function = u32;

    fn open(index: u16) -> Result<Self, DriverFault> {
        let SimulatedDevice { watcher, edit, failing } =
            DEVICES.lock().unwrap()[usize::from(index)];
        let folder = folder();
        fs::create_dir_all(&folder).map_err(|error| fault("mkdir", &error))?;
        let mut flags = vec!["-O2", "-rdynamic", "-ldl", "-lm"];
        flags.extend(watcher.flags()[0]);
        let program = compile(&folder, "device", DEVICE, &flags)?;
        let report = folder.join(format!("report-{}-{index}", std::process::id()));
        let errors = fs::File::create(&report).map_err(|error| fault("create", &error))?;
        let mut child = Command::new(program)
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(|error| fault("cuInit", &error))?;
        let requests = BufWriter::new(child.stdin.take().unwrap());
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut device = Self {
            child,
            requests,
            answers,
            watcher,
            edit,
            failing,
            folder,
            report,
            kernels: 0,
            unanswered: VecDeque::new(),
        };
        device.attempt("cuInit")?;
        Ok(device)
    }

    /// An RTX 4070, as far as kernels can tell.
    fn card(&self) -> Card {
        Card {
            name: "an RTX 4070 on the CPU".into(),
            architecture: 89,
            memory_bytes: 12 << 30,
            shared_bytes: 101_376,
            multiprocessors: 46,
        }
    }

    fn allocate(&mut self, bytes: u64) -> Result<Address, DriverFault> {
        self.ask("cuMemAlloc", &[&1u32.to_ne_bytes(), &bytes.to_ne_bytes()])?;
        let mut address = [0; 8];
        self.get(&mut address)?;
        Ok(u64::from_ne_bytes(address))
    }

    fn free(&mut self, address: Address) -> Result<(), DriverFault> {
        self.ask("cuMemFree", &[&2u32.to_ne_bytes(), &address.to_ne_bytes()])
    }

    fn upload(&mut self, to: Address, bytes: &[u8]) -> Result<(), DriverFault> {
        let length = bytes.len() as u64;
        let request = [&3u32.to_ne_bytes()[..], &to.to_ne_bytes(), &length.to_ne_bytes(), bytes];
        self.post("cuMemcpyHtoDAsync", &request)
    }

    fn download(&mut self, from: Address, into: &mut [u8]) -> Result<(), DriverFault> {
        let length = into.len() as u64;
        let request = [&4u32.to_ne_bytes()[..], &from.to_ne_bytes(), &length.to_ne_bytes()];
        self.ask("cuMemcpyDtoHAsync", &request)?;
        self.get(into)
    }

    /// Translates each kernel once for all devices, which takes as long as running it.
    fn source(kernel: &dyn CubeKernel) -> Result<Source, CompilationError> {
        static SOURCES: LazyLock<Mutex<HashMap<KernelId, Source>>> = LazyLock::new(Mutex::default);
        let id = kernel.id();
        if let Some(source) = SOURCES.lock().unwrap().get(&id) {
            return Ok(source.clone());
        }
        let source = compile::source(kernel)?;
        SOURCES.lock().unwrap().insert(id, source.clone());
        Ok(source)
    }

    fn load(&mut self, source: &Source) -> Result<u32, DriverFault> {
        let text = (self.edit)(source);
        let text = library(&text, &source.name, source.shared_bytes);
        let mut flags = vec!["-fPIC", "-c"];
        flags.extend(self.watcher.flags()[1]);
        let library = link(&compile(&self.folder, &source.name, &text, &flags)?)?;
        let path = library.to_str().unwrap();
        let long = |text: &str| u32::try_from(text.len()).unwrap().to_ne_bytes();
        self.ask(
            "cuModuleLoadData",
            &[
                &5u32.to_ne_bytes(),
                &long(path),
                path.as_bytes(),
                &long(&source.name),
                source.name.as_bytes(),
                &(source.shared_bytes as u64).to_ne_bytes(),
            ],
        )?;
        self.kernels += 1;
        Ok(self.kernels - 1)
    }

    unsafe fn launch(&mut self, &function: &u32, launch: &Launch) -> Result<(), DriverFault> {
        let mut request = Vec::new();
        let mut words = |words: &[u32]| {
            request.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        };
        words(&[6, function]);
        words(&launch.grid);
        words(&launch.block);
        words(&[u32::try_from(launch.operands.len()).unwrap()]);
        for (address, bytes) in launch.operands {
            request.extend(address.to_ne_bytes());
            request.extend(bytes.to_ne_bytes());
        }
        // One word more than the kernel may read: its structure is padded.
        let constants = launch.constants.iter().chain(&[0]);
        let constants: Vec<u8> = constants.flat_map(|word| word.to_ne_bytes()).collect();
        request.extend(u32::try_from(constants.len()).unwrap().to_ne_bytes());
        request.extend(constants);
        request.extend(self.watcher.order().to_ne_bytes());
        self.post("cuLaunchKernel", &[&request])
    }

    fn wait(&mut self) -> Result<(), DriverFault> {
        self.attempt("cuStreamSynchronize")?;
        self.answered()
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.report);
    }
}
