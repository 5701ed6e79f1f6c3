//! Adoption of an agent without a join string: `POST /agent/v1/adopt`, the second route of a session without identity. The
//! agent repeats the request until a person has decided; the key of its certificate request is its name meanwhile.

use std::{fmt, str::FromStr};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{ClusterUid, secret::exposed};

/// Path of the announcement.
pub const ADOPT_PATH: &str = "/agent/v1/adopt";

/// Digits of Crockford's base32: no I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Characters of a code, without the dash.
const CODE_CHARS: usize = 8;

/// Body of `POST /agent/v1/adopt`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoptRequest {
    /// PKCS#10 request in PEM, signed by the key that is to be adopted.
    pub csr: String,
    /// Version of the agent.
    pub agent_version: String,
    /// Version of the API server, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// UID of the cluster, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<ClusterUid>,
}

/// Answer to an [`AdoptRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    tag = "state",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum AdoptAnswer {
    /// Nobody has decided yet.
    Pending {
        /// Code for the person who approves.
        code: AdoptionCode,
        /// End of the code.
        #[serde(with = "time::serde::rfc3339")]
        expires: OffsetDateTime,
        /// Time until the next request, in seconds.
        poll_seconds: u32,
    },
    /// A person has approved. The token of the join string is spent for this key already.
    Approved {
        /// Join string for the usual enrolment.
        #[serde(serialize_with = "exposed")]
        join: SecretString,
    },
    /// A person has refused.
    Refused,
}

/// Short code of a pending adoption: eight characters of 5 bits each, shown as `ABCD-EFGH`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AdoptionCode([u8; 5]);

/// Error of parsing an [`AdoptionCode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a code has {CODE_CHARS} letters and digits, like 7KQX-M2VP")]
pub struct AdoptionCodeError;

impl AdoptionCode {
    /// The code of these 40 bits.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 5]) -> Self {
        AdoptionCode(bytes)
    }

    /// The 40 bits, for a comparison in constant time.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 5] {
        &self.0
    }
}

impl fmt::Display for AdoptionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e] = self.0.map(u64::from);
        let bits = a << 32 | b << 24 | c << 16 | d << 8 | e;
        for place in 0..CODE_CHARS {
            if place == CODE_CHARS / 2 {
                f.write_str("-")?;
            }
            let digit = usize::try_from(bits >> (5 * (CODE_CHARS - 1 - place)) & 31).unwrap_or(0);
            let letter = ALPHABET.get(digit).copied().unwrap_or(b'0');
            write!(f, "{}", char::from(letter))?;
        }
        Ok(())
    }
}

impl fmt::Debug for AdoptionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdoptionCode(..)")
    }
}

impl FromStr for AdoptionCode {
    type Err = AdoptionCodeError;

    /// Reads a code in any case, with look-alikes of its digits, and with dashes and spaces anywhere.
    fn from_str(text: &str) -> Result<Self, AdoptionCodeError> {
        let mut bits = 0_u64;
        let mut count = 0;
        for c in text.chars().filter(|c| !matches!(c, '-' | ' ')) {
            let c = match c.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                c => c,
            };
            let digit = ALPHABET.iter().position(|it| char::from(*it) == c);
            let digit = digit.and_then(|it| u64::try_from(it).ok());
            count += 1;
            if count > CODE_CHARS {
                return Err(AdoptionCodeError);
            }
            bits = bits << 5 | digit.ok_or(AdoptionCodeError)?;
        }
        let [_, _, _, bytes @ ..] = bits.to_be_bytes();
        match count == CODE_CHARS {
            true => Ok(AdoptionCode(bytes)),
            false => Err(AdoptionCodeError),
        }
    }
}

impl TryFrom<String> for AdoptionCode {
    type Error = AdoptionCodeError;

    fn try_from(text: String) -> Result<Self, AdoptionCodeError> {
        text.parse()
    }
}

impl From<AdoptionCode> for String {
    fn from(code: AdoptionCode) -> Self {
        code.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn code_is_read_as_people_type_it() {
        let code: AdoptionCode = "01AB-CDEF".parse().unwrap();
        for typed in ["oiab cdef", "0LABCDEF", " 01ab-cdef ", "O1-AB-CD-EF"] {
            assert!(typed.parse() == Ok(code), "{typed}");
        }
        for wrong in [
            "",
            "01AB-CDE",
            "01AB-CDEFG",
            "01AB-CDE!",
            "UUUU-UUUU",
            "01AB-CDEé",
        ] {
            assert!(wrong.parse::<AdoptionCode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn logs_of_a_code_hide_it() {
        let code = AdoptionCode::from_bytes([1, 2, 3, 4, 5]);
        assert_eq!(format!("{code:?}"), "AdoptionCode(..)");
    }

    proptest! {
        #[test]
        fn every_code_reads_back(bytes: [u8; 5]) {
            let code = AdoptionCode::from_bytes(bytes);
            let shown = code.to_string();
            prop_assert_eq!(shown.len(), 9);
            prop_assert!(shown.parse() == Ok(code));
        }
    }
}
