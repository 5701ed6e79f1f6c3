//! Address and trust of the API server, for programs that bring a token of their own.

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::CertificateDer;

use super::loaded::LoadedCredential;

/// Characters of base64 in a line of PEM (RFC 7468).
const PEM_LINE_CHARS: usize = 64;

/// Address and trust of the API server. It holds no credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiLocation {
    /// `https://host:port/base`.
    pub server: String,
    /// CA certificates as PEM; none: those of the system.
    pub ca: Option<String>,
    /// Name in the server's certificate, if it is not the host.
    pub server_name: Option<String>,
}

impl ApiLocation {
    pub(super) fn of(loaded: &LoadedCredential) -> Self {
        let server = loaded.address.server.to_string();
        Self {
            server: server.trim_end_matches('/').to_owned(),
            ca: loaded.trust.ca.as_deref().map(pem),
            server_name: loaded.address.server_name.clone(),
        }
    }
}

fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let mut pem = String::new();
    for certificate in certificates {
        let text = STANDARD.encode(certificate);
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        for (at, character) in text.chars().enumerate() {
            if at > 0 && at % PEM_LINE_CHARS == 0 {
                pem.push('\n');
            }
            pem.push(character);
        }
        pem.push_str("\n-----END CERTIFICATE-----\n");
    }
    pem
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn certificates_survive_their_text() {
        let certificates: Vec<_> = [1_usize, 48, 49, 500]
            .map(|len| CertificateDer::from(vec![7; len]))
            .to_vec();
        let text = pem(&certificates);
        assert!(text.lines().all(|line| line.len() <= PEM_LINE_CHARS));
        let read = CertificateDer::pem_slice_iter(text.as_bytes());
        assert_eq!(read.collect::<Result<Vec<_>, _>>().unwrap(), certificates);
    }
}
