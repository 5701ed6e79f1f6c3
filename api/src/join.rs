//! The join string: one opaque text that holds all an agent needs to find its hub, to know it for certain, and to
//! enrol once. `fl1.` + base64url (no padding) of the payload + the first four bytes of the payload's checksum.
//!
//! Payload, every length one byte before its field: 32 bytes CA pin, token, number of URLs, URLs.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

/// The longest join string that is looked at, in bytes.
pub const MAX_LEN: usize = 4096;
const VERSION: &str = "fl1.";
const MAX_URLS: usize = 8;

/// SHA-256 of the SubjectPublicKeyInfo of the hub's certificate authority (the pin of RFC 7469).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CaPin(pub [u8; 32]);

impl fmt::Debug for CaPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Display for CaPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for CaPin {
    type Err = JoinError;
    fn from_str(text: &str) -> Result<Self, JoinError> {
        let bytes = text
            .strip_prefix("sha256:")
            .and_then(|hash| URL_SAFE_NO_PAD.decode(hash).ok());
        bytes
            .and_then(|b| b.try_into().ok())
            .map(CaPin)
            .ok_or(JoinError::Encoding)
    }
}

/// Where a hub is: `https://host[:port]`, nothing behind it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HubUrl {
    host: String,
    port: u16,
}

impl HubUrl {
    /// The name or address alone; an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` as it stands in a Host header or a CONNECT request.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority();
        write!(
            f,
            "https://{}",
            authority.strip_suffix(":443").unwrap_or(&authority)
        )
    }
}

impl fmt::Debug for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for HubUrl {
    type Err = JoinError;
    fn from_str(text: &str) -> Result<Self, JoinError> {
        let bad = || JoinError::Url(text.to_owned());
        let rest = text.strip_prefix("https://").ok_or_else(bad)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = if let Some(v6) = rest.strip_prefix('[') {
            let (host, port) = v6.split_once(']').ok_or_else(bad)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
            (
                host,
                if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':').ok_or_else(bad)?)
                },
            )
        } else {
            rest.split_once(':')
                .map_or((rest, None), |(host, port)| (host, Some(port)))
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        if host.is_empty() || host.len() > 253 || !host.chars().all(allowed) {
            return Err(bad());
        }
        let port = match port {
            None => 443,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(bad)?,
        };
        Ok(HubUrl {
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

impl TryFrom<String> for HubUrl {
    type Error = JoinError;
    fn try_from(text: String) -> Result<Self, JoinError> {
        text.parse()
    }
}

impl From<HubUrl> for String {
    fn from(url: HubUrl) -> Self {
        url.to_string()
    }
}

/// Why a text is not a join string, or not a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("a join string starts with {VERSION}")]
    Version,
    #[error("it is longer than {MAX_LEN} bytes")]
    TooLong,
    #[error("it holds characters that no join string has, or was cut")]
    Encoding,
    #[error("its checksum does not match: a character was changed or lost")]
    Checksum,
    #[error("it names no hub, or more than {MAX_URLS}")]
    Hubs,
    #[error("{0:?} is not https://host[:port]")]
    Url(String),
    #[error("a part of it is longer than 255 bytes")]
    PartTooLong,
}

/// All an agent needs to enrol. Whoever holds it may enrol once in the cluster's name, so it is a secret.
#[derive(Debug, Clone)]
pub struct JoinString {
    pub hubs: Vec<HubUrl>,
    pub ca_pin: CaPin,
    pub token: SecretString,
}

impl JoinString {
    /// The text that is handed to the site operator.
    ///
    /// # Errors
    /// [`JoinError::Hubs`] or [`JoinError::PartTooLong`]: it would not read back.
    pub fn encode(&self) -> Result<SecretString, JoinError> {
        if self.hubs.is_empty() || self.hubs.len() > MAX_URLS {
            return Err(JoinError::Hubs);
        }
        let mut payload = self.ca_pin.0.to_vec();
        let mut put = |part: &str| {
            payload.push(u8::try_from(part.len()).map_err(|_| JoinError::PartTooLong)?);
            payload.extend_from_slice(part.as_bytes());
            Ok(())
        };
        put(self.token.expose_secret())?;
        for hub in &self.hubs {
            put(&hub.to_string())?;
        }
        payload.extend_from_slice(&checksum(&payload));
        Ok(format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(payload)).into())
    }
}

impl FromStr for JoinString {
    type Err = JoinError;
    fn from_str(text: &str) -> Result<Self, JoinError> {
        let text = text.trim();
        if text.len() > MAX_LEN {
            return Err(JoinError::TooLong);
        }
        let encoded = text.strip_prefix(VERSION).ok_or(JoinError::Version)?;
        let bytes = URL_SAFE_NO_PAD
            .decode(encoded)
            .map_err(|_| JoinError::Encoding)?;
        let (payload, sum) = bytes.split_last_chunk::<4>().ok_or(JoinError::Encoding)?;
        if checksum(payload) != *sum {
            return Err(JoinError::Checksum);
        }
        let (pin, rest) = payload
            .split_first_chunk::<32>()
            .ok_or(JoinError::Encoding)?;
        let mut parts = Parts(rest);
        let token = parts.next().ok_or(JoinError::Encoding)??.to_owned();
        let hubs = parts
            .map(|part| part?.parse())
            .collect::<Result<Vec<HubUrl>, _>>()?;
        if hubs.is_empty() || hubs.len() > MAX_URLS {
            return Err(JoinError::Hubs);
        }
        Ok(JoinString {
            hubs,
            ca_pin: CaPin(*pin),
            token: token.into(),
        })
    }
}

/// Fields of one length byte and that many bytes of text.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Result<&'a str, JoinError>;
    fn next(&mut self) -> Option<Self::Item> {
        let (&len, rest) = self.0.split_first()?;
        let Some((part, rest)) = rest.split_at_checked(usize::from(len)) else {
            self.0 = &[];
            return Some(Err(JoinError::Encoding));
        };
        self.0 = rest;
        Some(str::from_utf8(part).map_err(|_| JoinError::Encoding))
    }
}

