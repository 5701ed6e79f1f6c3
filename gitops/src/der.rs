//! Reads the two numbers of an RSA public key from DER (RFC 8017, A.1.1): `SEQUENCE { INTEGER n, INTEGER e }`.

const INTEGER_TAG: u8 = 0x02;
const SEQUENCE_TAG: u8 = 0x30;
/// Flag of a length that is written in several bytes.
const LONG_LENGTH: u8 = 0x80;
/// Maximum number of bytes of a length.
const MAX_LENGTH_BYTES: usize = 4;

/// Modulus and exponent, big-endian; `None` for anything else.
pub(crate) fn rsa_public_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (numbers, rest) = element(SEQUENCE_TAG, der)?;
    let (modulus, numbers) = element(INTEGER_TAG, numbers)?;
    let (exponent, end) = element(INTEGER_TAG, numbers)?;
    (rest.is_empty() && end.is_empty()).then_some((modulus, exponent))
}

/// Content of the first element, which has the type `tag`, and the bytes behind it.
fn element(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    if first < LONG_LENGTH {
        return rest.split_at_checked(usize::from(first));
    }
    let count = usize::from(first ^ LONG_LENGTH);
    if count > MAX_LENGTH_BYTES {
        return None;
    }
    let (length, rest) = rest.split_at_checked(count)?;
    let length = length
        .iter()
        .fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_key_are_read_and_other_bytes_refused() {
        let good = [0x30, 7, 2, 2, 0, 0x99, 2, 1, 3];
        assert_eq!(rsa_public_key(&good), Some((&[0, 0x99][..], &[3][..])));
        let long = [0x30, 0x81, 7, 2, 2, 0, 0x99, 2, 1, 3];
        assert!(rsa_public_key(&long).is_some());
        for end in 0..good.len() {
            assert_eq!(rsa_public_key(&good[..end]), None, "{end} bytes");
        }
        let more = [&good[..], &[0]].concat();
        assert_eq!(rsa_public_key(&more), None);
        assert_eq!(rsa_public_key(&[0x30, 0xff, 1]), None);
    }
}
