//! CUDA through the driver's library (`libcuda.so`, `nvcuda.dll`), which is loaded at run time.
//!
//! We have never run it on a card, only on a stand-in for the library (`simulated/driver.cpp`). Each
//! call is checked; an error has the name of the call and CUDA's name of the error.

use std::ffi::{CString, c_void};

use cubecl::{CompilationError, CubeKernel};
use cudarc::driver::{
    DriverError, result,
    sys::{self, CUdevice_attribute, CUfunction_attribute, is_culib_present},
};
use fitgpt_program::units::Bytes;

use super::{
    compile,
    driver::{Address, Card, Driver, DriverFault, Launch, Source},
    ptx::Ptx,
    stored::{ARCHITECTURE, WIDEST_HEAD},
};
use crate::{
    adapter::{Adapter, AdapterKind, Api, GpuProperties, NVIDIA, ReportedMemory, Selector, whole},
    kernels::{math::SumOrder, product::ProductUnits},
};

/// Every card that the driver shows and the stored kernels run on.
pub(crate) fn adapters() -> Vec<Adapter> {
    listed().into_iter().filter_map(Result::ok).collect()
}

/// Why cards of this machine are not among [`adapters`]. Empty without the driver's library.
pub(crate) fn faults() -> Vec<String> {
    let faults = listed().into_iter().filter_map(Result::err);
    faults.map(|fault| format!("CUDA: {fault}")).collect()
}

fn listed() -> Vec<Result<Adapter, DriverFault>> {
    // SAFETY: only asks whether a library can be loaded.
    if !unsafe { is_culib_present() } {
        return Vec::new();
    }
    let count = result::init().map_err(|error| fault("cuInit", error)).and_then(|()| {
        result::device::get_count().map_err(|error| fault("cuDeviceGetCount", error))
    });
    match count {
        Ok(count) => (0..count as u16).map(adapter).collect(),
        Err(fault) => vec![Err(fault)],
    }
}

fn adapter(index: u16) -> Result<Adapter, DriverFault> {
    let device = device(index)?;
    let card = card(device)?;
    // A full card has no memory for a context. It is listed anyway: opening it reports the error.
    let memory = Library::open(index).and_then(|_open| {
        let (free, total) = result::mem_get_info().map_err(|error| fault("cuMemGetInfo", error))?;
        Ok(ReportedMemory { total: Bytes::new(total as u64), free: Bytes::new(free as u64) })
    });
    Ok(Adapter {
        name: card.name,
        api: Api::Cuda,
        kind: AdapterKind::Discrete,
        driver: format!("CUDA, sm_{}", card.architecture),
        memory: memory.ok(),
        properties: GpuProperties {
            max_chunk: Bytes::new(whole(card.memory_bytes)),
            // Kernels count elements in 32 bits.
            max_binding: Bytes::new(whole(card.memory_bytes.min(1 << 32))),
            shared_bytes: card.shared_bytes,
            plane: [32, 32],
            has_f16: true,
            has_bf16: true,
            widest_head: WIDEST_HEAD,
            // Known once the device is open.
            core: ProductUnits::Units,
            sums: SumOrder::Tree,
            #[cfg(test)]
            is_recorded: false,
        },
        selector: Selector::Cuda(index),
        vendor: NVIDIA,
    })
}

/// A card that the driver's library has opened.
#[derive(Debug)]
pub(crate) struct Library {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    card: Card,
    ptx: Ptx,
}

// SAFETY: the handles are used by one thread at a time, which makes the context current first.
unsafe impl Send for Library {}

/// A function of a module that stays loaded.
#[derive(Debug)]
pub(crate) struct Function {
    handle: sys::CUfunction,
    shared_bytes: u32,
}

// SAFETY: as for `Library`.
unsafe impl Send for Function {}

fn fault(call: &'static str, error: DriverError) -> DriverFault {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    DriverFault { call, error: name.unwrap_or_else(|_| format!("error {:?}", error.0)) }
}

/// Device `index`. Asking for it takes no memory on the device.
fn device(index: u16) -> Result<sys::CUdevice, DriverFault> {
    // SAFETY: only asks whether a library can be loaded.
    if !unsafe { is_culib_present() } {
        let error = "the driver's library is not on this machine".to_owned();
        return Err(DriverFault { call: "cuInit", error });
    }
    result::init().map_err(|error| fault("cuInit", error))?;
    result::device::get(i32::from(index)).map_err(|error| fault("cuDeviceGet", error))
}

fn attribute(device: sys::CUdevice, which: CUdevice_attribute) -> Result<u32, DriverFault> {
    // SAFETY: the device comes from the driver.
    let value = unsafe { result::device::get_attribute(device, which) };
    value.map(|value| value as u32).map_err(|error| fault("cuDeviceGetAttribute", error))
}

