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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_unreserved_bytes_are_encoded() {
        assert_eq!(encode("aZ09-._~"), "aZ09-._~");
        assert_eq!(encode("a b/c?d=é&%+"), "a%20b%2Fc%3Fd%3D%C3%A9%26%25%2B");
    }
}
