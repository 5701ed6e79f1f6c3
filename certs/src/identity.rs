//! Reads the identity in an agent's certificate, which TLS has verified, as strictly as the authority writes it.

use fairlead_api::{ClusterId, TenantId, hex};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

use crate::{error::CertsError, pin::sha256, profiles::hub_uri};

/// Identity of an agent, from the URI SAN `spiffe://<trust domain>/tenant/<t>/cluster/<c>` of its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentIdentity {
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// The cluster of the agent.
    pub cluster: ClusterId,
    /// End of the validity of its certificate.
    pub not_after: OffsetDateTime,
    /// Serial number in lower-case hexadecimal.
    pub serial: String,
    /// SHA-256 of the public key, as by [`csr_fingerprint`](crate::csr_fingerprint).
    pub key: [u8; 32],
}

/// Reads the identity from a chain that TLS has verified, leaf first.
///
/// # Errors
/// `FL-2107` if it names anything but one agent of this trust domain.
pub fn agent_identity(
    chain: &[CertificateDer<'_>],
    trust_domain: &str,
) -> Result<AgentIdentity, CertsError> {
    let foreign = CertsError::ForeignCertificate;
    let leaf = chain
        .first()
        .ok_or_else(|| foreign("there is no certificate"))?;
    let (_, leaf) =
        X509Certificate::from_der(leaf).map_err(|_| foreign("the certificate is damaged"))?;
    let names = leaf
        .subject_alternative_name()
        .map_err(|_| foreign("its names are damaged"))?
        .ok_or_else(|| foreign("it has no SPIFFE ID"))?;
    let [GeneralName::URI(uri)] = names.value.general_names.as_slice() else {
        return Err(foreign("it does not have exactly one SPIFFE ID"));
    };
    let (tenant, cluster) = parse_uri(uri, trust_domain)
        .ok_or_else(|| foreign("its SPIFFE ID does not name an agent"))?;
    Ok(AgentIdentity {
        tenant,
        cluster,
        not_after: leaf.validity().not_after.to_datetime(),
        serial: hex::encode(leaf.raw_serial()),
        key: sha256(leaf.public_key().raw),
    })
}

/// Expiry of a hub's certificate for other hubs, from a chain that TLS has verified, leaf first; `None` for the chain
/// of an agent.
#[must_use]
pub fn hub_expiry(chain: &[CertificateDer<'_>], trust_domain: &str) -> Option<OffsetDateTime> {
    let (_, leaf) = X509Certificate::from_der(chain.first()?).ok()?;
    let names = leaf.subject_alternative_name().ok()??;
    let [GeneralName::URI(uri)] = names.value.general_names.as_slice() else {
        return None;
    };
    (*uri == hub_uri(trust_domain)).then(|| leaf.validity().not_after.to_datetime())
}

fn parse_uri(uri: &str, trust_domain: &str) -> Option<(TenantId, ClusterId)> {
    let path = uri.strip_prefix("spiffe://")?.strip_prefix(trust_domain)?;
    let (tenant, cluster) = path.strip_prefix("/tenant/")?.split_once("/cluster/")?;
    Some((tenant.parse().ok()?, cluster.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spiffe_id_is_read_as_strictly_as_written() {
        let ok = "spiffe://fl-1/tenant/t-a/cluster/c-b";
        let (tenant, cluster) = parse_uri(ok, "fl-1").unwrap();
        assert_eq!((tenant.as_str(), cluster.as_str()), ("t-a", "c-b"));
        for bad in [
            "spiffe://fl-2/tenant/t-a/cluster/c-b",
            "spiffe://fl-1.evil/tenant/t-a/cluster/c-b",
            "spiffe://fl-11/tenant/t-a/cluster/c-b",
            "SPIFFE://fl-1/tenant/t-a/cluster/c-b",
            "https://fl-1/tenant/t-a/cluster/c-b",
            "spiffe://fl-1/tenant/t-a/cluster/c-b/",
            "spiffe://fl-1/tenant/t-a/cluster/c-b/cluster/c-c",
            "spiffe://fl-1/tenant/t-a/cluster/c-b?x",
            "spiffe://fl-1/tenant//cluster/c-b",
            "spiffe://fl-1/tenant/t-a/../t-b/cluster/c-b",
            "spiffe://fl-1/hub",
            "spiffe://fl-1",
            "",
        ] {
            assert!(parse_uri(bad, "fl-1").is_none(), "{bad}");
        }
    }
}
