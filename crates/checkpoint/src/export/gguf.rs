//! GGUF, llama.cpp's file format: metadata, then the descriptions of tensors, then their values.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::Path,
};

use half::f16;

const MAGIC: &[u8; 4] = b"GGUF";
const VERSION: u32 = 3;
/// The values of a tensor begin at a multiple of this.
const ALIGNMENT: u64 = 32;
/// Values of a block of `Q8_0`: 32 bytes and a scale.
const BLOCK: usize = 32;

/// How the values of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GgufType {
    /// Unchanged.
    F32,
    /// Rounded to half precision.
    F16,
    /// 8 bits per value, and a half-precision scale for every 32 values of a row.
    Q8,
}

impl GgufType {
    /// Its number in the file.
    fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8 => 8,
        }
    }

    /// `general.file_type` of a file that is mostly of this type.
    pub fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8 => 7,
        }
    }

    /// The type of a tensor in a file that is mostly of this type. Vectors and position embeddings
    /// stay `f32`, as in llama.cpp's own files; rows that are not a multiple of the block size are
    /// stored as `f16`.
    #[must_use]
    pub fn of_tensor(self, name: &str, shape: &[usize]) -> Self {
        match (self, shape) {
            (_, [] | [_]) => Self::F32,
            _ if name == "position_embd.weight" => Self::F32,
            (Self::Q8, [.., columns]) if !columns.is_multiple_of(BLOCK) => Self::F16,
            _ => self,
        }
    }

    fn bytes(self, count: usize) -> u64 {
        match self {
            Self::F32 => 4 * count as u64,
            Self::F16 => 2 * count as u64,
            Self::Q8 => (count / BLOCK * (BLOCK + 2)) as u64,
        }
    }

    fn encode(self, values: &[f32], out: &mut Vec<u8>) {
        match self {
            Self::F32 => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
            Self::F16 => {
                for &value in values {
                    out.extend(f16::from_f32(value).to_le_bytes());
                }
            }
            Self::Q8 => {
                for block in values.chunks_exact(BLOCK) {
                    let largest = block.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
                    let scale = largest / 127.0;
                    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                    out.extend(f16::from_f32(scale).to_le_bytes());
                    out.extend(block.iter().map(|value| (value * inverse).round() as i8 as u8));
                }
            }
        }
    }
}

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    /// An unsigned number.
    Count(u32),
    /// A floating-point number.
    Real(f32),
    /// A boolean.
    Flag(bool),
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// Signed numbers.
    Numbers(Vec<i32>),
}

/// A tensor to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Its name in the file.
    pub name: String,
    /// Outermost first; the file has the reverse order.
    pub shape: Vec<usize>,
    /// How its values are stored.
    pub dtype: GgufType,
}

impl GgufTensor {
    fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A file whose header is written; its tensors follow, in any order.
#[derive(Debug)]
pub struct GgufFile {
    file: File,
    tensors: Vec<(GgufTensor, u64)>, // with their offsets
    values: Vec<u8>,
}

impl GgufFile {
    /// Writes the metadata and the descriptions of all tensors to a new file.
    pub fn create(
        path: &Path,
        metadata: &[(String, GgufValue)],
        tensors: Vec<GgufTensor>,
    ) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create_new(path)?);
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(tensors.len() as u64).to_le_bytes())?;
        out.write_all(&(metadata.len() as u64).to_le_bytes())?;
        for (key, value) in metadata {
            text(&mut out, key)?;
            write_value(&mut out, value)?;
        }
        let mut offset = 0;
        let mut placed = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            text(&mut out, &tensor.name)?;
            out.write_all(&(tensor.shape.len() as u32).to_le_bytes())?;
            for &size in tensor.shape.iter().rev() {
                out.write_all(&(size as u64).to_le_bytes())?;
            }
            out.write_all(&tensor.dtype.code().to_le_bytes())?;
            out.write_all(&u64::to_le_bytes(offset))?;
            let bytes = tensor.dtype.bytes(tensor.count());
            placed.push((tensor, offset));
            offset = (offset + bytes).next_multiple_of(ALIGNMENT);
        }
        let start = out.stream_position()?.next_multiple_of(ALIGNMENT);
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.set_len(start + offset)?; // zeros between tensors
        let tensors = placed.into_iter().map(|(tensor, at)| (tensor, start + at)).collect();
        Ok(Self { file, tensors, values: Vec::new() })
    }

    /// Writes the values of the tensor `name`.
    ///
    /// # Panics
    ///
    /// If there is no such tensor, or it has another number of values.
    pub fn write(&mut self, name: &str, values: &[f32]) -> io::Result<()> {
        let (tensor, at) = self
            .tensors
            .iter()
            .find(|(tensor, _)| tensor.name == name)
            .expect("a described tensor");
        assert_eq!(tensor.count(), values.len(), "`{name}`");
        self.file.seek(SeekFrom::Start(*at))?;
        // A megabyte at a time; a whole number of blocks.
        for part in values.chunks(1 << 18) {
            self.values.clear();
            tensor.dtype.encode(part, &mut self.values);
            self.file.write_all(&self.values)?;
        }
        Ok(())
    }

    /// Syncs the file to the disk.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn text(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(&(text.len() as u64).to_le_bytes())?;
    out.write_all(text.as_bytes())
}

