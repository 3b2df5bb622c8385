//! Thrift's compact protocol, as far as Parquet's metadata needs it.
//!
//! Reads from a byte slice: every length is checked against the remaining bytes, nothing is
//! allocated except by the caller, and nesting has a limit.

/// Invalid bytes, and their offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThriftError {
    /// The offset in the slice.
    pub(super) at: usize,
}

/// Structures inside structures: Parquet's are six deep.
const DEPTH_LIMIT: u32 = 32;

/// The types of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    True,
    False,
    Integer, // of 16, 32 or 64 bits
    Binary,
    List,
    Struct,
    /// Bytes, doubles, sets and maps: Parquet's metadata has them in places that are skipped.
    Other(u8),
}

impl FieldType {
    fn of(code: u8) -> Self {
        match code {
            1 => Self::True,
            2 => Self::False,
            4..=6 => Self::Integer,
            8 => Self::Binary,
            9 => Self::List,
            12 => Self::Struct,
            code => Self::Other(code),
        }
    }
}

/// A position in some bytes.
#[derive(Clone, Debug)]
pub(super) struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

impl<'a> Compact<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// How many bytes were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn damaged<T>(&self) -> Result<T, ThriftError> {
        Err(ThriftError { at: self.at })
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        let Some(&byte) = self.bytes.get(self.at) else { return self.damaged() };
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.damaged()
    }

    pub(super) fn integer(&mut self) -> Result<i64, ThriftError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn binary(&mut self) -> Result<&'a [u8], ThriftError> {
        let len = self.varint()?;
        let rest = &self.bytes[self.at..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => self.damaged(),
        }
    }

    /// Reads a list: `each` reads one element. An element takes at least a byte, so a wrong length
    /// soon reaches the end of the bytes.
    pub(super) fn list(
        &mut self,
        mut each: impl FnMut(&mut Self, FieldType) -> Result<(), ThriftError>,
    ) -> Result<(), ThriftError> {
        let header = self.byte()?;
        let len = match header >> 4 {
            15 => self.varint()?,
            len => u64::from(len),
        };
        if len > (self.bytes.len() - self.at) as u64 {
            return self.damaged();
        }
        let element = FieldType::of(header & 15);
        self.deeper(|this| {
            for _ in 0..len {
                each(this, element)?;
            }
            Ok(())
        })
    }

    /// Reads a structure: `each` is given every field, and reads it or calls [`Self::skip`].
    pub(super) fn structure(
        &mut self,
        mut each: impl FnMut(&mut Self, i16, FieldType) -> Result<(), ThriftError>,
    ) -> Result<(), ThriftError> {
        self.deeper(|this| {
            let mut id = 0_i16;
            loop {
                let header = this.byte()?;
                if header == 0 {
                    return Ok(());
                }
                let delta = i16::from(header >> 4);
                let next = if delta == 0 {
                    i16::try_from(this.integer()?).ok()
                } else {
                    id.checked_add(delta)
                };
                let Some(next) = next else { return this.damaged() };
                id = next;
                each(this, id, FieldType::of(header & 15))?;
            }
        })
    }

    /// Skips a field or an element of a list.
    pub(super) fn skip(&mut self, field: FieldType) -> Result<(), ThriftError> {
        match field {
            FieldType::True | FieldType::False => Ok(()),
            FieldType::Integer => self.integer().map(|_| ()),
            FieldType::Binary => self.binary().map(|_| ()),
            // A set has the format of a list.
            FieldType::List | FieldType::Other(10) => self.list(Self::skip_element),
            FieldType::Struct => self.structure(|this, _, field| this.skip(field)),
            FieldType::Other(3) => self.byte().map(|_| ()),
            FieldType::Other(7) => (0..8).try_for_each(|_| self.byte().map(|_| ())),
            FieldType::Other(_) => self.damaged(),
        }
    }

    /// A boolean takes a byte in a list and none in a structure.
    fn skip_element(&mut self, element: FieldType) -> Result<(), ThriftError> {
        match element {
            FieldType::True | FieldType::False => self.byte().map(|_| ()),
            element => self.skip(element),
        }
    }

    fn deeper(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<(), ThriftError>,
    ) -> Result<(), ThriftError> {
        if self.depth == DEPTH_LIMIT {
            return self.damaged();
        }
        self.depth += 1;
        inside(self)?;
        self.depth -= 1;
        Ok(())
    }
}
