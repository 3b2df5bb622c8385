//! The value that `torch.save` wrote, and where the bytes of its tensors are.

use std::io::{self, Read};

use fitgpt_pickle::{Handle, Pickle, PickleObject, PickleValue};
use safetensors::tensor::Dtype;

use super::{SavedError, TensorFault, zip::Zip};
use crate::disk::DiskFile;

/// A pickle of GPT-2 XL with its optimizer has about 400 KB.
const MAX_PICKLE_BYTES: u64 = 256 << 20;

/// The types of storages, and the names of their elements in safetensors.
const STORAGES: [(&str, Dtype); 10] = [
    ("DoubleStorage", Dtype::F64),
    ("FloatStorage", Dtype::F32),
    ("HalfStorage", Dtype::F16),
    ("BFloat16Storage", Dtype::BF16),
    ("LongStorage", Dtype::I64),
    ("IntStorage", Dtype::I32),
    ("ShortStorage", Dtype::I16),
    ("CharStorage", Dtype::I8),
    ("ByteStorage", Dtype::U8),
    ("BoolStorage", Dtype::BOOL),
];

/// The globals that a pickle of tensors may refer to. None of them is imported.
fn allows(module: &str, name: &str) -> bool {
    match module {
        "collections" => name == "OrderedDict",
        "torch._utils" => {
            ["_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_parameter_with_state"]
                .contains(&name)
        }
        "torch" => name == "Size" || name.ends_with("Storage"),
        "torch.storage" => name.ends_with("Storage"),
        _ => false,
    }
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedTensor {
    /// How its elements are stored.
    pub dtype: Dtype,
    /// Row-major, outermost first.
    pub shape: Vec<usize>,
    /// The offset of its first byte in the file.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A file of `torch.save`: the saved value with its tensors.
#[derive(Debug)]
pub struct SavedFile {
    file: DiskFile,
    zip: Zip,
    /// The folder of all entries in the archive, with a slash.
    prefix: String,
    pickle: Pickle,
}

impl SavedFile {
    /// Reads the archive's directory and its pickle, but no tensor.
    pub fn read(file: DiskFile) -> Result<Self, SavedError> {
        let mut start = [0; 16];
        let count = file.read_at(&mut start, 0)?;
        let zip = match Zip::read(&file) {
            // A pickle of a large number: the magic number of files before PyTorch 1.6.
            Err(SavedError::NotAnArchive) if start[..count].starts_with(b"\x80\x02\x8a\x0a") => {
                return Err(SavedError::OldFormat);
            }
            other => other?,
        };
        let is_pickle = |name: &&str| *name == "data.pkl" || name.ends_with("/data.pkl");
        let Some(name) = zip.names().find(is_pickle).map(str::to_owned) else {
            return Err(SavedError::NoEntry { entry: "data.pkl".to_owned() });
        };
        let prefix = name.strip_suffix("data.pkl").unwrap_or_default().to_owned();
        let no_entry = |entry: &str| SavedError::NoEntry { entry: entry.to_owned() };
        if let Some(order) = zip.find(&file, &format!("{prefix}byteorder"))? {
            let mut first = [0; 1];
            if order.bytes > 0 {
                file.read_exact_at(&mut first, order.start)?;
            }
            if first == *b"b" {
                return Err(SavedError::BigEndian);
            }
        }
        let entry = zip.find(&file, &name)?.ok_or_else(|| no_entry(&name))?;
        let bytes = entry.bytes.min(MAX_PICKLE_BYTES);
        let reader = FileRange { file: &file, start: entry.start, end: entry.start + bytes };
        let pickle = Pickle::read_objects(reader, allows)?;
        Ok(Self { file, zip, prefix, pickle })
    }

    /// The file, for reading values.
    pub fn into_file(self) -> DiskFile {
        self.file
    }

    /// The pickle of the saved value.
    pub fn pickle(&self) -> &Pickle {
        &self.pickle
    }

    /// The saved value, a dict.
    pub fn root(&self) -> Result<&[[Handle; 2]], SavedError> {
        match self.pickle.root() {
            PickleValue::Dict(pairs) => Ok(pairs),
            _ => Err(SavedError::WrongType { key: "data.pkl".to_owned(), expected: "a dict" }),
        }
    }

    /// The tensors of a dict by name; other values are left out.
    pub fn tensors(&self, dict: &[[Handle; 2]]) -> Result<Vec<(String, SavedTensor)>, SavedError> {
        let mut tensors = Vec::with_capacity(dict.len());
        for [key, value] in dict {
            if let PickleValue::Text(name) = self.pickle.value(*key)
                && let Some(tensor) = self.tensor(name, *value)?
            {
                tensors.push((name.to_owned(), tensor));
            }
        }
        Ok(tensors)
    }

    /// A value as a tensor; `None` if it is another value. `name` is for errors.
    pub fn tensor(&self, name: &str, value: Handle) -> Result<Option<SavedTensor>, SavedError> {
        let fail = |fault| SavedError::Tensor { tensor: name.to_owned(), fault };
        let Some((function, arguments)) = self.call(value) else { return Ok(None) };
        match (function, arguments) {
            // A parameter is a tensor and a few flags, and cannot contain another parameter.
            ("_rebuild_parameter" | "_rebuild_parameter_with_state", [data, ..]) => {
                match self.call(*data) {
                    Some(("_rebuild_tensor_v2", arguments)) => self.rebuilt(arguments),
                    _ => Err(ReadFault::Tensor(TensorFault::Form)),
                }
            }
            ("_rebuild_tensor_v2", arguments) => self.rebuilt(arguments),
            _ => return Ok(None),
        }
        .map(Some)
        .map_err(|fault| match fault {
            ReadFault::Tensor(fault) => fail(fault),
            ReadFault::File(error) => error,
        })
    }

    /// The value of a number, or of a float tensor without dimensions.
    pub fn number(&self, name: &str, value: Handle) -> Result<Option<f64>, SavedError> {
        match self.pickle.value(value) {
            PickleValue::Int(value) => return Ok(Some(value as f64)),
            PickleValue::Float(value) => return Ok(Some(value)),
            _ => {}
        }
        let Some(tensor) = self.tensor(name, value)? else { return Ok(None) };
        let width = tensor.dtype.bitsize() / 8;
        if tensor.bytes != width as u64 {
            return Ok(None);
        }
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes[..width], tensor.start)?;
        let [a, b, c, d, ..] = bytes;
        Ok(match tensor.dtype {
            Dtype::F64 => Some(f64::from_le_bytes(bytes)),
            Dtype::F32 => Some(f32::from_le_bytes([a, b, c, d]).into()),
            Dtype::F16 => Some(half::f16::from_le_bytes([a, b]).into()),
            Dtype::BF16 => Some(half::bf16::from_le_bytes([a, b]).into()),
            Dtype::I64 => Some(i64::from_le_bytes(bytes) as f64),
            Dtype::I32 => Some(i32::from_le_bytes([a, b, c, d]).into()),
            _ => None,
        })
    }

    /// The name of the function and the arguments of a call.
    fn call(&self, value: Handle) -> Option<(&str, &[Handle])> {
        let PickleValue::Object(PickleObject::Call { function, arguments }) =
            self.pickle.value(value)
        else {
            return None;
        };
        let PickleValue::List(arguments) = self.pickle.value(arguments) else { return None };
        Some((self.global(function)?, arguments))
    }

    /// The name of a global, without its module.
    fn global(&self, value: Handle) -> Option<&str> {
        let PickleValue::Object(PickleObject::Global { name, .. }) = self.pickle.value(value)
        else {
            return None;
        };
        if let PickleValue::Text(name) = self.pickle.value(name) { Some(name) } else { None }
    }

    /// The tensor that `_rebuild_tensor_v2` would make from its arguments: storage, offset, shape,
    /// strides, and flags that do not matter here.
    fn rebuilt(&self, arguments: &[Handle]) -> Result<SavedTensor, ReadFault> {
        let [storage, offset, shape, strides, ..] = arguments else {
            return Err(TensorFault::Form.into());
        };
        let value = |handle: &Handle| self.pickle.value(*handle);
        let PickleValue::Object(PickleObject::Persistent(id)) = value(storage) else {
            return Err(TensorFault::Form.into());
        };
        // ('storage', torch.FloatStorage, '0', 'cpu', 786432)
        let PickleValue::List([tag, kind, key, _device, count]) = value(&id) else {
            return Err(TensorFault::Form.into());
        };
        let (PickleValue::Text("storage"), PickleValue::Text(key), PickleValue::Int(count)) =
            (value(tag), value(key), value(count))
        else {
            return Err(TensorFault::Form.into());
        };
        let kind = self.global(*kind).ok_or(TensorFault::Form)?;
        let dtype = STORAGES.iter().find(|(name, _)| *name == kind).map(|(_, dtype)| *dtype);
        let dtype = dtype.ok_or_else(|| TensorFault::Type(kind.to_owned()))?;
        let width = (dtype.bitsize() / 8) as u64;

        let entry = format!("{}data/{key}", self.prefix);
        let storage = self.zip.find(&self.file, &entry)?;
        let storage = storage.ok_or(SavedError::NoEntry { entry })?;
        let count = u64::try_from(count).map_err(|_| TensorFault::Bounds)?;
        if count.checked_mul(width).is_none_or(|bytes| bytes > storage.bytes) {
            return Err(TensorFault::Bounds.into());
        }
        let sizes = |handle| match value(handle) {
            PickleValue::List(items) => items
                .iter()
                .map(|item| match value(item) {
                    PickleValue::Int(size) => u64::try_from(size).ok(),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>(),
            _ => None,
        };
        let (Some(shape), Some(strides), PickleValue::Int(offset)) =
            (sizes(shape), sizes(strides), value(offset))
        else {
            return Err(TensorFault::Form.into());
        };
        if shape.len() != strides.len() {
            return Err(TensorFault::Form.into());
        }
        let elements = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let elements = elements.ok_or(TensorFault::Bounds)?;
        let offset = u64::try_from(offset).map_err(|_| TensorFault::Bounds)?;
        if offset.checked_add(elements).is_none_or(|end| end > count) {
            return Err(TensorFault::Bounds.into());
        }
        // The stride of an axis of length 1 has no meaning, and an empty tensor has no values.
        let mut expected = 1;
        for (size, stride) in shape.iter().zip(&strides).rev().filter(|_| elements > 0) {
            if *size > 1 && *stride != expected {
                return Err(TensorFault::Strides.into());
            }
            expected *= size; // at most `elements`
        }
        // Both products are within the storage, and so within the file.
        let start = storage.start + offset * width;
        let shape = shape.into_iter().map(|size| size as usize).collect();
        Ok(SavedTensor { dtype, shape, start, bytes: elements * width })
    }
}

/// What is wrong with a tensor, or with its file.
enum ReadFault {
    Tensor(TensorFault),
    File(SavedError),
}

impl From<TensorFault> for ReadFault {
    fn from(fault: TensorFault) -> Self {
        Self::Tensor(fault)
    }
}

impl From<SavedError> for ReadFault {
    fn from(error: SavedError) -> Self {
        Self::File(error)
    }
}

/// A range of a file, as a stream.
struct FileRange<'a> {
    file: &'a DiskFile,
    start: u64,
    end: u64,
}

impl Read for FileRange<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = (self.end - self.start).min(into.len() as u64) as usize;
        let count = self.file.read_at(&mut into[..count], self.start).map_err(|e| e.source)?;
        self.start += count as u64;
        Ok(count)
    }
}
