use super::*;

fn hub(url: &str) -> HubUrl {
    url.parse().unwrap()
}

#[test]
fn no_proxy_is_read_as_by_curl() {
    let table = [
        ("", "https://hub.example.com", false),
        ("*", "https://hub.example.com", true),
        ("*", "https://10.1.2.3", true),
        ("*.example.com", "https://hub.example.com", false),
        ("example.com", "https://hub.example.com.", true),
        ("a.test,*", "https://[fe80::1]", true),
        ("10.1.2.3/8", "https://10.9.9.9", true),
        ("[fd00::]/8", "https://[fd12::1]", true),
        ("example.com", "https://example.com", true),
        ("example.com", "https://hub.example.com", true),
        (".example.com", "https://hub.example.com", true),
        (".example.com", "https://example.com", true),
        ("example.com.", "https://hub.example.com", true),
        ("EXAMPLE.com", "https://hub.example.com", true),
        ("example.com", "https://notexample.com", false),
        ("hub.example.com", "https://example.com", false),
        ("a.test, example.com", "https://hub.example.com", true),
        ("a.test example.com", "https://hub.example.com", true),
        (",,example.com,", "https://hub.example.com", true),
        ("localhost,127.0.0.1", "https://127.0.0.1:8443", true),
        ("127.0.0.0/8", "https://127.1.2.3", true),
        ("10.0.0.0/8", "https://11.0.0.1", false),
        ("10.0.0.0/33", "https://10.0.0.1", false),
        ("0.0.0.0/0", "https://8.8.8.8", true),
        ("10.0.0.1", "https://10.0.0.10", false),
        ("::1", "https://[::1]:8443", true),
        ("[::1]", "https://[::1]:8443", true),
        ("fd00::/8", "https://[fd12::1]", true),
        ("fd00::/8", "https://[fe80::1]", false),
        // Names are not resolved to be compared with networks.
        ("10.0.0.0/8", "https://hub.example.com", false),
    ];
    for (no_proxy, url, direct) in table {
        let rules = ProxyRules::parse(Some("proxy:3128"), Some(no_proxy)).unwrap();
        let hub = hub(url);
        assert_eq!(
            rules.proxy_for(hub.host(), hub.port()).is_none(),
            direct,
            "{no_proxy} {url}"
        );
        assert_eq!(rules.explain(&hub).starts_with("directly"), direct);
    }
}

#[test]
fn loopback_address_never_goes_to_a_proxy() {
    let rules = ProxyRules::parse(Some("proxy:3128"), None).unwrap();
    for (url, loopback) in [
        ("https://127.0.0.1:8443", true),
        ("https://127.9.8.7", true),
        ("https://[::1]:8443", true),
        ("https://[::ffff:127.0.0.1]:8443", true),
        ("https://localhost:8443", true),
        ("https://LOCALHOST", true),
        ("https://localhost.", true),
        ("https://localhost.example.com", false),
        ("https://128.0.0.1", false),
        ("https://[::2]", false),
    ] {
        let hub = hub(url);
        assert_eq!(
            rules.proxy_for(hub.host(), hub.port()).is_none(),
            loopback,
            "{url}"
        );
        assert_eq!(rules.explain(&hub).contains("loopback"), loopback, "{url}");
    }
}

#[test]
fn proxy_url_is_parsed_and_its_password_hidden() {
    let parse = |text| ProxyRules::parse(Some(text), None);
    let shown = |text| {
        let rules = parse(text).unwrap();
        assert!(!format!("{rules:?}").contains("secret"));
        rules.explain(&hub("https://hub.example.com"))
    };
    for (text, place) in [
        ("http://proxy:3128", "http://proxy:3128"),
        ("proxy:3128/", "http://proxy:3128"),
        ("HTTP://proxy", "http://proxy:1080"),
        ("http://user:secret@proxy:8080", "http://proxy:8080"),
        ("http://u:p@secret@proxy:8080", "http://proxy:8080"),
        ("http://[::1]:3128", "http://[::1]:3128"),
        ("https://user:secret@proxy", "https://proxy:443"),
        ("HTTPS://proxy:8443", "https://proxy:8443"),
    ] {
        assert_eq!(shown(text), format!("through {place}, from HTTPS_PROXY"));
    }
    for wrong in [
        "socks5://proxy:1080",
        "https://user:sec%ret@proxy:443",
        "http://user:secret@:3128",
        "http://user:secret@proxy:port",
        "http://user:secret@pro xy:1",
        "http://user:sec%ret@proxy:1",
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(
            !error.contains("secret") && !error.contains("sec%ret"),
            "{error}"
        );
    }
    assert!(ProxyRules::parse(Some("  "), None).unwrap().0.is_none());
    assert!(ProxyRules::parse(None, None).unwrap().0.is_none());
}

#[test]
fn proxy_credentials_are_decoded_and_sent_as_basic() {
    let header = |user| basic(user).unwrap().expose_secret().to_owned();
    // RFC 7617, 2.
    assert_eq!(
        header("Aladdin:open%20sesame"),
        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    );
    assert_eq!(
        header("user"),
        format!("Basic {}", STANDARD.encode("user:"))
    );
    assert!(basic("a%4").is_none() && basic("a%zz").is_none());
}
