//! The authority's files and certificates: a certificate has the contents of its profile, independent of the request.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

use std::{fs, os::unix::fs::PermissionsExt};

use fairlead_api::{ClusterId, Code, TenantId};
use fairlead_certs::{AgentKey, Authority, Registration, agent_identity, csr_fingerprint};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

const NOW: OffsetDateTime = time::macros::datetime!(2026-11-21 12:00:00.5 UTC);

fn ids() -> (TenantId, ClusterId) {
    ("t-acme".parse().unwrap(), "c-demo".parse().unwrap())
}

#[test]
fn it_is_made_once_and_opened_ever_after() {
    let dir = tempfile::tempdir().unwrap();
    let first = Authority::open_or_create(dir.path()).unwrap();
    let key = fs::read(dir.path().join("ca.key")).unwrap();
    let mode = fs::metadata(dir.path().join("ca.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = Authority::open_or_create(dir.path()).unwrap();
    assert_eq!(first.certificate_pem(), second.certificate_pem());
    assert_eq!(first.pin(), second.pin());
    assert_eq!(first.trust_domain(), second.trust_domain());
    assert_eq!(fs::read(dir.path().join("ca.key")).unwrap(), key);
    assert!(first.trust_domain().starts_with("fl-") && first.trust_domain().len() == 19);
    assert!(first.not_after() > OffsetDateTime::now_utc() + Duration::days(3640));
    let other = tempfile::tempdir().unwrap();
    let other = Authority::open_or_create(other.path()).unwrap();
    assert_ne!(first.trust_domain(), other.trust_domain());
    assert!(!format!("{first:?}").contains("PRIVATE"));
}

#[test]
fn interrupted_first_start_is_completed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Authority::open_or_create(dir.path()).unwrap();
    fs::remove_file(dir.path().join("ca.pem")).unwrap();
    let again = Authority::open_or_create(dir.path()).unwrap();
    assert_eq!(whole.pin(), again.pin());
    assert_eq!(whole.trust_domain(), again.trust_domain());
}

#[test]
fn damaged_files_are_refused_and_left_alone() {
    let other = tempfile::tempdir().unwrap();
    Authority::open_or_create(other.path()).unwrap();
    let leaf = {
        let ca = Authority::open_or_create(other.path()).unwrap();
        let (tenant, cluster) = ids();
        let csr = AgentKey::generate().unwrap().csr().unwrap();
        ca.sign_agent(&csr, &tenant, &cluster, NOW).unwrap()
    };
    let foreign = |name: &str| fs::read_to_string(other.path().join(name)).unwrap();
    let table = [
        ("ca.key", Some(String::new())),
        ("ca.key", Some("nonsense".into())),
        ("ca.key", Some(foreign("ca.key"))),
        ("ca.key", None),
        ("ca.pem", Some(String::new())),
        ("ca.pem", Some("nonsense".into())),
        ("ca.pem", Some(foreign("ca.pem"))),
        ("ca.pem", Some(leaf.certificate_pem)),
    ];
    for (name, content) in table {
        let dir = tempfile::tempdir().unwrap();
        Authority::open_or_create(dir.path()).unwrap();
        let path = dir.path().join(name);
        match &content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let failure = Authority::open_or_create(dir.path()).unwrap_err();
        assert_eq!(failure.code(), Code::DataDir, "{name} {content:?}");
        assert_eq!(fs::read_to_string(&path).ok(), content, "{name}");
    }
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Authority::open_or_create(dir.path()).unwrap();
    let key = dir.path().join("ca.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let failure = Authority::open_or_create(dir.path()).unwrap_err();
    assert_eq!(failure.code(), Code::DataDir);
    assert!(failure.to_string().contains("0640"), "{failure}");
}

#[test]
fn agent_certificate_matches_its_profile() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open_or_create(dir.path()).unwrap();
    let (tenant, cluster) = ids();
    // A request for far more than an agent gets.
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let csr = params.serialize_request(&key).unwrap().pem().unwrap();
    let signed = ca.sign_agent(&csr, &tenant, &cluster, NOW).unwrap();
    assert_eq!(signed.key_fingerprint, csr_fingerprint(&csr).unwrap());
    assert_eq!(
        signed.not_after,
        NOW.replace_nanosecond(0).unwrap() + Duration::hours(24)
    );

    let der = CertificateDer::from_pem_slice(signed.certificate_pem.as_bytes()).unwrap();
    let (_, leaf) = X509Certificate::from_der(&der).unwrap();
    let constraints = leaf.basic_constraints().unwrap().unwrap();
    assert!(!constraints.value.ca && constraints.critical);
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !usage.any);
    let usage = leaf.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_cert_sign());
    let names = leaf.subject_alternative_name().unwrap().unwrap().value;
    let uri = format!(
        "URI(spiffe://{}/tenant/t-acme/cluster/c-demo)",
        ca.trust_domain()
    );
    assert_eq!(names.general_names.len(), 1);
    assert_eq!(names.general_names[0].to_string(), uri);
    let who = agent_identity(std::slice::from_ref(&der), ca.trust_domain()).unwrap();
    assert_eq!((who.tenant, who.cluster), ids());
    assert_eq!(who.not_after, signed.not_after);
    assert_eq!(who.serial, signed.serial);
    let again = ca.sign_agent(&csr, &tenant, &cluster, NOW).unwrap();
    assert_ne!(
        again.serial, signed.serial,
        "a serial number is never given twice"
    );
}

