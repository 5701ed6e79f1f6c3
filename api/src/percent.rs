//! Percent-encoding of text in URLs (RFC 3986, section 2.1).

use crate::hex;

/// Encodes all bytes but the unreserved ones, so that the text may stand in a path segment or in a query.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&hex::encode(&[byte]).to_ascii_uppercase());
        }
    }
    encoded
}

/// Decodes all escapes; `None` if one lacks its two hexadecimal digits.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        decoded.extend(hex::decode::<1>(digits)?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_unreserved_bytes_are_encoded() {
        assert_eq!(encode("aZ09-._~"), "aZ09-._~");
        assert_eq!(encode("a b/c?d=é&%+"), "a%20b%2Fc%3Fd%3D%C3%A9%26%25%2B");
    }

    #[test]
    fn escapes_are_decoded_and_broken_ones_rejected() {
        for text in ["", "aZ09-._~", "a b/c?d=é&%+", "%%41"] {
            assert_eq!(decode(&encode(text)), Some(text.as_bytes().to_vec()));
        }
        assert_eq!(decode("%ff%4Aé"), Some(b"\xff\x4a\xc3\xa9".to_vec()));
        for broken in ["%", "a%4", "%zz", "%é", "%4%41"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
