//! Tests of `redirect`.

use http::header::LOCATION;

use super::*;

fn rebased(status: u16, targets: &[&str], form: AddressForm) -> Result<Option<String>, Code> {
    let mut headers = HeaderMap::new();
    for target in targets {
        headers.append(
            LOCATION,
            HeaderValue::from_bytes(target.as_bytes()).unwrap(),
        );
    }
    let cluster = "c-a".parse().unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    rebase(status, &mut headers, &cluster, form).map_err(|failure| failure.code)?;
    let location = headers.get(LOCATION);
    Ok(location.map(|value| value.to_str().unwrap().to_owned()))
}

#[test]
fn path_of_the_cluster_stays_below_its_address() {
    for status in [300, 301, 302, 303, 307, 308, 201] {
        for target in ["/", "/api/v1?watch=1", "/a/b%20c/?x=//e#y", "/clusters/c-b"] {
            let below = format!("/k8s/clusters/c-a{target}");
            let by_path = rebased(status, &[target], AddressForm::Path);
            assert_eq!(by_path, Ok(Some(below)), "{status} {target}");
            let by_name = rebased(status, &[target], AddressForm::Name);
            assert_eq!(by_name, Ok(Some(target.to_owned())), "{status} {target}");
        }
    }
}

#[test]
fn redirect_elsewhere_is_refused() {
    for form in [AddressForm::Name, AddressForm::Path] {
        for target in [
            "http://evil.test/",
            "https://hub.test/clusters",
            "//evil.test/x",
            "/\\evil.test",
            "\\\\evil.test",
            "/../../clusters",
            "/../c-b/api",
            "/%2e%2e/c-b/api",
            "/a/..%2f..",
            "relative",
            "../up",
            "?query",
            "#fragment",
            "",
            " /api",
            "/api?a b",
            "/api\t",
            "/\u{e4}",
            "javascript:alert(1)",
        ] {
            for status in [300, 301, 302, 303, 305, 307, 308, 399] {
                let refused = Err(Code::RedirectRefused);
                assert_eq!(
                    rebased(status, &[target], form),
                    refused,
                    "{status} {target}"
                );
            }
            assert_eq!(rebased(201, &[target], form), Ok(None), "{target}");
            assert_eq!(rebased(304, &[target], form), Ok(None), "{target}");
        }
        let refused = Err(Code::RedirectRefused);
        assert_eq!(rebased(307, &[], form), refused);
        assert_eq!(rebased(307, &["/a", "/a"], form), refused);
        assert_eq!(rebased(304, &[], form), Ok(None));
    }
}
