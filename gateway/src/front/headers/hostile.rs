//! Hostile heads, judged by single lookups as well.

use super::*;

/// Lists of headers whose combinations are judged.
const PARTS: [&[(&str, &str)]; 20] = [
    &[],
    &[("host", "hub.test")],
    &[("host", "a"), ("host", "b")],
    &[("content-length", "0")],
    &[("content-length", "1"), ("content-length", "1")],
    &[("content-length", "+1")],
    &[("transfer-encoding", "Chunked")],
    &[("transfer-encoding", "gzip, chunked")],
    &[("connection", "close")],
    &[("connection", "x-a , Host"), ("x-a", "1"), ("x-a", "2")],
    &[("connection", "Upgrade, x-a"), ("upgrade", "websocket")],
    &[("connection", "keep-alive"), ("connection", "upgrade")],
    &[("upgrade", "SPDY/3.1")],
    &[("upgrade", "h2c"), ("upgrade", "websocket")],
    &[("impersonate-user", "ann")],
    &[("impersonate-user", "")],
    &[("impersonate_group", "x"), ("impersonate-user", "ann")],
    &[(
        "sec-websocket-protocol",
        "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.x",
    )],
    &[("te", "Trailers"), ("te", "gzip"), ("cookie", "a=b")],
    &[
        ("authorization", "Bearer x"),
        ("x-forwarded-for", "10.0.0.1"),
        ("proxy-connection", "close"),
        ("fairlead-user", "ann"),
        ("x_remote_user", "ann"),
        ("keep-alive", "1"),
        ("accept", "*/*"),
    ],
];

fn heads() -> impl Iterator<Item = Request<()>> {
    let pairs = PARTS.iter().flat_map(|one| PARTS.map(|two| (*one, two)));
    let triples = pairs.flat_map(|(one, two)| PARTS.map(|three| [one, two, three]));
    triples.map(|parts| {
        let mut request = Request::builder().version(Version::HTTP_11).uri("/api");
        for (name, value) in parts.into_iter().flatten() {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    })
}

fn check_by_lookups(request: &Request<()>) -> Result<(), RequestError> {
    let headers = request.headers();
    if headers.get_all(header::HOST).iter().count() != 1 {
        return Err(malformed("it must have exactly one Host"));
    }
    framing(headers)?;
    match listed_by_lookup(headers).iter().any(|it| matters(it)) {
        true => Err(malformed("Connection lists a header that it may not")),
        false => Ok(()),
    }
}

fn listed_by_lookup(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).iter();
    let tokens = values.flat_map(|value| value.to_str().unwrap().split(','));
    tokens.map(|it| it.trim().to_ascii_lowercase()).collect()
}

fn impersonated_by_lookups(headers: &HeaderMap) -> Result<Option<HeaderValue>, ()> {
    let users: Vec<_> = headers.get_all(&IMPERSONATE_USER).iter().collect();
    let names = headers.keys().filter(|it| impersonates(it.as_str()));
    if users.len() > 1 || users.iter().any(|it| it.is_empty()) || names.count() > users.len() {
        return Err(());
    }
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut protocols = protocols.flat_map(|it| it.to_str().unwrap().split(','));
    match protocols.any(|it| it.trim().as_bytes().starts_with(TOKEN_PROTOCOL)) {
        true => Err(()),
        false => Ok(users.first().copied().cloned()),
    }
}

fn upgrade_by_lookups(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_listed = listed_by_lookup(headers).iter().any(|it| it == "upgrade");
    let wanted: Vec<_> = headers.get_all(header::UPGRADE).iter().collect();
    let [only] = wanted.as_slice() else {
        return None;
    };
    let name = only.to_str().unwrap().to_ascii_lowercase();
    let is_known = matches!(name.as_str(), "websocket" | "spdy/3.1");
    (is_listed && is_known).then(|| HeaderValue::clone(only))
}

fn strip_by_lookups(headers: &mut HeaderMap) {
    let listed = listed_by_lookup(headers);
    let mut codings = headers.get_all(header::TE).iter();
    let trailers = codings.any(|it| it.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let names: Vec<_> = headers.keys().cloned().collect();
    for name in names {
        let text = name.as_str();
        let is_listed = listed.iter().any(|it| it == text);
        if is_hop_by_hop(text) || ours(&name) || impersonates(text) || is_listed {
            headers.remove(name);
        }
    }
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

#[test]
fn one_pass_judges_as_single_lookups() {
    for mut request in heads() {
        let expected = check_by_lookups(&request);
        assert_eq!(check(&request), expected, "{request:?}");
        let headers = request.headers();
        let expected = impersonated_by_lookups(headers);
        let found = impersonated(headers).map_err(drop);
        assert_eq!(found, expected, "{headers:?}");
        let expected = upgrade_by_lookups(headers);
        assert_eq!(requested_upgrade(&request), expected, "{headers:?}");
        let mut expected = headers.clone();
        strip_by_lookups(&mut expected);
        strip(request.headers_mut());
        assert_eq!(*request.headers(), expected);
    }
}
