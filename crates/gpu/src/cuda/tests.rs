//! Every kernel's CUDA C++, executed on the CPU and judged as every backend is.

use fitgpt_exec::{
    Backend, BackendError, Watch,
    conformance::{Factors, judge_model_stored, judge_stored},
};
use fitgpt_plan::{
    memory::VerifiedPlan,
    units::{Bytes, DType},
};

use super::{
    driver::Source,
    simulated::{Edit, Watcher, register},
};
use crate::{
    Adapter, AdapterKind, Api, Gpu, GpuDevice, GpuProperties, GpuTarget,
    device::{NVIDIA, Selector},
    kernels::{math::SumOrder, product::ProductUnits},
};

const GUARD: Bytes = Bytes::new(256);
const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

fn unchanged(source: &Source) -> String {
    source.text.clone()
}

/// A simulated card whose kernels are changed by `edit`.
fn device(watcher: Watcher, edit: Edit) -> GpuDevice {
    let adapter = Adapter {
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
            core: ProductUnits::Units,
            sums: SumOrder::Tree,
            is_recorded: false,
        },
        selector: Selector::Simulated(register(watcher, edit)),
        vendor: NVIDIA,
    };
    GpuDevice::open(&adapter).unwrap()
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

#[test]
fn small_models_train_and_sample_as_the_suite_demands() {
    let device = device(Watcher::Addresses, unchanged);
    let verdict =
        judge_model_stored(&TYPES, Factors::Rounded, &watched(&device), &mut make(&device))
            .unwrap();
    assert!(verdict.is_clean(), "{verdict}");
}

#[test]
fn no_two_threads_race() {
    let device = device(Watcher::Races, unchanged);
    let verdict =
        judge_stored(&TYPES, Factors::Rounded, &watched(&device), &mut make(&device)).unwrap();
    assert!(verdict.is_clean(), "{verdict}");
}
