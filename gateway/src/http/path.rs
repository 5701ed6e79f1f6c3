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

/// Fast path: slashes between names that do not begin with a dot, and no encoding. Most paths are like this.
fn is_plain(path: &str) -> bool {
    let mut before = 0;
    let plain = |byte| {
        let fits = match byte {
            b'/' => before != b'/',
            b'.' => before != b'/',
            b'-' | b'_' | b':' => true,
            byte => byte.is_ascii_alphanumeric(),
        };
        before = byte;
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
mod tests {
    use super::*;

    #[test]
    fn paths_of_kubernetes_pass() {
        for path in [
            "/",
            "/api/v1/namespaces/default/pods/a.b-c/log",
            "/apis/",
            "/apis/apps/v1",
            "/api/v1/namespaces/x/services/https:web:8443/proxy/",
            "/api/v1/namespaces/x/pods/p:80/proxy/a%20b/c%3Ad/...",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            "/openapi/v3/apis/a%2Bb",
            "/a/b%25",
            "/a/100%25%20b",
            "/.well-known/openid-configuration",
        ] {
            assert_eq!(ambiguity(path), None, "{path}");
        }
    }

    #[test]
    fn ambiguous_paths_are_rejected() {
        for path in [
            "",
            "*",
            "api",
            "//",
            "//api",
            "/api//v1",
            "/api/v1//",
            "/.",
            "/..",
            "/./api",
            "/api/.",
            "/api/./v1",
            "/api/../v1",
            "/api/..",
            "/..;/api",
            "/.;x/api",
            "/%2e",
            "/%2e%2e/api",
            "/%2E/api",
            "/.%2e/api",
            "/%2e./api",
            "/api%2fv1",
            "/api%2Fv1",
            "/api%5cv1",
            "/api\\v1",
            "/a%00b",
            "/a%0ab",
            "/a%0d%0ab",
            "/a%7fb",
            "/a%1fb",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a%u002e",
            "/a b",
            "/a\tb",
            "/a\u{7f}b",
            "/ä",
            "/%252e%252e/x",
            "/a%252fb",
            "/a%25252fb",
            "/a%255cb",
            "/a#b",
            "/%c0%ae%2e/",
        ] {
            assert!(ambiguity(path).is_some(), "{path:?} must be refused");
        }
    }
}
