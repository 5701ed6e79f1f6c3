//! Registration of a cluster, which distinguishes it from an earlier cluster with the same id.
//!
//! It is the first half of the serial number of every certificate issued to the cluster. So an identity ends with its
//! registration, independent of clocks.

use fairlead_api::hex;
use rcgen::SerialNumber;

use crate::{error::CertsError, tls::internal};

const REGISTRATION_BYTES: usize = 8;

/// One registration of a cluster: 63 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registration([u8; REGISTRATION_BYTES]);

impl Registration {
    /// Generates a registration.
    ///
    /// # Errors
    /// `FL-5101` if the machine has no random numbers.
    pub fn random() -> Result<Self, CertsError> {
        let mut bytes = random::<REGISTRATION_BYTES>()?;
        // Serial numbers are positive, and of the same length with and without leading zeros (RFC 5280, section
        // 4.1.2.2).
        if let Some(first) = bytes.first_mut() {
            *first = (*first & 0x7f) | 0x40;
        }
        Ok(Registration(bytes))
    }

    /// Restores a stored registration.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; REGISTRATION_BYTES]) -> Self {
        Registration(bytes)
    }

    /// The bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; REGISTRATION_BYTES] {
        &self.0
    }

    /// Whether a certificate with this serial number (lower-case hexadecimal) was issued to this registration.
    #[must_use]
    pub fn issued(&self, serial: &str) -> bool {
        serial.len() == 4 * REGISTRATION_BYTES && serial.starts_with(&hex::encode(&self.0))
    }

    /// Generates a new serial number.
    pub(crate) fn serial(&self) -> Result<SerialNumber, CertsError> {
        let mut serial = self.0.to_vec();
        serial.extend_from_slice(&random::<REGISTRATION_BYTES>()?);
        Ok(SerialNumber::from(serial))
    }
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], CertsError> {
    let mut bytes = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| internal("no random numbers"))?;
    Ok(bytes)
}
