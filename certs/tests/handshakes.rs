//! Real handshakes of both TLS layers, in memory: who believes whom, and what is said when they do not.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

use std::sync::Arc;

use fairlead_api::{CaPin, Code, hello::PROTOCOL};
use fairlead_certs::{
    AgentKey, Authority, HUB_SERVER_NAME, Leaf, TrustError, agent_identity, ca_pin, explain,
    front_server, outer_client, session_client, session_server,
};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Error, HandshakeKind, ServerConfig,
    ServerConnection,
};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

fn authority() -> (Authority, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Authority::open_or_create(dir.path()).unwrap(), dir)
}

fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

fn agent(authority: &Authority, at: OffsetDateTime) -> Leaf {
    let key = AgentKey::generate().unwrap();
    let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-demo".parse().unwrap());
    let signed = authority
        .sign_agent(&key.csr().unwrap(), &tenant, &cluster, at)
        .unwrap();
    key.with_certificate(&signed.certificate_pem).unwrap()
}

fn hub(authority: &Authority, at: OffsetDateTime) -> Arc<ServerConfig> {
    session_server(
        &authority.issue_hub(at).unwrap(),
        authority.certificate_pem(),
    )
    .unwrap()
}

/// Who ended a handshake, and why in the client's eyes.
#[derive(Debug)]
enum Refused {
    ByClient(Box<Error>),
    ByServer(Box<Error>),
}

