//! PyTorch's own files: the zip archives that `torch.save` writes.
//!
//! ```text
//! ckpt/data.pkl     a pickle of the saved value; each tensor names a storage by its key
//! ckpt/data/0       the bytes of storage "0", as they were in memory
//! ckpt/byteorder    little
//! ```
//!
//! [`SavedFile`] finds the tensors of a file and the positions of their bytes; callers read the
//! values in pieces. Nothing in the pickle is executed, and it may refer only to the functions and
//! classes that tensors consist of. [`write`] writes such a file.
//!
//! Every size is checked against the file before memory is allocated for it. The zip's checksums
//! are not checked: PyTorch can omit them.
//!
//! Promise: any bytes are a file of PyTorch or an error, nothing in it is executed, and every
//! tensor lies within it. Test: `crates/files/src/pytorch/tests.rs`, `scripts/fuzz`.

mod error;
mod words;
mod zip;
mod file;
mod write;
#[cfg(test)]
mod tests;

pub use self::{
    error::{OptimizerFault, SavedError, TensorFault, ZipFault},
    file::{SavedFile, SavedTensor},
    write::{ArchiveWriter, PickleWriter},
};
