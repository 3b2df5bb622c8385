//! Messages that travel while the program does something else. The transport owns their memory
//! until they have arrived.

/// A message to or from another rank. Its memory is aligned for numbers of any type.
#[derive(Debug, Default)]
pub struct RankMessage {
    /// The other rank.
    pub rank: usize,
    words: Vec<u64>,
    length: usize,
}

impl RankMessage {
    /// An empty message with memory for `most` bytes.
    pub fn with_capacity(rank: usize, most: usize) -> Self {
        Self { rank, words: vec![0; most.div_ceil(8)], length: 0 }
    }

    /// A copy of `bytes`.
    pub(super) fn of(rank: usize, bytes: &[u8]) -> Self {
        let mut message = Self::with_capacity(rank, bytes.len());
        message.resize(bytes.len());
        message.bytes_mut().copy_from_slice(bytes);
        message
    }

    /// Sets the number of bytes. An empty message is not sent.
    pub fn resize(&mut self, length: usize) {
        assert!(length <= 8 * self.words.len(), "a message never grows");
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
    /// Messages to other ranks.
    pub sends: Vec<RankMessage>,
    /// Messages from other ranks, with the lengths that those send.
    pub receives: Vec<RankMessage>,
}

#[cfg(any(feature = "simulated", test))]
impl Exchange {
    /// With whom, and whether numbers or more: `to 1 2 (number), from 1 2 (number)`.
    pub(super) fn pattern(&self) -> String {
        let part = |word: &str, messages: &[RankMessage]| {
            let messages = messages.iter().filter(|one| !one.bytes().is_empty());
            let ranks: Vec<_> = messages.clone().map(|one| one.rank.to_string()).collect();
            let is_number = messages.clone().all(|one| one.bytes().len() == size_of::<u64>());
            let size = if is_number { "number" } else { "bytes" };
            (!ranks.is_empty()).then(|| format!("{word} {} ({size})", ranks.join(" ")))
        };
        let parts = [part("to", &self.sends), part("from", &self.receives)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