/// Both ends after a handshake and some rounds more, in which tickets would have come.
fn shake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: &'static str,
) -> Result<(ClientConnection, ServerConnection), Refused> {
    let mut client = ClientConnection::new(client, name.try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        server.read_tls(&mut wire.as_slice()).unwrap();
        let of_server = server.process_new_packets();
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        client.read_tls(&mut wire.as_slice()).unwrap();
        let of_client = client.process_new_packets();
        match (of_client, of_server) {
            (Err(why @ Error::AlertReceived(_)), Err(_)) => {
                return Err(Refused::ByServer(why.into()));
            }
            (Err(why), _) => return Err(Refused::ByClient(why.into())),
            (Ok(_), Err(why)) => panic!("the server ends it without an alert: {why}"),
            (Ok(_), Ok(_)) => {}
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((client, server))
}

fn by_certificate<T>(result: Result<T, Refused>) -> bool {
    matches!(result, Err(Refused::ByClient(why)) if matches!(*why, Error::InvalidCertificate(_)))
}

#[test]
fn hub_and_agent_prove_themselves_to_each_other() {
    let (ca, _dir) = authority();
    let identity = agent(&ca, now());
    let client = session_client(ca.pin(), Some(&identity)).unwrap();
    let (client, server) = shake(client, hub(&ca, now()), HUB_SERVER_NAME).unwrap();
    assert_eq!(
        client.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_3)
    );
    let who = agent_identity(server.peer_certificates().unwrap(), ca.trust_domain()).unwrap();
    assert_eq!(
        (who.tenant.as_str(), who.cluster.as_str()),
        ("t-acme", "c-demo")
    );
    assert_eq!(who.not_after, identity.not_after());
    for end in [client.alpn_protocol(), server.alpn_protocol()] {
        assert_eq!(end, Some(PROTOCOL));
    }
    let elsewhere = agent_identity(server.peer_certificates().unwrap(), "fl-other").unwrap_err();
    assert_eq!(elsewhere.code, Code::ForeignCertificate);
}

/// Of the version before, neither end names what runs inside.
#[test]
fn an_older_end_agrees_on_no_protocol_and_is_no_reason_to_fail() {
    let (ca, _dir) = authority();
    let client = session_client(ca.pin(), Some(&agent(&ca, now()))).unwrap();
    let mut old_client = (*client).clone();
    old_client.alpn_protocols.clear();
    let (agent, hub_end) = shake(Arc::new(old_client), hub(&ca, now()), HUB_SERVER_NAME).unwrap();
    assert_eq!(
        (agent.alpn_protocol(), hub_end.alpn_protocol()),
        (None, None)
    );
    let mut old_hub = (*hub(&ca, now())).clone();
    old_hub.alpn_protocols.clear();
    let (agent, hub_end) = shake(client, Arc::new(old_hub), HUB_SERVER_NAME).unwrap();
    assert_eq!(
        (agent.alpn_protocol(), hub_end.alpn_protocol()),
        (None, None)
    );
}

#[test]
fn an_agent_without_certificate_is_let_in_as_nobody() {
    let (ca, _dir) = authority();
    let client = session_client(ca.pin(), None).unwrap();
    let (_, server) = shake(client, hub(&ca, now()), HUB_SERVER_NAME).unwrap();
    assert!(server.peer_certificates().is_none());
}

#[test]
fn a_hub_of_another_authority_is_refused_recognisably() {
    let ((ca, _dir), (other, _other_dir)) = (authority(), authority());
    for identity in [None, Some(&agent(&other, now()))] {
        let client = session_client(other.pin(), identity).unwrap();
        let refused = shake(client, hub(&ca, now()), HUB_SERVER_NAME).unwrap_err();
        let Refused::ByClient(why) = refused else {
            panic!("{refused:?}")
        };
        assert!(matches!(
            TrustError::find(&why),
            Some(TrustError::NotPinned(pin)) if *pin == other.pin()
        ));
        assert!(explain(&why).contains("pinned authority"));
    }
}

#[test]
fn bringing_the_pinned_certificate_along_does_not_help_another_authority() {
    let ((ca, _dir), (evil, _evil_dir)) = (authority(), authority());
    let leaf = forged_under(&ca);
    let server = session_server(&leaf, evil.certificate_pem()).unwrap();
    let refused = shake(
        session_client(ca.pin(), None).unwrap(),
        server,
        HUB_SERVER_NAME,
    );
    assert!(by_certificate(refused));
}

/// A hub leaf that claims to be issued by `shown`, but is signed with another key.
fn forged_under(shown: &Authority) -> Leaf {
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer_key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_pem(shown.certificate_pem(), issuer_key).unwrap();
    let mut params = rcgen::CertificateParams::new(vec![HUB_SERVER_NAME.to_owned()]).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let leaf = params.signed_by(&key, &issuer).unwrap();
    let chain = format!("{}{}", leaf.pem(), shown.certificate_pem());
    Leaf::from_pem(&chain, &key.serialize_pem()).unwrap()
}

#[test]
fn an_agent_cannot_stand_in_for_the_hub() {
    let (ca, _dir) = authority();
    let key = AgentKey::generate().unwrap();
    let (tenant, cluster) = ("t-acme".parse().unwrap(), "c-demo".parse().unwrap());
    let signed = ca
        .sign_agent(&key.csr().unwrap(), &tenant, &cluster, now())
        .unwrap();
    let chain = format!("{}{}", signed.certificate_pem, ca.certificate_pem());
    let leaf = key.with_certificate(&chain).unwrap();
    let server = session_server(&leaf, ca.certificate_pem()).unwrap();
    let client = session_client(ca.pin(), None).unwrap();
    assert!(by_certificate(shake(client, server, HUB_SERVER_NAME)));
}

#[test]
fn the_front_cannot_stand_in_for_the_inner_hub() {
    let (ca, _dir) = authority();
    let front = ca.issue_front(&["hub.example".into()], now()).unwrap();
    let server = session_server(&front, ca.certificate_pem()).unwrap();
    let client = session_client(ca.pin(), None).unwrap();
    let Err(Refused::ByClient(why)) = shake(client, server, HUB_SERVER_NAME) else {
        panic!("the front is believed")
    };
    assert!(explain(&why).contains("not valid for name"), "{why}");
    let refused = ca.issue_front(&[HUB_SERVER_NAME.into()], now());
    assert_eq!(refused.unwrap_err().code, Code::BadConfig);
}

#[test]
fn a_certificate_that_is_no_agents_ends_the_handshake_with_an_alert() {
    let ((ca, _dir), (other, _other_dir)) = (authority(), authority());
    let cases = [
        (
            "other authority",
            agent(&other, now()),
            AlertDescription::UnknownCA,
        ),
        (
            "expired",
            agent(&ca, now() - Duration::hours(25)),
            AlertDescription::CertificateExpired,
        ),
    ];
    for (case, identity, alert) in cases {
        let client = session_client(ca.pin(), Some(&identity)).unwrap();
        match shake(client, hub(&ca, now()), HUB_SERVER_NAME) {
            Err(Refused::ByServer(client_sees)) => {
                assert_eq!(*client_sees, Error::AlertReceived(alert), "{case}");
                assert!(explain(&client_sees).contains("our certificate"), "{case}");
            }
            other => panic!("{case}: {other:?}"),
        }
    }
    let hubs_own = ca.issue_hub(now()).unwrap();
    let client = session_client(ca.pin(), Some(&hubs_own)).unwrap();
    assert!(matches!(
        shake(client, hub(&ca, now()), HUB_SERVER_NAME),
        Err(Refused::ByServer(_))
    ));
}

#[test]
fn an_expired_hub_is_refused_with_the_date() {
    let (ca, _dir) = authority();
    let client = session_client(ca.pin(), None).unwrap();
    let server = hub(&ca, now() - Duration::hours(25));
    let Err(Refused::ByClient(why)) = shake(client, server, HUB_SERVER_NAME) else {
        panic!("an expired hub is believed")
    };
    assert!(
        explain(&why).starts_with("the certificate expired on 20"),
        "{why}"
    );
    let early = hub(&ca, now() + Duration::hours(1));
    let client = session_client(ca.pin(), None).unwrap();
    let Err(Refused::ByClient(why)) = shake(client, early, HUB_SERVER_NAME) else {
        panic!("a hub from the future is believed")
    };
    assert!(explain(&why).contains("clock"), "{why}");
}

#[test]
fn a_clock_five_minutes_behind_does_no_harm() {
    let (ca, _dir) = authority();
    let ahead = now() + Duration::minutes(4);
    let client = session_client(ca.pin(), Some(&agent(&ca, ahead))).unwrap();
    assert!(shake(client, hub(&ca, ahead), HUB_SERVER_NAME).is_ok());
}

#[test]
fn nothing_is_ever_resumed() {
    let (ca, _dir) = authority();
    let client = session_client(ca.pin(), Some(&agent(&ca, now()))).unwrap();
    let server = hub(&ca, now());
    let front = front_server(&ca.issue_front(&["hub.example".into()], now()).unwrap()).unwrap();
    let outer = outer_client(Some(ca.certificate_pem()), None).unwrap();
    for _ in 0..2 {
        let (inner, _) = shake(client.clone(), server.clone(), HUB_SERVER_NAME).unwrap();
        assert_eq!(inner.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(inner.tls13_tickets_received(), 0);
        let (outer, _) = shake(outer.clone(), front.clone(), "hub.example").unwrap();
        assert_eq!(outer.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(outer.tls13_tickets_received(), 0);
    }
}

#[test]
fn the_inner_tls_speaks_no_1_2() {
    let (ca, _dir) = authority();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let old = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    assert!(shake(Arc::new(old), hub(&ca, now()), HUB_SERVER_NAME).is_err());
}

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
        outer_client(None, Some(ca.pin())).unwrap(),
        outer_client(Some(ca.certificate_pem()), Some(CaPin([0; 32]))).unwrap(),
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
fn the_outer_tls_says_what_is_wrong() {
    let ((ca, _dir), (other, _other_dir)) = (authority(), authority());
    let fresh = front(&ca, now());
    let old = front(&ca, now() - Duration::hours(25));
    let (by_ca, by_pin) = (Some(ca.certificate_pem()), Some(ca.pin()));
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
        (by_ca, None, &old, "hub.example", "expired on 20"),
        (None, by_pin, &old, "hub.example", "expired on 20"),
        (
            None,
            Some(other.pin()),
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
fn a_damaged_ca_file_is_a_mistake_in_the_configuration() {
    for bad in [
        "",
        "nonsense",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert_eq!(
            outer_client(Some(bad), None).unwrap_err().code,
            Code::BadConfig,
            "{bad:?}"
        );
        assert_eq!(ca_pin(bad).unwrap_err().code, Code::BadConfig, "{bad:?}");
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
    assert_eq!(wrong.code, Code::DialProtocol);
    let wrong = Leaf::from_pem(&signed.certificate_pem, two.to_pem().expose_secret()).unwrap_err();
    assert_eq!(wrong.code, Code::BadConfig);
    assert!(wrong.cause.contains("not the certificate's"));
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
