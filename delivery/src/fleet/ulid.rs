//! Ids of runs as 16 bytes.

use fairlead_api::RunId;

/// Crockford's alphabet.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Number of characters of a ULID.
const ULID_CHARS: u32 = 26;

/// The ULID of a run.
pub(super) fn bytes_of(run: &RunId) -> [u8; 16] {
    let text = run.as_str().strip_prefix(RunId::PREFIX).unwrap_or_default();
    let digit = |c: u8| ALPHABET.iter().position(|it| *it == c).unwrap_or(0) as u128;
    let number = text
        .bytes()
        .fold(0u128, |number, c| (number << 5) | digit(c));
    number.to_be_bytes()
}

/// The run of a ULID; `None` for zero.
pub(super) fn run_of(bytes: &[u8; 16]) -> Option<RunId> {
    let number = u128::from_be_bytes(*bytes);
    if number == 0 {
        return None;
    }
    let mut text = String::with_capacity(30);
    text.push_str(RunId::PREFIX);
    for place in (0..ULID_CHARS).rev() {
        let digit = usize::try_from((number >> (5 * place)) & 31).unwrap_or(0);
        text.push(ALPHABET.get(digit).copied().map_or('0', char::from));
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_returns_from_its_bytes() {
        for text in [
            "run-01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "run-7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "run-00000000000000000000000001",
        ] {
            let run: RunId = text.parse().unwrap();
            assert_eq!(run_of(&bytes_of(&run)), Some(run));
        }
        assert_eq!(run_of(&[0; 16]), None);
    }
}
