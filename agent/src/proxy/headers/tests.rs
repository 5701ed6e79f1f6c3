use super::*;
use crate::proxy::admit::ImpersonationRules;

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn permitted() -> Impersonation {
    let named = headers(&[
        ("fairlead-user", "fairlead:ann"),
        ("fairlead-group", "fairlead:viewer"),
    ]);
    let rules = ImpersonationRules::new(&"t-acme".parse().unwrap(), &[], &[]);
    rules.admit(&named).unwrap()
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let pair = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    headers.iter().map(pair).collect()
}

/// Headers that the API server gets, besides credential and host.
fn sent(headers: &HeaderMap, upgrade: Option<&HeaderValue>) -> Vec<(String, String)> {
    let towards = TowardsApi::of(headers, upgrade.cloned(), permitted());
    let kept = headers.iter().filter(|(name, _)| towards.keeps(name));
    let pair = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    towards.added().into_iter().chain(kept).map(pair).collect()
}

/// A header as text.
fn text(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

const GONE: &[&[(&str, &str)]] = &[
    &[("authorization", "Bearer x")],
    &[("Authorization", "Basic x"), ("authorization", "Bearer y")],
    &[("proxy-authorization", "Basic x")],
    &[("impersonate-user", "system:admin")],
    &[
        ("Impersonate-Group", "system:masters"),
        ("impersonate-group", "x"),
    ],
    &[("impersonate-uid", "0")],
    &[("impersonate-extra-scopes", "all")],
    &[
        ("x-remote-user", "root"),
        ("x-remote-group", "system:masters"),
    ],
    &[("cookie", "a=b"), ("cookie", "c=d")],
    &[("fairlead-user", "fairlead:bob")],
    &[("fairlead-anything", "x"), ("Fairlead-Code", "FL-1101")],
    &[("connection", "close")],
    &[("connection", "keep-alive"), ("keep-alive", "timeout=5")],
    &[
        ("connection", "x-one, X-Two"),
        ("x-one", "1"),
        ("x-two", "2"),
    ],
    &[
        ("connection", "x-one"),
        ("connection", " x-two ,"),
        ("x-one", "1"),
        ("x-two", "2"),
    ],
    &[("proxy-connection", "keep-alive")],
    &[("te", "gzip")],
    &[("transfer-encoding", "chunked")],
    &[("upgrade", "h2c")],
    &[("expect", "100-continue")],
];

#[test]
fn identity_and_hop_by_hop_headers_do_not_pass() {
    for gone in GONE {
        assert_eq!(
            sent(&headers(gone), None),
            [
                text("impersonate-user", "fairlead:ann"),
                text("impersonate-group", "fairlead:viewer"),
            ],
            "{gone:?}"
        );
    }
}

#[test]
fn other_headers_pass_with_repeats() {
    let passes = [
        ("accept", "application/json;as=Table"),
        ("content-type", "application/apply-patch+yaml"),
        ("content-length", "3"),
        ("user-agent", "kubectl"),
        ("kubectl-command", "kubectl get"),
        ("warning", "299"),
        ("x-stream-protocol-version", "v5.channel.k8s.io"),
        ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ("trailer", "x-sum"),
        ("te", "trailers"),
    ];
    let all = sent(&headers(&passes), None);
    for (name, value) in passes {
        assert!(all.contains(&text(name, value)), "{name}");
    }
}

#[test]
fn connection_header_cannot_remove_the_agents_headers() {
    let listed = "impersonate-user, impersonate-group, authorization, host";
    let sent = sent(&headers(&[("connection", listed)]), None);
    assert!(sent.contains(&text("impersonate-user", "fairlead:ann")));
    assert!(sent.contains(&text("impersonate-group", "fairlead:viewer")));
}

#[test]
fn upgrade_needs_the_connection_header() {
    let spdy = headers(&[
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "SPDY/3.1"),
    ]);
    assert_eq!(upgrade(&spdy).unwrap(), "SPDY/3.1");
    assert!(upgrade(&headers(&[("upgrade", "SPDY/3.1")])).is_none());
    assert!(upgrade(&headers(&[("connection", "upgrade")])).is_none());

    let towards = sent(&spdy, upgrade(&spdy).as_ref());
    assert!(towards.starts_with(&[text("connection", "Upgrade"), text("upgrade", "SPDY/3.1")]));
    let hops = |it: &&(String, String)| it.0 == "connection" || it.0 == "upgrade";
    assert_eq!(towards.iter().filter(hops).count(), 2);
}

#[test]
fn forged_fairlead_headers_of_an_answer_are_removed() {
    let mut answer = headers(&[
        ("content-length", "2"),
        ("set-cookie", "a=b"),
        ("audit-id", "1"),
        ("retry-after", "1"),
        ("fairlead-code", "FL-1101"),
        ("fairlead-upstream-micros", "1"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
    ]);
    towards_hub(&mut answer, None, Some(Duration::from_millis(2)));
    let mut left = pairs(&answer);
    left.sort();
    let expected = [
        ("audit-id", "1"),
        ("content-length", "2"),
        ("fairlead-upstream-micros", "2000"),
        ("retry-after", "1"),
        ("set-cookie", "a=b"),
    ];
    assert_eq!(
        left,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[test]
fn path_with_dot_segments_is_rejected() {
    for bad in [
        "/..",
        "/a/../b",
        "/a/.",
        "/./a",
        "/%2e",
        "/a/%2E%2e/b",
        "/.%2e",
        "/a/..?x=1",
    ] {
        assert_eq!(
            check_path(&bad.parse().unwrap()).unwrap_err().code,
            Code::BadPath,
            "{bad}"
        );
    }
    for good in [
        "/",
        "/a",
        "/a.b/..c/...",
        "/a?x=/../",
        "/%2f",
        "/a//b",
        "/a/%2e%2e%2e",
    ] {
        check_path(&good.parse().unwrap()).unwrap();
    }
}

#[test]
fn invalid_request_id_is_not_logged() {
    assert_eq!(request_id(&headers(&[("audit-id", "r-1_A")])), "r-1_A");
    for bad in ["a b", "a\"b", "ä", &"a".repeat(65)] {
        assert_eq!(request_id(&headers(&[("audit-id", bad)])), "?");
    }
    assert_eq!(request_id(&HeaderMap::new()), "");
}
