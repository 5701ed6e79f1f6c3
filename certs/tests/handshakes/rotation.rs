//! Two authorities during a rotation.

use fairlead_api::CaPins;
use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm, SigningKey};

use super::*;

/// An authority, its successor, and both certificates.
fn rotated() -> (Authority, Authority, String, TempDir) {
    let (old, dir) = authority();
    let new = Authority::open_or_create_next(dir.path(), old.trust_domain()).unwrap();
    let bundle = format!("{}{}", old.certificate_pem(), new.certificate_pem());
    (old, new, bundle, dir)
}

fn serving(leaf_of: &Authority, trusted: &str) -> Arc<ServerConfig> {
    let leaf = leaf_of.issue_hub(now()).unwrap();
    session_server(&leaf, trusted, std::time::Duration::ZERO).unwrap()
}

#[test]
fn successor_has_another_key_and_the_same_trust_domain() {
    let (old, new, bundle, dir) = rotated();
    assert_ne!(old.pin(), new.pin());
    assert_eq!(old.trust_domain(), new.trust_domain());
    let again = Authority::open_or_create_next(dir.path(), old.trust_domain()).unwrap();
    assert_eq!(again.pin(), new.pin());
    let pins = ca_pins(&bundle).unwrap();
    assert_eq!(pins, CaPins::new(old.pin(), Some(new.pin())));
}

#[test]
fn both_authorities_are_trusted_until_the_old_one_is_retired() {
    let (old, new, bundle, _dir) = rotated();
    let both = CaPins::new(old.pin(), Some(new.pin()));
    for signer in [&old, &new] {
        let identity = agent(signer, now());
        for hub in [&old, &new] {
            let client = session_client(both, Some(&identity)).unwrap();
            let (_, server) = shake(client, serving(hub, &bundle), HUB_SERVER_NAME).unwrap();
            let certificates = server.peer_certificates().unwrap();
            agent_identity(certificates, old.trust_domain()).unwrap();
        }
    }
    // An agent that was away during the rotation.
    let client = session_client(old.pin(), Some(&agent(&old, now()))).unwrap();
    shake(client, serving(&old, &bundle), HUB_SERVER_NAME).unwrap();

    let retired = |pins: CaPins, identity: &Leaf| {
        let client = session_client(pins, Some(identity)).unwrap();
        let server = serving(&new, new.certificate_pem());
        shake(client, server, HUB_SERVER_NAME).map(drop)
    };
    retired(both, &agent(&new, now())).unwrap();
    let refused = retired(both, &agent(&old, now())).unwrap_err();
    assert!(matches!(refused, Refused::ByServer(_)), "{refused:?}");
    let refused = retired(old.pin().into(), &agent(&old, now()));
    assert!(by_certificate(refused), "an agent that is behind");
}

#[test]
fn outer_tls_trusts_both_authorities() {
    let (old, new, _, _dir) = rotated();
    let both = CaPins::new(old.pin(), Some(new.pin()));
    for signer in [&old, &new] {
        let leaf = signer.issue_front(&["hub.example".to_owned()], now());
        let server = front_server(&leaf.unwrap()).unwrap();
        let client = outer_client(None, Some(both)).unwrap();
        shake(client, server, "hub.example").unwrap();
    }
}

/// A key that is not in a file, like one in a KMS.
struct RemoteKey(KeyPair);

impl PublicKeyData for RemoteKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl SigningKey for RemoteKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}

#[test]
fn key_outside_of_the_process_signs_as_one_in_a_file() {
    let (file, dir) = authority();
    let key = || {
        let pem = std::fs::read_to_string(dir.path().join("ca.key")).unwrap();
        RemoteKey(KeyPair::from_pem(&pem).unwrap())
    };
    let pem = file.certificate_pem().to_owned();
    let remote = Authority::with_signer(key(), pem).unwrap();
    assert_eq!(remote.pin(), file.pin());
    let client = session_client(file.pin(), Some(&agent(&remote, now()))).unwrap();
    shake(client, hub(&remote, now()), HUB_SERVER_NAME).unwrap();
    let (other, _other) = authority();
    let foreign = Authority::with_signer(key(), other.certificate_pem().to_owned());
    assert_eq!(foreign.unwrap_err().code(), Code::BadConfig);
}

/// A certificate of the hub's key, signed by the CA of a company.
#[test]
fn certificate_of_the_authority_may_be_signed_by_another_ca() {
    let (own, dir) = authority();
    let pem = std::fs::read_to_string(dir.path().join("ca.key")).unwrap();
    let key = KeyPair::from_pem(&pem).unwrap();
    let mut root = rcgen::CertificateParams::default();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let company = KeyPair::generate().unwrap();
    let company = rcgen::Issuer::new(root, company);
    let mut intermediate = rcgen::CertificateParams::default();
    intermediate.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    intermediate.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let uri = format!("spiffe://{}", own.trust_domain());
    intermediate.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
    let signed = intermediate.signed_by(&key, &company).unwrap();

    let upstream = Authority::with_signer(RemoteKey(key), signed.pem()).unwrap();
    assert_eq!(upstream.pin(), own.pin(), "agents keep their pin");
    let client = session_client(own.pin(), Some(&agent(&upstream, now()))).unwrap();
    shake(client, hub(&upstream, now()), HUB_SERVER_NAME).unwrap();
}
