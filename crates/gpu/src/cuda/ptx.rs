//! The PTX of a kernel: stored in the program, else kept on disk, else compiled by NVRTC.
//!
//! Every kernel that a config can ask for is stored, so a run does not need NVRTC. It is for kernels that
//! were changed and not stored yet. NVRTC is not part of the driver: it is looked for in
//! `FITGPT_CUDA`, in NVIDIA's toolkit (`CUDA_PATH`, `/usr/local/cuda`), and in the wheels next to an
//! installed PyTorch.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    fs,
    path::{Path, PathBuf},
};

use libloading::Library;

use super::{
    canonical::KernelKey,
    driver::{DriverFault, Source},
    stored::StoredKernels,
};

type NvrtcProgram = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut NvrtcProgram,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(NvrtcProgram, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(NvrtcProgram, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(NvrtcProgram, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut NvrtcProgram) -> c_int;

/// Makes PTX for one architecture.
#[derive(Debug)]
pub(crate) struct Ptx {
    architecture: u32,
    stored: Option<StoredKernels>,
    nvrtc: Option<Nvrtc>,
}

#[derive(Debug)]
struct Nvrtc {
    library: Library,
    include: PathBuf,
}

fn fault(error: String) -> DriverFault {
    DriverFault { call: "nvrtcCompileProgram", error }
}

impl Ptx {
    pub(crate) fn new(architecture: u32) -> Self {
        Self { architecture, stored: None, nvrtc: None }
    }

    /// The PTX of a kernel, ending with a zero byte.
    pub(crate) fn of(&mut self, source: &Source) -> Result<Vec<u8>, DriverFault> {
        let key = KernelKey::of(&source.text);
        if self.stored.is_none() {
            let unpacked = StoredKernels::unpack();
            self.stored =
                Some(unpacked.map_err(|error| DriverFault { call: "cuModuleLoadData", error })?);
        }
        let stored = self.stored.as_ref().expect("unpacked above");
        if let Some(ptx) = stored.get(key) {
            return Ok(ptx.to_vec());
        }
        let name = format!("{key}-sm_{}.ptx", self.architecture);
        let kept = cache().map(|folder| folder.join(name));
        // A file that was cut short has no zero at its end.
        let read = kept.as_ref().and_then(|path| fs::read(path).ok());
        if let Some(ptx) = read.filter(|ptx| ptx.last() == Some(&0)) {
            return Ok(ptx);
        }
        if self.nvrtc.is_none() {
            self.nvrtc = Some(Nvrtc::find(&source.name)?);
        }
        let nvrtc = self.nvrtc.as_ref().expect("found above");
        let ptx = nvrtc.compile(source, self.architecture)?;
        if let Some(path) = kept {
            keep(&path, &ptx);
        }
        Ok(ptx)
    }
}

fn cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let home = variable("HOME").map(|home| home.join(".cache"));
    let base = variable("XDG_CACHE_HOME").or(home).or_else(|| variable("LOCALAPPDATA"))?;
    Some(base.join("fitgpt").join("ptx"))
}

/// Two runs may write one file at once: each writes its own and renames it. If it cannot be
/// written, the next run compiles again.
fn keep(path: &Path, ptx: &[u8]) {
    let own = path.with_extension(format!("{}.tmp", std::process::id()));
    let folder = path.parent().expect("a file in the cache");
    let kept = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&own, ptx))
        .and_then(|()| fs::rename(&own, path));
    if kept.is_err() {
        let _ = fs::remove_file(&own);
    }
}

/// Folders that may hold `lib` and `include` of NVIDIA's toolkit.
fn roots() -> Vec<PathBuf> {
    let variable = |name: &&str| std::env::var_os(name).map(PathBuf::from);
    let mut roots: Vec<_> =
        ["FITGPT_CUDA", "CUDA_PATH", "CUDA_HOME"].iter().filter_map(variable).collect();
    roots.push("/usr/local/cuda".into());
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(variable) {
        for python in entries(&environment.join("lib"), "python3") {
            let packages = python.join("site-packages").join("nvidia");
            roots.extend(entries(&packages, "cu1"));
        }
    }
    roots
}

/// The entries of a folder whose names have this prefix, newest name first.
fn entries(folder: &Path, start: &str) -> Vec<PathBuf> {
    let begins = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
    };
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = listed.filter(begins).collect();
    found.sort_by(|a, b| b.cmp(a));
    found
}

impl Nvrtc {
    fn find(kernel: &str) -> Result<Self, DriverFault> {
        let names = if cfg!(windows) { ["nvrtc64", "bin"] } else { ["libnvrtc.so", "lib"] };
        for root in roots() {
            let include = root.join("include");
            if !include.join("cuda_fp16.h").exists() {
                continue;
            }
            for folder in [root.join(names[1]), root.join("lib64")] {
                for path in entries(&folder, names[0]) {
                    // SAFETY: NVIDIA's compiler does nothing when it is loaded.
                    if let Ok(library) = unsafe { Library::new(&path) } {
                        return Ok(Self { library, include });
                    }
                }
            }
        }
        Err(fault(format!(
            "`{kernel}` is not among the stored kernels, and NVRTC was not found: set `FITGPT_CUDA` to a \
             folder with NVIDIA's `lib` and `include` (the CUDA toolkit, or \
             `site-packages/nvidia/cu13` after `pip install nvidia-cuda-nvrtc nvidia-cuda-runtime \
             nvidia-cuda-crt`), or use `--device=vulkan`"
        )))
    }

    fn compile(&self, source: &Source, architecture: u32) -> Result<Vec<u8>, DriverFault> {
        let missing = |error: libloading::Error| fault(error.to_string());
        let text = CString::new(source.text.as_str()).expect("a text in C++");
        let options = [
            format!("--gpu-architecture=sm_{architecture}"),
            format!("--include-path={}", self.include.display()),
        ];
        let options = options.map(|option| CString::new(option).expect("a path without zeros"));
        let options = options.each_ref().map(|option| option.as_ptr());
        let null = std::ptr::null;
        // SAFETY: the types are those of `nvrtc.h`; the program is destroyed once, at the end, and
        // texts are read into as many bytes as NVRTC says that they have.
        unsafe {
            let create = self.library.get::<Create>(b"nvrtcCreateProgram\0").map_err(missing)?;
            let compile = self.library.get::<Compile>(b"nvrtcCompileProgram\0").map_err(missing)?;
            let destroy = self.library.get::<Destroy>(b"nvrtcDestroyProgram\0").map_err(missing)?;
            let mut program = std::ptr::null_mut();
            let made =
                create(&raw mut program, text.as_ptr(), c"kernel.cu".as_ptr(), 0, null(), null());
            if made != 0 {
                return Err(fault(format!("nvrtcCreateProgram: error {made}")));
            }
            let status = compile(program, options.len() as c_int, options.as_ptr());
            let what: [&[u8]; 2] = if status == 0 {
                [b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0"]
            } else {
                [b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0"]
            };
            let size = self.library.get::<Size>(what[0]).map_err(missing)?;
            let get = self.library.get::<Text>(what[1]).map_err(missing)?;
            let mut bytes = 0;
            size(program, &raw mut bytes);
            let mut text = vec![0_u8; bytes.max(1)];
            get(program, text.as_mut_ptr().cast());
            destroy(&raw mut program);
            if status == 0 {
                Ok(text)
            } else {
                let log = String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned();
                Err(fault(format!("`{}`: {log}", source.name)))
            }
        }
    }
}
