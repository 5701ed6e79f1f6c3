//! Registration of a cluster, which distinguishes it from an earlier cluster with the same id.
//!
//! It is the first half of the serial number of every certificate issued to the cluster. So an identity ends with its
//! registration, independent of clocks.

use fairlead_api::hex;
use rcgen::SerialNumber;

use crate::{error::CertsError, tls::internal};

const REGISTRATION_BYTES: usize = 8;
const EPOCH_BYTES: usize = 4;
const RANDOM_BYTES: usize = 8;
/// Characters of a serial number without and with an epoch, in hexadecimal.
const SERIAL_CHARS: usize = 2 * (REGISTRATION_BYTES + RANDOM_BYTES);
const SERIAL_WITH_EPOCH_CHARS: usize = SERIAL_CHARS + 2 * EPOCH_BYTES;

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
        matches!(serial.len(), SERIAL_CHARS | SERIAL_WITH_EPOCH_CHARS)
            && serial.starts_with(&hex::encode(&self.0))
    }

    /// Start of the serial numbers of this registration in an epoch of the hub's store.
    #[must_use]
    pub const fn in_epoch(self, epoch: u32) -> SerialPrefix {
        SerialPrefix {
            registration: self,
            epoch,
        }
    }
}

/// Start of the serial numbers of one registration in one epoch of the hub's store. A restore begins a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SerialPrefix {
    registration: Registration,
    epoch: u32,
}

impl SerialPrefix {
    /// Epoch of a serial number in lower-case hexadecimal; 0 before the first restore.
    #[must_use]
    pub fn epoch_of(serial: &str) -> u32 {
        let start = 2 * REGISTRATION_BYTES;
        let epoch = serial
            .get(start..start + 2 * EPOCH_BYTES)
            .filter(|_| serial.len() == SERIAL_WITH_EPOCH_CHARS);
        epoch.map_or(0, |epoch| u32::from_str_radix(epoch, 16).unwrap_or(0))
    }

    /// Generates a new serial number, of 20 bytes at most (RFC 5280, section 4.1.2.2).
    pub(crate) fn serial(&self) -> Result<SerialNumber, CertsError> {
        let mut serial = self.registration.0.to_vec();
        if self.epoch != 0 {
            serial.extend_from_slice(&self.epoch.to_be_bytes());
        }
        serial.extend_from_slice(&random::<RANDOM_BYTES>()?);
        Ok(SerialNumber::from(serial))
    }
}

impl From<Registration> for SerialPrefix {
    fn from(registration: Registration) -> Self {
        registration.in_epoch(0)
    }
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], CertsError> {
    let mut bytes = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| internal("no random numbers"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_has_registration_and_epoch() {
        let registration = Registration::random().unwrap();
        let other = Registration::random().unwrap();
        for epoch in [0, 1, u32::MAX] {
            let serial = registration.in_epoch(epoch).serial().unwrap();
            assert!(serial.len() <= 20);
            let text = hex::encode(&serial.to_bytes());
            assert!(registration.issued(&text) && !other.issued(&text));
            assert_eq!(SerialPrefix::epoch_of(&text), epoch);
        }
        for text in ["", "00", "zz", &"z".repeat(SERIAL_WITH_EPOCH_CHARS)] {
            assert_eq!(SerialPrefix::epoch_of(text), 0);
        }
    }
}
