//! Public keys of an API server: from JSON Web Keys (RFC 7517) to PEM, the only form that Vault
//! takes for tokens without a network path to their issuer.
//!
//! Sources: RFC 5280, section 4.1 (`SubjectPublicKeyInfo`); RFC 8017, appendix A.1.1; RFC 5480.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde::Deserialize;
use serde_json::Value;

/// Limit of keys; an API server has one, or two during a rotation.
const MAX_KEYS: usize = 16;
/// Limit of one number of a key, in bytes: RSA of 8192 bits.
const MAX_NUMBER_BYTES: usize = 1024;

/// `rsaEncryption` with parameters NULL.
const RSA: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
/// `id-ecPublicKey` with `secp256r1`.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// `id-ecPublicKey` with `secp384r1`.
const P384: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];
/// `id-ecPublicKey` with `secp521r1`.
const P521: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x23,
];

const TAG_INTEGER: u8 = 0x02;
const TAG_BIT_STRING: u8 = 0x03;
const TAG_SEQUENCE: u8 = 0x30;

/// Reported keys that Vault cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The report has another form.
    #[error("the agent reported keys of service accounts in an invalid form")]
    Form,
    /// No key is of a kind that Vault takes.
    #[error("the API server has no key of RSA, P-256, P-384 or P-521")]
    None,
    /// The settings have no such access for this cluster.
    #[error("settings of Vault: {0}")]
    Settings(String),
}

/// Keys of an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceAccountKeys {
    pub(crate) issuer: String,
    /// In PEM, without a line feed at the end, sorted: their order has no meaning.
    pub(crate) pem: Vec<String>,
}

#[derive(Deserialize)]
struct ReportedKeys {
    issuer: String,
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Reads the keys that an agent has reported. Keys of other kinds are left out.
///
/// # Errors
/// [`KeysError`]
pub(crate) fn read(reported: &Value) -> Result<ServiceAccountKeys, KeysError> {
    let reported = ReportedKeys::deserialize(reported).map_err(|_| KeysError::Form)?;
    if reported.issuer.is_empty() {
        return Err(KeysError::Form);
    }
    let keys = reported.keys.iter().take(MAX_KEYS);
    let mut pem: Vec<String> = keys.filter_map(pem_of).collect();
    pem.sort();
    pem.dedup();
    match pem.is_empty() {
        true => Err(KeysError::None),
        false => Ok(ServiceAccountKeys {
            issuer: reported.issuer,
            pem,
        }),
    }
}

fn pem_of(key: &Jwk) -> Option<String> {
    let info = match key.kty.as_str() {
        "RSA" => {
            let numbers = [integer(key.n.as_deref()?)?, integer(key.e.as_deref()?)?];
            info(RSA, &element(TAG_SEQUENCE, &numbers.concat()))
        }
        "EC" => {
            let (algorithm, length) = match key.crv.as_deref()? {
                "P-256" => (P256, 32),
                "P-384" => (P384, 48),
                "P-521" => (P521, 66),
                _ => return None,
            };
            let (x, y) = (number(key.x.as_deref()?)?, number(key.y.as_deref()?)?);
            if x.len() != length || y.len() != length {
                return None;
            }
            // An uncompressed point.
            info(algorithm, &[&[0x04], &x[..], &y[..]].concat())
        }
        _ => return None,
    };
    let text = STANDARD.encode(info);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    let lines = lines.join("\n");
    Some(format!(
        "-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----"
    ))
}

fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    (!bytes.is_empty() && bytes.len() <= MAX_NUMBER_BYTES).then_some(bytes)
}

/// A positive `INTEGER`.
fn integer(text: &str) -> Option<Vec<u8>> {
    let bytes = number(text)?;
    let zeros = bytes.iter().take_while(|it| **it == 0).count();
    let bytes = bytes.get(zeros..).filter(|it| !it.is_empty())?;
    let is_negative = bytes.first().is_some_and(|it| it & 0x80 != 0);
    let sign: &[u8] = if is_negative { &[0] } else { &[] };
    Some(element(TAG_INTEGER, &[sign, bytes].concat()))
}

/// `SubjectPublicKeyInfo`
fn info(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let bits = element(TAG_BIT_STRING, &[&[0], key].concat());
    element(TAG_SEQUENCE, &[algorithm, &bits[..]].concat())
}

/// One element of DER. Content stays below 64 KiB: [`MAX_NUMBER_BYTES`] bounds it.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    let mut bytes = vec![tag];
    match (high, low) {
        (0, 0..=0x7f) => bytes.push(low),
        (0, _) => bytes.extend([0x81, low]),
        _ => bytes.extend([0x82, high, low]),
    }
    bytes.extend_from_slice(content);
    bytes
}

#[cfg(test)]
mod tests;