#[test]
fn certificate_names_its_registration() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open_or_create(dir.path()).unwrap();
    let (tenant, cluster) = ids();
    let csr = AgentKey::generate().unwrap().csr().unwrap();
    let (one, two) = (
        Registration::random().unwrap(),
        Registration::random().unwrap(),
    );
    for _ in 0..20 {
        let signed = ca.sign_agent_of(one, &csr, &tenant, &cluster, NOW).unwrap();
        let kept = Registration::from_bytes(*one.as_bytes());
        assert!(kept.issued(&signed.serial), "{}", signed.serial);
        assert!(!two.issued(&signed.serial));
        assert!(!one.issued(&signed.serial[..16]) && !one.issued(""));
    }
}

#[test]
fn identity_is_one_spiffe_id_and_nothing_else() {
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let good = "spiffe://fl-1/tenant/t-a/cluster/c-b";
    let dns = SanType::DnsName("hub.fairlead.internal".try_into().unwrap());
    for (names, ok) in [
        (vec![uri(good)], true),
        (vec![], false),
        (
            vec![uri(good), uri("spiffe://fl-1/tenant/t-a/cluster/c-c")],
            false,
        ),
        (vec![uri(good), dns.clone()], false),
        (vec![dns], false),
        (vec![uri("spiffe://fl-2/tenant/t-a/cluster/c-b")], false),
        (vec![uri("spiffe://fl-1/hub")], false),
    ] {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.clone();
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = agent_identity(&[der.der().clone()], "fl-1");
        assert_eq!(read.is_ok(), ok, "{names:?}");
        if let Err(failure) = read {
            assert_eq!(failure.code(), Code::ForeignCertificate);
        }
    }
    for chain in [
        vec![],
        vec![CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])],
    ] {
        let failure = agent_identity(&chain, "fl-1").unwrap_err();
        assert_eq!(failure.code(), Code::ForeignCertificate);
    }
}

