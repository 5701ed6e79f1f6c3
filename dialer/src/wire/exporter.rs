//! Exported keying material of the inner TLS (RFC 8446, 7.5). rustls exports it from buffered
//! connections only. For unbuffered ones its key log provides the exporter secret, which stays in
//! this file.

use std::{fmt, sync::Mutex};

use aws_lc_rs::{
    digest::{self, digest},
    error::Unspecified,
    hkdf,
};
use rustls::KeyLog;
use secrecy::{ExposeSecret, SecretSlice};

use super::resume::ResumeSecret;
use crate::{link::frame::SessionId, sync::lock};

/// Exporter label of the resumption secret.
const LABEL: &[u8] = b"EXPORTER-fairlead-resumption";

/// Key log of one connection.
#[derive(Default)]
pub(super) struct Exporter(Mutex<Option<SecretSlice<u8>>>);

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter(..)")
    }
}

impl KeyLog for Exporter {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if self.will_log(label) {
            *lock(&self.0) = Some(secret.to_vec().into());
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }
}

impl Exporter {
    /// Derives the resumption secret of a session.
    ///
    /// # Errors
    ///
    /// Before the handshake is done.
    pub(super) fn export(&self, session: &SessionId) -> Result<ResumeSecret, rustls::Error> {
        let master = lock(&self.0);
        let master = master.as_ref().ok_or(rustls::Error::HandshakeNotComplete)?;
        let failed = |_: Unspecified| rustls::Error::General("no secret can be made".to_owned());
        export(master.expose_secret(), session).map_err(failed)
    }
}

/// TLS-Exporter(LABEL, session, 32).
fn export(master: &[u8], session: &SessionId) -> Result<ResumeSecret, Unspecified> {
    // A secret is as long as the hash of its cipher suite.
    let (hash, hkdf) = match master.len() {
        32 => (&digest::SHA256, hkdf::HKDF_SHA256),
        48 => (&digest::SHA384, hkdf::HKDF_SHA384),
        _ => return Err(Unspecified),
    };
    let mut of_label = [0; 48];
    let of_label = of_label.get_mut(..master.len()).ok_or(Unspecified)?;
    expand((hkdf, master), LABEL, digest(hash, &[]).as_ref(), of_label)?;
    let mut secret = [0; 32];
    let context = digest(hash, session);
    expand((hkdf, of_label), b"exporter", context.as_ref(), &mut secret)?;
    Ok(ResumeSecret::new(secret))
}

/// HKDF-Expand-Label (RFC 8446, 7.1).
fn expand(
    (algorithm, secret): (hkdf::Algorithm, &[u8]),
    label: &[u8],
    context: &[u8],
    out: &mut [u8],
) -> Result<(), Unspecified> {
    const PREFIX: &[u8] = b"tls13 ";
    let size = u16::try_from(out.len()).map_err(|_| Unspecified)?;
    let byte = |size: usize| u8::try_from(size).map_err(|_| Unspecified);
    let prk = hkdf::Prk::new_less_safe(algorithm, secret);
    let info: [&[u8]; 6] = [
        &size.to_be_bytes(),
        &[byte(PREFIX.len() + label.len())?],
        PREFIX,
        label,
        &[byte(context.len())?],
        context,
    ];
    prk.expand(&info, Size(out.len()))?.fill(out)
}

struct Size(usize);

impl hkdf::KeyType for Size {
    fn len(&self) -> usize {
        self.0
    }
}