fn write_value(out: &mut impl Write, value: &GgufValue) -> io::Result<()> {
    let array = |out: &mut dyn Write, kind: u32, len: usize| {
        out.write_all(&9_u32.to_le_bytes())?;
        out.write_all(&kind.to_le_bytes())?;
        out.write_all(&(len as u64).to_le_bytes())
    };
    match value {
        GgufValue::Count(value) => {
            out.write_all(&4_u32.to_le_bytes())?;
            out.write_all(&value.to_le_bytes())
        }
        GgufValue::Real(value) => {
            out.write_all(&6_u32.to_le_bytes())?;
            out.write_all(&value.to_le_bytes())
        }
        GgufValue::Flag(value) => {
            out.write_all(&7_u32.to_le_bytes())?;
            out.write_all(&[u8::from(*value)])
        }
        GgufValue::Text(value) => {
            out.write_all(&8_u32.to_le_bytes())?;
            text(out, value)
        }
        GgufValue::Texts(values) => {
            array(out, 8, values.len())?;
            values.iter().try_for_each(|value| text(out, value))
        }
        GgufValue::Numbers(values) => {
            array(out, 5, values.len())?;
            values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_eight_bits_keeps_values_within_half_a_step() {
        let values = (0..64).map(|i| ((i * 37 % 64) as f32 - 31.0) * 0.013).collect::<Vec<_>>();
        let mut bytes = Vec::new();
        GgufType::Q8.encode(&values, &mut bytes);
        assert_eq!(bytes.len() as u64, GgufType::Q8.bytes(64));
        for (block, stored) in values.chunks(32).zip(bytes.chunks(34)) {
            let scale = f16::from_le_bytes([stored[0], stored[1]]).to_f32();
            for (value, &byte) in block.iter().zip(&stored[2..]) {
                // Half a step of the exact scale, plus the error of rounding the scale to f16,
                // times 127.
                let error = (f32::from(byte as i8) * scale - value).abs();
                assert!(error <= scale * (0.5 + 127.0 / 2048.0), "{value}: {error}");
            }
        }
        bytes.clear();
        GgufType::Q8.encode(&[0.0; 32], &mut bytes);
        assert_eq!(bytes, [0; 34]);
    }

    #[test]
    fn vectors_positions_and_odd_rows_are_not_quantised() {
        let of = |name: &str, shape: &[usize]| GgufType::Q8.of_tensor(name, shape);
        assert_eq!(of("output_norm.weight", &[64]), GgufType::F32);
        assert_eq!(of("position_embd.weight", &[8, 64]), GgufType::F32);
        assert_eq!(of("token_embd.weight", &[8, 48]), GgufType::F16);
        assert_eq!(of("token_embd.weight", &[8, 64]), GgufType::Q8);
        assert_eq!(GgufType::F16.of_tensor("token_embd.weight", &[8, 48]), GgufType::F16);
    }
}