/// CRC-32 (ISO-HDLC, as in gzip): it finds slips of the hand, it is no protection against intent.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    (!crc).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> JoinString {
        JoinString {
            hubs: vec![
                "https://hub.example.test".parse().unwrap(),
                "https://[::1]:8443".parse().unwrap(),
            ],
            ca_pin: CaPin([7; 32]),
            token: "c-demo.1.1795244000.c2VjcmV0".into(),
        }
    }

    #[test]
    fn it_reads_back_whole() {
        let text = example().encode().unwrap();
        let back: JoinString = text.expose_secret().parse().unwrap();
        assert_eq!(back.hubs, example().hubs);
        assert_eq!(back.ca_pin, example().ca_pin);
        assert_eq!(back.token.expose_secret(), example().token.expose_secret());
        assert!(
            format!("  {}\n", text.expose_secret())
                .parse::<JoinString>()
                .is_ok(),
            "spaces around it do no harm"
        );
    }

    #[test]
    fn every_single_slip_is_noticed() {
        let text = example().encode().unwrap().expose_secret().to_owned();
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert!(wrong.parse::<JoinString>().is_err(), "changed at {at}");
            assert!(text[..at].parse::<JoinString>().is_err(), "cut at {at}");
        }
    }

    #[test]
    fn its_debug_hides_the_token() {
        assert!(!format!("{:?}", example()).contains("c2VjcmV0"));
    }

    #[test]
    fn checksum_is_the_standard_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926_u32.to_be_bytes());
    }

    #[test]
    fn a_hub_url_is_https_host_and_port_only() {
        for (text, shown) in [
            ("https://hub", "https://hub"),
            ("https://Hub:443/", "https://hub"),
            ("https://10.0.0.1:8443", "https://10.0.0.1:8443"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(text.parse::<HubUrl>().unwrap().to_string(), shown);
        }
        for bad in [
            "http://hub",
            "https://",
            "https://a/b",
            "https://a@b",
            "https://a:0",
            "https://a:x",
            "https://a b",
            "https://[::1",
            "hub",
        ] {
            assert!(bad.parse::<HubUrl>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            let _ = text.parse::<JoinString>();
            let _ = format!("fl1.{text}").parse::<JoinString>();
        }

        #[test]
        fn whatever_parses_encodes_again(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let mut payload = bytes;
            payload.extend_from_slice(&checksum(&payload.clone()));
            let text = format!("fl1.{}", URL_SAFE_NO_PAD.encode(payload));
            if let Ok(join) = text.parse::<JoinString>() {
                prop_assert!(join.encode().is_ok());
            }
        }
    }
}
