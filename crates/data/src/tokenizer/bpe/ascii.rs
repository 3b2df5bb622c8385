//! Finds the words in 64 bytes at once, as far as they are ASCII.
//!
//! Each class of characters is a mask with one bit per byte, and where words start is a few
//! operations on the masks: no loop and no branch per character.

/// How many bytes are looked at.
pub(super) const WINDOW_BYTES: usize = 64;

/// A bit for each byte of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Masks {
    letters: u64,
    digits: u64,
    /// White space, blanks included.
    spaces: u64,
    blanks: u64,
    apostrophes: u64,
    /// Bytes of characters that are not ASCII.
    high: u64,
}

/// A bit for each byte at which a word of GPT-2's pattern starts, given that one starts at byte 0.
///
/// The last bytes, and those from one before the first that is not ASCII, have no bit: what starts
/// there depends on what follows.
#[inline]
pub(super) fn word_starts(window: &[u8; WINDOW_BYTES]) -> u64 {
    let Masks { letters, digits, spaces, blanks, apostrophes, high } = masks(window);
    let others = !(letters | digits | spaces);
    let continues = letters & letters << 1 | digits & digits << 1 | others & others << 1;
    // A run of white space is a word without its last character, which is a word too or, if it is
    // a blank, the start of the next one.
    let of_spaces = spaces & !(spaces << 1 & spaces >> 1);
    let mut starts = of_spaces | !(spaces | continues | blanks << 1);
    // A contraction is a word that its apostrophe starts.
    let mut candidates = starts & apostrophes & letters >> 1 & ((1 << LAST_BITS) - 1);
    while candidates != 0 {
        let at = candidates.trailing_zeros() as usize;
        let n = super::split::contraction(&window[at + 1..]);
        if n > 0 {
            starts = starts & !(2 << at) | 2 << (at + n);
        }
        candidates &= candidates - 1;
    }
    let known = if high == 0 { LAST_BITS } else { high.trailing_zeros().saturating_sub(1) };
    starts & ((1 << known.min(LAST_BITS)) - 1)
}

/// A contraction and the start of the word after it are within the window if it starts at one of
/// these bytes.
const LAST_BITS: u32 = WINDOW_BYTES as u32 - 3;

/// Looks at eight bytes at once, in a number. The intrinsics of SSE2 would need
/// unsafe code.
#[inline]
fn masks(window: &[u8; WINDOW_BYTES]) -> Masks {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x80 * ONES;
    const BLANKS: u64 = 0x20 * ONES;

    // The top bit of each byte, of which the other seven are at least `least`, at most 128.
    let from = |sevens: u64, least: u64| sevens + (128 - least) * ONES;
    let mut masks = Masks { letters: 0, digits: 0, spaces: 0, blanks: 0, apostrophes: 0, high: 0 };
    let (chunks, _) = window.as_chunks::<8>();
    for (i, chunk) in chunks.iter().enumerate() {
        let bytes = u64::from_le_bytes(*chunk);
        let ascii = !bytes & TOPS;
        let sevens = bytes & !TOPS;
        let between = |sevens: u64, first: u8, last: u8| {
            from(sevens, first.into()) & !from(sevens, u64::from(last) + 1) & ascii
        };
        // The top bits of eight bytes, side by side in the last byte of the product.
        let bits = |tops: u64| ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        let blanks = between(sevens, b' ', b' ');
        masks.letters |= bits(between(sevens | BLANKS, b'a', b'z'));
        masks.digits |= bits(between(sevens, b'0', b'9'));
        masks.spaces |= bits(blanks | between(sevens, b'\t', b'\r'));
        masks.blanks |= bits(blanks);
        masks.apostrophes |= bits(between(sevens, b'\'', b'\''));
        masks.high |= bits(bytes & TOPS);
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::bpe::classes::{CharClass, CharClasses};

    #[test]
    fn every_byte_at_every_position_is_in_the_masks_of_its_class() {
        let classes = CharClasses::get();
        for byte in 0..=u8::MAX {
            for at in 0..WINDOW_BYTES {
                let mut window = [b'?'; WINDOW_BYTES];
                window[at] = byte;
                let is = |found: bool| u64::from(found) << at;
                let class = byte.is_ascii().then(|| classes.of(char::from(byte)));
                let expected = Masks {
                    letters: is(class == Some(CharClass::Letter)),
                    digits: is(class == Some(CharClass::Number)),
                    spaces: is(class == Some(CharClass::Space)),
                    blanks: is(byte == b' '),
                    apostrophes: is(byte == b'\''),
                    high: is(!byte.is_ascii()),
                };
                assert_eq!(masks(&window), expected, "{byte} at {at}");
            }
        }
    }

    #[test]
    fn words_start_where_the_rules_for_single_characters_say() {
        let classes = CharClasses::get();
        let letters = b"aZ s t re've'll'd'm0 9\n\t  .,-''\xc3";
        for index in 0..20_000 {
            let draw = |i| crate::counter::draw([index, i]) as usize;
            // Some windows have few kinds of characters, so that runs are long.
            let letters = &letters[..=draw(99) % letters.len()];
            let text: [u8; 2 * WINDOW_BYTES] =
                std::array::from_fn(|i| match letters[draw(i as u64) % letters.len()] {
                    0xc3 => b'a',
                    byte => byte,
                });
            let starts = word_starts(text.first_chunk().unwrap());
            let (mut expected, mut at) = (0, 0);
            while at < LAST_BITS as usize {
                expected |= 1 << at;
                at = classes.word_end(&text, at);
            }
            assert_eq!(starts, expected, "{:?}", text.escape_ascii().to_string());
        }
    }
}
