//! Why a checkpoint was not written or not read.

use std::{io, path::PathBuf};

use fitgpt_config::ConfigError;
use fitgpt_files::{attempt::Attempt, disk::DiskError, pytorch::SavedError};
use fitgpt_model::family::FamilyError;

use super::store::StoreError;

/// Why a checkpoint was not written or not read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system reported an error.
    Io {
        /// A verb: `write`, `rename`.
        action: Attempt,
        /// What it was done to.
        path: PathBuf,
        /// What the operating system reported.
        source: io::Error,
    },
    /// Another process holds the folder's lock.
    InUse {
        /// The folder.
        dir: PathBuf,
        /// Which process, if that could be read.
        pid: Option<u32>,
    },
    /// The file does not exist.
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// A file that PyTorch did not save, or that is damaged.
    Saved {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SavedError,
    },
    /// Not a safetensors file.
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with the header.
        source: serde_json::Error,
    },
    /// The header's length is impossible.
    HeaderLength {
        /// The file.
        path: PathBuf,
        /// The length in the first eight bytes.
        found_bytes: u64,
        /// The most that fits into the file.
        most_bytes: u64,
    },
    /// Truncated, or something was appended.
    Length {
        /// The file.
        path: PathBuf,
        /// The length that follows from the header.
        expected_bytes: u64,
        /// The length of the file.
        found_bytes: u64,
    },
    /// Our own checksum over the file does not match.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The checksum that the file states.
        expected: u64,
        /// The checksum of what was read.
        found: u64,
    },
    /// A file is not the one that its manifest lists.
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A weight or an optimizer state is infinite or not a number.
    NotFinite {
        /// Our name for the tensor.
        tensor: String,
    },
    /// A folder was moved, deleted or replaced while a run used it.
    FolderLost {
        /// Its path when the run began.
        path: PathBuf,
    },
    /// A file of a checkpoint that another program wrote would be replaced.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file of ours without a valid checksum.
    NoChecksum {
        /// The file.
        path: PathBuf,
    },
    /// The model has a tensor that the file lacks.
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file would name it.
        tensor: String,
        /// Its shape in the file.
        expected: Vec<usize>,
    },
    /// The file has a tensor that the model lacks.
    UnknownTensor {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// Its shape in the file.
        found: Vec<usize>,
    },
    /// The file's tensor has another shape.
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// Its shape for this model.
        expected: Vec<usize>,
        /// Its shape in the file.
        found: Vec<usize>,
    },
    /// The file's tensor does not hold floating-point numbers.
    DType {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// Its type in the file.
        found: String,
    },
    /// An optimizer state has another type.
    StateDType {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// The type that the optimizer keeps it in.
        expected: String,
        /// Its type in the file.
        found: String,
    },
    /// An index names a file that is not in its folder.
    ShardName {
        /// The index.
        path: PathBuf,
        /// What it names.
        name: String,
    },
    /// A file does not have a tensor that its index lists.
    NotInShard {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The index.
        index: PathBuf,
    },
    /// `config.json` has more layers than the files can have.
    TooFewTensors {
        /// The file.
        path: PathBuf,
        /// How many it has.
        tensors: usize,
        /// The layers in `config.json`.
        layers: u32,
    },
    /// Two files of one model have a tensor of the same name.
    StoredTwice {
        /// The second file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// The model has no such bias, but the file's is not zero.
    BiasNotZero {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// The first value that is not zero.
        found: f32,
    },
    /// One folder has files of different saves.
    Mixed {
        /// A file.
        first: PathBuf,
        /// Its save id.
        first_id: Option<String>,
        /// Another file.
        second: PathBuf,
        /// Its save id.
        second_id: Option<String>,
    },
    /// A folder has a checkpoint of ours and a `ckpt.pt` that it did not begin from.
    TwoCheckpoints {
        /// The folder.
        folder: PathBuf,
        /// The step of ours, if its manifest says it.
        ours: Option<u64>,
        /// The step of `ckpt.pt`, if it can be read.
        theirs: Option<u64>,
    },
    /// Not JSON, or JSON of another form.
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// `config.json` describes a model that this program does not have.
    Family {
        /// The file.
        path: PathBuf,
        /// The key and its value.
        source: FamilyError,
    },
    /// `config.json` describes a model of impossible sizes.
    Config {
        /// The file.
        path: PathBuf,
        /// Which rule the sizes break.
        source: Box<ConfigError>,
    },
    /// The state's document cannot be written as JSON.
    Document {
        /// Why not.
        source: serde_json::Error,
    },
    /// The state's document changes when it is stored and read again.
    DocumentChanged {
        /// A JSON pointer to the first difference.
        place: String,
        /// What was written there.
        written: String,
        /// What was read there.
        back: String,
    },
    /// The backend could not read or write values.
    Store {
        /// Our name for the tensor.
        tensor: String,
        /// What the backend reported.
        why: StoreError,
    },
}

impl From<DiskError> for CheckpointError {
    fn from(error: DiskError) -> Self {
        let DiskError { action, path, source } = error;
        Self::Io { action, path, source }
    }
}