/// A request with this common name and these names.
fn csr(common_name: Option<&str>, names: Vec<SanType>) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(name) = common_name {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    params.subject_alt_names = names;
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

#[test]
fn request_may_name_only_its_own_identity() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open_or_create(dir.path()).unwrap();
    let (tenant, cluster) = ids();
    let uri = |text: String| SanType::URI(text.try_into().unwrap());
    let td = ca.trust_domain();
    let own = format!("spiffe://{td}/tenant/t-acme/cluster/c-demo");
    let mut organisation = CertificateParams::default();
    organisation.distinguished_name = DistinguishedName::new();
    organisation
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    let key = KeyPair::generate().unwrap();
    let organisation = organisation.serialize_request(&key).unwrap().pem().unwrap();
    let table = [
        (csr(None, vec![]), None),
        (csr(Some("c-demo"), vec![uri(own.clone())]), None),
        (csr(Some("c-other"), vec![]), Some(Code::ForeignName)),
        (csr(Some(""), vec![]), Some(Code::ForeignName)),
        (
            csr(None, vec![uri(own.replace("c-demo", "c-other"))]),
            Some(Code::ForeignName),
        ),
        (
            csr(None, vec![uri(own.replace("t-acme", "t-other"))]),
            Some(Code::ForeignName),
        ),
        (
            csr(
                None,
                vec![uri(own.clone()), uri(format!("spiffe://{td}/hub"))],
            ),
            Some(Code::ForeignName),
        ),
        (
            csr(
                None,
                vec![SanType::DnsName(
                    "hub.fairlead.internal".try_into().unwrap(),
                )],
            ),
            Some(Code::ForeignName),
        ),
        (
            csr(None, vec![SanType::IpAddress([127, 0, 0, 1].into())]),
            Some(Code::ForeignName),
        ),
        (
            csr(None, vec![SanType::Rfc822Name("a@b".try_into().unwrap())]),
            Some(Code::ForeignName),
        ),
        (organisation, Some(Code::ForeignName)),
    ];
    for (n, (request, refused)) in table.into_iter().enumerate() {
        let signed = ca.sign_agent(&request, &tenant, &cluster, NOW);
        assert_eq!(signed.err().map(|f| f.code()), refused, "case {n}");
    }
}

#[test]
fn invalid_requests_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::open_or_create(dir.path()).unwrap();
    let (tenant, cluster) = ids();
    let good = csr(None, vec![]);
    let der = pem_bytes(&good);
    let mut forged = der.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut longer = der.clone();
    longer.push(0);
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = authority.serialize_request(&key).unwrap().pem().unwrap();
    let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let p384 = CertificateParams::default()
        .serialize_request(&p384)
        .unwrap()
        .pem()
        .unwrap();
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let rsa = CertificateParams::default()
        .serialize_request(&rsa)
        .unwrap()
        .pem()
        .unwrap();
    let table = [
        ("empty", String::new()),
        ("no PEM", "nonsense".to_owned()),
        ("a certificate", ca.certificate_pem().to_owned()),
        (
            "no base64",
            "-----BEGIN CERTIFICATE REQUEST-----\n!!\n-----END CERTIFICATE REQUEST-----\n"
                .to_owned(),
        ),
        ("cut", to_pem(&der[..der.len() / 2])),
        ("something behind", to_pem(&longer)),
        ("forged signature", to_pem(&forged)),
        ("empty DER", to_pem(&[])),
        ("oversized", format!("{}{good}", "#".repeat(9000))),
        ("wants to be an authority", authority),
        ("P-384", p384),
        ("RSA", rsa),
    ];
    for (case, request) in table {
        let failure = csr_fingerprint(&request).unwrap_err();
        assert_eq!(failure.code(), Code::BadCsr, "{case}");
        let failure = ca.sign_agent(&request, &tenant, &cluster, NOW).unwrap_err();
        assert_eq!(failure.code(), Code::BadCsr, "{case}");
    }
    for cut in 0..der.len() {
        assert!(
            csr_fingerprint(&to_pem(&der[..cut])).is_err(),
            "cut at {cut}"
        );
    }
}

#[test]
fn the_fingerprint_is_the_keys_not_the_requests() {
    let key = AgentKey::generate().unwrap();
    let one = csr_fingerprint(&key.csr().unwrap()).unwrap();
    assert_eq!(csr_fingerprint(&key.csr().unwrap()).unwrap(), one);
    let other = AgentKey::generate().unwrap().csr().unwrap();
    assert_ne!(csr_fingerprint(&other).unwrap(), one);
}

fn pem_bytes(pem: &str) -> Vec<u8> {
    rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
        .unwrap()
        .to_vec()
}

fn to_pem(der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE REQUEST-----\n");
    for (n, chunk) in der.chunks(3).enumerate() {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at > chunk.len() {
                '='
            } else {
                char::from(digit)
            });
        }
        if n % 16 == 15 {
            text.push('\n');
        }
    }
    text.push_str("\n-----END CERTIFICATE REQUEST-----\n");
    text
}
