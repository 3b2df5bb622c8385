//! A connection in memory, to a client that has sent everything at once.

use std::{
    cell::{Cell, RefCell},
    fmt, io,
    time::Duration,
};

use super::http::Wire;

/// After this much the client is gone: a stream of events has no end.
const MAX_WRITTEN_BYTES: usize = 4 << 20;

/// Bytes that a client sends, and those that were written to it.
pub(super) struct MemoryWire<'a> {
    sent: Cell<&'a [u8]>,
    written: RefCell<Vec<u8>>,
}

impl<'a> MemoryWire<'a> {
    /// A client that sends these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { sent: Cell::new(bytes), written: RefCell::default() }
    }

    /// What was written.
    pub(super) fn into_written(self) -> Vec<u8> {
        self.written.into_inner()
    }
}

impl fmt::Debug for MemoryWire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryWire({} bytes left)", self.sent.get().len())
    }
}

impl Wire for MemoryWire<'_> {
    fn read(&self, bytes: &mut [u8], _: Duration) -> io::Result<usize> {
        let sent = self.sent.get();
        let (now, later) = sent.split_at(sent.len().min(bytes.len()));
        bytes[..now.len()].copy_from_slice(now);
        self.sent.set(later);
        Ok(now.len())
    }

    fn write(&self, bytes: &[u8], _: Duration) -> io::Result<usize> {
        let mut written = self.written.borrow_mut();
        if written.len() >= MAX_WRITTEN_BYTES {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}
