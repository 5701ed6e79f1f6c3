//! The agent's own namespace, reserved to admins of the hub: its Secret is the identity of the cluster, and its
//! ServiceAccount may impersonate.

use std::borrow::Cow;

use fairlead_api::{Code, Failure};
use http::{Method, Uri};

/// Namespace of the agent's own objects.
#[derive(Debug, Clone)]
pub(crate) struct ReservedNamespace(String);

impl ReservedNamespace {
    pub(crate) fn new(name: String) -> Self {
        ReservedNamespace(name)
    }

    /// Checks that a request does not reach into the namespace, unless an admin of the hub sent it. Reads of the object
    /// Namespace are free.
    ///
    /// # Errors
    ///
    /// `FL-1508`
    pub(crate) fn check(&self, is_admin: bool, method: &Method, uri: &Uri) -> Result<(), Failure> {
        if is_admin {
            return Ok(());
        }
        // The API server splits the decoded path.
        let path = decoded(uri.path());
        if !self.is_reached(&path) && !lists_all_secrets(&path) {
            return Ok(());
        }
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        if is_read && self.is_namespace_object(&path) {
            return Ok(());
        }
        Err(Failure::because(
            Code::NamespaceReserved,
            format_args!("namespace {:?} is reserved to admins of the hub", self.0),
        ))
    }

    /// Whether the path names the namespace anywhere, also in forms that the API server does not know today.
    fn is_reached(&self, path: &str) -> bool {
        let mut segments = segments(path);
        while let Some(segment) = segments.next() {
            let is_named = segments.clone().next() == Some(self.0.as_bytes());
            if segment == b"namespaces" && is_named {
                return true;
            }
        }
        false
    }

    fn is_namespace_object(&self, path: &str) -> bool {
        let object: [&[u8]; 4] = [b"api", b"v1", b"namespaces", self.0.as_bytes()];
        segments(path).eq(object)
    }
}

/// Whether the path is a list or watch of Secrets in all namespaces.
fn lists_all_secrets(path: &str) -> bool {
    let is_core = segments(path).next() == Some(b"api");
    let is_namespaced = || segments(path).any(|segment| segment == b"namespaces");
    is_core && segments(path).any(|segment| segment == b"secrets") && !is_namespaced()
}

/// Segments as bytes, because a search for one character costs more than a short segment.
fn segments(path: &str) -> impl Iterator<Item = &[u8]> + Clone {
    let segments = path.as_bytes().split(|&byte| byte == b'/');
    segments.filter(|segment| !segment.is_empty())
}

/// The path without percent-encoding (RFC 3986, section 2.1). Bytes that are no UTF-8 are in no name.
fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%').then(|| after.first_chunk::<2>()).flatten();
        let value = escaped.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        match value {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(is_admin: bool, method: &Method, path: &str) -> Result<(), Code> {
        let reserved = ReservedNamespace::new("fairlead".to_owned());
        let checked = reserved.check(is_admin, method, &path.parse().unwrap());
        checked.map_err(|failure| failure.code)
    }

    #[test]
    fn the_namespace_is_closed_in_each_form_of_its_path() {
        for path in [
            "/api/v1/namespaces/fairlead/secrets/fairlead-identity",
            "/api/v1/namespaces/fairlead/secrets",
            "/api/v1/namespaces/fair%6cead/secrets",
            "/api/v1/namespaces/%66airlead/pods?watch=true",
            "/api/v1/namespaces%2Ffairlead/secrets",
            "/api/v1/%6eamespaces/fairlead/pods/x/exec?command=sh",
            "/api//v1/namespaces//fairlead/pods",
            "/api/v1/watch/namespaces/fairlead/secrets",
            "/apis/apps/v1/namespaces/fairlead/deployments",
            "/api/v1/namespaces/fairlead/serviceaccounts/fairlead-agent/token",
            "/api/v1/secrets",
            "/api/v1/watch/secrets",
            "/api/v1/secret%73?limit=1",
        ] {
            let checked = check(false, &Method::GET, path);
            assert_eq!(checked, Err(Code::NamespaceReserved), "{path}");
            assert_eq!(check(true, &Method::GET, path), Ok(()));
        }
        let object = "/api/v1/namespaces/fairlead";
        assert_eq!(check(false, &Method::GET, object), Ok(()));
        let deleted = check(false, &Method::DELETE, object);
        assert_eq!(deleted, Err(Code::NamespaceReserved));
    }

    #[test]
    fn everything_else_is_open() {
        for path in [
            "/api/v1/namespaces/fairlead-shop/secrets",
            "/api/v1/namespaces/shop/secrets/fairlead",
            "/api/v1/namespaces/shop/configmaps/%zz",
            "/api/v1/namespaces",
            "/api/v1/pods",
            "/apis/example.org/v1/secrets",
            "/version",
        ] {
            assert_eq!(check(false, &Method::GET, path), Ok(()), "{path}");
        }
    }
}
