//! CubeCL's server for CUDA: what its launches, copies and allocations become on a [`Driver`].
//!
//! There are no pools: each allocation is one allocation of the driver, and nothing else is allocated.
//! Scalars travel with the launch, and copies use the driver's own staging. So a run holds its arena
//! on the card, the kernels' code and the driver's context.
//!
//! A failed launch or copy is remembered, and everything after it fails with the same error: on a
//! card such an error is sticky. A refused allocation is reported once.

use std::{collections::HashMap, sync::Arc};

use cubecl::{
    CubeCount, CubeKernel,
    bytes::Bytes,
    dry_run::LaunchMode,
    future::DynFut,
    logging::ServerLogger,
    prelude::KernelId,
    profile::ProfileDuration,
    server::{
        BufferBinding, CopyDescriptor, IoError, KernelArguments, KernelResource, ProfileError,
        ProfilingToken, Server, ServerCommunication, ServerError, ServerStorage, ServerUtilities,
    },
};
use cubecl_common::device::{DeviceId, DeviceService, ServerUtilitiesHandle, ServiceId};
use cubecl_environment::{backtrace::BackTrace, stream::StreamId};
use cubecl_runtime::{
    memory_management::{
        ManagedMemoryHandle, ManagedMemoryId, MemoryAllocationMode, MemoryPoolKind,
        MemoryPoolReport, MemoryPoolsReport, MemoryUsage, StreamMemoryReport,
    },
    storage::{ComputeStorage, ManagedResource, StorageHandle, StorageId},
};
use cubecl_server::allocator::ContiguousMemoryLayoutPolicy;

use super::{
    compile,
    driver::{Address, Card, Driver, DriverFault, Launch},
};

/// One open device.
#[derive(Debug)]
pub(crate) struct CudaServer<D: Driver> {
    driver: Result<D, DriverFault>,
    utilities: Arc<ServerUtilities>,
    allocations: HashMap<ManagedMemoryId, Allocation>,
    kernels: HashMap<KernelId, Loaded<D::Function>>,
    /// The first launch or copy that failed.
    failed: Option<ServerError>,
    /// An allocation that was refused and has not been reported yet.
    refused: Option<ServerError>,
}

#[derive(Debug)]
struct Allocation {
    address: Address,
    bytes: u64,
    /// Shows whether anything else still holds the memory.
    handle: ManagedMemoryHandle,
}

#[derive(Debug)]
struct Loaded<F> {
    function: F,
    block: [u32; 3],
}

fn error(fault: &DriverFault) -> ServerError {
    ServerError::Generic { reason: fault.to_string(), backtrace: BackTrace::capture() }
}

fn failure(reason: String) -> ServerError {
    ServerError::Generic { reason, backtrace: BackTrace::capture() }
}

/// The driver, unless it did not open or something failed.
fn ready<'d, D>(
    driver: &'d mut Result<D, DriverFault>,
    failed: Option<&ServerError>,
) -> Result<&'d mut D, ServerError> {
    match failed {
        Some(error) => Err(error.clone()),
        None => driver.as_mut().map_err(|fault| error(fault)),
    }
}

impl<D: Driver> DeviceService for CudaServer<D> {
    fn init(device: DeviceId) -> Self {
        let driver = D::open(device.index_id);
        let card = driver.as_ref().map_or_else(|_| Card::unknown(), D::card);
        let (utilities, _) = ServerUtilities::init(
            ServiceId::of::<Self>(device),
            "cuda",
            compile::properties(&card),
            compile::target(),
            Arc::new(ServerLogger::default()),
            // An allocation is as long as it was asked for.
            ContiguousMemoryLayoutPolicy::new(1),
        );
        let failed = driver.as_ref().err().map(error);
        Self {
            driver,
            utilities: Arc::new(utilities),
            allocations: HashMap::new(),
            kernels: HashMap::new(),
            failed,
            refused: None,
        }
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.utilities.clone()
    }
}

impl<D: Driver> CudaServer<D> {
    /// The error that has not been reported yet or that stays, if there is one.
    fn health(&mut self) -> Result<(), ServerError> {
        match self.refused.take().or_else(|| self.failed.clone()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Calls the driver. After an error, every later call fails with it.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut D) -> Result<T, DriverFault>,
    ) -> Result<T, ServerError> {
        let driver = ready(&mut self.driver, self.failed.as_ref())?;
        call(driver).map_err(|fault| self.failed.insert(error(&fault)).clone())
    }

