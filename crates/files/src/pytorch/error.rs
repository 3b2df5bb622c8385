//! Why a PyTorch file was not read.

use fitgpt_pickle::PickleError;

use crate::disk::DiskError;

/// Why a PyTorch file was not read.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The operating system reported an error.
    Io(std::io::Error),
    /// Not a zip archive.
    NotAnArchive,
    /// PyTorch's format before 1.6, which is not a zip archive.
    OldFormat,
    /// The archive is damaged, or uses features that `torch.save` does not.
    Zip {
        /// What is wrong.
        fault: ZipFault,
        /// Where in the file.
        offset: u64,
    },
    /// An entry of the archive is missing.
    NoEntry {
        /// The entry.
        entry: String,
    },
    /// Written on a big-endian machine.
    BigEndian,
    /// The pickle is not plain, or damaged.
    Pickle(PickleError),
    /// A tensor that cannot be read.
    Tensor {
        /// Its name in the file.
        tensor: String,
        /// What is wrong with it.
        fault: TensorFault,
    },
    /// Something is missing in the saved value.
    NoKey {
        /// What is missing.
        key: String,
    },
    /// Something in the saved value has another type.
    WrongType {
        /// What.
        key: String,
        /// The type as Python calls it.
        expected: &'static str,
    },
    /// An optimizer other than the AdamW that nanoGPT uses.
    Optimizer(OptimizerFault),
}

/// How an optimizer differs from nanoGPT's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptimizerFault {
    /// Other groups of parameters.
    Groups {
        /// Those that decay and those that do not.
        expected: [usize; 2],
        /// The parameters of each group.
        found: Vec<usize>,
    },
    /// A state that AdamW does not have.
    State {
        /// Its name.
        name: String,
    },
    /// Parameters that were not updated equally often.
    Steps,
}

/// What is wrong with a zip archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZipFault {
    /// A record has the wrong signature.
    Signature,
    /// A record or an entry ends outside of the file.
    Bounds,
    /// An entry is compressed or encrypted.
    Compressed,
    /// A name is not UTF-8.
    Name,
    /// The directory is larger than that of any model.
    TooMany,
}

/// What is wrong with a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorFault {
    /// Not in the form that `torch.save` writes.
    Form,
    /// Values of an unknown type.
    Type(String),
    /// It extends outside of its storage.
    Bounds,
    /// It is not contiguous.
    Strides,
}

impl From<DiskError> for SavedError {
    fn from(error: DiskError) -> Self {
        Self::Io(error.source)
    }
}

impl From<PickleError> for SavedError {
    fn from(error: PickleError) -> Self {
        Self::Pickle(error)
    }
}
