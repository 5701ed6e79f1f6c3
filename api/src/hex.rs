//! Bytes as lower-case hexadecimal text.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Encodes bytes as lower-case hexadecimal digits.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let digit = |value: u8| {
        DIGITS
            .get(usize::from(value))
            .copied()
            .map_or('0', char::from)
    };
    let pairs = bytes
        .iter()
        .map(|byte| [digit(byte >> 4), digit(byte & 0xf)]);
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(pairs.flatten());
    text
}

/// Decodes exactly `N` bytes; `None` for any other text.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|it| u8::try_from(it).ok())
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_and_other_text_is_rejected() {
        let bytes = [0x00, 0x0f, 0xa9, 0xff];
        assert_eq!(encode(&bytes), "000fa9ff");
        assert_eq!(decode("000fa9ff"), Some(bytes));
        assert_eq!(decode("000FA9FF"), Some(bytes));
        for bad in [
            "",
            "000fa9f",
            "000fa9ff0",
            "000fa9fg",
            "+00fa9ff",
            "000fa9é",
        ] {
            assert_eq!(decode::<4>(bad), None, "{bad}");
        }
    }
}
