//! What tells a cluster from one that had its id before. It stands at the start of the serial number of every certificate
//! issued to it, so that an identity ends with its registration, whatever the clocks say.

use fairlead_api::{Failure, hex};
use rcgen::SerialNumber;

use crate::tls::internal;

const LEN: usize = 8;

/// One registration of a cluster: 63 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registration([u8; LEN]);

impl Registration {
    /// A new one, like no other.
    ///
    /// # Errors
    /// `FL-5101` if the machine has no random numbers.
    pub fn random() -> Result<Self, Failure> {
        let mut bytes = random::<LEN>()?;
        // Serial numbers are positive, and of the same length whether or not leading zeros are left out
        // (RFC 5280, section 4.1.2.2).
        if let Some(first) = bytes.first_mut() {
            *first = (*first & 0x7f) | 0x40;
        }
        Ok(Registration(bytes))
    }

    /// As it was kept.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; LEN]) -> Self {
        Registration(bytes)
    }

    /// As it is to be kept.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// Whether a certificate with this serial number (lower-case hexadecimal) was issued to this registration.
    #[must_use]
    pub fn issued(&self, serial: &str) -> bool {
        serial.len() == 4 * LEN && serial.starts_with(&hex::encode(&self.0))
    }

    /// A serial number that was not given before.
    pub(crate) fn serial(&self) -> Result<SerialNumber, Failure> {
        let mut serial = self.0.to_vec();
        serial.extend_from_slice(&random::<LEN>()?);
        Ok(SerialNumber::from(serial))
    }
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| internal("no random numbers"))?;
    Ok(bytes)
}
