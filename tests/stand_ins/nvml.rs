//! A stand-in for the library of NVIDIA's driver: one card of 12 GiB, for machines without one.
//!
//! Compiled by the tests with `rustc`; `fitgpt` loads it as it would the real one. The process of
//! `STAND_IN_PID`, if it is set, holds 2 GiB; another, 4711, holds 1 GiB and also draws.

use std::ffi::{c_char, c_int, c_uint, c_void};

const SUCCESS: c_int = 0;
const INSUFFICIENT_SIZE: c_int = 7;
const GIB: u64 = 1 << 30;

#[repr(C)]
pub struct NvmlMemory {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
pub struct NvmlProcess {
    pid: c_uint,
    used: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// Writes `text` with its end into `length` characters.
unsafe fn copy(text: &str, to: *mut c_char, length: c_uint) -> c_int {
    if text.len() >= length as usize {
        return INSUFFICIENT_SIZE;
    }
    for (index, byte) in text.bytes().chain([0]).enumerate() {
        unsafe { to.add(index).write(byte as c_char) };
    }
    SUCCESS
}

unsafe fn list(processes: &[(u32, u64)], count: *mut c_uint, to: *mut NvmlProcess) -> c_int {
    let capacity = unsafe { count.replace(processes.len() as c_uint) };
    if (capacity as usize) < processes.len() {
        return INSUFFICIENT_SIZE;
    }
    for (index, (pid, used)) in processes.iter().enumerate() {
        let none = c_uint::MAX;
        let process =
            NvmlProcess { pid: *pid, used: *used, gpu_instance: none, compute_instance: none };
        unsafe { to.add(index).write(process) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, length: c_uint) -> c_int {
    unsafe { copy("550.54.14", to, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(to: *mut c_int) -> c_int {
    unsafe { to.write(12040) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetProcessName(
    pid: c_uint,
    to: *mut c_char,
    length: c_uint,
) -> c_int {
    let name = if pid == 4711 { "/usr/bin/python3" } else { "" };
    unsafe { copy(name, to, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> c_int {
    unsafe { to.write(1) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(_: c_uint, to: *mut *mut c_void) -> c_int {
    unsafe { to.write(to.cast()) }; // not null, and never dereferenced
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    _: *mut c_void,
    to: *mut c_char,
    length: c_uint,
) -> c_int {
    unsafe { copy("NVIDIA GeForce RTX 4070", to, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(_: *mut c_void, to: *mut NvmlMemory) -> c_int {
    let version = unsafe { (*to).version };
    let (total, reserved, used) = (12 * GIB, GIB / 4, 3 * GIB);
    unsafe { to.write(NvmlMemory { version, total, reserved, free: total - reserved - used, used }) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    _: *mut c_void,
    major: *mut c_int,
    minor: *mut c_int,
) -> c_int {
    unsafe {
        major.write(8);
        minor.write(9);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    _: *mut c_void,
    count: *mut c_uint,
    to: *mut NvmlProcess,
) -> c_int {
    let mut processes = vec![(4711, GIB)];
    if let Some(pid) = std::env::var("STAND_IN_PID").ok().and_then(|pid| pid.parse().ok()) {
        processes.push((pid, 2 * GIB));
    }
    unsafe { list(&processes, count, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    _: *mut c_void,
    count: *mut c_uint,
    to: *mut NvmlProcess,
) -> c_int {
    unsafe { list(&[(4711, GIB)], count, to) }
}
