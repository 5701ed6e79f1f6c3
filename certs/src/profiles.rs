//! Contents of each kind of certificate that the authority makes. No attribute of a request gets in here.

use std::net::IpAddr;

use fairlead_api::{ClusterId, TenantId};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyUsagePurpose, SanType, string::Ia5String,
};
use time::{Duration, OffsetDateTime};

use crate::{
    error::CertsError,
    inner::HUB_SERVER_NAME,
    registration::{Registration, SerialPrefix},
    tls::internal,
};

/// Validity of the authority itself.
const CA_LIFETIME: Duration = Duration::days(3650);
/// Validity of every leaf from the moment it is issued.
pub const LEAF_LIFETIME: Duration = Duration::hours(24);
/// Time by which every certificate is backdated, for clocks that are behind.
pub const CLOCK_SLACK: Duration = Duration::minutes(5);

const CA_NAME: &str = "Fairlead CA";

pub(crate) fn uri(text: String) -> Result<SanType, CertsError> {
    Ia5String::try_from(text)
        .map(SanType::URI)
        .map_err(internal)
}

/// SPIFFE ID of an agent: `spiffe://<trust domain>/tenant/<t>/cluster/<c>`.
pub(crate) fn agent_uri(trust_domain: &str, tenant: &TenantId, cluster: &ClusterId) -> String {
    format!("spiffe://{trust_domain}/tenant/{tenant}/cluster/{cluster}")
}

/// SPIFFE ID of all hubs of an authority.
pub(crate) fn hub_uri(trust_domain: &str) -> String {
    format!("spiffe://{trust_domain}/hub")
}

/// `key` distinguishes a later authority of the same trust domain from the first one.
pub(crate) fn ca(
    trust_domain: &str,
    key: Option<&str>,
    now: OffsetDateTime,
) -> Result<CertificateParams, CertsError> {
    let mut params = dated(CA_NAME, now, CA_LIFETIME)?;
    // Distinguishes the authorities of hubs: else another hub's signature would only look damaged.
    params
        .distinguished_name
        .push(DnType::OrganizationName, trust_domain);
    if let Some(key) = key {
        let unit = DnType::OrganizationalUnitName;
        params.distinguished_name.push(unit, key);
    }
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.subject_alt_names = vec![uri(format!("spiffe://{trust_domain}"))?];
    Ok(params)
}

pub(crate) fn agent(
    trust_domain: &str,
    tenant: &TenantId,
    cluster: &ClusterId,
    serial: SerialPrefix,
    now: OffsetDateTime,
) -> Result<CertificateParams, CertsError> {
    let mut params = leaf(cluster.as_str(), now)?;
    params.serial_number = Some(serial.serial()?);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.subject_alt_names = vec![uri(agent_uri(trust_domain, tenant, cluster))?];
    Ok(params)
}

pub(crate) fn hub(
    trust_domain: &str,
    now: OffsetDateTime,
) -> Result<CertificateParams, CertsError> {
    let mut params = leaf("Fairlead hub", now)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = vec![
        uri(hub_uri(trust_domain))?,
        SanType::DnsName(HUB_SERVER_NAME.try_into().map_err(internal)?),
    ];
    Ok(params)
}

/// Certificate by which a hub proves itself to another hub.
pub(crate) fn hub_client(
    trust_domain: &str,
    now: OffsetDateTime,
) -> Result<CertificateParams, CertsError> {
    let mut params = leaf("Fairlead hub", now)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.subject_alt_names = vec![uri(hub_uri(trust_domain))?];
    Ok(params)
}

pub(crate) fn front(
    names: &[String],
    now: OffsetDateTime,
) -> Result<CertificateParams, CertsError> {
    let mut params = leaf("Fairlead front", now)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = names
        .iter()
        .map(|name| front_name(name))
        .collect::<Result<_, _>>()?;
    Ok(params)
}

fn front_name(name: &str) -> Result<SanType, CertsError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let bad = || {
        let detail = format!("{name:?} is not a valid name for the hub's certificate");
        CertsError::Settings(detail)
    };
    let plain = name.strip_prefix("*.").unwrap_or(name);
    rustls::pki_types::DnsName::try_from(plain).map_err(|_| bad())?;
    if plain.eq_ignore_ascii_case(HUB_SERVER_NAME) {
        // The front's key must never be usable for the inner TLS.
        return Err(bad());
    }
    Ia5String::try_from(name)
        .map(SanType::DnsName)
        .map_err(|_| bad())
}

fn leaf(common_name: &str, now: OffsetDateTime) -> Result<CertificateParams, CertsError> {
    let mut params = dated(common_name, now, LEAF_LIFETIME)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn dated(
    common_name: &str,
    now: OffsetDateTime,
    lifetime: Duration,
) -> Result<CertificateParams, CertsError> {
    let mut params = CertificateParams::default();
    // X.509 has whole seconds only.
    let now = now.replace_nanosecond(0).map_err(internal)?;
    params.not_before = now - CLOCK_SLACK;
    params.not_after = now + lifetime;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.serial_number = Some(Registration::random()?.in_epoch(0).serial()?);
    Ok(params)
}
