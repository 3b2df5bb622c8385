//! Messages that are on their way while the program does something else: their memory belongs to
//! the transport until they have arrived.

/// A message to or from another rank. Its memory is aligned for numbers of any type.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The other rank.
    pub rank: usize,
    words: Vec<u64>,
    length: usize,
}

impl Parcel {
    /// An empty one with memory for `most` bytes.
    pub fn with_capacity(rank: usize, most: usize) -> Self {
        Self { rank, words: vec![0; most.div_ceil(8)], length: 0 }
    }

    /// A copy of `bytes`.
    pub(super) fn of(rank: usize, bytes: &[u8]) -> Self {
        let mut parcel = Self::with_capacity(rank, bytes.len());
        parcel.resize(bytes.len());
        parcel.bytes_mut().copy_from_slice(bytes);
        parcel
    }

    /// Sets the number of bytes. An empty parcel is not sent.
    pub fn resize(&mut self, length: usize) {
        assert!(length <= 8 * self.words.len(), "a parcel never grows");
        self.length = length;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }

    /// As numbers.
    pub fn floats(&self) -> &[f32] {
        bytemuck::cast_slice(self.bytes())
    }

    /// As numbers.
    pub fn floats_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }
}

/// What a rank sends and receives at the same time.
#[derive(Debug, Default)]
pub struct Exchange {
    /// To others.
    pub sends: Vec<Parcel>,
    /// From others, with the lengths that these send.
    pub receives: Vec<Parcel>,
}
