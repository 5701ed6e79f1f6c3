//! Head of a request, kept until the request ends.

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use fairlead_audit::RequestHead;
use http::{Method, Request};

/// Sixteen hexadecimal digits, unpredictable and unique in this process.
#[derive(Debug, Clone, Copy)]
struct RequestId([u8; 16]);

impl RequestId {
    fn new() -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let hash = KEYS.hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
        let mut digits = [0; 16];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(hash.to_be_bytes()) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        RequestId(digits)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

fn digit(value: u8) -> u8 {
    value + if value < 10 { b'0' } else { b'a' - 10 }
}

/// Head of a request, kept until the request ends.
pub(crate) struct OwnedHead {
    id: RequestId,
    method: Method,
    /// Path, and behind a question mark the query. A clone of the URI would keep the whole head of the request in memory.
    target: Box<str>,
    path_bytes: usize,
    from: SocketAddr,
}

impl OwnedHead {
    pub(crate) fn of<B>(request: &Request<B>, from: SocketAddr) -> Self {
        let (path, query) = (request.uri().path(), request.uri().query());
        let mut target = String::with_capacity(path.len() + query.map_or(0, |it| it.len() + 1));
        target.push_str(path);
        if let Some(query) = query {
            target.push('?');
            target.push_str(query);
        }
        OwnedHead {
            id: RequestId::new(),
            method: request.method().clone(),
            target: target.into_boxed_str(),
            path_bytes: path.len(),
            from,
        }
    }

    pub(crate) fn id(&self) -> &str {
        self.id.as_str()
    }

    pub(crate) fn method(&self) -> &str {
        self.method.as_str()
    }

    pub(crate) fn path(&self) -> &str {
        self.target.get(..self.path_bytes).unwrap_or_default()
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.target.get(self.path_bytes + 1..)
    }

    /// The head for the audit log, which keeps only harmless parts of the query.
    pub(crate) fn view(&self) -> RequestHead<'_> {
        RequestHead {
            id: self.id(),
            method: self.method(),
            path: self.path(),
            query: self.query(),
            from: self.from,
        }
    }
}

/// Path of a request on the API server. It is nearly always the end of the request's own path.
#[derive(Debug)]
pub(super) enum ApiPath {
    /// From this byte of the request's path on.
    From(usize),
    Other(Box<str>),
}

impl ApiPath {
    pub(super) fn new(path: &str, head: &OwnedHead) -> Self {
        match head.path().ends_with(path) {
            true => ApiPath::From(head.path().len() - path.len()),
            false => ApiPath::Other(path.into()),
        }
    }

    pub(super) fn get<'a>(&'a self, head: &'a OwnedHead) -> &'a str {
        match self {
            ApiPath::From(begin) => head.path().get(*begin..).unwrap_or_default(),
            ApiPath::Other(path) => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_head_are_those_of_its_request() {
        for uri in [
            "/",
            "/a/b",
            "/a?",
            "/a?b=c?d",
            "https://hub.test",
            "https://hub.test?x",
        ] {
            let request = Request::get(uri).body(()).unwrap();
            let head = OwnedHead::of(&request, "192.0.2.1:1".parse().unwrap());
            assert_eq!(head.path(), request.uri().path(), "{uri}");
            assert_eq!(head.query(), request.uri().query(), "{uri}");
            assert!(head.id().len() == 16 && head.id().bytes().all(|it| it.is_ascii_hexdigit()));
        }
    }

    #[test]
    fn path_on_the_api_server_is_kept_in_any_case() {
        let request = Request::get("/k8s/clusters/c-a/api?x").body(()).unwrap();
        let head = OwnedHead::of(&request, "192.0.2.1:1".parse().unwrap());
        for path in ["/api", "/", "/k8s/clusters/c-a/api", ""] {
            assert_eq!(ApiPath::new(path, &head).get(&head), path);
        }
    }
}
