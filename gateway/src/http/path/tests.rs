//! Tests of `path`.

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

#[test]
fn end_of_a_path_passes_with_the_path() {
    let pieces = [
        "a", "", ".", "..", ";", "%2e", "a.b", "%25", "~x", "c-a:1", "%zz", "..;x",
    ];
    let mut passing = 0;
    for first in pieces {
        for second in pieces {
            for third in pieces {
                let path = format!("/k8s/clusters/{first}/{second}/{third}");
                if check(&path).is_err() {
                    continue;
                }
                passing += 1;
                for (slash, _) in path.match_indices('/') {
                    assert_eq!(check(&path[slash..]), Ok(()), "{path} from {slash}");
                }
            }
        }
    }
    assert!(passing > 100, "{passing}");
}

#[test]
fn fast_path_is_as_strict_as_the_slow_one() {
    let slow = |path: &str| ambiguity(&format!("{path}~")).is_none();
    for before in ["/", "/a", "/a/", "/a."] {
        for byte in 0..0x80_u8 {
            let path = format!("{before}{}b", char::from(byte));
            assert!(!is_plain(&path) || slow(&path), "{path:?}");
            let usual = byte.is_ascii_alphanumeric() || b"-_:".contains(&byte);
            let mark = matches!(byte, b'/' | b'.') && !before.ends_with('/');
            assert_eq!(is_plain(&path), usual || mark, "{path:?}");
        }
    }
}
