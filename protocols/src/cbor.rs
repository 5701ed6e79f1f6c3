//! Sequences of CBOR items (RFC 8742), the form of a watch as `application/cbor-seq`: their boundaries, and an item made of
//! JSON.

use serde_json::Value;

/// Tag 55799 of self-described CBOR (RFC 8949, section 3.4.6). Kubernetes puts it before each object.
const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];
/// Depth of nested items; one within another is lost beyond it.
const MAX_DEPTH: usize = 512;

/// Major types (RFC 8949, section 3.1).
const UNSIGNED_TYPE: u8 = 0;
const NEGATIVE_TYPE: u8 = 1;
const BYTE_STRING_TYPE: u8 = 2;
const TEXT_STRING_TYPE: u8 = 3;
const ARRAY_TYPE: u8 = 4;
const MAP_TYPE: u8 = 5;
const TAG_TYPE: u8 = 6;
/// Lowest five bits of an item of indefinite length, and of its end.
const INDEFINITE_LENGTH: u8 = 31;

/// Position in a sequence of items.
#[derive(Debug, Default)]
pub(crate) struct CborSequence {
    /// First byte of the current item, while its argument comes.
    initial: Option<u8>,
    argument: u64,
    /// Bytes of the argument that are still to come.
    argument_left: u8,
    /// Bytes of the current string that are still to come.
    string_left: u64,
    /// Items that each open array, map or tag still expects; `None` until a break.
    open: Vec<Option<u64>>,
    /// The sequence is malformed or too deep: its boundaries are unknown.
    is_lost: bool,
}

impl CborSequence {
    /// True between two items.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.initial.is_none() && self.string_left == 0 && self.open.is_empty() && !self.is_lost
    }

    /// Advances by `bytes`.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.is_lost {
                return;
            }
            if self.string_left > 0 {
                let left = usize::try_from(self.string_left).unwrap_or(usize::MAX);
                let now = left.min(bytes.len());
                self.string_left -= now as u64;
                bytes = bytes.get(now..).unwrap_or_default();
                if self.string_left == 0 {
                    self.end_item();
                }
                continue;
            }
            bytes = rest;
            match self.initial {
                None => self.begin(byte),
                Some(initial) => {
                    self.argument = self.argument << 8 | u64::from(byte);
                    self.argument_left -= 1;
                    if self.argument_left == 0 {
                        self.end_head(initial);
                    }
                }
            }
        }
    }

    fn begin(&mut self, initial: u8) {
        let (major, additional) = (initial >> 5, initial & 0x1f);
        self.argument = 0;
        self.argument_left = match additional {
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => 0,
        };
        match additional {
            ..24 => {
                self.argument = additional.into();
                self.end_head(initial);
            }
            24..=27 => self.initial = Some(initial),
            INDEFINITE_LENGTH => match major {
                BYTE_STRING_TYPE | TEXT_STRING_TYPE | ARRAY_TYPE | MAP_TYPE => self.open(None),
                UNSIGNED_TYPE | NEGATIVE_TYPE | TAG_TYPE => self.is_lost = true,
                // A break.
                _ if self.open.last() == Some(&None) => {
                    self.open.pop();
                    self.end_item();
                }
                _ => self.is_lost = true,
            },
            _ => self.is_lost = true,
        }
    }

    /// Goes on by the argument of the item.
    fn end_head(&mut self, initial: u8) {
        self.initial = None;
        let count = self.argument;
        match initial >> 5 {
            BYTE_STRING_TYPE | TEXT_STRING_TYPE if count > 0 => self.string_left = count,
            ARRAY_TYPE if count > 0 => self.open(Some(count)),
            MAP_TYPE if count > 0 => match count.checked_mul(2) {
                Some(items) => self.open(Some(items)),
                None => self.is_lost = true,
            },
            TAG_TYPE => self.open(Some(1)),
            _ => self.end_item(),
        }
    }

    fn open(&mut self, items: Option<u64>) {
        self.is_lost = self.open.len() >= MAX_DEPTH;
        self.open.push(items);
    }

    /// Counts an item that is complete, and the items that end with it.
    fn end_item(&mut self) {
        while let Some(Some(left)) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
    }
}

