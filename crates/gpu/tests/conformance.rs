//! The conformance suite on software Vulkan.

use fitgpt_conformance::{Factors, judge_model_stored, judge_stored};
use fitgpt_exec::{Backend, Watch};
use fitgpt_gpu::{AdapterKind, Gpu, GpuDevice, GpuTarget, adapters};
use fitgpt_program::{
    memory::VerifiedPlan,
    units::{Bytes, DType},
};

/// A software driver, so that the tests need no card.
fn software() -> GpuDevice {
    let adapter = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
    let adapter = adapter.expect("a software Vulkan driver (Debian: mesa-vulkan-drivers)");
    GpuDevice::open(&adapter).unwrap()
}

const GUARD: Bytes = Bytes::new(256);

fn watched(device: &GpuDevice) -> GpuTarget {
    GpuTarget { guard: GUARD, ..GpuTarget::new(device.properties()) }
}

fn make(
    device: &GpuDevice,
) -> impl FnMut(VerifiedPlan) -> Result<Box<dyn Backend>, fitgpt_exec::BackendError> {
    let device = device.clone();
    move |plan| Ok(Box::new(Gpu::new(device.clone(), plan, Watch::Poison, GUARD)?))
}

#[test]
fn every_op_in_float32_and_float16_is_the_reference() {
    let device = software();
    let types = [DType::F32, DType::F16];
    let verdict =
        judge_stored(&types, Factors::Exact, &watched(&device), &mut make(&device)).unwrap();
    assert!(verdict.is_clean(), "{verdict}");
}

#[test]
fn small_models_train_and_sample_as_the_suite_demands() {
    let device = software();
    let types = [DType::F32, DType::F16];
    let verdict =
        judge_model_stored(&types, Factors::Exact, &watched(&device), &mut make(&device)).unwrap();
    assert!(verdict.is_clean(), "{verdict}");
}
