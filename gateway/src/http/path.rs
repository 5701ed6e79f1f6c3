//! Paths that may pass. Two parsers that read one path differently open a way around checks, so ambiguous paths are
//! rejected, never repaired. The query is not checked.
//!
//! Kubernetes itself needs none of the rejected forms. An encoded slash or dot below a service's `/proxy/` is rejected
//! too.

use crate::http::error::RequestError;

/// Rejects ambiguous paths.
///
/// # Errors
/// `FL-1303` with the ambiguity.
pub(crate) fn check(path: &str) -> Result<(), RequestError> {
    match ambiguity(path) {
        None => Ok(()),
        Some(detail) => Err(RequestError::path(detail)),
    }
}

/// Byte of a usual path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathByte {
    /// Fits anywhere.
    Name,
    /// A slash or a dot, which no slash may precede.
    Mark,
    Other,
}

static PATH_BYTES: [PathByte; 256] = path_bytes();

#[expect(
    clippy::indexing_slicing,
    reason = "the index is below the length of the table"
)]
const fn path_bytes() -> [PathByte; 256] {
    let mut table = [PathByte::Other; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        table[byte as usize] = match byte {
            b'/' | b'.' => PathByte::Mark,
            b'-' | b'_' | b':' => PathByte::Name,
            _ if byte.is_ascii_alphanumeric() => PathByte::Name,
            _ => PathByte::Other,
        };
        byte += 1;
    }
    table
}

/// Fast path: slashes between names that do not begin with a dot, and no encoding. Most paths are like this.
fn is_plain(path: &str) -> bool {
    let mut is_behind_slash = false;
    let plain = |byte: u8| {
        let fits = match PATH_BYTES.get(usize::from(byte)) {
            Some(PathByte::Name) => true,
            Some(PathByte::Mark) => !is_behind_slash,
            Some(PathByte::Other) | None => false,
        };
        is_behind_slash = byte == b'/';
        fits
    };
    path.starts_with('/') && path.bytes().all(plain)
}

fn ambiguity(path: &str) -> Option<&'static str> {
    if is_plain(path) {
        return None;
    }
    let Some(inside) = path.strip_prefix('/') else {
        return Some("it does not start with a slash");
    };
    if let Some(what) = path.bytes().find_map(stray_byte) {
        return Some(what);
    }
    let mut segments = inside.split('/').peekable();
    while let Some(segment) = segments.next() {
        // Servers with path parameters take the part before `;` for the whole segment.
        let name = segment.split(';').next().unwrap_or(segment);
        if name == "." || name == ".." {
            return Some("it has a dot segment");
        }
        if segment.is_empty() && segments.peek().is_some() {
            return Some("it has an empty segment");
        }
        if let Some(what) = stray_escape(segment) {
            return Some(what);
        }
    }
    None
}

fn stray_byte(byte: u8) -> Option<&'static str> {
    match byte {
        0..=b' ' | 0x7f => Some("it has a control character or a space"),
        0x80.. => Some("it has a character outside ASCII"),
        b'\\' => Some("it has a backslash"),
        b'#' | b'?' => Some("it has a character that ends a path"),
        _ => None,
    }
}

/// Decodes twice: `%252e` counts as `.`, because a server behind may decode twice.
fn stray_escape(segment: &str) -> Option<&'static str> {
    let mut rest = segment;
    while let Some(at) = rest.find('%') {
        rest = rest.get(at + 1..).unwrap_or_default();
        let mut escape = rest;
        // `%25` is a percent sign; the escape itself may follow.
        while let Some(deeper) = escape.strip_prefix("25") {
            escape = deeper;
        }
        let twice = escape.len() != rest.len();
        let Some(byte) = escape
            .get(..2)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
        else {
            if twice {
                continue;
            }
            return Some("it has a percent sign without two hexadecimal digits");
        };
        match byte {
            b'.' => return Some("it has an encoded dot"),
            b'/' | b'\\' => return Some("it has an encoded slash"),
            0..=0x1f | 0x7f => return Some("it has an encoded control character"),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