/// An event `ERROR` of a watch with this `Status` in JSON. `None` if that is no JSON.
pub(crate) fn watch_error(status: &[u8]) -> Option<Vec<u8>> {
    let status: Value = serde_json::from_slice(status).ok()?;
    let mut event = SELF_DESCRIBED.to_vec();
    put_head(&mut event, MAP_TYPE, 2);
    put_text(&mut event, "type");
    put_text(&mut event, "ERROR");
    put_text(&mut event, "object");
    event.extend(SELF_DESCRIBED);
    put(&mut event, &status);
    Some(event)
}

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(value) => out.push(if *value { 0xf5 } else { 0xf4 }),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => put_head(out, UNSIGNED_TYPE, number),
            (None, Some(number)) => put_head(out, NEGATIVE_TYPE, number.unsigned_abs() - 1),
            (None, None) => {
                out.push(0xfb);
                out.extend(number.as_f64().unwrap_or_default().to_be_bytes());
            }
        },
        Value::String(text) => put_text(out, text),
        Value::Array(items) => {
            put_head(out, ARRAY_TYPE, items.len() as u64);
            for item in items {
                put(out, item);
            }
        }
        Value::Object(fields) => {
            put_head(out, MAP_TYPE, fields.len() as u64);
            for (name, value) in fields {
                put_text(out, name);
                put(out, value);
            }
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, TEXT_STRING_TYPE, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Shortest head of an item.
fn put_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    let bytes = argument.to_be_bytes();
    let (additional, length) = match argument {
        ..24 => (bytes[7], 0),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    out.push(major | additional);
    out.extend(bytes.iter().skip(bytes.len() - length));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of bytes after which an item is complete.
    fn boundaries(bytes: &[u8]) -> Vec<usize> {
        let mut sequence = CborSequence::default();
        let mut found = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            sequence.follow(&[*byte]);
            if sequence.is_at_boundary() {
                found.push(at + 1);
            }
        }
        found
    }

    #[test]
    fn items_end_where_rfc_8949_says() {
        for whole in [
            &[0x00][..],
            &[0x1b, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0x39, 1, 0xf3],
            &[0x40],
            &[0x58, 2, 0xff, 0xff],
            &[0x63, b'a', b'b', b'c'],
            &[0x80],
            &[0x82, 0x81, 0x01, 0x60],
            &[0xa1, 0x61, b'a', 0xa0],
            &[0xd9, 0xd9, 0xf7, 0xa1, 0x41, b'a', 0xf6],
            &[0x9f, 0x01, 0x82, 0x02, 0x03, 0xff],
            &[0xbf, 0x61, b'a', 0x9f, 0xff, 0xff],
            &[0x5f, 0x41, 0xff, 0x41, 0x00, 0xff],
            &[0xf9, 0x3c, 0x00],
            &[0xfb, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xf8, 0x20],
        ] {
            assert_eq!(boundaries(whole), [whole.len()], "{whole:x?}");
            let mut sequence = CborSequence::default();
            sequence.follow(&[whole, whole].concat());
            assert!(sequence.is_at_boundary(), "{whole:x?}");
        }
    }

    #[test]
    fn malformed_or_deep_items_have_no_boundary() {
        let deep = [0x81; MAX_DEPTH + 1];
        for bytes in [&[0xff][..], &[0x1f], &[0x1c], &[0x82, 0x01, 0xff], &deep] {
            let mut sequence = CborSequence::default();
            sequence.follow(bytes);
            sequence.follow(&[0; 4096]);
            assert!(!sequence.is_at_boundary(), "{bytes:x?}");
        }
    }

    #[test]
    fn watch_error_is_one_self_described_item() {
        let status = br#"{"a":[-1,500,null,true,1.5],"b":{"c":"d"}}"#;
        let event = watch_error(status).unwrap();
        let expected = [
            &[0xd9, 0xd9, 0xf7, 0xa2, 0x64][..],
            b"type\x65ERROR\x66object",
            &[0xd9, 0xd9, 0xf7, 0xa2, 0x61, b'a', 0x85, 0x20],
            &[0x19, 0x01, 0xf4, 0xf6, 0xf5],
            &[0xfb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0],
            &[0x61, b'b', 0xa1, 0x61, b'c', 0x61, b'd'],
        ];
        assert_eq!(event, expected.concat());
        assert_eq!(boundaries(&event), [event.len()]);
        assert_eq!(watch_error(b"{"), None);
    }
}
