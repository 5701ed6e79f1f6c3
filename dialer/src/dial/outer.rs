//! The outer TLS of a dial.

use std::{io, sync::Arc};

use fairlead_api::{Code, HubUrl};
use rustls::{CertificateError, pki_types::ServerName};

use super::{
    error::{DialError, DialStage, OutOfDate},
    path_stream::PathStream,
};
use crate::{
    input_gate::InputGate,
    limits::OUTER_TLS_BUFFER_BYTES,
    tls::{ClientTls, explain},
};

const WRONG_NAME: &str = "Dial the hub by a name of its certificate, or give it a certificate with this name; check DNS, since another server may answer.";

pub(super) async fn outer_tls(
    config: &Arc<rustls::ClientConfig>,
    hub: &HubUrl,
    stream: PathStream,
) -> Result<InputGate<ClientTls<PathStream>>, DialError> {
    let name = ServerName::try_from(hub.host().to_owned())
        .map_err(|error| DialError::new(DialStage::Tls, Code::DialTls, error))?;
    let connecting = ClientTls::connect(stream, config.clone(), name);
    let mut tls = connecting.await.map_err(|error| outer_error(&error))?;
    tls.set_output_limit(OUTER_TLS_BUFFER_BYTES);
    Ok(InputGate::new(tls))
}

/// Error for a certificate that counts at this time, and not for this hub.
fn untrusted(wrong: &rustls::Error) -> DialError {
    let error = DialError::new(DialStage::Tls, Code::DialTls, explain(wrong));
    match wrong {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => error.next(WRONG_NAME),
        _ => error,
    }
}

/// Classifies a failed outer TLS handshake.
#[must_use]
pub fn outer_error(error: &io::Error) -> DialError {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(wrong @ rustls::Error::InvalidCertificate(_)) => match OutOfDate::of(wrong) {
            Some(out_of_date) => out_of_date.error(DialStage::Tls),
            None => untrusted(wrong),
        },
        Some(rustls::Error::InvalidMessage(_)) => {
            let cause = "the peer does not speak TLS";
            DialError::new(DialStage::Tls, Code::DialProtocol, cause)
        }
        Some(other) => DialError::new(DialStage::Tls, Code::DialProtocol, other),
        None => DialError::new(DialStage::Tls, Code::SessionBroke, error),
    }
}
