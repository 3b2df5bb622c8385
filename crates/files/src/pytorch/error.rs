//! Why a PyTorch file was not read.

use fitgpt_pickle::PickleError;

use crate::disk::DiskError;

/// Why a PyTorch file was not read.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The operating system reported an error.
    #[error("it cannot be read: {0}")]
    Io(std::io::Error),
    /// Not a zip archive.
    #[error("it is not a zip archive")]
    NotAnArchive,
    /// PyTorch's format before 1.6, which is not a zip archive.
    #[error("it has the format of PyTorch before version 1.6")]
    OldFormat,
    /// The archive is damaged, or uses features that `torch.save` does not.
    #[error("its archive is damaged or not PyTorch's: {fault} (at byte {offset})")]
    Zip {
        /// What is wrong.
        fault: ZipFault,
        /// Where in the file.
        offset: u64,
    },
    /// An entry of the archive is missing.
    #[error("its archive has no `{entry}`")]
    NoEntry {
        /// The entry.
        entry: String,
    },
    /// Written on a big-endian machine.
    #[error("its values are big-endian")]
    BigEndian,
    /// The pickle is not plain, or damaged.
    #[error("its `data.pkl`: {0}")]
    Pickle(PickleError),
    /// A tensor that cannot be read.
    #[error("its tensor `{tensor}`: {fault}")]
    Tensor {
        /// Its name in the file.
        tensor: String,
        /// What is wrong with it.
        fault: TensorFault,
    },
    /// Something is missing in the saved value.
    #[error("it has no `{key}`")]
    NoKey {
        /// What is missing.
        key: String,
    },
    /// Something in the saved value has another type.
    #[error("its `{key}` should be {expected}")]
    WrongType {
        /// What.
        key: String,
        /// The type as Python calls it.
        expected: &'static str,
    },
    /// An optimizer other than the AdamW that nanoGPT uses.
    #[error("its optimizer is not nanoGPT's AdamW: {0}")]
    Optimizer(OptimizerFault),
}

/// How an optimizer differs from nanoGPT's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptimizerFault {
    /// Other groups of parameters.
    #[error("its groups have {found:?} parameters, expected {expected:?}")]
    Groups {
        /// Those that decay and those that do not.
        expected: [usize; 2],
        /// The parameters of each group.
        found: Vec<usize>,
    },
    /// A state that AdamW does not have.
    #[error("it has a state `{name}`")]
    State {
        /// Its name.
        name: String,
    },
    /// Parameters that were not updated equally often.
    #[error("its parameters were not updated equally often")]
    Steps,
}

/// What is wrong with a zip archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZipFault {
    /// A record has the wrong signature.
    #[error("a record has the wrong signature")]
    Signature,
    /// A record or an entry ends outside of the file.
    #[error("an entry extends past the end of the file")]
    Bounds,
    /// An entry is compressed or encrypted.
    #[error("an entry is compressed or encrypted")]
    Compressed,
    /// A name is not UTF-8.
    #[error("a name is not UTF-8")]
    Name,
    /// The directory is larger than that of any model.
    #[error("it has too many entries")]
    TooMany,
}

/// What is wrong with a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorFault {
    /// Not in the form that `torch.save` writes.
    #[error("it is not stored in a known form")]
    Form,
    /// Values of an unknown type.
    #[error("the type `{0}` is not supported")]
    Type(String),
    /// It extends outside of its storage.
    #[error("it extends outside of its storage")]
    Bounds,
    /// It is not contiguous.
    #[error("it is not contiguous")]
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
