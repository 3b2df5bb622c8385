//! Compiles kernels from Rust to CUDA C++, and describes a card to CubeCL.

use cubecl::{
    CompilationError, Compiler, CubeKernel, ExecutionMode,
    cmma::MatrixLayout,
    define_kernel,
    features::{Features, Plane},
    ir::{
        ContiguousElements, DeviceIdentity, DeviceProperties, HardwareProperties,
        MemoryDeviceProperties, MmaProperties, TargetProperties, VectorSize,
    },
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

use super::{
    canonical::{canonical, function_name},
    driver::{Card, Source},
};

/// The alignment of allocations that CubeCL is told. The slots of an arena need less.
pub(super) const ALIGNMENT: usize = 512;

/// The CUDA C++ of a kernel: the same text in every process and build.
pub(crate) fn source(kernel: &dyn CubeKernel) -> Result<Source, CompilationError> {
    let mut definition = define_kernel(kernel)?;
    // The kernels check bounds themselves where they need to.
    definition.settings.execution_mode = ExecutionMode::Unchecked;
    let entry = definition.settings.kernel_name.clone();
    let options = CompilationOptions {
        supports_features: CppSupportedFeatures {
            fast_math: true,
            dp4a: true,
            // Scalars are a parameter of the launch, so that no launch needs a buffer for them.
            grid_constants: true,
            fast_tanh: true,
            ..CppSupportedFeatures::default()
        },
        ..CompilationOptions::default()
    };
    let compiled = CppCompiler::<Cuda>::default().compile(definition, &options)?;
    let name = function_name(&entry);
    let text = canonical(&compiled.source, &entry, &name);
    Ok(Source { name, text, shared_bytes: compiled.shared_memory_size })
}

/// A card as CubeCL describes it to kernels.
pub(crate) fn properties(card: &Card) -> DeviceProperties {
    let architecture = CudaArchitecture {
        version: card.architecture,
        tensor_cores: CudaArchitecture::has_tensor_cores(card.architecture, &card.name),
    };
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 1024,
        max_shared_memory_size: card.shared_bytes,
        max_cube_count: (i32::MAX as u32, 65_535, 65_535),
        max_units_per_cube: 1024,
        max_cube_dim: (1024, 1024, 64),
        num_streaming_multiprocessors: Some(card.multiprocessors),
        num_tensor_cores: architecture.tensor_cores.then_some(4),
        min_tensor_cores_dim: architecture.tensor_cores.then_some(8),
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: VectorSize::MAX,
        cube_mma_reserved_shared_memory: 0,
    };
    let identity = DeviceIdentity {
        name: card.name.clone(),
        fingerprint: format!("sm_{}", card.architecture),
        physical: None,
    };
    let memory = MemoryDeviceProperties::new(card.memory_bytes, ALIGNMENT as u64);
    let mut properties = DeviceProperties::new(
        Features::default(),
        memory,
        hardware,
        TimingMethod::Device,
        identity,
    );
    register_supported_types(&mut properties);
    properties.features.plane.insert(Plane::Ops);
    let products = CudaCmmaCompiler::Cpp.supported_cmma_combinations(&architecture);
    register_wmma_features(products, &mut properties);
    properties
}

/// How a card's registers hold matrices.
pub(crate) fn target() -> TargetProperties {
    TargetProperties {
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
    }
}