    /// The address and length of what a binding names.
    fn resolve(&self, binding: &BufferBinding) -> Result<(Address, u64), ServerError> {
        let Some(allocation) = self.allocations.get(&binding.memory.id()) else {
            return Err(failure("the memory was never allocated".into()));
        };
        let start = binding.offset_start.unwrap_or(0);
        let end = allocation.bytes.checked_sub(binding.offset_end.unwrap_or(0));
        match end.and_then(|end| end.checked_sub(start)) {
            Some(bytes) => Ok((allocation.address + start, bytes)),
            None => Err(failure("a range leaves its allocation".into())),
        }
    }

    /// Frees allocations that nothing else holds.
    fn clean(&mut self) -> Result<(), ServerError> {
        let free = |(id, of): (&ManagedMemoryId, &Allocation)| {
            of.handle.is_free().then_some((*id, of.address))
        };
        let free: Vec<_> = self.allocations.iter().filter_map(free).collect();
        for (id, address) in free {
            self.allocations.remove(&id);
            self.call(|driver| driver.free(address))?;
        }
        Ok(())
    }

    fn load(&mut self, kernel: &dyn CubeKernel, id: &KernelId) -> Result<(), ServerError> {
        if self.kernels.contains_key(id) {
            return Ok(());
        }
        let source = D::source(kernel).map_err(|error| failure(error.to_string()))?;
        let function = self.call(|driver| driver.load(&source))?;
        let block = [id.cube_dim.x, id.cube_dim.y, id.cube_dim.z];
        self.kernels.insert(id.clone(), Loaded { function, block });
        Ok(())
    }

    fn try_launch(
        &mut self,
        kernel: &dyn CubeKernel,
        count: &CubeCount,
        arguments: &KernelArguments,
        mode: LaunchMode,
    ) -> Result<(), ServerError> {
        let id = kernel.id();
        self.load(kernel, &id)?;
        if mode.is_skipped() {
            return Ok(());
        }
        let &CubeCount::Static(x, y, z) = count else {
            return Err(failure("a grid whose size is on the device".into()));
        };
        if x == 0 || y == 0 || z == 0 {
            return Ok(()); // nothing to do, which the driver would refuse
        }
        let info = &arguments.info;
        if info.dynamic_metadata_offset < info.data.len() {
            return Err(failure("a kernel with strides".into()));
        }
        let mut operands = Vec::with_capacity(arguments.resources.len());
        for resource in &arguments.resources {
            let KernelResource::Buffer(binding) = resource else {
                return Err(failure("a kernel with a tensor map".into()));
            };
            operands.push(self.resolve(binding)?);
        }
        let driver = ready(&mut self.driver, self.failed.as_ref())?;
        let loaded = &self.kernels[&id];
        let launch = Launch {
            grid: [x, y, z],
            block: loaded.block,
            operands: &operands,
            constants: &info.data,
        };
        // SAFETY: the caller of an unchecked launch promises that the kernel stays within its operands.
        let launched = unsafe { driver.launch(&loaded.function, &launch) };
        launched.map_err(|fault| error(&fault))
    }
}

impl<D: Driver> Server for CudaServer<D> {
    fn initialize_memory(
        &mut self,
        memory: ManagedMemoryHandle,
        size: u64,
        _: StreamId,
    ) -> Result<(), ServerError> {
        self.clean()?;
        let driver = ready(&mut self.driver, self.failed.as_ref())?;
        match driver.allocate(size) {
            Ok(address) => {
                let id = memory.clone().binding().id();
                let allocation = Allocation { address, bytes: size, handle: memory };
                self.allocations.insert(id, allocation);
                Ok(())
            }
            Err(fault) => Err(self.refused.insert(error(&fault)).clone()),
        }
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.utilities.clone()
    }

    fn read(
        &mut self,
        descriptors: Vec<CopyDescriptor>,
        _: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        let mut one = |descriptor: &CopyDescriptor| {
            self.health()?;
            let (address, bytes) = self.resolve(&descriptor.handle)?;
            let mut values = vec![0; bytes as usize];
            self.call(|driver| driver.download(address, &mut values))?;
            Ok(Bytes::from_bytes_vec(values))
        };
        let values = descriptors.iter().map(&mut one).collect();
        Box::pin(async move { values })
    }

