//! PyTorch's own files: the zip archives that `torch.save` writes.
//!
//! ```text
//! ckpt/data.pkl     a pickle of the saved value; each tensor names a storage by its key
//! ckpt/data/0       the bytes of storage "0", as they were in memory
//! ckpt/byteorder    little
//! ```
//!
//! [`SavedFile`] finds the tensors of a file and where their bytes are; callers read the values
//! from there, a piece at a time. Nothing of the pickle is executed: it may refer to the
//! functions and classes that make up tensors and to nothing else. [`write`] writes such a file.
//!
//! Every size is checked against the file before memory is allocated for it. The zip's checksums
//! are not checked: PyTorch can leave them out.

mod error;
mod file;
#[cfg(test)]
mod tests;
mod write;
mod zip;

pub use self::error::{OptimizerFault, SavedError, TensorFault, ZipFault};
pub(crate) use self::{
    file::{SavedFile, SavedTensor},
    write::{ArchiveWriter, PickleWriter},
};
