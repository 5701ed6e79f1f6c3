//! Tests of `headers`.

use fairlead_api::Code;

use super::*;

fn request(headers: &[(&str, &str)]) -> Request<()> {
    let mut builder = Request::builder().version(Version::HTTP_11).uri("/api");
    for &(name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(()).unwrap()
}

fn verdict(headers: &[(&str, &str)]) -> Result<(), Code> {
    let mut all = vec![("host", "hub.test")];
    all.extend_from_slice(headers);
    let request = request(&all);
    check(&request)
        .and_then(|()| impersonated(request.headers()).map(drop))
        .map_err(|failure| failure.code())
}

#[test]
fn one_impersonated_user_and_nothing_else_is_accepted() {
    let asked = |headers: &[(&str, &str)]| {
        let asked = impersonated(request(headers).headers());
        asked.map_err(|failure| failure.code())
    };
    assert_eq!(asked(&[]), Ok(None));
    let ann = HeaderValue::from_static("fairlead:ann");
    assert_eq!(
        asked(&[("Impersonate-User", "fairlead:ann")]),
        Ok(Some(ann))
    );
    for more in [
        "impersonate-group",
        "impersonate-uid",
        "impersonate-extra-a",
        "impersonate_user",
    ] {
        let both = [("impersonate-user", "ann"), (more, "x")];
        assert_eq!(asked(&both), Err(Code::NoImpersonation), "{more}");
    }
    let mut headers = request(&[("impersonate-user", "ann")]).headers().clone();
    strip(&mut headers);
    assert!(headers.is_empty(), "the agent is told by a header of ours");
}

#[test]
fn forms_of_impersonation_are_refused() {
    for name in [
        "Impersonate-Group",
        "IMPERSONATE-GROUP",
        "Impersonate-Uid",
        "Impersonate-Extra-Scopes",
        "impersonate-extra-a%2fb",
        "impersonate_user",
        "Impersonate_Group",
        "impersonate",
        "impersonate-",
    ] {
        let refused = Err(Code::NoImpersonation);
        assert_eq!(verdict(&[(name, "system:admin")]), refused, "{name}");
        assert_eq!(verdict(&[(name, "")]), refused, "{name}, empty");
    }
    for name in ["impersonate-user", "Impersonate-User", "iMpErSoNaTe-uSeR"] {
        let refused = Err(Code::NoImpersonation);
        assert_eq!(verdict(&[(name, "")]), refused, "{name}, empty");
        assert_eq!(
            verdict(&[(name, "a"), (name, "b")]),
            refused,
            "{name}, twice"
        );
    }
    for protocols in [
        "base64url.bearer.authorization.k8s.io.c2VjcmV0",
        "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
    ] {
        let sent = [("sec-websocket-protocol", protocols)];
        assert_eq!(verdict(&sent), Err(Code::BadRequest), "{protocols}");
    }
    assert_eq!(
        verdict(&[("sec-websocket-protocol", "v5.channel.k8s.io")]),
        Ok(())
    );
}

#[test]
fn forms_of_smuggling_are_refused() {
    for headers in [
        &[("connection", "authorization")][..],
        &[("connection", "Authorization, close")],
        &[("connection", "close"), ("connection", "HOST")],
        &[("connection", "content-length")],
        &[("connection", "Transfer-Encoding")],
        &[("connection", "impersonate-user")],
        &[("connection", "close, Impersonate-Group")],
        &[("connection", " cookie ")],
        &[("connection", "fairlead-user")],
        &[("connection", "expect")],
        &[("content-length", "1"), ("transfer-encoding", "chunked")],
        &[("content-length", "1"), ("content-length", "1")],
        &[("content-length", "1"), ("content-length", "2")],
        &[("content-length", "1, 1")],
        &[("content-length", "+1")],
        &[("content-length", "-1")],
        &[("content-length", "0x1")],
        &[("content-length", "")],
        &[("transfer-encoding", "gzip")],
        &[("transfer-encoding", "gzip, chunked")],
        &[("transfer-encoding", "chunked, identity")],
        &[
            ("transfer-encoding", "chunked"),
            ("transfer-encoding", "chunked"),
        ],
        &[("transfer-encoding", "xchunked")],
        &[("transfer-encoding", "identity")],
        &[("transfer-encoding", "")],
        &[("host", "other.test")],
        &[("host", "hub.test")],
    ] {
        assert_eq!(verdict(headers), Err(Code::BadRequest), "{headers:?}");
    }
    assert_eq!(
        check(&request(&[])).unwrap_err().code(),
        Code::BadRequest,
        "no Host"
    );
}

#[test]
fn ordinary_requests_pass() {
    for headers in [
        &[("content-length", "17")][..],
        &[("transfer-encoding", "Chunked")],
        &[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "SPDY/3.1"),
        ],
        &[("connection", "close, x-other"), ("te", "trailers")],
    ] {
        assert_eq!(verdict(headers), Ok(()), "{headers:?}");
    }
}

