//! Decompresses gzip and Zstandard, which are recognised by their first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes 1 to 3 of a skippable frame; byte 0 is 0x50 to 0x5f.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

const READ_BYTES: usize = 64 << 10;

/// The content of `source`, decompressed if needed. Reads its first bytes.
///
/// gzip takes 64 KiB of memory, Zstandard the window size of its frames, at most 100 MiB.
pub fn plain<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = BufReader::with_capacity(READ_BYTES, source);
    let first = loop {
        match source.fill_buf() {
            Ok(first) => break first,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    if is_gzip(first) {
        Ok(Box::new(GzipMembers { member: Some(GzDecoder::new(source)) }))
    } else if is_zstd(first) {
        Ok(Box::new(ZstdFrames::new(source)))
    } else {
        Ok(Box::new(source))
    }
}

/// Whether a file that begins with these bytes is compressed.
pub fn is_compressed(first: &[u8]) -> bool {
    is_gzip(first) || is_zstd(first)
}

fn is_gzip(first: &[u8]) -> bool {
    first.starts_with(&GZIP_MAGIC)
}

fn is_zstd(first: &[u8]) -> bool {
    first.starts_with(&ZSTD_MAGIC) || first.get(1..4) == Some(&ZSTD_SKIPPABLE)
}

/// The members of a file, one after the other, and the zeros that tapes and some tools put after them.
struct GzipMembers<R: BufRead> {
    /// `None` at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(bytes)?;
            if read > 0 || bytes.is_empty() {
                return Ok(read);
            }
            // The member has ended, and its checksum was compared.
            let mut source = self.member.take().expect("it was there").into_inner();
            if !is_at_end_after_zeros(&mut source)? {
                self.member = Some(GzDecoder::new(source));
            }
        }
        Ok(0)
    }
}

/// Whether nothing but zeros follows. Zeros before another member are an error, as in `gzip`.
fn is_at_end_after_zeros(source: &mut impl BufRead) -> io::Result<bool> {
    let mut has_zeros = false;
    loop {
        let next = source.fill_buf()?;
        if next.is_empty() {
            return Ok(true);
        }
        let zeros = next.iter().take_while(|byte| **byte == 0).count();
        has_zeros |= zeros > 0;
        let is_other = zeros < next.len();
        source.consume(zeros);
        if is_other && has_zeros {
            let what = "something follows the zeros after its end";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if is_other {
            return Ok(false);
        }
    }
}

/// The frames of a file, one after the other: `pzstd` and `cat` make files of several. A frame that
/// carries a checksum of its content is compared with it.
pub(super) struct ZstdFrames<R: BufRead> {
    source: R,
    decoder: FrameDecoder,
    is_inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_inside: false }
    }

    /// Ends a frame of which everything was read.
    fn end(&mut self) -> io::Result<()> {
        self.is_inside = false;
        // The first is none if the frame has no checksum.
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the content differs from its checksum",
            )),
            _ => Ok(()),
        }
    }

    /// Begins the next frame; `false` at the end.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => {
                    self.is_inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.source).take(length.into());
                    if io::copy(&mut skipped, &mut io::sink())? != u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if bytes.is_empty() || (!self.is_inside && !self.begin()?) {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let some = BlockDecodingStrategy::UptoBytes(bytes.len());
                if let Err(error) = self.decoder.decode_blocks(&mut self.source, some) {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
            match self.decoder.read(bytes)? {
                0 => self.end()?,
                read => return Ok(read),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        plain(bytes)?.read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn compressed_bytes_are_decompressed() {
        let text = "some words, and again some words\n".repeat(20_000);
        let text = text.as_bytes();
        assert_eq!(read(text).unwrap(), text);
        assert_eq!(read(&gzip(text)).unwrap(), text);
        assert_eq!(read(&zstd(text)).unwrap(), text);
        assert_eq!(read(b"").unwrap(), b"");
    }

    #[test]
    fn files_of_several_members_and_frames_are_read_to_their_end() {
        let skipped = [b"\x50\x2a\x4d\x18\x03\0\0\0".as_slice(), b"abc"].concat();
        let frames = [zstd(b"one "), skipped.clone(), zstd(b""), zstd(b"two")].concat();
        assert_eq!(read(&frames).unwrap(), b"one two");
        assert_eq!(read(&[skipped, zstd(b"three")].concat()).unwrap(), b"three");
        assert_eq!(read(&[gzip(b"one "), gzip(b"two")].concat()).unwrap(), b"one two");
    }

    #[test]
    fn zeros_after_a_gzip_file_are_padding_and_anything_else_is_an_error() {
        for zeros in [1, 3, 512, 200_000] {
            let padded = [gzip(b"one "), gzip(b"two"), vec![0; zeros]].concat();
            assert_eq!(read(&padded).unwrap(), b"one two", "{zeros}");
            assert!(read(&[padded, gzip(b"three")].concat()).is_err(), "{zeros}");
        }
        assert!(read(&[gzip(b"one"), b"garbage".to_vec()].concat()).is_err());
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let text = (0..5_000_u32).flat_map(|i| (i * i).to_le_bytes()).collect::<Vec<_>>();
        for bytes in [gzip(&text), zstd(&text)] {
            for end in [bytes.len() / 3, bytes.len() - 9, bytes.len() - 1] {
                assert!(read(&bytes[..end]).is_err(), "cut at {end} of {}", bytes.len());
            }
        }
        assert!(read(b"\x50\x2a\x4d\x18\x09\0\0\0abc").is_err());
    }

    #[test]
    fn a_flipped_bit_in_a_file_with_a_checksum_is_found() {
        let text = (0..400).map(|i| (i * i).to_string()).collect::<Vec<_>>().join(" words, ");
        let whole = zstd(text.as_bytes());
        let is_flagged = whole[4] & 0b100 != 0;
        assert!(is_flagged, "the encoder writes no checksum");
        // Past the header, whose window size may be larger than the text needs.
        for at in 8..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            let read = read(&changed);
            assert!(read.is_err() || read.unwrap() == text.as_bytes(), "byte {at}");
        }
    }

    #[test]
    fn a_corrupted_file_gives_bytes_or_an_error_and_never_a_panic() {
        let text = b"some words, and again some words".repeat(50);
        for whole in [gzip(&text), zstd(&text)] {
            for at in 0..whole.len() {
                for change in [1, 0x80, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] ^= change;
                    let _ = read(&changed);
                }
            }
        }
    }
}
