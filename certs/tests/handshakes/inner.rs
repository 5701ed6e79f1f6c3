//! The inner TLS.

use super::*;

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
    let elsewhere = agent_identity(server.peer_certificates().unwrap(), "fl-other").unwrap_err();
    assert_eq!(elsewhere.code(), Code::ForeignCertificate);
}

#[test]
fn agent_without_certificate_is_anonymous() {
    let (ca, _dir) = authority();
    let client = session_client(ca.pin(), None).unwrap();
    let (_, server) = shake(client, hub(&ca, now()), HUB_SERVER_NAME).unwrap();
    assert!(server.peer_certificates().is_none());
}

#[test]
fn hub_of_another_authority_is_rejected_with_its_own_error() {
    let ((ca, _dir), (other, _other_dir)) = (authority(), authority());
    for identity in [None, Some(&agent(&other, now()))] {
        let client = session_client(other.pin(), identity).unwrap();
        let refused = shake(client, hub(&ca, now()), HUB_SERVER_NAME).unwrap_err();
        let Refused::ByClient(why) = refused else {
            panic!("{refused:?}")
        };
        assert!(matches!(
            TrustError::find(&why),
            Some(TrustError::NotPinned(pin)) if *pin == other.pin().into()
        ));
        assert!(explain(&why).contains("pinned authority"));
    }
}

#[test]
fn pinned_certificate_in_the_chain_does_not_help_another_authority() {
    let ((ca, _dir), (evil, _evil_dir)) = (authority(), authority());
    let leaf = forged_under(&ca);
    let server = session_server(&leaf, evil.certificate_pem(), std::time::Duration::ZERO).unwrap();
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
    let server = session_server(&leaf, ca.certificate_pem(), std::time::Duration::ZERO).unwrap();
    let client = session_client(ca.pin(), None).unwrap();
    assert!(by_certificate(shake(client, server, HUB_SERVER_NAME)));
}

#[test]
fn the_front_cannot_stand_in_for_the_inner_hub() {
    let (ca, _dir) = authority();
    let front = ca.issue_front(&["hub.example".into()], now()).unwrap();
    let server = session_server(&front, ca.certificate_pem(), std::time::Duration::ZERO).unwrap();
    let client = session_client(ca.pin(), None).unwrap();
    let Err(Refused::ByClient(why)) = shake(client, server, HUB_SERVER_NAME) else {
        panic!("the front is believed")
    };
    assert!(explain(&why).contains("not valid for name"), "{why}");
    let refused = ca.issue_front(&[HUB_SERVER_NAME.into()], now());
    assert_eq!(refused.unwrap_err().code(), Code::BadConfig);
}

#[test]
fn foreign_certificate_ends_the_handshake_with_an_alert() {
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
fn expired_certificate_is_accepted_within_the_grace_period() {
    let ((ca, _dir), (other, _other_dir)) = (authority(), authority());
    let lapsed = now() - Duration::hours(25);
    let (short, long) = (
        std::time::Duration::from_mins(30),
        std::time::Duration::from_hours(2),
    );
    let come = |identity: &Leaf, late| {
        let client = session_client(ca.pin(), Some(identity)).unwrap();
        shake(client, late_hub(&ca, now(), late), HUB_SERVER_NAME)
    };
    let identity = agent(&ca, lapsed);
    let (_, server) = come(&identity, long).unwrap();
    let who = agent_identity(server.peer_certificates().unwrap(), ca.trust_domain()).unwrap();
    assert_eq!(who.not_after, identity.not_after());
    let expired = Error::AlertReceived(AlertDescription::CertificateExpired);
    assert!(matches!(come(&identity, short), Err(Refused::ByServer(why)) if *why == expired));
    let unknown = Error::AlertReceived(AlertDescription::UnknownCA);
    let foreign = come(&agent(&other, lapsed), long);
    assert!(matches!(foreign, Err(Refused::ByServer(why)) if *why == unknown));
    let early = agent(&ca, now() + Duration::hours(1));
    assert!(come(&early, long).is_err());
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
        explain(&why).starts_with("the certificate expired at 20"),
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
