//! The outer TLS and its certificate chains.

use super::*;

const NAMES: [&str; 4] = ["hub.example", "*.clusters.hub.example", "127.0.0.1", "::1"];

fn front(ca: &Authority, at: OffsetDateTime) -> Arc<ServerConfig> {
    let names = NAMES.map(str::to_owned);
    front_server(&ca.issue_front(&names, at).unwrap()).unwrap()
}

#[test]
fn the_front_is_believed_by_ca_file_or_by_pin() {
    let (ca, _dir) = authority();
    assert_eq!(ca_pin(ca.certificate_pem()).unwrap(), ca.pin());
    let believers = [
        outer_client(Some(ca.certificate_pem()), None).unwrap(),
        outer_client(None, Some(ca.pin().into())).unwrap(),
        outer_client(Some(ca.certificate_pem()), Some(CaPin([0; 32]).into())).unwrap(),
    ];
    for client in believers {
        for name in [
            "hub.example",
            "c-demo.clusters.hub.example",
            "127.0.0.1",
            "::1",
        ] {
            let (client, _) = shake(client.clone(), front(&ca, now()), name).unwrap();
            assert_eq!(
                client.alpn_protocol(),
                Some(&b"http/1.1"[..]),
                "a WebSocket needs it"
            );
        }
    }
}

#[test]
fn outer_tls_errors_are_specific() {
    let ((ca, _dir), (other, _other_dir)) = (authority(), authority());
    let fresh = front(&ca, now());
    let old = front(&ca, now() - Duration::hours(25));
    let (by_ca, by_pin) = (Some(ca.certificate_pem()), Some(ca.pin().into()));
    let table = [
        (
            by_ca,
            None,
            &fresh,
            "other.example",
            "not valid for name \"other.example\"",
        ),
        (
            None,
            by_pin,
            &fresh,
            "other.example",
            "not valid for name \"other.example\"",
        ),
        (
            None,
            by_pin,
            &fresh,
            "a.b.clusters.hub.example",
            "not valid for name",
        ),
        (
            None,
            by_pin,
            &fresh,
            "127.0.0.2",
            "not valid for name \"127.0.0.2\"",
        ),
        (by_ca, None, &old, "hub.example", "expired at 20"),
        (None, by_pin, &old, "hub.example", "expired at 20"),
        (
            None,
            Some(other.pin().into()),
            &fresh,
            "hub.example",
            "is trusted neither",
        ),
        (
            Some(other.certificate_pem()),
            None,
            &fresh,
            "hub.example",
            "issuer",
        ),
    ];
    for (ca_pem, pin, server, name, says) in table {
        let client = outer_client(ca_pem, pin).unwrap();
        match shake(client, Arc::clone(server), name) {
            Err(Refused::ByClient(why)) => {
                assert!(explain(&why).contains(says), "{name}: {}", explain(&why));
            }
            other => panic!("{name}, {says}: {other:?}"),
        }
    }
}

#[test]
fn a_client_at_any_time_minds_all_but_the_time() {
    let ((ca, _dir), (other, _other_dir)) = (authority(), authority());
    for off in [-30, 0, 30] {
        let server = front(&ca, now() + Duration::hours(off));
        for (ca_pem, pin) in [
            (Some(ca.certificate_pem()), None),
            (None, Some(ca.pin().into())),
        ] {
            let client = outer_client_at_any_time(ca_pem, pin).unwrap();
            assert!(shake(client.clone(), server.clone(), "hub.example").is_ok());
            assert!(shake(client, server.clone(), "other.example").is_err());
        }
        let client = outer_client_at_any_time(None, Some(other.pin().into())).unwrap();
        assert!(shake(client, server, "hub.example").is_err());
    }
}

#[test]
fn damaged_ca_file_is_a_configuration_mistake() {
    for bad in [
        "",
        "nonsense",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert_eq!(
            outer_client(Some(bad), None).unwrap_err().code(),
            Code::BadConfig,
            "{bad:?}"
        );
        assert_eq!(ca_pin(bad).unwrap_err().code(), Code::BadConfig, "{bad:?}");
    }
}

#[test]
fn a_leaf_knows_the_names_it_covers() {
    let (ca, _dir) = authority();
    let leaf = ca.issue_front(&NAMES.map(str::to_owned), now()).unwrap();
    for (name, covered) in [
        ("hub.example", true),
        ("HUB.example", true),
        ("c-x.clusters.hub.example", true),
        ("127.0.0.1", true),
        ("::1", true),
        ("clusters.hub.example", false),
        ("a.c-x.clusters.hub.example", false),
        ("10.0.0.1", false),
        ("", false),
        ("a b", false),
    ] {
        assert_eq!(leaf.covers(name), covered, "{name:?}");
    }
    for bad in ["", "a b", "*", "*.*.x", "https://hub", "a\0b", "hüb"] {
        assert!(ca.issue_front(&[bad.to_owned()], now()).is_err(), "{bad:?}");
    }
}

#[test]
fn key_and_certificate_must_belong_together() {
    let (ca, _dir) = authority();
    let (one, two) = (AgentKey::generate().unwrap(), AgentKey::generate().unwrap());
    let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-demo".parse().unwrap());
    let signed = ca
        .sign_agent(&one.csr().unwrap(), &tenant, &cluster, now())
        .unwrap();
    use secrecy::ExposeSecret;
    let pem = one.to_pem();
    assert!(Leaf::from_pem(&signed.certificate_pem, pem.expose_secret()).is_ok());
    let wrong = two.with_certificate(&signed.certificate_pem).unwrap_err();
    assert_eq!(wrong.code(), Code::DialProtocol);
    let wrong = Leaf::from_pem(&signed.certificate_pem, two.to_pem().expose_secret()).unwrap_err();
    assert_eq!(wrong.code(), Code::BadConfig);
    assert!(wrong.to_string().contains("not the certificate's"));
    let again = AgentKey::from_pem(pem.expose_secret()).unwrap();
    assert!(again.with_certificate(&signed.certificate_pem).is_ok());
    let shown = format!(
        "{one:?} {:?}",
        one.with_certificate(&signed.certificate_pem)
    );
    assert!(
        !shown.contains("PRIVATE") && !shown.contains("key:"),
        "{shown}"
    );
}