#[test]
fn heads_have_a_limit() {
    let long = "x".repeat(MAX_HEAD);
    assert_eq!(verdict(&[("a", &long)]), Err(Code::HeadTooLarge));
    assert_eq!(
        verdict(&vec![("a", "b"); MAX_FIELDS]),
        Err(Code::HeadTooLarge)
    );
    assert_eq!(verdict(&vec![("a", "b"); MAX_FIELDS - 1]), Ok(()));
}

#[test]
fn reserved_headers_of_clients_are_removed() {
    let mut headers = request(&[
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("host", "hub.test"),
        ("fairlead-user", "fairlead:root"),
        ("Fairlead-Group", "fairlead:admin"),
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-host", "evil"),
        ("x-remote-user", "system:admin"),
        ("Audit-ID", "of-another-request"),
        ("X-Remote-Group", "system:masters"),
        ("x_remote_user", "system:admin"),
        ("forwarded", "for=1.1.1.1"),
        ("proxy-authorization", "Basic x"),
        ("proxy-connection", "close"),
        ("connection", "x-mine, upgrade"),
        ("x-mine", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABk"),
        ("expect", "100-continue"),
        ("accept", "application/json"),
        ("accept-encoding", "gzip"),
        ("user-agent", "kubectl"),
        ("content-type", "application/json"),
    ])
    .headers()
    .clone();
    strip(&mut headers);
    let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(
        left,
        [
            "accept",
            "accept-encoding",
            "content-type",
            "te",
            "user-agent"
        ]
    );
}

#[test]
fn headers_about_the_whole_hub_are_removed_from_answers() {
    for upgraded in [false, true] {
        let mut headers = request(&[
            ("set-cookie", "a=b"),
            ("Set-Cookie", "c=d"),
            ("alt-svc", "h2=\"evil.test:443\""),
            ("strict-transport-security", "max-age=0"),
            ("clear-site-data", "\"*\""),
            (
                "content-security-policy-report-only",
                "report-uri //evil.test",
            ),
            ("refresh", "0; url=http://evil.test"),
            ("x-accel-redirect", "/internal"),
            ("x-sendfile", "/etc/passwd"),
            ("x-lighttpd-send-file", "/etc/passwd"),
            ("content-type", "text/html"),
            ("content-security-policy", "default-src 'none'"),
        ])
        .headers()
        .clone();
        strip_answer(&mut headers, upgraded);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-security-policy", "content-type"]);
    }
}

#[test]
fn only_kubernetes_upgrades_are_forwarded() {
    let wanted = |upgrade: &[(&str, &str)]| requested_upgrade(&request(upgrade));
    for known in ["websocket", "WebSocket", "SPDY/3.1", "spdy/3.1"] {
        let sent = [("connection", "keep-alive, Upgrade"), ("upgrade", known)];
        assert_eq!(wanted(&sent).unwrap(), known);
    }
    for headers in [
        &[("upgrade", "websocket")][..],
        &[("connection", "upgrade")],
        &[("connection", "upgrade"), ("upgrade", "h2c")],
        &[("connection", "upgrade"), ("upgrade", "websocket, h2c")],
        &[
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("upgrade", "h2c"),
        ],
    ] {
        assert_eq!(wanted(headers), None, "{headers:?}");
    }
}

#[test]
fn token_of_a_service_is_a_bearer_token_or_a_password() {
    let taken = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        let token = take_token(&mut headers);
        assert!(headers.is_empty(), "the target never sees it");
        token.map(|it| it.to_str().unwrap().to_owned())
    };
    assert_eq!(taken(&["Bearer abc"]).as_deref(), Some("Bearer abc"));
    // `ann:abc:d`; the user name has no colon (RFC 7617).
    let basic = taken(&["Basic YW5uOmFiYzpk"]);
    assert_eq!(basic.as_deref(), Some("Bearer abc:d"));
    assert_eq!(taken(&["Basic !"]).as_deref(), Some("Basic !"));
    assert_eq!(taken(&["Bearer abc", "Bearer abc"]), None);
    assert_eq!(taken(&[]), None);
}

#[test]
fn target_of_a_service_gets_no_claims_of_the_client() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-forwarded-for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.1"),
        ("x-real-ip", "192.0.2.1"),
        ("fairlead-user", "admin"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("cookie", "a=b"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    strip_for_service(&mut headers);
    let host = Some(HeaderValue::from_static("shop.example"));
    describe_client(&mut headers, HeaderValue::from_static("10.0.0.1"), host);
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let expected = [
        "cookie",
        "host",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    assert_eq!(names, expected);
    assert_eq!(headers["x-forwarded-for"], "10.0.0.1");
}

#[test]
fn answer_of_a_service_keeps_cookies_and_loses_headers_of_the_hub() {
    let mut headers = HeaderMap::new();
    for name in [
        "set-cookie",
        "fairlead-code",
        "x-accel-redirect",
        "keep-alive",
    ] {
        headers.insert(name, HeaderValue::from_static("1"));
    }
    strip_service_answer(&mut headers, false);
    assert_eq!(headers.len(), 1);
    assert!(headers.contains_key("set-cookie"));
}
