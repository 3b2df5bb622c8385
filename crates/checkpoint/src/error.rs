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
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// A verb: `write`, `rename`.
        action: Attempt,
        /// What it was done to.
        path: PathBuf,
        /// What the operating system reported.
        source: io::Error,
    },
    /// Another process holds the folder's lock.
    #[error(
        "`{}` is in use by another run{}", dir.display(),
        pid.map_or(String::new(), |pid| format!(", process {pid}"))
    )]
    InUse {
        /// The folder.
        dir: PathBuf,
        /// Which process, if that could be read.
        pid: Option<u32>,
    },
    /// The file does not exist.
    #[error("no checkpoint: there is no `{}`", path.display())]
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// A file that PyTorch did not save, or that is damaged.
    #[error("cannot read `{}`: {source}", path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SavedError,
    },
    /// Not a safetensors file.
    #[error("`{}` is not a safetensors file: {source}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with the header.
        source: serde_json::Error,
    },
    /// The header's length is impossible.
    #[error(
        "`{}` is not a safetensors file: its header claims {found_bytes} bytes, at most {most_bytes} are possible",
        path.display()
    )]
    HeaderLength {
        /// The file.
        path: PathBuf,
        /// The length in the first eight bytes.
        found_bytes: u64,
        /// The most that fits into the file.
        most_bytes: u64,
    },
    /// Truncated, or something was appended.
    #[error("`{}` should have {expected_bytes} bytes, found {found_bytes}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that follows from the header.
        expected_bytes: u64,
        /// The length of the file.
        found_bytes: u64,
    },
    /// Our own checksum over the file does not match.
    #[error("`{}` is damaged: its checksum should be {expected:016x}, found {found:016x}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The checksum that the file states.
        expected: u64,
        /// The checksum of what was read.
        found: u64,
    },
    /// A file is not the one that its manifest lists.
    #[error("`{}` is not the file that was saved: its length or checksum differs from `manifest.json`", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A weight or an optimizer state is infinite or not a number.
    #[error("`{tensor}` is not finite: the checkpoint was not saved")]
    NotFinite {
        /// Our name for the tensor.
        tensor: String,
    },
    /// A folder was moved, deleted or replaced while a run used it.
    #[error("`{}` is no longer the folder of this run: it was moved, deleted or replaced", path.display())]
    FolderLost {
        /// Its path when the run began.
        path: PathBuf,
    },
    /// A file of a checkpoint that another program wrote would be replaced.
    #[error("`{}` was not written by fitgpt and is not replaced", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file of ours without a valid checksum.
    #[error("`{}` is damaged: it has no checksum", path.display())]
    NoChecksum {
        /// The file.
        path: PathBuf,
    },
    /// The model has a tensor that the file lacks.
    #[error("`{}` has no tensor `{tensor}` (expected shape {expected:?})", path.display())]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file would name it.
        tensor: String,
        /// Its shape in the file.
        expected: Vec<usize>,
    },
    /// The file has a tensor that the model lacks.
    #[error("`{}` has a tensor `{tensor}` that the model does not have (found shape {found:?})", path.display())]
    UnknownTensor {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// Its shape in the file.
        found: Vec<usize>,
    },
    /// The file's tensor has another shape.
    #[error("`{tensor}` in `{}` should have shape {expected:?}, found {found:?}", path.display())]
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
    #[error("`{tensor}` in `{}` should be F64, F32, F16 or BF16, found {found}", path.display())]
    DType {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// Its type in the file.
        found: String,
    },
    /// An optimizer state has another type.
    #[error("`{tensor}` in `{}` should be {expected}, found {found}", path.display())]
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
    #[error("`{}` may name only files in its own folder, found `{name}`", path.display())]
    ShardName {
        /// The index.
        path: PathBuf,
        /// What it names.
        name: String,
    },
    /// A file does not have a tensor that its index lists.
    #[error("`{}` has no tensor `{tensor}`, although `{}` lists it there", path.display(), index.display())]
    NotInShard {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The index.
        index: PathBuf,
    },
    /// `config.json` has more layers than the files can have.
    #[error("`{}` has {tensors} tensors, too few for the {layers} layers of its `config.json`", path.display())]
    TooFewTensors {
        /// The file.
        path: PathBuf,
        /// How many it has.
        tensors: usize,
        /// The layers in `config.json`.
        layers: u32,
    },
    /// Two files of one model have a tensor of the same name.
    #[error("`{tensor}` is in `{}` and in another file of the model", path.display())]
    StoredTwice {
        /// The second file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// The model has no such bias, but the file's is not zero.
    #[error("`{tensor}` in `{}` should be all zero in a model without biases, found {found}", path.display())]
    BiasNotZero {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file names it.
        tensor: String,
        /// The first value that is not zero.
        found: f32,
    },
    /// One folder has files of different saves.
    #[error(
        "`{}` and `{}` come from different saves: {} and {}", first.display(), second.display(),
        id_or_none(first_id.as_ref()), id_or_none(second_id.as_ref())
    )]
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
    /// Not JSON, or JSON of another form.
    #[error("cannot parse `{}`: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// `config.json` describes a model that this program does not have.
    #[error("`{}` describes a model that is not supported: {source}", path.display())]
    Family {
        /// The file.
        path: PathBuf,
        /// The key and its value.
        source: FamilyError,
    },
    /// `config.json` describes a model of impossible sizes.
    #[error("`{}` describes a model that is not supported: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Which rule the sizes break.
        source: Box<ConfigError>,
    },
    /// The state's document cannot be written as JSON.
    #[error("the training state cannot be stored: {source}")]
    Document {
        /// Why not.
        source: serde_json::Error,
    },
    /// The state's document changes when it is stored and read again.
    #[error(
        "the training state changes when it is stored: `{place}` is {written} and is read back as {back}"
    )]
    DocumentChanged {
        /// A JSON pointer to the first difference.
        place: String,
        /// What was written there.
        written: String,
        /// What was read there.
        back: String,
    },
    /// The backend could not read or write values.
    #[error("cannot transfer `{tensor}`: {source}")]
    Store {
        /// Our name for the tensor.
        tensor: String,
        /// What the backend reported.
        source: StoreError,
    },
}

impl From<DiskError> for CheckpointError {
    fn from(error: DiskError) -> Self {
        let DiskError { action, path, source } = error;
        Self::Io { action, path, source }
    }
}

/// An id in backticks, or the word for its absence.
fn id_or_none(id: Option<&String>) -> String {
    id.map_or("no save id".to_owned(), |id| format!("`{id}`"))
}
