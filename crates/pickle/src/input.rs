//! Buffered input that counts the bytes it has consumed.

use std::io::{self, Read};

use crate::PickleError;

const BUFFER_BYTES: usize = 1 << 16;

/// A buffered reader and its position.
pub(crate) struct ByteStream<R> {
    reader: R,
    buffer: Vec<u8>,
    next: usize,
    consumed: usize,
}

impl<R: Read> ByteStream<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::with_capacity(BUFFER_BYTES), next: 0, consumed: 0 }
    }

    /// Number of bytes consumed.
    pub(crate) fn position(&self) -> usize {
        self.consumed
    }

    /// Refills the buffer if it is empty; false at the end of the input.
    fn refill(&mut self) -> Result<bool, PickleError> {
        if self.next < self.buffer.len() {
            return Ok(true);
        }
        self.buffer.resize(BUFFER_BYTES, 0);
        self.next = 0;
        let count = loop {
            match self.reader.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(*count.as_ref().unwrap_or(&0));
        Ok(count? > 0)
    }

    fn cut_off(&self) -> PickleError {
        PickleError::CutOff { length: self.consumed + self.buffer.len() - self.next }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, PickleError> {
        if !self.refill()? {
            return Err(self.cut_off());
        }
        let byte = self.buffer[self.next];
        self.next += 1;
        self.consumed += 1;
        Ok(byte)
    }

    /// Appends `count` bytes to `into`. Memory grows only as bytes arrive, so a wrong length in the
    /// file is an error, not a large allocation.
    pub(crate) fn take(&mut self, count: u64, into: &mut Vec<u8>) -> Result<(), PickleError> {
        let mut missing = count;
        while missing > 0 {
            if !self.refill()? {
                return Err(self.cut_off());
            }
            let here =
                (self.buffer.len() - self.next).min(usize::try_from(missing).unwrap_or(usize::MAX));
            into.extend_from_slice(&self.buffer[self.next..self.next + here]);
            self.next += here;
            self.consumed += here;
            missing -= here as u64;
        }
        Ok(())
    }

    /// Skips `count` bytes.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), PickleError> {
        let mut missing = count;
        while missing > 0 {
            if !self.refill()? {
                return Err(self.cut_off());
            }
            let here =
                (self.buffer.len() - self.next).min(usize::try_from(missing).unwrap_or(usize::MAX));
            self.next += here;
            self.consumed += here;
            missing -= here as u64;
        }
        Ok(())
    }

    /// Reads a line, without its end.
    pub(crate) fn line(&mut self, into: &mut Vec<u8>) -> Result<(), PickleError> {
        loop {
            match self.byte()? {
                b'\n' => return Ok(()),
                byte => into.push(byte),
            }
        }
    }

    /// A little-endian number of up to eight bytes.
    pub(crate) fn unsigned(&mut self, width: usize) -> Result<u64, PickleError> {
        let mut number = 0;
        for index in 0..width {
            number |= u64::from(self.byte()?) << (8 * index);
        }
        Ok(number)
    }

    /// Counts the remaining bytes.
    pub(crate) fn rest(&mut self) -> Result<usize, PickleError> {
        let start = self.consumed;
        while self.refill()? {
            self.consumed += self.buffer.len() - self.next;
            self.next = self.buffer.len();
        }
        Ok(self.consumed - start)
    }
}
