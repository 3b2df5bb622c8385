//! The stand-in for [`gpus`](super) in a build without feature `gpu`: the same names, no devices.

use super::{
    AvailableGpus, Backend, BackendError, Bytes, DeviceChoice, Overhead, Precision, Program,
    ReportCase, RuntimePool, Target, Unavailable, VerifiedPlan, report,
};

/// Cannot be constructed: no GPU is ever opened.
#[derive(Clone, Debug)]
pub enum Opened {}

#[expect(clippy::unnecessary_wraps, reason = "a build with GPUs can fail to open one")]
pub(super) fn best() -> Result<Option<Opened>, Unavailable> {
    Ok(None)
}

pub(super) fn available_gpus() -> Option<AvailableGpus> {
    None
}

pub(super) fn count(_: DeviceChoice) -> usize {
    0
}

pub(super) fn named(device: DeviceChoice) -> Result<Opened, Unavailable> {
    Err(Unavailable::NotInThisBuild { device })
}

impl Opened {
    pub(super) fn target(&self) -> &dyn Target {
        match *self {}
    }

    pub(super) fn device(&self, _: Option<Bytes>) -> Result<report::DeviceMemory, Unavailable> {
        match *self {}
    }

    pub(super) fn overhead(&self) -> Overhead {
        match *self {}
    }

    pub(super) fn pools(&self) -> Vec<RuntimePool> {
        match *self {}
    }

    pub(super) fn precision(&self) -> Precision {
        match *self {}
    }

    pub(super) fn check<'p>(
        &self,
        _: impl IntoIterator<Item = &'p Program>,
        _: Precision,
    ) -> Result<(), Unavailable> {
        match *self {}
    }

    pub(super) fn name(&self) -> (&str, &'static str) {
        match *self {}
    }

    pub(super) fn backend(&self, _: VerifiedPlan) -> Result<Box<dyn Backend>, BackendError> {
        match *self {}
    }

    pub(super) fn judge(&self, _: &mut ReportCase<'_>) -> Result<(), BackendError> {
        match *self {}
    }

    pub(super) fn driver(&self) -> &str {
        match *self {}
    }

    pub(super) fn is_software(&self) -> bool {
        match *self {}
    }
}
