//! Texts that need no escape between quotes, judged eight bytes at a time.

const WORD_BYTES: usize = 8;
/// The lowest bit of each byte.
const LOW_BITS: u64 = u64::MAX / 0xff;
/// The highest bit of each byte.
const HIGH_BITS: u64 = LOW_BITS << 7;

/// True if JSON needs no escape for the text: no control character, quote or backslash.
#[must_use]
pub fn is_unescaped(text: &str) -> bool {
    every_word(text.as_bytes(), |word| {
        !(has_below(word, b' ') || has(word, b'"') || has(word, b'\\'))
    })
}

/// True for printable ASCII without quotes and backslashes.
#[must_use]
pub fn is_printable(text: &str) -> bool {
    every_word(text.as_bytes(), |word| {
        word & HIGH_BITS == 0
            && !(has_below(word, b' ') || has(word, b'"') || has(word, b'\\') || has(word, 0x7f))
    })
}

/// Judges all bytes in words; those behind the last whole one with the bytes before them, or with spaces.
fn every_word(bytes: &[u8], fits: impl Fn(u64) -> bool) -> bool {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    let fit = words.iter().all(|it| fits(u64::from_ne_bytes(*it)));
    if !fit || rest.is_empty() {
        return fit;
    }
    let last = bytes.last_chunk::<WORD_BYTES>().copied();
    fits(u64::from_ne_bytes(last.unwrap_or_else(|| padded(rest))))
}

fn padded(rest: &[u8]) -> [u8; WORD_BYTES] {
    let mut word = [b' '; WORD_BYTES];
    for (place, byte) in word.iter_mut().zip(rest) {
        *place = *byte;
    }
    word
}

/// Whether a byte of the word is this one.
const fn has(word: u64, byte: u8) -> bool {
    let different = word ^ (LOW_BITS * byte as u64);
    different.wrapping_sub(LOW_BITS) & !different & HIGH_BITS != 0
}

/// Whether a byte of the word is below this one, which is at most 128.
const fn has_below(word: u64, byte: u8) -> bool {
    word.wrapping_sub(LOW_BITS * byte as u64) & !word & HIGH_BITS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_judged_as_byte_by_byte() {
        let escaped = |it: u8| it < b' ' || it == b'"' || it == b'\\';
        let printable = |it: u8| (b' '..=b'~').contains(&it) && !escaped(it);
        for length in 0..20 {
            for at in 0..length {
                for character in ('\0'..='\u{120}').chain(['\u{7ff}', '\u{20ac}']) {
                    let mut text = "a".repeat(at);
                    text.push(character);
                    text.push_str(&"~".repeat(length - at));
                    assert_eq!(is_unescaped(&text), !text.bytes().any(escaped), "{text:?}");
                    assert_eq!(is_printable(&text), text.bytes().all(printable), "{text:?}");
                }
            }
        }
        assert!(is_unescaped("") && is_printable(""));
    }
}