fn card(device: sys::CUdevice) -> Result<Card, DriverFault> {
    use CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as SHARED,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as MULTIPROCESSORS,
    };
    // SAFETY: the device comes from the driver.
    let memory = unsafe { result::device::total_mem(device) };
    let architecture = 10 * attribute(device, MAJOR)? + attribute(device, MINOR)?;
    if architecture < ARCHITECTURE {
        let error = format!(
            "the card has sm_{architecture}, and the kernels need sm_{ARCHITECTURE} (2020) or newer: \
             use `--device=vulkan`"
        );
        return Err(DriverFault { call: "cuDeviceGetAttribute", error });
    }
    Ok(Card {
        name: result::device::get_name(device).map_err(|error| fault("cuDeviceGetName", error))?,
        architecture,
        memory_bytes: memory.map_err(|error| fault("cuDeviceTotalMem", error))? as u64,
        shared_bytes: attribute(device, SHARED)? as usize,
        multiprocessors: attribute(device, MULTIPROCESSORS)?,
    })
}

impl Library {
    fn make_current(&self) -> Result<(), DriverFault> {
        // SAFETY: the context is retained for as long as this lives.
        unsafe { result::ctx::set_current(self.context) }
            .map_err(|error| fault("cuCtxSetCurrent", error))
    }
}

impl Driver for Library {
    type Function = Function;

    fn open(index: u16) -> Result<Self, DriverFault> {
        let device = device(index)?;
        let card = card(device)?;
        // SAFETY: the device comes from the driver.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(|error| fault("cuDevicePrimaryCtxRetain", error))?;
        // SAFETY: the context was just retained.
        unsafe { result::ctx::set_current(context) }
            .map_err(|error| fault("cuCtxSetCurrent", error))?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|error| fault("cuStreamCreate", error))?;
        let ptx = Ptx::new(card.architecture);
        Ok(Self { device, context, stream, card, ptx })
    }

    fn card(&self) -> Card {
        self.card.clone()
    }

    fn allocate(&mut self, bytes: u64) -> Result<Address, DriverFault> {
        self.make_current()?;
        // SAFETY: the context is current; the memory is written before it is read.
        unsafe { result::malloc_sync(bytes as usize) }.map_err(|error| fault("cuMemAlloc", error))
    }

    fn free(&mut self, address: Address) -> Result<(), DriverFault> {
        self.make_current()?;
        self.wait()?;
        // SAFETY: allocated above, given back once, and nothing that was launched is left to run.
        unsafe { result::free_sync(address) }.map_err(|error| fault("cuMemFree", error))
    }

    fn upload(&mut self, to: Address, bytes: &[u8]) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: the range was resolved within an allocation. From memory that is not pinned the
        // call returns once the bytes are staged, so they need not outlive it.
        unsafe { result::memcpy_htod_async(to, bytes, self.stream) }
            .map_err(|error| fault("cuMemcpyHtoDAsync", error))
    }

    fn download(&mut self, from: Address, into: &mut [u8]) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: the range was resolved within an allocation, and the copy is waited for.
        unsafe { result::memcpy_dtoh_async(into, from, self.stream) }
            .map_err(|error| fault("cuMemcpyDtoHAsync", error))?;
        self.wait()
    }

    fn source(kernel: &dyn CubeKernel) -> Result<Source, CompilationError> {
        compile::source(kernel)
    }

    fn load(&mut self, source: &Source) -> Result<Function, DriverFault> {
        self.make_current()?;
        let ptx = self.ptx.of(source)?;
        let name = CString::new(source.name.as_str()).expect("a name in C++");
        // SAFETY: the PTX ends with a zero, and the module is never unloaded.
        let function = unsafe {
            let module = result::module::load_data(ptx.as_ptr().cast())
                .map_err(|error| fault("cuModuleLoadData", error))?;
            let function = result::module::get_function(module, name)
                .map_err(|error| fault("cuModuleGetFunction", error))?;
            result::function::set_function_attribute(
                function,
                CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                source.shared_bytes as i32,
            )
            .map_err(|error| fault("cuFuncSetAttribute", error))?;
            function
        };
        Ok(Function { handle: function, shared_bytes: source.shared_bytes as u32 })
    }

    unsafe fn launch(&mut self, function: &Function, launch: &Launch) -> Result<(), DriverFault> {
        self.make_current()?;
        let [gx, gy, gz] = launch.grid;
        let [bx, by, bz] = launch.block;
        let operands = launch.operands.iter().map(|(address, _)| std::ptr::from_ref(address));
        let mut parameters: Vec<*mut c_void> =
            operands.map(|operand| operand.cast_mut().cast()).collect();
        // The driver copies as many bytes as the kernel's structure has, whose end may be padded.
        let mut constants = launch.constants.to_vec();
        constants.push(0);
        parameters.push(constants.as_mut_ptr().cast());
        // SAFETY: the caller vouches for the kernel; the driver copies the parameters.
        unsafe {
            result::launch_kernel(
                function.handle,
                (gx, gy, gz),
                (bx, by, bz),
                function.shared_bytes,
                self.stream,
                &mut parameters,
            )
        }
        .map_err(|error| fault("cuLaunchKernel", error))
    }

    fn wait(&mut self) -> Result<(), DriverFault> {
        // SAFETY: the stream lives as long as this.
        unsafe { result::stream::synchronize(self.stream) }
            .map_err(|error| fault("cuStreamSynchronize", error))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: both were made in `open` and are not used again. Errors have nowhere to go.
        unsafe {
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
