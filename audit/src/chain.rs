//! Hash chain over the lines of the audit log.
//!
//! The hash of a line is SHA-256 over the hash of the line before and the line without its own hash.

use std::fmt::Write;

use aws_lc_rs::digest::{Context, SHA256};
use serde::Serialize;

use crate::event::AuditEvent;

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

    /// Appends an event as the next line, with its line feed.
    pub(crate) fn append(&mut self, mut event: AuditEvent, to: &mut Vec<u8>) {
        event.seq = self.seq + 1;
        event.hash = None;
        let begin = to.len();
        if event
            .serialize(&mut serde_json::Serializer::new(&mut *to))
            .is_err()
        {
            // Only a failing writer causes an error, and a vector never fails.
            to.truncate(begin);
            return;
        }
        let hash = hash(&self.hash, to.get(begin..).unwrap_or_default());
        to.pop(); // the closing brace
        to.extend(HASH_MEMBER.as_bytes());
        to.extend(hex(&hash).as_bytes());
        to.extend(b"\"}\n");
        self.seq = event.seq;
        self.hash = hash;
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
    let mut text = String::with_capacity(64);
    for byte in hash {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
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