    fn write(&mut self, descriptors: Vec<(CopyDescriptor, Bytes)>, _: StreamId) {
        for (descriptor, values) in descriptors {
            let written = self.resolve(&descriptor.handle).and_then(|(address, bytes)| {
                let values = &values[..values.len().min(bytes as usize)];
                self.call(|driver| driver.upload(address, values))
            });
            if let Err(error) = written {
                self.failed.get_or_insert(error);
            }
        }
    }

    fn sync(&mut self, _: Vec<BufferBinding>, _: StreamId) -> DynFut<Result<(), ServerError>> {
        let waited = self.health().and_then(|()| self.call(D::wait));
        Box::pin(async move { waited })
    }

    fn check(&mut self, _: Vec<BufferBinding>, _: StreamId) -> Result<(), ServerError> {
        self.health()
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        count: CubeCount,
        arguments: KernelArguments,
        _: StreamId,
        mode: LaunchMode,
    ) {
        if let Err(error) = self.try_launch(&*kernel, &count, &arguments, mode) {
            self.failed.get_or_insert(error);
        }
    }

    fn flush(&mut self, _: StreamId) -> Result<(), ServerError> {
        self.health()
    }

    fn memory_report(&mut self, stream: StreamId) -> Option<StreamMemoryReport> {
        let _ = self.clean(); // a failure is kept and reported by the next call
        let bytes = self.allocations.values().map(|allocation| allocation.bytes);
        let (count, largest) = (self.allocations.len() as u64, bytes.clone().max().unwrap_or(0));
        let pool = |kind, count, bytes, largest_alloc| MemoryPoolReport {
            kind,
            usage: MemoryUsage {
                number_allocs: count,
                bytes_in_use: bytes,
                bytes_padding: 0,
                bytes_reserved: bytes,
            },
            pages: count,
            pages_peak: count,
            pages_unmapped: 0,
            largest_alloc,
        };
        Some(StreamMemoryReport {
            stream,
            pools: MemoryPoolsReport {
                dynamic: Vec::new(),
                persistent: pool(MemoryPoolKind::Persistent, 0, 0, 0),
                dedicated: pool(MemoryPoolKind::Direct, count, bytes.sum(), largest),
            },
            auxiliary: Vec::new(),
        })
    }

    fn memory_cleanup(&mut self, _: StreamId) -> Result<(), ServerError> {
        self.clean()
    }

    fn start_profile(&mut self, _: StreamId) -> Result<ProfilingToken, ServerError> {
        Err(failure("kernels are not profiled here".into()))
    }

    fn end_profile(
        &mut self,
        _: StreamId,
        _: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        Err(ProfileError::NotRegistered { backtrace: BackTrace::capture() })
    }

    fn allocation_mode(&mut self, _: MemoryAllocationMode, _: StreamId) {
        // There is only one mode: each allocation is separate.
    }
}

impl<D: Driver> ServerCommunication for CudaServer<D> {}

/// CubeCL requires a storage type; nothing uses this one.
#[derive(Debug)]
pub(crate) struct NoStorage;

impl ComputeStorage for NoStorage {
    type Resource = Address;

    fn alignment(&self) -> usize {
        compile::ALIGNMENT
    }

    fn get(&mut self, _: &StorageHandle) -> Result<Address, IoError> {
        Err(IoError::UnsupportedIoOperation { backtrace: BackTrace::capture() })
    }

    fn alloc(&mut self, _: u64) -> Result<StorageHandle, IoError> {
        Err(IoError::UnsupportedIoOperation { backtrace: BackTrace::capture() })
    }

    fn dealloc(&mut self, _: StorageId) {}

    fn flush(&mut self) {}

    fn bytes_allocated(&self) -> u64 {
        0
    }
}

impl<D: Driver> ServerStorage for CudaServer<D> {
    type Storage = NoStorage;

    fn get_resource(
        &mut self,
        binding: BufferBinding,
        _: StreamId,
    ) -> Result<ManagedResource<Address>, ServerError> {
        self.health()?;
        let (address, _) = self.resolve(&binding)?;
        Ok(ManagedResource::new(binding.memory, address))
    }
}
