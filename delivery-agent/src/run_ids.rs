//! Ids of runs that the agent makes: `run-` and a ULID.

use fairlead_api::RunId;
use time::OffsetDateTime;

/// Alphabet of Crockford's base 32.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Characters of a ULID.
const ULID_CHARS: u32 = 26;

/// A new id. It is unique, and later ones are larger.
#[must_use]
pub fn new_run_id(now: OffsetDateTime) -> RunId {
    let millis = now.unix_timestamp_nanos() / 1_000_000;
    let mut random = [0; 16];
    // Without a source of random bytes the time alone must do; the journal refuses a second run with the same id.
    let _ = getrandom::fill(&mut random);
    let millis = u128::try_from(millis).unwrap_or_default() & 0xFFFF_FFFF_FFFF;
    let random = u128::from_le_bytes(random) & ((1 << 80) - 1);
    let value = (millis << 80) | random;
    let digit = |place: u32| {
        let at = usize::try_from((value >> (5 * place)) & 31).unwrap_or_default();
        char::from(DIGITS.get(at).copied().unwrap_or(b'0'))
    };
    let ulid: String = (0..ULID_CHARS).rev().map(digit).collect();
    format!("{}{ulid}", RunId::PREFIX)
        .parse()
        .unwrap_or_else(|_| unreachable!("26 digits, and the first one has 3 bits at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ids_are_larger_and_carry_their_time() {
        let at = |millis: i64| OffsetDateTime::from_unix_timestamp(millis).unwrap();
        let (first, second) = (new_run_id(at(1_800_000_000)), new_run_id(at(1_800_000_001)));
        assert!(first.as_str() < second.as_str());
        // 1,469,918,176,385 ms is the example of the ULID specification.
        let time = OffsetDateTime::from_unix_timestamp_nanos(1_469_918_176_385_000_000).unwrap();
        assert!(new_run_id(time).as_str().starts_with("run-01ARYZ6S41"));
        assert_ne!(new_run_id(time), new_run_id(time));
    }
}
