//! Hash chain over the lines of the audit log.
//!
//! The hash of a line is SHA-256 over the hash of the line before and the line without its own hash.

use aws_lc_rs::digest::{Context, SHA256};

use crate::{
    event::AuditEvent,
    line::{begin_line, encode_event},
};

/// Hash of a line.
pub type LineHash = [u8; 32];

/// Hash before the first line of a chain.
pub(crate) const GENESIS: LineHash = [0; 32];

/// Begin of the last member of each line.
const HASH_MEMBER: &str = ",\"hash\":\"";

/// End of a chain: the next line follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    /// Number of the last line; 0 if there is none.
    pub(crate) seq: u64,
    pub(crate) hash: LineHash,
}

impl ChainEnd {
    pub(crate) const EMPTY: ChainEnd = ChainEnd {
        seq: 0,
        hash: GENESIS,
    };

    /// Appends an encoded event as the next line, with its line feed.
    pub(crate) fn append_encoded(&mut self, encoded: &[u8], to: &mut Vec<u8>) {
        let begin = to.len();
        self.seq += 1;
        begin_line(self.seq, to);
        to.extend_from_slice(encoded);
        to.push(b'}');
        self.hash = hash(&self.hash, to.get(begin..).unwrap_or_default());
        to.pop(); // the closing brace
        to.extend_from_slice(HASH_MEMBER.as_bytes());
        to.extend_from_slice(&hex_digits(&self.hash));
        to.extend_from_slice(b"\"}\n");
    }

    /// Appends an event as the next line, with its line feed.
    pub(crate) fn append(&mut self, event: AuditEvent, to: &mut Vec<u8>) {
        let mut encoded = Vec::new();
        encode_event(event, &mut encoded);
        self.append_encoded(&encoded, to);
    }
}

/// Hash of a line, given the hash before it and the line without its own hash.
pub(crate) fn hash(before: &LineHash, canonical: &[u8]) -> LineHash {
    let mut context = Context::new(&SHA256);
    context.update(before);
    context.update(canonical);
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Splits a line without its line feed into the canonical line and its hash.
pub(crate) fn split(line: &[u8]) -> Option<(Vec<u8>, LineHash)> {
    let at = line.len().checked_sub(HASH_MEMBER.len() + 64 + 2)?;
    let (body, tail) = line.split_at_checked(at)?;
    let tail = std::str::from_utf8(tail).ok()?;
    let digits = tail.strip_prefix(HASH_MEMBER)?.strip_suffix("\"}")?;
    let mut canonical = body.to_vec();
    canonical.push(b'}');
    Some((canonical, unhex(digits)?))
}

/// Hash as hexadecimal digits.
#[must_use]
pub fn hex(hash: &LineHash) -> String {
    hex_digits(hash).into_iter().map(char::from).collect()
}

fn hex_digits(hash: &LineHash) -> [u8; 64] {
    let digit = |value: u8| value + if value < 10 { b'0' } else { b'a' - 10 };
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(hash) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
    }
    digits
}

/// Hash from hexadecimal digits.
#[must_use]
pub fn unhex(text: &str) -> Option<LineHash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_hashes_the_line_before_it() {
        let mut end = ChainEnd::EMPTY;
        let mut text = Vec::new();
        end.append(AuditEvent::default(), &mut text);
        end.append(AuditEvent::default(), &mut text);
        let lines: Vec<_> = text.split(|&byte| byte == b'\n').collect();
        let (first, first_hash) = split(lines[0]).unwrap();
        let (second, second_hash) = split(lines[1]).unwrap();
        assert_eq!(hash(&GENESIS, &first), first_hash);
        assert_eq!(hash(&first_hash, &second), second_hash);
        assert_eq!((end.seq, end.hash), (2, second_hash));
        assert_eq!(unhex(&hex(&second_hash)), Some(second_hash));
        let event: AuditEvent = serde_json::from_slice(lines[1]).unwrap();
        assert_eq!(event.hash, Some(hex(&second_hash)));
        assert_eq!(split(b"{}"), None);
        assert_eq!(split(&[b'x'; 200]), None);
    }
}
